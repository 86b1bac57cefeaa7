//! What a knob is set to, and setting it.

use super::{Bounds, CACHE_CHOICES, CACHE_TYPES, Knob, MAX_VALUE, QUANTISATIONS, in_mib};
use crate::settings::draft::{LoadMode, MmprojDevice, SpecType};
use crate::settings::fields::Settings;
use crate::settings::flag::Flag;
use crate::settings::values::{Context, FlashAttn, GpuLayers, Outputs};
use crate::units::Bytes;

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
pub(super) fn with_first(shares: &[f64], percent: u64) -> Vec<f64> {
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
