//! The knobs: their ranges, their stops, and how a typed value is parsed. [`crate::engine::EngineFacts::knobs`] has
//! those that an engine offers.

use super::draft::{LoadMode, MmprojDevice, SpecType};
use super::fields::Settings;
use super::flag::Flag;
use super::values::FlashAttn;
use super::values::{CacheType, Context, GpuLayers, Outputs};
use crate::gguf::FileType;
use crate::units::{Bytes, grouped, whole};

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
        description: "Physical batch size: tokens computed at once, which sets the size of the compute graph \
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

/// The stops of a knob, ascending; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stops(Vec<u64>);

impl Stops {
    fn new(mut stops: Vec<u64>) -> Self {
        stops.sort_unstable();
        stops.dedup();
        if stops.is_empty() {
            stops.push(0);
        }
        Self(stops)
    }

    /// The stops, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// The smallest.
    pub fn first(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    /// The largest.
    pub fn last(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The stop `by` steps above `value`, or below it if `by` is negative. From a value between two stops, the first
    /// step reaches the next one.
    pub fn step(&self, value: u64, by: isize) -> u64 {
        let at = self.0.partition_point(|&stop| stop < value);
        let exact = self.0.binary_search(&value).is_ok();
        let by = if by > 0 && !exact { by - 1 } else { by };
        let target = at.saturating_add_signed(by).min(self.0.len() - 1);
        self.0.get(target).copied().unwrap_or(value)
    }

    /// Where `value` lies between the ends, 0 to 1: stops are evenly spaced, values between them interpolated.
    pub fn fraction(&self, value: u64) -> f64 {
        let steps = self.0.len() - 1;
        let above = self.0.partition_point(|&stop| stop <= value);
        if steps == 0 || above == 0 {
            return 0.0;
        }
        let (Some(&low), Some(&high)) = (self.0.get(above - 1), self.0.get(above)) else { return 1.0 };
        let part = (value - low) as f64 / (high - low) as f64;
        ((above - 1) as f64 + part) / steps as f64
    }

    /// The stop nearest to `fraction` of the way.
    pub fn nearest(&self, fraction: f64) -> u64 {
        let steps = (self.0.len() - 1) as f64;
        let at = (fraction.clamp(0.0, 1.0) * steps).round() as usize;
        self.0.get(at).copied().unwrap_or_else(|| self.last())
    }
}

impl Knob {
    /// `value` for the screen.
    pub fn show(self, value: u64) -> String {
        match self.choices() {
            Some(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
            None if self.is_percent() => format!("{value}\u{2009}%"),
            None if self.is_of_a_turn() && value == 0 => "–".to_owned(),
            None if self == Self::CacheRam && value > 0 => Bytes::mib(value).to_string(),
            None if self == Self::CacheRam => "off".to_owned(),
            None => grouped(value, '\u{2009}'),
        }
    }

    /// `value` for the command line and files.
    pub fn plain(self, value: u64) -> String {
        match self {
            Self::MmprojDevice => if value > 0 { "none" } else { "GPU0" }.to_owned(),
            _ if self.choices().is_some() => self.show(value),
            _ => value.to_string(),
        }
    }

    /// Initial text of the input field.
    pub fn typed(self, settings: &Settings, value: u64) -> String {
        match self {
            Self::TensorSplit if settings.tensor_split.len() > 2 => {
                settings.tensor_split.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            _ => self.plain(value),
        }
    }

    /// Sets the knob from typed text: a number (`32768`, `32 768`, `32,768`, `32k`), one of its choices, `auto` or `max`; for the
    /// tensor split a percentage or all shares (`3,1,1`).
    ///
    /// # Errors
    /// One sentence that names the accepted values.
    pub fn read(self, text: &str, settings: &mut Settings, bounds: &Bounds) -> Result<(), String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let word = text.to_ascii_lowercase().replace('_', "");
        if let (Self::MmprojDevice, Ok(device)) = (self, text.parse()) {
            settings.mmproj.device = device;
            return Ok(());
        }
        if let Some(words) = self.choices() {
            let plain = |choice: &str| choice.replace('_', "").to_ascii_lowercase();
            return match words.iter().position(|choice| plain(choice) == word) {
                Some(at) => {
                    self.set(settings, at as u64);
                    Ok(())
                }
                None if word == "auto" => {
                    self.reset(settings);
                    Ok(())
                }
                None if self == Self::Quant => {
                    Err(format!("'{text}' is not a known quantisation: use one like Q4_K_M, Q8_0 or IQ3_XS, or auto"))
                }
                None => Err(format!("'{text}' is not a value of {}: use {}, or auto", self.title(), words.join(", "))),
            };
        }
        match (self, word.as_str()) {
            (_, "auto") => self.reset(settings),
            (Self::Outputs, "ubatch") => settings.outputs = Outputs::Ubatch,
            (_, "max" | "all") => self.set(settings, self.stops(bounds).last()),
            (Self::TensorSplit, list) if list.contains(',') => settings.tensor_split = shares(list)?,
            (Self::CacheRam, "off") => self.set(settings, 0),
            (Self::CacheRam, size) if size.ends_with('b') => {
                let bytes: Bytes = size.parse().map_err(|error: crate::units::NotASize| error.to_string())?;
                self.set(settings, in_mib(bytes));
            }
            (_, number) => {
                let value = self.number(&text, number.trim_end_matches('%'))?;
                self.set(settings, value);
            }
        }
        Ok(())
    }

    fn number(self, text: &str, word: &str) -> Result<u64, String> {
        let wrong = || match self {
            Self::TensorSplit => format!(
                "'{text}' is not a valid split: use a percentage like 60, shares like \
                                          3,1,1, or auto"
            ),
            _ => format!("'{text}' is not a number: use one like 32768 or 32k, or auto"),
        };
        let value = whole(word).ok_or_else(wrong)?;
        let (least, most) = (self.least(), if self.is_percent() { 100 } else { MAX_VALUE });
        if value < least || value > most {
            return Err(format!("{text} is out of range for {}: use {least} to {most}", self.title()));
        }
        Ok(value)
    }
}

/// Parses a tensor split.
fn shares(list: &str) -> Result<Vec<f64>, String> {
    let wrong = || format!("'{list}' is not a valid split: use numbers of 0 or more that are not all 0, such as 3,1,1");
    let share = |text: &str| text.parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
    let shares: Vec<f64> = list.split(',').map(share).collect::<Option<_>>().ok_or_else(wrong)?;
    if shares.iter().any(|share| *share > 0.0) { Ok(shares) } else { Err(wrong()) }
}

impl Knob {
    /// The value set by the user; `None` if the engine decides.
    pub fn chosen(self, settings: &Settings, bounds: &Bounds) -> Option<u64> {
        match self {
            Self::Context => match settings.ctx {
                Context::Auto => None,
                Context::Tokens(n) => Some(n),
                Context::Max => Some(self.stops(bounds).last()),
            },
            Self::Parallel => settings.parallel,
            Self::Batch => settings.batch,
            Self::Ubatch => settings.ubatch,
            Self::Quant => place(&QUANTISATIONS, &settings.quant?.nearest()),
            Self::CacheType => place(&CACHE_CHOICES, &settings.cache_type_k?),
            Self::CacheTypeK => place(&CACHE_TYPES, &settings.cache_type_k?),
            Self::CacheTypeV => place(&CACHE_TYPES, &settings.cache_type_v?),
            Self::FlashAttn => place(&FlashAttn::ALL, &settings.flash_attn),
            // "off" cannot be set: llama-server has no negated option
            Self::KvUnified => settings.kv_unified.then_some(1),
            Self::Outputs => match settings.outputs {
                Outputs::Parallel => None,
                Outputs::Tokens(n) => Some(n),
                Outputs::Ubatch => Some(self.stops(bounds).last()),
            },
            Self::GpuLayers => match settings.gpu_layers {
                GpuLayers::Auto => None,
                GpuLayers::All => Some(bounds.layer_count),
                GpuLayers::Count(n) => Some(n),
            },
            Self::CpuMoe => settings.n_cpu_moe,
            // "GPU" without a number is what the engine does by itself
            Self::MmprojDevice => match settings.mmproj.device {
                MmprojDevice::First => None,
                MmprojDevice::Gpu(_) => Some(0),
                MmprojDevice::Cpu => Some(1),
            },
            Self::ImageTokens => settings.mmproj.image_max_tokens,
            Self::TensorSplit => percent_of_first(&settings.tensor_split),
            Self::Draft => match settings.draft.types.as_deref()? {
                [one] => place(&SpecType::BY_MODEL, one),
                _ => None,
            },
            Self::DraftMax => settings.draft.n_max,
            Self::LoadMode => place(&LoadMode::ALL, &settings.load_mode?),
            Self::CacheRam => Some(in_mib(settings.cache_ram?)),
            Self::PromptTokens => settings.prompt_tokens,
            Self::AnswerTokens => settings.answer_tokens,
            Self::Cached => Some(in_percent(settings.cached?)),
        }
    }

    /// Sets the knob to `value`, which need not be a stop.
    pub fn set(self, settings: &mut Settings, value: u64) {
        let value = value.clamp(self.least(), MAX_VALUE);
        let at = value as usize;
        match self {
            Self::Context => settings.ctx = Context::Tokens(value),
            Self::Parallel => settings.parallel = Some(value),
            Self::Batch => settings.batch = Some(value),
            Self::Ubatch => settings.ubatch = Some(value),
            Self::Quant => settings.quant = QUANTISATIONS.get(at).copied().map(Into::into),
            Self::CacheType => {
                let ty = CACHE_CHOICES.get(at).copied();
                (settings.cache_type_k, settings.cache_type_v) = (ty, ty);
            }
            Self::CacheTypeK => settings.cache_type_k = CACHE_TYPES.get(at).copied(),
            Self::CacheTypeV => settings.cache_type_v = CACHE_TYPES.get(at).copied(),
            Self::FlashAttn => settings.flash_attn = FlashAttn::ALL.get(at).copied().unwrap_or_default(),
            Self::KvUnified => settings.kv_unified = value > 0,
            Self::Outputs => settings.outputs = Outputs::Tokens(value),
            Self::GpuLayers => settings.gpu_layers = GpuLayers::Count(value),
            Self::CpuMoe => settings.n_cpu_moe = Some(value),
            Self::MmprojDevice => {
                settings.mmproj.device = if value > 0 { MmprojDevice::Cpu } else { MmprojDevice::First };
            }
            Self::ImageTokens => settings.mmproj.image_max_tokens = Some(value),
            Self::TensorSplit => settings.tensor_split = with_first(&settings.tensor_split, value.min(100)),
            Self::Draft => settings.draft.types = SpecType::BY_MODEL.get(at).map(|kind| vec![*kind]),
            Self::DraftMax => settings.draft.n_max = Some(value),
            Self::LoadMode => settings.load_mode = LoadMode::ALL.get(at).copied(),
            Self::CacheRam => settings.cache_ram = Some(Bytes::mib(value)),
            Self::PromptTokens => settings.prompt_tokens = Some(value),
            Self::AnswerTokens => settings.answer_tokens = Some(value),
            Self::Cached => settings.cached = Some(value.min(100) as f64 / 100.0),
        }
    }

    /// Resets the knob to auto.
    pub fn reset(self, settings: &mut Settings) {
        self.copy(&Settings::default(), settings);
    }

    /// Copies the knob's value: that of the option with its name.
    pub fn copy(self, from: &Settings, to: &mut Settings) {
        if let Some(flag) = Flag::named(self.name()) {
            flag.copy(from, to);
        }
    }
}

/// The single type that stands for K and V on an engine that has only one; none if it does not accept it.
pub(in crate::settings) fn one_type(k: Option<CacheType>, v: Option<CacheType>) -> Option<CacheType> {
    k.or(v).filter(|ty| CACHE_CHOICES.contains(ty))
}

/// Whole MiB, as llama-server's option has them.
pub(crate) const fn in_mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1 << 20)
}

/// A share in whole percent.
pub(crate) fn in_percent(share: f64) -> u64 {
    (share * 100.0).round() as u64
}

/// The first of `shares` in percent of their sum; `None` if there are none or all are zero.
pub(crate) fn percent_of_first(shares: &[f64]) -> Option<u64> {
    let sum: f64 = shares.iter().sum();
    let percent = 100.0 * shares.first()? / sum;
    percent.is_finite().then(|| percent.round().clamp(0.0, 100.0) as u64)
}

/// `shares` in percent with the first set to `percent` and the others in their old proportions. Without shares, a split
/// over two GPUs.
fn with_first(shares: &[f64], percent: u64) -> Vec<f64> {
    let others = shares.get(1..).filter(|others| !others.is_empty()).unwrap_or(&[1.0]);
    let rest = (100 - percent) as f64;
    let sum: f64 = others.iter().sum();
    let even = 1.0 / others.len() as f64;
    let part = |share: &f64| if sum > 0.0 && sum.is_finite() { share / sum } else { even };
    // two decimals are finer than one layer of any model
    let rounded = |share: f64| (share * 100.0).round() / 100.0;
    std::iter::once(percent as f64).chain(others.iter().map(|share| rounded(rest * part(share)))).collect()
}

/// The index of `wanted` in `choices`.
pub(crate) fn place<T: PartialEq>(choices: &[T], wanted: &T) -> Option<u64> {
    choices.iter().position(|choice| choice == wanted).map(|at| at as u64)
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

#[cfg(test)]
mod text_tests {
    use super::*;
    use crate::settings::{CacheType, GpuLayers};

    const BOUNDS: Bounds =
        Bounds { context_train: Some(131_072), context: 8192, layer_count: 33, experts: false, draft: None };

    #[test]
    fn typed_values_are_set_exactly() {
        let mut settings = Settings::default();
        for (text, value) in [("12345", 12_345), ("32k", 32_768), ("32 768", 32_768), ("max", 131_072)] {
            Knob::Context.read(text, &mut settings, &BOUNDS).unwrap();
            assert_eq!(Knob::Context.chosen(&settings, &BOUNDS), Some(value));
        }
        for text in ["", "k", "-1", "0", "1e9", "99999999999999", "18446744073709551615k"] {
            assert!(Knob::Context.read(text, &mut settings, &BOUNDS).is_err(), "{text}");
        }
        Knob::CacheType.read("Q8_0", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.cache_type_v, Some(CacheType::Q8_0));
        Knob::GpuLayers.read("auto", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.gpu_layers, GpuLayers::Auto);
    }

    #[test]
    fn k_and_v_accept_every_type_independently() {
        let mut settings = Settings::default();
        Knob::CacheTypeK.read("iq4_nl", &mut settings, &BOUNDS).unwrap();
        Knob::CacheTypeV.read("bf16", &mut settings, &BOUNDS).unwrap();
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Iq4Nl), Some(CacheType::Bf16)));
        Knob::CacheTypeK.read("auto", &mut settings, &BOUNDS).unwrap();
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (None, Some(CacheType::Bf16)));
        let error = Knob::CacheTypeV.read("q9", &mut settings, &BOUNDS).unwrap_err();
        assert!(error.contains("q5_1") && error.contains("auto"), "{error}");
    }

    #[test]
    fn a_split_is_parsed_as_a_percentage_or_as_shares() {
        let mut settings = Settings::default();
        Knob::TensorSplit.read("3, 1,1", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.tensor_split, [3.0, 1.0, 1.0]);
        assert_eq!(Knob::TensorSplit.chosen(&settings, &BOUNDS), Some(60));
        Knob::TensorSplit.read("20%", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.tensor_split, [20.0, 40.0, 40.0]);
        for text in ["101", "0,0", "1,-1", "1,x", "nan,1", "one"] {
            assert!(Knob::TensorSplit.read(text, &mut settings, &BOUNDS).is_err(), "{text}");
        }
        Knob::TensorSplit.read("auto", &mut settings, &BOUNDS).unwrap();
        assert!(settings.tensor_split.is_empty());
    }

    #[test]
    fn outputs_are_a_number_or_the_ubatch() {
        let mut settings = Settings::default();
        Knob::Outputs.read("ubatch", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.outputs, Outputs::Ubatch);
        Knob::Outputs.read("7", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.outputs, Outputs::Tokens(7));
        assert!(Knob::Outputs.read("0", &mut settings, &BOUNDS).is_err());
    }
}

