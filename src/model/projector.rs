//! A projector's file: the vision or audio encoder that is loaded beside a model (`--mmproj`),
//! or inside the model's file.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::Model;
use crate::gguf::{GgmlType, Header, Tensor, Value};
use crate::units::Bytes;

/// What a model reads besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
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

/// The projector of a model that reads more than text, where nothing but its size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MissingProjector {
    /// What it reads.
    #[serde(flatten)]
    pub reads: Modalities,
    /// About how large it is, if that is known of it or of a relative.
    pub about: Option<Bytes>,
}

impl MissingProjector {
    /// The mark of such a model in a list, and the same for narrow columns.
    pub const MARK: (&str, &str) = ("text only", "T");
}

impl fmt::Display for MissingProjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = match (self.reads.vision, self.reads.audio) {
            (true, true) => "images and sounds",
            (_, false) => "images",
            (false, true) => "sounds",
        };
        write!(f, "text only: the projector that reads {reads} is not in the catalogue")?;
        if let Some(about) = self.about {
            write!(f, "; it adds about {about}")?;
        }
        write!(f, " (--mmproj takes its file)")
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
        self.header.is_some() && self.file != Self::UNNAMED && !self.file.starts_with(super::CATALOGUE)
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

/// Channels of an image, which only Ollama's converter writes.
const CHANNELS: u32 = 3;

impl Model {
    /// The model as Ollama's library has it, with `projector` inside its file; none if that is a file of its own.
    pub fn with_inside(&self, projector: &Projector) -> Option<Self> {
        let (architecture, other) = (projector.inside.as_deref()?, projector.header.as_ref()?);
        let own = format!("{}.", self.architecture);
        let renamed = self.header.metadata.iter().map(|(key, value)| match key.strip_prefix(own.as_str()) {
            Some(rest) => (format!("{architecture}.{rest}").into(), value.clone()),
            None if key == "general.architecture" => (key.into(), Value::String(architecture.into())),
            None => (key.into(), value.clone()),
        });
        let of_images = other.metadata.iter().filter_map(|(key, value)| {
            let rest = key.strip_prefix("clip.").filter(|rest| rest.starts_with("vision."))?;
            Some((format!("{architecture}.{rest}").into(), value.clone()))
        });
        let channels = (format!("{architecture}.vision.num_channels").into(), Value::U32(CHANNELS));
        let is_inside = |tensor: &&Tensor| {
            let name = &*tensor.name;
            // the converter takes the row of a line's end from the model's own embeddings
            ["v.", "mm.", "a."].iter().any(|start| name.starts_with(start)) && !name.starts_with("v.token_embd.")
        };
        let inside = other.tensors.iter().filter(is_inside).map(|tensor| converted(tensor, architecture));
        let header = Header {
            metadata: renamed.chain(of_images).chain([channels]).collect(),
            tensors: self.header.tensors.iter().cloned().chain(inside).collect(),
            ..self.header.clone()
        };
        Self::from_header(header, &self.name).ok()
    }
}

/// A tensor as Ollama's converter writes it: one of a single dimension as numbers of 32 bits, others of 16.
fn converted(tensor: &Tensor, architecture: &str) -> Tensor {
    let is_whole = tensor.dims.len() < 2 || (architecture == "llama4" && &*tensor.name == "v.position_embd.weight");
    let ty = if is_whole { GgmlType::F32 } else { GgmlType::F16 };
    Tensor { ty, bytes: Bytes(tensor.elements().saturating_mul(ty.block_bytes())), ..tensor.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::model::TensorGroup;

    /// What 0.9 to 0.11 logged as `projector.weights` of the files of Ollama's library: 795.9 MiB of gemma3, whatever its size.
    #[test]
    fn weights_are_those_of_the_library() {
        for name in ["gemma3-4b", "gemma3-27b"] {
            let (model, projector) = catalogue::model_and_projector(name).unwrap();
            let inside = model.with_inside(&projector.unwrap()).unwrap();
            let of_images = inside.tensors(TensorGroup::Projector).filter(|tensor| tensor.name.starts_with("v."));
            let bytes: Bytes = of_images.map(|tensor| tensor.bytes).sum();
            assert_eq!(bytes, Bytes(834_531_264), "{name}");
        }
    }

    #[test]
    fn text_stays_as_it_is_under_the_architecture_of_the_library() {
        for entry in catalogue::all().iter().filter(|entry| entry.projector().is_some()) {
            let (model, projector) = catalogue::model_and_projector(&entry.name).unwrap();
            let projector = projector.unwrap();
            let Some(inside) = model.with_inside(&projector) else {
                assert_eq!(projector.inside, None, "{}", entry.name);
                continue;
            };
            assert_eq!(Some(&inside.architecture), projector.inside.as_ref(), "{}", entry.name);
            assert_eq!(inside.hyper, model.hyper, "{}", entry.name);
            assert!(inside.value("vision.block_count").is_some(), "{}", entry.name);
            for block in 0..model.block_count() {
                let group = TensorGroup::Block(block);
                assert_eq!(inside.weights(group), model.weights(group), "{} {block}", entry.name);
            }
            assert!(inside.weights(TensorGroup::Projector) > Bytes::ZERO, "{}", entry.name);
        }
    }
}
