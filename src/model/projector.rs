//! A projector's file: the vision or audio encoder that is loaded beside a model (`--mmproj`).

use std::sync::Arc;

use serde::Serialize;

use crate::gguf::{Header, Value};
use crate::units::Bytes;

/// What a model reads besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Modalities {
    /// Images.
    pub vision: bool,
    /// Sounds.
    pub audio: bool,
}

impl Modalities {
    /// Whether it reads all that `wanted` names.
    pub const fn include(self, wanted: Self) -> bool {
        (self.vision || !wanted.vision) && (self.audio || !wanted.audio)
    }

    /// Their names, and the same as letters for narrow columns; none for a model that reads text only.
    pub const fn words(self) -> Option<(&'static str, &'static str)> {
        match (self.vision, self.audio) {
            (true, true) => Some(("vision, audio", "VA")),
            (true, false) => Some(("vision", "V")),
            (false, true) => Some(("audio", "A")),
            (false, false) => None,
        }
    }
}

/// A projector's file.
#[derive(Clone, Debug, PartialEq)]
pub struct Projector {
    /// Its name, as the user or a store names it.
    pub file: String,
    /// Bytes of its tensors.
    pub tensor_bytes: Bytes,
    /// Its header; none if only its size is known.
    pub header: Option<Header>,
    /// The architecture under which Ollama's library has the model with this inside its file; none if it is a file of
    /// its own there too.
    pub inside: Option<String>,
}

impl Projector {
    /// The name of a projector that has none.
    pub const UNNAMED: &str = "projector";

    /// A projector with this header, whose strings are made printable.
    pub fn new(file: String, header: Header) -> Arc<Self> {
        let header = header.printable();
        let tensor_bytes = header.tensors.iter().map(|tensor| tensor.bytes).sum();
        Arc::new(Self { file, tensor_bytes, header: Some(header), inside: None })
    }

    /// Whether `file` is a file, and not the name that a catalogue or a registry has for it.
    pub fn is_file(&self) -> bool {
        self.header.is_some() && self.file != Self::UNNAMED && !self.file.starts_with("catalogue:")
    }

    /// What it reads; images where only its size is known.
    pub fn modalities(&self) -> Modalities {
        let Some(header) = &self.header else { return Modalities { vision: true, audio: false } };
        let is_true = |key: &str| header.metadata.get(key).and_then(Value::as_bool) == Some(true);
        Modalities { vision: is_true("clip.has_vision_encoder"), audio: is_true("clip.has_audio_encoder") }
    }

    /// A projector of which only the size is known; none if that is zero.
    pub fn sized(tensor_bytes: Bytes) -> Option<Arc<Self>> {
        let file = Self::UNNAMED.to_owned();
        (tensor_bytes > Bytes::ZERO).then(|| Arc::new(Self { file, tensor_bytes, header: None, inside: None }))
    }
}
