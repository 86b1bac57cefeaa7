//! The notes of a plan.

use super::PlanInputs;
use crate::engine::ollama_011::facts::FACTS;
use crate::engine::ollama_011::gpu_layers::gpu_layer_ranges;
use crate::machine::{Backend, Os};
use crate::plan::DevicePlan;
use crate::units::Bytes;

impl PlanInputs<'_> {
    pub(super) fn notes(&self, devices: &[DevicePlan]) -> Vec<String> {
        let mut notes = self.model.header.notes.clone();
        let mut say = |note: String| notes.push(note);
        if self.traits.own_engine {
            say(format!(
                "Ollama 0.11 runs {} in its own engine, which measures its graph; these figures come from its \
                 estimator",
                self.model.architecture
            ));
        }
        let estimated = devices.iter().map(|device| device.cache).sum();
        self.own_caches.iter().for_each(|own| say(own.sentence(estimated)));
        self.ollama_ps_note().into_iter().for_each(&mut say);
        if self.vision.weights > Bytes::ZERO {
            say(format!(
                "the vision part is loaded with the output layer: {} of weights and a graph of {}",
                self.vision.weights, self.vision.graph.bytes
            ));
        }
        if self.vision.unknown_patch {
            say("the header has no image patch size, so no graph is counted for images".to_owned());
        }
        if self.task.projector > 0 && self.traits.own_engine {
            say(format!(
                "the separate projector is counted, but Ollama's own engine, which runs {}, does not load it",
                self.model.architecture
            ));
        }
        if self.settings.adapters > Bytes::ZERO {
            say("adapters are not counted by this estimator".to_owned());
        }
        if self.exceeds_unified_memory() {
            say("no layer is placed on the GPU: the model is larger than the memory it shares".to_owned());
        }
        if self.task.blocks.iter().any(|block| block.weights.is_none()) {
            say("some blocks have no tensors; the estimate counts them like the block placed before".to_owned());
        }
        self.more_than_fits().into_iter().for_each(&mut say);
        self.runner_ranges(devices).into_iter().for_each(&mut say);
        self.why_not_mapped().into_iter().for_each(|why| say(format!("weights are loaded without mmap: {why}")));
        for option in FACTS.ignored(self.settings) {
            say(format!("{option} is ignored: this engine has no such option"));
        }
        notes
    }

    /// The size shown by `ollama ps`: the estimate including reserves.
    fn ollama_ps_note(&self) -> Option<String> {
        if self.picked.refused {
            return None;
        }
        let found = &self.picked.estimate;
        let (all, gpus) = (Bytes(found.total()), Bytes(found.vram()));
        let share = match gpus {
            Bytes::ZERO => "none of it".to_owned(),
            gpus if gpus == all => "all of it".to_owned(),
            gpus => format!("{gpus} of it"),
        };
        Some(format!("'ollama ps' shows {all}, {share} on GPU: it includes the reserved memory"))
    }

    /// The runner's `num_gpu`: the requested layers, even if fewer fit.
    fn num_gpu(&self) -> usize {
        if self.loads_on_gpus() { self.task.requested.unwrap_or(self.picked.estimate.placed) } else { 0 }
    }

    fn more_than_fits(&self) -> Option<String> {
        let (asked, all) = (self.num_gpu().min(self.task.layer_count()), self.picked.estimate.placed);
        (asked > all).then(|| {
            format!(
                "{asked} layers are loaded on GPU as requested, although only {all} fit by \
                                       the estimate"
            )
        })
    }

    /// Reports if the runner's layers differ from the estimate's.
    fn runner_ranges(&self, devices: &[DevicePlan]) -> Option<String> {
        if !self.loads_on_gpus() {
            return None;
        }
        let slots = &self.picked.estimate.slots;
        let split: Vec<usize> = slots.iter().map(|slot| slot.layers).collect();
        let runs = gpu_layer_ranges(&split, self.task.blocks.len(), self.num_gpu());
        let used = slots.iter().zip(runs).filter_map(|(slot, run)| Some((devices.get(slot.device.gpu?)?, run)));
        let used: Vec<_> = used.filter(|(device, run)| !(run.is_empty() && device.layers.is_empty())).collect();
        if used.iter().all(|(device, run)| device.layers.iter().copied().eq(run.clone())) {
            return None;
        }
        let texts: Vec<String> = used
            .into_iter()
            .map(|(device, run)| match (run.start, run.end) {
                (first, end) if end == first => format!("none on {}", device.id),
                (first, end) => format!("{first} to {} on {}", end - 1, device.id),
            })
            .collect();
        Some(format!("the runner loads contiguous layers, {}; the estimate spreads them in turn", texts.join(", ")))
    }

    /// `llm/server.go`, the end of `llamaServer.Load`; Ollama's own engine never maps weights.
    /// Whether weights stay in the file until they are read.
    pub(super) fn maps_weights(&self) -> bool {
        self.loads_on_gpus() && !self.traits.own_engine && self.why_not_mapped().is_none()
    }

    fn why_not_mapped(&self) -> Option<&'static str> {
        if self.traits.own_engine {
            return None;
        }
        let found = &self.picked.estimate;
        let first = found.slots.first().and_then(|slot| slot.device.backend);
        let metal = first == Some(Backend::Metal);
        let (asked, all) = (self.num_gpu(), self.task.layer_count());
        if first.is_none() || (!metal && found.layers() == 0) {
            Some("no layer is on GPU")
        } else if metal && asked > 0 && asked < all {
            Some("a split model cannot be mapped on Metal")
        } else if self.machine.os == Os::Windows && first == Some(Backend::Cuda) {
            Some("this is faster with CUDA on Windows")
        } else if self.machine.os == Os::Linux && self.machine.ram.free < Bytes(found.total()) {
            Some("model, cache and graph together need more than the free RAM")
        } else {
            None
        }
    }
}
