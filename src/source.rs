//! Opens models: files, stores of other programs, servers, and the built-in catalogue.
//!
//! [`load`] opens a reference, [`open`] a path, and [`store::list`] lists local models. [`Roots`] holds the folders and
//! servers to search; only [`Roots::of_this_machine`] reads the environment. With the feature `net`, a reference may
//! also be a URL or the name of a model in Ollama's registry, on Hugging Face or in a running Ollama.

mod beside;
#[cfg(feature = "net")]
pub mod cache;
mod error;
mod file;
mod file_name;
pub mod host;
#[cfg(feature = "net")]
pub mod http;
mod hub;
#[cfg(feature = "net")]
mod hugging_face;
#[cfg(feature = "net")]
mod network;
mod open;
mod progress;
mod read_from;
mod reference;
#[cfg(feature = "net")]
mod registry;
#[cfg(feature = "net")]
mod remote;
pub mod roots;
#[cfg(feature = "net")]
pub mod running;
mod safetensors;
pub mod store;
mod tag;

use crate::gguf::Header;

pub use crate::text::without_secrets;
pub use error::SourceError;
pub use file::LocalFile;
pub use hub::{HfReference, Repository, RepositoryFile};
#[cfg(feature = "net")]
pub use network::{Network, limit_network};
pub use open::Package;
pub use open::{OpenedModel, open, stored};
pub use progress::{Progress, ProgressCallback, no_progress};
pub use read_from::ReadFrom;
pub use reference::{Listed, can_be_listed, is_repository, load, projector, repository};
#[cfg(feature = "net")]
pub use remote::ago;
pub use roots::Roots;
pub use tag::TagParameters;

/// The header of the default model, Llama 3.1 8B in `Q4_K_M`.
///
/// # Errors
/// If the catalogue is broken, which the tests rule out.
pub fn default_header() -> Result<Header, SourceError> {
    Ok(reference::built_in(crate::catalogue::DEFAULT)?.header)
}
