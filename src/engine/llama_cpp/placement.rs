//! The device of every tensor (`load_tensors` in `llama-model.cpp`, `create_tensor` in `llama-model-loader.cpp`,
//! 0.1.161).

use std::collections::BTreeMap;
use std::ops::Range;

use super::architecture::{Architecture, Trait};
use super::devices::Device;
use super::hparams::Hparams;
use super::loaded::LoadedModel;
use super::overrides::UserOverrides;
use super::release::ReleaseTraits;
use super::tensor_split::TensorSplit;
use super::weight_buffers::{WeightBuffers, WeightsInRam};
use super::weights::{self, LlmTensor, Weight, Weights};
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::allocate::Piece;
use crate::engine::ggml::backend::{Backend, Cpu};
use crate::engine::ggml::tensor::BackendId;
use crate::machine::CpuInstructions;
use crate::units::Bytes;

/// The tensors of a block that an override moves (the patterns of `common/fit.cpp`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideGroup {
    /// Its experts.
    Experts,
    /// All feed-forward matrices, including the router.
    FeedForward,
    /// The same without the up matrix.
    GateAndDown,
    /// Only the down matrix.
    Down,
    /// Feed-forward matrices that are no experts.
    Dense,
}

/// Tensors of a block that a fit places on another device than the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOverride {
    /// The block.
    pub block: usize,
    /// The tensors.
    pub part: OverrideGroup,
    /// Their GPU; none for RAM.
    pub gpu: Option<BackendId>,
}

/// The input of a placement.
#[derive(Clone, Debug)]
pub struct SplitRequest<'a> {
    /// Layers on GPUs, including the output layer; none for all.
    pub gpu_layers: Option<u64>,
    /// Share of the layers per GPU; empty or all zero to split by free memory.
    pub tensor_split: &'a [f32],
    /// Free bytes per GPU.
    pub free: &'a [u64],
    /// The overrides of a fit; the first that matches a tensor counts.
    pub overrides: &'a [BlockOverride],
    /// The user's, which count before them.
    pub by_user: &'a UserOverrides,
    /// MTP blocks are loaded.
    pub load_mtp: bool,
    /// The output layer is the first on a GPU; otherwise the last.
    pub output_layer_first: bool,
}

/// A weight on a device that holds it.
#[derive(Clone, Copy, Debug)]
struct LoadedWeight {
    /// Index into [`Weights::all`].
    index: usize,
    device: BackendId,
    /// The token embeddings as output matrix.
    tied: bool,
    /// Its bytes in a layout of the CPU's own, if it has one.
    repacked: Option<u64>,
}

/// A tensor of the file on a device that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedTensor {
    /// Its index in the header.
    pub index: usize,
    /// Its block; none for model-wide tensors.
    pub block: Option<usize>,
    /// The device.
    pub device: usize,
    /// Where it would be if neither a fit nor the user placed it by its name.
    pub own: usize,
    /// Its bytes there.
    pub bytes: Bytes,
    /// The token embeddings as output matrix.
    pub is_tied_output: bool,
}

/// The device of every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Placement {
    /// Per block.
    pub layers: Vec<BackendId>,
    /// The device of the output layer.
    pub output: BackendId,
    /// The CPU.
    pub cpu: BackendId,
    /// All layers are on GPUs, including the output layer.
    pub full_offload: bool,
    /// MTP blocks are loaded.
    load_mtp: bool,
    /// The weights that GPUs refuse, which are in RAM.
    buffers: WeightBuffers,
    /// Sorted by block; within a block in the given order.
    overrides: Vec<BlockOverride>,
    /// Where those of each block begin, up to the last that has any, and where they end.
    first_overrides: Vec<usize>,
    /// The user's, which count before them.
    by_user: UserOverrides,
    /// Weights in RAM are in no host buffers of GPUs.
    no_host: bool,
    /// Matrices are split over all GPUs by their rows.
    by_rows: bool,
}

