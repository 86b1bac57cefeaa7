//! Facts about Ollama from 0.30.

use crate::engine::facts::{EngineFacts, ReserveSetting};
use crate::engine::knobs::KnobCondition;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release};

/// The facts. Maximum number of loaded models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &Release::ALL,
    // its batch is also llama-server's ubatch, and it has no option for outputs; llama-server reads the others from its
    // environment
    offered_knobs: &[
        (Knob::Context, KnobCondition::Always),
        (Knob::Parallel, KnobCondition::Always),
        (Knob::Quant, KnobCondition::Always),
        (Knob::KvUnified, KnobCondition::KvCache),
        (Knob::CacheType, KnobCondition::OneCacheType),
        (Knob::CacheTypeK, KnobCondition::TwoCacheTypes),
        (Knob::CacheTypeV, KnobCondition::TwoCacheTypes),
        (Knob::FlashAttn, KnobCondition::KvCache),
        (Knob::Batch, KnobCondition::Always),
        (Knob::Ubatch, KnobCondition::Raw),
        (Knob::Outputs, KnobCondition::Raw),
        (Knob::GpuLayers, KnobCondition::Always),
        (Knob::CpuMoe, KnobCondition::Experts),
        (Knob::TensorSplit, KnobCondition::SeveralGpus),
        (Knob::LoadMode, KnobCondition::Always),
        (Knob::CacheRam, KnobCondition::Generates),
    ],
    ignores: &[
        Flag::Ubatch,
        Flag::NoOpOffload,
        Flag::Outputs,
        Flag::Embeddings,
        Flag::Program,
        Flag::FitCtx,
        Flag::RequireFull,
    ],
    reserve_setting: ReserveSetting::Overhead,
    is_ollama: true,
    starts_llama_server: true,
    estimates: false,
    ctx_is_total: false,
    counts_projectors: true,
    places_output_last: false,
    uses_other_computers: false,
    evicts: true,
    max_loaded_per_gpu: Some(3),
};
