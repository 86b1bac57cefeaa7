//! This engine among the others.

use super::facts::FACTS;
use crate::engine::company::Reception;
use crate::engine::facts::EngineFacts;
use crate::engine::id::{Aim, EngineError, Launch};
use crate::engine::llama_cpp::settled::Settled;
use crate::engine::outlook::Outlook;
use crate::engine::prepared::PreparedModel;
use crate::engine::request::{of_one_computer, one_computer};
use crate::engine::{Engine, ollama};
use crate::machine::Machine;
use crate::plan::{Gist, Plan};
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
        of_one_computer(ollama::plan, model, machine, settings)
    }

    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        aim: Aim,
    ) -> Result<Gist, EngineError> {
        ollama::gist(model, &one_computer(machine), settings, aim)
    }

    fn outlook(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Outlook>, EngineError> {
        ollama::outlook(model, &one_computer(machine), settings).map(Some)
    }

    fn launch(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Launch>, EngineError> {
        ollama::launch(model, &one_computer(machine), settings).map(Some)
    }

    fn settled(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Option<Settled>, EngineError> {
        ollama::settled(model, &one_computer(machine), settings).map(Some)
    }

    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Reception, EngineError> {
        let objection = ollama::objection(model, &one_computer(machine), settings)?;
        objection.map_or_else(|| self.plan(model, machine, settings).map(Reception::welcome), Ok)
    }

    fn rule_edges(&self, knob: Knob, settings: &Settings) -> Vec<u64> {
        ollama::edges(knob, settings)
    }
}