impl Placement {
    /// Assigns layers to devices.
    pub fn new(hparams: &Hparams, request: &SplitRequest<'_>) -> Self {
        let gpus = request.free.len();
        let blocks = hparams.n_layer_all as u64;
        let asked = request.gpu_layers.unwrap_or(blocks + 1);
        let layers = if request.output_layer_first { blocks + 1 } else { blocks };
        let first = layers.saturating_sub(asked);
        let count = if gpus == 0 { 0 } else { asked.min(blocks + 1) };
        let bounds = bounds(request);
        let cpu = gpus as BackendId;
        let mut overrides = request.overrides.to_vec();
        overrides.sort_by_key(|to| to.block);
        let end = overrides.last().map_or(0, |to| to.block + 1);
        let first_overrides = (0..=end).map(|il| overrides.partition_point(|to| to.block < il)).collect();
        let place = |il: u64| {
            if il < first || il - first >= count {
                return cpu;
            }
            let at = (il - first) as f32 / count as f32;
            // rounding can leave the last bound below 1; the last GPU takes the rest
            bounds.partition_point(|bound| *bound <= at).min(gpus - 1) as BackendId
        };
        Self {
            layers: (0..blocks).map(place).collect(),
            output: place(blocks),
            cpu,
            full_offload: asked > blocks,
            load_mtp: request.load_mtp,
            buffers: WeightBuffers::default(),
            overrides,
            first_overrides,
            by_user: request.by_user.clone(),
            no_host: false,
            by_rows: false,
        }
    }

    /// The same with weights in RAM that GPUs refuse.
    #[must_use]
    pub fn with_buffers(self, buffers: WeightBuffers) -> Self {
        Self { buffers, ..self }
    }

    /// Whether there are tensor overrides.
    pub fn has_overrides(&self) -> bool {
        !self.overrides.is_empty() || self.by_user.is_given
    }

    /// Whether MTP blocks are loaded.
    pub const fn loads_mtp(&self) -> bool {
        self.load_mtp
    }

    /// Whether matrices are split by rows.
    pub fn is_by_rows(&self) -> bool {
        self.by_rows
    }

    /// Whether weights of attention may be on another device than their block.
    pub fn moves_attention(&self) -> bool {
        self.by_user.moves_attention
    }

    /// The device of every block, then that of the output layer.
    pub fn layer_devices(&self) -> Vec<BackendId> {
        self.layers.iter().copied().chain([self.output]).collect()
    }

    /// The device of a tensor of block `il`, unless the user says otherwise; tensors beyond the last block are on the
    /// output layer's device.
    pub fn in_block(&self, il: usize, slot: Option<LlmTensor>) -> BackendId {
        let device = self.layers.get(il).copied().unwrap_or(self.output);
        let moved = self.overrides_of(il).iter().find(|to| slot.is_some_and(|slot| to.part.covers(slot)));
        moved.map_or(device, |to| to.gpu.unwrap_or(self.cpu))
    }

    /// The overrides of block `il`.
    fn overrides_of(&self, il: usize) -> &[BlockOverride] {
        match self.first_overrides.get(il..il.saturating_add(2)) {
            Some([from, to]) => &self.overrides[*from..*to],
            _ => &[],
        }
    }

    /// What the graph of block `il` depends on of its device and its weights, but for their types where these do not decide
    /// on which device they are.
    pub(super) fn traits_of(&self, il: usize, weights: &Weights) -> Vec<u64> {
        let kinds = weights.block_kinds[il];
        let types = kinds.deciding_types(self.buffers.refuses_any());
        let mut traits = vec![self.layers[il].into(), kinds.shapes as u64, types];
        traits.extend(
            self.overrides_of(il).iter().flat_map(|to| [to.part as u64, to.gpu.map_or(0, |gpu| u64::from(gpu) + 1)]),
        );
        if self.by_user.is_given {
            let own = weights.all.iter().enumerate().filter(|(_, weight)| weight.block == Some(il));
            let by_user = own.map(|(index, _)| self.by_user.device(index));
            traits.extend(by_user.map(|device| device.map_or(0, |device| u64::from(device) + 1)));
        }
        traits
    }

    /// Whether weights of block `il` may be in RAM.
    pub(super) fn may_hold_in_ram(&self, il: usize) -> bool {
        let elsewhere = self.overrides_of(il).iter().any(|to| to.gpu.is_none());
        self.layers[il] == self.cpu || elsewhere || self.by_user.is_given || self.buffers.refuses_any()
    }

    /// Where the weight with this index is, if it belongs to `device`.
    pub fn home(&self, device: BackendId, index: usize) -> BackendId {
        let usual = || if self.buffers.refuses(device, index) { self.cpu } else { device };
        self.by_user.device(index).unwrap_or_else(usual)
    }

    /// Where a weight is.
    pub fn of_weight(&self, weight: &Weight, model: &LoadedModel) -> BackendId {
        let slot = weight.role.map(|(slot, _)| slot);
        let device = match weight.block {
            Some(il) => self.in_block(il, slot),
            None => self.of_model(slot, model.family.architecture, model.release),
        };
        self.home(device, weight.index)
    }

