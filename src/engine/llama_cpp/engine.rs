//! The [`Engine`] implementation, and the facts about llama-server.

use super::ResolvedRequest;
use crate::engine::admission::Admission;
use crate::engine::facts::{EngineFacts, ReserveSetting};
use crate::engine::id::{EngineError, FitGoal, Launch};
use crate::engine::knobs::KnobCondition;
use crate::engine::llama_cpp::prepared::PreparedModel;
use crate::engine::preflight::Preflight;
use crate::engine::{Engine, llama_cpp};
use crate::machine::Machine;
use crate::plan::{Plan, PlanSummary};
use crate::settings::knob::Knob;
use crate::settings::{Flag, InEffect, Release, Settings};
use crate::units::Tokens;

/// llama-server itself.
#[derive(Debug)]
pub struct LlamaCpp;

impl Engine for LlamaCpp {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        let mut plan = llama_cpp::plan(model, machine, &settings.as_program())?;
        plan.notes.extend(shares_cache(settings, &plan.settings));
        Ok(plan)
    }

    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        fit_goal: FitGoal,
    ) -> Result<PlanSummary, EngineError> {
        llama_cpp::summary(model, machine, &settings.as_program(), fit_goal)
    }

    fn preflight(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Preflight>, EngineError> {
        llama_cpp::preflight(model, machine, &settings.as_program()).map(Some)
    }

    fn launch(&self, _: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Option<Launch>, EngineError> {
        Ok(Some(Launch { options: settings.clone(), gpus: llama_cpp::visible(machine), command: None, failures: 0 }))
    }

    fn resolve(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<ResolvedRequest>, EngineError> {
        llama_cpp::resolve(model, machine, &settings.as_program()).map(Some)
    }

    /// A server that does not take other models into account.
    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        let plan = self.plan(model, machine, settings)?;
        Ok(plan.refusal.clone().map_or_else(|| Admission::load(plan), Admission::Refused))
    }
}

/// Whether several sequences share one cache, which follows from whether their number is given.
fn shares_cache(settings: &Settings, effect: &InEffect) -> Option<String> {
    let InEffect { parallel, ctx_per_sequence, ctx_total, .. } = *effect;
    let (each, all) = (Tokens(ctx_per_sequence), Tokens(ctx_total));
    match effect.kv_unified {
        _ if parallel < 2 => None,
        Some(true) if settings.parallel.is_none() => {
            Some(format!("unified KV is on, as parallel is auto: {parallel} sequences share {all} tokens"))
        }
        Some(false) => Some(format!(
            "unified KV is off, as parallel is given: each of {parallel} sequences has {each} tokens; with --kv-unified \
             each may use all {all}"
        )),
        _ => None,
    }
}

// Facts about llama-server.

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
