//! A placement made of an estimate: devices, reserves and notes.

use super::super::Case;
use super::super::assemble::{Placement, Refusal, UNIFIED_MEMORY, nonzero, too_large_for_ram};
use super::{MemoryEstimate, Slot, gpu_layer_ranges};
use crate::machine::Backend;
use crate::plan::{DevicePlan, Estimate, GraphUse, Reserve, Why};
use crate::units::Bytes;

/// An estimate of which a plan is made.
pub(super) struct Placed<'c, 'a> {
    pub case: &'c Case<'a>,
    pub found: MemoryEstimate,
    /// The library of the first device; none for RAM.
    pub first: Option<Backend>,
    /// The model is larger than the memory that GPU and CPU share.
    pub unified: bool,
    /// Whether layers are loaded on GPUs.
    pub loads: bool,
}

impl Placed<'_, '_> {
    pub(super) fn placement(&self) -> Placement {
        let (case, found, all) = (self.case, &self.found, self.case.layer_count());
        let metal = self.first == Some(Backend::Metal);
        let none = self.first.is_none() || (!metal && found.layers() == 0);
        let in_ram = found.total().wrapping_sub(found.vram());
        let refusal = if self.found.refused {
            Some(Refusal::NotFull { placed: found.layers(), all })
        } else {
            too_large_for_ram(in_ram, case.machine.ram, case.machine.os)
        };
        let used = if found.full_graph { GraphUse::Full } else { GraphUse::Partial };
        let why = match used {
            _ if found.layers() == 0 && found.placed > 0 => "there is no GPU, so RAM is counted like one",
            _ if !self.loads => "no layer is on GPU, so none is allocated",
            GraphUse::Full => "all layers are on GPU",
            GraphUse::Partial => "some layers are in RAM",
        };
        let mut graph = case.sizes.graph(used, why);
        graph.legend.extend_from_slice(&case.vision.legend);
        let devices = self.devices();
        Placement {
            layers: (0..all).map(|layer| (self.gpu(layer), self.why(layer))).collect(),
            offloaded: if self.loads { found.placed } else { 0 },
            graph,
            estimate: Some(self.estimate(&devices)),
            devices,
            refusal,
            first: self.first,
            without_gpu: none.then_some("no layer is on GPU"),
            split_on_metal: metal && self.num_gpu() > 0 && self.num_gpu() < all,
            notes: self.notes(),
        }
    }

    pub(super) fn gpu(&self, layer: usize) -> Option<usize> {
        let slot = self.found.slot_of[layer].filter(|_| self.loads)?;
        self.found.slots[slot].gpu
    }

    /// A layer that fits in RAM, where RAM is treated as a GPU, is there because there is no GPU.
    fn why(&self, layer: usize) -> Why {
        match &self.found.whys[layer] {
            _ if self.unified => Why::NoGpu,
            Why::Fits { .. } if !self.loads => Why::NoGpu,
            why => why.clone(),
        }
    }

