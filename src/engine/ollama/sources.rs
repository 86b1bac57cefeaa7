//! Who set a value of a plan.

use std::collections::BTreeMap;

use super::discovery::CountedGpu;
use super::server_launch::Retry;
use crate::settings::knob::Knob;
use crate::settings::{Context, Settings, Source};
use crate::units::Bytes;

/// Who set a value, where it was not the request.
pub(super) fn sources(settings: &Settings, counted: &[CountedGpu], retry: Retry) -> BTreeMap<&'static str, String> {
    let knobs = [
        (Knob::Context, "ctx"),
        (Knob::Parallel, "parallel"),
        (Knob::Batch, "batch"),
        (Knob::CacheTypeK, "cache_type_k"),
        (Knob::CacheTypeV, "cache_type_v"),
        (Knob::FlashAttn, "flash_attn"),
        (Knob::GpuLayers, "gpu_layers"),
    ];
    let known = |(knob, key): (Knob, &'static str)| {
        let source = settings.source_of(knob).filter(|source| *source != Source::Request)?;
        Some((key, source.to_string()))
    };
    let mut sources: BTreeMap<&'static str, String> = knobs.into_iter().filter_map(known).collect();
    if settings.ctx == Context::Auto && !settings.raw {
        let total: Bytes = counted.iter().map(|one| one.gpu.total).sum();
        let by = match (retry.ctx, counted) {
            (Some(_), _) => "lowered, as loading ran out of memory".to_owned(),
            (None, []) => "by VRAM, no GPU".to_owned(),
            (None, _) => format!("by VRAM, {total} in all"),
        };
        sources.insert("ctx", by);
    }
    sources
}
