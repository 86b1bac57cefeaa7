//! Opens models: files, stores of other programs, servers, and the built-in catalogue.
//!
//! [`load`] opens a reference, [`open`] a path, and [`store::list`] lists local models. [`Roots`] holds the folders and
//! servers to search; only [`Roots::of_this_machine`] reads the environment. With the feature `net`, a reference may
//! also be a URL or the name of a model in Ollama's registry, on Hugging Face or in a running Ollama.

#[cfg(feature = "net")]
pub mod cache;
pub mod catalogue;
mod day;
mod error;
mod file;
#[cfg(feature = "net")]
pub mod http;
#[cfg(feature = "net")]
mod hugging_face;
mod manifest;
#[cfg(feature = "net")]
mod network;
mod open;
mod progress;
mod reference;
#[cfg(feature = "net")]
mod registry;
#[cfg(feature = "net")]
mod remote;
pub mod roots;
#[cfg(feature = "net")]
pub mod running;
#[cfg(feature = "net")]
mod sign_in;
pub mod store;

use crate::gguf::Header;

pub use catalogue::CatalogueError;
pub use error::SourceError;
pub use file::LocalFile;
#[cfg(feature = "net")]
pub use network::Network;
pub use open::Package;
pub use open::{OpenedModel, open, stored};
pub use progress::{Progress, ProgressCallback, no_progress};
pub use reference::{ExplicitKnobs, TagParameters};
pub use reference::{load, projector};
#[cfg(feature = "net")]
pub use remote::ago;
pub use roots::Roots;
pub use roots::without_secrets;

/// The header of the default model, Llama 3.1 8B in `Q4_K_M`.
///
/// # Errors
/// If the catalogue is broken, which the tests rule out.
pub fn default_header() -> Result<Header, SourceError> {
    Ok(reference::built_in(catalogue::DEFAULT)?.header)
}
