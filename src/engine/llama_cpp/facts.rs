//! Facts about this engine.

use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::knobs::When;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release};

/// Facts about it.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &Release::ALL,
    offers: &[
        (Knob::Context, When::Always),
        (Knob::Parallel, When::Always),
        (Knob::Quant, When::Always),
        (Knob::KvUnified, When::KvCache),
        (Knob::CacheTypeK, When::KvCache),
        (Knob::CacheTypeV, When::KvCache),
        (Knob::FlashAttn, When::KvCache),
        (Knob::Batch, When::Always),
        (Knob::Ubatch, When::Always),
        (Knob::Outputs, When::Always),
        (Knob::GpuLayers, When::Always),
        (Knob::CpuMoe, When::Experts),
        (Knob::TensorSplit, When::SeveralGpus),
    ],
    ignores: &[Flag::GpuOverhead, Flag::Adapters, Flag::Spread, Flag::RequireFull],
    keeps_free: KeepsFree::FitTarget,
    is_ollama: false,
    starts_llama_server: false,
    estimates: false,
    ctx_is_total: true,
    counts_projectors: false,
    places_output_last: false,
    uses_other_computers: true,
    evicts: false,
    most_loaded_per_gpu: None,
};
