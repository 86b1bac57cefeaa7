//! Models as MLX runs them: the modules that mlx-lm's class makes of `config.json`, and the arrays of each in every mode.

mod array;
mod error;
mod families;
mod from_gguf;
pub(in crate::model) mod modes;
mod modules;
pub mod ollama_types;
mod stored;
mod summary;
mod weights;

pub use array::{Allocator, Array};
pub use error::MlxError;
pub use families::Family;
pub use modes::{Mode, Scheme, Width};
pub use modules::{Architecture, Heads, LayerCache, Leaf, Module, State};
pub use stored::{Basis, MlxModel};
pub use weights::{MlxWeights, ModuleWeights};
