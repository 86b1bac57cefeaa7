//! The architectures whose graphs are known, a row each.
//!
//! To add one: read its file in `models/` and its lines in `llama-arch.cpp` and `llama-model.cpp` of llama.cpp, and add a
//! row: its name in headers; `blocks`, if its graph is attention and feed-forward in turn; its windows and its traits; and
//! after the braces its functions: `graph`, if it is one of its own in `graph/`, and `hparams`, which reads the keys that
//! others lack. Then add what llama.cpp measured of such a model to `tests/llama_cpp/`: a test there fails for a row
//! without figures. Code asks for traits, not for architectures.

use super::architecture::{Architecture, Compared, GraphFamily, GraphRoom, Trait as T, Window};
use super::context::{Batch, ContextType, Cparams};
use super::error::LoadError;
use super::graph::{self, GraphBuilder, GraphModel};
use super::hparams::{Hparams, ReadsHparams};
use super::release::Builds;
use super::release::Change as C;
use super::transformer::ResidualTerm::{Attention, FeedForward, Residual};
use super::transformer::{
    EmbeddingScale, ExpertRouting, Norm, Norms, PostNorm, PreNorm, QkNorm, ResidualOrder, RopeLayers, Transformer,
    gating,
};
use super::weights::{LlmTensor, LlmTensor as Slot};
use crate::engine::ggml::Graph;
use crate::gguf::{Header, Value};
use crate::settings::{Build, Release as R};

