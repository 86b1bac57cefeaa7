//! The context that a draft is made beside: a draft without embeddings, output matrix or caches of its own uses those.

use super::architecture::Trait;
use super::cache::{KvCache, Memory};
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::{LlmTensor, TensorSuffix};
use crate::engine::ggml::tensor::BackendId;

/// The model that a draft drafts for, as it is loaded (`ctx_other` in `llama-context.cpp`, 0.1.161).
#[derive(Clone, Debug)]
pub struct DraftTarget<'a> {
    /// The model.
    pub model: &'a LoadedModel,
    /// The device of its tensors.
    pub placement: Placement,
    /// Its caches.
    pub memory: Memory,
    /// The devices of the draft, as indices among those of the model.
    pub devices: Vec<usize>,
}

impl DraftTarget<'_> {
    /// Whether `draft` has the devices of what it shares: the output matrix, or the caches of the last two blocks.
    pub fn is_reachable(&self, draft: &LoadedModel) -> bool {
        if draft.family.architecture.has(Trait::SharesPartnersCaches) {
            let last = self.model.hparams.n_layer();
            let of = |cache: &Option<KvCache>, from_end: usize| {
                cache.as_ref()?.layers.get(last.checked_sub(from_end)?).copied().flatten()
            };
            let shared = [of(&self.memory.full, 1), of(&self.memory.window, 2)];
            return shared.iter().flatten().all(|layer| self.place(layer.place).is_some());
        }
        draft.has_output() || self.output().is_some_and(|(_, device)| self.place(device).is_some())
    }

    /// The model's output matrix, or its embeddings as one, and the device that holds it.
    pub fn output(&self) -> Option<(LlmTensor, BackendId)> {
        let Self { model, placement, .. } = self;
        let of = |slot| model.weights.find_global(slot, TensorSuffix::Weight);
        let own = of(LlmTensor::Output).map(|index| (LlmTensor::Output, placement.home(placement.output, index)));
        own.or_else(|| of(LlmTensor::TokenEmbd).map(|index| (LlmTensor::TokenEmbd, placement.tied_output(index))))
    }

    /// The draft's device for a device of the model; none if the draft does not use it.
    pub fn place(&self, of_model: BackendId) -> Option<BackendId> {
        if of_model == self.placement.cpu {
            return Some(self.devices.len() as BackendId);
        }
        self.devices.iter().position(|device| *device == usize::from(of_model)).map(|place| place as BackendId)
    }
}

impl LoadedModel {
    /// Whether it has an output matrix, or embeddings that are one.
    fn has_output(&self) -> bool {
        let has = |slot| self.weights.find_global(slot, TensorSuffix::Weight).is_some();
        has(LlmTensor::Output) || has(LlmTensor::TokenEmbd) && self.family.architecture.ties_output()
    }

    /// Whether this is a draft that cannot be made without a target.
    pub fn needs_target(&self) -> bool {
        let has = |slot| self.weights.find_global(slot, TensorSuffix::Weight).is_some();
        let (embeddings, output) = (has(LlmTensor::TokenEmbd), has(LlmTensor::Output));
        let is = |kind| self.family.architecture.has(kind);
        // without an output matrix, the embeddings of a draft of several tokens are one
        is(Trait::SharesPartnersCaches)
            || is(Trait::EagleDraft) && !(embeddings && output)
            || is(Trait::BlockDraft) && !embeddings
    }
}
