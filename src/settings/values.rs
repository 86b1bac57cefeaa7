//! Values of settings: context, layers, flash attention, types of caches.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::gguf::{ForkType, GgmlType};
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

/// Data type of the KV cache by ggml's name, widest first; those of forks of llama.cpp last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CacheType {
    F32,
    #[default]
    F16,
    Bf16,
    Q8_0,
    Q5_1,
    Q5_0,
    Q4_1,
    Q4_0,
    Iq4Nl,
    /// One that a fork has, and llama.cpp has not.
    Fork(ForkType),
}

impl CacheType {
    /// Those of llama.cpp.
    pub const ALL: [Self; 9] =
        [Self::F32, Self::F16, Self::Bf16, Self::Q8_0, Self::Q5_1, Self::Q5_0, Self::Q4_1, Self::Q4_0, Self::Iq4Nl];

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
            Self::Fork(ty) => GgmlType::Fork(ty),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.format().name()
    }

    /// The type of a fork; none for one of llama.cpp.
    pub const fn of_fork(self) -> Option<ForkType> {
        if let Self::Fork(ty) = self { Some(ty) } else { None }
    }

    /// With those of forks.
    fn known() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(ForkType::all().map(Self::Fork))
    }
}

impl Display for CacheType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for CacheType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for CacheType {
    fn schema_name() -> Cow<'static, str> {
        "CacheType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::known().map(Self::name).collect();
        json_schema!({
            "description": "Data type of the KV cache by ggml's name, widest first; those of forks of llama.cpp last.",
            "type": "string",
            "enum": names,
        })
    }
}

impl FromStr for CacheType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim();
        let own = Self::ALL.into_iter().find(|ty| ty.name().eq_ignore_ascii_case(name));
        own.or_else(|| ForkType::named(name).map(Self::Fork)).ok_or_else(|| {
            let names = |of: &dyn Fn(&Self) -> bool| -> String {
                Self::known().filter(of).map(Self::name).collect::<Vec<_>>().join(", ")
            };
            let (own, of_forks) = (names(&|ty| ty.of_fork().is_none()), names(&|ty| ty.of_fork().is_some()));
            format!("'{text}' is not a cache type: use one of {own}, or a fork's: {of_forks}")
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
