//! Why nothing can be said of a model of MLX.

use crate::model::limit::MAX_BLOCKS;

/// Why nothing can be said of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlxError {
    /// The family is not in the table.
    #[error(
        "models of type '{0}' are not known to this version's MLX: update plimsoll, or plan a GGUF file of the model"
    )]
    Unknown(String),
    /// A size is missing.
    #[error("config.json does not give the size of {of}: '{expression}' is missing there, or no plausible number")]
    Size {
        /// The expression.
        expression: String,
        /// What has this size.
        of: String,
    },
    /// More layers than are supported.
    #[error("config.json says {0} layers: more than {MAX_BLOCKS} is not supported")]
    Layers(u64),
    /// Nothing is known of the original.
    #[error("the original weights of '{0}' are not known here: name a folder with its config.json")]
    NoOriginal(String),
    /// What follows from a header is another model.
    #[error(
        "a config.json of its header would describe a model of {made} weights, and it has {header}: name a folder with its \
         own config.json"
    )]
    OtherModel {
        /// Weights that follow.
        made: u64,
        /// Weights of the header.
        header: u64,
    },
    /// A name that is no mode.
    #[error("{0}")]
    Mode(String),
    /// Ollama's importer without names to decide by.
    #[error(
        "what 'ollama create' makes of this model is decided by the names of its original tensors: name the folder with its \
         safetensors files"
    )]
    NoNames,
    /// A recipe that fails.
    #[error(
        "mlx-lm refuses {0} for this model (\"Model does not have expected keys for mixed quant.\"): it has no down_proj; \
         use a uniform mode such as 4bit"
    )]
    Recipe(String),
}
