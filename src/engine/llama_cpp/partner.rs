//! The context that a draft is made beside: a draft without embeddings, output matrix or caches of its own uses those.

use super::architecture::Trait;
use super::cache::Memory;
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::{LlmTensor, TensorSuffix};
use crate::engine::ggml::tensor::BackendId;

/// The model that a draft drafts for, as it is loaded (`ctx_other` in `llama-context.cpp`, 0.1.161).
#[derive(Clone, Debug)]
pub struct Partner<'a> {
    /// The model.
    pub model: &'a LoadedModel,
    /// The device of its tensors.
    pub placement: Placement,
    /// Its caches.
    pub memory: Memory,
    /// The devices of the draft, as indices among those of the model.
    pub devices: Vec<usize>,
}

impl Partner<'_> {
    /// Whether the draft has the devices of what it may share: the output layer, and the caches of the last two blocks.
    pub fn is_reachable(&self) -> bool {
        let blocks = self.placement.layers.iter().take(self.model.hparams.n_layer()).rev().take(2);
        blocks.chain([&self.placement.output]).all(|device| self.place(*device).is_some())
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
    /// Whether this is a draft that cannot be made without a partner.
    pub fn needs_partner(&self) -> bool {
        let has = |slot| self.weights.find_global(slot, TensorSuffix::Weight).is_some();
        let (embeddings, output) = (has(LlmTensor::TokenEmbd), has(LlmTensor::Output));
        let is = |kind| self.family.architecture.has(kind);
        // without an output matrix, the embeddings of a draft of several tokens are one
        is(Trait::SharesPartnersCaches)
            || is(Trait::EagleDraft) && !(embeddings && output)
            || is(Trait::BlockDraft) && !embeddings
    }
}
