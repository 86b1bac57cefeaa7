//! This engine among the others.

use super::facts::FACTS;
use super::settled::Settled;
use crate::engine::company::Reception;
use crate::engine::facts::EngineFacts;
use crate::engine::id::{Aim, EngineError, Launch};
use crate::engine::outlook::Outlook;
use crate::engine::prepared::PreparedModel;
use crate::engine::{Engine, llama_cpp};
use crate::machine::Machine;
use crate::plan::{Gist, Plan};
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
        aim: Aim,
    ) -> Result<Gist, EngineError> {
        llama_cpp::gist(model, machine, settings, aim)
    }

    fn outlook(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Outlook>, EngineError> {
        llama_cpp::outlook(model, machine, settings).map(Some)
    }

    fn launch(&self, _: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Option<Launch>, EngineError> {
        Ok(Some(Launch { options: settings.clone(), gpus: llama_cpp::visible(machine) }))
    }

    fn settled(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Settled>, EngineError> {
        llama_cpp::settled(model, machine, settings).map(Some)
    }

    /// As a server that knows nothing of the others.
    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
        let plan = self.plan(model, machine, settings)?;
        Ok(plan.refusal.clone().map_or_else(|| Reception::welcome(plan), Reception::Refused))
    }
}
