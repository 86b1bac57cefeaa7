//! The architectures of this shape, each by what it has its own way (`models/*.cpp`, 0.1.161).

use super::Term::{Attention, FeedForward, Residual};
use super::{After, Before, Embeddings, Experts, Heads, Norms, Rotation, Sum, Transformer};
use crate::engine::llama_cpp::architecture::Architecture as A;
use crate::engine::llama_cpp::graph::Norm;
use crate::engine::llama_cpp::hparams::{Hparams, gating};
use crate::engine::llama_cpp::weights::{Part, Slot, Weights};

impl Norms {
    /// Only what comes in.
    const fn before(slot: Slot) -> Self {
        Self { before: Before::Norm(slot), after: After::Nothing, sum: None }
    }

    /// Only the sum.
    const fn sum(slot: Slot) -> Self {
        Self { before: Before::Nothing, after: After::Nothing, sum: Some(slot) }
    }

    /// Nothing is normalised.
    const NOTHING: Self = Self { before: Before::Nothing, after: After::Nothing, sum: None };

    /// Without weights.
    const BARE: Self = Self { before: Before::Bare, ..Self::NOTHING };

    /// Attention's norm serves both halves, unless the file has another.
    const ATTENTIONS: Self = Self { before: Before::NormOrAttentions(Slot::FfnNorm), ..Self::NOTHING };
}

impl Experts {
    /// As the header says.
    const TOLD: Self = Self { gating: None, normalised: None };
    /// Softmax over all; weights of the chosen ones sum up to 1.
    const SOFTMAX: Self = Self { gating: Some(gating::SOFTMAX), normalised: Some(true) };
    /// Softmax over all; weights as they are.
    const SOFTMAX_AS_IS: Self = Self { gating: Some(gating::SOFTMAX), normalised: Some(false) };
}

impl Transformer {
    /// Llama, and all who differ in nothing that is not in the file.
    const LLAMA: Self = Self {
        norm: Norm::Rms,
        embeddings: Embeddings::Plain,
        rotation: Rotation::Every,
        heads: Heads::Each,
        scales_queries: false,
        attention: Norms::before(Slot::AttnNorm),
        feed_forward: Norms::before(Slot::FfnNorm),
        sum: Sum::InTurn,
        squares: false,
        experts: Experts::SOFTMAX,
        lenient: false,
    };

    /// Rows are normalised by mean and variance.
    const LAYER: Self = Self { norm: Norm::Layer, ..Self::LLAMA };

    /// Results of both halves are normalised too.
    const GEMMA: Self = Self {
        scales_queries: true,
        attention: Norms { after: After::Norm(Slot::AttnPostNorm), ..Norms::before(Slot::AttnNorm) },
        feed_forward: Norms { after: After::FreeNorm(Slot::FfnPostNorm), ..Norms::before(Slot::FfnNorm) },
        ..Self::LLAMA
    };

    /// Only results of both halves are normalised.
    const RESULTS: Self = Self {
        attention: Norms { after: After::Norm(Slot::AttnPostNorm), ..Norms::NOTHING },
        feed_forward: Norms { after: After::FreeNorm(Slot::FfnPostNorm), ..Norms::NOTHING },
        ..Self::LLAMA
    };

    /// Attention and feed-forward side by side.
    const BESIDE: Self = Self {
        feed_forward: Norms::ATTENTIONS,
        sum: Sum::SideBySide([FeedForward, Residual, Attention]),
        ..Self::LAYER
    };

    /// Encoders: sums are normalised.
    const BERT: Self = Self {
        heads: Heads::AcrossSplit,
        attention: Norms::sum(Slot::AttnOutNorm),
        feed_forward: Norms::sum(Slot::LayerOutNorm),
        experts: Experts::SOFTMAX_AS_IS,
        ..Self::LAYER
    };

