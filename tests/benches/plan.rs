//! A plan, which is made after each key press. `cargo bench --bench plan`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "../fixtures.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod fixtures;

use divan::Bencher;
use fixtures::{model, server};
use plimsoll::engine::{self, EngineId};
use plimsoll::settings::{Context, Settings};
use plimsoll::units::Bytes;

fn main() {
    divan::main();
}

fn settings() -> Settings {
    Settings { ctx: Context::Tokens(32_768), ..Settings::default() }
}

/// 94 layers; 4 GPUs hold about half of them.
#[divan::bench(args = [1, 4, 64])]
fn qwen3_235b(bencher: Bencher<'_, '_>, gpus: usize) {
    let (model, machine, settings) = (model("qwen3-235b-a22b"), server(gpus, Bytes::gib(24)), settings());
    bencher.bench(|| engine::plan(EngineId::Ollama024, &model, &machine, &settings).unwrap());
}

#[divan::bench]
fn llama_8b(bencher: Bencher<'_, '_>) {
    let (model, machine, settings) = (model("llama3.1-8b"), server(1, Bytes::gib(24)), settings());
    bencher.bench(|| engine::plan(EngineId::Ollama024, &model, &machine, &settings).unwrap());
}