    /// Where the token embeddings, the weight with this index, are as output matrix.
    pub fn tied_output(&self, index: usize) -> BackendId {
        let usual = || if self.buffers.refuses_tied_output(self.output) { self.cpu } else { self.output };
        self.by_user.device(index).unwrap_or_else(usual)
    }

    /// The device of a model-wide tensor; those of no particular layer are on that of block 0.
    pub fn of_model(&self, slot: Option<LlmTensor>, architecture: &Architecture, release: &ReleaseTraits) -> BackendId {
        match slot {
            Some(LlmTensor::PerLayerTokenEmbd) if !release.per_layer_table_in_ram => self.output,
            Some(slot) if LlmTensor::INPUT_LAYER.contains(&slot) => self.cpu,
            Some(LlmTensor::TokenEmbdNorm) if architecture.has(Trait::NormOfEmbeddingsIsOutput) => self.output,
            Some(
                LlmTensor::Output
                | LlmTensor::OutputNorm
                | LlmTensor::OutputResScore
                | LlmTensor::HcHeadFn
                | LlmTensor::HcHeadBase
                | LlmTensor::HcHeadScale
                | LlmTensor::HcHeadNorm
                | LlmTensor::HcHeadDown
                | LlmTensor::HcHeadUp
                | LlmTensor::AltupProj
                | LlmTensor::AltupUnembdProj,
            )
            | None => self.output,
            Some(slot) if slot.is_in_output_layer_of_draft() => self.output,
            Some(_) => self.layers[0],
        }
    }

    /// Bytes of weights per device, the CPU last.
    pub fn weights(&self, model: &LoadedModel, backends: &[BackendRef]) -> Vec<Piece> {
        let mut pieces = vec![Piece::default(); backends.len()];
        self.each_loaded(model, |loaded| {
            pieces[usize::from(loaded.device)].add(self.bytes(&loaded, model, backends));
        });
        pieces
    }

    /// Bytes of a weight on its device.
    fn bytes(&self, loaded: &LoadedWeight, model: &LoadedModel, backends: &[BackendRef]) -> u64 {
        // in RAM, what a GPU can use is in its host buffers
        let in_host = !self.no_host && (loaded.tied || !self.buffers.refuses(0, loaded.index));
        let own = loaded.device == self.cpu && !in_host;
        let weight = &model.weights.all[loaded.index];
        match loaded.repacked {
            Some(bytes) => Cpu::default().align(bytes),
            None if own => weight.on(&Cpu::default()),
            None => weight.on(&*backends[usize::from(loaded.device)]),
        }
    }

    /// Every tensor that is loaded, once per device that holds it.
    pub fn tensors(&self, model: &LoadedModel, backends: &[BackendRef]) -> Vec<PlacedTensor> {
        let mut tensors = Vec::new();
        self.each_loaded(model, |loaded| {
            let weight = &model.weights.all[loaded.index];
            let slot = weight.role.map(|(slot, _)| slot);
            let own = match (weight.block, slot) {
                _ if loaded.tied => self.output,
                // a copy of rope factors
                (None, Some(slot)) if slot.is_rope_factors() && self.by_user.device(loaded.index).is_none() => {
                    loaded.device
                }
                (Some(il), _) => self.layers.get(il).copied().unwrap_or(self.output),
                (None, _) => self.of_model(slot, model.family.architecture, model.release),
            };
            let refuses = if loaded.tied {
                self.buffers.refuses_tied_output(own)
            } else {
                self.buffers.refuses(own, loaded.index)
            };
            tensors.push(PlacedTensor {
                index: weight.index,
                block: weight.block,
                device: usize::from(loaded.device),
                own: usize::from(if refuses { self.cpu } else { own }),
                bytes: Bytes(self.bytes(&loaded, model, backends)),
                is_tied_output: loaded.tied,
            });
        });
        tensors
    }

    /// Bytes of weights on every card of a split by tensors, whose device is the first.
    pub fn split_weights(&self, model: &LoadedModel, backends: &[BackendRef], split: &TensorSplit) -> Vec<u64> {
        let mut bytes = vec![0; split.shares.len()];
        self.each_loaded(model, |loaded| {
            if loaded.device != self.cpu {
                let weight = &model.weights.all[loaded.index];
                let all = weight.on(&*backends[usize::from(loaded.device)]);
                let is_divided = loaded.tied || TensorSplit::divides(weight);
                let (divided, mirrored) = if is_divided { (all, 0) } else { (0, all) };
                let cards = split.divide(divided, mirrored);
                bytes.iter_mut().zip(cards).for_each(|(sum, card)| *sum += card);
            }
        });
        bytes
    }

