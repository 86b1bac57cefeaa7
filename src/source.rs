//! Opens models: files, stores of other programs, servers, and the built-in catalogue.
//!
//! [`load`] opens a reference, [`open`] a path, and [`store::list`] lists local models. [`Roots`] holds the folders and
//! servers to search; only [`Roots::of_this_machine`] reads the environment. With the feature `net`, a reference may
//! also be a URL or the name of a model in Ollama's registry, on Hugging Face or in a running Ollama.

mod beside;
#[cfg(feature = "net")]
pub mod cache;
pub mod catalogue;
mod file;
mod file_name;
pub mod host;
#[cfg(feature = "net")]
pub mod http;
mod hub;
#[cfg(feature = "net")]
mod hugging_face;
mod open;
mod read_from;
mod reference;
#[cfg(feature = "net")]
mod registry;
#[cfg(feature = "net")]
mod remote;
pub mod roots;
#[cfg(feature = "net")]
pub mod running;
pub mod store;
mod tag;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::gguf::{ByteSource, GgufError, Header};
use crate::model::ModelError;
use crate::text;

pub use crate::text::without_secrets;
pub use catalogue::CatalogueError;
pub use file::LocalFile;
pub use hub::{HfReference, Repository, RepositoryFile};
pub use open::Package;
pub use open::{OpenedModel, open, stored};
pub use read_from::ReadFrom;
pub use reference::{Listed, is_repository, load, projector, repository};
#[cfg(feature = "net")]
pub use remote::{Network, ago, limit_network};
pub use roots::Roots;
pub use tag::{ExplicitKnobs, TagParameters};

/// The header of the default model, Llama 3.1 8B in `Q4_K_M`.
///
/// # Errors
/// If the catalogue is broken, which the tests rule out.
pub fn default_header() -> Result<Header, SourceError> {
    Ok(reference::built_in(catalogue::DEFAULT)?.header)
}

/// Why a model cannot be opened: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SourceError {
    #[error("'{}' does not exist: check the path, or run 'plimsoll list' to see the models", PrintedPath(.path))]
    Missing { path: PathBuf },
    #[error("'{}' is a folder: name a .gguf file in it", PrintedPath(.path))]
    Folder { path: PathBuf },
    #[error("'{}' is a pipe or a device: name a .gguf file", PrintedPath(.path))]
    Device { path: PathBuf },
    #[error("'{}' is not readable by this user: change its permissions or ask its owner", PrintedPath(.path))]
    Permission { path: PathBuf },
    #[error("'{}' cannot be read: {error}", PrintedPath(.path))]
    System { path: PathBuf, error: io::Error },
    #[error("'{}': {error}", PrintedPath(.path))]
    Header { path: PathBuf, error: GgufError },
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
    Wire(http::WireError),
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
    fn system(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing { path },
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            _ => Self::System { path, error },
        }
    }

    fn header(path: &Path, error: GgufError) -> Self {
        match error {
            GgufError::Cancelled => Self::Cancelled,
            error => Self::Header { path: path.to_owned(), error },
        }
    }
}

/// Progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of headers read, over all shards.
    pub done: u64,
    /// Total bytes, once known: a header does not state its length.
    pub total: Option<u64>,
    /// The current shard, from zero.
    pub shard: u64,
    /// Number of shards; one for a file that is not split.
    pub shards: u64,
}

impl Progress {
    /// Before the first byte of a file that is not split.
    pub const START: Self = Self { done: 0, total: None, shard: 0, shards: 1 };
}

/// Called with the progress; `Break` cancels.
pub type ProgressCallback<'w> = dyn FnMut(Progress) -> ControlFlow<()> + 'w;

/// A callback that never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Bytes between two reports.
const STEP: u64 = 256 << 10;

/// A source that reports how far it has been read.
struct ProgressSource<'s> {
    source: &'s mut dyn ByteSource,
    on_progress: &'s mut ProgressCallback<'s>,
    /// The progress without the bytes of this shard.
    before: Progress,
    reached: u64,
    report_at: u64,
}

impl<'s> ProgressSource<'s> {
    fn new(source: &'s mut dyn ByteSource, on_progress: &'s mut ProgressCallback<'s>, before: Progress) -> Self {
        Self { source, on_progress, before, reached: 0, report_at: 0 }
    }

    /// The furthest offset requested.
    fn reached(&self) -> u64 {
        self.reached
    }
}

impl ByteSource for ProgressSource<'_> {
    fn size(&self) -> Option<u64> {
        self.source.size()
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        self.reached = self.reached.max(offset);
        if self.reached >= self.report_at {
            self.report_at = self.reached.saturating_add(STEP);
            let now = Progress { done: self.before.done.saturating_add(self.reached), ..self.before };
            if (self.on_progress)(now).is_break() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        self.source.window(offset)
    }
}
