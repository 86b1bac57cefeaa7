//! llama.cpp's memory, which is planned after each key press. `cargo bench --bench llama_cpp` Compared with llama.cpp
//! itself: `PLIMSOLL_ORACLE=PROGRAM cargo bench --bench llama_cpp`, with a program as described in [`oracle`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a bench that cannot start should say so")]

#[path = "../support.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;

#[path = "oracle.rs"]
mod oracle;

use divan::Bencher;
use std::sync::Arc;

use plimsoll::engine::ggml::backend::Cuda;
use plimsoll::engine::llama_cpp::context::ContextParams;
use plimsoll::engine::llama_cpp::fit::{FitLimits, fit};
use plimsoll::engine::llama_cpp::{Device, LayerSplit, LoadedModel, Reservation};
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::machine::{self, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::settings::{Context, Release, Settings};
use plimsoll::units::Bytes;

const CASES: [(&str, usize); 2] = [("llama3.1-8b", 1), ("qwen3-235b-a22b", 4)];

fn main() {
    oracle::compare(&CASES, |gpus| devices(gpus, 48));
    divan::main();
}

fn devices(gpus: usize, gib: u64) -> Vec<Device> {
    vec![Device { backend: Arc::new(Cuda::default()), free: gib << 30 }; gpus]
}

/// Graph, schedule and buffers. Targets: 1.5 ms for an 8B model on one GPU, 3 ms for a 235B model on four.
#[divan::bench(args = CASES)]
fn measure(bencher: Bencher<'_, '_>, (name, gpus): (&str, usize)) {
    let header = support::model(name);
    let options = ContextParams { n_ctx: 32_768, ..ContextParams::default() };
    let devices = devices(gpus, 48);
    let loaded = LoadedModel::new(&header, Release::default()).unwrap();
    bencher.bench(|| loaded.measure(&devices, &LayerSplit::default(), &options, Reservation::Measured).unwrap());
}

/// The work done once per model.
#[divan::bench(args = ["llama3.1-8b", "qwen3-235b-a22b"])]
fn load(bencher: Bencher<'_, '_>, name: &str) {
    let header = support::model(name);
    bencher.bench(|| LoadedModel::new(&header, Release::default()).unwrap());
}

/// A fit needs many measurements.
#[divan::bench(args = [("llama3.1-8b", 1, 6), ("qwen3-235b-a22b", 4, 24)])]
fn fits(bencher: Bencher<'_, '_>, (name, gpus, gib): (&str, usize, u64)) {
    let loaded = LoadedModel::new(&support::model(name), Release::default()).unwrap();
    let limits = FitLimits { margins: vec![1 << 30; gpus], min_ctx: 4096, ram: 1 << 40 };
    let devices = devices(gpus, gib);
    bencher.bench(|| fit(&loaded, &devices, &LayerSplit::default(), &ContextParams::default(), &limits).unwrap());
}

/// A complete plan with its tensors at the peak; everything fits, so the fit changes nothing.
#[divan::bench(args = CASES)]
fn plans(bencher: Bencher<'_, '_>, (name, gpus): (&str, usize)) {
    let model = PreparedModel::from(Model::from_header(support::model(name), name).unwrap());
    let memory = Bytes::gib(96);
    let card = Gpu::of("card", machine::Backend::Cuda, memory);
    let gpu = Gpu { compute: Some((9, 0)), driver_major: Some(12), ..card };
    let machine = Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: vec![gpu; gpus],
        ram: Ram { total: Bytes::gib(512), free: Bytes::gib(500), swap_free: Bytes::ZERO, bandwidth: None },
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    bencher.bench(|| engine::plan(EngineId::LlamaCpp, &model, &machine, &settings).unwrap());
}