    /// The weights in RAM by buffers.
    pub fn in_ram(&self, model: &LoadedModel) -> WeightsInRam {
        let mut in_ram = WeightsInRam::default();
        let mut spans: BTreeMap<usize, Range<u64>> = BTreeMap::new();
        self.each_loaded(model, |loaded| {
            let weight = &model.weights.all[loaded.index];
            match loaded.repacked {
                _ if loaded.device != self.cpu => {}
                Some(bytes) => in_ram.repacked += Cpu::default().align(bytes),
                None => {
                    in_ram.others += weight.on(&Cpu::default());
                    let (start, end) = (weight.start, weight.start + weight.bytes);
                    let span = spans.entry(weight.file).or_insert(start..end);
                    *span = span.start.min(start)..span.end.max(end);
                }
            }
        });
        in_ram.span = spans.values().map(|span| span.end - span.start).sum();
        in_ram
    }

    /// The number of weights, counted on every device that holds them (`llama_model::n_tensors`, 0.1.161).
    pub fn loaded_count(&self, model: &LoadedModel) -> u64 {
        let mut count = 0;
        self.each_loaded(model, |_| count += 1);
        count
    }

    /// Calls `visit` for every weight on every device that holds it. (Tensors unused by the graph are not loaded.)
    fn each_loaded(&self, model: &LoadedModel, mut visit: impl FnMut(LoadedWeight)) {
        let LoadedModel { hparams, weights: tensors, .. } = model;
        let architecture = model.family.architecture;
        let blocks = model.loaded_blocks(self.load_mtp);
        let mut put = |index: usize, device: BackendId| {
            let device = self.home(device, index);
            visit(LoadedWeight { index, device, tied: false, repacked: self.repacked(device, index) });
        };
        for (index, weight) in tensors.all.iter().enumerate() {
            let slot = weight.role.map(|(slot, _)| slot);
            match (weight.block, slot) {
                // MTP blocks
                (Some(il), slot)
                    if il >= blocks && il < hparams.n_layer_all && !slot.is_some_and(architecture.unmarked) => {}
                // nothing uses it (`LLM_TENSOR_INFOS` in `llama-arch.cpp`, 0.1.161)
                (_, Some(LlmTensor::CrossAttnRelB)) => {}
                (Some(il), _) => put(index, self.in_block(il, slot)),
                (None, Some(slot)) if slot.is_rope_factors() => {
                    self.rope_devices(hparams, architecture).into_iter().for_each(|place| put(index, place));
                }
                (None, _) => put(index, self.of_model(slot, architecture, model.release)),
            }
        }
        let tied = architecture.ties_output()
            && tensors.find_global(LlmTensor::Output, weights::TensorSuffix::Weight).is_none();
        if let (true, Some(index)) = (tied, tensors.find_global(LlmTensor::TokenEmbd, weights::TensorSuffix::Weight)) {
            let device = self.tied_output(index);
            let rows = self.home(self.of_model(Some(LlmTensor::TokenEmbd), architecture, model.release), index);
            let first = architecture.has(Trait::CopiesEmbeddingsFirst);
            let repacked = self.buffers.repacked_tied_output().filter(|_| device == self.cpu);
            let twice_in_ram = repacked.is_some() || tensors.embeddings_twice_in_ram(&self.buffers);
            if device != rows || first || device == self.cpu && twice_in_ram {
                visit(LoadedWeight { index, device, tied: true, repacked });
            }
        }
    }

    /// Bytes of the weight with this index on `device` in a layout of the CPU's own, if it is in RAM and has one.
    pub fn repacked(&self, device: BackendId, index: usize) -> Option<u64> {
        self.buffers.repacked(index).filter(|_| device == self.cpu)
    }

    /// Whether the token embeddings as output matrix are in a layout of the CPU's own.
    pub fn repacks_tied_output(&self, index: usize) -> bool {
        self.tied_output(index) == self.cpu && self.buffers.repacked_tied_output().is_some()
    }

