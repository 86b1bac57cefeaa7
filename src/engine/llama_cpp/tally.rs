//! What a model's weights and caches take on given devices, summed up once for all placements.

use super::architecture::Architecture;
use super::cache::Memory;
use super::context::Context;
use super::hparams::Hparams;
use super::placement::{Overflow, Part, Placement};
use super::weights::{self, Slot, Weight};
use super::{Loaded, Spread};
use crate::engine::ggml::Backend;
use crate::engine::ggml::backend::kinds;
use crate::engine::ggml::tensor::Place;

/// Bytes of each block's weights.
#[derive(Debug)]
pub struct Tally {
    backends: Vec<Backend>,
    /// Which of the kinds a device is of.
    kinds: Vec<usize>,
    /// Per kind and block.
    blocks: Vec<Vec<Sums>>,
}

/// Bytes of each block's caches, per kind of device.
#[derive(Debug)]
pub struct Caches {
    blocks: Vec<Vec<u64>>,
    /// They are with their blocks, not all in RAM.
    offloaded: bool,
}

/// Bytes of a block's weights.
#[derive(Clone, Debug, Default)]
struct Sums {
    all: u64,
    of_parts: [u64; Part::ALL.len()],
    of_classes: [u64; Part::CLASSES],
}

impl Tally {
    /// Of `model` on devices like these, RAM last.
    pub fn of(model: &Loaded, backends: &[Backend]) -> Self {
        let (of_kinds, kinds) = kinds(backends);
        let blocks = of_kinds.into_iter().map(|backend| of_blocks(model, backend)).collect();
        Self { backends: backends.to_vec(), kinds, blocks }
    }

    /// Whether it is for such devices.
    pub fn is_for(&self, backends: &[Backend]) -> bool {
        self.backends == backends
    }

    /// Bytes of weights per device under `placement`. (What the graph never asks for is not loaded.)
    pub fn weights(&self, model: &Loaded, placement: &Placement) -> Vec<u64> {
        let Loaded { hparams, weights: tensors, .. } = model;
        let architecture = model.family.architecture;
        let mut bytes = self.in_blocks(model, placement);
        let mut put =
            |weight: &Weight, place: Place| bytes[usize::from(place)] += weight.on(&self.backends[usize::from(place)]);
        for weight in tensors.outside() {
            let slot = weight.role.map(|(slot, _)| slot);
            match (weight.block, slot) {
                (Some(il), _) => put(weight, placement.in_blocks().home(il, slot)),
                (None, Some(Slot::RopeFreqs | Slot::RopeLong | Slot::RopeShort)) => {
                    for place in rope_homes(placement, hparams, architecture) {
                        put(weight, place);
                    }
                }
                (None, _) => put(weight, placement.of_model(slot, architecture)),
            }
        }
        let tied = architecture.loads_output() && tensors.find_global(Slot::Output, weights::Part::Weight).is_none();
        if let (true, Some(index)) = (tied, tensors.find_global(Slot::TokenEmbd, weights::Part::Weight)) {
            // Gemma 4 makes the output's copy before the embeddings, and so has both even in RAM
            if placement.output != placement.cpu || architecture == Architecture::Gemma4 {
                put(&tensors.all[index], placement.output);
            }
        }
        bytes
    }

    /// Those of the blocks.
    fn in_blocks(&self, model: &Loaded, placement: &Placement) -> Vec<u64> {
        let Loaded { release, family, hparams, .. } = model;
        // the others predict further tokens
        let loaded =
            if release.loads_drafts.contains(&family.architecture) { hparams.n_layer_all } else { hparams.n_layer() };
        let mut bytes = vec![0; self.backends.len()];
        let of_block = |place: Place, il: usize| &self.blocks[self.kinds[usize::from(place)]][il];
        let ram = placement.cpu;
        for (il, (home, moved)) in placement.blocks().take(loaded).enumerate() {
            match moved {
                [] => bytes[usize::from(home)] += of_block(home, il).all,
                [Overflow { part, gpu, .. }] => {
                    let (away, part) = (gpu.unwrap_or(ram), *part as usize);
                    let here = of_block(home, il);
                    bytes[usize::from(home)] += here.all - here.of_parts[part];
                    bytes[usize::from(away)] += of_block(away, il).of_parts[part];
                }
                several => {
                    for class in 0..Part::CLASSES {
                        let moved = several.iter().find(|to| to.part.has(class));
                        let place = moved.map_or(home, |to| to.gpu.unwrap_or(ram));
                        bytes[usize::from(place)] += of_block(place, il).of_classes[class];
                    }
                }
            }
        }
        bytes
    }

