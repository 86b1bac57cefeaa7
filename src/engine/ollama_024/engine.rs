//! This engine among the others.

use super::facts::FACTS;
use super::{Traits, bytes_per_element};
use crate::engine::company::{Reception, whole};
use crate::engine::facts::EngineFacts;
use crate::engine::graph_size::formulas::{Formulas, ModelTraits};
use crate::engine::graph_size::{Facts, Release};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::engine::request::of_one_computer;
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
        of_one_computer(|model, machine, settings| ollama_024::plan(model, machine, settings), model, machine, settings)
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
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
