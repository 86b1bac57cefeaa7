//! The bytes of a model's weights in memory.

use super::array::{Allocator, Array};
use super::modes::{self, Mode};
use super::modules::Architecture;
use crate::engine::error::EngineError;
use crate::safetensors::Dtype;

/// The arrays of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleWeights {
    /// Its path.
    pub path: String,
    /// The layer that it belongs to; none for embeddings and output.
    pub layer: Option<usize>,
    /// Its arrays with their names.
    pub arrays: Vec<(String, Array)>,
}

/// The arrays of all modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MlxWeights {
    /// By module.
    pub modules: Vec<ModuleWeights>,
    /// The type of activations and caches.
    pub activations: Dtype,
}

impl MlxWeights {
    /// Those of `model` in this mode, whose source is in `dtype`.
    ///
    /// # Errors
    /// Where `convert` would fail.
    pub fn of(model: &Architecture, mode: &Mode, dtype: Dtype) -> Result<Self, EngineError> {
        let widths = mode.widths(model)?;
        let one = |(module, width): (&super::modules::Module, Option<modes::Width>)| ModuleWeights {
            path: module.path.clone(),
            layer: module.layer,
            arrays: modes::arrays(module, width, dtype),
        };
        let modules = model.modules.iter().zip(widths).map(one).collect();
        Ok(Self { modules, activations: activations(dtype, mode.is_floating()) })
    }

    /// Bytes of all.
    pub fn bytes(&self, allocator: Allocator) -> u64 {
        self.sum(allocator, |_| true)
    }

    /// Bytes of a layer; of no layer: of embeddings and output.
    pub fn bytes_of(&self, layer: Option<usize>, allocator: Allocator) -> u64 {
        self.sum(allocator, |module| module.layer == layer)
    }

    fn sum(&self, allocator: Allocator, is_meant: impl Fn(&ModuleWeights) -> bool) -> u64 {
        let arrays = self.modules.iter().filter(|module| is_meant(module)).flat_map(|module| &module.arrays);
        arrays.map(|(_, array)| allocator.buffer(array.bytes())).fold(0, u64::saturating_add)
    }
}

/// The type of activations and caches of weights in `dtype`: half precision becomes float32 beside floating scales, for the
/// embedding gives bfloat16 and the norms are in float16. Source: forward passes of mlx-lm 0.32.2.
pub fn activations(dtype: Dtype, floating: bool) -> Dtype {
    match dtype {
        Dtype::F16 if floating => Dtype::F32,
        Dtype::F16 | Dtype::F32 => dtype,
        _ => Dtype::Bf16,
    }
}
