//! What a type of the KV cache takes, and what it saves.

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::settings::{CacheType, Context, GpuLayers};
use crate::units::Bytes;

/// Approximate bits per element; only the order matters.
pub(in crate::answer) const fn width(ty: CacheType) -> u32 {
    match ty {
        CacheType::F32 => 32,
        CacheType::F16 | CacheType::Bf16 => 16,
        CacheType::Q8_0 => 8,
        CacheType::Q5_1 | CacheType::Q5_0 => 5,
        CacheType::Q4_1 | CacheType::Q4_0 | CacheType::Iq4Nl => 4,
        CacheType::Fork(ty) => (8 * ty.block_bytes() / ty.block()) as u32,
    }
}

/// The types that every engine offers, widest first.
const TYPES: [CacheType; 3] = [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0];

/// What one type of the KV cache takes, with context, sequences and layers on GPUs as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheTypeCost {
    /// The type of K and V.
    pub cache_type: CacheType,
    /// Caches on all devices.
    pub cache: Bytes,
    /// Compute buffers of all devices.
    pub graph: Bytes,
    /// The same two with the types in force.
    in_force: (Bytes, Bytes),
}

impl CacheTypeCost {
    /// `saves 4.1 GiB of cache, costs 1.0 GiB of copies`; none for a type that saves nothing against those in force.
    pub fn against_in_force(&self) -> Option<String> {
        let (cache, graph) = self.in_force;
        let (saved, copies) = (cache - self.cache, self.graph - graph);
        let copies = if copies > Bytes::ZERO { format!(", costs {copies} of copies") } else { String::new() };
        (saved > Bytes::ZERO).then(|| format!("saves {saved} of cache{copies}"))
    }
}

impl PlanRequest {
    /// What each type takes; `plan` is this request's plan. A type that the engine refuses is left out; empty without a
    /// cache.
    pub fn cache_type_costs(&self, plan: &Plan) -> Vec<CacheTypeCost> {
        let totals = |k, v| {
            let totals = self
                .plan_with(|settings| {
                    settings.ctx = Context::Tokens(plan.settings.ctx);
                    settings.gpu_layers = GpuLayers::Count(plan.offloaded as u64);
                    (settings.cache_type_k, settings.cache_type_v) = (Some(k), Some(v));
                })?
                .totals;
            Some((totals.cache, totals.graph))
        };
        let now = (plan.settings.cache_type_k, plan.settings.cache_type_v);
        let Some(in_force) = totals(now.0, now.1).filter(|(cache, _)| *cache > Bytes::ZERO) else { return Vec::new() };
        let cost = |cache_type| {
            let (cache, graph) =
                if now == (cache_type, cache_type) { in_force } else { totals(cache_type, cache_type)? };
            Some(CacheTypeCost { cache_type, cache, graph, in_force })
        };
        TYPES.into_iter().filter_map(cost).collect()
    }
}
