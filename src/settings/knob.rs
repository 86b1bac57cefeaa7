//! The knobs: their ranges, their stops, and how a typed value is parsed. [`crate::engine::EngineFacts::knobs`] has
//! those that an engine offers.

mod stops;
mod text;
mod value;

use super::draft::{LoadMode, SpecType};
use super::values::FlashAttn;
use crate::gguf::FileType;

pub use super::values::{CACHE_CHOICES, CACHE_TYPES, MAX_VALUE};
pub(crate) use super::written::in_mib;
pub use stops::Stops;
pub(crate) use value::{in_percent, percent_of_first, place};

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

macro_rules! knobs {
    ($($(#[$is:meta])* $knob:ident {
        name: $name:literal, title: $title:literal, least: $least:literal, fine: $fine:literal,
        description: $description:literal,
    })*) => {
        /// One knob.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum Knob { $($(#[$is])* $knob,)* }

        impl Knob {
            /// Every knob, in the order of the screen.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$knob),*];

            /// Its name in JSON and, after two dashes, on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$knob => $name,)* }
            }

            /// Its name on the screen.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$knob => $title,)* }
            }

            /// What it is, in one or two sentences.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$knob => $description,)* }
            }

            /// The smallest meaningful value.
            pub const fn least(self) -> u64 {
                match self { $(Self::$knob => $least,)* }
            }

            /// The size of a fine step.
            pub const fn fine(self) -> u64 {
                match self { $(Self::$knob => $fine,)* }
            }
        }
    };
}