    /// Of the caches that `context` needs, wherever they are.
    pub fn of_caches(&self, model: &Loaded, context: &Context) -> Caches {
        let anywhere = model.place(&[], &Spread::default());
        let memory = Memory::new(&model.hparams, model.family.architecture, context, &anywhere);
        let (of_kinds, _) = kinds(&self.backends);
        let blocks = of_kinds.into_iter().map(|backend| memory.of_blocks(backend)).collect();
        Caches { blocks, offloaded: context.offload_kqv }
    }

    /// Bytes of caches per device under `placement`.
    pub fn caches(&self, caches: &Caches, placement: &Placement) -> Vec<u64> {
        let mut bytes = vec![0; self.backends.len()];
        for (il, home) in placement.layers.iter().enumerate() {
            let place = usize::from(if caches.offloaded { *home } else { placement.cpu });
            bytes[place] += caches.blocks[self.kinds[place]].get(il).copied().unwrap_or(0);
        }
        bytes
    }

    /// Bytes of weights and caches per device: what `placement` takes at least, whatever its graph.
    pub fn without_graph(&self, model: &Loaded, caches: &Caches, placement: &Placement) -> Vec<u64> {
        let (weights, caches) = (self.weights(model, placement), self.caches(caches, placement));
        weights.into_iter().zip(caches).map(|(weights, caches)| weights + caches).collect()
    }
}

impl Sums {
    fn add(&mut self, class: usize, bytes: u64) {
        self.all += bytes;
        self.of_classes[class] += bytes;
        for part in Part::ALL.into_iter().filter(|part| part.has(class)) {
            self.of_parts[part as usize] += bytes;
        }
    }
}

/// Every block's weights on devices of this kind.
fn of_blocks(model: &Loaded, backend: &Backend) -> Vec<Sums> {
    let mut blocks = vec![Sums::default(); model.hparams.n_layer_all];
    for weight in &model.weights.all {
        if let Some(sums) = weight.block.and_then(|il| blocks.get_mut(il)) {
            sums.add(Part::class(weight.role.map(|(slot, _)| slot)), weight.on(backend));
        }
    }
    blocks
}

/// Every device whose blocks rotate by factors has these of its own.
fn rope_homes(placement: &Placement, hparams: &Hparams, architecture: Architecture) -> Vec<Place> {
    let uses = |il: &usize| architecture != Architecture::Gemma4 || !hparams.is_swa[*il];
    let mut homes: Vec<_> = (0..hparams.n_layer()).filter(uses).map(|il| placement.layers[il]).collect();
    homes.sort_unstable();
    homes.dedup();
    homes
}

#[cfg(all(test, feature = "source"))]
mod tests {
    use super::*;
    use crate::engine::llama_cpp::placement::Request;
    use crate::gguf::FileType;
    use crate::settings::Release;
    use crate::source::catalogue;

    /// Parts of blocks here and there, of some blocks several.
    fn overrides(blocks: usize) -> Vec<Overflow> {
        let of = |(at, part): (usize, Part)| {
            let gpu = [None, Some(0), Some(1)];
            (0..blocks).step_by(at + 2).map(move |block| Overflow { block, part, gpu: gpu[(at + block) % 3] })
        };
        Part::ALL.into_iter().rev().enumerate().flat_map(of).collect()
    }

    #[test]
    fn sums_are_those_of_the_weights_one_by_one() {
        let backends = [Backend::CUDA, Backend::METAL, Backend::CPU];
        for name in ["qwen3-30b-a3b", "llama3.1-8b", "gpt-oss-20b", "nemotron-3-nano-30b-a3b"] {
            let model = catalogue::find(name).unwrap().model(FileType::Q4KM).unwrap();
            let model = Loaded::new(&model.header, Release::default()).unwrap();
            let blocks = model.hparams.n_layer_all;
            for gpu_layers in [0, blocks as u64 / 3, blocks as u64 + 1] {
                let overrides = overrides(blocks);
                let request = Request {
                    gpu_layers: Some(gpu_layers),
                    tensor_split: &[],
                    free: &[1 << 34; 2],
                    overrides: &overrides,
                };
                let placement = Placement::new(&model.hparams, &request);
                let mut bytes = vec![0; backends.len()];
                let loaded = model.weights.all.iter().filter(|weight| weight.block.is_some_and(|il| il < blocks));
                for weight in loaded {
                    let slot = weight.role.map(|(slot, _)| slot);
                    let place = usize::from(placement.in_blocks().home(weight.block.unwrap(), slot));
                    bytes[place] += weight.on(&backends[place]);
                }
                assert!(bytes.iter().all(|bytes| *bytes > 0), "{name} {gpu_layers}");
                assert_eq!(Tally::of(&model, &backends).in_blocks(&model, &placement), bytes, "{name} {gpu_layers}");
            }
        }
    }
}
