//! Effects of the planner as data; [`Runner`] runs them on threads.

mod runner;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::action::Action;
use super::query::Query;
use crate::answer::live::RunningPlan;
use crate::answer::together::ServedModels;
use crate::engine::{PlanRequest, PreparedModel};
use crate::export::several::NamedModel;
use crate::export::{ExportFormat, ExportInput, ModelLocation, Scenario, SetFormat};
use crate::hardware::remembered::SavedMachine;
use crate::library::check::Checked;
use crate::library::{self, Item, ModelStatus, RepositoryList};
use crate::machine::Machine;
use crate::observed::sample::Sample;
use crate::plan::Plan;
use crate::running::apply::{Failure, Report, Target};
use crate::source::{self, Package};
use crate::teach::Topic;

pub use runner::Runner;

/// An effect.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read a model; the answer is [`Action::Loaded`].
    Load {
        /// Returned with the answer; answers to older requests are ignored.
        id: u64,
        /// A path, name or address: see [`crate::source::load`].
        reference: String,
        /// A model of the same name does too, where this one is not here.
        or_namesake: bool,
    },
    /// Stop loading.
    CancelLoad,
    /// Add a reference to the recent models.
    AddRecent(String),
    /// List the models; the answers are [`Action::ModelsListed`], then [`Action::Running`].
    ListModels,
    /// Plan models in this order; the answers are [`Action::ModelPlanned`]. The newest survey replaces older ones.
    Survey(Box<SurveyJob>),
    /// Complete a path; the answer is [`Action::Completed`].
    Complete {
        /// What was typed.
        typed: String,
    },
    /// List a repository on Hugging Face; the answer is [`Action::RepositoryListed`].
    ListRepository {
        /// What was typed.
        typed: String,
    },
    /// Read a pasted text; the answer is [`Action::PasteRead`].
    ReadPaste(String),
    /// Make a plan; the answer is [`Action::Planned`]. The newest replaces older ones.
    Plan(Box<PlanJob>),
    /// Find the limits of the knobs; the answer is [`Action::Limits`].
    Limits(Box<LimitsRequest>),
    /// Answer a query in parts, each an [`Action::QueryAnswered`]; the newest query of a worker replaces older ones.
    Ask(Box<Query>),
    /// Compute a page of the teach screen; the answer is [`Action::PageReady`].
    Teach(Box<TeachRequest>),
    /// Send [`Action::Tick`] after a delay, for animations.
    Tick {
        /// Returned with the answer.
        id: u64,
        /// The delay.
        after: Duration,
    },
    /// Send [`Action::Fade`] once no newer change has come for a while.
    Fade {
        /// Returned with the answer.
        id: u64,
    },
    /// List the saved machines; the answer is [`Action::MachinesListed`].
    ListMachines,
    /// Save a machine; the answer is [`Action::MachineSaved`].
    SaveMachine {
        /// Its name.
        name: String,
        /// The machine.
        machine: Arc<Machine>,
    },
    /// Freeze live memory, or resume it.
    Freeze(bool),
    /// Compare a log with its plan; the answer is [`Action::Checked`].
    Check(Box<CheckRequest>),
    /// Find out what applying a plan does; the answer is [`Action::ApplyPrepared`].
    PrepareApply(Box<ApplyRequest>),
    /// Apply a plan; the answers are [`Action::ApplyProgress`], then [`Action::Applied`].
    Apply(Box<ApplyRequest>),
    /// Stop what is being applied.
    CancelApply,
    /// Leave the server that was started running when the planner ends.
    KeepServer,
    /// Follow what runs; the answers are [`Action::Sampled`], until [`Effect::StopFollowing`].
    Follow {
        /// Returned with the answers.
        id: u64,
    },
    /// Stop following what runs.
    StopFollowing,
    /// Export the plan; the answer is [`Action::Written`].
    Write(Box<ExportJob>),
    /// Write a text to a new file; the answer is [`Action::Saved`].
    Save {
        /// The path as the user typed it.
        path: String,
        /// The text.
        text: String,
    },
    /// Copy a text to the terminal's clipboard (OSC 52).
    Copy(String),
    /// Suspend, as Ctrl-Z does, until the shell resumes the program.
    Suspend,
}

/// A request for a plan.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PlanJob {
    pub id: u64,
    pub of: PlanRequest,
}

impl PlanJob {
    /// Asks the engine.
    pub fn answer(&self) -> Action {
        Action::Planned { id: self.id, result: Box::new(self.of.plan()) }
    }
}

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
pub struct CheckRequest {
    pub id: u64,
    pub log: LogSource,
    /// The open model, which stands in for one that the log names and that is not found.
    pub open: Option<Arc<PreparedModel>>,
}

