//! A model with what reads images inside its own file, as Ollama's converter writes it.
//!
//! Sources: `convert/reader.go` (`Kind`) and `convert/convert_*.go`, Ollama 0.11.4; `server/quantization.go` leaves
//! these tensors as they are.

use super::{Model, Projector};
use crate::gguf::{GgmlType, Header, Tensor, Value};
use crate::units::Bytes;

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
    let elements = tensor.dims.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim));
    Tensor { ty, bytes: Bytes(elements.saturating_mul(ty.block_bytes())), ..tensor.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TensorGroup;
    use crate::source::catalogue;

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
