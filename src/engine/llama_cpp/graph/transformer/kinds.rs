//! Shapes that many architectures share (`models/*.cpp`, 0.1.161), and the nearest to one that is not known.

use super::ResidualTerm::{Attention, FeedForward, Residual};
use super::{EmbeddingScale, ExpertRouting, Norms, PostNorm, PreNorm, QkNorm, ResidualOrder, RopeLayers, Transformer};
use crate::engine::llama_cpp::graph::Norm;
use crate::engine::llama_cpp::hparams::{Hparams, gating};
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix, Weights};

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

    /// The same with the norms of both inputs on both outputs.
    pub(super) const fn after_halves(self) -> Self {
        Self {
            attention: Norms { after: PostNorm::Norm(LlmTensor::AttnNorm), ..Norms::NOTHING },
            feed_forward: Norms {
                before: PreNorm::AttentionOutput,
                after: PostNorm::Norm(LlmTensor::FfnNorm),
                ..Norms::NOTHING
            },
            ..self
        }
    }

    /// The closest traits for an unlisted architecture, by the tensors of its blocks.
    pub(super) fn nearest(weights: &Weights, hp: &Hparams) -> Self {
        let any = |slot, part| (0..hp.n_layer()).find_map(|il| weights.find(il, slot, part));
        let holds = |slot| any(slot, TensorSuffix::Weight).is_some();
        let biased = |slot| any(slot, TensorSuffix::Bias).is_some();
        let sums = holds(LlmTensor::AttnOutNorm) && holds(LlmTensor::LayerOutNorm);
        let own = holds(LlmTensor::FfnNorm);
        let parallel = !own && !sums && !holds(LlmTensor::AttnPostNorm);
        let across = any(LlmTensor::AttnQNorm, TensorSuffix::Weight)
            .is_some_and(|at| weights.all[at].ne[0] > hp.n_embd_head_k[0]);
        let attention = Norms {
            before: if holds(LlmTensor::AttnNorm) { PreNorm::Norm(LlmTensor::AttnNorm) } else { PreNorm::Nothing },
            after: if own { PostNorm::Norm(LlmTensor::AttnPostNorm) } else { PostNorm::Nothing },
            sum: sums.then_some(LlmTensor::AttnOutNorm),
        };
        let feed_forward = Norms {
            before: match (own, parallel) {
                _ if sums => PreNorm::Nothing,
                (true, _) => PreNorm::Norm(LlmTensor::FfnNorm),
                (false, true) => PreNorm::NormOrAttentions(LlmTensor::FfnNorm),
                (false, false) => PreNorm::Norm(LlmTensor::AttnPostNorm),
            },
            after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm),
            sum: sums.then_some(LlmTensor::LayerOutNorm),
        };
        Self {
            norm: if biased(LlmTensor::AttnNorm) || biased(LlmTensor::AttnOutNorm) { Norm::Layer } else { Norm::Rms },
            rotation: match weights.find_global(LlmTensor::PositionEmbd, TensorSuffix::Weight) {
                Some(_) => RopeLayers::Never,
                None => RopeLayers::Every,
            },
            heads: if across { QkNorm::Across } else { QkNorm::Each },
            attention,
            feed_forward,
            sum: if parallel {
                ResidualOrder::SideBySide([Attention, FeedForward, Residual])
            } else {
                ResidualOrder::InTurn
            },
            experts: ExpertRouting::FROM_HEADER,
            lenient: true,
            ..Self::LLAMA
        }
    }
}
