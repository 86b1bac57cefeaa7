//! The list of models: the plan and the largest context of each.
//!
//! `cargo bench --bench library`. Targets: 150 ms for 60 models with any engine; for the whole catalogue with Ollama 1 s on
//! one card, and 2 s on two cards or a Mac; with llama.cpp 3 s.
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
use plimsoll::catalogue;
use plimsoll::engine::EngineId;
use plimsoll::library::{self, Item, ModelStatus, SurveyRequest};
use plimsoll::machine::Machine;
use plimsoll::settings::Settings;
use plimsoll::source::Roots;
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

fn question(engine: &str, machine: Machine) -> SurveyRequest {
    SurveyRequest {
        minimums: plimsoll::answer::best::Minimums::default(),
        engine: engine.parse::<EngineId>().unwrap(),
        machine: Arc::new(machine),
        settings: Settings::default(),
        quant: None,
    }
}

/// Plans models that have not been read before.
fn plan_all(items: &[Arc<Item>], question: &SurveyRequest) {
    let whole = AtomicUsize::new(0);
    library::survey(items, question, &Roots::default(), &|_, look| {
        whole.fetch_add(usize::from(matches!(look, ModelStatus::Complete(..))), Ordering::Relaxed);
        true
    });
    assert_eq!(whole.into_inner(), items.len());
}

fn items(most: usize) -> Vec<Arc<Item>> {
    catalogue::all().iter().take(most).map(|entry| Arc::new(Item::built_in(entry, None))).collect()
}

#[divan::bench(args = ["ollama-0.24", "ollama", "llama.cpp"])]
fn sixty_models(bencher: Bencher<'_, '_>, engine: &str) {
    let question = question(engine, fixtures::server(1, Bytes::gib(24)));
    bencher.with_inputs(|| items(60)).bench_values(|items| plan_all(&items, &question));
}

/// One card, two, and a Mac.
const MACHINES: [&[&str]; 3] = [&["RTX 3090"], &["RTX 3090", "RTX 3060"], &["M3 Max 64GB"]];

#[divan::bench(args = MACHINES, consts = [false, true], sample_count = 3, sample_size = 1)]
fn whole_catalogue<const OF_LLAMA_CPP: bool>(bencher: Bencher<'_, '_>, gpus: &[&str]) {
    let engine = if OF_LLAMA_CPP { "llama.cpp" } else { "ollama" };
    let question = question(engine, Machine::described(gpus, "64GiB").unwrap());
    bencher.with_inputs(|| items(usize::MAX)).bench_values(|items| plan_all(&items, &question));
}
