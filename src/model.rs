//! A [`Model`] from a header: hyperparameters, weights per layer, architecture and quantisation.
//!
//! What becomes of a model, in order: `gguf::Header` (what the file says), `Model` (what every engine reads of it),
//! `PreparedModel` (with its draft, and what llama.cpp reads of it by release), `source::OpenedModel` (a header with where it
//! was found) and `source::Package` (with projector, adapters and tag, ready to be planned); in llama.cpp's engine
//! `LoadedModel` (its hyperparameters and weights as one release reads them), `ResolvedRequest` (the options that it is
//! started with) and `PlacedModel` (its weights on their devices).
//!
//! ```
//! use plimsoll::catalogue;
//!
//! // as Model::from_header makes one of a file
//! let model = catalogue::model("qwen3-8b").ok_or("no such model")?;
//! let summary = model.summary();
//! assert_eq!((summary.architecture.as_str(), summary.layers), ("qwen3", 36));
//! println!("{}: {} in {} layers", summary.name, summary.bytes, summary.layers);
//! # Ok::<(), &str>(())
//! ```

pub mod config;
pub mod expression;
mod hyper;
mod limit;
pub mod mixture;
pub mod mlx;
pub mod original;
mod projector;
pub mod quantise;
mod sections;

use std::sync::Arc;

use crate::gguf::{Header, Tensor, Value, file_type_name};
use crate::text;
use crate::units::Bytes;
use hyper::TensorGroups;
use mixture::basis::Mixture;
use mlx::MlxModel;

pub use hyper::ModelSummary;
pub use hyper::TensorGroup;
pub use hyper::{Experts, Hyperparameters, Ssm};
pub use limit::MAX_BLOCKS;
pub use projector::{MissingProjector, Modalities, Projector};

/// Prefix of references to the built-in catalogue.
pub const CATALOGUE: &str = "catalogue:";

/// A model as engines and views see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The header.
    pub header: Header,
    /// `general.name`, or else the name from its source.
    pub name: String,
    /// Its name in the catalogue, if it comes from there.
    pub entry: Option<Box<str>>,
    /// What is known of its tensors' sizes, if they are not those of a header or of llama-quantize.
    pub mixture: Option<Mixture>,
    /// `general.architecture`.
    pub architecture: String,
    /// The quantisation, `Q4_K_M`; none if the header lacks it.
    pub file_type: Option<&'static str>,
    /// Number of weights.
    pub parameters: u64,
    /// Those of them that a token reads: of the experts, as many as are used; no tables of which it looks up a row, unless
    /// they are the output layer too; no blocks that predict further tokens.
    pub active_parameters: u64,
    /// Sum of the tensors' bytes.
    pub bytes: Bytes,
    /// Size of the whole file: the header, and the tensors with their padding.
    pub file_bytes: Bytes,
    /// Hyperparameters.
    pub hyper: Hyperparameters,
    /// The model as MLX runs it, if its weights are safetensors; the header then has only key facts of it.
    pub mlx: Option<Arc<MlxModel>>,
    /// No file of it is known: its header was made of original weights.
    pub made_of_original: bool,
    /// The projector that it would need to read more than text; none if it has one or needs none, or if its source does
    /// not say.
    pub missing_projector: Option<MissingProjector>,
    /// The source and the day of its header, as captions have it, if they are known: `catalogue of 2026-11-22`.
    pub dated: Option<Arc<str>>,
    groups: TensorGroups,
}

