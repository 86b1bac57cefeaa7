//! A model as llama.cpp loads it.

use super::architecture::{GraphFamily, Trait};
use super::hparams::Hparams;
use super::release::ReleaseTraits;
use super::weights::Weights;

/// A model as loaded by llama.cpp, ready to be measured with any settings.
#[derive(Clone, Debug)]
pub struct LoadedModel {
    /// The release whose rules apply.
    pub release: &'static ReleaseTraits,
    /// The family of its graph.
    pub family: GraphFamily,
    /// Its hyperparameters.
    pub hparams: Hparams,
    /// Its tensors.
    pub weights: Weights,
}

impl LoadedModel {
    /// Whether it is made for embeddings: its header says how they are pooled, or it has no logits.
    pub fn is_embedder(&self) -> bool {
        let Self { hparams, family: GraphFamily { architecture, .. }, .. } = self;
        hparams.pooling.is_some()
            || architecture.reads_only()
            || architecture.has(Trait::EncoderOfTexts)
            || hparams.reads_only && !architecture.has(Trait::Diffusion)
    }

    /// The number of blocks whose weights are loaded, MTP blocks last.
    pub(super) fn loaded_blocks(&self, load_mtp: bool) -> usize {
        let Self { release, family: GraphFamily { architecture, .. }, hparams, .. } = self;
        let loads = load_mtp
            || architecture.has(Trait::OnlyDrafts)
            || hparams.has_router_block
            || architecture.loads_mtp_blocks.contain(release.name);
        if loads { hparams.n_layer_all } else { hparams.n_layer() }
    }
}
