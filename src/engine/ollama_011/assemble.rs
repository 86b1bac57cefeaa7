//! Assembles a plan from the estimate.

mod notes;

use std::sync::Arc;

use super::estimate::{DeviceSlot, EstimateTask};
use super::pick::PickedGpus;
use super::traits::ArchitectureTraits;
use crate::engine::graph_size::{Sizes, Vision};
use crate::engine::id::EngineId;
use crate::engine::layout::LayoutRefusal;
use crate::engine::request::ResolvedSettings;
use crate::machine::{Backend, Machine, Os};
use crate::model::Model;
use crate::plan::{
    Confidence, DevicePlan, Estimate, GraphPlan, GraphUse, LayerPlan, OwnCaches, Part, Plan, Reserve, Term, Totals,
    Verdict, Why,
};
use crate::settings::Settings;
use crate::units::Bytes;

pub(super) struct PlanInputs<'a> {
    pub model: &'a Model,
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub traits: ArchitectureTraits,
    pub effect: ResolvedSettings,
    pub sizes: Sizes,
    pub vision: Vision,
    pub own_caches: Option<OwnCaches>,
    pub task: EstimateTask,
    pub picked: PickedGpus,
}

pub(super) fn plan(mut parts: PlanInputs<'_>) -> Plan {
    let layers = parts.layers();
    let offloaded = if parts.loads_on_gpus() { parts.picked.estimate.placed } else { 0 };
    let devices = parts.devices(&layers);
    let refusal = parts.refusal().map(|refusal| refusal.to_string());
    let totals = Totals::of(&devices);
    let verdict = Verdict::of(&devices, offloaded, layers.len(), refusal.is_some());
    let mut notes = std::mem::take(&mut parts.effect.notes);
    notes.extend(parts.notes(&devices));
    Plan {
        engine: EngineId::Ollama011,
        confidence: Confidence::Exact,
        uncertainties: Vec::new(),
        origin: parts.machine.origin,
        model: parts.model.summary(),
        estimate: Some(parts.estimate(&devices)),
        graph: parts.graph(),
        settings: parts.effect.settings,
        own_caches: parts.own_caches,
        v_transposed: None,
        parts: Part::alone(&devices),
        devices,
        layers,
        totals,
        offloaded,
        verdict,
        refusal,
        ollama_ps: None,
        notes,
        decided: Vec::new(),
    }
}

