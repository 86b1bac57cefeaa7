//! HTTP as this program speaks it: few requests, limited redirects, patient retries, and an end to everything.
//!
//! [`Client`] sends one request and follows its redirects; [`Retry`] says when to try again; [`RemoteFile`] reads a
//! header piece by piece; [`cancel`] keeps a person's wish to stop above all of it.

mod cancel;
mod client;
mod error;
mod piece;
mod ranged;
mod retry;
mod url;

pub use cancel::{CancelHandle, cancellable};
pub use client::{Client, Document, HttpRequest, HttpResponse, Secret};
pub use error::WireError;
pub use ranged::RemoteFile;
pub use retry::{Retry, Timeouts};
pub use url::Url;
