//! Models as MLX runs them: the modules that mlx-lm's class makes of `config.json`, and the arrays of each in every mode.

mod array;
mod families;
mod from_gguf;
mod modes;
mod modules;
pub mod ollama_types;
mod stored;
mod summary;
mod weights;
mod words;

pub use array::{Allocator, Array};
pub use families::Family;
pub use modes::{Mode, Scheme, Width};
pub use modules::{Architecture, Heads, LayerCache, Leaf, Module, State};
pub use stored::{Basis, MlxModel, OllamaLayers, Stored, StoredTensor};
pub use weights::{MlxWeights, ModuleWeights};

/// The names of modes as people type them, mlx-lm's and Ollama's, that are no types of GGUF files.
pub const MODE_NAMES: [&str; 27] = [
    "2bit", "3bit", "4bit", "5bit", "6bit", "8bit", "2bit-g32", "3bit-g32", "4bit-g32", "5bit-g32", "6bit-g32", "8bit-g32",
    "2bit-g128", "3bit-g128", "4bit-g128", "5bit-g128", "6bit-g128", "8bit-g128", "mxfp4", "mxfp8", "nvfp4", "mixed_2_6",
    "mixed_3_4", "mixed_3_6", "mixed_4_6", "int4", "int8",
];

/// Why nothing can be said of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlxError {
    /// The family is not in the table.
    #[error("models of type '{0}' are not known to this version's MLX: update plimsoll, or plan a GGUF file of the model")]
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
    #[error("config.json says {0} layers: more than {max} is not supported", max = super::MAX_BLOCKS)]
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