    /// What sets `architecture` apart, if it has this shape.
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
            | A::EuroBert => Self::LLAMA,
            A::SmolLm3 => Self { rotation: Rotation::ButEveryNth, ..Self::LLAMA },
            A::Arcee => Self { squares: true, ..Self::LLAMA },
            A::Hunyuan | A::HunyuanVl => Self { heads: Heads::EachRotated, ..Self::LLAMA },
            A::Qwen2Moe | A::DeepSeek => Self { experts: Experts::SOFTMAX_AS_IS, ..Self::LLAMA },
            A::BailingMoe => Self { experts: Experts { normalised: None, ..Experts::SOFTMAX }, ..Self::LLAMA },
            A::Dots1 | A::DeepSeek2 => Self { experts: Experts::TOLD, ..Self::LLAMA },
            A::Jamba => Self {
                rotation: Rotation::Never,
                sum: Sum::ResidualFirst,
                experts: Experts::SOFTMAX_AS_IS,
                ..Self::LLAMA
            },
            A::Mamba | A::Mamba2 => Self { lenient: true, ..Self::LLAMA },
            A::MiniMaxM2 => {
                Self { heads: Heads::Across, experts: Experts { gating: None, ..Experts::SOFTMAX }, ..Self::LLAMA }
            }
            A::Olmoe => Self { heads: Heads::Across, experts: Experts::SOFTMAX_AS_IS, ..Self::LLAMA },
            A::SeedOss => Self { feed_forward: Norms::before(Slot::AttnPostNorm), ..Self::LLAMA },
            A::Glm4Moe => {
                Self { feed_forward: Norms::before(Slot::AttnPostNorm), experts: Experts::TOLD, ..Self::LLAMA }
            }
            A::Glm4 => Self {
                scales_queries: false,
                feed_forward: Norms { after: After::Norm(Slot::FfnPostNorm), ..Norms::before(Slot::FfnNorm) },
                ..Self::GEMMA
            },
            A::Gemma => Self { embeddings: Embeddings::Scaled, scales_queries: true, ..Self::LLAMA },
            A::Gemma2 => Self { embeddings: Embeddings::Scaled, ..Self::GEMMA },
            A::Gemma3 | A::GemmaEmbedding => Self { embeddings: Embeddings::ScaledTokens, ..Self::GEMMA },
            A::Olmo2 => Self { heads: Heads::Across, ..Self::RESULTS },
            A::Exaone4 => Self { rotation: Rotation::WindowsIfAny, ..Self::RESULTS },
            A::Phi3 | A::PhiMoe => Self { scales_queries: true, sum: Sum::InTurnResidualLast, ..Self::LLAMA },
            A::Olmo => Self { attention: Norms::BARE, feed_forward: Norms::BARE, ..Self::LAYER },
            A::StarCoder2 | A::Orion => Self::LAYER,
            A::Gpt2 | A::Bloom => Self { rotation: Rotation::Never, ..Self::LAYER },
            A::Mpt => Self { rotation: Rotation::Never, heads: Heads::AcrossSplit, ..Self::LAYER },
            A::Nemotron => Self { squares: true, ..Self::LAYER },
            A::StableLm => Self { feed_forward: Norms::ATTENTIONS, ..Self::LAYER },
            A::Dbrx => Self { feed_forward: Norms::before(Slot::AttnOutNorm), ..Self::LAYER },
            A::CommandR => Self::BESIDE,
            A::Cohere2 => Self { rotation: Rotation::Windows, ..Self::BESIDE },
            A::Phi2 => {
                Self { scales_queries: true, sum: Sum::SideBySide([Attention, FeedForward, Residual]), ..Self::BESIDE }
            }
            A::Falcon => Self { sum: Sum::SideBySide([FeedForward, Attention, Residual]), ..Self::BESIDE },
            A::GptNeoX => Self { sum: Sum::AsTold([FeedForward, Residual, Attention]), ..Self::LAYER },
            A::ModernBert => Self {
                attention: Norms { before: Before::NormOrAttentions(Slot::AttnNorm), ..Norms::NOTHING },
                ..Self::LAYER
            },
            A::Bert => Self { rotation: Rotation::Never, ..Self::BERT },
            A::NomicBert => Self::BERT,
            _ => return None,
        })
    }

    /// What comes nearest to a file whose architecture is not listed, by what its blocks hold.
    pub(in super::super) fn nearest(weights: &Weights, hp: &Hparams) -> Self {
        let any = |slot, part| (0..hp.n_layer()).find_map(|il| weights.find(il, slot, part));
        let holds = |slot| any(slot, Part::Weight).is_some();
        let biased = |slot| any(slot, Part::Bias).is_some();
        let sums = holds(Slot::AttnOutNorm) && holds(Slot::LayerOutNorm);
        let own = holds(Slot::FfnNorm);
        let beside = !own && !sums && !holds(Slot::AttnPostNorm);
        let across = any(Slot::AttnQNorm, Part::Weight).is_some_and(|at| weights.all[at].ne[0] > hp.n_embd_head_k[0]);
        let attention = Norms {
            before: if holds(Slot::AttnNorm) { Before::Norm(Slot::AttnNorm) } else { Before::Nothing },
            after: if own { After::Norm(Slot::AttnPostNorm) } else { After::Nothing },
            sum: sums.then_some(Slot::AttnOutNorm),
        };
        let feed_forward = Norms {
            before: match (own, beside) {
                _ if sums => Before::Nothing,
                (true, _) => Before::Norm(Slot::FfnNorm),
                (false, true) => Before::NormOrAttentions(Slot::FfnNorm),
                (false, false) => Before::Norm(Slot::AttnPostNorm),
            },
            after: After::FreeNorm(Slot::FfnPostNorm),
            sum: sums.then_some(Slot::LayerOutNorm),
        };
        Self {
            norm: if biased(Slot::AttnNorm) || biased(Slot::AttnOutNorm) { Norm::Layer } else { Norm::Rms },
            rotation: match weights.find_global(Slot::PositionEmbd, Part::Weight) {
                Some(_) => Rotation::Never,
                None => Rotation::Every,
            },
            heads: if across { Heads::Across } else { Heads::Each },
            attention,
            feed_forward,
            sum: if beside { Sum::SideBySide([Attention, FeedForward, Residual]) } else { Sum::InTurn },
            experts: Experts::TOLD,
            lenient: true,
            ..Self::LLAMA
        }
    }
}
