//! Assembles a plan from what an estimator decided.

use std::fmt;
use std::sync::Arc;

use super::header::OllamaRelease;
use super::{Block, Case};
use crate::engine::EngineId;
use crate::machine::{Backend, Os, Ram};
use crate::plan::{
    DevicePlan, Estimate, GraphPlan, LayerPlan, Part, Plan, Reserve, Term, Totals, Uncertainty, Verdict, Why,
};
use crate::units::Bytes;

/// What an estimator decided.
pub(super) struct Placement {
    /// The GPU of each layer, none for RAM, and the reason.
    pub layers: Vec<(Option<usize>, Why)>,
    /// Layers on GPUs.
    pub offloaded: usize,
    pub graph: GraphPlan,
    /// The devices with what is on them besides their layers.
    pub devices: Vec<DevicePlan>,
    pub refusal: Option<Refusal>,
    /// The figures of a release that prints them.
    pub estimate: Option<Estimate>,
    /// The library of the first device; none for RAM.
    pub first: Option<Backend>,
    /// Why weights are loaded without mmap, where that is because of missing GPUs.
    pub without_gpu: Option<&'static str>,
    /// A part of the layers was requested on GPUs, and these are Metal's.
    pub split_on_metal: bool,
    pub notes: Vec<String>,
}

/// Reserves that are not zero.
pub(super) fn nonzero<const N: usize>(parts: [(&'static str, u64); N]) -> Vec<Reserve> {
    let parts = parts.into_iter().filter(|&(_, bytes)| bytes > 0);
    parts.map(|(name, bytes)| Reserve { name, bytes: Bytes(bytes) }).collect()
}

pub(super) const UNIFIED_MEMORY: &str = "no layer is placed on the GPU: the model is larger than the memory it shares";

/// Why Ollama would not load a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// All layers were required on GPUs.
    NotFull { placed: usize, all: usize },
    /// All layers were required on GPUs, and the rest does not even fit in RAM.
    NotFullNorInRam { needed: u64, free: u64 },
    /// The part in RAM exceeds free RAM and swap.
    TooLargeForRam { needed: u64, free: u64, swap: u64 },
}

/// The refusal of a model that needs more than RAM and swap have.
pub(super) fn too_large_for_ram(needed: u64, ram: Ram, os: Os) -> Option<Refusal> {
    let (free, swap) = (ram.free.0, ram.swap_free.0);
    let too_large = os != Os::MacOs && needed > free.wrapping_add(swap);
    too_large.then_some(Refusal::TooLargeForRam { needed, free, swap })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotFull { placed, all } => {
                write!(f, "all layers are required on GPU, but only {placed} of {all} fit")
            }
            Self::NotFullNorInRam { needed, free } => write!(
                f,
                "all layers are required on GPU, but {} is left for RAM, where only {} is free",
                Bytes(needed),
                Bytes(free)
            ),
            Self::TooLargeForRam { needed, free, swap: 0 } => {
                write!(f, "{} would have to go to RAM, where {} is free", Bytes(needed), Bytes(free))
            }
            Self::TooLargeForRam { needed, free, swap } => write!(
                f,
                "{} would have to go to RAM, where {} is free, including {} of swap",
                Bytes(needed),
                Bytes(free.wrapping_add(swap)),
                Bytes(swap)
            ),
        }
    }
}

/// The plan of a case.
pub(super) fn plan(case: Case<'_>, mut placement: Placement) -> Plan {
    let layers = layers(&case, &placement);
    let mut devices = std::mem::take(&mut placement.devices);
    for layer in &layers {
        devices[layer.device].hold(layer);
    }
    let totals = Totals::of(&devices);
    let why_not_mapped = why_not_mapped(&case, &placement, totals.all);
    if let Some(cpu) = devices.last_mut().filter(|_| why_not_mapped.is_none()) {
        cpu.ram.mapped =
            if placement.offloaded > 0 && !case.facts.traits.own_engine { cpu.weights } else { Bytes::ZERO };
    }
    let notes = notes(&case, &placement, &totals, why_not_mapped);
    let Placement { offloaded, graph, refusal, estimate, .. } = placement;
    let refusal = refusal.map(|refusal| refusal.to_string());
    let uncertainties: Vec<Uncertainty> = Uncertainty::of_weights(case.model).into_iter().collect();
    Plan {
        engine: case.facts.release.engine(),
        confidence: Uncertainty::worst(&uncertainties),
        uncertainties,
        origin: case.machine.origin,
        model: case.model.summary(),
        settings: case.effect.settings,
        parts: Part::alone(&devices),
        verdict: Verdict::of(&devices, offloaded, layers.len(), refusal.is_some()),
        devices,
        layers,
        graph,
        totals,
        estimate,
        load_check: None,
        own_caches: case.own_caches,
        v_transposed: None,
        offloaded,
        refusal,
        ollama_ps: None,
        notes,
        decided: Vec::new(),
    }
}

