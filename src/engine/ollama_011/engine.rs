//! The [`Engine`] implementation.

use std::borrow::Cow;

use super::facts::FACTS;
use super::{ArchitectureTraits, RELEASE, bytes_per_element};
use crate::engine::admission::{Admission, requiring_full};
use crate::engine::facts::EngineFacts;
use crate::engine::graph_size::ModelFacts;
use crate::engine::graph_size::formulas::{ModelTraits, PlanFormulas};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::engine::request::{self, local_gpus_only, on_local_gpus};
use crate::engine::{Engine, kvcache, ollama_011};
use crate::gguf::Tensor;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{OwnCaches, Plan};
use crate::settings::{InEffect, Settings};

/// Ollama up to 0.11.
#[derive(Debug)]
pub struct Ollama011;

impl Engine for Ollama011 {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        on_local_gpus(|model, machine, settings| ollama_011::plan(model, machine, settings), model, machine, settings)
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        let plan = self.plan(model, machine, &requiring_full(settings))?;
        let eviction = ollama_011::eviction_reason(model, &local_gpus_only(machine), settings, &plan)?;
        Ok(eviction.unwrap_or_else(|| Admission::load(plan)))
    }

    fn loads<'m>(&self, model: &'m Model, settings: &Settings) -> Cow<'m, Model> {
        request::loads(model, settings)
    }

    fn formulas(&self, model: &Model, plan: &Plan) -> Result<Option<PlanFormulas>, EngineError> {
        let facts = ModelFacts::of(model, RELEASE)?;
        let ArchitectureTraits { embedding, vision, one_sequence, .. } = ArchitectureTraits::of(model, &facts);
        let traits = ModelTraits { embedding, vision, one_sequence };
        PlanFormulas::of(&facts, traits, bytes_per_element, model, plan).map(Some)
    }

    fn tensor_bytes(&self, tensor: &Tensor) -> u64 {
        RELEASE.tensor_bytes(tensor)
    }

    fn own_caches(&self, model: &Model, effect: &InEffect) -> Result<OwnCaches, EngineError> {
        kvcache::of(RELEASE, model, effect)
    }
}
