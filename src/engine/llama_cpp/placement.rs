//! Which device holds which tensor (`load_tensors` in `llama-model.cpp`, `create_tensor` in `llama-model-loader.cpp`,
//! 0.1.161).

use std::hash::{Hash, Hasher};

use super::Loaded;
use super::architecture::Architecture;
use super::hparams::Hparams;
use super::weights::{self, Slot, Weights};
use crate::engine::ggml::Backend;
use crate::engine::ggml::tensor::Place;

/// Which of a block's tensors go elsewhere than the block (the patterns of `common/fit.cpp`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Its experts.
    Experts,
    /// Its feed-forward part, router included: all matrices.
    FeedForward,
    /// The same but for the first matrix.
    GateAndDown,
    /// The last matrix alone.
    Down,
}

/// Tensors of a block that go elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The block.
    pub block: usize,
    /// Which of its tensors.
    pub part: Part,
    /// The GPU that takes them; none for RAM.
    pub gpu: Option<Place>,
}

impl Hash for Overflow {
    /// All of it as one number: placements have many of them, and are looked up often.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let gpu = self.gpu.map_or(0, |gpu| u64::from(gpu) + 1);
        state.write_u64((self.block as u64) << 16 | (self.part as u64) << 9 | gpu);
    }
}

/// How layers are to be spread.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Layers on GPUs, the output layer counted; none for all.
    pub gpu_layers: Option<u64>,
    /// Share of the layers per GPU; all zero or empty for the share of free memory.
    pub tensor_split: &'a [f32],
    /// Free bytes per GPU.
    pub free: &'a [u64],
    /// What goes elsewhere than its layer; of several for one tensor the first counts.
    pub overrides: &'a [Overflow],
}

/// The home of every layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Per block.
    pub layers: Vec<Place>,
    /// Of the output layer.
    pub output: Place,
    /// The CPU.
    pub cpu: Place,
    /// Every layer is on a GPU, the output layer too.
    pub full_offload: bool,
    /// By block; those of one block in the order in which they were given.
    overrides: Vec<Overflow>,
}

/// The homes of the tensors of blocks, for those who ask block by block.
#[derive(Debug)]
pub struct InBlocks<'p> {
    placement: &'p Placement,
    /// The block asked for last, and what of it goes elsewhere.
    il: usize,
    overrides: &'p [Overflow],
}

impl Placement {
    /// Spreads the layers.
    pub fn new(hparams: &Hparams, request: &Request<'_>) -> Self {
        let gpus = request.free.len();
        let blocks = hparams.n_layer_all as u64;
        let asked = request.gpu_layers.unwrap_or(blocks + 1);
        let first = (blocks + 1).saturating_sub(asked);
        let count = if gpus == 0 { 0 } else { asked.min(blocks + 1) };
        let bounds = bounds(request);
        let cpu = gpus as Place;
        let mut overrides = request.overrides.to_vec();
        overrides.sort_by_key(|to| to.block);
        let place = |il: u64| {
            if il < first || il - first >= count {
                return cpu;
            }
            let at = (il - first) as f32 / count as f32;
            // rounding can leave the last bound below 1; the last GPU takes what lies beyond
            bounds.partition_point(|bound| *bound <= at).min(gpus - 1) as Place
        };
        Self {
            layers: (0..blocks).map(place).collect(),
            output: place(blocks),
            cpu,
            full_offload: asked > blocks,
            overrides,
        }
    }

    /// Whether single tensors were told to stay in RAM.
    pub fn has_overrides(&self) -> bool {
        !self.overrides.is_empty()
    }

    /// What was told to go elsewhere than its layer, by block.
    pub fn overrides(&self) -> &[Overflow] {
        &self.overrides
    }

    /// The device of every block, then that of the output layer.
    pub fn homes(&self) -> Vec<Place> {
        self.layers.iter().copied().chain([self.output]).collect()
    }

    /// The home of block `il`; what lies beyond the blocks is with the output layer.
    pub fn of_block(&self, il: usize) -> Place {
        self.layers.get(il).copied().unwrap_or(self.output)
    }

    /// Every block's home, and what of it goes elsewhere.
    pub fn blocks(&self) -> impl Iterator<Item = (Place, &[Overflow])> {
        let mut overrides = self.overrides.chunk_by(|one, next| one.block == next.block).peekable();
        let mut moved = move |il| overrides.next_if(|moved| moved[0].block == il).unwrap_or_default();
        self.layers.iter().enumerate().map(move |(il, home)| (*home, moved(il)))
    }

    /// Blocks of which not everything is where it is under `other`, a placement of the same model.
    pub fn blocks_elsewhere(&self, other: &Self) -> Vec<usize> {
        let blocks = self.blocks().zip(other.blocks()).enumerate();
        blocks.filter(|(_, (here, there))| here != there).map(|(il, _)| il).collect()
    }

