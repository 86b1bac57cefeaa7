//! Requests to engines as data; most can compute their own answer.

use std::sync::Arc;

use crate::engine::{PlanRequest, PreparedModel};
use crate::export::{ExportFormat, ExportInput, ModelLocation};
use crate::library::{self, Item};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::source::catalogue;
use crate::teach::Topic;
use crate::tui::action::Action;

/// A request for the limits of the knobs.
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

/// A request to compare a log with its plan.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct VerifyRequest {
    pub id: u64,
    pub log: LogSource,
    /// The open model, which stands in for one that the log names and that is not found.
    pub open: Option<Arc<PreparedModel>>,
}

/// Where a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// A pasted text.
    Text(Arc<str>),
    /// A file, as the user typed its path.
    File(String),
    /// What runs on this computer.
    Running,
}

/// A request to plan one model on several machines.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MachinesRequest {
    pub of: PlanRequest,
    pub machines: Vec<(String, Arc<Machine>)>,
}

impl MachinesRequest {
    /// Plans on each machine.
    pub fn answer(&self) -> Action {
        let on = |(name, machine): &(String, Arc<Machine>)| self.of.on(name, machine);
        Action::MachinesCompared(self.machines.iter().map(on).collect())
    }
}

/// A request for a page of the teach screen.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TeachRequest {
    pub topic: Topic,
    pub about: LimitsRequest,
}

impl TeachRequest {
    /// Computes the page.
    pub fn answer(&self) -> Action {
        let LimitsRequest { id, of, plan } = &self.about;
        let content = self.topic.content(of, plan, &catalogue::model_and_projector);
        Action::PageReady { id: *id, result: content.map(Arc::new).map_err(|error| error.to_string()) }
    }
}

/// A request to plan each of several models.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SurveyJob {
    pub id: u64,
    pub items: Vec<Arc<Item>>,
    pub request: library::SurveyRequest,
}

/// A request to export a plan.
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
    /// Writes the export.
    pub fn answer(&self) -> Action {
        let input = ExportInput { request: &self.of, plan: &self.plan, location: &self.location, minimal: false };
        Action::Written { id: self.id, text: self.format.write(&input) }
    }
}
