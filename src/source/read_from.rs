//! Which source a model was read from.

use super::store::Store;

/// Which source a model was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// A file that the user named.
    #[default]
    File,
    /// A store on this machine.
    Store(Store),
    /// A running Ollama.
    RunningOllama,
    /// Ollama's registry.
    Registry,
    /// Hugging Face.
    Repository,
    /// The address of a file.
    Address,
    /// The built-in catalogue.
    Catalogue {
        /// The name that no server could be asked for, if it stands in for one.
        stands_for: Option<Box<str>>,
    },
}

impl ReadFrom {
    /// Its name, as in lists.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Store(store) => store.name(),
            Self::RunningOllama => "running Ollama",
            Self::Registry => "Ollama's registry",
            Self::Repository => "huggingface.co",
            Self::Address => "address",
            Self::Catalogue { .. } => "catalogue",
        }
    }

    /// A sentence on it for a model that was named without saying where it is, without a full stop.
    pub fn said(&self) -> Option<String> {
        match self {
            Self::Store(store) => Some(format!("the header was read from {store} on this machine")),
            Self::Registry => Some(format!("the header was read from {}", self.name())),
            // the others are named by the user, or have notes of their own
            _ => None,
        }
    }
}
