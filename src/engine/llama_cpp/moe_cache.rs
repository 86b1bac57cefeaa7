//! The cache on GPUs for experts that are in RAM (`--moe-cache-mib`; `llama-moe-cache.cpp`, `llama-cpp-sys-4` 0.11.0, and
//! measured with b11739). Prompts do not use it: graphs of more than 32 tokens are as without.

use super::devices::Device;
use super::error::LoadError;
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::{LlmTensor, TensorSuffix, Weight};
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::Type;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct MoeCacheRequest {
    /// Bytes on all GPUs.
    pub bytes: u64,
    /// The proportions of GPUs; their free memory where there are none.
    pub proportions: Vec<f32>,
}

/// The matrices of experts, in the order in which they share a buffer.
const EXPERTS: [LlmTensor; 4] =
    [LlmTensor::FfnGateUpExps, LlmTensor::FfnGateExps, LlmTensor::FfnUpExps, LlmTensor::FfnDownExps];

/// Blocks of one GPU whose experts have the same types and shapes.
struct Group {
    gpu: usize,
    shapes: Vec<(Type, [u64; 4])>,
    /// Bytes of one expert, by matrix.
    expert: Vec<u64>,
    blocks: u64,
    in_ram: u64,
}

impl Group {
    fn bytes(&self, slots: u64, alignment: u64) -> u64 {
        // one more, as kernels may read past the last one
        self.expert.iter().map(|bytes| (bytes * (slots + 1)).next_multiple_of(alignment)).sum()
    }
}

impl MoeCacheRequest {
    /// Bytes that it takes on each device, RAM last.
    ///
    /// # Errors
    /// When llama.cpp refuses it: there is no GPU, the model has no experts, or those of one token do not fit.
    pub fn place(
        &self,
        model: &LoadedModel,
        placement: &Placement,
        devices: &[Device],
        backends: &[BackendRef],
    ) -> Result<Vec<u64>, LoadError> {
        let used = model.hparams.n_expert_used.iter().copied().max().unwrap_or(0);
        if devices.is_empty() {
            return Err(LoadError::settings("llama.cpp refuses --moe-cache-mib: it needs a GPU"));
        }
        if model.hparams.n_expert == 0 || used == 0 {
            return Err(LoadError::settings("llama.cpp refuses --moe-cache-mib: this model has no experts"));
        }
        let mut bytes = vec![0; backends.len()];
        let groups = groups(model, placement);
        let Some(ram) = bytes.len().checked_sub(1).filter(|_| !groups.is_empty()) else { return Ok(bytes) };
        let in_ram = |gpu: usize| groups.iter().filter(|group| group.gpu == gpu).map(|group| group.in_ram).sum::<u64>();
        let by_free = self.proportions.iter().all(|share| *share == 0.0);
        let share = |gpu: usize| match in_ram(gpu) {
            0 => 0.0,
            _ if by_free => devices.get(gpu).map_or(0.0, |device| device.free as f64),
            _ => f64::from(self.proportions.get(gpu).copied().unwrap_or(0.0)),
        };
        let all: f64 = (0..devices.len()).map(share).sum();
        let mut is_empty = true;
        for group in &groups {
            let alignment = backends[group.gpu].alignment();
            let of_gpu = self.bytes as f64 * share(group.gpu) / all;
            let budget = (of_gpu * group.in_ram as f64 / in_ram(group.gpu) as f64) as u64;
            let experts = group.shapes.first().map_or(0, |(_, ne)| ne[2]);
            let most = group.blocks * experts;
            let slots = (1..=most).take_while(|slots| group.bytes(*slots, alignment) <= budget).last().unwrap_or(0);
            if slots < used {
                continue;
            }
            is_empty = false;
            bytes[group.gpu] += group.bytes(slots, alignment);
            // a map of slots for each block
            bytes[ram] += group.blocks * (4 * experts).next_multiple_of(backends[ram].alignment());
        }
        if is_empty {
            return Err(LoadError::settings(
                "llama.cpp refuses --moe-cache-mib: the experts of one token are larger: use a larger one",
            ));
        }
        Ok(bytes)
    }
}

/// The blocks on GPUs all of whose experts are in RAM.
fn groups(model: &LoadedModel, placement: &Placement) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (il, device) in placement.layers.iter().enumerate().take(model.loaded_blocks(placement.loads_mtp())) {
        let of = |slot: LlmTensor| {
            let is_it =
                |weight: &&Weight| weight.block == Some(il) && weight.role == Some((slot, TensorSuffix::Weight));
            model.weights.all.iter().find(is_it)
        };
        let experts: Vec<&Weight> = EXPERTS.into_iter().filter_map(of).collect();
        let is_plain = |weight: &&Weight| {
            let device = placement.of_weight(weight, model);
            device == placement.cpu && placement.repacked(device, weight.index).is_none()
        };
        if *device == placement.cpu || experts.is_empty() || !experts.iter().all(is_plain) {
            continue;
        }
        let gpu = usize::from(*device);
        let shapes: Vec<(Type, [u64; 4])> = experts.iter().map(|weight| (weight.ty, weight.ne)).collect();
        let in_ram: u64 = experts.iter().map(|weight| weight.bytes).sum();
        if let Some(group) = groups.iter_mut().find(|group| group.gpu == gpu && group.shapes == shapes) {
            (group.blocks, group.in_ram) = (group.blocks + 1, group.in_ram + in_ram);
        } else {
            let expert = experts.iter().map(|weight| weight.bytes / weight.ne[2].max(1)).collect();
            groups.push(Group { gpu, shapes, expert, blocks: 1, in_ram });
        }
    }
    groups
}
