//! The GGUF header that llama.cpp's converter writes of a model's original weights, before anyone has made a file.
//!
//! Source: `convert_hf_to_gguf.py` and `conversion`, llama.cpp as of llama-cpp-python 0.3.36 (November 2026). What families
//! differ in is a row of `assets/gguf-from-original.txt`; what the converter does with every model is here.

mod family;
mod hparams;
mod keys;
mod packed;
mod tensors;

use crate::gguf::Header;
use crate::gguf::write::{HeaderSpec, ValueSpec};
use crate::model::config::ModelConfig;
use crate::model::limit::MAX_BLOCKS;
use crate::model::mlx::MlxModel;
use crate::model::{Model, ModelError};
use crate::safetensors::Stored;
use family::Family;
pub use family::is_float32;
use hparams::Hparams;

/// Why nothing can be said of the GGUF file of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginalError {
    /// The family is not in the table.
    #[error(
        "what llama.cpp's converter makes of models of type '{0}' is not known to this version: update plimsoll, or plan a \
         GGUF file of the model"
    )]
    Unknown(String),
    /// Only `config.json` is known.
    #[error("the names and shapes of its weights are not known: name a folder with its safetensors files")]
    NoWeights,
    /// The weights are quantised for MLX.
    #[error("its weights are quantised for MLX, which llama.cpp's converter does not read: name the original's folder")]
    OfMlx,
    /// A tensor without a place.
    #[error(
        "nothing is known of tensor '{tensor}' in models of type '{family}': update plimsoll, or plan a GGUF file of the \
         model"
    )]
    Tensor {
        /// Its name in the original.
        tensor: String,
        /// The type.
        family: String,
    },
    /// A tensor whose shape contradicts `config.json`.
    #[error(
        "tensor '{tensor}' has the shape {shape:?}, which contradicts config.json: one of both is of another model"
    )]
    Shape {
        /// Its name in the original.
        tensor: String,
        /// Its shape there.
        shape: Vec<u64>,
    },
    /// A way to store weights that the converter, or this version, does not read.
    #[error(
        "its weights are stored as {0}, of which it is not known what llama.cpp's converter makes: name another original"
    )]
    Packed(String),
    /// The blocks are none, or too many.
    #[error("config.json says {0} layers: from 1 to {MAX_BLOCKS} are supported")]
    Blocks(u64),
    /// The header contradicts itself.
    #[error("{0}")]
    Header(String),
}

/// The two commands that make a file of original weights.
pub const TO_BE_MADE: &str = "to be made: python convert_hf_to_gguf.py FOLDER --outfile MODEL-BF16.gguf, then llama-quantize MODEL-BF16.gguf MODEL.gguf TYPE";

/// The header of the file that the converter writes without `--outtype`.
///
/// # Errors
/// If the family or one of the tensors is not known, or config.json and the tensors contradict one another.
pub fn header(config: &ModelConfig, stored: &Stored, name: &str) -> Result<Header, OriginalError> {
    let hparams = Hparams::of(config, stored.tensors.iter().map(|tensor| tensor.name.as_str()));
    let family = Family::of(config, &hparams).ok_or_else(|| OriginalError::Unknown(config.model_type().to_owned()))?;
    let blocks = hparams.number(&family, "blocks").unwrap_or(0);
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        return Err(OriginalError::Blocks(blocks));
    }
    let weights = packed::unpacked(config, stored)?;
    let made = tensors::made(&family, &hparams, blocks, &weights)?;
    let architecture = family.architecture;
    let text = |text: &str| ValueSpec::String(text.to_owned());
    let mut metadata = vec![
        ("general.architecture".to_owned(), text(architecture)),
        ("general.type".to_owned(), text("model")),
        ("general.name".to_owned(), text(name)),
    ];
    let keys = keys::of(&family, &hparams, blocks);
    metadata.extend(keys.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value)));
    metadata.push(("general.file_type".to_owned(), ValueSpec::U32(made.file_type.number())));
    metadata.push(("general.quantization_version".to_owned(), ValueSpec::U32(2)));
    metadata.push(("tokenizer.ggml.model".to_owned(), text("none")));
    let rows = made.tensors.iter().find(|(name, ..)| name == "token_embd.weight").and_then(|(.., dims)| dims.get(1));
    let vocab = hparams.number(&family, "vocab").filter(|&vocab| vocab > 0).or(rows.copied()).unwrap_or(0);
    let spec = HeaderSpec { metadata, tensors: made.tensors };
    let mut header = spec.with_tokens(vocab).map_err(|error| OriginalError::Header(error.to_string()))?;
    header.notes.push(format!(
        "the header is that which llama.cpp's converter would write of the original weights as {}: {TO_BE_MADE}",
        made.file_type.name()
    ));
    header.notes.extend(made.notes);
    Ok(header)
}

impl MlxModel {
    /// The model as llama.cpp's converter would write it.
    ///
    /// # Errors
    /// If only config.json is known, the weights are no original ones, or nothing is known of the family.
    pub fn converted(&self, name: &str) -> Result<Model, OriginalError> {
        let stored = self.stored.as_ref().filter(|stored| !stored.tensors.is_empty());
        let stored = stored.ok_or(OriginalError::NoWeights)?;
        if stored.manifest.is_some() || self.config.quantization().is_some() {
            return Err(OriginalError::OfMlx);
        }
        let made = header(&self.config, stored, name)?;
        let model = Model::from_header(made, name);
        let model = model.map_err(|error: ModelError| OriginalError::Header(error.to_string()))?;
        Ok(Model { made_of_original: true, ..model })
    }
}

impl Model {
    /// Of original weights the GGUF file that llama.cpp's converter would write; none of what is quantised for MLX, and of what
    /// is a GGUF file already.
    ///
    /// # Errors
    /// If nothing is known of the family, or the weights and config.json contradict one another.
    pub fn converted(&self) -> Result<Option<Self>, ModelError> {
        let Some(mlx) = &self.mlx else { return Ok(None) };
        match mlx.converted(&self.name) {
            Err(OriginalError::OfMlx | OriginalError::NoWeights) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(mut made) => {
                // what was said when it was opened
                made.header.notes.splice(0..0, self.header.notes.iter().cloned());
                Ok(Some(Self { dated: self.dated.clone(), ..made }))
            }
        }
    }
}