/// An architecture and its functions.
struct ArchitectureRow {
    architecture: Architecture,
    /// Builds its graph.
    graph: fn(&mut GraphBuilder<'_>),
    /// Builds the graph of its first MTP block.
    mtp: fn(&mut GraphBuilder<'_>),
    /// Reads the hyperparameters that others lack (`load_arch_hparams` in `models/*.cpp`, 0.1.161).
    hparams: ReadsHparams,
}

impl ArchitectureRow {
    /// Blocks in turn, and nothing besides.
    const fn plain(architecture: Architecture) -> Self {
        Self {
            architecture,
            graph: |build| build.blocks_in_turn(),
            mtp: |build| build.mtp_block(),
            hparams: |_, _| Ok(()),
        }
    }

    fn of(architecture: &Architecture) -> &'static Self {
        let row = ROWS.iter().find(|row| row.architecture.names == architecture.names);
        row.unwrap_or(UNLISTED)
    }
}

/// Names of headers that newer releases know and whose graph is not known here: modelled, where a release knows them.
const WITHOUT_GRAPH: [(&str, Build); 3] =
    [("clef", Build(11_068)), ("pockettts", Build(10_205)), ("qwen3tts", Build(10_205))];

/// Names that no release of llama.cpp knows (`llama-arch.cpp`, 0.1.161), of files that Ollama made for its own engines.
const OF_OLLAMA: [&str; 8] =
    ["deepseekocr", "glm4moelite", "glmocr", "gptoss", "mllama", "nemotron_h_omni", "olmo3", "qwen25vl"];

/// Whether only Ollama knows this name.
pub fn is_of_ollama(name: &str) -> bool {
    OF_OLLAMA.contains(&name)
}

/// Whether `build` may know this name, or none is known to be the first that does.
pub fn is_known(name: &str, build: Build) -> bool {
    let listed = Architecture::named(name).map(|architecture| architecture.since);
    let since = listed.or_else(|| WITHOUT_GRAPH.iter().find(|(known, _)| *known == name).map(|(_, since)| *since));
    since.is_none_or(|since| build >= since)
}

macro_rules! architectures {
    ($($(#[doc = $doc:literal])* $($name:literal)|* { $($field:ident: $value:expr),* $(,)? }
        $($own:ident: $function:expr),*;)*) => {
        static ROWS: &[ArchitectureRow] = &[$(ArchitectureRow {
            $($own: $function,)*
            ..ArchitectureRow::plain(Architecture { names: &[$($name),*], $($field: $value,)* ..Architecture::PLAIN })
        }),*];
    };
}

architectures! {
    /// Llama, Mistral, Mixtral and derived models.
    "llama" {
        compared_since: R::September2025,
        blocks: Some(Transformer::LLAMA),
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    };
    /// Llama 4.
    "llama4" {
        compared_since: R::January2026, traits: &[T::IgnoresExpertWeightsScale],
    } graph: |build| build.llama4(), hparams: Hparams::llama4;
    /// Ministral 3 and variants.
    "mistral3" {
        compared_since: R::January2026, since: Build(6_905),
        blocks: Some(Transformer::LLAMA),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale, T::ReadsTemperature],
    };
    /// Qwen 2 and 2.5.
    "qwen2" { compared_since: R::September2025, blocks: Some(Transformer::LLAMA) };
    /// The text part of Qwen 2 VL and 2.5 VL.
    "qwen2vl" { blocks: Some(Transformer::LLAMA), traits: &[T::SeveralPositions, T::IgnoresOutputBias] };
    /// Qwen 3.
    "qwen3" {
        compared_since: R::September2025, blocks: Some(Transformer::LLAMA), traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales],
    };
    /// The text part of Qwen 3 VL.
    "qwen3vl" {
        since: Build(6_531), blocks: Some(Transformer::LLAMA), traits: &[T::SeveralPositions],
    } hparams: Hparams::deepstack;
    /// Qwen 3 with experts.
    "qwen3moe" {
        compared_since: R::September2025,
        blocks: Some(Transformer::LLAMA),
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    };
    /// The text part of Qwen 3 VL with experts.
    "qwen3vlmoe" {
        compared_since: R::January2026, since: Build(6_531),
        blocks: Some(Transformer::LLAMA), traits: &[T::SeveralPositions, T::IgnoresExpertWeightsScale],
    } hparams: Hparams::deepstack;
    /// Qwen 3 Next: delta nets and attention.
    "qwen3next" {
        compared_since: R::MiddleOfMarch2026, since: Build(6_905),
        room: GraphRoom::LARGE, keeps_last_rows: Builds::since(C::MtpOnDemand), refuses_mtp_blocks: Builds::before(C::MtpOnDemand),
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale, T::ReshapesGate,
            T::RepeatsHeadsInTurn, T::IgnoresFusedQkvScale, T::IgnoresSsmScales,
        ],
    } graph: |build| build.qwen3_next(), mtp: |build| build.qwen3_next_mtp(), hparams: Hparams::delta_nets;
    /// Qwen 3.5.
    "qwen35" {
        compared_since: R::April2026, since: Build(7_763),
        room: GraphRoom::LARGE, keeps_last_rows: Builds::since(C::Qwen35LastRows), loads_mtp_blocks: Builds::before(C::MtpOnDemand),
        rolls_back: Builds::ALL,
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositions, T::ReadsFeedForwardScales, T::ReadsGateScale,
            T::WritesAllSnapshots,
        ],
    } graph: |build| build.qwen3_next(), mtp: |build| build.qwen35_mtp(), hparams: Hparams::delta_nets;
    /// Qwen 3.5 with experts.
    "qwen35moe" {
        compared_since: R::April2026, since: Build(7_763),
        room: GraphRoom::LARGE, keeps_last_rows: Builds::since(C::Qwen35LastRows), loads_mtp_blocks: Builds::before(C::MtpOnDemand),
        rolls_back: Builds::ALL,
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositions, T::ReadsFeedForwardScales, T::ReadsGateScale,
            T::IgnoresExpertWeightsScale, T::WritesAllSnapshots,
        ],
    } graph: |build| build.qwen3_next(), mtp: |build| build.qwen35_mtp(), hparams: Hparams::delta_nets;
    /// Qwen 3.8 Flash Next: delta nets and attention to chosen pools, over residual streams that are mixed before each
    /// half.
    "qwen4exp" {
        known_until: Some(Build(11_434)),
        room: GraphRoom::LARGE, since: Build(10_604), rolls_back: Builds::since(C::LateRollbacks),
        reads_lazily: Builds::ALL, compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::FusesHyperConnections, T::SeveralPositions, T::ReadsFeedForwardScales,
            T::ReadsGateScale, T::IgnoresExpertWeightsScale, T::WritesAllSnapshots, T::DraftsFromIndexer,
            T::SeparateGatedQueries, T::CopiesRollingState, T::SigmoidDeltaGate,
        ],
    } graph: |build| build.qwen4exp(), mtp: |build| build.qwen4exp_mtp(), hparams: Hparams::delta_nets_with_ngrams;
    /// Gemma 2.
    "gemma2" {
        compared_since: R::September2025,
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, ..Transformer::GEMMA }),
        traits: &[T::CapsScores, T::CapsLogits],
    } hparams: |hp, keys| hp.window_of_4096(keys, 2);
    /// Gemma 3.
    "gemma3" {
        compared_since: R::September2025,
        blocks: Some(Transformer { embeddings: EmbeddingScale::ScaledTokens, ..Transformer::GEMMA }),
        window: Window::Optional(6), traits: &[T::ReadsLogitCap],
    };
    /// Gemma 3n.
    "gemma3n" {
        window: Window::Needed(5), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::NoTensorSplit, T::SharesCaches, T::CopiesEmbeddingsFirst, T::CapsLogits],
    } graph: |build| build.gemma3n(), hparams: |hp, _| hp.gemma3n();
    /// Gemma 4.
    "gemma4" {
        compared_since: R::April2026, since: Build(8_607),
        window: Window::Needed(1), keeps_last_rows: Builds::since(C::GemmaLastRows), reads_lazily: Builds::since(C::LazyTables),
        traits: &[
            T::GivesLayerInputs, T::SharesCaches, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale,
            T::CopiesEmbeddingsFirst, T::WindowsNeedNoRopeFactors,
        ],
    } graph: |build| build.gemma4(), hparams: Hparams::gemma4;
    /// gpt-oss.
    "gpt-oss" {
        known_until: Some(Build(11_434)),
        compared_since: R::September2025,
        window: Window::Needed(2), keeps_last_rows: Builds::since(C::GptOssLastRows),
        traits: &[T::GivesLayerInputs, T::IgnoresExpertWeightsScale],
    } graph: |build| build.gpt_oss();
    /// Phi 2.
    "phi2" {
        compared_since: R::September2025,
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::SideBySide([Attention, FeedForward, Residual]),
            ..Transformer::PARALLEL
        }),
    };
    /// Phi 3 and 4.
    "phi3" {
        compared_since: R::September2025,
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::InTurnResidualLast, ..Transformer::LLAMA
        }),
        traits: &[T::IgnoresExpertWeightsScale],
    };
    /// Command R.
    "command-r" { compared_since: R::January2026, blocks: Some(Transformer::PARALLEL), traits: &[T::ReadsLogitScale] };
    /// `DeepSeek` 2, 3 and all with MLA.
    "deepseek2" {
        compared_since: R::March2026,
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        refuses_mtp_blocks: Builds::before(C::MtpOnDemand), traits: &[T::NoTensorSplit, T::ReadsTemperature],
    } hparams: Hparams::deepseek2;
    /// Mistral Small 4: `DeepSeek` 2's blocks.
    "mistral4" {
        since: Build(7_763),
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        experts_in_f32: Builds::since(C::ExpertsInF32), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::NoTensorSplit, T::ReadsTemperature],
    } hparams: Hparams::deepseek2;
    /// `DeepSeek` 3.2: the same with sparse attention.
    "deepseek32" {
        since: Build(8_181),
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        unmarked: |slot| slot == Slot::ExpProbsB, compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::NoTensorSplit, T::ReadsFeedForwardScales],
    } hparams: Hparams::deepseek32;
    /// `DeepSeek` 4: windows beside compressed caches, over several residual streams.
    "deepseek4" {
        known_until: Some(Build(11_434)),
        room: GraphRoom::LARGE, blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        since: Build(9_757), caches_mtp_blocks: Builds::since(C::MtpOnDemand),
        rolls_back: Builds::since(C::DeepSeek4RollsBack), compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::NoMixedBatches, T::ClampsInActivation, T::GivesLayerInputs, T::FusesHyperConnections, T::IgnoresScales,
            T::GivesFinalInput, T::MaskKeepsType,
        ],
    } graph: |build| build.deepseek4(), mtp: |build| build.deepseek4_mtp(), hparams: Hparams::compressed_windows;
    /// GLM 5: `DeepSeek` 3.2's blocks, some of which share an indexer.
    "glm-dsa" {
        since: Build(7_763),
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        gating: gating::SIGMOID, unmarked: |slot| slot == Slot::ExpProbsB,
        loads_mtp_blocks: Builds::between(C::MtpBlocksOfJuly, C::MtpOnDemand), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::NoTensorSplit, T::ReadsFeedForwardScales, T::IndexerNormIsOptional],
    } hparams: Hparams::glm_dsa;
    /// The text part of `DeepSeek`-OCR: experts with ordinary attention.
    "deepseek2-ocr" {
        since: Build(7_763),
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        gating: gating::SOFTMAX, compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// GLM 4.
    "glm4" {
        compared_since: R::September2025,
        blocks: Some(Transformer {
            scales_queries: false, feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)),
            ..Transformer::GEMMA
        }),
        traits: &[T::SeveralPositionsBySections],
    };
    /// GLM 4.5 with experts.
    "glm4moe" {
        compared_since: R::April2026,
        blocks: Some(Transformer {
            feed_forward: Norms::before(Slot::AttnPostNorm), experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        gating: gating::SIGMOID, caches_mtp_blocks: Builds::before(C::GlmMtpUncached),
        traits: &[T::SeveralPositionsBySections],
    };
    /// `ChatGLM` 3.
    "chatglm" { compared_since: R::January2026, blocks: Some(Transformer::LLAMA) };
    /// Stable LM.
    "stablelm" {
        compared_since: R::September2025, blocks: Some(Transformer { feed_forward: Norms::SHARED_INPUT, ..Transformer::LAYER }),
    };
    /// Granite, also with experts.
    "granite" | "granitemoe" {
        blocks: Some(Transformer::LLAMA), traits: &[T::IgnoresExpertWeightsScale],
    } hparams: Hparams::granite;
    /// `MiniCPM`, whose graph is Granite's.
    "minicpm" {
        blocks: Some(Transformer::LLAMA), traits: &[T::IgnoresExpertWeightsScale, T::ScalesLogits],
    } hparams: |hp, _| hp.scaled_stream();
    /// Granite 4 with state-space blocks.
    "granitehybrid" {
        blocks: Some(Transformer::LLAMA), traits: &[T::NoTensorSplit, T::Hybrid, T::IgnoresExpertWeightsScale, T::ReadsLogitScale],
    } hparams: Hparams::granite_hybrid;
    /// Mamba.
    "mamba" {
        compared_since: R::March2026,
        blocks: Some(Transformer { lenient: true, ..Transformer::LLAMA }), traits: &[T::NoTensorSplit, T::Recurrent],
    } hparams: Hparams::mamba;
    /// Nemotron H, also with experts.
    "nemotron_h" | "nemotron_h_moe" {
        keeps_last_rows: Builds::since(C::NemotronLastRows), rolls_back: Builds::since(C::NemotronRollsBack),
        traits: &[T::NoTensorSplit, T::Hybrid, T::GivesLayerInputs, T::ReadsFeedForwardScales, T::GivesFinalInput],
    } graph: |build| build.nemotron_h(), mtp: |build| build.nemotron_h_mtp(), hparams: Hparams::nemotron_h;
    /// `SmolLM` 3.
    "smollm3" {
        compared_since: R::September2025,
        blocks: Some(Transformer { rotation: RopeLayers::ButEveryNth, ..Transformer::LLAMA }),
    } hparams: |hp, _| hp.no_rope_every(4);
    /// `OLMo` 2 and 3.
    "olmo2" { traits: &[T::NoTensorSplit],
        blocks: Some(Transformer { heads: QkNorm::Across, ..Transformer::POST_NORM }), window: Window::Optional(4),
    };
    /// `StarCoder` 2.
    "starcoder2" { blocks: Some(Transformer::LAYER) };
    /// LFM 2.
    "lfm2" | "lfm2moe" {
        rolls_back: Builds::since(C::Lfm2RollsBack),
        traits: &[T::Hybrid, T::GivesLayerInputs, T::IgnoresExpertWeightsScale, T::NormOfEmbeddingsIsOutput],
    } graph: |build| build.lfm2(), hparams: Hparams::lfm2;
    /// Falcon H1: attention and state space in parallel.
    "falcon-h1" {
        traits: &[T::NoTensorSplit, T::Hybrid, T::IgnoresRopeFactors, T::IgnoresAttnOutputBias],
    } graph: |build| build.falcon_h1(), hparams: Hparams::falcon_h1;
    /// Jamba: state-space blocks of the first version, and attention.
    "jamba" {
        blocks: Some(Transformer {
            rotation: RopeLayers::Never, sum: ResidualOrder::ResidualFirst, experts: ExpertRouting::SOFTMAX_AS_IS,
            ..Transformer::LLAMA
        }),
        traits: &[T::NoTensorSplit, T::Hybrid, T::IgnoresExpertWeightsScale],
    } hparams: Hparams::jamba;
    /// Mamba 2.
    "mamba2" {
        blocks: Some(Transformer { lenient: true, ..Transformer::LLAMA }), traits: &[T::NoTensorSplit, T::Recurrent],
    } hparams: Hparams::mamba2;
    /// Qwen 1 and 1.5 in the original format.
    "qwen" { blocks: Some(Transformer::LLAMA) };
    /// Qwen 2 with experts.
    "qwen2moe" {
        blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }),
        traits: &[T::IgnoresExpertWeightsScale],
    };
    /// Gemma.
    "gemma" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, scales_queries: true, ..Transformer::LLAMA }),
    };
    /// `EmbeddingGemma`.
    "gemma-embedding" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::ScaledTokens, ..Transformer::GEMMA }),
        window: Window::Needed(6), traits: &[T::ReadsOnly],
    };
    /// Phi 3.5 with experts.
    "phimoe" {
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::InTurnResidualLast, ..Transformer::LLAMA
        }),
        traits: &[T::IgnoresExpertWeightsScale],
    };
    /// Command R7B and A.
    "cohere2" {
        blocks: Some(Transformer { rotation: RopeLayers::Windows, ..Transformer::PARALLEL }),
        window: Window::Needed(4), traits: &[T::ReadsFeedForwardScales, T::ReadsLogitScale],
    };
    /// The first `DeepSeek` with experts.
    "deepseek" { blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }) };
    /// Seed-OSS.
    "seed_oss" { blocks: Some(Transformer { feed_forward: Norms::before(Slot::AttnPostNorm), ..Transformer::LLAMA }) };
    /// ERNIE 4.5, also with experts.
    "ernie4_5" | "ernie4_5-moe" {
        blocks: Some(Transformer::LLAMA), traits: &[T::IgnoresExpertWeightsScale, T::IgnoresAttnOutputBias],
    };
    /// Hunyuan, also with experts.
    "hunyuan-dense" | "hunyuan-moe" {
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        traits: &[T::IgnoresExpertWeightsScale],
    };
    /// The text part of Hunyuan VL.
    "hunyuan_vl" {
        since: Build(8_181),
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        traits: &[T::GivesLayerInputs, T::SeveralPositionsBySections],
    };
    /// EXAONE 3.
    "exaone" { blocks: Some(Transformer::LLAMA) };
    /// EXAONE 4.
    "exaone4" {
        blocks: Some(Transformer { rotation: RopeLayers::WindowsIfAny, ..Transformer::POST_NORM }),
    } hparams: Hparams::exaone4;
    /// `InternLM` 2.
    "internlm2" { blocks: Some(Transformer::LLAMA) };
    /// `MiniMax` M2.
    "minimax-m2" {
        since: Build(6_531),
        blocks: Some(Transformer {
            heads: QkNorm::Across, experts: ExpertRouting { gating: None, ..ExpertRouting::SOFTMAX },
            ..Transformer::LLAMA
        }),
        traits: &[T::NoTensorSplit, T::GivesLayerInputs, T::IgnoresExpertWeightsScale],
    };
    /// dots.llm1 and Ling 2.
    "dots1" | "bailingmoe2" { blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }) };
    /// Ling.
    "bailingmoe" {
        blocks: Some(Transformer {
            experts: ExpertRouting { normalised: None, ..ExpertRouting::SOFTMAX }, ..Transformer::LLAMA
        }),
    };
    /// `OLMo`.
    "olmo" {
        blocks: Some(Transformer { attention: Norms::BARE, feed_forward: Norms::BARE, ..Transformer::LAYER }),
        traits: &[T::ReadsKqvClamp],
    };
    /// `OLMoE`.
    "olmoe" {
        blocks: Some(Transformer {
            heads: QkNorm::Across, experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA
        }),
        traits: &[T::NoTensorSplit, T::IgnoresExpertWeightsScale],
    };
    /// Arcee's AFM.
    "arcee" { blocks: Some(Transformer { squares: true, ..Transformer::LLAMA }) };
    /// Apertus.
    "apertus" { blocks: Some(Transformer::LLAMA) };
    /// Nemotron and Minitron.
    "nemotron" { blocks: Some(Transformer { squares: true, ..Transformer::LAYER }) };
    /// Orion.
    "orion" { blocks: Some(Transformer::LAYER) };
    /// XVERSE.
    "xverse" { blocks: Some(Transformer::LLAMA) };
    /// Falcon.
    "falcon" {
        blocks: Some(Transformer {
            sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]), ..Transformer::PARALLEL
        }),
    };
    /// GPT-2, and `StarCoder`, whose graph is the same.
    "gpt2" | "starcoder" { blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }) };
    /// GPT-NeoX and Pythia.
    "gptneox" {
        blocks: Some(Transformer {
            sum: ResidualOrder::FromHeader([FeedForward, Residual, Attention]), ..Transformer::LAYER
        }),
    };
    /// BLOOM.
    "bloom" { blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }) };
    /// MPT.
    "mpt" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, heads: QkNorm::AcrossSplit, ..Transformer::LAYER }),
        traits: &[T::NoTensorSplit, T::ReadsKqvClamp],
    };
    /// DBRX.
    "dbrx" {
        blocks: Some(Transformer { feed_forward: Norms::before(Slot::AttnOutNorm), ..Transformer::LAYER }),
        traits: &[T::IgnoresExpertWeightsScale, T::ReadsKqvClamp],
    };
    /// BERT with learned positions: reads whole texts at once.
    "bert" | "jina-bert-v2" {
        known_until: Some(Build(11_434)),
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::BERT }), traits: &[T::NoOutput],
    };
    /// BERT variants with rotary positions.
    "nomic-bert" | "nomic-bert-moe" | "jina-bert-v3" {
        blocks: Some(Transformer::BERT), traits: &[T::NoOutput, T::IgnoresExpertWeightsScale],
    };
    /// `ModernBERT`.
    "modern-bert" {
        since: Build(7_158),
        blocks: Some(Transformer {
            attention: Norms { before: PreNorm::NormOrAttentions(Slot::AttnNorm), ..Norms::NOTHING },
            ..Transformer::LAYER
        }),
        window: Window::DenseFirst(3), traits: &[T::NoOutput],
    };
    /// `EuroBERT`.
    "eurobert" { since: Build(7_763), blocks: Some(Transformer::LLAMA), traits: &[T::NoOutput] };
    /// EAGLE 3: one block that drafts for another model.
    "eagle3" {
        since: Build(9_643), compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::UntiedOutput, T::EagleDraft],
    } graph: |build| build.eagle3(), mtp: |build| build.eagle3(), hparams: Hparams::eagle3;
    /// `DFlash` and `DSpark`: blocks that draft several tokens at once for another model.
    "dflash" {
        // that of DFlash 2, others have less
        room: GraphRoom::LARGE, since: Build(9_757), compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::SeveralPositionsBySections, T::ReadsFeedForwardScales, T::BlockDraft],
    } graph: |build| build.dflash(), mtp: |build| build.dflash(), hparams: Hparams::dflash;
    /// Gemma 4's assistant, which drafts for it and shares its caches.
    "gemma4-assistant" {
        since: Build(8_181),
        traits: &[T::OnlyDrafts, T::WindowsNeedNoRopeFactors, T::SharesPartnersCaches],
    } graph: |build| build.gemma4_assistant(), mtp: |build| build.gemma4_assistant(),
        hparams: Hparams::gemma4_assistant;
    /// Baichuan: of 40 blocks without rotary positions.
    "baichuan" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
    } hparams: |hp, _| hp.baichuan();
    /// `CodeShell`.
    "codeshell" { blocks: Some(Transformer::LAYER), compared: Compared::OnCuda(R::EarlyAugust2026) };
    /// Jais 1: positions as a bias of attention.
    "jais" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// Jais 2.
    "jais2" {
        since: Build(7_763),
        blocks: Some(Transformer { squares: true, ..Transformer::LAYER }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// Maincoder.
    "maincoder" {
        since: Build(7_158),
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// openPangu Embedded.
    "pangu-embedded" {
        since: Build(6_531),
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresRopeFactors],
    };
    /// Refact: positions as a bias of attention.
    "refact" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::BiasesScores, T::IgnoresAttnOutputBias, T::IgnoresFeedForwardBiases],
    };
    /// K-EXAONE.
    "exaone-moe" {
        since: Build(7_524),
        blocks: Some(Transformer {
            rotation: RopeLayers::Windows, experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        window: Window::Needed(4), compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// Tencent Hy3.
    "hy_v3" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        gating: gating::SIGMOID, unmarked: is_unmarked, since: Build(9_757),
        keeps_last_rows: Builds::ALL, loads_mtp_blocks: Builds::between(C::MtpBlocksOfJuly, C::MtpOnDemand),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::ReadsFeedForwardScales],
    };
    /// `JetBrains` Mellum 2.
    "mellum" {
        since: Build(8_181),
        blocks: Some(Transformer::LLAMA), window: Window::Optional(4), compared: Compared::OnCuda(R::September2026),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    };
    /// `MiMo` V2.
    "mimo2" {
        since: Build(7_158),
        blocks: Some(Transformer {
            experts: ExpertRouting { gating: Some(gating::SIGMOID), ..ExpertRouting::SOFTMAX }, ..Transformer::LLAMA
        }),
        window: Window::Needed(1), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresQkvScales, T::IgnoresFusedQkvScale, T::IgnoresQkvBiases, T::IgnoresExpertWeightsScale],
    } hparams: Hparams::mimo2;
    /// The text part of `PaddleOCR`-VL.
    "paddleocr" {
        since: Build(7_763),
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::SeveralPositions],
    };
    /// `OpenELM`.
    "openelm" {
        blocks: Some(Transformer { sum: ResidualOrder::InTurnResidualFirst, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::IgnoresFusedQkvScale],
    };
    /// `PLaMo`.
    "plamo" {
        blocks: Some(Transformer {
            norm: Norm::Rms, sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]),
            ..Transformer::PARALLEL
        }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    };
    /// Dream and `LLaDA`, which fill in a whole text at once.
    "dream" | "llada" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[
            T::Diffusion, T::IgnoresRopeFactors, T::IgnoresAttnOutputBias, T::IgnoresFeedForwardBiases, T::IgnoresOutputBias,
        ],
    };
    /// The same with experts.
    "llada-moe" {
        blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Diffusion, T::IgnoresExpertWeightsScale],
    };
    /// RND1, a diffusion model of Qwen 3's blocks.
    "rnd1" {
        since: Build(6_905),
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Diffusion, T::IgnoresExpertWeightsScale],
    };
    /// Kimi Linear: delta attention, and compressed attention without positions.
    "kimi-linear" {
        since: Build(7_763),
        room: GraphRoom::LARGE, blocks: Some(Transformer {
            experts: ExpertRouting { normalised: Some(true), ..ExpertRouting::FROM_HEADER }, ..Transformer::LLAMA
        }),
        compared: Compared::OnCuda(R::September2026),
        traits: &[T::NoTensorSplit, T::ReservesOneSequence, T::Hybrid, T::IgnoresQkvScales, T::IgnoresSsmScales],
    } hparams: Hparams::kimi_linear;
    /// Ling 3: the same with rotary positions and a gate on attention.
    "bailingmoe3" {
        room: GraphRoom::LARGE, blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        since: Build(10_424), keeps_last_rows: Builds::ALL,
        caches_mtp_blocks: Builds::ALL, rolls_back: Builds::since(C::LingRollsBack),
        compared: Compared::OnCuda(R::September2026),
        traits: &[
            T::NoTensorSplit,
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositionsBySections, T::IgnoresScales, T::GatesLatent,
            T::KeepsInput,
        ],
    } hparams: Hparams::bailing_moe3;
    /// Kimi K3: Kimi Linear's blocks, whose residuals are banked and mixed by attention.
    "kimi-k3" {
        room: GraphRoom::LARGEST, since: Build(10_424), rolls_back: Builds::since(C::LateRollbacks),
        compared: Compared::OnCuda(R::September2026),
        traits: &[T::NoTensorSplit, T::Hybrid, T::IgnoresScales, T::ScalesDecay, T::WritesAllSnapshots],
    } graph: |build| build.kimi_k3(), hparams: Hparams::kimi_k3;
    /// RWKV 6.
    "rwkv6" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Recurrent, T::RwkvVersion6, T::RescalesBlocks],
    } graph: |build| build.rwkv(), hparams: Hparams::rwkv;
    /// RWKV 6's time mixing in Qwen 2's body (QRWKV).
    "rwkv6qwen2" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Recurrent, T::QwenBody, T::RwkvVersion6],
    } graph: |build| build.rwkv(), hparams: Hparams::rwkv;
    /// RWKV 7.
    "rwkv7" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Recurrent],
    } graph: |build| build.rwkv(), hparams: Hparams::rwkv;
    /// RWKV 7's time mixing in Qwen 2's body.
    "arwkv7" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Recurrent, T::QwenBody],
    } graph: |build| build.rwkv(), hparams: Hparams::rwkv;
    /// Step 3.5.
    "step35" {
        since: Build(7_763),
        blocks: Some(Transformer {
            heads: QkNorm::EachOfCopies, experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        window: Window::Needed(4), gating: gating::SIGMOID,
        unmarked: |slot| matches!(slot, Slot::AttnQNorm | Slot::AttnKNorm) || is_unmarked(slot),
        keeps_last_rows: Builds::since(C::MtpBlocksOfJuly), loads_mtp_blocks: Builds::between(C::MtpBlocksOfJuly, C::MtpOnDemand),
        compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresRopeFactorsInWindows, T::NormsKeptRows, T::MtpKeepsRopeFactors],
    } hparams: Hparams::swiglu_clamps;
    /// Cohere's models with experts.
    "cohere2moe" {
        blocks: Some(Transformer {
            rotation: RopeLayers::WindowsAndDense,
            experts: ExpertRouting { halved: true, ..ExpertRouting::FROM_HEADER }, ..Transformer::PARALLEL
        }),
        window: Window::DenseFirst(4), gating: gating::SIGMOID,
        unmarked: |slot| matches!(slot, Slot::NextnEmbedTokens | Slot::NextnSharedHeadHead | Slot::NextnSharedHeadNorm),
        since: Build(9_757), keeps_last_rows: Builds::ALL,
        compared: Compared::OnCuda(R::September2026), traits: &[T::ReadsFeedForwardScales, T::ReadsLogitScale],
    } hparams: Hparams::cohere2_moe;
    /// `SmallThinker`, which routes by the input of the block.
    "smallthinker" {
        blocks: Some(Transformer {
            rotation: RopeLayers::ButFirstOfNth,
            experts: ExpertRouting { normalised: Some(true), by_block_input: true, ..ExpertRouting::FROM_HEADER },
            ..Transformer::LLAMA
        }),
        window: Window::DenseFirst(4), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresExpertWeightsScale],
    } hparams: |hp, _| hp.smallthinker();
    /// `DeciLM` and Nemotron Ultra: blocks differ in their heads and feed-forward parts, and some lack one.
    "deci" { compared: Compared::OnCuda(R::EarlyAugust2026) } graph: |build| build.deci();
    /// Grok.
    "grok" {
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnOutNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::NormOr(Slot::LayerOutNorm, Slot::FfnPostNorm)),
            ..Transformer::LLAMA
        }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[
            T::NoTensorSplit,
            T::ForbidsFlashAttention, T::IgnoresExpertWeightsScale, T::AddsDenseToExperts, T::ReadsLogitCap,
            T::ScalesLogits, T::CapsScores,
        ],
    } hparams: |hp, _| hp.scaled_embeddings();
    /// Arcee Trinity.
    "afmoe" {
        since: Build(6_905),
        blocks: Some(Transformer {
            embeddings: EmbeddingScale::Scaled, rotation: RopeLayers::ButEveryNth,
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::NormOfAll(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)),
            experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        window: Window::Optional(4), gating: gating::SIGMOID, compared: Compared::OnCuda(R::EarlyAugust2026),
    } hparams: |hp, _| hp.no_rope_every(4);
    /// Tencent Hy4: compressed, gated attention over several residual streams.
    "hy_v4" {
        room: GraphRoom::LARGE, blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        since: Build(10_794), compared: Compared::OnCuda(R::September2026),
        traits: &[T::NoTensorSplit, T::ClampsInActivation, T::IgnoresAttnOutputScale, T::CastsHeadStreams, T::NoIndexerRotation],
    } graph: |build| build.hy_v4(), hparams: Hparams::hy_v4;
    /// GLM 5.3: delta attention by channel and compressed attention to chosen pools, over mixed residual streams.
    "glm5-next" {
        known_until: Some(Build(11_434)),
        room: GraphRoom::LARGEST, blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        gating: gating::SIGMOID, since: Build(11_068), rolls_back: Builds::since(C::GlmRollsBack),
        compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::NoTensorSplit,
            T::Hybrid, T::FusesHyperConnections, T::NoMtpGraph, T::IgnoresScales, T::ScalesDecay,
            T::WritesAllSnapshots,
        ],
    } graph: |build| build.glm5_next(), hparams: Hparams::pooled_latent;
    /// Muse Glimmer.
    "muse-glimmer" {
        blocks: Some(Transformer {
            embeddings: EmbeddingScale::Normalised, rotation: RopeLayers::Windows,
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::FreeNormOfAll(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::FreeNorm(Slot::FfnPostNorm)),
            ..Transformer::LLAMA
        }),
        window: Window::Needed(4), since: Build(10_339), compared: Compared::OnCuda(R::September2026),
        traits: &[T::GivesLayerInputs, T::ReadsLogitCap, T::ScalesLogits],
    };
    /// Spark 2.5.
    "spark2_5" {
        blocks: Some(Transformer::LLAMA), window: Window::Needed(4), since: Build(10_794),
        compared: Compared::OnCuda(R::September2026),
    };
    /// Maple.
    "maple" {
        blocks: Some(Transformer { rotation: RopeLayers::Windows, ..Transformer::LLAMA }), window: Window::Needed(4),
        since: Build(10_951), compared: Compared::OnCuda(R::September2026),
        traits: &[T::ClampsInActivation, T::IgnoresExpertWeightsScale],
    } hparams: Hparams::swiglu_clamp_exp;
    /// Laguna.
    "laguna" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        window: Window::DenseFirst(4), gating: gating::SIGMOID, since: Build(9_757),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::SoftplusGate],
    };
    /// Arctic: a dense part in every block, and experts that read its input.
    "arctic" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::IgnoresExpertWeightsScale],
    } graph: |build| build.arctic();
    /// `GroveMoE`: a second set of experts, shared by groups of the first.
    "grovemoe" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresExpertWeightsScale],
    } hparams: Hparams::grovemoe;
    /// `BitNet`: norms inside both halves.
    "bitnet" {
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::NoTensorSplit, T::UntiedOutput, T::ReadsFeedForwardScales],
    } graph: |build| build.bitnet();
    /// `PLaMo` 3.
    "plamo3" {
        since: Build(7_158),
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)), ..Transformer::LLAMA
        }),
        window: Window::Optional(8), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresFusedQkvScale],
    };
    /// `MiniCPM` 3: compressed attention that caches full heads.
    "minicpm3" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::NoTensorSplit, T::RotatesMlaByFactors],
    } hparams: Hparams::minicpm3;
    /// PLM: the same without compressed queries.
    "plm" {
        blocks: Some(Transformer { squares: true, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::September2026), traits: &[T::NeedsFlashAttentionOff],
    } hparams: Hparams::plm;
    /// Chameleon.
    "chameleon" {
        blocks: Some(Transformer { heads: QkNorm::EachWithMean, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::MasksImageLogits],
    } hparams: Hparams::chameleon;
    /// Talkie: norms without weights, and the embeddings added after every block.
    "talkie" {
        since: Build(8_181),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::ReadsFfnDownScale, T::ScalesLogits],
    } graph: |build| build.talkie();
    /// Llama used for embeddings: its attention does not read the cache.
    "llama-embed" {
        since: Build(7_158),
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresCache],
    };
    /// Granite with sliding windows.
    "granite_swa" {
        blocks: Some(Transformer::LLAMA), window: Window::Needed(4), since: Build(10_489),
        compared: Compared::OnCuda(R::September2026), traits: &[T::IgnoresExpertWeightsScale],
    } hparams: Hparams::granite_swa;
    /// `NeoBERT`: an encoder with rotary positions.
    "neo-bert" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::NoOutput],
    };
    /// The language part of `CogVLM` 2, whose weights for images are others.
    "cogvlm" {
        since: Build(6_531),
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::GivesAllLogits, T::NoMixedBatches, T::IgnoresFusedQkvScale, T::IgnoresRopeFactors],
    };
    /// dots 3 note: compressed attention of two sizes, with windows or an indexer.
    "dots3note" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        window: Window::Needed(4), since: Build(10_489), compared: Compared::OnCuda(R::September2026),
        traits: &[T::NoTensorSplit, T::ReadsFeedForwardScales],
    } hparams: Hparams::windowed_latent;
    /// `MiniMax` 01: lightning attention and full attention.
    "minimax-01" {
        room: GraphRoom::LARGE, since: Build(10_424), compared: Compared::OnCuda(R::September2026),
        traits: &[
            T::NoTensorSplit,
            T::ReservesOneSequence, T::Hybrid, T::GivesLayerInputs, T::IgnoresFusedQkvScale,
            T::IgnoresExpertWeightsScale,
        ],
    } graph: |build| build.minimax_01(), hparams: Hparams::lightning;
    /// `MiniMax` M3: an indexer chooses blocks of positions.
    "minimax-m3" { traits: &[T::NoTensorSplit],
        room: GraphRoom::LARGE, blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        since: Build(10_134), compared: Compared::OnCuda(R::September2026),
    } graph: |build| build.minimax_m3(), hparams: Hparams::block_sparse;
    /// Nanbeige: its blocks run several times.
    "nanbeige" {
        room: GraphRoom::LARGE, blocks: Some(Transformer::LLAMA), since: Build(10_152), compared: Compared::OnCuda(R::November2026),
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales],
    } hparams: Hparams::looped;
    /// `PLaMo` 2: state-space blocks and attention.
    "plamo2" {
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)), ..Transformer::LLAMA
        }),
        compared: Compared::OnCuda(R::November2026),
        traits: &[T::NoTensorSplit, T::Hybrid, T::IgnoresFusedQkvScale, T::IgnoresSsmScales, T::DecayIsScanned, T::OwnStateSpace],
    } hparams: Hparams::plamo2;
    /// HRM-Text: two stacks of blocks in nested cycles.
    "hrm_text" {
        room: GraphRoom::LARGER, blocks: Some(Transformer { attention: Norms::BARE, feed_forward: Norms::BARE, ..Transformer::LLAMA }),
        since: Build(10_951), compared: Compared::OnCuda(R::November2026),
    } graph: |build| build.hrm_text(), hparams: Hparams::hrm_text;
    /// T5: an encoder, and a decoder that attends to its result.
    "t5" {
        compared: Compared::OnCuda(R::November2026), traits: &[T::NoTensorSplit, T::HasEncoder, T::NamesDecoderBlocks, T::OneCacheOnly],
    } graph: |build| build.t5(), hparams: Hparams::t5;
    /// T5's encoder alone.
    "t5encoder" {
        compared: Compared::OnCuda(R::November2026), traits: &[T::HasEncoder, T::IgnoresCache, T::EncoderOfTexts],
    } graph: |build| build.t5_encoder();
    /// GPT-J, whose name is all that llama.cpp knows of it.
    "gptj" { traits: &[T::HasNoLoader] };
    /// Granite Switch: adapters in the file, chosen for every token.
    "graniteswitch" {
        since: Build(10_339), compared: Compared::OnCuda(R::November2026), traits: &[T::NoMixedBatches],
    } graph: |build| build.granite_switch(), hparams: Hparams::granite_switch;
}

