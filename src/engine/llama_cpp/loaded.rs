//! A model as llama.cpp loads it.

use super::architecture::{GraphFamily, Trait};
use super::hparams::Hparams;
use super::loader;
use super::release::ReleaseTraits;
use super::weights::{LlmTensor, TensorSuffix, Weights};
use crate::gguf::Header;
use crate::settings::LazyMode;
use crate::units::Bytes;

/// A model as loaded by llama.cpp, ready to be measured with any settings.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// The rules of the builds that load it so.
    pub release: &'static ReleaseTraits,
    /// The family of its graph.
    pub family: GraphFamily,
    /// Its hyperparameters.
    pub hparams: Hparams,
    /// Its tensors.
    pub weights: Weights,
}

impl LoadedModel {
    /// Why llama.cpp would refuse a file with this header, which was loaded as this, as part of a sentence; none if nothing is
    /// known that it would refuse.
    pub fn refusal(&self, header: &Header) -> Option<String> {
        loader::refusal(header, &self.hparams)
    }

    /// Whether it is made for embeddings: its header says how they are pooled, or it has no logits.
    pub fn is_embedder(&self) -> bool {
        let Self { hparams, family: GraphFamily { architecture, .. }, .. } = self;
        hparams.pooling.is_some()
            || architecture.reads_only()
            || architecture.has(Trait::EncoderOfTexts)
            || hparams.reads_only && !architecture.has(Trait::Diffusion)
    }

    /// Bytes of the table that is read from the file on demand, whatever the load mode (`lazy_read::add` in
    /// `llama-model-loader.cpp`, 0.1.161).
    pub(super) fn lazy_table(&self, mode: LazyMode) -> Bytes {
        let Self { release, family: GraphFamily { architecture, .. }, weights, .. } = self;
        let table = weights.find_global(LlmTensor::PerLayerTokenEmbd, TensorSuffix::Weight);
        let bytes = table.map_or(Bytes::ZERO, |index| Bytes(weights.all[index].bytes));
        let is_lazy = match mode {
            LazyMode::Off => false,
            LazyMode::Auto => bytes > Bytes::gib(4),
            LazyMode::On => true,
        };
        if is_lazy && architecture.reads_lazily.contain(release) { bytes } else { Bytes::ZERO }
    }

    /// The number of blocks whose weights are loaded, MTP blocks last.
    pub(super) fn loaded_blocks(&self, load_mtp: bool) -> usize {
        let Self { release, family: GraphFamily { architecture, .. }, hparams, .. } = self;
        let loads = load_mtp
            || architecture.has(Trait::OnlyDrafts)
            || hparams.has_router_block
            || architecture.loads_mtp_blocks.contain(release);
        if loads { hparams.n_layer_all } else { hparams.n_layer() }
    }
}