/// A request to apply a plan.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ApplyRequest {
    pub id: u64,
    pub target: Target,
}

/// What applying a plan does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyPreview {
    /// What is started or loaded, as a sentence.
    pub what: String,
    /// What is unloaded for it, one sentence each.
    pub unloads: Vec<String>,
    /// What else is worth knowing, one sentence each.
    pub notes: Vec<String>,
}

/// A sample, and the plan of each of its programs; none while one loads.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Followed {
    pub sample: Sample,
    pub plans: Vec<Option<Result<Arc<RunningPlan>, String>>>,
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
        let content = self.topic.content(of, plan);
        Action::PageReady { id: *id, result: content.map_err(|error| error.to_string()) }
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
    pub pinned: bool,
    pub what: Exported,
}

/// What is exported, and how.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names suffice")]
pub enum Exported {
    /// A plan.
    Plan {
        format: ExportFormat,
        of: Box<PlanRequest>,
        plan: Box<Plan>,
        location: ModelLocation,
        scenario: Box<Scenario>,
    },
    /// Several models.
    Several { format: SetFormat, models: Vec<NamedModel>, served: Box<ServedModels> },
}

impl ExportJob {
    /// Writes the export.
    pub fn answer(&self) -> Action {
        let pinned = self.pinned;
        let text = match &self.what {
            Exported::Plan { format, of: request, plan, location, scenario } => {
                let scenario = Some(&**scenario);
                format.write(&ExportInput { request, plan, location, minimal: false, pinned, scenario })
            }
            Exported::Several { format, models, served } => format.write(models, served, pinned),
        };
        Action::Written { id: self.id, text }
    }
}

/// Files, network and saved state, as far as effects need them.
pub trait Services: Send + Sync + 'static {
    /// Loads the model that `reference` names. Reports progress to `watch`, and stops when that breaks.
    ///
    /// # Errors
    /// One sentence: what, where, what to do.
    fn load(&self, reference: &str, watch: &mut source::ProgressCallback<'_>) -> Result<Package, String>;

    /// The model that a file or a repository of this name would have, if one is known.
    fn namesake(&self, reference: &str) -> Option<Package>;

    /// Compares a log with the plan of what it shows.
    ///
    /// # Errors
    /// One sentence: what is missing, what to do.
    fn check(&self, request: &CheckRequest) -> Result<Checked, String>;

    /// Finds out what applying a plan does.
    ///
    /// # Errors
    /// One sentence on why it cannot be applied here.
    fn prepare(&self, target: &Target) -> Result<ApplyPreview, String>;

    /// Applies a plan. Stops when `report` breaks.
    ///
    /// # Errors
    /// Why it did not load.
    fn apply(&self, target: &Target, report: &mut Report<'_>) -> Result<Checked, Failure>;

    /// Leaves the server that was started running, or ends it.
    fn leave_server(&self, keep: bool);

    /// Follows what runs, until `tell` returns false.
    fn follow(&self, tell: &mut dyn FnMut(Followed) -> bool);

    /// Adds `reference` to the recent models.
    ///
    /// # Errors
    /// One sentence on why it was not added.
    fn add_recent(&self, reference: &str) -> Result<(), String>;

    /// The models that are known without asking a server.
    fn list_models(&self) -> Vec<Item>;

    /// The models of a running Ollama that are not among those `known` by name.
    ///
    /// # Errors
    /// If a server that the user named does not list its models: why.
    fn running(&self, known: &[String]) -> Result<Vec<Item>, String>;

    /// The models of the repository that `reference` names.
    ///
    /// # Errors
    /// One sentence on why it cannot be listed.
    fn repository(&self, reference: &str) -> Result<RepositoryList, String>;

    /// Plans each of `items`. `tell` is called with the index and status of each, and returns whether to continue.
    fn survey(
        &self,
        items: &[Arc<Item>],
        question: &library::SurveyRequest,
        tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
    );

    /// The saved machines by name.
    ///
    /// # Errors
    /// One sentence on why they cannot be listed.
    fn machines(&self) -> Result<Vec<SavedMachine>, String>;

    /// Saves `machine` under `name`. Returns one sentence to show.
    ///
    /// # Errors
    /// One sentence on why it cannot be saved.
    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String>;

    /// Writes `text` to a new file at `path`. Returns where it is.
    ///
    /// # Errors
    /// One sentence: what, where, why not.
    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String>;

    /// Paths that begin with `typed`, folders with a trailing slash.
    fn complete(&self, typed: &str) -> Vec<String>;
}
