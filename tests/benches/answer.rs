//! How long the other answers take; how far a knob can go and what fits where are timed by `largest`.
//! `cargo bench --bench answer`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../given.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod given;

use divan::Bencher;
use given::{model, server};
use plimsoll::answer::{Case, Goal};
use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

/// What the planner's screen asks after every key.
#[divan::bench]
fn limits_of_a_split_model(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-8b"), server(1, Bytes::gib(8)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    let plan = case.plan().unwrap();
    bencher.bench(|| case.limits(&plan));
}

/// Every change that would bring all of a split model back.
#[divan::bench]
fn changes_for_a_split_model(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-70b"), server(2, Bytes::gib(24)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    let plan = case.plan().unwrap();
    bencher.bench(|| case.changes(&plan, Goal::All));
}

/// Every place along the context where a layer is lost.
#[divan::bench]
fn cliffs_of_94_layers_4_gpus(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("qwen3-235b-a22b"), server(4, Bytes::gib(24)));
    let settings = Settings::default();
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    bencher.bench(|| case.cliffs(Knob::Context));
}
