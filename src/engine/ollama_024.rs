//! Ollama up to 0.24, which estimates the memory of a model and places layers by that estimate.

mod assemble;
pub(super) mod engine;
pub(super) mod facts;
pub(super) mod rules;
mod traits;

use super::compared::{ComparedVersions, version};
use super::graph_size::{self, FormulaInputs, ModelFacts, OllamaRelease};
use super::id::EngineError;
use super::layout::{self, LayoutTask};
use super::{backend, kvcache, request};
use crate::machine::Machine;
use crate::model::{Model, TensorGroup};
use crate::plan::Plan;
use crate::settings::Settings;

pub use super::request::supports_cache_type;
pub use traits::{ArchitectureTraits, bytes_per_element};

/// The version whose estimate it is: that of 24 May 2026.
const VERSIONS: ComparedVersions = ComparedVersions {
    compared: (version(24, 0), version(24, u32::MAX)),
    last: version(29, u32::MAX),
    differences: &[],
};

/// The traits of `model` that matter to the engine's rules.
///
/// # Errors
/// When the header lacks a key that the engine requires.
pub fn traits(model: &Model) -> Result<ArchitectureTraits, EngineError> {
    Ok(ArchitectureTraits::of(model, &ModelFacts::of(model, OllamaRelease::May2026)?))
}

/// Bytes of each layer; the output layer is the last.
struct LayerBytes {
    weights: Vec<u64>,
    caches: Vec<u64>,
    /// Weights and cache.
    both: Vec<u64>,
}

pub(super) fn plan(model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    let model = &*request::loads(model, settings);
    let facts = ModelFacts::of(model, OllamaRelease::May2026)?;
    let traits = ArchitectureTraits::of(model, &facts);
    let mut effect = rules::resolve_settings(model, traits, machine, settings)?;
    let nothing = Machine { gpus: Vec::new(), ..machine.clone() };
    let considered = if effect.gpus { machine } else { &nothing };

    let knobs = FormulaInputs::of(&effect.settings, bytes_per_element);
    let mut sizes = graph_size::sizes(model, &facts, knobs)?;
    if considered.gpus.first().is_some_and(|gpu| backend::of(gpu.backend).partial_is_full) {
        sizes.on_metal();
    }
    let layers = LayerBytes::of(model, &sizes.caches.iter().map(|cache| cache.bytes.0).collect::<Vec<_>>());

    let buffer = if model.tensors(TensorGroup::Block(0)).next().is_some() {
        let cache = sizes.caches.first().map_or(0, |cache| cache.bytes.0);
        layers.weights.first().map_or(0, |weights| weights.wrapping_add(cache))
    } else {
        effect.notes.push("the model has no tensors for block 0, so no one-layer buffer is reserved".to_owned());
        0
    };
    let adapter_gpu = adapter_gpu(considered);
    let adapter = |gpu: usize| if Some(gpu) == adapter_gpu { settings.adapters.0 } else { 0 };
    // Ollama subtracts both in turn and limits only the result to zero, which equals one subtraction
    let taken: Vec<u64> = (0..considered.gpus.len()).map(|gpu| buffer.saturating_add(adapter(gpu))).collect();
    let layout = layout::place(&LayoutTask {
        machine: considered,
        layers: &layers.both,
        taken: &taken,
        overhead: settings.gpu_overhead.0,
        graph: sizes.partial.bytes.max(sizes.full.bytes).0,
        requested: effect.requested,
        spread: settings.spread,
        require_full: settings.require_full,
    });
    let own_caches = traits.own_engine.then(|| kvcache::caches(model, &facts, &effect.settings));
    let mut plan = assemble::plan(assemble::PlanInputs {
        model,
        machine,
        settings,
        traits,
        effect,
        sizes,
        layers,
        layout,
        buffer,
        adapter_gpu,
        own_caches,
    });
    // its version is in its name
    if settings.ollama.version <= VERSIONS.last {
        VERSIONS.say(&mut plan, settings.ollama.version);
    }
    Ok(plan)
}

impl LayerBytes {
    /// A block without tensors counts as zero, including its cache; the input layer is not counted.
    fn of(model: &Model, block_caches: &[u64]) -> Self {
        let sum = |bytes: u64, more: u64| bytes.wrapping_add(more);
        let tensor_bytes = |tensor| OllamaRelease::May2026.tensor_bytes(tensor);
        let mut weights = Vec::with_capacity(block_caches.len() + 1);
        let mut caches = Vec::with_capacity(block_caches.len() + 1);
        for (block, &cache) in block_caches.iter().enumerate() {
            let mut tensors = model.tensors(TensorGroup::Block(block)).peekable();
            caches.push(if tensors.peek().is_some() { cache } else { 0 });
            weights.push(tensors.map(tensor_bytes).fold(0, sum));
        }
        weights.push(model.output_tensors().map(tensor_bytes).fold(0, sum));
        caches.push(0);
        let both = weights.iter().zip(&caches).map(|(&weights, &cache)| sum(weights, cache)).collect();
        Self { weights, caches, both }
    }
}

/// The GPU of the adapters: the first discrete one, else the first.
fn adapter_gpu(machine: &Machine) -> Option<usize> {
    let discrete = machine.gpus.iter().position(|gpu| !gpu.integrated);
    discrete.or((!machine.gpus.is_empty()).then_some(0))
}