    /// The devices of rope factors: every device whose blocks use them has a copy.
    fn rope_devices(&self, hparams: &Hparams, architecture: &Architecture) -> Vec<BackendId> {
        let outside = architecture.has(Trait::WindowsNeedNoRopeFactors);
        let uses = |il: &usize| !outside || !hparams.is_swa[*il];
        let blocks =
            if architecture.has(Trait::MtpKeepsRopeFactors) { hparams.n_layer_all } else { hparams.n_layer_graph() };
        let mut layer_devices: Vec<_> =
            (0..blocks).filter(uses).map(|il| self.layers[hparams.weight_block(il)]).collect();
        layer_devices.sort_unstable();
        layer_devices.dedup();
        layer_devices
    }

    /// Bytes of the input layer's weights, which are always in RAM.
    pub fn input_layer_weights(LoadedModel { weights: tensors, release, .. }: &LoadedModel) -> u64 {
        let in_ram = |slot: &LlmTensor| *slot != LlmTensor::PerLayerTokenEmbd || release.per_layer_table_in_ram;
        let parts = |slot| {
            [weights::TensorSuffix::Weight, weights::TensorSuffix::Bias, weights::TensorSuffix::Scale]
                .map(|part| (slot, part))
        };
        let found = LlmTensor::INPUT_LAYER
            .into_iter()
            .filter(in_ram)
            .flat_map(parts)
            .filter_map(|(slot, part)| tensors.find_global(slot, part));
        found.map(|index| tensors.all[index].on(&Cpu::default())).sum()
    }

    /// Bytes of the weights of every loaded block and of the output layer, on any device.
    pub fn weights_by_layer(&self, model: &LoadedModel) -> Vec<u64> {
        let LoadedModel { family, weights: tensors, .. } = model;
        let blocks = model.loaded_blocks(self.load_mtp);
        let mut bytes = vec![0; blocks + 1];
        let mut has_output = !family.architecture.ties_output();
        for weight in &tensors.all {
            match (weight.block, weight.role.map(|role| role.0)) {
                (Some(il), _) if il < blocks => bytes[il] += weight.bytes,
                (None, Some(LlmTensor::Output | LlmTensor::OutputNorm)) => {
                    has_output |= weight.role == Some((LlmTensor::Output, weights::TensorSuffix::Weight));
                    bytes[blocks] += weight.bytes;
                }
                _ => {}
            }
        }
        if let (false, Some(index)) =
            (has_output, tensors.find_global(LlmTensor::TokenEmbd, weights::TensorSuffix::Weight))
        {
            bytes[blocks] += tensors.all[index].bytes;
        }
        bytes
    }

    /// Bytes of the experts of every block.
    pub fn expert_weights(model: &LoadedModel) -> Vec<u64> {
        let mut bytes = vec![0; model.hparams.n_layer_all];
        for weight in &model.weights.all {
            let experts = weight.role.is_some_and(|(slot, _)| OverrideGroup::Experts.covers(slot));
            if let Some(block) = weight.block.filter(|_| experts).and_then(|block| bytes.get_mut(block)) {
                *block += weight.bytes;
            }
        }
        bytes
    }

    /// Bytes of experts in RAM.
    pub fn experts_in_ram(&self, model: &LoadedModel) -> u64 {
        let blocks = model.loaded_blocks(self.load_mtp);
        let in_ram = |(index, weight): (usize, &weights::Weight)| {
            let (slot, il) = (weight.role?.0, weight.block.filter(|il| *il < blocks)?);
            let home = self.home(self.in_block(il, Some(slot)), index);
            (OverrideGroup::Experts.covers(slot) && home == self.cpu).then_some(weight.bytes)
        };
        model.weights.all.iter().enumerate().filter_map(in_ram).sum()
    }

    /// Bytes of the weights of every block that are on another device than the block.
    pub fn weights_elsewhere(&self, model: &LoadedModel) -> Vec<u64> {
        let mut bytes = vec![0; model.loaded_blocks(self.load_mtp)];
        if self.has_overrides() || self.buffers.refuses_any() {
            for (index, weight) in model.weights.all.iter().enumerate() {
                let Some(il) = weight.block.filter(|il| *il < bytes.len()) else { continue };
                let device = self.in_block(il, weight.role.map(|(slot, _)| slot));
                if self.home(device, index) != self.layers[il] {
                    bytes[il] += weight.bytes;
                }
            }
        }
        bytes
    }
}

