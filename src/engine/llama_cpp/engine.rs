//! This engine among the others.

use super::settled::Settled;
use crate::engine::company::Reception;
use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::id::{Aim, EngineError, Launch};
use crate::engine::knobs::When;
use crate::engine::outlook::Outlook;
use crate::engine::{Engine, llama_cpp};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{Gist, Plan};
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release, Settings};

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

/// llama-server itself.
#[derive(Debug)]
pub struct LlamaCpp;

impl Engine for LlamaCpp {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        llama_cpp::plan(model, machine, settings)
    }

    fn summary(&self, model: &Model, machine: &Machine, settings: &Settings, aim: Aim) -> Result<Gist, EngineError> {
        llama_cpp::gist(model, machine, settings, aim)
    }

    fn outlook(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Outlook>, EngineError> {
        llama_cpp::outlook(model, machine, settings).map(Some)
    }

    fn launch(&self, _: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Launch>, EngineError> {
        Ok(Some(Launch { options: settings.clone(), gpus: llama_cpp::visible(machine) }))
    }

    fn settled(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Settled>, EngineError> {
        llama_cpp::settled(model, machine, settings).map(Some)
    }

    /// As a server that knows nothing of the others.
    fn admit(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
        let plan = self.plan(model, machine, settings)?;
        Ok(plan.refusal.clone().map_or_else(|| Reception::welcome(plan), Reception::Refused))
    }
}
