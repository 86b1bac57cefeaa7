//! Architectures whose every block is attention, then a feed-forward part: what sets each apart, as data, and the one
//! way in which all their graphs are built.

mod halves;
mod kinds;

use super::recurrent::RecurrentInput;
use super::{GraphBuilder, Norm};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

/// What sets an architecture of this shape apart. What a file has no tensors for is left out: biases, normalised heads,
/// gates, experts, factors of rotary positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transformer {
    /// How rows are normalised.
    pub norm: Norm,
    /// What tokens' embeddings are multiplied by.
    pub embeddings: EmbeddingScale,
    /// Which blocks rotate queries and keys by position.
    pub rotation: RopeLayers,
    /// How queries and keys are normalised.
    pub heads: QkNorm,
    /// Queries are multiplied by a constant before they meet the keys.
    pub scales_queries: bool,
    /// Where attention's half of a block is normalised.
    pub attention: Norms,
    /// The same of the feed-forward half.
    pub feed_forward: Norms,
    /// How a block's two halves and what came into it are added up.
    pub sum: ResidualOrder,
    /// Between the matrices of a feed-forward part without a gate: rectified and squared; else any other function.
    pub squares: bool,
    /// How experts are chosen.
    pub experts: ExpertRouting,
    /// Halves for which the file has no tensors are left out; else it is incomplete.
    pub lenient: bool,
}

/// What attention and its stand-ins need besides a block's own tensors.
#[derive(Clone, Copy)]
struct Inputs {
    positions: TensorId,
    /// A factor per token for queries, where the model has that.
    temperature: TensorId,
    states: Option<RecurrentInput>,
}

/// What tokens' embeddings are multiplied by before the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmbeddingScale {
    /// Nothing.
    Plain,
    /// A constant, all rows.
    Scaled,
    /// A constant, rows of tokens only: those that come in as embeddings stay as they are.
    ScaledTokens,
}

/// Which blocks rotate queries and keys by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RopeLayers {
    /// All, if the model knows positions at all.
    Every,
    /// All but every n-th.
    ButEveryNth,
    /// Those with a sliding window.
    Windows,
    /// Those with a sliding window, or all where there is none.
    WindowsIfAny,
    /// None.
    Never,
}

/// How queries and keys are normalised, where the file has weights for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QkNorm {
    /// Head by head.
    Each,
    /// Head by head, after they have been rotated.
    EachRotated,
    /// Across all heads.
    Across,
    /// Across all heads, split into heads before and afterwards.
    AcrossSplit,
}

/// Where one half of a block is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Norms {
    /// What comes in.
    pub before: PreNorm,
    /// What comes out.
    pub after: PostNorm,
    /// The sum of what comes out and the residual.
    pub sum: Option<LlmTensor>,
}

/// What a half of a block works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreNorm {
    /// What came in, normalised.
    Norm(LlmTensor),
    /// The same, or what attention worked on where the file has no weights for that.
    NormOrAttentions(LlmTensor),
    /// What came in, normalised without weights.
    Bare,
    /// What came in.
    Nothing,
}

/// How a half's result is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostNorm {
    /// Not.
    Nothing,
    /// On the block's device.
    Norm(LlmTensor),
    /// Wherever.
    FreeNorm(LlmTensor),
}

/// How a block's two halves and the residual, which is what came into the block, are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResidualOrder {
    /// One half after the other: each result plus its residual.
    InTurn,
    /// The same, residual plus result in the second half.
    InTurnResidualLast,
    /// The same, residual plus result in both halves.
    ResidualFirst,
    /// Side by side: the three in this order.
    SideBySide([ResidualTerm; 3]),
    /// One after the other, or side by side where the header says so.
    FromHeader([ResidualTerm; 3]),
}

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResidualTerm {
    /// What came in.
    Residual,
    /// Attention's result.
    Attention,
    /// The feed-forward part's result.
    FeedForward,
}

/// How experts are chosen and weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpertRouting {
    /// One of [`gating`](crate::engine::llama_cpp::hparams::gating); none for what the header says.
    pub gating: Option<u64>,
    /// Weights of the chosen sum up to 1; none for what the header says.
    pub normalised: Option<bool>,
}

impl GraphBuilder<'_> {
    /// The graph of an architecture of this shape.
    pub(super) fn transformer(&mut self, kind: &Transformer) {
        let mut x = self.entry(kind);
        let positions = self.positions();
        x = self.positioned(x, positions);
        let inputs = Inputs {
            positions,
            temperature: if self.hp.attn_temperature { self.attention_scale() } else { TensorId::NONE },
            states: self.memory.recurrent.is_some().then(|| self.recurrent_input()),
        };
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            if il > 0 && self.hp.deepstack_mapping[il] >= 0 {
                x = self.add_vision_level(x);
            }
            let normed = self.before(kind, il, x, kind.attention.before, x);
            let y = self.mixed(kind, il, x, normed, inputs);
            let [y, residual, normed] = self.keep_outputs(il, out_ids, [y, x, normed]);
            x = self.added_up(kind, il, y, residual, normed);
            self.label(x, "l_out", Some(il));
            if !self.hp.maps_deepstack() && (il as u64) < self.hp.n_deepstack_layers {
                x = self.add_vision_level(x);
            }
        }
        self.exit(kind, x);
    }

    /// Embeddings of tokens.
    fn entry(&mut self, kind: &Transformer) -> TensorId {
        let x = self.embeddings(kind.embeddings == EmbeddingScale::ScaledTokens);
        if kind.embeddings == EmbeddingScale::Scaled { self.g.scale(x) } else { x }
    }

    /// With learned positions and types of tokens, then normalised; as far as the file has these.
    fn positioned(&mut self, mut x: TensorId, positions: TensorId) -> TensorId {
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

    /// The last normalisation, and logits; models that only read texts have none, and some not even the former.
    fn exit(&mut self, kind: &Transformer, x: TensorId) {
        let without = self.weights.find_global(LlmTensor::OutputNorm, TensorSuffix::Weight).is_none();
        let x = if kind.attention.before == PreNorm::Bare {
            let x = self.norm_with(x, TensorId::NONE, TensorId::NONE, kind.norm, None);
            self.g[x].output = true;
            self.label(x, "result_norm", None)
        } else if without && (self.hp.reads_only || kind.lenient) {
            x
        } else {
            self.final_norm(x, kind.norm)
        };
        if self.hp.reads_only {
            return self.close(x);
        }
        let logits = self.logits(x);
        let mut logits = self.output_bias(logits);
        if self.hp.logit_scale {
            logits = self.g.scale(logits);
        }
        let logits = self.capped(logits);
        self.close(logits);
    }
}