impl PlanInputs<'_> {
    fn cpu(&self) -> usize {
        self.machine.gpus.len()
    }

    /// Whether layers are loaded on GPUs: some were placed there, and unified memory is not exceeded.
    fn loads_on_gpus(&self) -> bool {
        self.picked.estimate.layers() > 0 && !self.exceeds_unified_memory()
    }

    /// `llm/server.go`, `llamaServer.Load`: on Metal, a model larger than all memory gets no GPU.
    fn exceeds_unified_memory(&self) -> bool {
        let metal = self.picked.estimate.slots.first().is_some_and(|slot| slot.device.backend == Some(Backend::Metal));
        metal && self.picked.estimate.vram() > self.machine.ram.total.0
    }

    /// The device of a layer, as an index into the plan's devices.
    fn layer_device(&self, layer: usize) -> usize {
        let slot = self.picked.estimate.slot_of.get(layer).copied().flatten();
        let slot = slot.and_then(|index| self.picked.estimate.slots.get(index));
        slot.and_then(|slot| slot.device.gpu).filter(|_| self.loads_on_gpus()).unwrap_or_else(|| self.cpu())
    }

    fn layers(&self) -> Vec<LayerPlan> {
        let no_cache = Arc::new(Term::nothing("no cache"));
        let blocks = self.task.blocks.iter().zip(&self.sizes.caches).map(|(block, cache)| {
            let own_cache = if block.weights.is_some() { block.cache } else { 0 };
            (block.weights.unwrap_or(0), own_cache, Arc::clone(cache))
        });
        let all = blocks.chain([(self.task.output, 0, no_cache)]).enumerate();
        all.map(|(index, (weights, cache, cache_term))| {
            let why = if self.exceeds_unified_memory() { None } else { self.picked.estimate.whys.get(index) };
            LayerPlan {
                index,
                device: self.layer_device(index),
                weights: Bytes(weights),
                cache: Bytes(cache),
                cache_term,
                why: why.cloned().filter(|why| self.is_fitting(why)).unwrap_or(Why::NoGpu),
            }
        })
        .collect()
    }

    /// A layer that fits in RAM, where RAM is treated as a GPU, is there because there is no GPU.
    fn is_fitting(&self, why: &Why) -> bool {
        !matches!(why, Why::Fits { .. }) || self.loads_on_gpus()
    }

    fn graph(&self) -> GraphPlan {
        let found = &self.picked.estimate;
        let used = if found.full_graph { GraphUse::Full } else { GraphUse::Partial };
        let in_ram = found.layers() == 0 && found.placed > 0;
        let why = match used {
            _ if in_ram => "there is no GPU, so RAM is counted like one",
            _ if !self.loads_on_gpus() => "no layer is on GPU, so none is allocated",
            GraphUse::Full => "all layers are on GPU",
            GraphUse::Partial => "some layers are in RAM",
        };
        let mut graph = self.sizes.graph(used, why);
        graph.legend.extend_from_slice(&self.vision.legend);
        graph
    }

    fn devices(&self, layers: &[LayerPlan]) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.machine);
        for layer in layers {
            if let Some(device) = devices.get_mut(layer.device) {
                device.hold(layer);
            }
        }
        for (index, slot) in self.picked.estimate.slots.iter().enumerate() {
            let in_ram = slot.device.gpu.is_none();
            if !in_ram && !self.loads_on_gpus() {
                continue;
            }
            if let Some(device) = devices.get_mut(slot.device.gpu.unwrap_or_else(|| self.cpu())) {
                if slot.layers > 0 {
                    device.graph = Bytes(self.picked.estimate.graph);
                }
                device.reserves = self.reserves(Some(index), slot);
            }
        }
        if let Some(ram) = devices.last_mut() {
            let others = self.reserves_outside_slots();
            ram.reserves.extend(others);
            ram.mapped = if self.maps_weights() { ram.weights } else { Bytes::ZERO };
        }
        devices
    }

    /// Bytes counted in a slot in addition to its layers and the graph.
    fn reserves(&self, index: Option<usize>, slot: &DeviceSlot) -> Vec<Reserve> {
        let (task, found) = (&self.task, &self.picked.estimate);
        let kept = if slot.usable { (slot.device.minimum, task.buffer()) } else { (0, 0) };
        let with_output = found.slot_of.last().copied().flatten() == index;
        let overhead = if slot.device.gpu.is_some() { task.overhead } else { 0 };
        nonzero([
            ("minimum memory", kept.0),
            ("one-layer buffer", kept.1),
            (OVERHEAD, overhead),
            ("projector weights", if found.first_usable == index { task.projector } else { 0 }),
            ("projector weights", if with_output { task.vision_weights } else { 0 }),
            ("projector graph", if with_output { task.vision_graph } else { 0 }),
            ("blocks without tensors", self.missing(index)),
        ])
    }

    /// Bytes counted outside the slots, and those of slots that are not loaded.
    fn reserves_outside_slots(&self) -> Vec<Reserve> {
        let (task, found) = (&self.task, &self.picked.estimate);
        let outside = found.slot_of.last().is_none_or(Option::is_none);
        let on_gpus = found.slots.iter().all(|slot| slot.device.gpu.is_some());
        let unused = if on_gpus && found.placed == 0 { found.in_slots } else { 0 };
        nonzero([
            ("projector weights", if found.first_usable.is_none() { task.projector } else { 0 }),
            ("projector weights", if outside { task.vision_weights } else { 0 }),
            ("projector graph", if outside { task.vision_graph } else { 0 }),
            ("blocks without tensors", self.missing(None)),
            ("reserved on GPUs without layers", unused),
        ])
    }

    /// Bytes counted for blocks without tensors in a slot, or outside.
    fn missing(&self, slot: Option<usize>) -> u64 {
        let found = &self.picked.estimate;
        let all = self.task.blocks.iter().zip(&found.counted).zip(&found.slot_of);
        all.filter(|((block, _), of)| block.weights.is_none() && **of == slot)
            .fold(0, |sum, ((_, &counted), _)| sum.wrapping_add(counted))
    }

    fn estimate(&self, devices: &[DevicePlan]) -> Estimate {
        let found = &self.picked.estimate;
        let id = |slot: &DeviceSlot| {
            devices.get(slot.device.gpu.unwrap_or_else(|| self.cpu())).map(|device| device.id.clone())
        };
        let loaded = if found.layers() > 0 { found.slots.as_slice() } else { &[] };
        Estimate {
            devices: found.slots.iter().filter_map(id).collect(),
            layers: found.layers(),
            graph: Bytes(if found.layers() > 0 { found.graph } else { 0 }),
            vram_size: Bytes(found.vram()),
            total_size: Bytes(found.total()),
            tensor_split: loaded.iter().map(|slot| slot.layers).collect(),
            gpu_sizes: loaded.iter().map(|slot| Bytes(slot.size)).collect(),
            projector_weights: Bytes(self.task.projector.wrapping_add(self.task.vision_weights)),
            projector_graph: Bytes(self.task.vision_graph),
            projector_terms: self.vision.graph.terms().to_vec(),
        }
    }

    /// `llm/server.go`, `llamaServer.Load`, Ollama, August 2025.
    fn refusal(&self) -> Option<LayoutRefusal> {
        let found = &self.picked.estimate;
        if self.picked.refused {
            return Some(LayoutRefusal::NotFull { placed: found.layers(), all: self.task.layer_count() });
        }
        let ram = self.machine.ram;
        let needed = found.total().wrapping_sub(found.vram());
        let too_large = self.machine.os != Os::MacOs && needed > ram.free.0.wrapping_add(ram.swap_free.0);
        too_large.then_some(LayoutRefusal::TooLargeForRam { needed, free: ram.free.0, swap: ram.swap_free.0 })
    }
}

const OVERHEAD: &str = "GPU overhead";

/// Reserves that are not zero.
fn nonzero<const N: usize>(parts: [(&'static str, u64); N]) -> Vec<Reserve> {
    parts
        .into_iter()
        .filter(|&(_, bytes)| bytes > 0)
        .map(|(name, bytes)| Reserve { name, bytes: Bytes(bytes) })
        .collect()
}
