//! Facts about llama-server.

use crate::engine::facts::{EngineFacts, ReserveSetting};
use crate::engine::knobs::KnobCondition;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release};

/// The facts.
pub const FACTS: EngineFacts = EngineFacts {
    releases: &Release::ALL,
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
        (Knob::Ubatch, KnobCondition::Always),
        (Knob::Outputs, KnobCondition::Always),
        (Knob::GpuLayers, KnobCondition::Always),
        (Knob::CpuMoe, KnobCondition::Experts),
        (Knob::MmprojDevice, KnobCondition::Projector),
        (Knob::ImageTokens, KnobCondition::ImageTokens),
        (Knob::TensorSplit, KnobCondition::SeveralGpus),
        (Knob::Draft, KnobCondition::Draft),
        (Knob::DraftMax, KnobCondition::Draft),
        (Knob::LoadMode, KnobCondition::Always),
        (Knob::CacheRam, KnobCondition::Generates),
    ],
    ignores: &[Flag::GpuOverhead, Flag::Adapters, Flag::Spread, Flag::RequireFull],
    reserve_setting: ReserveSetting::FitTarget,
    is_ollama: false,
    starts_llama_server: false,
    estimates: false,
    ctx_is_total: true,
    counts_projectors: true,
    places_output_last: false,
    uses_other_computers: true,
    evicts: false,
    max_loaded_per_gpu: None,
};
