//! A projector's file: the vision or audio encoder that is loaded beside a model (`--mmproj`).

use std::sync::Arc;

use crate::gguf::Header;
use crate::units::Bytes;

/// A projector's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Projector {
    /// Its name, as the user or a store names it.
    pub file: String,
    /// Bytes of its tensors.
    pub tensor_bytes: Bytes,
    /// Its header; none if only its size is known.
    pub header: Option<Header>,
}

impl Projector {
    /// A projector with this header.
    pub fn new(file: String, header: Header) -> Arc<Self> {
        let tensor_bytes = header.tensors.iter().map(|tensor| tensor.bytes).sum();
        Arc::new(Self { file, tensor_bytes, header: Some(header) })
    }

    /// A projector of which only the size is known; none if that is zero.
    pub fn sized(tensor_bytes: Bytes) -> Option<Arc<Self>> {
        let file = "projector".to_owned();
        (tensor_bytes > Bytes::ZERO).then(|| Arc::new(Self { file, tensor_bytes, header: None }))
    }
}
