//! This engine among the others.

use crate::engine::company::Reception;
use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::id::{Aim, EngineError, Launch};
use crate::engine::knobs::When;
use crate::engine::llama_cpp::settled::Settled;
use crate::engine::outlook::Outlook;
use crate::engine::request::{of_one_computer, one_computer};
use crate::engine::{Engine, ollama};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{Gist, Plan};
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release, Settings};

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

/// Ollama from 0.30.
#[derive(Debug)]
pub struct Ollama;

impl Engine for Ollama {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        of_one_computer(ollama::plan, model, machine, settings)
    }

    fn summary(&self, model: &Model, machine: &Machine, settings: &Settings, aim: Aim) -> Result<Gist, EngineError> {
        ollama::gist(model, &one_computer(machine), settings, aim)
    }

    fn outlook(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Outlook>, EngineError> {
        ollama::outlook(model, &one_computer(machine), settings).map(Some)
    }

    fn launch(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Launch>, EngineError> {
        ollama::launch(model, &one_computer(machine), settings).map(Some)
    }

    fn settled(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Option<Settled>, EngineError> {
        ollama::settled(model, &one_computer(machine), settings).map(Some)
    }

    fn admit(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
        let objection = ollama::objection(model, &one_computer(machine), settings)?;
        objection.map_or_else(|| self.plan(model, machine, settings).map(Reception::welcome), Ok)
    }

    fn rule_edges(&self, knob: Knob, settings: &Settings) -> Vec<u64> {
        ollama::edges(knob, settings)
    }
}
