//! Drafting: tokens proposed by something cheaper than the model, which it then checks several at a time (speculative
//! decoding).
//! And the other options with values of their own: projectors, load modes, pooling, and llama.cpp's programs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::placement::{DeviceName, TensorOverride};
use super::values::{CacheType, GpuLayers};
use super::written::gpu_number;
use crate::named::{named, schema_of_names};

/// The options of drafting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftSettings {
    /// How tokens are drafted (`--spec-type`); `None` lets the draft's file decide.
    pub types: Option<Vec<SpecType>>,
    /// Tokens drafted at most (`--spec-draft-n-max`).
    pub n_max: Option<u64>,
    /// Tokens drafted from the text itself.
    pub ngram: NgramSizes,
    /// Layers of the draft on GPUs; all unless set.
    pub gpu_layers: GpuLayers,
    /// Type of the draft's K cache.
    pub cache_type_k: Option<CacheType>,
    /// Type of the draft's V cache.
    pub cache_type_v: Option<CacheType>,
    /// Its GPUs, which may be none; `None` for those of the model.
    pub devices: Option<Vec<DeviceName>>,
    /// Tensors placed elsewhere (`--override-tensor-draft`).
    pub override_tensor: Vec<TensorOverride>,
    /// Layers whose experts stay in RAM.
    pub n_cpu_moe: Option<u64>,
    /// Its best tokens are not chosen by its device (`--no-spec-draft-backend-sampling`).
    pub no_backend_sampling: bool,
}

/// Tokens drafted by each way that reads the text itself (`common/common.h`, 0.1.161); `None` for its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NgramSizes {
    /// At most by `ngram-mod` (`--spec-ngram-mod-n-max`).
    pub by_mod: Option<u64>,
    /// By `ngram-simple` (`--spec-ngram-simple-size-m`).
    pub simple: Option<u64>,
    /// By `ngram-map-k` (`--spec-ngram-map-k-size-m`).
    pub map_k: Option<u64>,
    /// By `ngram-map-k4v` (`--spec-ngram-map-k4v-size-m`).
    pub map_k4v: Option<u64>,
}

named! {
    /// How tokens are drafted (`common_speculative_type`, llama.cpp 0.1.161), as `--spec-type` has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum SpecType {
        None = "none",
        DraftSimple = "draft-simple",
        DraftMtp = "draft-mtp",
        DraftEagle3 = "draft-eagle3",
        DraftDflash = "draft-dflash",
        DraftDspark = "draft-dspark",
        NgramSimple = "ngram-simple",
        NgramMapK = "ngram-map-k",
        NgramMapK4v = "ngram-map-k4v",
        NgramMod = "ngram-mod",
        NgramCache = "ngram-cache",
    }
}

impl SpecType {
    /// The ways in which a model drafts, or none.
    pub const BY_MODEL: [Self; 6] =
        [Self::None, Self::DraftSimple, Self::DraftMtp, Self::DraftEagle3, Self::DraftDflash, Self::DraftDspark];
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

/// Where a projector is, and the images that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MmprojOptions {
    /// Its device (`--mmproj-device`, `--no-mmproj-offload`).
    pub device: MmprojDevice,
    /// Least tokens of an image (`--image-min-tokens`).
    pub image_min_tokens: Option<u64>,
    /// Most tokens of an image (`--image-max-tokens`).
    pub image_max_tokens: Option<u64>,
    /// Most tokens of several images that are computed at once (`--mtmd-batch-max-tokens`); one image is planned.
    pub batch_max_tokens: Option<u64>,
    /// An image to plan for; none for the largest one allowed.
    pub image: Option<ImageSize>,
}

/// The device of a projector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MmprojDevice {
    /// The first GPU, if there is one.
    #[default]
    First,
    /// This GPU of the machine.
    Gpu(usize),
    /// The CPU.
    Cpu,
}

impl MmprojDevice {
    /// As it is typed; none for the first GPU.
    pub(super) fn typed(self) -> Option<String> {
        match self {
            Self::First => None,
            Self::Gpu(gpu) => Some(format!("GPU{gpu}")),
            Self::Cpu => Some("none".to_owned()),
        }
    }
}

impl FromStr for MmprojDevice {
    type Err = String;

    /// Parses `GPU1` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.trim().to_ascii_lowercase().as_str(), gpu_number(text.trim())) {
            ("none" | "cpu", _) => Ok(Self::Cpu),
            (_, Some(gpu)) => Ok(Self::Gpu(gpu)),
            _ => Err(format!("'{text}' is not a device: use GPU0, GPU1, …, or none for the CPU")),
        }
    }
}

