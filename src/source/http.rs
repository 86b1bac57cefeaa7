//! HTTP with limited redirects, retries, and a timeout on everything.
//!
//! [`Client`] sends a request and follows its redirects; [`Retry`] decides when to retry; [`RemoteFile`] reads a header
//! by ranges; `cancel` lets the user cancel at any time.

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
