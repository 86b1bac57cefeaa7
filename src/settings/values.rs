//! Values of settings: context, layers, flash attention, types of caches.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::gguf::GgmlType;
use crate::named::named;

/// As [`super::Settings::n_cpu_moe`]: all layers.
pub const ALL_LAYERS: u64 = u64::MAX;

/// Requested context size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Context {
    /// The engine's default.
    #[default]
    Auto,
    /// A number of tokens.
    Tokens(u64),
    /// The context that the model was trained for.
    Max,
}

named! {
    /// Requested use of flash attention.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, JsonSchema, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FlashAttn {
        /// The engine decides.
        #[default]
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

impl FlashAttn {
    /// As llama.cpp reads and prints it: `auto`, `on`, `enabled`, `1`, … (`common/arg.cpp`, 0.1.161).
    pub fn of(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "auto" | "-1" => Self::Auto,
            "on" | "enabled" | "true" | "1" => Self::On,
            "off" | "disabled" | "false" | "0" => Self::Off,
            _ => return None,
        })
    }
}

/// Requested number of layers on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GpuLayers {
    /// The engine decides.
    #[default]
    Auto,
    /// Every layer, including the output layer.
    All,
    /// This many, counted from the output layer back.
    Count(u64),
}

impl GpuLayers {
    /// The requested number, or the word used instead of one.
    ///
    /// # Errors
    /// The word: `auto` or `all`.
    pub const fn word(self) -> Result<u64, &'static str> {
        match self {
            Self::Count(count) => Ok(count),
            Self::Auto => Err("auto"),
            Self::All => Err("all"),
        }
    }
}

/// Tokens whose logits one ubatch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outputs {
    /// As the program does: llama-server one per sequence, and all of them for embeddings.
    #[default]
    Parallel,
    /// As many as the ubatch has tokens.
    Ubatch,
    /// A number of tokens.
    Tokens(u64),
}

named! {
    /// Data type of the KV cache by ggml's name, widest first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
    #[serde(rename_all = "snake_case")]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum CacheType {
        F32 = "f32",
        #[default]
        F16 = "f16",
        Bf16 = "bf16",
        Q8_0 = "q8_0",
        Q5_1 = "q5_1",
        Q5_0 = "q5_0",
        Q4_1 = "q4_1",
        Q4_0 = "q4_0",
        Iq4Nl = "iq4_nl",
    }
}

impl CacheType {
    /// The ggml type, with its block size.
    pub const fn format(self) -> GgmlType {
        match self {
            Self::F32 => GgmlType::F32,
            Self::F16 => GgmlType::F16,
            Self::Bf16 => GgmlType::Bf16,
            Self::Q8_0 => GgmlType::Q8_0,
            Self::Q5_1 => GgmlType::Q5_1,
            Self::Q5_0 => GgmlType::Q5_0,
            Self::Q4_1 => GgmlType::Q4_1,
            Self::Q4_0 => GgmlType::Q4_0,
            Self::Iq4Nl => GgmlType::Iq4Nl,
        }
    }
}

impl FromStr for CacheType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|t| t.name()).collect();
            format!("'{text}' is not a cache type: use one of {}", names.join(", "))
        })
    }
}

/// Largest value that can be typed for any knob.
pub const MAX_VALUE: u64 = 1 << 40;

/// Data types offered for K and V together, widest first: those that Ollama accepts.
pub const CACHE_CHOICES: [CacheType; 3] = [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0];

/// Data types offered for K or V alone, narrowest first: those that llama.cpp accepts.
pub const CACHE_TYPES: [CacheType; 9] = [
    CacheType::Iq4Nl,
    CacheType::Q4_0,
    CacheType::Q4_1,
    CacheType::Q5_0,
    CacheType::Q5_1,
    CacheType::Q8_0,
    CacheType::Bf16,
    CacheType::F16,
    CacheType::F32,
];

/// The single type that stands for K and V on an engine that has only one; none if it does not accept it.
pub(super) fn one_type(k: Option<CacheType>, v: Option<CacheType>) -> Option<CacheType> {
    k.or(v).filter(|ty| CACHE_CHOICES.contains(ty))
}
