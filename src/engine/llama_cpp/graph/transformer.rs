//! Architectures whose blocks are attention followed by feed-forward: their differences as data, and one function that
//! builds all their graphs.

mod halves;
mod kinds;

use super::recurrent::RecurrentInput;
use super::{GraphBuilder, Norm};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::architectures::Trait;
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

/// The traits of such an architecture. Parts without tensors in the file are left out: biases, QK norms, gates,
/// experts, rope factors.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Transformer {
    /// Kind of normalisation.
    pub norm: Norm,
    /// Scale of the input embeddings.
    pub embeddings: EmbeddingScale,
    /// Blocks with rotary positions.
    pub rotation: RopeLayers,
    /// Normalisation of queries and keys.
    pub heads: QkNorm,
    /// Queries are multiplied by a constant before attention.
    pub scales_queries: bool,
    /// Norms of the attention half.
    pub attention: Norms,
    /// Norms of the feed-forward half.
    pub feed_forward: Norms,
    /// Order of the residual additions.
    pub sum: ResidualOrder,
    /// Activation of a feed-forward part without a gate: squared `ReLU`, else any other function.
    pub squares: bool,
    /// Expert routing.
    pub experts: ExpertRouting,
    /// Halves without tensors in the file are skipped; otherwise the file is incomplete.
    pub lenient: bool,
}

/// Inputs of attention, or of recurrent blocks, besides the block's tensors.
#[derive(Clone, Copy)]
struct Inputs {
    positions: TensorId,
    /// A factor per token for the queries, if the model has one.
    temperature: TensorId,
    states: Option<RecurrentInput>,
}

/// Scale of the token embeddings before the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum EmbeddingScale {
    /// Nothing.
    Plain,
    /// Normalised without weights.
    Normalised,
    /// A constant for all rows.
    Scaled,
    /// A constant for the rows of tokens, not for given embeddings.
    ScaledTokens,
}

/// Blocks that apply rotary positions to queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum RopeLayers {
    /// All, if the model has rotary positions.
    Every,
    /// All except every n-th.
    ButEveryNth,
    /// Those with a sliding window.
    Windows,
    /// All except the first of every n.
    ButFirstOfNth,
    /// Those with a sliding window, and the first blocks, which have no experts.
    WindowsAndDense,
    /// Those with a sliding window, or all if there are none.
    WindowsIfAny,
    /// None.
    Never,
}

/// Normalisation of queries and keys, if the file has weights for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum QkNorm {
    /// Per head.
    Each,
    /// Per head, of copies if queries, keys and values are parts of one matrix.
    EachOfCopies,
    /// Per head, by mean and variance whatever the other norms are.
    EachWithMean,
    /// Per head, after rotary positions are applied.
    EachRotated,
    /// Across all heads.
    Across,
    /// Across all heads, but split into heads before and after.
    AcrossSplit,
}

/// The norms of one half of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Norms {
    /// The norm of the input.
    pub before: PreNorm,
    /// The norm of the output.
    pub after: PostNorm,
    /// The norm of the sum of output and residual.
    pub sum: Option<LlmTensor>,
}

/// The input of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PreNorm {
    /// The normalised input.
    Norm(LlmTensor),
    /// The same, or the input of attention if the file has no weights for it.
    NormOrAttentions(LlmTensor),
    /// The input, normalised without weights.
    Bare,
    /// The input as it is.
    Nothing,
    /// The normalised output of attention, without the residual.
    AttentionOutput,
}

/// The normalisation of a half's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PostNorm {
    /// Not.
    Nothing,
    /// Pinned to the block's device.
    Norm(LlmTensor),
    /// The same by the first of the two that the file has.
    NormOr(LlmTensor, LlmTensor),
    /// Not pinned, and of all tokens before those without logits are dropped.
    FreeNormOfAll(LlmTensor),
    /// Pinned, and of all tokens before those without logits are dropped.
    NormOfAll(LlmTensor),
    /// Not pinned.
    FreeNorm(LlmTensor),
}

