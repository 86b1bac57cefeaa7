//! This engine among the others.

use super::{Traits, bytes_per_element};
use crate::engine::company::{Reception, whole};
use crate::engine::facts::{EngineFacts, KeepsFree};
use crate::engine::graph_size::formulas::{Formulas, ModelTraits};
use crate::engine::graph_size::{Facts, Release};
use crate::engine::id::EngineError;
use crate::engine::knobs::When;
use crate::engine::request::of_one_computer;
use crate::engine::{Engine, ollama_024};
use crate::gguf::Tensor;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Settings};

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

/// Ollama up to 0.24.
#[derive(Debug)]
pub struct Ollama024;

impl Engine for Ollama024 {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        of_one_computer(ollama_024::plan, model, machine, settings)
    }

    fn admit(&self, model: &Model, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
        let plan = self.plan(model, machine, &whole(settings))?;
        Ok(plan.refusal.clone().map_or_else(|| Reception::welcome(plan), Reception::OneGoes))
    }

    fn formulas(&self, model: &Model, plan: &Plan) -> Result<Option<Formulas>, EngineError> {
        let facts = Facts::of(model, Release::May2026)?;
        let Traits { embedding, vision, one_sequence, .. } = Traits::of(model, &facts);
        let traits = ModelTraits { embedding, vision, one_sequence };
        Formulas::of(&facts, traits, bytes_per_element, model, plan).map(Some)
    }

    fn tensor_bytes(&self, tensor: &Tensor) -> u64 {
        Release::May2026.tensor_bytes(tensor)
    }
}
