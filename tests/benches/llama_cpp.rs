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
use plimsoll::gguf::{Header, Tensor, Value};
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

/// Llama 3.1 8B with so many blocks, all like its first.
fn of_equal_blocks(blocks: u64) -> Header {
    let mut header = support::model("llama3.1-8b");
    let of_block = |tensor: &Tensor| tensor.name.starts_with("blk.");
    let first: Vec<Tensor> =
        header.tensors.iter().filter(|tensor| tensor.name.starts_with("blk.0.")).cloned().collect();
    header.tensors.retain(|tensor| !of_block(tensor));
    for block in 0..blocks {
        let name = |tensor: &Tensor| tensor.name.replacen("blk.0.", &format!("blk.{block}."), 1).into();
        header.tensors.extend(first.iter().map(|tensor| Tensor { name: name(tensor), ..tensor.clone() }));
    }
    let with_blocks = |(key, value): (&str, &Value)| {
        let value = if key == "llama.block_count" { Value::U64(blocks) } else { value.clone() };
        (key.into(), value)
    };
    header.metadata = header.metadata.iter().map(with_blocks).collect();
    header
}

/// A summary of a model that was read before, over its layers, with half of them on a card and with all. Target: within 1.3
/// times of one another.
#[divan::bench(args = [16, 32, 64, 128], consts = [1, 2])]
fn over_layers<const OF: u64>(bencher: Bencher<'_, '_>, blocks: u64) {
    let loaded = LoadedModel::new(&of_equal_blocks(blocks), Release::default()).unwrap();
    let options = ContextParams { n_ctx: 32_768, ..ContextParams::default() };
    let (devices, spread) =
        (devices(1, 200), LayerSplit { gpu_layers: Some((blocks + 1) / OF), ..LayerSplit::default() });
    bencher.bench(|| loaded.measure(&devices, &spread, &options, Reservation::Loaded).unwrap());
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
