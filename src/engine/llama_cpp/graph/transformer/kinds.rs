//! The architectures of this shape by their traits (`models/*.cpp`, 0.1.161).

use super::ResidualTerm::{Attention, FeedForward, Residual};
use super::{EmbeddingScale, ExpertRouting, Norms, PostNorm, PreNorm, QkNorm, ResidualOrder, RopeLayers, Transformer};
use crate::engine::llama_cpp::architecture::Architecture as A;
use crate::engine::llama_cpp::graph::Norm;
use crate::engine::llama_cpp::hparams::{Hparams, gating};
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix, Weights};

impl Norms {
    /// Only the input is normalised.
    const fn before(slot: LlmTensor) -> Self {
        Self { before: PreNorm::Norm(slot), after: PostNorm::Nothing, sum: None }
    }

    /// Only the sum is normalised.
    const fn sum(slot: LlmTensor) -> Self {
        Self { before: PreNorm::Nothing, after: PostNorm::Nothing, sum: Some(slot) }
    }

    /// Nothing is normalised.
    const NOTHING: Self = Self { before: PreNorm::Nothing, after: PostNorm::Nothing, sum: None };

    /// The input is normalised without weights.
    const BARE: Self = Self { before: PreNorm::Bare, ..Self::NOTHING };

    /// The attention norm serves both halves, unless the file has another one.
    const SHARED_INPUT: Self = Self { before: PreNorm::NormOrAttentions(LlmTensor::FfnNorm), ..Self::NOTHING };
}

impl ExpertRouting {
    /// From the header.
    const FROM_HEADER: Self = Self { gating: None, normalised: None, by_block_input: false, halved: false };
    /// Softmax over all experts; weights normalised to a sum of 1.
    const SOFTMAX: Self = Self { gating: Some(gating::SOFTMAX), normalised: Some(true), ..Self::FROM_HEADER };
    /// Softmax over all experts; weights as they are.
    const SOFTMAX_AS_IS: Self = Self { gating: Some(gating::SOFTMAX), normalised: Some(false), ..Self::FROM_HEADER };
}

impl Transformer {
    /// Llama, and all that differ only by the file's tensors.
    const LLAMA: Self = Self {
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
    const LAYER: Self = Self { norm: Norm::Layer, ..Self::LLAMA };

    /// The outputs of both halves are normalised too.
    const GEMMA: Self = Self {
        scales_queries: true,
        attention: Norms { after: PostNorm::Norm(LlmTensor::AttnPostNorm), ..Norms::before(LlmTensor::AttnNorm) },
        feed_forward: Norms { after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm), ..Norms::before(LlmTensor::FfnNorm) },
        ..Self::LLAMA
    };