/// The order in which the outputs of both halves and the residual are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ResidualOrder {
    /// One half after the other: output + residual.
    InTurn,
    /// The same, but residual + output in the second half.
    InTurnResidualLast,
    /// The same, but residual + output in the first half.
    InTurnResidualFirst,
    /// The same, but residual + output in both halves.
    ResidualFirst,
    /// In parallel: the sum of the three in this order.
    SideBySide([ResidualTerm; 3]),
    /// One after the other, or in parallel if the header says so.
    FromHeader([ResidualTerm; 3]),
}

/// A term of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ResidualTerm {
    /// The input of the block.
    Residual,
    /// The output of attention.
    Attention,
    /// The output of the feed-forward part.
    FeedForward,
}

/// Routing and weights of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ExpertRouting {
    /// One of [`gating`](crate::engine::llama_cpp::hparams::gating); none for the header's.
    pub gating: Option<u64>,
    /// Weights are normalised to a sum of 1; none for the header's value.
    pub normalised: Option<bool>,
    /// The router reads the input of the block.
    pub by_block_input: bool,
    /// The sum with the shared expert is halved.
    pub halved: bool,
}

impl GraphBuilder<'_> {
    /// The traits of the model's architecture, or of the nearest one.
    pub(super) fn transformer_kind(&self) -> Transformer {
        let kind = self.architecture.row().blocks.unwrap_or_else(|| Transformer::nearest(self.weights, self.hp));
        if self.hp.swin_norm {
            kind.after_halves()
        } else if self.hp.norm_rms {
            Transformer { norm: Norm::Rms, ..kind }
        } else {
            kind
        }
    }

    /// The graph of blocks in turn.
    pub fn blocks_in_turn(&mut self) {
        let kind = self.transformer_kind();
        self.transformer(&kind);
    }

    pub(super) fn transformer(&mut self, kind: &Transformer) {
        let mut x = self.input_embeddings(kind);
        let positions = self.positions();
        x = self.embedding_extras(x, positions);
        let inputs = Inputs {
            positions,
            temperature: if self.hp.attn_temperature { self.attention_scale() } else { TensorId::NONE },
            states: self.memory.recurrent.is_some().then(|| self.recurrent_input()),
        };
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            if il > 0 && self.hp.deepstack_mapping[il] >= 0 {
                x = self.add_deepstack_level(x);
            }
            let normed = self.half_input(kind, il, x, kind.attention.before, x);
            let y = self.attention_half(kind, il, x, normed, inputs);
            let logits = if kind.experts.by_block_input { self.router(il, x) } else { TensorId::NONE };
            let [y, residual, normed, logits] = self.keep_outputs(il, out_ids, [y, x, normed, logits]);
            x = self.feed_forward_half(kind, il, y, [residual, normed, logits]);
            self.label(x, "l_out", Some(il));
            if !self.hp.maps_deepstack() && (il as u64) < self.hp.n_deepstack_layers {
                x = self.add_deepstack_level(x);
            }
            x = self.end_of_pass(il, x);
        }
        self.output_head(kind, x, out_ids);
    }

    /// `x` after block `il`, normalised if that ends a pass of blocks that run again.
    fn end_of_pass(&mut self, il: usize, x: TensorId) -> TensorId {
        let next = il + 1;
        let ends = next < self.hp.n_layer() && self.hp.normed_pass.is_some_and(|pass| next.is_multiple_of(pass));
        if !ends {
            return x;
        }
        let weight = self.need_global(LlmTensor::OutputNorm);
        self.norm_with(x, weight, TensorId::NONE, Norm::Rms, Some(il))
    }

    /// One block of such an architecture by itself, from its normalised input.
    pub(super) fn transformer_block(
        &mut self,
        kind: &Transformer,
        il: usize,
        x: TensorId,
        normed: TensorId,
        positions: TensorId,
    ) -> TensorId {
        let inputs = Inputs { positions, temperature: TensorId::NONE, states: None };
        let y = self.attention_half(kind, il, x, normed, inputs);
        self.feed_forward_half(kind, il, y, [x, normed, TensorId::NONE])
    }

    /// Token embeddings.
    fn input_embeddings(&mut self, kind: &Transformer) -> TensorId {
        let x = self.embeddings(kind.embeddings == EmbeddingScale::ScaledTokens);
        match kind.embeddings {
            EmbeddingScale::Scaled => self.g.scale(x),
            EmbeddingScale::Normalised => self.g.rms_norm(x),
            EmbeddingScale::Plain | EmbeddingScale::ScaledTokens => x,
        }
    }

    /// Adds learned positions and token types, then normalises, each if the file has the tensors.
    fn embedding_extras(&mut self, mut x: TensorId, positions: TensorId) -> TensorId {
        let types = self.global_weight(LlmTensor::TokenTypes);
        if types.is_some() {
            let first = self.g.window(types, [self.hp.n_embd, 1, 1, 1], []);
            x = self.g.add(x, first);
        }
        let table = self.global_weight(LlmTensor::PositionEmbd);
        if table.is_some() {
            let learned = self.g.get_rows(table, positions);
            x = if types.is_some() { self.g.add(learned, x) } else { self.g.add(x, learned) };
        }
        let weight = self.global_weight(LlmTensor::TokenEmbdNorm);
        if weight.is_some() {
            let bias = self.global_bias(LlmTensor::TokenEmbdNorm);
            x = self.norm_with(x, weight, bias, Norm::Layer, Some(0));
        }
        x
    }

    /// The final norm and the logits; encoders have no logits, and some no final norm.
    fn output_head(&mut self, kind: &Transformer, mut x: TensorId, out_ids: TensorId) {
        let keeps = self.keeps_last_rows();
        let norms_kept = self.architecture.has(Trait::NormsKeptRows);
        if keeps && norms_kept {
            // a draft reads the hidden states before the norm
            self.g.set_output(x);
            x = self.g.get_rows(x, out_ids);
        }
        let encoder = self.global_weight(LlmTensor::EncOutputNorm);
        let without = self.weights.find_global(LlmTensor::OutputNorm, TensorSuffix::Weight).is_none();
        let x = if kind.attention.before == PreNorm::Bare {
            let x = self.norm_with(x, TensorId::NONE, TensorId::NONE, kind.norm, None);
            self.g[x].output = true;
            self.label(x, "result_norm", None)
        } else if self.hp.reads_only && encoder.is_some() {
            let x = self.norm_with(x, encoder, TensorId::NONE, kind.norm, None);
            self.g[x].output = true;
            x
        } else if without && (self.hp.reads_only || kind.lenient) {
            x
        } else {
            self.final_norm(x, kind.norm)
        };
        let embeds = self.hp.reads_only || self.architecture.has(Trait::IgnoresCache);
        if embeds && !self.architecture.has(Trait::Diffusion) {
            return self.close(x);
        }
        let x = if keeps && !norms_kept { self.g.get_rows(x, out_ids) } else { x };
        let x = if self.hp.scales_final { self.g.scale(x) } else { x };
        let logits = self.logits(x);
        let mut logits = self.output_bias(logits);
        if self.hp.logit_scale {
            logits = self.g.scale(logits);
        }
        let mut logits = self.soft_capped(logits);
        if self.architecture.has(Trait::MasksImageLogits) {
            logits = self.without_images(logits);
        }
        self.close(logits);
    }

    /// `logits` with those of image tokens pushed down (`models/chameleon.cpp`, 0.1.161).
    fn without_images(&mut self, logits: TensorId) -> TensorId {
        let images = self.g.add_tensor(Tensor::new(Type::F32, [CHAMELEON_IMAGE_TOKENS, 1, 1, 1]));
        let images = self.g.clamp(images);
        self.g.set(logits, images)
    }
}

/// Image tokens of Chameleon's vocabulary (`models/chameleon.cpp`, 0.1.161).
const CHAMELEON_IMAGE_TOKENS: u64 = 8192;
