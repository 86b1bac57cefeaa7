//! Models stored on this machine by other programs.

pub(super) mod files;
mod hugging_face;
pub mod ollama;

use std::fmt;
use std::path::PathBuf;

use super::reference::TagParameters;
use super::roots::Roots;
use crate::units::Bytes;

/// The program that keeps a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Store {
    Ollama,
    HuggingFace,
    LmStudio,
    LlamaCpp,
}

impl Store {
    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama",
            Self::HuggingFace => "Hugging Face",
            Self::LmStudio => "LM Studio",
            Self::LlamaCpp => "llama.cpp",
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its name: `llama3.1:8b` for Ollama, `owner/repository/file` for files.
    pub name: String,
    /// The program that keeps it.
    pub store: Store,
    /// Its file, or the first shard; for a broken entry the faulty file.
    pub path: PathBuf,
    /// Whether it can be opened.
    pub state: EntryState,
}

/// Whether an entry can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It can.
    Whole {
        /// Total size of its files, including shards and projector.
        size: Bytes,
        /// Its vision or audio projector.
        projector: Option<PathBuf>,
        /// Its `LoRA` adapters, in order.
        adapters: Vec<PathBuf>,
        /// Parameters of its tag.
        knobs: TagParameters,
    },
    /// It cannot; the reason is one sentence without a full stop.
    Broken(String),
}

impl StoreEntry {
    fn broken(name: impl Into<String>, store: Store, path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), store, path: path.into(), state: EntryState::Broken(reason.into()) }
    }
}

/// Lists the models below `roots`, sorted by store and name, each file once. Reads only file names, sizes, Ollama's
/// manifests and the first bytes of each file.
pub fn list(roots: &Roots) -> Vec<StoreEntry> {
    let mut entries = Vec::new();
    for root in &roots.ollama {
        ollama::list(root, &mut entries);
    }
    for (store, folders) in [(Store::HuggingFace, &roots.hugging_face), (Store::LlamaCpp, &roots.llama_cpp)] {
        for root in folders {
            hugging_face::list(root, store, &mut entries);
        }
    }
    for (store, folders) in [(Store::LmStudio, &roots.lm_studio), (Store::LlamaCpp, &roots.llama_cpp)] {
        for root in folders {
            files::list(root, store, &mut entries);
        }
    }
    entries.sort_by(|a, b| (a.store, &a.name, &a.path).cmp(&(b.store, &b.name, &b.path)));
    // two roots may be the same folder
    entries.dedup_by(|a, b| (a.store, &a.name) == (b.store, &b.name) && same_file(a, b));
    entries
}

fn same_file(a: &StoreEntry, b: &StoreEntry) -> bool {
    let place = |entry: &StoreEntry| entry.path.canonicalize().unwrap_or_else(|_| entry.path.clone());
    place(a) == place(b)
}