    /// The homes of the tensors of blocks.
    pub fn in_blocks(&self) -> InBlocks<'_> {
        InBlocks { placement: self, il: 0, overrides: self.moved(0) }
    }

    /// What of block `il` goes elsewhere.
    pub fn moved(&self, il: usize) -> &[Overflow] {
        let from = self.overrides.partition_point(|to| to.block < il);
        let own = &self.overrides[from..];
        &own[..own.iter().take_while(|to| to.block == il).count()]
    }

    /// The home of a tensor of the whole model that is for this; block 0 computes what belongs to no block.
    pub fn of_model(&self, slot: Option<Slot>, architecture: Architecture) -> Place {
        match slot {
            Some(slot) if Slot::LOOKED_UP.contains(&slot) => self.cpu,
            Some(Slot::TokenEmbdNorm) if architecture == Architecture::Lfm2 => self.output,
            Some(Slot::Output | Slot::OutputNorm) | None => self.output,
            Some(_) => self.layers[0],
        }
    }

    /// Bytes of the weights that are in RAM wherever the layers are.
    pub fn looked_up(tensors: &Weights) -> u64 {
        let parts = |slot| [weights::Part::Weight, weights::Part::Bias, weights::Part::Scale].map(|part| (slot, part));
        let found =
            Slot::LOOKED_UP.into_iter().flat_map(parts).filter_map(|(slot, part)| tensors.find_global(slot, part));
        found.map(|index| tensors.all[index].on(&Backend::CPU)).sum()
    }

    /// Bytes of the weights of every block and of the output layer, wherever they are.
    pub fn weights_by_layer(model: &Loaded) -> Vec<u64> {
        let Loaded { family, hparams, weights: tensors, .. } = model;
        let blocks = hparams.n_layer();
        let mut bytes = vec![0; blocks + 1];
        let mut has_output = !family.architecture.loads_output();
        for weight in &tensors.all {
            match (weight.block, weight.role.map(|role| role.0)) {
                (Some(il), _) if il < blocks => bytes[il] += weight.bytes,
                (None, Some(Slot::Output | Slot::OutputNorm)) => {
                    has_output |= weight.role == Some((Slot::Output, weights::Part::Weight));
                    bytes[blocks] += weight.bytes;
                }
                _ => {}
            }
        }
        if let (false, Some(index)) = (has_output, tensors.find_global(Slot::TokenEmbd, weights::Part::Weight)) {
            bytes[blocks] += tensors.all[index].bytes;
        }
        bytes
    }

    /// Bytes of the weights of every block that are on another device than the block.
    pub fn weights_elsewhere(&self, model: &Loaded) -> Vec<u64> {
        let mut bytes = vec![0; self.layers.len()];
        if self.has_overrides() {
            let mut in_blocks = self.in_blocks();
            for weight in &model.weights.all {
                let Some(il) = weight.block.filter(|il| *il < bytes.len()) else { continue };
                if in_blocks.home(il, weight.role.map(|(slot, _)| slot)) != self.layers[il] {
                    bytes[il] += weight.bytes;
                }
            }
        }
        bytes
    }
}

impl InBlocks<'_> {
    /// The home of a tensor of block `il` that is for this.
    pub fn home(&mut self, il: usize, slot: Option<Slot>) -> Place {
        let Self { placement, .. } = *self;
        if il != self.il {
            (self.il, self.overrides) = (il, placement.moved(il));
        }
        let moved = self.overrides.iter().find(|to| slot.is_some_and(|slot| to.part.covers(slot)));
        moved.map_or_else(|| placement.of_block(il), |to| to.gpu.unwrap_or(placement.cpu))
    }
}

impl Part {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Experts, Self::FeedForward, Self::GateAndDown, Self::Down];

    /// How many classes of tensors there are at most of which each part holds all or none.
    pub const CLASSES: usize = 1 << Self::ALL.len();

    /// The class of tensors of this role.
    pub fn class(slot: Option<Slot>) -> usize {
        let covers = |part: &Self| slot.is_some_and(|slot| part.covers(slot));
        Self::ALL.into_iter().filter(covers).map(|part| 1 << part as usize).sum()
    }

    /// Whether it holds tensors of this class.
    pub const fn has(self, class: usize) -> bool {
        class & (1 << self as usize) != 0
    }

    /// Whether it holds tensors of this role.
    const fn covers(self, slot: Slot) -> bool {
        // written out, not told by names: it is asked for every tensor of every graph
        match self {
            Self::Experts => {
                matches!(slot, Slot::FfnGateExps | Slot::FfnUpExps | Slot::FfnGateUpExps | Slot::FfnDownExps)
            }
            Self::FeedForward => {
                matches!(slot, Slot::FfnUp | Slot::FfnUpExps | Slot::FfnUpShexp) || Self::GateAndDown.covers(slot)
            }
            Self::GateAndDown => {
                matches!(
                    slot,
                    Slot::FfnGate
                        | Slot::FfnGateInp
                        | Slot::FfnGateInpShexp
                        | Slot::FfnGateExps
                        | Slot::FfnGateUpExps
                        | Slot::FfnGateShexp
                ) || Self::Down.covers(slot)
            }
            Self::Down => matches!(slot, Slot::FfnDown | Slot::FfnDownExps | Slot::FfnDownShexp),
        }
    }
}

/// Upper bounds of the GPUs' shares, as fractions of all layers that go to GPUs.
fn bounds(request: &Request<'_>) -> Vec<f32> {
    let given = request.tensor_split.iter().any(|share| *share != 0.0);
    let share = |i: usize| {
        if given { request.tensor_split.get(i).copied().unwrap_or(0.0) } else { request.free[i] as f32 }
    };
    let mut sum = 0.0;
    let sums: Vec<f32> = (0..request.free.len())
        .map(|i| {
            sum += share(i);
            sum
        })
        .collect();
    sums.into_iter().map(|bound| bound / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// As llama.cpp's patterns have them (`common/fit.cpp`, 0.1.161).
    #[rstest]
    #[case(Part::Experts, &["ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps", "ffn_gate_exps"])]
    #[case(Part::FeedForward, &["ffn_gate", "ffn_up", "ffn_down"])]
    #[case(Part::GateAndDown, &["ffn_gate", "ffn_down"])]
    #[case(Part::Down, &["ffn_down"])]
    fn parts_hold_what_begins_like_their_patterns(#[case] part: Part, #[case] patterns: &[&str]) {
        for slot in Slot::ALL {
            let begins = patterns.iter().any(|pattern| slot.name().starts_with(pattern));
            assert_eq!(part.covers(slot), begins, "{}", slot.name());
        }
    }
}