knobs! {
    /// Tokens of context.
    #[default]
    Context {
        name: "ctx", title: "context", least: 1, fine: 256,
        description: "Context size in tokens: per sequence with Ollama (num_ctx), for all sequences together with \
                      llama.cpp (-c).",
    }
    /// Sequences served at once.
    Parallel {
        name: "parallel", title: "parallel", least: 1, fine: 1,
        description: "Parallel sequences; each has its own context.",
    }
    /// The model's quantisation.
    Quant {
        name: "quant", title: "weights", least: 0, fine: 1,
        description: "Quantisation of the weights, from smallest to largest, with the size that llama.cpp's \
                      quantiser would produce. Auto: as opened.",
    }
    /// One KV cache for all sequences.
    KvUnified {
        name: "kv-unified", title: "unified KV", least: 0, fine: 1,
        description: "One KV buffer shared by all sequences instead of one each (--kv-unified). llama-server always \
                      uses it when parallel is auto.",
    }
    /// Data type of the whole KV cache.
    CacheType {
        name: "kv-type", title: "KV cache", least: 0, fine: 1,
        description: "Data type of the KV cache. Types smaller than f16 need flash attention.",
    }
    /// Data type of the K cache.
    CacheTypeK {
        name: "cache-type-k", title: "K cache", least: 0, fine: 1,
        description: "Data type of the K cache (--cache-type-k), from smallest to largest.",
    }
    /// Data type of the V cache.
    CacheTypeV {
        name: "cache-type-v", title: "V cache", least: 0, fine: 1,
        description: "Data type of the V cache (--cache-type-v), from smallest to largest. Quantised types need \
                      flash attention.",
    }
    /// Flash attention.
    FlashAttn {
        name: "flash-attn", title: "flash attn", least: 0, fine: 1,
        description: "Attention that never stores the full matrix of scores. Auto: chosen by the engine.",
    }
    /// Logical batch, in tokens.
    Batch {
        name: "batch", title: "batch", least: 1, fine: 16,
        description: "Logical batch size: prompt tokens submitted at once (num_batch, --batch-size).",
    }
    /// Physical batch, in tokens.
    Ubatch {
        name: "ubatch", title: "ubatch", least: 1, fine: 16,
        description: "Physical batch size: tokens computed at once, which sets the size of the compute buffers \
                      (--ubatch-size).",
    }
    /// Tokens whose logits one ubatch computes.
    Outputs {
        name: "outputs", title: "outputs", least: 1, fine: 1,
        description: "Tokens per ubatch whose logits are computed. llama-server needs one per sequence; type ubatch \
                      for all tokens.",
    }
    /// Layers on GPUs, including the output layer.
    GpuLayers {
        name: "gpu-layers", title: "GPU layers", least: 0, fine: 1,
        description: "Layers on GPU, including the output layer (num_gpu, -ngl). Auto: chosen by the engine.",
    }
    /// Layers whose experts stay in RAM, from the first on.
    CpuMoe {
        name: "n-cpu-moe", title: "MoE in RAM", least: 0, fine: 1,
        description: "The number of layers, counted from the first, whose MoE weights stay in RAM (--n-cpu-moe).",
    }
    /// Whether the projector is on a GPU.
    MmprojDevice {
        name: "mmproj-device", title: "projector", least: 0, fine: 1,
        description: "Where the vision or audio projector is: on the first GPU, or in RAM (--no-mmproj-offload), \
                      where it is slower. Auto: on the first GPU.",
    }
    /// Most tokens of an image.
    ImageTokens {
        name: "image-max-tokens", title: "image tokens", least: 1, fine: 16,
        description: "Most tokens of an image (--image-max-tokens), for projectors that read images of many sizes. \
                      Auto: what the projector's type allows.",
    }
    /// Share of the layers on the first GPU, in percent; the others keep their proportions.
    TensorSplit {
        name: "tensor-split", title: "GPU split", least: 0, fine: 1,
        description: "Share of the layers on the first GPU in use, in percent (--tensor-split). The other GPUs keep \
                      their proportions; type shares like 3,1,1 to set all of them.",
    }
    /// How a model drafts tokens.
    Draft {
        name: "spec-type", title: "draft", least: 0, fine: 1,
        description: "How tokens are drafted, which the model then checks several at a time (--spec-type): by its \
                      own MTP blocks, or by the draft model. Auto: what the draft model is for.",
    }
    /// Tokens drafted at most.
    DraftMax {
        name: "spec-draft-n-max", title: "draft n-max", least: 1, fine: 1,
        description: "Tokens drafted at most (--spec-draft-n-max). Recurrent states are kept once more for each.",
    }
    /// How weights are read into RAM.
    LoadMode {
        name: "load-mode", title: "load mode", least: 0, fine: 1,
        description: "How weights get into RAM (--load-mode): mapped from the file, so that pages may leave RAM \
                      (mmap), read and locked (mlock), read (none), read past the page cache (dio), or mapped and \
                      locked (mmap+mlock). It moves what must stay in RAM, and no other figure: i on RAM shows that.",
    }
    /// What llama-server's prompt cache may grow to, in MiB.
    CacheRam {
        name: "cache-ram", title: "cache RAM", least: 0, fine: 256,
        description: "What saved prompts may take of RAM while llama-server runs (--cache-ram); 0 for none. It is in \
                      no figure of the plan: i on RAM shows what a prompt takes.",
    }
    /// Tokens sent in a turn.
    PromptTokens {
        name: "prompt-tokens", title: "prompt", least: 1, fine: 256,
        description: "Tokens sent in a turn, with all that was said before. With it, answer or cached set, the verdict \
                      says how long the answer takes. It moves no memory.",
    }
    /// Tokens written in a turn.
    AnswerTokens {
        name: "answer-tokens", title: "answer", least: 1, fine: 64,
        description: "Tokens written in a turn, which the verdict then says the time of. It moves no memory.",
    }
    /// What the server still has of a turn's prompt, in percent.
    Cached {
        name: "cached", title: "cached", least: 0, fine: 1,
        description: "The share of a turn's prompt that the server still has in its cache and does not read again. It \
                      moves no memory.",
    }
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
    /// Whether a plan's figures follow from it; if not, only what is said of RAM does.
    pub const fn moves_plans(self) -> bool {
        !matches!(self, Self::LoadMode | Self::CacheRam) && !self.is_of_a_turn()
    }

    /// Whether it describes a turn, whose time is said.
    pub const fn is_of_a_turn(self) -> bool {
        matches!(self, Self::PromptTokens | Self::AnswerTokens | Self::Cached)
    }

    /// Whether its values are shares in percent.
    const fn is_percent(self) -> bool {
        matches!(self, Self::TensorSplit | Self::Cached)
    }

    /// The names of the choices of a knob without numbers; its values are indices into them.
    pub fn choices(self) -> Option<Vec<&'static str>> {
        match self {
            Self::Quant => Some(QUANTISATIONS.iter().map(|to| to.name()).collect()),
            Self::CacheType => Some(CACHE_CHOICES.iter().map(|ty| ty.name()).collect()),
            Self::CacheTypeK | Self::CacheTypeV => Some(CACHE_TYPES.iter().map(|ty| ty.name()).collect()),
            Self::FlashAttn => Some(FlashAttn::ALL.iter().map(|flash| flash.name()).collect()),
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
            Self::FlashAttn => choices(FlashAttn::ALL.len()),
            Self::KvUnified | Self::MmprojDevice => choices(2),
            Self::Draft => {
                let offered = |kind: SpecType| kind == SpecType::None || bounds.draft == Some(kind);
                (0u64..).zip(SpecType::BY_MODEL).filter(|&(_, kind)| offered(kind)).map(|(at, _)| at).collect()
            }
            Self::DraftMax => (1..=16).collect(),
            Self::LoadMode => choices(LoadMode::ALL.len()),
            Self::CacheRam => std::iter::once(0).chain((9..=16).map(|n| 1 << n)).collect(),
            Self::PromptTokens => doubling(256, bounds.context.max(1024)).chain([bounds.context.max(1024)]).collect(),
            Self::AnswerTokens => doubling(64, 8192).collect(),
            Self::Cached => (0..=20).map(|step| 5 * step).collect(),
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
    use crate::settings::CacheType;

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
