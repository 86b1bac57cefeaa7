//! The [`Engine`] implementation.

use super::facts::FACTS;
use crate::engine::admission::Admission;
use crate::engine::facts::EngineFacts;
use crate::engine::id::{EngineError, FitGoal, Launch, ServerStarts};
use crate::engine::llama_cpp::ResolvedRequest;
use crate::engine::preflight::Preflight;
use crate::engine::prepared::PreparedModel;
use crate::engine::request::{local_gpus_only, on_local_gpus};
use crate::engine::{Engine, ollama};
use crate::machine::Machine;
use crate::plan::{Plan, PlanSummary};
use crate::settings::Settings;
use crate::settings::knob::Knob;

/// Ollama from 0.30.
#[derive(Debug)]
pub struct Ollama;

impl Engine for Ollama {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        on_local_gpus(ollama::plan, model, machine, settings)
    }

    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        fit_goal: FitGoal,
    ) -> Result<PlanSummary, EngineError> {
        ollama::summary(model, &local_gpus_only(machine), settings, fit_goal)
    }

    fn preflight(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Preflight>, EngineError> {
        ollama::preflight(model, &local_gpus_only(machine), settings).map(Some)
    }

    fn launch(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Launch>, EngineError> {
        ollama::launch(model, &local_gpus_only(machine), settings).map(Some)
    }

    fn starts(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        failures: usize,
    ) -> Result<Option<ServerStarts>, EngineError> {
        ollama::starts(model, &local_gpus_only(machine), settings, failures).map(Some)
    }

    fn resolve(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<ResolvedRequest>, EngineError> {
        ollama::resolve(model, &local_gpus_only(machine), settings).map(Some)
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        // what goes before is decided by the scheduler, which knows the loaded models
        self.plan(model, machine, settings).map(Admission::load)
    }

    fn rule_edges(&self, knob: Knob, settings: &Settings) -> Vec<u64> {
        ollama::rule_edges(knob, settings)
    }
}