#[cfg(test)]
mod value_tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds =
        Bounds { context_train: Some(131_072), context: 8192, layer_count: 33, experts: false, draft: None };

    proptest! {
        #[test]
        fn set_values_are_read_back_and_reset_restores_the_default(at in 0..Knob::ALL.len(), place in any::<prop::sample::Index>()) {
            let knob = Knob::ALL[at];
            let stops = knob.stops(&BOUNDS);
            let value = *place.get(stops.as_slice());
            let mut settings = Settings::default();
            knob.set(&mut settings, value);
            let off = matches!(knob, Knob::KvUnified | Knob::MmprojDevice) && value == 0;
            prop_assert_eq!(knob.chosen(&settings, &BOUNDS), Some(value).filter(|_| !off));
            knob.reset(&mut settings);
            prop_assert_eq!(settings, Settings::default());
        }

        #[test]
        fn a_split_adds_up_to_100_percent(
            shares in prop::collection::vec(0.0..100.0f64, 0..9), percent in 0u64..=100,
        ) {
            let split = with_first(&shares, percent);
            prop_assert!((split.iter().sum::<f64>() - 100.0).abs() < 0.1, "{split:?}");
            prop_assert_eq!(split.len(), shares.len().max(2));
            prop_assert_eq!(percent_of_first(&split), Some(percent));
        }
    }

    #[test]
    fn the_other_gpus_keep_their_proportions() {
        assert_eq!(with_first(&[1.0, 2.0, 1.0, 1.0], 60), [60.0, 20.0, 10.0, 10.0]);
        assert_eq!(with_first(&[], 75), [75.0, 25.0]);
        assert_eq!(with_first(&[5.0, 0.0, 0.0], 50), [50.0, 25.0, 25.0], "shares of zero are split evenly");
    }
}