    /// Only the outputs of both halves are normalised.
    const POST_NORM: Self = Self {
        attention: Norms { after: PostNorm::Norm(LlmTensor::AttnPostNorm), ..Norms::NOTHING },
        feed_forward: Norms { after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm), ..Norms::NOTHING },
        ..Self::LLAMA
    };

    /// Attention and feed-forward in parallel.
    const PARALLEL: Self = Self {
        feed_forward: Norms::SHARED_INPUT,
        sum: ResidualOrder::SideBySide([FeedForward, Residual, Attention]),
        ..Self::LAYER
    };

    /// Encoders: sums are normalised.
    const BERT: Self = Self {
        heads: QkNorm::AcrossSplit,
        attention: Norms::sum(LlmTensor::AttnOutNorm),
        feed_forward: Norms::sum(LlmTensor::LayerOutNorm),
        experts: ExpertRouting::SOFTMAX_AS_IS,
        ..Self::LAYER
    };

    /// The traits of `architecture`, if it has this shape.
    pub(in super::super) const fn of(architecture: A) -> Option<Self> {
        Some(match architecture {
            A::Llama
            | A::Mistral3
            | A::Granite
            | A::GraniteHybrid
            | A::MiniCpm
            | A::Qwen
            | A::Qwen2
            | A::Qwen2Vl
            | A::Qwen3
            | A::Qwen3Vl
            | A::Qwen3Moe
            | A::Qwen3VlMoe
            | A::ChatGlm
            | A::Ernie45
            | A::Exaone
            | A::InternLm2
            | A::Xverse
            | A::Apertus
            | A::Baichuan
            | A::Mellum
            | A::PaddleOcr
            | A::Pangu
            | A::Dream
            | A::Rnd1
            | A::Spark25
            | A::GraniteSwa
            | A::Nanbeige
            | A::NeoBert
            | A::CogVlm
            | A::GroveMoe
            | A::LlamaEmbed
            | A::EuroBert => Self::LLAMA,
            A::SmolLm3 => Self { rotation: RopeLayers::ButEveryNth, ..Self::LLAMA },
            A::Arcee | A::Plm => Self { squares: true, ..Self::LLAMA },
            A::Hunyuan | A::HunyuanVl | A::MainCoder => Self { heads: QkNorm::EachRotated, ..Self::LLAMA },
            A::Qwen2Moe | A::DeepSeek | A::LladaMoe => Self { experts: ExpertRouting::SOFTMAX_AS_IS, ..Self::LLAMA },
            A::BailingMoe => {
                Self { experts: ExpertRouting { normalised: None, ..ExpertRouting::SOFTMAX }, ..Self::LLAMA }
            }
            A::Dots1
            | A::DeepSeek2
            | A::Mistral4
            | A::DeepSeek2Ocr
            | A::DeepSeek32
            | A::GlmDsa
            | A::BailingMoe3
            | A::Dots3Note
            | A::HyV4
            | A::DeepSeek4
            | A::Glm5Next
            | A::Laguna
            | A::MiniMaxM3
            | A::HyV3 => Self { experts: ExpertRouting::FROM_HEADER, ..Self::LLAMA },
            A::Step35 => Self { heads: QkNorm::EachOfCopies, experts: ExpertRouting::FROM_HEADER, ..Self::LLAMA },
            A::Jamba => Self {
                rotation: RopeLayers::Never,
                sum: ResidualOrder::ResidualFirst,
                experts: ExpertRouting::SOFTMAX_AS_IS,
                ..Self::LLAMA
            },
            A::Mamba | A::Mamba2 => Self { lenient: true, ..Self::LLAMA },
            A::KimiLinear => {
                Self { experts: ExpertRouting { normalised: Some(true), ..ExpertRouting::FROM_HEADER }, ..Self::LLAMA }
            }
            A::MiniMaxM2 => Self {
                heads: QkNorm::Across,
                experts: ExpertRouting { gating: None, ..ExpertRouting::SOFTMAX },
                ..Self::LLAMA
            },
            A::Olmoe => Self { heads: QkNorm::Across, experts: ExpertRouting::SOFTMAX_AS_IS, ..Self::LLAMA },
            A::SeedOss => Self { feed_forward: Norms::before(LlmTensor::AttnPostNorm), ..Self::LLAMA },
            A::Glm4Moe => Self {
                feed_forward: Norms::before(LlmTensor::AttnPostNorm),
                experts: ExpertRouting::FROM_HEADER,
                ..Self::LLAMA
            },
            A::Gemma => Self { embeddings: EmbeddingScale::Scaled, scales_queries: true, ..Self::LLAMA },
            A::Phi3 | A::PhiMoe => Self { scales_queries: true, sum: ResidualOrder::InTurnResidualLast, ..Self::LLAMA },
            A::Mimo2 => Self {
                experts: ExpertRouting { gating: Some(gating::SIGMOID), ..ExpertRouting::SOFTMAX },
                ..Self::LLAMA
            },
            A::SmallThinker => Self {
                rotation: RopeLayers::ButFirstOfNth,
                experts: ExpertRouting { normalised: Some(true), by_block_input: true, ..ExpertRouting::FROM_HEADER },
                ..Self::LLAMA
            },
            A::Maple => Self { rotation: RopeLayers::Windows, ..Self::LLAMA },
            A::MiniCpm3 => Self { embeddings: EmbeddingScale::Scaled, ..Self::LLAMA },
            A::Chameleon => Self { heads: QkNorm::EachWithMean, ..Self::LLAMA },
            A::OpenElm => Self { sum: ResidualOrder::InTurnResidualFirst, ..Self::LLAMA },
            A::Refact => Self { rotation: RopeLayers::Never, ..Self::LLAMA },
            A::ExaoneMoe => Self { rotation: RopeLayers::Windows, experts: ExpertRouting::FROM_HEADER, ..Self::LLAMA },
            _ => return Self::with_norms_after(architecture),
        })
    }

    /// The same of those that normalise the outputs of both halves.
    const fn with_norms_after(architecture: A) -> Option<Self> {
        Some(match architecture {
            A::Glm4 => Self {
                scales_queries: false,
                feed_forward: Norms {
                    after: PostNorm::Norm(LlmTensor::FfnPostNorm),
                    ..Norms::before(LlmTensor::FfnNorm)
                },
                ..Self::GEMMA
            },
            A::Gemma2 => Self { embeddings: EmbeddingScale::Scaled, ..Self::GEMMA },
            A::Gemma3 | A::GemmaEmbedding => Self { embeddings: EmbeddingScale::ScaledTokens, ..Self::GEMMA },
            A::Olmo2 => Self { heads: QkNorm::Across, ..Self::POST_NORM },
            A::Exaone4 => Self { rotation: RopeLayers::WindowsIfAny, ..Self::POST_NORM },
            A::Grok => Self {
                attention: Norms {
                    after: PostNorm::Norm(LlmTensor::AttnOutNorm),
                    ..Norms::before(LlmTensor::AttnNorm)
                },
                feed_forward: Norms {
                    after: PostNorm::NormOr(LlmTensor::LayerOutNorm, LlmTensor::FfnPostNorm),
                    ..Norms::before(LlmTensor::FfnNorm)
                },
                ..Self::LLAMA
            },
            A::AfMoe => Self {
                embeddings: EmbeddingScale::Scaled,
                rotation: RopeLayers::ButEveryNth,
                attention: Norms {
                    after: PostNorm::NormOfAll(LlmTensor::AttnPostNorm),
                    ..Norms::before(LlmTensor::AttnNorm)
                },
                feed_forward: Norms {
                    after: PostNorm::Norm(LlmTensor::FfnPostNorm),
                    ..Norms::before(LlmTensor::FfnNorm)
                },
                experts: ExpertRouting::FROM_HEADER,
                ..Self::LLAMA
            },
            A::MuseGlimmer => Self {
                embeddings: EmbeddingScale::Normalised,
                rotation: RopeLayers::Windows,
                attention: Norms {
                    after: PostNorm::FreeNormOfAll(LlmTensor::AttnPostNorm),
                    ..Norms::before(LlmTensor::AttnNorm)
                },
                feed_forward: Norms {
                    after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm),
                    ..Norms::before(LlmTensor::FfnNorm)
                },
                ..Self::LLAMA
            },
            A::Plamo2 | A::Plamo3 => Self {
                attention: Norms {
                    after: PostNorm::Norm(LlmTensor::AttnPostNorm),
                    ..Norms::before(LlmTensor::AttnNorm)
                },
                feed_forward: Norms {
                    after: PostNorm::Norm(LlmTensor::FfnPostNorm),
                    ..Norms::before(LlmTensor::FfnNorm)
                },
                ..Self::LLAMA
            },
            _ => return Self::with_layer_norm(architecture),
        })
    }

    /// The same of those whose norms have mean and variance, and of all whose halves run in parallel.
    const fn with_layer_norm(architecture: A) -> Option<Self> {
        Some(match architecture {
            A::Olmo => Self { attention: Norms::BARE, feed_forward: Norms::BARE, ..Self::LAYER },
            A::HrmText => Self { attention: Norms::BARE, feed_forward: Norms::BARE, ..Self::LLAMA },
            A::StarCoder2 | A::Orion | A::CodeShell => Self::LAYER,
            A::Plamo => Self {
                norm: Norm::Rms,
                sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]),
                ..Self::PARALLEL
            },
            A::Gpt2 | A::Bloom | A::Jais => Self { rotation: RopeLayers::Never, ..Self::LAYER },
            A::Mpt => Self { rotation: RopeLayers::Never, heads: QkNorm::AcrossSplit, ..Self::LAYER },
            A::Nemotron | A::Jais2 => Self { squares: true, ..Self::LAYER },
            A::StableLm => Self { feed_forward: Norms::SHARED_INPUT, ..Self::LAYER },
            A::Dbrx => Self { feed_forward: Norms::before(LlmTensor::AttnOutNorm), ..Self::LAYER },
            A::CommandR => Self::PARALLEL,
            A::Cohere2 => Self { rotation: RopeLayers::Windows, ..Self::PARALLEL },
            A::Cohere2Moe => Self {
                rotation: RopeLayers::WindowsAndDense,
                experts: ExpertRouting { halved: true, ..ExpertRouting::FROM_HEADER },
                ..Self::PARALLEL
            },
            A::Phi2 => Self {
                scales_queries: true,
                sum: ResidualOrder::SideBySide([Attention, FeedForward, Residual]),
                ..Self::PARALLEL
            },
            A::Falcon => Self { sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]), ..Self::PARALLEL },
            A::GptNeoX => Self { sum: ResidualOrder::FromHeader([FeedForward, Residual, Attention]), ..Self::LAYER },
            A::ModernBert => Self {
                attention: Norms { before: PreNorm::NormOrAttentions(LlmTensor::AttnNorm), ..Norms::NOTHING },
                ..Self::LAYER
            },
            A::Bert => Self { rotation: RopeLayers::Never, ..Self::BERT },
            A::NomicBert => Self::BERT,
            _ => return None,
        })
    }

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
    pub(in super::super) fn nearest(weights: &Weights, hp: &Hparams) -> Self {
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
