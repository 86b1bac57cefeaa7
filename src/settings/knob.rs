//! The knobs that can be turned by hand: their ranges, where they snap, and how a typed value is read.

use super::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use crate::plan::InEffect;
use crate::units::grouped;

/// Largest value that a person may type: beyond it no arithmetic on memory makes sense.
pub const LARGEST: u64 = 1 << 40;

/// Number formats offered for a cache, widest first: those that Ollama accepts.
pub const CACHE_CHOICES: [CacheType; 3] = [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0];

/// What is offered for flash attention.
pub const FLASH_CHOICES: [FlashAttn; 3] = [FlashAttn::Auto, FlashAttn::On, FlashAttn::Off];

/// One knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Knob {
    /// Tokens of context.
    #[default]
    Context,
    /// Sequences served at once.
    Parallel,
    /// Number format of the KV cache, K and V alike.
    CacheType,
    /// Flash attention.
    FlashAttn,
    /// Logical batch, in tokens.
    Batch,
    /// Layers on GPUs, the output layer counted.
    GpuLayers,
}

/// What a knob's range depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Context that the model was trained for, in tokens.
    pub context_train: Option<u64>,
    /// Layers that can go to a GPU, the output layer counted.
    pub layer_count: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { context_train: None, layer_count: 1 }
    }
}

/// The places of a knob, ascending; never empty.
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

    /// The places, ascending.
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

    /// `by` places above `value`, or below it where `by` is negative; a value between two places counts as either.
    pub fn step(&self, value: u64, by: isize) -> u64 {
        let at = self.0.partition_point(|&stop| stop < value);
        let exact = self.0.binary_search(&value).is_ok();
        let by = if by > 0 && !exact { by - 1 } else { by };
        let target = at.saturating_add_signed(by).min(self.0.len() - 1);
        self.0.get(target).copied().unwrap_or(value)
    }

    /// Where `value` lies between the ends, 0 to 1: places are evenly spaced, values between two places in proportion.
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

    /// The place nearest to `fraction` of the way.
    pub fn nearest(&self, fraction: f64) -> u64 {
        let steps = (self.0.len() - 1) as f64;
        let at = (fraction.clamp(0.0, 1.0) * steps).round() as usize;
        self.0.get(at).copied().unwrap_or_else(|| self.last())
    }
}

impl Knob {
    /// Every knob, in the order of the screen.
    pub const ALL: [Self; 6] =
        [Self::Context, Self::Parallel, Self::CacheType, Self::FlashAttn, Self::Batch, Self::GpuLayers];

