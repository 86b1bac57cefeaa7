//! How long answers take: `m` and the matrix wait for them. `cargo bench --bench answer`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "case.rs"]
mod case;

use case::{machine, model};
use divan::Bencher;
use plimsoll::answer::matrix::Axis;
use plimsoll::answer::{Case, Goal};
use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, FlashAttn, Settings};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

/// The largest value of a knob for 94 layers on 4 GPUs that just hold them; the bar is 30 ms.
#[divan::bench(args = ["ctx", "parallel", "batch", "gpu-layers"])]
fn max_94_layers_4_gpus(bencher: Bencher<'_, '_>, name: &str) {
    let knob = Knob::ALL.into_iter().find(|knob| knob.name() == name).unwrap();
    let (model, machine) = (model("qwen3-235b-a22b"), machine(4, Bytes::gib(48)));
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    assert!(case.largest(knob, Goal::All).is_some());
    bencher.bench(|| case.largest(knob, Goal::All));
}

/// What the planner's screen asks after every key.
#[divan::bench]
fn limits_of_a_split_model(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-8b"), machine(1, Bytes::gib(8)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    let plan = case.plan().unwrap();
    bencher.bench(|| case.limits(&plan));
}

/// Every change that would bring all of a split model back.
#[divan::bench]
fn changes_for_a_split_model(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-70b"), machine(2, Bytes::gib(24)));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    let plan = case.plan().unwrap();
    bencher.bench(|| case.changes(&plan, Goal::All));
}

/// The largest of thirty quantisations of 80 layers that fits on 2 GPUs.
#[divan::bench]
fn max_quantisation_70b(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-70b"), machine(2, Bytes::gib(24)));
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    assert!(case.largest_quantisation(Goal::All).found.is_some());
    bencher.bench(|| case.largest_quantisation(Goal::All));
}

/// Every place along the context where a layer is lost.
#[divan::bench]
fn cliffs_of_94_layers_4_gpus(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("qwen3-235b-a22b"), machine(4, Bytes::gib(24)));
    let settings = Settings::default();
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    bencher.bench(|| case.cliffs(Knob::Context));
}

/// 12 contexts by 6 numbers of sequences; the bar is 100 ms.
#[divan::bench]
fn matrix_12_by_6_llama_70b(bencher: Bencher<'_, '_>) {
    let (model, machine) = (model("llama3.1-70b"), machine(2, Bytes::gib(24)));
    let settings = Settings { flash_attn: FlashAttn::On, ..Settings::default() };
    let case = Case { engine: EngineId::Ollama024, model: &model, machine: &machine, settings: &settings };
    let axes = || (Axis::spread(Knob::Context, &case, 12), Axis::spread(Knob::Parallel, &case, 6));
    assert_eq!(case.matrix(axes().0, axes().1).cells.len(), 72);
    bencher.bench(|| case.matrix(axes().0, axes().1));
}