fn layers(case: &Case<'_>, placement: &Placement) -> Vec<LayerPlan> {
    let output = (Bytes(case.output), Bytes::ZERO, Arc::new(Term::nothing("no cache")));
    let block = |(block, term): (&Block, &Arc<Term>)| {
        (Bytes(block.weights.unwrap_or(0)), Bytes(block.kept_cache()), Arc::clone(term))
    };
    let sizes = case.blocks.iter().zip(&case.sizes.caches).map(block).chain([output]);
    let layers = sizes.zip(&placement.layers).enumerate();
    let layer = |(index, ((weights, cache, cache_term), (gpu, why))): (_, (_, &(Option<usize>, Why)))| LayerPlan {
        index,
        device: gpu.unwrap_or(case.machine.gpus.len()),
        weights,
        cache,
        per_token: Bytes::ZERO,
        cache_term,
        why: why.clone(),
    };
    layers.map(layer).collect()
}

/// Why weights are read into memory rather than mapped: the end of `llamaServer.Load`, `llm/server.go`. The older
/// release decides it only for the llama.cpp runner.
fn why_not_mapped(case: &Case<'_>, placement: &Placement, all: Bytes) -> Option<&'static str> {
    let older = case.facts.release == OllamaRelease::August2025;
    if older && case.facts.traits.own_engine {
        return None;
    }
    let (os, first) = (case.machine.os, placement.first);
    let counted = placement.estimate.as_ref().map_or(all, |estimate| estimate.total_size);
    if placement.without_gpu.is_some() {
        placement.without_gpu
    } else if !older && first == Some(Backend::Vulkan) {
        Some("the first GPU uses Vulkan")
    } else if os == Os::Windows && first == Some(Backend::Cuda) {
        Some("this is faster with CUDA on Windows")
    } else if os == Os::Linux && case.machine.ram.free < counted {
        Some("model, cache and compute buffer together need more than the free RAM")
    } else {
        placement.split_on_metal.then_some("a split model cannot be mapped on Metal")
    }
}

fn notes(case: &Case<'_>, placement: &Placement, totals: &Totals, why_not_mapped: Option<&'static str>) -> Vec<String> {
    let older = case.facts.release == OllamaRelease::August2025;
    let engine = if older { "this engine" } else { EngineId::Ollama024.name() };
    let ignored = case.facts.release.engine().ignored(case.settings).into_iter();
    let mut ignored: Vec<String> =
        ignored.map(|option| format!("{option} is ignored: {engine} has no such option")).collect();

    let mut notes = case.effect.notes.clone();
    notes.extend_from_slice(&case.model.header.notes);
    notes.extend(case.model.note_on_projector(case.settings.projector.as_deref()));
    if !older {
        notes.append(&mut ignored);
    }
    if case.facts.traits.own_engine {
        notes.push(format!(
            "Ollama {} runs {} in its own engine, which measures its compute buffers; these figures come from its estimator",
            if older { "0.11" } else { "0.24" },
            case.model.architecture
        ));
    }
    notes.extend(case.own_caches.as_ref().map(|own| own.sentence(totals.cache)));
    notes.extend_from_slice(&placement.notes);
    notes.extend(why_not_mapped.map(|why| format!("weights are loaded without mmap: {why}")));
    notes.append(&mut ignored);
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_their_numbers() {
        let gib = |n: u64| n << 30;
        for (refusal, words) in [
            (Refusal::NotFull { placed: 3, all: 33 }, "all layers are required on GPU, but only 3 of 33 fit"),
            (
                Refusal::TooLargeForRam { needed: gib(60), free: gib(50), swap: 0 },
                "60.0 GiB would have to go to RAM, where 50.0 GiB is free",
            ),
            (
                Refusal::TooLargeForRam { needed: gib(60), free: gib(50), swap: gib(2) },
                "60.0 GiB would have to go to RAM, where 52.0 GiB is free, including 2.0 GiB of swap",
            ),
        ] {
            assert_eq!(refusal.to_string(), words);
        }
    }
}