/// The size of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels per row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl ImageSize {
    /// Most pixels of a side.
    pub const MAX_SIDE: u64 = 1 << 16;
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for ImageSize {
    type Err = String;

    /// Parses `1920x1080`.
    fn from_str(text: &str) -> Result<Self, String> {
        let side = |side: &str| side.trim().parse().ok().filter(|side| (1..=Self::MAX_SIDE).contains(side));
        let sides = text.split_once(['x', 'X', '×']).and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) =
            sides.ok_or_else(|| format!("'{text}' is not the size of an image: use pixels such as 1920x1080"))?;
        Ok(Self { width, height })
    }
}

named! {
    /// How weights get into RAM (`--load-mode`, `common/arg.cpp`, 0.1.161).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum LoadMode {
        /// Mapped from the file: pages that are not read may leave RAM.
        #[default]
        Mmap = "mmap",
        /// Read into memory of its own, and locked there.
        Locked = "mlock",
        /// Read into memory of its own.
        Read = "none",
        /// The same, past the page cache.
        Direct = "dio",
        /// Mapped and locked.
        #[serde(rename = "mmap+mlock")]
        MmapLocked = "mmap+mlock",
    }
}

impl LoadMode {
    /// Whether weights in RAM are locked there.
    pub const fn locks(self) -> bool {
        matches!(self, Self::Locked | Self::MmapLocked)
    }

    /// Whether weights in RAM stay in a mapping of the file.
    pub const fn maps(self) -> bool {
        matches!(self, Self::Mmap | Self::MmapLocked)
    }
}

impl FromStr for LoadMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        let aliases = [("locked", Self::Locked), ("read", Self::Read)];
        let found = found.or_else(|| aliases.into_iter().find(|(name, _)| *name == text).map(|(_, mode)| mode));
        found.ok_or_else(|| format!("'{text}' is not a load mode: use mmap, mlock, none, dio or mmap+mlock"))
    }
}

named! {
    /// The kind of pooling (`--pooling`, `llama_pooling_type` in `llama.h`, 0.1.161), in the order of llama.cpp's numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Pooling {
        /// None: an embedding for each token.
        None = "none",
        /// The mean over all tokens.
        Mean = "mean",
        /// The first token's.
        Cls = "cls",
        /// The last token's.
        Last = "last",
        /// A score by a classifier, for reranking.
        Rank = "rank",
    }
}

impl Pooling {
    /// The kind that a header's number (`pooling_type`) stands for.
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl FromStr for Pooling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|pooling| pooling.name() == text.trim());
        found.ok_or_else(|| format!("'{text}' is not a kind of pooling: use none, mean, cls, last or rank"))
    }
}

named! {
    /// A program of llama.cpp. Sources: `common/arg.cpp` and `common/common.h` (0.1.161), `tools/*` of the same time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum LlamaProgram {
        /// `llama-server`: four slots that share one cache, logits of one token per slot.
        #[default]
        Server = "llama-server",
        /// `llama-cli`: the same with one slot.
        Cli = "llama-cli",
        /// `llama-completion`: one sequence, logits of whole ubatches, as all below.
        Completion = "llama-completion",
        /// `llama-bench`: the context of its longest test; it fits nothing.
        Bench = "llama-bench",
        /// `llama-batched-bench`
        BatchedBench = "llama-batched-bench",
        /// `llama-perplexity`: as many texts of its context at once as a batch holds.
        Perplexity = "llama-perplexity",
        /// `llama-fit-params`
        FitParams = "llama-fit-params",
    }
}

impl LlamaProgram {
    /// Whether it serves slots, and so computes logits for one token of each.
    pub const fn serves(self) -> bool {
        matches!(self, Self::Server | Self::Cli)
    }
}

schema_of_names!(LlamaProgram, "A program of llama.cpp.");

impl Serialize for LlamaProgram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for LlamaProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_it = |program: &Self| program.name() == text || program.name().strip_prefix("llama-") == Some(text);
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is not a program of llama.cpp that is known here: use one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_devices_are_parsed() {
        assert_eq!("1920x1080".parse(), Ok(ImageSize { width: 1920, height: 1080 }));
        assert_eq!("GPU1".parse(), Ok(MmprojDevice::Gpu(1)));
        assert_eq!("none".parse(), Ok(MmprojDevice::Cpu));
        for wrong in ["", "x", "0x5", "5", "5x5x5", "99999999x1", "-1x2"] {
            assert!(wrong.parse::<ImageSize>().is_err(), "{wrong}");
            assert!(wrong.parse::<MmprojDevice>().is_err(), "{wrong}");
        }
    }
}

#[cfg(test)]
mod pooling_tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_llama_cpp_does() {
        assert_eq!(Pooling::of_number(0), Some(Pooling::None));
        assert_eq!(Pooling::of_number(3), Some(Pooling::Last));
        assert_eq!(Pooling::of_number(5), None);
        assert!(Pooling::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)) && "max".parse::<Pooling>().is_err());
    }
}
