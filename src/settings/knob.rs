//! The knobs: their ranges, their stops, and how a typed value is parsed. [`crate::engine::EngineFacts::knobs`] has
//! those that an engine offers.

mod info;
mod stops;
mod text;
pub(crate) mod value;

pub use stops::Stops;

use super::{CacheType, FlashAttn, LoadMode, SpecType};
use crate::gguf::FileType;

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

/// Choices for flash attention.
pub const FLASH_CHOICES: [FlashAttn; 3] = [FlashAttn::Auto, FlashAttn::On, FlashAttn::Off];

/// Quantisations offered, from the smallest to the largest for a typical model; llama.cpp's quantiser refuses some of
/// them for some models.
pub const QUANTISATIONS: [FileType; 35] = [
    FileType::Q1_0,
    FileType::Iq1S,
    FileType::Iq1M,
    FileType::Tq1_0,
    FileType::Iq2Xxs,
    FileType::Tq2_0,
    FileType::Iq2Xs,
    FileType::Q2_0,
    FileType::Iq2S,
    FileType::Iq2M,
    FileType::Q2KS,
    FileType::Q2K,
    FileType::Iq3Xxs,
    FileType::Iq3Xs,
    FileType::Q3KS,
    FileType::Iq3S,
    FileType::Iq3M,
    FileType::Q3KM,
    FileType::Q3KL,
    FileType::Iq4Xs,
    FileType::Mxfp4,
    FileType::Q4_0,
    FileType::Q4KS,
    FileType::Iq4Nl,
    FileType::Q4KM,
    FileType::Q4_1,
    FileType::Q5_0,
    FileType::Q5KS,
    FileType::Q5KM,
    FileType::Q5_1,
    FileType::Q6K,
    FileType::Q8_0,
    FileType::F16,
    FileType::Bf16,
    FileType::F32,
];

/// Those of [`QUANTISATIONS`] that only suit models trained for them: they can be typed but are not among the stops.
const TRAINED_FOR: [FileType; 4] = [FileType::Q1_0, FileType::Tq1_0, FileType::Tq2_0, FileType::Q2_0];

/// Knobs with more choices than this are shown as a slider.
const MAX_WORDS: usize = 3;

/// One knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Knob {
    /// Tokens of context.
    #[default]
    Context,
    /// Sequences served at once.
    Parallel,
    /// The model's quantisation.
    Quant,
    /// Data type of the whole KV cache.
    CacheType,
    /// Data type of the K cache.
    CacheTypeK,
    /// Data type of the V cache.
    CacheTypeV,
    /// Flash attention.
    FlashAttn,
    /// Logical batch, in tokens.
    Batch,
    /// Physical batch, in tokens.
    Ubatch,
    /// One KV cache for all sequences.
    KvUnified,
    /// Tokens whose logits one ubatch computes.
    Outputs,
    /// Layers on GPUs, including the output layer.
    GpuLayers,
    /// Layers whose experts stay in RAM, from the first on.
    CpuMoe,
    /// Whether the projector is on a GPU.
    MmprojDevice,
    /// Most tokens of an image.
    ImageTokens,
    /// Share of the layers on the first GPU, in percent; the others keep their proportions.
    TensorSplit,
    /// How a model drafts tokens.
    Draft,
    /// Tokens drafted at most.
    DraftMax,
    /// How weights are read into RAM.
    LoadMode,
    /// What llama-server's prompt cache may grow to, in MiB.
    CacheRam,
}

/// What a knob's range depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Context that the model was trained for, in tokens.
    pub context_train: Option<u64>,
    /// Context in effect or asked for, in tokens: the range goes beyond it where it is beyond training.
    pub context: u64,
    /// Layers that can go to a GPU, including the output layer.
    pub layer_count: u64,
    /// Whether the model is a mixture of experts, which MXFP4 needs.
    pub experts: bool,
    /// How its own blocks or the draft beside it would draft, if there are any.
    pub draft: Option<SpecType>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { context_train: None, context: 0, layer_count: 1, experts: false, draft: None }
    }
}

