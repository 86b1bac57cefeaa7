//! The modes in which mlx-lm quantises weights, and the arrays that a module has then.
//! Source: `utils.py`, `quantize_model`, and `convert.py`, `mixed_quant_predicate_builder`, mlx-lm 0.32.2.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::array::Array;
use super::error::MlxError;
use super::modules::{Architecture, Leaf, Module};
use crate::model::config::ModelConfig;
use crate::safetensors::Dtype;

/// The names of modes as people type them, mlx-lm's and Ollama's, that are no types of GGUF files.
pub const MODE_NAMES: [&str; 27] = [
    "2bit",
    "3bit",
    "4bit",
    "5bit",
    "6bit",
    "8bit",
    "2bit-g32",
    "3bit-g32",
    "4bit-g32",
    "5bit-g32",
    "6bit-g32",
    "8bit-g32",
    "2bit-g128",
    "3bit-g128",
    "4bit-g128",
    "5bit-g128",
    "6bit-g128",
    "8bit-g128",
    "mxfp4",
    "mxfp8",
    "nvfp4",
    "mixed_2_6",
    "mixed_3_4",
    "mixed_3_6",
    "mixed_4_6",
    "int4",
    "int8",
];

/// How the numbers of a group are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Whole numbers with a scale and a bias in the type of the source.
    Affine,
    /// The `OCP`'s and NVIDIA's floating types, with a scale of one byte.
    Float,
}

/// How one matrix is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Width {
    /// How the numbers are written.
    pub scheme: Scheme,
    /// Bits of a weight.
    pub bits: u64,
    /// Weights that share a scale.
    pub group: u64,
}

/// How a whole model is quantised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    Unquantised,
    /// All matrices alike, but for what the class itself wants otherwise.
    Uniform(Width),
    /// By one of `convert`'s recipes: few bits, and more of them for matrices and layers that need them.
    Mixed {
        /// Bits of most matrices.
        low: u64,
        /// Bits of the others.
        high: u64,
    },
    /// Only the experts, as the makers of `gpt-oss` ship it.
    Experts(Width),
    /// As `config.json` says: for all matrices, and for those named.
    Written {
        /// All others.
        all: Width,
        /// Those named, none for one that is not quantised.
        named: Vec<(String, Option<Width>)>,
    },
}

impl Width {
    /// A width of whole numbers.
    pub const fn affine(bits: u64, group: u64) -> Self {
        Self { scheme: Scheme::Affine, bits, group }
    }

    /// The width of a floating mode of this name.
    fn floating(name: &str) -> Option<Self> {
        let (bits, group) = match name {
            "mxfp4" => (4, 32),
            "mxfp8" => (8, 32),
            "nvfp4" => (4, 16),
            _ => return None,
        };
        Some(Self { scheme: Scheme::Float, bits, group })
    }

    /// That of an entry in `config.json`'s `quantization`.
    fn written(entry: &Value) -> Option<Self> {
        let mode = entry.get("mode").and_then(Value::as_str).unwrap_or("affine");
        let own = Self::floating(mode);
        let number = |key: &str| entry.get(key).and_then(Value::as_u64);
        let bits = number("bits").or(own.map(|own| own.bits)).unwrap_or(4);
        let group = number("group_size").or(own.map(|own| own.group)).unwrap_or(64);
        let scheme = if own.is_some() { Scheme::Float } else { Scheme::Affine };
        ((1..=8).contains(&bits) && (8..=1024).contains(&group)).then_some(Self { scheme, bits, group })
    }

    /// The arrays of a matrix whose last dimension is a multiple of the group.
    pub fn arrays(self, shape: &[u64], dtype: Dtype) -> Vec<(&'static str, Array)> {
        let last = |size: u64| shape[..shape.len() - 1].iter().copied().chain([size]).collect::<Vec<_>>();
        let columns = shape[shape.len() - 1];
        let weight = Array { dtype: Dtype::U32, shape: last(columns * self.bits / 32) };
        let scales = |dtype| Array { dtype, shape: last(columns / self.group) };
        match self.scheme {
            Scheme::Affine => vec![("weight", weight), ("scales", scales(dtype)), ("biases", scales(dtype))],
            Scheme::Float => vec![("weight", weight), ("scales", scales(Dtype::U8))],
        }
    }
}

impl Mode {
    /// What `config.json` says of it; none if it says nothing.
    pub fn written(config: &ModelConfig) -> Option<Self> {
        let map = config.quantization()?;
        let all = Width::written(&Value::Object(map.clone()))?;
        let named = map.iter().filter(|(_, value)| value.is_object() || value.is_boolean());
        let named = named.map(|(path, value)| match value {
            Value::Bool(true) => (path.clone(), Some(all)),
            value => (path.clone(), Width::written(value).filter(|_| value.is_object())),
        });
        Some(Self::Written { all, named: named.collect() })
    }

    /// Whether its scales are floating ones: half-precision weights then leave activations in float32.
    pub fn is_floating(&self) -> bool {
        let floats = |width: &Width| width.scheme == Scheme::Float;
        match self {
            Self::Unquantised | Self::Mixed { .. } => false,
            Self::Uniform(width) | Self::Experts(width) | Self::Written { all: width, .. } => floats(width),
        }
    }

    /// The group by which a matrix's width must divide.
    fn group(&self) -> u64 {
        match self {
            Self::Unquantised => 1,
            Self::Uniform(width) | Self::Experts(width) | Self::Written { all: width, .. } => width.group,
            Self::Mixed { .. } => 64,
        }
    }

