//! What effects need from the environment, as a trait so that tests can replace it.

use std::path::PathBuf;
use std::sync::Arc;

use super::VerifyRequest;
use crate::hardware::remembered::SavedMachine;
use crate::library::verify::Verified;
use crate::library::{self, Item, ModelStatus};
use crate::machine::Machine;
use crate::source::{self, Package};

/// Files, network and saved state, as far as effects need them.
pub trait Services: Send + Sync + 'static {
    /// Loads the model that `reference` names. Reports progress to `watch`, and stops when that breaks.
    ///
    /// # Errors
    /// One sentence: what, where, what to do.
    fn load(&self, reference: &str, watch: &mut source::ProgressCallback<'_>) -> Result<Package, String>;

    /// Compares a log with the plan of what it shows.
    ///
    /// # Errors
    /// One sentence: what is missing, what to do.
    fn verify(&self, request: &VerifyRequest) -> Result<Verified, String>;

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
