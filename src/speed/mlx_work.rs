//! What a Mac's GPU does for one token with MLX: the weights that it needs in MLX's own packing, and the caches.

use super::family::known;
use crate::engine::PreparedModel;
use crate::machine::Machine;
use crate::model::mlx::{Heads, LayerCache, MlxModel, ModuleWeights};
use crate::plan::Plan;
use crate::safetensors::Dtype;
use crate::settings::{CacheType, EngineId};
use crate::units::Bandwidth;

/// Numbers that share a scale and a bias in a quantised cache. Source: `cache.py`, mlx-lm 0.32.2.
const GROUP: f64 = 64.0;

/// What a token reads, in bytes, and the layers that it passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MlxReads {
    /// The bandwidth of the chip's memory.
    pub bandwidth: Bandwidth,
    /// Weights.
    pub weights: f64,
    /// Caches and states.
    pub cache: f64,
    /// Layers.
    pub layers: f64,
    /// Those with experts or a recurrent state.
    pub busy: f64,
}

/// The work of `plan`, which is a plan of `model` on `machine`, with `depth` tokens in the cache. None if nothing is known of
/// the chip or of the model's class, and for cards of CUDA, of which hardly a measurement with MLX is published.
pub(super) fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, depth: u64) -> Option<MlxReads> {
    let mlx = model.mlx.as_deref()?;
    let architecture = mlx.architecture.as_ref().ok()?;
    let gpu = known(machine.gpus.first()?).filter(|gpu| gpu.family.is_metal())?;
    let (weights, _) = if plan.engine == EngineId::Ollama { mlx.in_ollama() } else { mlx.in_mlx_lm() }.ok()?;
    let element = if weights.activations == Dtype::F32 { 4.0 } else { 2.0 };
    let of_cache = match plan.settings.cache_type_k {
        CacheType::Q8_0 => 1.0 + 2.0 * element / GROUP,
        CacheType::Q4_0 => 0.5 + 2.0 * element / GROUP,
        _ => element,
    };
    let kept = |heads: &Heads, tokens: u64| {
        heads.count as f64 * (heads.key + heads.value) as f64 * of_cache * depth.min(tokens) as f64
    };
    let cache = architecture.caches.iter().flatten().map(|cache| match cache {
        LayerCache::Kv(heads) => kept(heads, u64::MAX),
        LayerCache::Window { tokens, heads } | LayerCache::Chunk { tokens, heads } => kept(heads, *tokens),
        // both read and written
        LayerCache::States(states) => {
            let bytes = |float32: bool| if float32 { 4.0 } else { element };
            let sizes = states.iter().map(|state| state.shape.iter().product::<u64>() as f64 * bytes(state.float32));
            2.0 * sizes.sum::<f64>()
        }
    });
    let has_output = weights.modules.iter().any(|module| module.layer.is_none() && is_output(&module.path));
    let mut layers_with_experts = vec![false; architecture.layer_count()];
    let mut read = 0.0;
    for module in &weights.modules {
        let share = share_read(mlx, module, has_output);
        let bytes: f64 = module.arrays.iter().map(|(_, array)| array.bytes() as f64).sum();
        read += bytes * share;
        if let Some(has_experts) = module.layer.filter(|_| share < 1.0).and_then(|at| layers_with_experts.get_mut(at)) {
            *has_experts = true;
        }
    }
    let is_busy =
        |(cache, experts): (&Option<LayerCache>, &bool)| *experts || matches!(cache, Some(LayerCache::States(_)));
    let busy = architecture.caches.iter().zip(&layers_with_experts).filter(|layer| is_busy(*layer)).count();
    let layers = architecture.layer_count() as f64;
    Some(MlxReads { bandwidth: gpu.bandwidth, weights: read, cache: cache.sum(), layers, busy: busy as f64 })
}

/// The share of a module's weights that a token reads: of experts those that it uses, of an embedding a row alone, unless it is
/// the output too; of towers and of what drafts nothing.
fn share_read(mlx: &MlxModel, module: &ModuleWeights, has_output: bool) -> f64 {
    let path = module.path.as_str();
    if mlx.is_beside(path) {
        return 0.0;
    }
    if module.layer.is_none() && path.contains("embed") {
        let is_output = !has_output && !path.contains("per_layer");
        return f64::from(u8::from(is_output));
    }
    let count = module.expert_count();
    count.zip(mlx.used_experts()).map_or(1.0, |(count, used)| used.min(count) as f64 / count as f64)
}

/// Whether a module is the output layer.
fn is_output(path: &str) -> bool {
    path.split('.').any(|part| part == "lm_head" || part == "output")
}
