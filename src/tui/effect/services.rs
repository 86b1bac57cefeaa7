//! What effects need of the world, so that tests can have one of their own.

use std::path::PathBuf;
use std::sync::Arc;

use crate::hardware::saved::SavedMachine;
use crate::library::{self, Item, ModelStatus};
use crate::machine::Machine;
use crate::source::{self, Package};

/// The part of the world that effects need.
pub trait Services: Send + Sync + 'static {
    /// Reads the model that `reference` names, telling `watch` how far it is; stops when it breaks.
    ///
    /// # Errors
    /// One sentence: what, where, what to do.
    fn load(&self, reference: &str, watch: &mut source::ProgressCallback<'_>) -> Result<Package, String>;

    /// Keeps `reference` among those that were opened lately.
    ///
    /// # Errors
    /// One sentence on why it is not kept.
    fn add_recent(&self, reference: &str) -> Result<(), String>;

    /// The models that can be chosen without asking a server.
    fn list_models(&self) -> Vec<Item>;

    /// The models of a running Ollama that are not among those `known` by name.
    ///
    /// # Errors
    /// Why one that a person named does not tell them.
    fn running(&self, known: &[String]) -> Result<Vec<Item>, String>;

    /// Looks at each of `items`; `tell` hears of each by its index and answers whether to go on.
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

    /// Saves `machine` under `name` and says so in one sentence.
    ///
    /// # Errors
    /// One sentence on why it cannot be saved.
    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String>;

    /// Writes `text` to a file at `path`, which must not be there yet; where it is then.
    ///
    /// # Errors
    /// One sentence: what, where, why not.
    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String>;

    /// Whole paths that begin with what was `typed`, folders with a slash at the end.
    fn complete(&self, typed: &str) -> Vec<String>;
}
