//! HTTP as this program speaks it: few requests, limited redirects, patient retries, and an end to everything.
//!
//! [`Client`] sends one request and follows its redirects; [`Retry`] says when to try again; [`RemoteFile`] reads a
//! header piece by piece; [`attend`] keeps a person's wish to stop above all of it.

mod attend;
mod client;
mod error;
mod piece;
mod ranged;
mod retry;
mod url;

pub use attend::{Line, attend};
pub use client::{Answer, Ask, Client, Document, Secret};
pub use error::WireError;
pub use ranged::RemoteFile;
pub use retry::{Patience, Retry};
pub use url::Url;
