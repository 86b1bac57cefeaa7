//! A step of the quantisation slider, and the list of all quantisations. `cargo bench --bench quantise`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

use divan::Bencher;
use plimsoll::gguf::FileType;
use plimsoll::model::Model;

fn main() {
    divan::main();
}

const MODELS: [&str; 3] = ["llama3.1-8b", "qwen3-coder-next", "glm-4.5-air"];

#[divan::bench(args = MODELS)]
fn one_step(bencher: Bencher<'_, '_>, name: &str) {
    let model = Model::from_header(support::model(name), name).unwrap();
    bencher.bench(|| model.quantised(FileType::Q4KM).unwrap());
}

#[divan::bench(args = MODELS)]
fn whole_list(bencher: Bencher<'_, '_>, name: &str) {
    let model = Model::from_header(support::model(name), name).unwrap();
    bencher.bench(|| model.quantisations());
}
