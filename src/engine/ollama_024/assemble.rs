//! Assembles a plan from the layout.

use std::sync::Arc;

use super::LayerBytes;
use super::traits::ArchitectureTraits;
use crate::engine::graph_size::Sizes;
use crate::engine::id::EngineId;
use crate::engine::layout::{Layout, minimum_memory};
use crate::engine::request::ResolvedSettings;
use crate::machine::{Backend, Machine, Os};
use crate::model::Model;
use crate::plan::{
    Confidence, DevicePlan, GraphPlan, GraphUse, LayerPlan, OwnCaches, Part, Plan, Reserve, Term, Totals, Verdict, Why,
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
    pub layers: LayerBytes,
    pub layout: Layout,
    pub buffer: u64,
    pub adapter_gpu: Option<usize>,
    pub own_caches: Option<OwnCaches>,
}

pub(super) fn plan(mut parts: PlanInputs<'_>) -> Plan {
    let offloaded = parts.layout.offloaded();
    let layers = parts.layers();
    let graph = parts.graph(offloaded);
    let devices = parts.devices(&layers, graph.in_force().bytes);
    let totals = Totals::of(&devices);
    let refusal = parts.layout.refusal.map(|refusal| refusal.to_string());
    let verdict = Verdict::of(&devices, offloaded, layers.len(), refusal.is_some());
    let mut notes = std::mem::take(&mut parts.effect.notes);
    notes.extend(parts.notes(&totals));
    Plan {
        engine: EngineId::Ollama024,
        confidence: Confidence::Exact,
        uncertainties: Vec::new(),
        origin: parts.machine.origin,
        model: parts.model.summary(),
        settings: parts.effect.settings,
        parts: Part::alone(&devices),
        devices,
        layers,
        graph,
        totals,
        estimate: None,
        own_caches: parts.own_caches,
        v_transposed: None,
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

    fn layers(&self) -> Vec<LayerPlan> {
        let mut room = self.layout.room.clone();
        let count = self.layers.both.len();
        let mut layers = Vec::with_capacity(count);
        let mut blocker: Option<(usize, Bytes)> = None;
        let no_cache = Arc::new(Term::nothing("no cache"));
        // from last to first, in the order of placement
        for index in (0..count).rev() {
            let at = |list: &[u64]| list.get(index).copied().unwrap_or(0);
            let needed = at(&self.layers.both);
            let gpu = self.layout.gpu_of.get(index).copied().flatten();
            let why = match gpu {
                Some(gpu) => {
                    let left = room.get(gpu).copied().unwrap_or(0);
                    if let Some(room) = room.get_mut(gpu) {
                        *room = left.saturating_sub(needed);
                    }
                    let forced = self.layout.requested.is_some() && needed > left;
                    if forced { Why::AskedFor } else { Why::Fits { needed: Bytes(needed), room: Bytes(left) } }
                }
                None => self.why_in_ram(index, needed, &room, blocker),
            };
            if let Why::NoRoom { .. } = why {
                blocker.get_or_insert((index, Bytes(needed)));
            }
            layers.push(LayerPlan {
                index,
                device: gpu.unwrap_or_else(|| self.cpu()),
                weights: Bytes(at(&self.layers.weights)),
                cache: Bytes(at(&self.layers.caches)),
                cache_term: Arc::clone(self.sizes.caches.get(index).unwrap_or(&no_cache)),
                why,
            });
        }
        layers.reverse();
        layers
    }

    /// `blocker` is the first layer that did not fit.
    fn why_in_ram(&self, index: usize, needed: u64, room: &[u64], blocker: Option<(usize, Bytes)>) -> Why {
        let count = self.layers.both.len();
        let Some(requested) = self.layout.requested else {
            // if nothing is placed, an output layer that does not fit either is its own reason
            let has_room = self.layout.offloaded() > 0 || room.iter().any(|room| needed <= *room);
            if index + 1 == count && self.layout.without_output && has_room {
                return Why::OutputDropped;
            }
            return self.no_room(needed, room, blocker);
        };
        // counted from the last block, because the output layer stays in RAM unless all layers were requested
        if requested == 0 && !self.machine.gpus.is_empty() {
            Why::NotAskedFor
        } else if self.layout.room.is_empty() {
            Why::NoGpu
        } else if requested < count && (index + 1 == count || index + 1 + requested < count) {
            Why::NotAskedFor
        } else if index + 1 == count {
            Why::OutputDropped
        } else {
            self.no_room(needed, room, blocker)
        }
    }

    fn no_room(&self, needed: u64, room: &[u64], blocker: Option<(usize, Bytes)>) -> Why {
        let roomiest = || (0..room.len()).max_by_key(|&gpu| room.get(gpu));
        let Some(device) = self.layout.gave_up_on.or_else(roomiest) else { return Why::NoGpu };
        let room = room.get(device).copied().unwrap_or(0);
        match blocker {
            // a smaller layer is not tried after one that did not fit
            Some((layer, blocked)) if needed <= room => {
                Why::GivenUp { device, layer, needed: blocked, room: Bytes(room), own: Bytes(needed) }
            }
            _ => Why::NoRoom { needed: Bytes(needed), room: Bytes(room), device },
        }
    }

    fn graph(&self, offloaded: usize) -> GraphPlan {
        let used = if offloaded < self.layers.both.len() { GraphUse::Partial } else { GraphUse::Full };
        let why = match used {
            GraphUse::Full => "all layers are on GPU",
            GraphUse::Partial if offloaded == 0 => "no layer is on GPU, so none is allocated",
            GraphUse::Partial => "some layers are in RAM",
        };
        self.sizes.graph(used, why)
    }

    fn devices(&self, layers: &[LayerPlan], graph: Bytes) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.machine);
        for (index, (device, gpu)) in devices.iter_mut().zip(&self.machine.gpus).enumerate() {
            device.graph = match index {
                used if self.layout.tried.contains(&used) => graph,
                unused if self.layout.tried_before.contains(&unused) => self.larger_graph(),
                _ => Bytes::ZERO,
            };
            device.reserves = if self.effect.gpus { self.reserves(index, gpu.backend) } else { Vec::new() };
        }
        for layer in layers {
            if let Some(device) = devices.get_mut(layer.device) {
                device.hold(layer);
            }
        }
        let all = Totals::of(&devices).all;
        if let Some(ram) = devices.last_mut().filter(|_| self.maps_weights(all)) {
            ram.mapped = ram.weights;
        }
        devices
    }

    /// Whether weights stay in the file until they are read.
    fn maps_weights(&self, all: Bytes) -> bool {
        self.layout.offloaded() > 0 && !self.traits.own_engine && self.why_not_mapped(all).is_none()
    }

    /// The size reserved while layers are placed.
    fn larger_graph(&self) -> Bytes {
        self.sizes.partial.bytes.max(self.sizes.full.bytes)
    }

    fn reserves(&self, gpu: usize, backend: Backend) -> Vec<Reserve> {
        let adapters = if self.adapter_gpu == Some(gpu) { self.settings.adapters } else { Bytes::ZERO };
        [
            ("minimum memory", minimum_memory(backend)),
            ("one-layer buffer", Bytes(self.buffer)),
            ("GPU overhead", self.settings.gpu_overhead),
            ("adapters", adapters),
        ]
        .into_iter()
        .filter(|&(_, bytes)| bytes > Bytes::ZERO)
        .map(|(name, bytes)| Reserve { name, bytes })
        .collect()
    }

    fn notes(&self, totals: &Totals) -> Vec<String> {
        let mut notes = self.model.header.notes.clone();
        for option in super::facts::FACTS.ignored(self.settings) {
            notes.push(format!("{option} is ignored: ollama-0.24 has no such option"));
        }
        if self.traits.own_engine {
            notes.push(format!(
                "Ollama 0.24 runs {} in its own engine, which measures its graph; these figures come from its \
                 estimator",
                self.model.architecture
            ));
        }
        notes.extend(self.own_caches.as_ref().map(|own| own.sentence(totals.cache)));
        if self.layout.requested != self.effect.requested {
            notes.push("no layer is placed on the GPU: the model is larger than the memory it shares".to_owned());
        }
        for gpu in &self.layout.tried_before {
            notes.push(format!("GPU{gpu} was tried but not used, and keeps the memory reserved for its graph"));
        }
        notes.extend(self.why_not_mapped(totals.all).map(|why| format!("weights are loaded without mmap: {why}")));
        notes
    }

    /// `llm/server.go`, the end of `llamaServer.Load`, Ollama, May 2026.
    fn why_not_mapped(&self, all: Bytes) -> Option<&'static str> {
        let gpus = if self.effect.gpus { self.machine.gpus.as_slice() } else { &[] };
        let first = gpus.first().map(|gpu| gpu.backend);
        let split = self.layout.requested.is_some_and(|asked| asked > 0 && asked < self.layers.both.len());
        if gpus.is_empty() {
            Some("there is no GPU")
        } else if first == Some(Backend::Vulkan) {
            Some("the first GPU uses Vulkan")
        } else if self.machine.os == Os::Windows && first == Some(Backend::Cuda) {
            Some("this is faster with CUDA on Windows")
        } else if self.machine.os == Os::Linux && self.machine.ram.free < all {
            Some("model, cache and graph together need more than the free RAM")
        } else if split && gpus.iter().any(|gpu| gpu.backend == Backend::Metal) {
            Some("a split model cannot be mapped on Metal")
        } else {
            None
        }
    }
}
