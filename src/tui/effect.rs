//! What the planner wants of the world, as data; [`Runner`] does it on threads.

mod request;
mod runner;
mod services;
mod workers;

use std::sync::Arc;

#[cfg(doc)]
use super::action::Action;
use super::query::Query;
use crate::machine::Machine;

pub use request::{ExportJob, LimitsRequest, MachinesRequest, SurveyJob, TeachRequest};
pub use runner::Runner;
pub use services::Services;

/// A wish.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Read a model; the answer is [`Action::Loaded`].
    Load {
        /// Goes into the answer: an older one is of no interest.
        id: u64,
        /// A path, a name, an address: see [`crate::source::load`].
        reference: String,
    },
    /// Stop whatever is being read.
    CancelLoad,
    /// Keep a reference among those that were opened lately.
    AddRecent(String),
    /// List the models that there are; the answers are [`Action::ModelsListed`], then [`Action::Running`].
    ListModels,
    /// Look at models, the first of them first; the answers are [`Action::ModelPlanned`]. An older wish is dropped.
    Survey(Box<SurveyJob>),
    /// Look what could follow a path; the answer is [`Action::Completed`].
    Complete {
        /// What was typed.
        typed: String,
    },
    /// Find how far the knobs can go; the answer is [`Action::Limits`].
    Limits(Box<LimitsRequest>),
    /// Answer a question in parts, each an [`Action::QueryAnswered`]; within a lane the newest one wins.
    Ask(Box<Query>),
    /// Work out a page of the teach screen; the answer is [`Action::PageReady`].
    Teach(Box<TeachRequest>),
    /// Send [`Action::Tick`] after a moment, for what plays by itself.
    Tick {
        /// Goes into the answer.
        id: u64,
    },
    /// Send [`Action::Fade`] after a moment.
    Fade {
        /// Goes into the answer.
        id: u64,
    },
    /// List the saved machines; the answer is [`Action::MachinesListed`].
    ListMachines,
    /// Plan for several machines; the answer is [`Action::MachinesCompared`].
    CompareMachines(Box<MachinesRequest>),
    /// Save a machine; the answer is [`Action::MachineSaved`].
    SaveMachine {
        /// Under this name.
        name: String,
        /// This one.
        machine: Arc<Machine>,
    },
    /// Hold free memory still, or follow it again.
    Freeze(bool),
    /// Write the plan in a form to be taken away; the answer is [`Action::Written`].
    Write(Box<ExportJob>),
    /// Write a text to a file that is not there yet; the answer is [`Action::Saved`].
    Save {
        /// Where, as a person typed it.
        path: String,
        /// What is in it.
        text: String,
    },
    /// Put a text on the clipboard of whoever sits at the terminal.
    Copy(String),
    /// Stop, as Ctrl-Z does, until the shell continues the program.
    Suspend,
}