/// Why a header does not describe a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// What describes a model of safetensors is damaged.
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    /// Nothing is known of the GGUF file of original weights.
    #[error(transparent)]
    Original(#[from] original::OriginalError),
    /// Nothing can be planned without this key.
    #[error("the header has no key '{0}' holding a {1}: this is not a language model that can be planned")]
    MissingKey(String, &'static str),
    /// More than [`MAX_BLOCKS`].
    #[error("key '{key}' says {count} blocks: more than {MAX_BLOCKS} is not supported")]
    TooManyBlocks {
        /// The key.
        key: String,
        /// Its value.
        count: u64,
    },
}

impl Model {
    /// Reads the model from `header`; `fallback_name` is used if it has no `general.name`. Strings are
    /// made printable.
    ///
    /// # Errors
    /// If `general.architecture` or the architecture's `block_count` is missing or implausible.
    pub fn from_header(header: Header, fallback_name: &str) -> Result<Self, ModelError> {
        let header = header.printable();
        let text = |key: &str| header.metadata.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let architecture = text("general.architecture")
            .ok_or_else(|| ModelError::MissingKey("general.architecture".to_owned(), "text"))?
            .to_owned();
        let name = text("general.name").unwrap_or(&text::one_line(fallback_name)).to_owned();
        let file_type = header.metadata.get("general.file_type").and_then(Value::as_u64).and_then(file_type_name);

        let key = format!("{architecture}.block_count");
        let count = header.metadata.get(&key).and_then(Value::as_u64);
        let count = count.ok_or_else(|| ModelError::MissingKey(key.clone(), "number"))?;
        if count > MAX_BLOCKS {
            return Err(ModelError::TooManyBlocks { key, count });
        }
        let blocks = count as usize;

        let hyper = Hyperparameters::read(&header.metadata, &architecture, blocks);
        let groups = TensorGroups::of(&header.tensors, blocks);
        let parameters = header.tensors.iter().map(Tensor::elements).fold(0, u64::saturating_add);
        let bytes = header.tensors.iter().map(|tensor| tensor.bytes).sum();
        let file_bytes = header.file_bytes();
        let mut model = Self {
            header,
            name,
            entry: None,
            mixture: None,
            architecture,
            file_type,
            parameters,
            active_parameters: 0,
            bytes,
            file_bytes,
            hyper,
            mlx: None,
            made_of_original: false,
            missing_projector: None,
            dated: None,
            groups,
        };
        model.active_parameters = model.read_by_a_token();
        Ok(model)
    }

    /// See [`Self::active_parameters`].
    fn read_by_a_token(&self) -> u64 {
        let used = |tensor: &Tensor| match self.hyper.experts {
            Some(Experts { count, used }) if tensor.name.contains("_exps.") || tensor.name.contains("_chexps.") => {
                (u128::from(tensor.elements()) * u128::from(used.min(count)) / u128::from(count.max(1))) as u64
            }
            _ => tensor.elements(),
        };
        let blocks = 0..self.block_count() - self.nextn_layers();
        let of_blocks = blocks.flat_map(|block| self.tensors(TensorGroup::Block(block)));
        of_blocks.map(used).chain(self.output_tensors().map(Tensor::elements)).fold(0, u64::saturating_add)
    }

    /// That it is planned as text only, unless `projector` is there.
    pub(crate) fn note_on_projector(&self, projector: Option<&Projector>) -> Option<String> {
        self.missing_projector.filter(|_| projector.is_none()).map(|missing| missing.to_string())
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.groups.block_count()
    }

    /// The value of `key`, which is prefixed with the architecture unless it begins with `general.` or `tokenizer.`.
    pub fn value(&self, key: &str) -> Option<&Value> {
        if key.starts_with("general.") || key.starts_with("tokenizer.") {
            return self.header.metadata.get(key);
        }
        self.header.metadata.iter().find_map(|(name, value)| {
            let own = name.strip_prefix(self.architecture.as_str())?.strip_prefix('.')?;
            (own == key).then_some(value)
        })
    }

    /// The tensors of `group`, in file order.
    pub fn tensors(&self, group: TensorGroup) -> impl Iterator<Item = &Tensor> {
        self.groups.of_group(group).iter().filter_map(|&index| self.header.tensors.get(index))
    }

    /// The tensors of the output layer: the output group, and the token embeddings if they are tied.
    pub fn output_tensors(&self) -> impl Iterator<Item = &Tensor> {
        let tied = self.is_output_tied();
        let embeddings =
            self.tensors(TensorGroup::Input).filter(move |tensor| tied && first_part(&tensor.name) == "token_embd");
        self.tensors(TensorGroup::Output).chain(embeddings)
    }

    /// Whether the token embeddings are also the output weights.
    pub fn is_output_tied(&self) -> bool {
        !self.tensors(TensorGroup::Output).any(|tensor| first_part(&tensor.name) == "output")
    }

    /// Bytes of the tensors of `group`.
    pub fn weights(&self, group: TensorGroup) -> Bytes {
        self.tensors(group).map(|tensor| tensor.bytes).sum()
    }

    /// The tensor named `name`.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.header.tensors.iter().find(|tensor| &*tensor.name == name)
    }
}

fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests;
