//! The values of knobs in a plan.

use super::{Part, PartKind, Plan};
use crate::settings::knob::value::{in_mib, percent_of_first, place};
use crate::settings::knob::{CACHE_CHOICES, CACHE_TYPES, FLASH_CHOICES, Knob, QUANTISATIONS};
use crate::settings::{LoadMode, SpecType};
use crate::units::Bytes;

impl Knob {
    /// The value in effect in `plan`. For a knob that its engine lacks, the minimum.
    pub fn in_effect(self, plan: &Plan) -> u64 {
        let effect = &plan.settings;
        match self {
            Self::Context => effect.ctx,
            Self::Parallel => effect.parallel,
            Self::Batch => effect.batch,
            Self::Ubatch => effect.ubatch,
            // a file of unknown type has no place on the slider
            Self::Quant => {
                let named = plan.model.file_type.as_deref().and_then(|name| name.parse().ok());
                named.and_then(|to| place(&QUANTISATIONS, &to)).unwrap_or(u64::MAX)
            }
            Self::CacheType => place(&CACHE_CHOICES, &effect.cache_type_k).unwrap_or(0),
            Self::CacheTypeK => place(&CACHE_TYPES, &effect.cache_type_k).unwrap_or(0),
            Self::CacheTypeV => place(&CACHE_TYPES, &effect.cache_type_v).unwrap_or(0),
            Self::FlashAttn => place(&FLASH_CHOICES, &effect.flash_attn).unwrap_or(0),
            Self::KvUnified => effect.kv_unified.unwrap_or_default().into(),
            Self::Outputs => effect.outputs.unwrap_or_else(|| self.least()),
            Self::GpuLayers => plan.offloaded as u64,
            Self::CpuMoe => effect.n_cpu_moe.unwrap_or_else(|| self.least()),
            Self::MmprojDevice => {
                let weights =
                    |part: &Part| part.devices.iter().zip(plan.gpus()).map(|(memory, _)| memory.weights).sum::<Bytes>();
                let reads = |part: &&Part| matches!(part.kind, PartKind::Vision | PartKind::Audio);
                plan.parts.iter().find(reads).is_some_and(|part| weights(part) == Bytes::ZERO).into()
            }
            Self::ImageTokens => effect.image_max_tokens.unwrap_or_else(|| self.least()),
            Self::TensorSplit => {
                let layers: Vec<f64> = plan.shares();
                percent_of_first(&layers).unwrap_or_else(|| self.least())
            }
            Self::Draft => {
                let named = effect.spec_type.as_deref().and_then(|name| name.parse().ok());
                named.and_then(|kind| place(&SpecType::BY_MODEL, &kind)).unwrap_or(0)
            }
            Self::DraftMax => effect.spec_draft_n_max.unwrap_or_else(|| self.least()),
            Self::LoadMode => effect.load_mode.and_then(|mode| place(&LoadMode::ALL, &mode)).unwrap_or(0),
            Self::CacheRam => effect.cache_ram.map_or(0, in_mib),
        }
    }
}