impl OverrideGroup {
    /// What is searched for in a tensor's name behind its block.
    pub(super) const fn pattern(self) -> &'static str {
        match self {
            Self::Experts => "ffn_(up|down|gate_up|gate)_(ch|)exps",
            Self::FeedForward => "ffn_(gate|up|gate_up|down).*",
            Self::GateAndDown => "ffn_(gate|gate_up|down).*",
            Self::Down => "ffn_down.*",
            Self::Dense => r"ffn_(up|down|gate)\.",
        }
    }

    /// Whether the group contains tensors of this role.
    pub(super) const fn covers(self, slot: LlmTensor) -> bool {
        // spelled out for speed: called for every tensor of every graph
        match self {
            Self::Experts => {
                matches!(
                    slot,
                    LlmTensor::FfnGateExps
                        | LlmTensor::FfnUpExps
                        | LlmTensor::FfnGateUpExps
                        | LlmTensor::FfnDownExps
                        | LlmTensor::FfnGateChexps
                        | LlmTensor::FfnUpChexps
                        | LlmTensor::FfnDownChexps
                )
            }
            Self::FeedForward => {
                matches!(slot, LlmTensor::FfnUp | LlmTensor::FfnUpExps | LlmTensor::FfnUpChexps | LlmTensor::FfnUpShexp)
                    || Self::GateAndDown.covers(slot)
            }
            Self::GateAndDown => {
                matches!(
                    slot,
                    LlmTensor::FfnGate
                        | LlmTensor::FfnGateInp
                        | LlmTensor::FfnGateInpShexp
                        | LlmTensor::FfnGateTid2Eid
                        | LlmTensor::FfnGateExps
                        | LlmTensor::FfnGateUpExps
                        | LlmTensor::FfnGateChexps
                        | LlmTensor::FfnGateShexp
                ) || Self::Down.covers(slot)
            }
            Self::Down => matches!(
                slot,
                LlmTensor::FfnDown | LlmTensor::FfnDownExps | LlmTensor::FfnDownChexps | LlmTensor::FfnDownShexp
            ),
            Self::Dense => matches!(slot, LlmTensor::FfnUp | LlmTensor::FfnGate | LlmTensor::FfnDown),
        }
    }
}

/// Upper bounds of the GPUs' shares, as fractions of all layers on GPUs.
fn bounds(request: &SplitRequest<'_>) -> Vec<f32> {
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

/// How layers are split over the devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerSplit {
    /// Layers on GPUs, including the output layer; none for all.
    pub gpu_layers: Option<u64>,
    /// Share of the layers per GPU; empty to split by free memory.
    pub tensor_split: Vec<f32>,
    /// Tensors that a fit places on another device than their layer.
    pub overrides: Vec<BlockOverride>,
    /// Tensors that the user places.
    pub by_user: UserOverrides,
    /// Weights in RAM are in no host buffers of GPUs.
    pub no_host: bool,
    /// Matrices are split over all GPUs by their rows.
    pub by_rows: bool,
    /// MTP blocks are loaded.
    pub load_mtp: bool,
    /// The instructions of the CPU for which weights in RAM are repacked; `None` if they are not.
    pub repack_for: CpuInstructions,
}

impl LoadedModel {
    /// Assigns layers to `devices`.
    pub fn place(&self, devices: &[Device], spread: &LayerSplit) -> Placement {
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        let request = SplitRequest {
            gpu_layers: spread.gpu_layers,
            tensor_split: &spread.tensor_split,
            free: &free,
            overrides: &spread.overrides,
            by_user: &spread.by_user,
            load_mtp: spread.load_mtp,
            output_layer_first: self.release.output_layer_first,
        };
        // host buffers of a GPU come first
        let host = !spread.no_host && devices.iter().any(|device| device.backend.has_host_buffers());
        let layouts = self.layouts(if host { CpuInstructions::None } else { spread.repack_for });
        let placement =
            Placement::new(&self.hparams, &request).with_buffers(WeightBuffers::new(self, devices, layouts));
        Placement { no_host: spread.no_host, by_rows: spread.by_rows, ..placement }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TensorPattern;
    use rstest::rstest;

    #[rstest]
    fn override_groups_hold_what_their_patterns_find(
        #[values(
            OverrideGroup::Experts,
            OverrideGroup::FeedForward,
            OverrideGroup::GateAndDown,
            OverrideGroup::Down,
            OverrideGroup::Dense
        )]
        part: OverrideGroup,
    ) {
        let pattern: TensorPattern = format!(r"blk\.3\.{}", part.pattern()).parse().unwrap();
        for slot in LlmTensor::ALL {
            let name = format!("blk.3.{}.weight", slot.name());
            assert_eq!(part.covers(slot), pattern.matches(&name), "{name}");
            assert!(!pattern.matches(&name.replace("blk.3", "blk.13")), "{name}");
        }
    }
}