    /// Its name in JSON and, after two dashes, on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Context => "ctx",
            Self::Parallel => "parallel",
            Self::CacheType => "kv-type",
            Self::FlashAttn => "flash-attn",
            Self::Batch => "batch",
            Self::GpuLayers => "gpu-layers",
        }
    }

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Parallel => "parallel",
            Self::CacheType => "KV cache",
            Self::FlashAttn => "flash attn",
            Self::Batch => "batch",
            Self::GpuLayers => "GPU layers",
        }
    }

    /// What it is, in one sentence.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Context => "Tokens of context for each sequence (num_ctx).",
            Self::Parallel => "Sequences served at once; each has a context of its own.",
            Self::CacheType => "The number format of the KV cache. Formats below f16 need flash attention.",
            Self::FlashAttn => "Attention without the full matrix of scores. On auto the engine decides.",
            Self::Batch => "Tokens of a prompt that are computed at once (num_batch).",
            Self::GpuLayers => "Layers on GPUs, the output layer counted (num_gpu). On auto the engine decides.",
        }
    }

    /// The words of a knob that has words instead of numbers; its values are indices into them.
    pub fn choices(self) -> Option<Vec<&'static str>> {
        match self {
            Self::CacheType => Some(CACHE_CHOICES.iter().map(|ty| ty.name()).collect()),
            Self::FlashAttn => Some(FLASH_CHOICES.iter().map(|&flash| flash_name(flash)).collect()),
            _ => None,
        }
    }

    /// Where it snaps: powers of two and the usual sizes in between, and the ends that the model sets.
    pub fn stops(self, bounds: &Bounds) -> Stops {
        let doubling = |from: u64, to: u64| {
            (0..40).map(|n| 1u64 << n).flat_map(|n| [n, n + n / 2]).filter(move |n| (from..=to).contains(n))
        };
        Stops::new(match self {
            Self::Context => {
                let top = bounds.context_train.filter(|&top| top > 0).map_or(1 << 20, |top| top.min(LARGEST));
                doubling(1024.min(top), top).chain([top]).collect()
            }
            Self::Parallel => doubling(1, 64).collect(),
            Self::Batch => doubling(32, 4096).collect(),
            Self::GpuLayers => (0..=bounds.layer_count.min(4096)).collect(),
            Self::CacheType => (0..CACHE_CHOICES.len() as u64).collect(),
            Self::FlashAttn => (0..FLASH_CHOICES.len() as u64).collect(),
        })
    }

    /// `count` of its stops at most, and at least its two ends, ascending. Where not all find room, powers of two go
    /// first, and of the rest the larger; layers are spread evenly.
    pub fn spread(self, bounds: &Bounds, count: usize) -> Vec<u64> {
        let stops = self.stops(bounds);
        let (first, last) = (stops.first(), stops.last());
        let mut ranked = stops.as_slice().to_vec();
        let every = ranked.len().div_ceil(count.max(1)).max(1) as u64;
        let is_round = |value: u64| match self {
            Self::GpuLayers => value.is_multiple_of(every),
            _ => value.is_power_of_two(),
        };
        ranked.sort_by_key(|&value| (value != first && value != last, !is_round(value), std::cmp::Reverse(value)));
        ranked.truncate(count.max(2));
        ranked.sort_unstable();
        ranked
    }

    /// How far a fine step goes.
    pub const fn fine(self) -> u64 {
        match self {
            Self::Context => 256,
            Self::Batch => 16,
            _ => 1,
        }
    }

    /// The smallest value that means something.
    pub const fn least(self) -> u64 {
        match self {
            Self::Context | Self::Parallel | Self::Batch => 1,
            _ => 0,
        }
    }

    /// What the person chose; `None` where the engine decides.
    pub fn chosen(self, settings: &Settings, bounds: &Bounds) -> Option<u64> {
        match self {
            Self::Context => match settings.ctx {
                Context::Auto => None,
                Context::Tokens(n) => Some(n),
                Context::Max => Some(self.stops(bounds).last()),
            },
            Self::Parallel => settings.parallel,
            Self::Batch => settings.batch,
            Self::CacheType => place(&CACHE_CHOICES, &settings.cache_type_k?),
            Self::FlashAttn => place(&FLASH_CHOICES, &settings.flash_attn),
            Self::GpuLayers => match settings.gpu_layers {
                GpuLayers::Auto => None,
                GpuLayers::All => Some(bounds.layer_count),
                GpuLayers::Count(n) => Some(n),
            },
        }
    }

    /// What is in effect, given that `offloaded` layers ended up on GPUs.
    pub fn in_effect(self, effect: &InEffect, offloaded: usize) -> u64 {
        match self {
            Self::Context => effect.ctx,
            Self::Parallel => effect.parallel,
            Self::Batch => effect.batch,
            Self::CacheType => place(&CACHE_CHOICES, &effect.cache_type_k).unwrap_or(0),
            Self::FlashAttn => place(&FLASH_CHOICES, &effect.flash_attn).unwrap_or(0),
            Self::GpuLayers => offloaded as u64,
        }
    }

    /// Sets it to `value`, exactly.
    pub fn set(self, settings: &mut Settings, value: u64) {
        let value = value.clamp(self.least(), LARGEST);
        match self {
            Self::Context => settings.ctx = Context::Tokens(value),
            Self::Parallel => settings.parallel = Some(value),
            Self::Batch => settings.batch = Some(value),
            Self::CacheType => {
                let ty = CACHE_CHOICES.get(value as usize).copied();
                (settings.cache_type_k, settings.cache_type_v) = (ty, ty);
            }
            Self::FlashAttn => settings.flash_attn = FLASH_CHOICES.get(value as usize).copied().unwrap_or_default(),
            Self::GpuLayers => settings.gpu_layers = GpuLayers::Count(value),
        }
    }

    /// Leaves it to the engine again.
    pub fn reset(self, settings: &mut Settings) {
        match self {
            Self::Context => settings.ctx = Context::Auto,
            Self::Parallel => settings.parallel = None,
            Self::Batch => settings.batch = None,
            Self::CacheType => (settings.cache_type_k, settings.cache_type_v) = (None, None),
            Self::FlashAttn => settings.flash_attn = FlashAttn::Auto,
            Self::GpuLayers => settings.gpu_layers = GpuLayers::Auto,
        }
    }

    /// `value` as it is read on the screen.
    pub fn show(self, value: u64) -> String {
        match self.choices() {
            Some(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
            None => grouped(value, '\u{2009}'),
        }
    }

    /// `value` as it is written on the command line and in files.
    pub fn plain(self, value: u64) -> String {
        if self.choices().is_some() { self.show(value) } else { value.to_string() }
    }

    /// Sets it to what a person typed: a number (`32768`, `32 768`, `32k`), a word of its own, `auto` or `max`.
    ///
    /// # Errors
    /// One sentence on what can be written instead.
    pub fn read(self, text: &str, settings: &mut Settings, bounds: &Bounds) -> Result<(), String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let word = text.to_ascii_lowercase().replace('_', "");
        if let Some(words) = self.choices() {
            let Some(at) = words.iter().position(|choice| choice.replace('_', "") == word) else {
                return Err(format!("'{text}' is no {}: write {}", self.title(), words.join(", ")));
            };
            self.set(settings, at as u64);
            return Ok(());
        }
        match word.as_str() {
            "auto" => self.reset(settings),
            "max" | "all" => self.set(settings, self.stops(bounds).last()),
            _ => {
                let (digits, scale) = match word.strip_suffix('k') {
                    Some(digits) => (digits, 1024),
                    None => (word.as_str(), 1),
                };
                let wrong = || format!("'{text}' is not a number: write one like 32768 or 32k, or auto");
                let value = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(wrong)?;
                if value > LARGEST || value < self.least() {
                    let least = self.least();
                    return Err(format!("{text} is out of range for {}: write {least} to {LARGEST}", self.title()));
                }
                self.set(settings, value);
            }
        }
        Ok(())
    }
}

