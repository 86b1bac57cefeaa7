//! Parses headers of safetensors files: untrusted bytes, of which nothing is believed that the file does not hold.
//!
//! A file is eight bytes with the length of a JSON text, that text, and the tensors' data. The text names each tensor's
//! type, shape and place. Source: the format's description and `safetensors/src/tensor.rs`, safetensors 0.8.0.

mod dtype;
mod error;
mod index;
mod read;
mod stored;

pub use dtype::Dtype;
pub use error::SafetensorsError;
pub use index::{Index, kind};
pub use read::{Header, Tensor, check_length, read};
pub use stored::{Stored, TensorLayers};
