//! The list of models: the plan and the largest context of each.
//!
//! `cargo bench --bench library`. Target: 150 ms for 60 models with any engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../fixtures.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod fixtures;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use divan::Bencher;
use plimsoll::engine::EngineId;
use plimsoll::library::{self, Item, ModelStatus, SurveyRequest};
use plimsoll::settings::Settings;
use plimsoll::source::catalogue;
use plimsoll::source::{ExplicitKnobs, Roots};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

/// Models that have not been read before.
#[divan::bench(args = ["ollama-0.24", "ollama", "llama.cpp"])]
fn sixty_models(bencher: Bencher<'_, '_>, engine: &str) {
    let question = SurveyRequest {
        floors: plimsoll::answer::best::Floors::default(),
        engine: engine.parse::<EngineId>().unwrap(),
        machine: Arc::new(fixtures::server(1, Bytes::gib(24))),
        settings: Settings::default(),
        held: ExplicitKnobs::default(),
        quant: None,
    };
    let items =
        || catalogue::all().iter().take(60).map(|entry| Arc::new(Item::built_in(entry, None))).collect::<Vec<_>>();
    bencher.with_inputs(items).bench_values(|items| {
        let whole = AtomicUsize::new(0);
        library::survey(&items, &question, &Roots::default(), &|_, look| {
            whole.fetch_add(usize::from(matches!(look, ModelStatus::Complete(..))), Ordering::Relaxed);
            true
        });
        assert_eq!(whole.into_inner(), items.len());
    });
}
