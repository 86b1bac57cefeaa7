//! The bytes of a model's weights in memory.

use super::array::{Allocator, Array};
use super::error::MlxError;
use super::modes::{self, Mode};
use super::modules::{Architecture, Module};
use crate::safetensors::{Dtype, Stored};

/// The arrays of a quantised matrix besides its words.
const QUANTISED: [&str; 3] = ["scales", "biases", "global_scale"];

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

impl ModuleWeights {
    /// How many experts it has a matrix of; none of others.
    pub fn expert_count(&self) -> Option<u64> {
        let is_of_experts =
            !self.path.contains("shared_expert") && ["expert", "switch"].iter().any(|part| self.path.contains(part));
        let (_, matrix) = self.arrays.first().filter(|(_, array)| is_of_experts && array.shape.len() == 3)?;
        matrix.shape.first().copied().filter(|&count| count > 0)
    }
}

impl MlxWeights {
    /// Those of `model` in this mode, whose source is in `dtype`.
    ///
    /// # Errors
    /// Where `convert` would fail.
    pub fn of(model: &Architecture, mode: &Mode, dtype: Dtype) -> Result<Self, MlxError> {
        let widths = mode.widths(model)?;
        let one = |(module, width): (&Module, Option<modes::Width>)| ModuleWeights {
            path: module.path.clone(),
            layer: module.layer,
            arrays: modes::arrays(module, width, dtype),
        };
        let modules = model.modules.iter().zip(widths).map(one).collect();
        Ok(Self { modules, activations: activations(dtype, mode.is_floating()) })
    }

    /// Those that the files hold of `model`; none where some module's are not among them under mlx-lm's names, because the
    /// class makes them of others.
    pub fn stored(model: &Architecture, files: &Stored) -> Option<Self> {
        let found = |path: &str, name: &str| {
            let whole = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let tensor = files.tensor(&whole)?;
            Some((name.to_owned(), Array { dtype: tensor.dtype, shape: tensor.shape.clone() }))
        };
        let one = |module: &Module| {
            let own = module.arrays.iter().map(|leaf| found(&module.path, &leaf.name)).collect::<Option<Vec<_>>>()?;
            let beside = QUANTISED.iter().filter(|_| module.quantised).filter_map(|name| found(&module.path, name));
            let arrays = own.into_iter().chain(beside).collect();
            Some(ModuleWeights { path: module.path.clone(), layer: module.layer, arrays })
        };
        let modules: Vec<ModuleWeights> = model.modules.iter().map(one).collect::<Option<_>>()?;
        let arrays = || modules.iter().flat_map(|module| &module.arrays);
        let floating = arrays().any(|(name, array)| name == "scales" && array.dtype == Dtype::U8);
        let dtype = source_dtype(arrays().map(|(_, array)| (array.dtype, array.bytes())));
        Some(Self { activations: activations(dtype, floating), modules })
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

/// The type that most of these arrays, with their bytes, are in which are not quantised; bfloat16 where none says.
pub fn source_dtype(arrays: impl Iterator<Item = (Dtype, u64)>) -> Dtype {
    let mut bytes = [(Dtype::Bf16, 0_u64), (Dtype::F16, 0), (Dtype::F32, 0)];
    for (of, size) in arrays {
        if let Some((_, sum)) = bytes.iter_mut().find(|(dtype, _)| *dtype == of) {
            *sum = sum.saturating_add(size);
        }
    }
    bytes.iter().rev().max_by_key(|(_, sum)| *sum).map_or(Dtype::Bf16, |(dtype, _)| *dtype)
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
