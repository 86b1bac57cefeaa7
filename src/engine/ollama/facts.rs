//! Facts about this engine.

use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::knobs::When;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release};

/// Facts about it. Most models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &Release::ALL,
    // its batch is llama-server's ubatch too, and it has no option for outputs; the rest reaches llama-server through the
    // environment
    offers: &[
        (Knob::Context, When::Always),
        (Knob::Parallel, When::Always),
        (Knob::Quant, When::Always),
        (Knob::KvUnified, When::KvCache),
        (Knob::CacheTypeK, When::KvCache),
        (Knob::CacheTypeV, When::KvCache),
        (Knob::FlashAttn, When::KvCache),
        (Knob::Batch, When::Always),
        (Knob::Ubatch, When::Raw),
        (Knob::Outputs, When::Raw),
        (Knob::GpuLayers, When::Always),
        (Knob::CpuMoe, When::Experts),
        (Knob::TensorSplit, When::SeveralGpus),
    ],
    ignores: &[Flag::Ubatch, Flag::NoOpOffload, Flag::Outputs, Flag::FitCtx, Flag::RequireFull],
    keeps_free: KeepsFree::Overhead,
    is_ollama: true,
    starts_llama_server: true,
    estimates: false,
    ctx_is_total: false,
    counts_projectors: true,
    places_output_last: false,
    uses_other_computers: false,
    evicts: true,
    most_loaded_per_gpu: Some(3),
};