impl Knob {
    /// Every knob, in the order of the screen.
    pub const ALL: [Self; 20] = [
        Self::Context,
        Self::Parallel,
        Self::Quant,
        Self::KvUnified,
        Self::CacheType,
        Self::CacheTypeK,
        Self::CacheTypeV,
        Self::FlashAttn,
        Self::Batch,
        Self::Ubatch,
        Self::Outputs,
        Self::GpuLayers,
        Self::CpuMoe,
        Self::MmprojDevice,
        Self::ImageTokens,
        Self::TensorSplit,
        Self::Draft,
        Self::DraftMax,
        Self::LoadMode,
        Self::CacheRam,
    ];

    /// Its name in JSON and, after two dashes, on the command line.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// What it is, in one or two sentences.
    pub const fn description(self) -> &'static str {
        self.facts().description
    }

    /// The smallest meaningful value.
    pub const fn least(self) -> u64 {
        self.facts().least
    }

    /// The size of a fine step.
    pub const fn fine(self) -> u64 {
        self.facts().fine
    }

    /// Whether a plan's figures follow from it; if not, only what is said of RAM does.
    pub const fn moves_plans(self) -> bool {
        !matches!(self, Self::LoadMode | Self::CacheRam)
    }

    /// The names of the choices of a knob without numbers; its values are indices into them.
    pub fn choices(self) -> Option<Vec<&'static str>> {
        match self {
            Self::Quant => Some(QUANTISATIONS.iter().map(|to| to.name()).collect()),
            Self::CacheType => Some(CACHE_CHOICES.iter().map(|ty| ty.name()).collect()),
            Self::CacheTypeK | Self::CacheTypeV => Some(CACHE_TYPES.iter().map(|ty| ty.name()).collect()),
            Self::FlashAttn => Some(FLASH_CHOICES.iter().map(|flash| flash.name()).collect()),
            Self::KvUnified => Some(vec!["off", "on"]),
            Self::MmprojDevice => Some(vec!["GPU", "RAM"]),
            Self::Draft => Some(SpecType::BY_MODEL.iter().map(|kind| kind.name()).collect()),
            Self::LoadMode => Some(LoadMode::ALL.iter().map(|mode| mode.name()).collect()),
            _ => None,
        }
    }

    /// The choices, if there are few enough to show them side by side; else the knob is shown as a slider.
    pub fn words(self) -> Option<Vec<&'static str>> {
        self.choices().filter(|words| words.len() <= MAX_WORDS)
    }

    /// The values that a step or a click selects: powers of two and the halves in between, within the model's limits.
    pub fn stops(self, bounds: &Bounds) -> Stops {
        let doubling = |from: u64, to: u64| {
            (0..40).map(|n| 1u64 << n).flat_map(|n| [n, n + n / 2]).filter(move |n| (from..=to).contains(n))
        };
        let choices = |count: usize| (0..count as u64).collect();
        Stops::new(match self {
            Self::Context => {
                let top = bounds.context_train.filter(|&top| top > 0).map_or(1 << 20, |top| top.min(MAX_VALUE));
                // beyond training there is always a larger value
                let end = if bounds.context > top {
                    bounds.context.saturating_add(1).checked_next_power_of_two().unwrap_or(MAX_VALUE).min(MAX_VALUE)
                } else {
                    top
                };
                doubling(1024.min(top), end).chain([top, end]).collect()
            }
            Self::Parallel => doubling(1, 64).collect(),
            Self::Batch | Self::Ubatch => doubling(32, 4096).collect(),
            Self::Outputs => doubling(1, 4096).collect(),
            Self::ImageTokens => doubling(64, 16_384).collect(),
            Self::GpuLayers => (0..=bounds.layer_count.min(4096)).collect(),
            Self::CpuMoe => (0..=bounds.layer_count.saturating_sub(1).min(4096)).collect(),
            Self::TensorSplit => (0..=20).map(|step| 5 * step).collect(),
            Self::Quant => {
                let suits = |to: FileType| !TRAINED_FOR.contains(&to) && (bounds.experts || to != FileType::Mxfp4);
                (0u64..).zip(QUANTISATIONS).filter(|&(_, to)| suits(to)).map(|(at, _)| at).collect()
            }
            Self::CacheType => choices(CACHE_CHOICES.len()),
            Self::CacheTypeK | Self::CacheTypeV => choices(CACHE_TYPES.len()),
            Self::FlashAttn => choices(FLASH_CHOICES.len()),
            Self::KvUnified | Self::MmprojDevice => choices(2),
            Self::Draft => {
                let offered = |kind: SpecType| kind == SpecType::None || bounds.draft == Some(kind);
                (0u64..).zip(SpecType::BY_MODEL).filter(|&(_, kind)| offered(kind)).map(|(at, _)| at).collect()
            }
            Self::DraftMax => (1..=16).collect(),
            Self::LoadMode => choices(LoadMode::ALL.len()),
            Self::CacheRam => std::iter::once(0).chain((9..=16).map(|n| 1 << n)).collect(),
        })
    }

    /// At most `count` of the stops, but always both ends, ascending. Powers of two are preferred, then larger values;
    /// layers and shares are spaced evenly.
    pub fn spread(self, bounds: &Bounds, count: usize) -> Vec<u64> {
        let stops = self.stops(bounds);
        let (first, last) = (stops.first(), stops.last());
        let mut ranked = stops.as_slice().to_vec();
        let every = ranked.len().div_ceil(count.max(1)).max(1) as u64;
        let is_round = |value: u64| match self {
            Self::GpuLayers | Self::CpuMoe => value.is_multiple_of(every),
            Self::TensorSplit => value.is_multiple_of(5 * every),
            _ => value.is_power_of_two(),
        };
        ranked.sort_by_key(|&value| (value != first && value != last, !is_round(value), std::cmp::Reverse(value)));
        ranked.truncate(count.max(2));
        ranked.sort_unstable();
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        context_train: Some(131_072),
        context: 8192,
        layer_count: 33,
        experts: false,
        draft: Some(SpecType::DraftMtp),
    };

    #[test]
    fn context_stops_are_common_sizes() {
        let stops = Knob::Context.stops(&BOUNDS);
        assert_eq!((stops.first(), stops.last()), (1024, 131_072));
        assert!(stops.as_slice().contains(&24_576) && stops.as_slice().contains(&32_768));
        assert_eq!(stops.step(32_768, 1), 49_152);
        assert_eq!(stops.step(32_768, -1), 24_576);
        assert_eq!(stops.step(131_072, 1), 131_072);
        assert_eq!((stops.step(33_000, 1), stops.step(33_000, -1)), (49_152, 32_768));
        assert_eq!((stops.step(131_072, 1), stops.step(1, -1), stops.step(1 << 40, -1)), (131_072, 1024, 131_072));
    }

    #[test]
    fn fraction_and_nearest_are_inverse() {
        for knob in Knob::ALL {
            let stops = knob.stops(&BOUNDS);
            for &stop in stops.as_slice() {
                assert_eq!(stops.nearest(stops.fraction(stop)), stop, "{knob:?}");
            }
            assert!((stops.fraction(u64::MAX) - 1.0).abs() < 1e-9 && stops.fraction(0).abs() < 1e-9);
        }
    }

    #[test]
    fn knobs_are_listed_once_and_every_cache_type_is_offered() {
        for (at, knob) in Knob::ALL.iter().enumerate() {
            assert_eq!(Knob::ALL.iter().position(|other| other.name() == knob.name()), Some(at));
        }
        assert!(CacheType::ALL.iter().all(|ty| CACHE_TYPES.contains(ty)));
    }
}
