//! How long the list of models takes: every model of the catalogue, its plan and how far its context could go.
//!
//! `cargo bench --bench shelf`. The bar: 150 ms for 60 models, by any engine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../given.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod given;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use divan::Bencher;
use plimsoll::engine::EngineId;
use plimsoll::settings::Settings;
use plimsoll::shelf::{self, Item, Look, Question};
use plimsoll::source::catalogue;
use plimsoll::source::{Held, Roots};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

/// Sixty models, read for the first time.
#[divan::bench(args = ["ollama-0.24", "ollama", "llama.cpp"])]
fn sixty_models(bencher: Bencher<'_, '_>, engine: &str) {
    let question = Question {
        engine: engine.parse::<EngineId>().unwrap(),
        machine: Arc::new(given::server(1, Bytes::gib(24))),
        settings: Settings::default(),
        held: Held::default(),
        quant: None,
    };
    let items =
        || catalogue::all().iter().take(60).map(|entry| Arc::new(Item::built_in(entry, None))).collect::<Vec<_>>();
    bencher.with_inputs(items).bench_values(|items| {
        let whole = AtomicUsize::new(0);
        shelf::survey(&items, &question, &Roots::default(), &|_, look| {
            whole.fetch_add(usize::from(matches!(look, Look::Whole(..))), Ordering::Relaxed);
            true
        });
        assert_eq!(whole.into_inner(), items.len());
    });
}
