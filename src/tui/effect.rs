//! Effects of the planner as data; [`Runner`] runs them on threads.

mod request;
mod runner;
mod services;
mod workers;

use std::sync::Arc;

#[cfg(doc)]
use super::action::Action;
use super::query::Query;
use crate::machine::Machine;

pub use request::{ExportJob, LimitsRequest, LogSource, MachinesRequest, SurveyJob, TeachRequest, VerifyRequest};
pub use runner::Runner;
pub use services::Services;

/// An effect.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read a model; the answer is [`Action::Loaded`].
    Load {
        /// Returned with the answer; answers to older requests are ignored.
        id: u64,
        /// A path, name or address: see [`crate::source::load`].
        reference: String,
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
    },
    /// Send [`Action::Fade`] once no newer change has come for a while.
    Fade {
        /// Returned with the answer.
        id: u64,
    },
    /// List the saved machines; the answer is [`Action::MachinesListed`].
    ListMachines,
    /// Plan for several machines; the answer is [`Action::MachinesCompared`].
    CompareMachines(Box<MachinesRequest>),
    /// Save a machine; the answer is [`Action::MachineSaved`].
    SaveMachine {
        /// Its name.
        name: String,
        /// The machine.
        machine: Arc<Machine>,
    },
    /// Freeze live memory, or resume it.
    Freeze(bool),
    /// Compare a log with its plan; the answer is [`Action::Verified`].
    Verify(Box<VerifyRequest>),
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
