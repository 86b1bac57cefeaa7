//! The [`Engine`] implementation.

use std::borrow::Cow;

use super::facts::FACTS;
use super::{ArchitectureTraits, bytes_per_element};
use crate::engine::admission::{Admission, requiring_full};
use crate::engine::facts::EngineFacts;
use crate::engine::graph_size::formulas::{ModelTraits, PlanFormulas};
use crate::engine::graph_size::{ModelFacts, OllamaRelease};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::engine::request::{self, on_local_gpus};
use crate::engine::{Engine, ollama_024};
use crate::gguf::Tensor;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;

/// Ollama up to 0.24.
#[derive(Debug)]
pub struct Ollama024;

impl Engine for Ollama024 {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        on_local_gpus(|model, machine, settings| ollama_024::plan(model, machine, settings), model, machine, settings)
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        let plan = self.plan(model, machine, &requiring_full(settings))?;
        Ok(plan.refusal.clone().map_or_else(|| Admission::load(plan), Admission::EvictOne))
    }

    fn loads<'m>(&self, model: &'m Model, settings: &Settings) -> Cow<'m, Model> {
        request::loads(model, settings)
    }

    fn formulas(&self, model: &Model, plan: &Plan) -> Result<Option<PlanFormulas>, EngineError> {
        let facts = ModelFacts::of(model, OllamaRelease::May2026)?;
        let ArchitectureTraits { embedding, vision, one_sequence, .. } = ArchitectureTraits::of(model, &facts);
        let traits = ModelTraits { embedding, vision, one_sequence };
        PlanFormulas::of(&facts, traits, bytes_per_element, model, plan).map(Some)
    }

    fn tensor_bytes(&self, tensor: &Tensor) -> u64 {
        OllamaRelease::May2026.tensor_bytes(tensor)
    }
}
