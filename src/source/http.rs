//! HTTP with limited redirects, retries, and a timeout on everything.
//!
//! [`Client`] sends a request and follows its redirects; [`Retry`] decides when to retry; [`RemoteFile`] reads a header
//! by ranges; `cancel` lets the user cancel at any time.

mod client;
mod ranged;
mod url;

pub use client::WireError;
pub use client::{CancelHandle, cancellable};
pub use client::{Client, Document, HttpRequest, HttpResponse, Secret};
pub use client::{Retry, Timeouts};
pub use ranged::RemoteFile;
pub use url::Url;