fn place<T: PartialEq>(choices: &[T], wanted: &T) -> Option<u64> {
    choices.iter().position(|choice| choice == wanted).map(|at| at as u64)
}

const fn flash_name(flash: FlashAttn) -> &'static str {
    match flash {
        FlashAttn::Auto => "auto",
        FlashAttn::On => "on",
        FlashAttn::Off => "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { context_train: Some(131_072), layer_count: 33 };

    #[test]
    fn context_snaps_to_the_sizes_people_use() {
        let stops = Knob::Context.stops(&BOUNDS);
        assert_eq!((stops.first(), stops.last()), (1024, 131_072));
        assert!(stops.as_slice().contains(&24_576) && stops.as_slice().contains(&32_768));
        assert_eq!(stops.step(32_768, 1), 49_152);
        assert_eq!(stops.step(32_768, -1), 24_576);
        assert_eq!((stops.step(33_000, 1), stops.step(33_000, -1)), (49_152, 32_768));
        assert_eq!((stops.step(131_072, 1), stops.step(1, -1), stops.step(1 << 40, -1)), (131_072, 1024, 131_072));
    }

    #[test]
    fn a_place_on_the_track_and_its_value_agree() {
        for knob in Knob::ALL {
            let stops = knob.stops(&BOUNDS);
            for &stop in stops.as_slice() {
                assert_eq!(stops.nearest(stops.fraction(stop)), stop, "{knob:?}");
            }
            assert!((stops.fraction(u64::MAX) - 1.0).abs() < 1e-9 && stops.fraction(0).abs() < 1e-9);
        }
    }

    #[test]
    fn typed_values_are_taken_exactly() {
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
}