    /// The devices with what is counted besides weights and caches.
    fn devices(&self) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.case.machine);
        let cpu = devices.len() - 1;
        for (index, slot) in self.found.slots.iter().enumerate() {
            if self.loads || slot.gpu.is_none() {
                let device = &mut devices[slot.gpu.unwrap_or(cpu)];
                device.graph = if slot.layers > 0 { Bytes(self.found.graph) } else { Bytes::ZERO };
                device.reserves = self.reserves(Some(index), Some(slot));
            }
        }
        devices[cpu].reserves.extend(self.reserves(None, None));
        devices
    }

    /// Bytes counted in a slot in addition to its layers and the graph, or outside the slots.
    fn reserves(&self, index: Option<usize>, slot: Option<&Slot>) -> Vec<Reserve> {
        let (case, found) = (self.case, &self.found);
        let usable = slot.filter(|slot| slot.usable);
        let with_output = found.slot_of.last().copied().flatten() == index;
        let missing = case.blocks.iter().zip(&found.counted).zip(&found.slot_of);
        let missing = missing.filter(|((block, _), slot)| block.weights.is_none() && **slot == index);
        let on_gpus = found.slots.iter().all(|slot| slot.gpu.is_some());
        nonzero([
            ("minimum memory", usable.map_or(0, |slot| slot.minimum)),
            ("one-layer buffer", usable.map_or(0, |_| case.buffer)),
            ("GPU overhead", slot.and_then(|slot| slot.gpu).map_or(0, |_| case.settings.gpu_overhead.0)),
            ("projector weights", if found.first_usable == index { case.projector } else { 0 }),
            ("projector weights", if with_output { case.vision.weights.0 } else { 0 }),
            ("projector graph", if with_output { case.vision.graph.0 } else { 0 }),
            ("blocks without tensors", missing.fold(0, |sum, ((_, &counted), _)| sum.wrapping_add(counted))),
            (
                "kept free on GPUs without layers",
                if index.is_none() && on_gpus && found.placed == 0 { found.in_slots } else { 0 },
            ),
        ])
    }

    fn estimate(&self, devices: &[DevicePlan]) -> Estimate {
        let (case, found) = (self.case, &self.found);
        let id = |slot: &Slot| devices[slot.gpu.unwrap_or(devices.len() - 1)].id.clone();
        let loaded = if found.layers() > 0 { found.slots.as_slice() } else { &[] };
        Estimate {
            devices: found.slots.iter().map(id).collect(),
            layers: found.layers(),
            graph: Bytes(if found.layers() > 0 { found.graph } else { 0 }),
            vram_size: Bytes(found.vram()),
            total_size: Bytes(found.total()),
            tensor_split: loaded.iter().map(|slot| slot.layers).collect(),
            gpu_sizes: loaded.iter().map(|slot| Bytes(slot.size)).collect(),
            projector_weights: Bytes(case.projector) + case.vision.weights,
            projector_graph: case.vision.graph,
            projector_terms: case.vision.terms.clone(),
        }
    }

    /// The runner's `num_gpu`: the requested layers, even if fewer fit.
    fn num_gpu(&self) -> usize {
        if self.loads { self.case.effect.requested.unwrap_or(self.found.placed) } else { 0 }
    }

    fn notes(&self) -> Vec<String> {
        let (case, found) = (self.case, &self.found);
        let mut notes = Vec::new();
        let mut say = |note: String| notes.push(note);
        if !self.found.refused {
            let share = match (Bytes(found.vram()), Bytes(found.total())) {
                (Bytes::ZERO, _) => "none of it".to_owned(),
                (gpus, all) if gpus == all => "all of it".to_owned(),
                (gpus, _) => format!("{gpus} of it"),
            };
            let all = Bytes(found.total());
            say(format!("'ollama ps' shows {all}, {share} on GPU: it includes what is kept free"));
        }
        let vision = &case.vision;
        if vision.weights > Bytes::ZERO {
            say(format!(
                "the vision part is loaded with the output layer: {} of weights and a compute buffer of {}",
                vision.weights, vision.graph
            ));
        }
        if vision.unknown_patch {
            say("the header has no image patch size, so no compute buffer is counted for images".to_owned());
        }
        if case.projector > 0 && case.facts.traits.own_engine {
            say(format!(
                "the separate projector is counted, but Ollama's own engine, which runs {}, does not load it",
                case.model.architecture
            ));
        }
        if case.settings.adapters > Bytes::ZERO {
            say("adapters are not counted by this estimator".to_owned());
        }
        if self.unified {
            say(UNIFIED_MEMORY.to_owned());
        }
        if case.blocks.iter().any(|block| block.weights.is_none()) {
            say("some blocks have no tensors; the estimate counts them like the block placed before".to_owned());
        }
        let asked = self.num_gpu().min(self.case.layer_count());
        if asked > found.placed {
            let placed = found.placed;
            say(format!("{asked} layers are loaded on GPU as requested, although only {placed} fit by the estimate"));
        }
        self.runner_ranges().into_iter().for_each(say);
        notes
    }

    /// Reports if the runner's layers differ from the estimate's.
    fn runner_ranges(&self) -> Option<String> {
        if !self.loads {
            return None;
        }
        let slots = &self.found.slots;
        let split: Vec<usize> = slots.iter().map(|slot| slot.layers).collect();
        let runs = gpu_layer_ranges(&split, self.case.blocks.len(), self.num_gpu());
        let placed = |slot: usize| {
            let layers = 0..self.case.layer_count();
            layers.filter(|&layer| self.found.slot_of[layer] == Some(slot)).collect::<Vec<_>>()
        };
        let used = slots.iter().zip(runs).enumerate().filter_map(|(index, (slot, run))| {
            let placed = placed(index);
            (!run.is_empty() || !placed.is_empty()).then_some((slot.gpu?, placed, run))
        });
        let used: Vec<_> = used.collect();
        if used.iter().all(|(_, placed, run)| placed.iter().copied().eq(run.clone())) {
            return None;
        }
        let texts: Vec<String> = used
            .into_iter()
            .map(|(gpu, _, run)| match (run.start, run.end) {
                (first, end) if end == first => format!("none on GPU{gpu}"),
                (first, end) => format!("{first} to {} on GPU{gpu}", end - 1),
            })
            .collect();
        Some(format!("the runner loads contiguous layers, {}; the estimate spreads them in turn", texts.join(", ")))
    }
}
