//! Facts about this engine.

use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::knobs::When;
use crate::settings::Flag;
use crate::settings::knob::Knob;

/// Facts about it. Most models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &[],
    offers: &[
        (Knob::Context, When::Always),
        (Knob::Parallel, When::Always),
        (Knob::Quant, When::Always),
        (Knob::CacheType, When::Always),
        (Knob::FlashAttn, When::Always),
        (Knob::Batch, When::Always),
        (Knob::GpuLayers, When::Always),
    ],
    ignores: &[
        Flag::Ubatch,
        Flag::KvUnified,
        Flag::NoKvOffload,
        Flag::NoOpOffload,
        Flag::SwaFull,
        Flag::TensorSplit,
        Flag::Outputs,
        Flag::FitTarget,
        Flag::FitCtx,
        Flag::CpuMoe,
        Flag::Release,
    ],
    keeps_free: KeepsFree::Overhead,
    is_ollama: true,
    starts_llama_server: false,
    estimates: true,
    ctx_is_total: false,
    counts_projectors: false,
    places_output_last: false,
    uses_other_computers: false,
    evicts: true,
    most_loaded_per_gpu: Some(3),
};
