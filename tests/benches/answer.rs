//! Limits, changes and thresholds; the `largest` bench times single limits and the matrix. `cargo bench --bench answer`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../fixtures.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod fixtures;

use divan::Bencher;
use fixtures::{machine, model, server};
use plimsoll::answer::Goal;
use plimsoll::answer::together::LoadRequest;
use plimsoll::answer::together::sets::ResidentSets;
use plimsoll::command::Router;
use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::machine::{Machine, Ram, presets};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

/// Engine, model that does not quite fit, number of GPUs, and GiB of each.
const SPLIT: [(EngineId, &str, usize, u64); 5] = [
    (EngineId::Ollama024, "llama3.1-8b", 1, 8),
    (EngineId::Ollama, "llama3.1-8b", 1, 8),
    (EngineId::LlamaCpp, "llama3.1-8b", 1, 8),
    (EngineId::Ollama, "qwen3-235b-a22b", 4, 24),
    (EngineId::LlamaCpp, "qwen3-235b-a22b", 4, 24),
];

/// The limits of all knobs, which the screen requests after every key. Targets: 0.5 s for the 8B and 1.5 s for the
/// 235B, including marks and thresholds.
#[divan::bench(args = SPLIT, sample_count = 10, sample_size = 1)]
fn limits_of_a_split_model(bencher: Bencher<'_, '_>, (engine, name, gpus, gib): (EngineId, &str, usize, u64)) {
    let (model, machine) = (model(name), server(gpus, Bytes::gib(gib)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().unwrap();
    bencher.bench(|| request.limits(&plan));
}

/// Every change that would bring all layers of a split model onto GPUs.
#[divan::bench]
fn changes_for_a_split_model(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-70b"), server(2, Bytes::gib(24)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let request = PlanRequest::new(EngineId::Ollama024, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().unwrap();
    bencher.bench(|| request.changes(&plan, Goal::Vram));
}

/// Every context size at which a layer is lost.
#[divan::bench(args = SPLIT, sample_count = 10, sample_size = 1)]
fn thresholds_along_the_context(bencher: Bencher<'_, '_>, (engine, name, gpus, gib): (EngineId, &str, usize, u64)) {
    let (model, machine) = (model(name), server(gpus, Bytes::gib(gib)));
    let settings = Settings::default();
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    bencher.bench(|| request.thresholds(Knob::Context));
}

/// The fastest placement of a model with experts, most of them in RAM, on four cards of different speeds. Target: 2 s.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn placement_on_uneven_cards(bencher: Bencher<'_, '_>) {
    let gpus = ["RTX 4090", "RTX 3090", "RTX 3060", "RTX 4070"].map(|name| presets::find(name).unwrap().gpu());
    let ram = Ram { total: Bytes::gib(192), free: Bytes::gib(180), swap_free: Bytes::ZERO, bandwidth: None };
    let machine = Machine { ram, ..machine(gpus.to_vec()) };
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let request = PlanRequest::new(EngineId::LlamaCpp, model("qwen3-235b-a22b"), machine, settings);
    let plan = request.plan().unwrap();
    bencher.bench(|| request.placed(&plan));
}

/// All sets of ten models on one machine. Target: 1 s.
#[divan::bench(args = [(EngineId::LlamaCpp, 1), (EngineId::LlamaCpp, 2), (EngineId::Ollama, 1), (EngineId::Ollama, 2)], sample_count = 5, sample_size = 1)]
fn all_sets_of_ten_models(bencher: Bencher<'_, '_>, (engine, gpus): (EngineId, usize)) {
    let machine = server(gpus, Bytes::gib(80));
    let models = TEN.map(|name| (model(name), Settings { ctx: Context::Tokens(8192), ..Settings::default() }));
    let requests: Vec<_> = models.iter().map(|(model, settings)| LoadRequest { model, path: None, settings }).collect();
    bencher.bench(|| ResidentSets::of(&Router::None, engine, &machine, &requests));
}

const TEN: [&str; 10] = [
    "llama3.2-1b",
    "llama3.1-8b",
    "qwen3-8b",
    "gemma3-4b",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
    "qwen3-0.6b",
    "gemma2-9b",
    "gemma3-27b",
    "llama3.1-70b",
];
