//! The shape of blocks that are attention followed by feed-forward: how architectures differ in it.

use super::weights::LlmTensor;
use ResidualTerm::{Attention, FeedForward, Residual};

/// The traits of such an architecture. Parts without tensors in the file are left out: biases, QK norms, gates,
/// experts, rope factors.
#[derive(Clone, Copy, Debug)]
pub struct Transformer {
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

/// Scale of the token embeddings before the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingScale {
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
pub enum RopeLayers {
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
pub enum QkNorm {
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
pub struct Norms {
    /// The norm of the input.
    pub before: PreNorm,
    /// The norm of the output.
    pub after: PostNorm,
    /// The norm of the sum of output and residual.
    pub sum: Option<LlmTensor>,
}

/// The input of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreNorm {
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
pub enum PostNorm {
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
pub enum ResidualOrder {
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
pub enum ResidualTerm {
    /// The input of the block.
    Residual,
    /// The output of attention.
    Attention,
    /// The output of the feed-forward part.
    FeedForward,
}

/// Routing and weights of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertRouting {
    /// One of [`gating`](gating); none for the header's.
    pub gating: Option<u64>,
    /// Weights are normalised to a sum of 1; none for the header's value.
    pub normalised: Option<bool>,
    /// The router reads the input of the block.
    pub by_block_input: bool,
    /// The sum with the shared expert is halved.
    pub halved: bool,
}

/// The kind of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    Rms,
    Layer,
}

/// `expert_gating_func` values (`llama-hparams.h`, 0.1.161).
pub mod gating {
    /// Missing in the header.
    pub const NONE: u64 = 0;
    /// Softmax over all experts.
    pub const SOFTMAX: u64 = 1;
    /// Sigmoid of each expert.
    pub const SIGMOID: u64 = 2;
    /// Softmax over the selected experts.
    pub const SOFTMAX_WEIGHT: u64 = 3;
    /// Square root of the softplus of each expert.
    pub const SQRT_SOFTPLUS: u64 = 4;
}

// Shapes that many architectures share (`models/*.cpp`, 0.1.161), and the nearest to one that is not known.

impl Norms {
    /// Only the input is normalised.
    pub const fn before(slot: LlmTensor) -> Self {
        Self { before: PreNorm::Norm(slot), after: PostNorm::Nothing, sum: None }
    }

    /// The output is normalised too.
    pub const fn then(self, after: PostNorm) -> Self {
        Self { after, ..self }
    }

    /// Only the sum is normalised.
    pub const fn sum(slot: LlmTensor) -> Self {
        Self { before: PreNorm::Nothing, after: PostNorm::Nothing, sum: Some(slot) }
    }

    /// Nothing is normalised.
    pub const NOTHING: Self = Self { before: PreNorm::Nothing, after: PostNorm::Nothing, sum: None };

    /// The input is normalised without weights.
    pub const BARE: Self = Self { before: PreNorm::Bare, ..Self::NOTHING };

    /// The attention norm serves both halves, unless the file has another one.
    pub const SHARED_INPUT: Self = Self { before: PreNorm::NormOrAttentions(LlmTensor::FfnNorm), ..Self::NOTHING };
}

impl ExpertRouting {
    /// From the header.
    pub const FROM_HEADER: Self = Self { gating: None, normalised: None, by_block_input: false, halved: false };
    /// Softmax over all experts; weights normalised to a sum of 1.
    pub const SOFTMAX: Self = Self { gating: Some(gating::SOFTMAX), normalised: Some(true), ..Self::FROM_HEADER };
    /// Softmax over all experts; weights as they are.
    pub const SOFTMAX_AS_IS: Self =
        Self { gating: Some(gating::SOFTMAX), normalised: Some(false), ..Self::FROM_HEADER };
}

impl Transformer {
    /// Llama, and all that differ only by the file's tensors.
    pub const LLAMA: Self = Self {
        norm: Norm::Rms,
        embeddings: EmbeddingScale::Plain,
        rotation: RopeLayers::Every,
        heads: QkNorm::Each,
        scales_queries: false,
        attention: Norms::before(LlmTensor::AttnNorm),
        feed_forward: Norms::before(LlmTensor::FfnNorm),
        sum: ResidualOrder::InTurn,
        squares: false,
        experts: ExpertRouting::SOFTMAX,
        lenient: false,
    };

    /// Norms with mean and variance.
    pub const LAYER: Self = Self { norm: Norm::Layer, ..Self::LLAMA };

    /// The outputs of both halves are normalised too.
    pub const GEMMA: Self = Self {
        scales_queries: true,
        attention: Norms { after: PostNorm::Norm(LlmTensor::AttnPostNorm), ..Norms::before(LlmTensor::AttnNorm) },
        feed_forward: Norms { after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm), ..Norms::before(LlmTensor::FfnNorm) },
        ..Self::LLAMA
    };

    /// Only the outputs of both halves are normalised.
    pub const POST_NORM: Self = Self {
        attention: Norms { after: PostNorm::Norm(LlmTensor::AttnPostNorm), ..Norms::NOTHING },
        feed_forward: Norms { after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm), ..Norms::NOTHING },
        ..Self::LLAMA
    };

    /// Attention and feed-forward in parallel.
    pub const PARALLEL: Self = Self {
        feed_forward: Norms::SHARED_INPUT,
        sum: ResidualOrder::SideBySide([FeedForward, Residual, Attention]),
        ..Self::LAYER
    };

    /// Encoders: sums are normalised.
    pub const BERT: Self = Self {
        heads: QkNorm::AcrossSplit,
        attention: Norms::sum(LlmTensor::AttnOutNorm),
        feed_forward: Norms::sum(LlmTensor::LayerOutNorm),
        experts: ExpertRouting::SOFTMAX_AS_IS,
        ..Self::LAYER
    };
}
