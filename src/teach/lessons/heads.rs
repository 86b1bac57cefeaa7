//! What the caches would take if every query head had its own K and V.

use super::measure::Case;
use crate::engine::ggml::Type;
use crate::engine::llama_cpp::{self, cache::Memory};
use crate::gguf::Value;
use crate::teach::caches;
use crate::units::Bytes;

/// llama.cpp's caches of a case; none if it does not support the model.
fn layout(case: &Case) -> Option<Memory> {
    llama_cpp::cache_layout(&case.request.model, &case.plan, &case.request.settings).ok()
}

/// A length of a head in the header.
pub(super) fn length(case: &Case, key: &str) -> Option<u64> {
    case.request.model.value(key).and_then(Value::as_u64)
}

/// The bytes of K and V with as many KV heads as query heads. MLA's compressed rows count as the heads that they stand
/// for (`attention.key_length_mla`).
pub(super) fn every_head(case: &Case) -> Option<Bytes> {
    let memory = layout(case)?;
    let hyper = &case.request.model.hyper;
    let mla = |key| length(case, key);
    let (mla_k, mla_v) = (mla("attention.key_length_mla"), mla("attention.value_length_mla"));
    let mut bytes = Bytes::ZERO;
    for cache in [&memory.full, &memory.window].into_iter().flatten() {
        let cells = cache.size.saturating_mul(cache.streams);
        for (il, layer) in cache.layers.iter().enumerate() {
            let Some(layer) = layer.filter(|layer| layer.owner == il) else { continue };
            let (heads, kv_heads) = (*hyper.heads.get(il)?, *hyper.kv_heads.get(il)?);
            // a block without attention
            if layer.k == 0 {
                continue;
            }
            let k = mla_k.or_else(|| layer.k.checked_div(kv_heads))?;
            let v = mla_v.or_else(|| layer.v?.checked_div(kv_heads))?;
            let row = caches::row(layer.ty_k, k.saturating_mul(heads));
            let row = row.saturating_add(caches::row(layer.ty_v, v.saturating_mul(heads)));
            bytes += Bytes(row.saturating_mul(cells));
        }
    }
    Some(bytes)
}

/// The recurrent states of all blocks and sequences, without snapshots.
pub(super) fn states(case: &Case) -> Option<Bytes> {
    let recurrent = layout(case)?.recurrent?;
    let row = caches::row(Type::F32, recurrent.r).saturating_add(caches::row(Type::F32, recurrent.s));
    let blocks = recurrent.layers.iter().flatten().count() as u64;
    Some(Bytes(row.saturating_mul(recurrent.rows()).saturating_mul(blocks)))
}
