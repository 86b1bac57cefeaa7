//! Facts about Ollama up to 0.24.

use crate::engine::facts::{EngineFacts, ReserveSetting};
use crate::engine::knobs::KnobCondition;
use crate::settings::Flag;
use crate::settings::knob::Knob;

/// The facts. Maximum number of loaded models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &[],
    offered_knobs: &[
        (Knob::Context, KnobCondition::Always),
        (Knob::Parallel, KnobCondition::Always),
        (Knob::Quant, KnobCondition::Always),
        (Knob::CacheType, KnobCondition::Always),
        (Knob::FlashAttn, KnobCondition::Always),
        (Knob::Batch, KnobCondition::Always),
        (Knob::GpuLayers, KnobCondition::Always),
    ],
    ignores: &[
        Flag::Ubatch,
        Flag::KvUnified,
        Flag::NoKvOffload,
        Flag::NoOpOffload,
        Flag::SwaFull,
        Flag::TensorSplit,
        Flag::Outputs,
        Flag::Embeddings,
        Flag::Program,
        Flag::FitTarget,
        Flag::FitCtx,
        Flag::CpuMoe,
        Flag::SpecType,
        Flag::LoadMode,
        Flag::CacheRam,
        Flag::CtxCheckpoints,
        Flag::NoRepack,
        Flag::Release,
    ],
    reserve_setting: ReserveSetting::Overhead,
    is_ollama: true,
    starts_llama_server: false,
    estimates: true,
    ctx_is_total: false,
    counts_projectors: false,
    places_output_last: false,
    uses_other_computers: false,
    evicts: true,
    max_loaded_per_gpu: Some(3),
};
