//! Why a model cannot be opened.

use std::path::{Path, PathBuf};
use std::{fmt, io};

#[cfg(feature = "net")]
use super::http::{Url, WireError};
use crate::gguf::GgufError;
use crate::model::ModelError;
use crate::safetensors::SafetensorsError;
use crate::text;

/// Why a model cannot be opened: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SourceError {
    #[error("'{}' does not exist: check the path, or run 'plimsoll list' to see the models", PrintedPath(.path))]
    Missing { path: PathBuf },
    #[error("'{}' is a folder without config.json: name a .gguf file in it, or a folder with safetensors files and their config.json", PrintedPath(.path))]
    Folder { path: PathBuf },
    #[error("'{}' is a pipe or a device: name a .gguf file", PrintedPath(.path))]
    Device { path: PathBuf },
    #[error("'{}' is not readable by this user: change its permissions or ask its owner", PrintedPath(.path))]
    Permission { path: PathBuf },
    #[error("'{}' cannot be read: {error}", PrintedPath(.path))]
    System { path: PathBuf, error: io::Error },
    #[error("'{}': {error}", PrintedPath(.path))]
    Header { path: PathBuf, error: GgufError },
    #[error("'{}': {error}", PrintedPath(.path))]
    Safetensors { path: PathBuf, error: Box<SafetensorsError> },
    #[error("'{}': {reason}", PrintedPath(.path))]
    Damaged { path: PathBuf, reason: String },
    #[error("'{}', shard {number} of {count}, is missing: download it into the folder of the others", PrintedPath(.path))]
    MissingShard { path: PathBuf, number: u64, count: u64 },
    #[error(
        "'{}' is shard {number} of {count}, but its name does not end in -{number:05}-of-{count:05}.gguf, so the \
         others cannot be found: restore its original name", PrintedPath(.path)
    )]
    ShardName { path: PathBuf, number: u64, count: u64 },
    #[error("'{name}': {error}")]
    NoModel { name: String, error: ModelError },
    #[error("'{name}' cannot be opened: {reason}")]
    Broken { name: String, reason: String },
    #[error(
        "'{reference}' is neither a file nor an Ollama model{}: check the name, use a .gguf file or \
         hf://owner/repository, or run 'plimsoll list' to see the models", if cfg!(feature = "net") { " on this machine or in its registry" } else { " on this machine" }
    )]
    Unknown { reference: String },
    #[error("'{reference}' was not found: {reason}")]
    NotThere { reference: String, reason: String },
    #[cfg(feature = "net")]
    #[error(transparent)]
    Wire(WireError),
    #[error(
        "'{reference}' is on the network, which this build does not support: download the .gguf file and name its path"
    )]
    Remote { reference: String },
    #[error(
        "the catalogue has no model '{name}': {}",
        if near.is_empty() { "run 'plimsoll list' to see its models".to_owned() } else { near.clone() }
    )]
    NoEntry { name: String, near: String },
    #[error("the catalogue has no projector of '{name}': it has those of {known}")]
    NoProjector { name: String, known: String },
    #[error("{error}; in the catalogue, which needs no network, {near}")]
    Near { error: Box<Self>, near: String },
    #[error("{error}; the catalogue, which needs no network, has it as {offer}")]
    InCatalogue { error: Box<Self>, offer: String },
    #[error("stopped by the user")]
    Cancelled,
}

/// A path for messages, as [`text::quoted`].
struct PrintedPath<'p>(&'p Path);

impl fmt::Display for PrintedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::quoted(&self.0.to_string_lossy()))
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
            GgufError::Cancelled => Self::Cancelled,
            error => Self::Header { path: path.to_owned(), error },
        }
    }
}

#[cfg(feature = "net")]
impl SourceError {
    /// Converts the parser's error for the file at `url`; network errors keep their own message.
    pub(super) fn at(url: &Url, error: GgufError) -> Self {
        match error {
            GgufError::Cancelled => Self::Cancelled,
            GgufError::Read { error, offset } => match error.downcast::<WireError>() {
                Ok(error) => error.into(),
                Err(error) => Self::Header { path: url.to_string().into(), error: GgufError::Read { offset, error } },
            },
            error => Self::Header { path: url.to_string().into(), error },
        }
    }
}

#[cfg(feature = "net")]
impl From<WireError> for SourceError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Cancelled => Self::Cancelled,
            error => Self::Wire(error),
        }
    }
}
