//! Why a model cannot be opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::gguf::GgufError;
use crate::model::ModelError;

/// Why a model cannot be opened: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SourceError {
    #[error("'{}' does not exist: check the path, or see what 'plimsoll list' has", Shown(.path))]
    Missing { path: PathBuf },
    #[error("'{}' is a folder: name a .gguf file in it", Shown(.path))]
    Folder { path: PathBuf },
    #[error("'{}' is a pipe or a device: name a .gguf file", Shown(.path))]
    Device { path: PathBuf },
    #[error("'{}' may not be read by this user: change its permissions or ask its owner", Shown(.path))]
    Permission { path: PathBuf },
    #[error("'{}' cannot be read: {error}", Shown(.path))]
    System { path: PathBuf, error: io::Error },
    #[error("'{}': {error}", Shown(.path))]
    Header { path: PathBuf, error: GgufError },
    #[error("'{}' is missing, which is shard {number} of {count}: fetch it into the folder of the others", Shown(.path))]
    MissingShard { path: PathBuf, number: u64, count: u64 },
    #[error(
        "'{}' is shard {number} of {count}, but its name does not end in -{number:05}-of-{count:05}.gguf, so that the others \
         cannot be found: give it back the name that it had", Shown(.path)
    )]
    ShardName { path: PathBuf, number: u64, count: u64 },
    #[error("'{name}': {error}")]
    NoModel { name: String, error: ModelError },
    #[error("'{name}' cannot be opened: {reason}")]
    Broken { name: String, reason: String },
    #[error(
        "'{reference}' is neither a file nor a model that Ollama has{}: check the name, name a .gguf file or \
         hf://owner/repository, or see what 'plimsoll list' has", if cfg!(feature = "net") { ", here or in its registry" } else { " on this machine" }
    )]
    Unknown { reference: String },
    #[error("'{reference}' is not found: {reason}")]
    NotThere { reference: String, reason: String },
    #[cfg(feature = "net")]
    #[error(transparent)]
    Wire(super::http::WireError),
    #[error(
        "'{reference}' lies on the network, which this version does not reach: download the .gguf file and name its path"
    )]
    Remote { reference: String },
    #[error(
        "the catalogue has no model '{name}': {}",
        if near.is_empty() { "'plimsoll list' shows what it has".to_owned() } else { format!("it has {near}") }
    )]
    NoEntry { name: String, near: String },
    #[error("{error}; near it the catalogue has {near}, which needs no network")]
    Near { error: Box<Self>, near: String },
    #[error("stopped, as asked")]
    Stopped,
}

/// A path, fit for a sentence: control characters escaped.
struct Shown<'p>(&'p Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string_lossy().chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

impl SourceError {
    pub(super) fn system(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing { path },
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            _ => Self::System { path, error },
        }
    }

    pub(super) fn header(path: &Path, error: GgufError) -> Self {
        match error {
            GgufError::Stopped => Self::Stopped,
            error => Self::Header { path: path.to_owned(), error },
        }
    }
}
