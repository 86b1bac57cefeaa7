//! Drafting: tokens proposed by something cheaper than the model, which it then checks several at a time (speculative
//! decoding).

use std::fmt;
use std::str::FromStr;

use super::{CacheType, GpuLayers};

/// The options of drafting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftSettings {
    /// How tokens are drafted (`--spec-type`); `None` lets the draft's file decide.
    pub types: Option<Vec<SpecType>>,
    /// Tokens drafted at most (`--spec-draft-n-max`).
    pub n_max: Option<u64>,
    /// Layers of the draft on GPUs; all unless set.
    pub gpu_layers: GpuLayers,
    /// Type of the draft's K cache.
    pub cache_type_k: Option<CacheType>,
    /// Type of the draft's V cache.
    pub cache_type_v: Option<CacheType>,
    /// Its GPUs, as indices in the machine, which may be none; `None` for those of the model.
    pub devices: Option<Vec<usize>>,
}

/// How tokens are drafted (`common_speculative_type`, llama.cpp 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SpecType {
    None,
    DraftSimple,
    DraftMtp,
    DraftEagle3,
    DraftDflash,
    DraftDspark,
    NgramSimple,
    NgramMapK,
    NgramMapK4v,
    NgramMod,
    NgramCache,
}

impl SpecType {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::DraftSimple,
        Self::DraftMtp,
        Self::DraftEagle3,
        Self::DraftDflash,
        Self::DraftDspark,
        Self::NgramSimple,
        Self::NgramMapK,
        Self::NgramMapK4v,
        Self::NgramMod,
        Self::NgramCache,
    ];

    /// The ways in which a model drafts, or none.
    pub const BY_MODEL: [Self; 6] =
        [Self::None, Self::DraftSimple, Self::DraftMtp, Self::DraftEagle3, Self::DraftDflash, Self::DraftDspark];

    /// As llama-server's `--spec-type` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DraftSimple => "draft-simple",
            Self::DraftMtp => "draft-mtp",
            Self::DraftEagle3 => "draft-eagle3",
            Self::DraftDflash => "draft-dflash",
            Self::DraftDspark => "draft-dspark",
            Self::NgramSimple => "ngram-simple",
            Self::NgramMapK => "ngram-map-k",
            Self::NgramMapK4v => "ngram-map-k4v",
            Self::NgramMod => "ngram-mod",
            Self::NgramCache => "ngram-cache",
        }
    }
}

impl fmt::Display for SpecType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SpecType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text.trim())).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("'{text}' is not a way to draft: use one of {}", names.join(", "))
        })
    }
}