/// Any other: the tensors in the file decide.
static UNLISTED: &ArchitectureRow = &ArchitectureRow::plain(Architecture {
    room: GraphRoom::LARGEST,
    traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::ReadsGateScale, T::AddsDenseToExperts],
    ..Architecture::PLAIN
});

/// The tensors of an MTP block that the loader marks with it are the usual ones (`models/hy-v3.cpp`, 0.1.161).
const fn is_unmarked(slot: LlmTensor) -> bool {
    !matches!(
        slot,
        Slot::AttnNorm
            | Slot::AttnQ
            | Slot::AttnK
            | Slot::AttnV
            | Slot::AttnQkv
            | Slot::AttnOutput
            | Slot::AttnQNorm
            | Slot::AttnKNorm
            | Slot::FfnNorm
            | Slot::NextnEhProj
            | Slot::NextnEnorm
            | Slot::NextnHnorm
    )
}

impl GraphFamily {
    /// The family of a header.
    pub fn of(header: &Header) -> Self {
        let name = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        let listed = Architecture::named(name);
        Self { architecture: listed.unwrap_or(&UNLISTED.architecture), exact: listed.is_some() }
    }
}

impl Architecture {
    /// All that are listed, in the order of the table.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ROWS.iter().map(|row| &row.architecture)
    }

    /// The architecture with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|architecture| architecture.names.contains(&name))
    }
}

/// What reads the hyperparameters that other architectures lack.
pub(super) fn own_hparams(architecture: &Architecture) -> ReadsHparams {
    ArchitectureRow::of(architecture).hparams
}

/// Builds the graph of `loaded` into `graph`, replacing its contents.
///
/// # Errors
/// When the file lacks a tensor that its architecture requires, or the context is for MTP blocks and it has none.
pub fn build(loaded: &GraphModel<'_>, context: &Cparams, batch: Batch, graph: &mut Graph) -> Result<(), LoadError> {
    let row = ArchitectureRow::of(loaded.model.family.architecture);
    let own = if context.ctx_type == ContextType::Mtp { row.mtp } else { row.graph };
    graph::build(own, loaded, context, batch, graph)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_graph_and_names_of_its_own() {
        let mut names = BTreeSet::new();
        for row in ROWS {
            let architecture = &row.architecture;
            let own = !std::ptr::fn_addr_eq(row.graph, UNLISTED.graph);
            assert!(architecture.blocks.is_some() || own || architecture.has(T::HasNoLoader), "{architecture:?}");
            assert!(!architecture.names.is_empty(), "{architecture:?}");
            assert!(architecture.names.iter().all(|name| names.insert(name)), "{architecture:?}");
        }
    }
}
