//! The [`Engine`] implementation.

use super::facts::FACTS;
use super::resolved::ResolvedRequest;
use crate::engine::admission::Admission;
use crate::engine::facts::EngineFacts;
use crate::engine::id::{EngineError, FitGoal, Launch};
use crate::engine::preflight::Preflight;
use crate::engine::prepared::PreparedModel;
use crate::engine::{Engine, llama_cpp};
use crate::machine::Machine;
use crate::plan::{Plan, PlanSummary};
use crate::settings::Settings;

/// llama-server itself.
#[derive(Debug)]
pub struct LlamaCpp;

impl Engine for LlamaCpp {
    fn facts(&self) -> &'static EngineFacts {
        &FACTS
    }

    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
        llama_cpp::plan(model, machine, settings)
    }

    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        fit_goal: FitGoal,
    ) -> Result<PlanSummary, EngineError> {
        llama_cpp::summary(model, machine, settings, fit_goal)
    }

    fn preflight(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Preflight>, EngineError> {
        llama_cpp::preflight(model, machine, settings).map(Some)
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
        llama_cpp::resolve(model, machine, settings).map(Some)
    }

    /// A server that does not take other models into account.
    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError> {
        let plan = self.plan(model, machine, settings)?;
        Ok(plan.refusal.clone().map_or_else(|| Admission::load(plan), Admission::Refused))
    }
}