    /// The width of each module of `model`, none for one that stays as it is.
    ///
    /// # Errors
    /// Where `convert` would fail: a recipe needs matrices named `down_proj`.
    pub fn widths(&self, model: &Architecture) -> Result<Vec<Option<Width>>, MlxError> {
        let place = match self {
            Self::Mixed { .. } => Some(layer_place(model).ok_or_else(|| MlxError::Recipe(self.to_string()))?),
            _ => None,
        };
        let width = |module: &Module| {
            let columns = *module.arrays.first().filter(|_| module.quantised)?.shape.last()?;
            let wanted = self.wanted(module, model, place);
            wanted.filter(|_| columns % self.group() == 0)
        };
        Ok(model.modules.iter().map(width).collect())
    }

    fn wanted(&self, module: &Module, model: &Architecture, place: Option<usize>) -> Option<Width> {
        let path = module.path.as_str();
        match self {
            Self::Unquantised => None,
            Self::Uniform(width) => {
                let is_meant = |ending: &&str| match ending.strip_prefix('=') {
                    Some(whole) => path == whole,
                    None => path.ends_with(ending),
                };
                Some(if model.eight.iter().any(is_meant) { Width::affine(8, 64) } else { *width })
            }
            Self::Mixed { low, high } => {
                let more = more_bits(layer_in(path, place?), model.layer_count());
                let values = ["v_proj", "v_a_proj", "v_b_proj", "down_proj"].iter().any(|name| path.contains(name));
                let is_high = values && more || path.contains("lm_head");
                Some(Width::affine(if is_high { *high } else { *low }, 64))
            }
            Self::Experts(width) => path.contains(".experts.").then_some(*width),
            Self::Written { all, named } => {
                named.iter().find(|(name, _)| name == path).map_or(Some(*all), |(_, width)| *width)
            }
        }
    }
}

/// Whether a recipe gives the matrices of a layer more bits: those of the first and the last eighth, and every third.
pub(super) fn more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// Where the number of a layer stands in the paths of its modules.
fn layer_place(model: &Architecture) -> Option<usize> {
    let path = &model.modules.iter().find(|module| module.path.contains("down_proj"))?.path;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = path.split('.').count();
    Some(path.split('.').position(is_number).unwrap_or(parts - 1))
}

/// The number at this place of a path; 0 where it is shorter.
fn layer_in(path: &str, place: usize) -> usize {
    path.split('.').nth(place).and_then(|part| part.parse().ok()).unwrap_or(0)
}

/// The arrays of a module with this width.
pub(super) fn arrays(module: &Module, width: Option<Width>, dtype: Dtype) -> Vec<(String, Array)> {
    let plain = |leaf: &Leaf| {
        let dtype = if leaf.float32 { Dtype::F32 } else { dtype };
        (leaf.name.clone(), Array { dtype, shape: leaf.shape.clone() })
    };
    let Some((width, (weight, rest))) = width.zip(module.arrays.split_first()) else {
        return module.arrays.iter().map(plain).collect();
    };
    let quantised = width.arrays(&weight.shape, dtype).into_iter().map(|(name, array)| (name.to_owned(), array));
    quantised.chain(rest.iter().map(plain)).collect()
}

/// Names on the command line: `4bit` and `4bit-g32` (groups of 32 rather than 64), `mxfp4`, `mixed_3_6`, `bf16`.
impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "'{text}' is no mode of MLX: use bf16, 2bit to 8bit (with -g32 or -g128 for other groups than 64), mxfp4, \
                 mxfp8, nvfp4, mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6"
            )
        };
        let lower = text.to_ascii_lowercase();
        if let Some(width) = Width::floating(&lower) {
            return Ok(Self::Uniform(width));
        }
        if matches!(lower.as_str(), "bf16" | "f16" | "none") {
            return Ok(Self::Unquantised);
        }
        if let Some((low, high)) = lower.strip_prefix("mixed_").and_then(|rest| rest.split_once('_')) {
            return match (low, high) {
                ("2", "6") => Ok(Self::Mixed { low: 2, high: 6 }),
                ("3", "4") => Ok(Self::Mixed { low: 3, high: 4 }),
                ("3", "6") => Ok(Self::Mixed { low: 3, high: 6 }),
                ("4", "6") => Ok(Self::Mixed { low: 4, high: 6 }),
                _ => Err(unknown()),
            };
        }
        // also `q4g64`
        let (bits, group) = if let Some(both) = lower.strip_prefix('q').and_then(|rest| rest.split_once('g')) {
            both
        } else {
            let (bits, group) = lower.split_once("-g").unwrap_or((lower.as_str(), "64"));
            (bits.strip_suffix("bit").unwrap_or_default(), group.strip_prefix('s').unwrap_or(group))
        };
        let (bits, group) = (bits.parse().ok(), group.parse().ok());
        match (bits, group) {
            (Some(bits @ (2 | 3 | 4 | 5 | 6 | 8)), Some(group @ (32 | 64 | 128))) => {
                Ok(Self::Uniform(Width::affine(bits, group)))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme, self.bits, self.group) {
            (Scheme::Affine, bits, 64) => write!(f, "{bits}bit"),
            (Scheme::Affine, bits, group) => write!(f, "{bits}bit-g{group}"),
            (Scheme::Float, 4, 16) => f.write_str("nvfp4"),
            (Scheme::Float, bits, _) => write!(f, "mxfp{bits}"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unquantised => f.write_str("bf16"),
            Self::Uniform(width) | Self::Written { all: width, .. } => width.fmt(f),
            Self::Mixed { low, high } => write!(f, "mixed_{low}_{high}"),
            Self::Experts(width) => write!(f, "{width} experts"),
        }
    }
}
