//! What drafting changes in llama-server's two contexts, the model's and the draft's (`common/speculative.cpp`,
//! `common/arg.cpp` and `tools/server`, 0.1.161).

use super::architecture::Trait;
use super::context::{ContextParams, ContextType, DraftingOutputs, NextnRows};
use super::loaded::LoadedModel;
use super::release::ReleaseTraits;
use super::weights::{LlmTensor, TensorSuffix};
use crate::engine::ggml::Type;
use crate::settings::{NgramSizes, SpecType};

/// Default of `--spec-draft-n-max`.
const N_MAX: u64 = 3;

/// How tokens are drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// The ways asked for.
    pub types: Vec<SpecType>,
    /// Tokens drafted at most by a model.
    pub n_max: u64,
    /// Tokens drafted from the text itself.
    pub ngram: NgramSizes,
    /// The draft's device chooses its best tokens.
    pub backend_sampling: bool,
}

impl Default for Speculation {
    /// llama-server's defaults: nothing is drafted.
    fn default() -> Self {
        Self { types: Vec::new(), n_max: N_MAX, ngram: NgramSizes::default(), backend_sampling: true }
    }
}

impl Speculation {
    /// How `draft` drafts if the user does not say (`common_speculative_types_from_gguf`, 0.1.161).
    pub fn type_of(draft: &LoadedModel) -> SpecType {
        let weights = &draft.weights;
        if draft.family.architecture.has(Trait::BlockDraft) {
            let markov = weights.find_global(LlmTensor::DsparkMarkovW1, TensorSuffix::Weight).is_some();
            return if markov { SpecType::DraftDspark } else { SpecType::DraftDflash };
        }
        let last = draft.hparams.n_layer_all.saturating_sub(1);
        match weights.find(last, LlmTensor::NextnEhProj, TensorSuffix::Weight) {
            Some(_) => SpecType::DraftMtp,
            None => SpecType::None,
        }
    }

    /// What a draft's file is for, where the user does not say.
    pub fn kind_of(draft: &LoadedModel) -> SpecType {
        match Self::type_of(draft) {
            // files of these do not say so
            SpecType::None if Self::suits(SpecType::DraftEagle3, draft) => SpecType::DraftEagle3,
            SpecType::None if draft.needs_target() => SpecType::DraftMtp,
            SpecType::None => SpecType::DraftSimple,
            kind => kind,
        }
    }

    /// Whether `draft` is a model for this way to draft.
    pub fn suits(kind: SpecType, draft: &LoadedModel) -> bool {
        let architecture = draft.family.architecture;
        match kind {
            SpecType::DraftEagle3 => architecture.has(Trait::EagleDraft),
            SpecType::DraftDflash | SpecType::DraftDspark => architecture.has(Trait::BlockDraft),
            SpecType::DraftSimple => !draft.needs_target(),
            _ => true,
        }
    }

    fn has(&self, kind: SpecType) -> bool {
        self.types.contains(&kind)
    }

    /// The ways asked for as `--spec-type` has them; none if nothing drafts.
    pub fn names(&self) -> Option<String> {
        let drafts = self.types.iter().filter(|kind| **kind != SpecType::None);
        let names: Vec<&str> = drafts.map(|kind| kind.name()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// MTP blocks draft.
    pub fn is_mtp(&self) -> bool {
        self.has(SpecType::DraftMtp)
    }

    /// A draft computes several tokens at once.
    fn is_block(&self) -> bool {
        self.has(SpecType::DraftDflash) || self.has(SpecType::DraftDspark)
    }

    /// A draft reads inputs of the model's layers.
    fn reads_layers(&self) -> bool {
        self.is_block() || self.has(SpecType::DraftEagle3)
    }

    /// A model drafts, or blocks of the model itself.
    pub fn has_context(&self) -> bool {
        self.is_mtp() || self.reads_layers() || self.has(SpecType::DraftSimple)
    }

    /// Tokens that one draft may have, the largest over the ways asked for.
    fn n_draft(&self) -> u64 {
        let of = |kind: &SpecType| match kind {
            SpecType::None => 0,
            SpecType::NgramSimple => self.ngram.simple.unwrap_or(48),
            SpecType::NgramMapK => self.ngram.map_k.unwrap_or(48),
            SpecType::NgramMapK4v => self.ngram.map_k4v.unwrap_or(48),
            SpecType::NgramMod => self.ngram.by_mod.unwrap_or(64),
            SpecType::NgramCache => 8,
            _ => self.n_max,
        };
        self.types.iter().map(of).max().unwrap_or(0)
    }

    /// Tokens whose logits one ubatch of the model computes for `sequences`.
    pub fn outputs(&self, sequences: u64, n_batch: u64) -> u64 {
        sequences.saturating_mul(1 + self.n_draft()).min(n_batch).max(1)
    }

    /// The options of the model's context, from those without drafting.
    #[must_use]
    pub fn main(&self, options: ContextParams, release: &ReleaseTraits) -> ContextParams {
        let snapshots = self.types.iter().any(|kind| release.rolls_back_for.contains(kind));
        ContextParams {
            n_outputs_max_per_seq: (1 + self.n_draft()).min(options.n_batch).max(1),
            n_rs_seq: if snapshots { self.n_max } else { 0 },
            ..options
        }
    }

    /// The options of the draft's context beside a context with the options `main`.
    pub fn draft(&self, main: &ContextParams, type_k: Type, type_v: Type) -> ContextParams {
        let (sequences, per_block) = (main.n_seq_max.max(1), 1 + self.n_max);
        let rows = if self.is_block() { per_block } else { 1 };
        ContextParams {
            type_k,
            type_v,
            n_rs_seq: 0,
            n_outputs_max: sequences * rows,
            n_outputs_max_per_seq: if self.backend_sampling { rows } else { 1 },
            ctx_type: if self.is_mtp() { ContextType::Mtp } else { ContextType::Default },
            pipeline_refused: None,
            moe_cache: None,
            drafting: DraftingOutputs::default(),
            ..main.clone()
        }
    }

    /// What drafting then asks of the model's context, whose blocks are `n_layer`; none if nothing that changes its
    /// memory.
    pub fn main_outputs(&self, draft: &LoadedModel, n_layer: usize) -> Option<DraftingOutputs> {
        if !self.reads_layers() {
            return None;
        }
        let layers = draft.hparams.draft.target_layers.iter().copied();
        let (layer_inputs, last): (Vec<_>, Vec<_>) = layers.partition(|il| *il < n_layer || self.is_block());
        let nextn = self.is_mtp() || !last.is_empty();
        let embeddings_nextn = if nextn { NextnRows::All } else { NextnRows::None };
        (!layer_inputs.is_empty()).then_some(DraftingOutputs { samplers: false, embeddings_nextn, layer_inputs })
    }

    /// The same of the draft's context.
    pub fn draft_outputs(&self, draft: &LoadedModel) -> Option<DraftingOutputs> {
        let selects = self.is_block() && draft.hparams.draft.selector_top_k > 0;
        let samples = self.backend_sampling && !selects && (self.is_mtp() || self.reads_layers());
        samples.then_some(DraftingOutputs {
            samplers: true,
            embeddings_nextn: NextnRows::Outputs,
            layer_inputs: Vec::new(),
        })
    }
}
