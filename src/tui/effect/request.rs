//! What engines are to be asked, as data; most of it answers itself.

use std::sync::Arc;

use crate::engine::PlanRequest;
use crate::export::{ExportFormat, ExportInput, ModelLocation};
use crate::library::{self, Item};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::source::catalogue;
use crate::teach::Topic;
use crate::tui::action::Action;

/// What an engine is to be asked.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LimitsRequest {
    pub id: u64,
    pub of: PlanRequest,
    pub plan: Plan,
}

impl LimitsRequest {
    /// Asks the engine.
    pub fn answer(&self) -> Action {
        Action::Limits { id: self.id, limits: Box::new(self.of.limits(&self.plan)) }
    }
}

/// One model, and the machines that it is planned for.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MachinesRequest {
    pub of: PlanRequest,
    pub machines: Vec<(String, Arc<Machine>)>,
}

impl MachinesRequest {
    /// Asks the engine once for each machine.
    pub fn answer(&self) -> Action {
        let on = |(name, machine): &(String, Arc<Machine>)| self.of.on(name, machine);
        Action::MachinesCompared(self.machines.iter().map(on).collect())
    }
}

/// A page of the teach screen that is to be worked out.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TeachRequest {
    pub topic: Topic,
    pub about: LimitsRequest,
}

impl TeachRequest {
    /// Works it out.
    pub fn answer(&self) -> Action {
        let LimitsRequest { id, of, plan } = &self.about;
        let content = self.topic.content(of, plan, &catalogue::model);
        Action::PageReady { id: *id, result: content.map(Arc::new).map_err(|error| error.to_string()) }
    }
}

/// Models, and what is asked of each.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SurveyJob {
    pub id: u64,
    pub items: Vec<Arc<Item>>,
    pub question: library::SurveyRequest,
}

/// A form to be written, and everything that takes.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ExportJob {
    pub id: u64,
    pub format: ExportFormat,
    pub of: PlanRequest,
    pub plan: Plan,
    pub location: ModelLocation,
}

impl ExportJob {
    /// Writes it.
    pub fn answer(&self) -> Action {
        let input = ExportInput { request: &self.of, plan: &self.plan, location: &self.location };
        Action::Written { id: self.id, text: self.format.write(&input) }
    }
}
