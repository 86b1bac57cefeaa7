//! The architectures whose graphs are known, a row each.
//!
//! To add one: read its file in `models/` and its lines in `llama-arch.cpp` and `llama-model.cpp` of llama.cpp, and add a
//! row: its name in headers; `blocks`, if its graph is attention and feed-forward in turn, or else `graph`, a function of
//! its own in `graph/`; `hparams`, which reads the keys that others lack; and its traits. Then add what llama.cpp measured
//! of such a model to `tests/llama_cpp/`: a test there fails for a row without figures. Code asks for traits, not for
//! architectures.

use super::error::LoadError;
use super::graph::transformer::ResidualTerm::{Attention, FeedForward, Residual};
use super::graph::transformer::{
    EmbeddingScale, ExpertRouting, Norms, PostNorm, PreNorm, QkNorm, ResidualOrder, RopeLayers, Transformer,
};
use super::graph::{GraphBuilder, Norm};
use super::hparams::{HeaderKeys, Hparams, gating};
use super::release::Releases;
use super::weights::LlmTensor;
use super::weights::LlmTensor as Slot;
use crate::gguf::{Header, Value};
use crate::settings::Release;
use crate::settings::Release as R;
use Trait as T;

/// What is known of an architecture.
pub(super) struct ArchitectureRow {
    /// Its names in headers (`general.architecture`).
    names: &'static [&'static str],
    /// The shape of its blocks, where they are attention and feed-forward.
    pub blocks: Option<Transformer>,
    /// Builds its graph.
    pub graph: fn(&mut GraphBuilder<'_>),
    /// Builds the graph of its first MTP block.
    pub mtp: fn(&mut GraphBuilder<'_>),
    /// Reads the hyperparameters that others lack (`load_arch_hparams` in `models/*.cpp`, 0.1.161).
    pub hparams: fn(&mut Hparams, &HeaderKeys<'_>) -> Result<(), LoadError>,
    /// Whether a tensor of a skipped MTP block is loaded all the same, because the loader does not mark it with the block.
    pub unmarked: fn(LlmTensor) -> bool,
    /// The first release that knows it.
    pub since: Release,
    /// Releases whose last block computes all tokens, as an input of a draft; others only those with logits.
    pub keeps_last_rows: Releases,
    /// Releases that load its MTP blocks although the graph does not use them.
    pub loads_mtp_blocks: Releases,
    /// Releases in which its MTP blocks have a KV cache beside the model's own.
    pub caches_mtp_blocks: Releases,
    /// Releases that cannot load its files with MTP blocks.
    pub refuses_mtp_blocks: Releases,
    /// Releases that keep snapshots of its recurrent states to roll back to (`llm_arch_supports_rs_rollback`).
    pub rolls_back: Releases,
    /// Releases in which the last product of its experts is asked for in f32, as their values exceed f16, which GPUs
    /// refuse (`llama-graph.cpp`, 0.1.161).
    pub experts_in_f32: Releases,
    /// Where its graph was compared with what llama.cpp measures.
    compared: Compared,
    traits: &'static [Trait],
}

impl ArchitectureRow {
    /// Blocks in turn, and nothing besides.
    const PLAIN: Self = Self {
        names: &[],
        blocks: None,
        graph: |build| build.blocks_in_turn(),
        mtp: |build| build.mtp_block(),
        hparams: |_, _| Ok(()),
        unmarked: |_| false,
        since: Release::ALL[Release::ALL.len() - 1],
        keeps_last_rows: Releases::NONE,
        loads_mtp_blocks: Releases::NONE,
        caches_mtp_blocks: Releases::NONE,
        refuses_mtp_blocks: Releases::NONE,
        rolls_back: Releases::NONE,
        experts_in_f32: Releases::NONE,
        compared: Compared::Everywhere,
        traits: &[],
    };
}

/// Where the graph of an architecture was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// On every backend that is measured, for all releases that know it.
    Everywhere,
    /// On CUDA only, for this release and later ones.
    OnCuda(Release),
}

/// Names of headers that newer releases know and whose graph is not known here: modelled, where a release knows them.
const WITHOUT_GRAPH: [(&str, Release); 3] =
    [("clef", R::November2026), ("pockettts", R::September2026), ("qwen3tts", R::September2026)];

/// Whether `release` knows this name, or no release here is known to be the first that does.
pub fn is_known(name: &str, release: Release) -> bool {
    let listed = Architecture::named(name).map(|architecture| architecture.row().since);
    let since = listed.or_else(|| WITHOUT_GRAPH.iter().find(|(known, _)| *known == name).map(|(_, since)| *since));
    since.is_none_or(|since| release.is_from(since))
}

/// What some architectures have or do, and most not (`llama-arch.cpp`, `llama-model.cpp` and `models/*.cpp`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// llama.cpp has the name but nothing that loads such a file (`llama_model_create`).
    HasNoLoader,
    /// Flash attention is off whatever is asked (`llama_init_from_model`).
    ForbidsFlashAttention,
    /// llama.cpp ends with an error unless flash attention is off: values have no heads.
    NeedsFlashAttentionOff,
    /// Logits are computed for every token of a batch, wanted or not.
    GivesAllLogits,
    /// A batch never mixes tokens and embeddings (`llm_arch_supports_mixed_batch`).
    NoMixedBatches,
    /// A limited gated activation is one operation, rather than limits before it.
    ClampsInActivation,
    /// Memory is reserved for a batch of one sequence besides (`sched_reserve`).
    ReservesOneSequence,
    /// All blocks are recurrent.
    Recurrent,
    /// Some blocks are recurrent and some have attention.
    Hybrid,
    /// Fills in whole texts: caches nothing, and its graph has logits (`llm_arch_is_diffusion`).
    Diffusion,
    /// An encoder without output weights: reads whole texts, caches nothing, has no logits.
    NoOutput,
    /// An encoder all the same, though its output weights are loaded.
    ReadsOnly,
    /// There is an encoder, which reads a text, or hidden states of another model (`llama_model_has_encoder`).
    HasEncoder,
    /// Every block is an MTP block: there is no model without them.
    OnlyDrafts,
    /// The graph can give the inputs of its layers to a draft (`t_layer_inp`).
    GivesLayerInputs,
    /// The same of what follows the last layer.
    GivesFinalInput,
    /// The token embeddings are not output weights too, even if there are no others.
    UntiedOutput,
    /// Later blocks use the KV caches of earlier ones.
    SharesCaches,
    /// Residual streams are mixed by operations that are fused where the device of the block runs them.
    FusesHyperConnections,
    /// llama.cpp has no graph of its MTP blocks.
    NoMtpGraph,
    /// Positions have several axes (`llama_model_rope_type`).
    SeveralPositions,
    /// The same if the header has sections of rotary positions.
    SeveralPositionsBySections,
    /// No scales of matrices are read but those of MTP blocks.
    IgnoresScales,
    /// The scales of feed-forward matrices are read.
    ReadsFeedForwardScales,
    /// Of those only the scale of the last is read.
    ReadsFfnDownScale,
    /// The scale of the gate of attention is read.
    ReadsGateScale,
    /// The scales of separate queries, keys and values are not read.
    IgnoresQkvScales,
    /// The scale of queries, keys and values in one matrix is not read.
    IgnoresFusedQkvScale,
    /// The scale of attention's output is not read.
    IgnoresAttnOutputScale,
    /// The scales of state-space matrices are not read.
    IgnoresSsmScales,
    /// Biases of queries, keys and values are loaded and not read.
    IgnoresQkvBiases,
    /// Factors of rotary positions are loaded and not read.
    IgnoresRopeFactors,
    /// The same in blocks with a sliding window only.
    IgnoresRopeFactorsInWindows,
    /// Blocks with a sliding window have no copy of those factors.
    WindowsNeedNoRopeFactors,
    /// MTP blocks that are skipped keep their copies of those factors.
    MtpKeepsRopeFactors,
    /// Compressed attention rotates by them too.
    RotatesMlaByFactors,
    /// The header's factor for the weights of experts is not read (`expert_weights_scale`).
    IgnoresExpertWeightsScale,
    /// Attention does not read its cache.
    IgnoresCache,
    /// The decay of a state-space block is an operand of its scan, though it has one dimension.
    DecayIsScanned,
    /// Its file names blocks by the decoder they belong to.
    NamesDecoderBlocks,
    /// The gate of attention is a softplus, otherwise a sigmoid.
    SoftplusGate,
    /// Compressed attention is gated before it is decompressed.
    GatesLatent,
    /// A dense part is added to the experts', and the sum halved.
    AddsDenseToExperts,
    /// Residual streams are summed in f32 for the final norm.
    CastsHeadStreams,
    /// A bounded decay is multiplied by a constant.
    ScalesDecay,
    /// A batch writes all snapshots of its states, even if it has fewer tokens.
    WritesAllSnapshots,
    /// The last columns of a rolling state are copied before they are stored.
    CopiesRollingState,
    /// The last norm reads the rows whose logits are needed; a draft reads those before it.
    NormsKeptRows,
    /// Logits of image tokens are pushed down.
    MasksImageLogits,
    /// The indexer's keys are normalised without weights where the file has none.
    IndexerNormIsOptional,
    /// The indexer leaves out the rotation of queries and keys.
    NoIndexerRotation,
    /// The norm of token embeddings belongs to the output layer.
    NormOfEmbeddingsIsOutput,
    /// The output's copy of the token embeddings is made before them, so that both exist even in RAM.
    CopiesEmbeddingsFirst,
    /// RWKV's time mixing in Qwen 2's body: only it sees the token before.
    QwenBody,
    /// Time mixing of RWKV 6, otherwise of 7.
    RwkvVersion6,
    /// Every so many blocks the residual is multiplied by a constant.
    RescalesBlocks,
    /// Its state-space blocks are of a kind of their own.
    OwnStateSpace,
    /// A block of delta attention does not need its input in the graph first.
    KeepsInput,
    /// The graph only works with one cache for all sequences.
    OneCacheOnly,
    /// Its MTP block caches the indexer's keys too.
    DraftsFromIndexer,
    /// Gated attention multiplies queries, keys and values by separate matrices.
    SeparateGatedQueries,
    /// The gate of a delta net is a sigmoid, otherwise a `SiLU`.
    SigmoidDeltaGate,
    /// The gate of attention is reshaped in releases that reshape states.
    ReshapesGate,
    /// Each head of a delta net's queries and keys is repeated before the next, even if the rule is fused.
    RepeatsHeadsInTurn,
    /// The mask of chosen rows has the type of the mask of all, otherwise f32.
    MaskKeepsType,
    /// T5's encoder alone: made for embeddings.
    EncoderOfTexts,
    /// An EAGLE 3 draft.
    EagleDraft,
    /// A draft of several tokens at once (`DFlash`, `DSpark`).
    BlockDraft,
    /// A draft that uses the caches of its partner.
    SharesPartnersCaches,
}

macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident: $($name:literal)|* { $($field:ident: $value:expr),* $(,)? })*) => {
        /// An architecture with a graph of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Architecture { $($(#[$doc])* $variant,)* }

        impl Architecture {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }

        static ROWS: [ArchitectureRow; Architecture::ALL.len()] =
            [$(ArchitectureRow { names: &[$($name),*], $($field: $value,)* ..ArchitectureRow::PLAIN }),*];
    };
}

architectures! {
    /// Llama, Mistral, Mixtral and derived models.
    Llama: "llama" {
        blocks: Some(Transformer::LLAMA),
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    }
    /// Llama 4.
    Llama4: "llama4" {
        graph: |build| build.llama4(), hparams: |hp, keys| hp.llama4(keys), traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Ministral 3 and variants.
    Mistral3: "mistral3" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.scaled_temperature(keys),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    }
    /// Qwen 2 and 2.5.
    Qwen2: "qwen2" { blocks: Some(Transformer::LLAMA) }
    /// The text part of Qwen 2 VL and 2.5 VL.
    Qwen2Vl: "qwen2vl" { blocks: Some(Transformer::LLAMA), traits: &[T::SeveralPositions] }
    /// Qwen 3.
    Qwen3: "qwen3" { blocks: Some(Transformer::LLAMA), traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales] }
    /// The text part of Qwen 3 VL.
    Qwen3Vl: "qwen3vl" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.deepstack(keys), traits: &[T::SeveralPositions],
    }
    /// Qwen 3 with experts.
    Qwen3Moe: "qwen3moe" {
        blocks: Some(Transformer::LLAMA),
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    }
    /// The text part of Qwen 3 VL with experts.
    Qwen3VlMoe: "qwen3vlmoe" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.deepstack(keys),
        traits: &[T::SeveralPositions, T::IgnoresExpertWeightsScale],
    }
    /// Qwen 3 Next: delta nets and attention.
    Qwen3Next: "qwen3next" {
        graph: |build| build.qwen3_next(), mtp: |build| build.qwen3_next_mtp(), hparams: |hp, keys| hp.delta_nets(keys),
        keeps_last_rows: Releases::since(R::September2026), refuses_mtp_blocks: Releases::until(R::EarlyAugust2026),
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale, T::ReshapesGate,
            T::RepeatsHeadsInTurn,
        ],
    }
    /// Qwen 3.5.
    Qwen35: "qwen35" {
        graph: |build| build.qwen3_next(), mtp: |build| build.qwen35_mtp(), hparams: |hp, keys| hp.delta_nets(keys),
        keeps_last_rows: Releases::ALL, loads_mtp_blocks: Releases::until(R::EarlyAugust2026),
        rolls_back: Releases::ALL,
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositions, T::ReadsFeedForwardScales, T::ReadsGateScale,
            T::WritesAllSnapshots,
        ],
    }
    /// Qwen 3.5 with experts.
    Qwen35Moe: "qwen35moe" {
        graph: |build| build.qwen3_next(), mtp: |build| build.qwen35_mtp(), hparams: |hp, keys| hp.delta_nets(keys),
        keeps_last_rows: Releases::ALL, loads_mtp_blocks: Releases::until(R::EarlyAugust2026),
        rolls_back: Releases::ALL,
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositions, T::ReadsFeedForwardScales, T::ReadsGateScale,
            T::IgnoresExpertWeightsScale, T::WritesAllSnapshots,
        ],
    }
    /// Qwen 3.8 Flash Next: delta nets and attention to chosen pools, over residual streams that are mixed before each
    /// half.
    Qwen4Exp: "qwen4exp" {
        graph: |build| build.qwen4exp(), mtp: |build| build.qwen4exp_mtp(),
        hparams: |hp, keys| hp.delta_nets_with_ngrams(keys), since: R::September2026,
        rolls_back: Releases::since(R::September2026), compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::FusesHyperConnections, T::SeveralPositions, T::ReadsFeedForwardScales,
            T::ReadsGateScale, T::IgnoresExpertWeightsScale, T::WritesAllSnapshots, T::DraftsFromIndexer,
            T::SeparateGatedQueries, T::CopiesRollingState, T::SigmoidDeltaGate,
        ],
    }
    /// Gemma 2.
    Gemma2: "gemma2" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, ..Transformer::GEMMA }),
        hparams: |hp, keys| hp.gemma2(keys),
    }
    /// Gemma 3.
    Gemma3: "gemma3" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::ScaledTokens, ..Transformer::GEMMA }),
        hparams: |hp, keys| hp.gemma3(keys),
    }
    /// Gemma 3n.
    Gemma3n: "gemma3n" {
        graph: |build| build.gemma3n(), hparams: |hp, keys| hp.gemma3n(keys),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::SharesCaches, T::CopiesEmbeddingsFirst],
    }
    /// Gemma 4.
    Gemma4: "gemma4" {
        graph: |build| build.gemma4(), hparams: |hp, keys| hp.gemma4(keys), keeps_last_rows: Releases::ALL,
        traits: &[
            T::GivesLayerInputs, T::SharesCaches, T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale,
            T::CopiesEmbeddingsFirst, T::WindowsNeedNoRopeFactors,
        ],
    }
    /// gpt-oss.
    GptOss: "gpt-oss" {
        graph: |build| build.gpt_oss(), hparams: |hp, keys| hp.needed_window(keys, 2),
        keeps_last_rows: Releases::since(R::EarlyAugust2026),
        traits: &[T::GivesLayerInputs, T::IgnoresExpertWeightsScale],
    }
    /// Phi 2.
    Phi2: "phi2" {
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::SideBySide([Attention, FeedForward, Residual]),
            ..Transformer::PARALLEL
        }),
    }
    /// Phi 3 and 4.
    Phi3: "phi3" {
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::InTurnResidualLast, ..Transformer::LLAMA
        }),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Command R.
    CommandR: "command-r" { blocks: Some(Transformer::PARALLEL), hparams: |hp, keys| hp.scaled_logits(keys) }
    /// `DeepSeek` 2, 3 and all with MLA.
    DeepSeek2: "deepseek2" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.deepseek2(keys), refuses_mtp_blocks: Releases::until(R::EarlyAugust2026),
    }
    /// Mistral Small 4: `DeepSeek` 2's blocks.
    Mistral4: "mistral4" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.deepseek2(keys), experts_in_f32: Releases::since(R::November2026),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// `DeepSeek` 3.2: the same with sparse attention.
    DeepSeek32: "deepseek32" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.deepseek32(keys), unmarked: |slot| slot == Slot::ExpProbsB,
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::ReadsFeedForwardScales],
    }
    /// `DeepSeek` 4: windows beside compressed caches, over several residual streams.
    DeepSeek4: "deepseek4" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        graph: |build| build.deepseek4(), mtp: |build| build.deepseek4_mtp(),
        hparams: |hp, keys| hp.compressed_windows(keys), since: R::EarlyAugust2026,
        caches_mtp_blocks: Releases::since(R::September2026), rolls_back: Releases::since(R::September2026),
        compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::NoMixedBatches, T::ClampsInActivation, T::GivesLayerInputs, T::FusesHyperConnections, T::IgnoresScales,
            T::GivesFinalInput, T::MaskKeepsType,
        ],
    }
    /// GLM 5: `DeepSeek` 3.2's blocks, some of which share an indexer.
    GlmDsa: "glm-dsa" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.glm_dsa(keys), unmarked: |slot| slot == Slot::ExpProbsB,
        loads_mtp_blocks: Releases::only(R::EarlyAugust2026), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::ReadsFeedForwardScales, T::IndexerNormIsOptional],
    }
    /// The text part of `DeepSeek`-OCR: experts with ordinary attention.
    DeepSeek2Ocr: "deepseek2-ocr" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, _| hp.softmax_by_default(), compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// GLM 4.
    Glm4: "glm4" {
        blocks: Some(Transformer {
            scales_queries: false, feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)),
            ..Transformer::GEMMA
        }),
        hparams: |hp, keys| hp.read_rope_sections(keys), traits: &[T::SeveralPositionsBySections],
    }
    /// GLM 4.5 with experts.
    Glm4Moe: "glm4moe" {
        blocks: Some(Transformer {
            feed_forward: Norms::before(Slot::AttnPostNorm), experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.glm4_moe(keys), caches_mtp_blocks: Releases::until(R::EarlyAugust2026),
        traits: &[T::SeveralPositionsBySections],
    }
    /// `ChatGLM` 3.
    ChatGlm: "chatglm" { blocks: Some(Transformer::LLAMA) }
    /// Stable LM.
    StableLm: "stablelm" { blocks: Some(Transformer { feed_forward: Norms::SHARED_INPUT, ..Transformer::LAYER }) }
    /// Granite, also with experts.
    Granite: "granite" | "granitemoe" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.granite(keys), traits: &[T::IgnoresExpertWeightsScale],
    }
    /// `MiniCPM`, whose graph is Granite's.
    MiniCpm: "minicpm" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, _| hp.scaled_everywhere(),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Granite 4 with state-space blocks.
    GraniteHybrid: "granitehybrid" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.granite_hybrid(keys),
        traits: &[T::Hybrid, T::IgnoresExpertWeightsScale],
    }
    /// Mamba.
    Mamba: "mamba" {
        blocks: Some(Transformer { lenient: true, ..Transformer::LLAMA }), hparams: |hp, keys| hp.mamba(keys),
        traits: &[T::Recurrent],
    }
    /// Nemotron H, also with experts.
    NemotronH: "nemotron_h" | "nemotron_h_moe" {
        graph: |build| build.nemotron_h(), mtp: |build| build.nemotron_h_mtp(), hparams: |hp, keys| hp.nemotron_h(keys),
        keeps_last_rows: Releases::since(R::September2026), rolls_back: Releases::since(R::September2026),
        traits: &[T::Hybrid, T::GivesLayerInputs, T::ReadsFeedForwardScales, T::GivesFinalInput],
    }
    /// `SmolLM` 3.
    SmolLm3: "smollm3" {
        blocks: Some(Transformer { rotation: RopeLayers::ButEveryNth, ..Transformer::LLAMA }),
        hparams: |hp, _| hp.no_rope_every(4),
    }
    /// `OLMo` 2 and 3.
    Olmo2: "olmo2" {
        blocks: Some(Transformer { heads: QkNorm::Across, ..Transformer::POST_NORM }),
        hparams: |hp, keys| hp.optional_window(keys, 4),
    }
    /// `StarCoder` 2.
    StarCoder2: "starcoder2" { blocks: Some(Transformer::LAYER) }
    /// LFM 2.
    Lfm2: "lfm2" | "lfm2moe" {
        graph: |build| build.lfm2(), hparams: |hp, keys| hp.lfm2(keys), rolls_back: Releases::since(R::September2026),
        traits: &[T::Hybrid, T::GivesLayerInputs, T::IgnoresExpertWeightsScale, T::NormOfEmbeddingsIsOutput],
    }
    /// Falcon H1: attention and state space in parallel.
    FalconH1: "falcon-h1" {
        graph: |build| build.falcon_h1(), hparams: |hp, keys| hp.falcon_h1(keys),
        traits: &[T::Hybrid, T::IgnoresRopeFactors],
    }
    /// Jamba: state-space blocks of the first version, and attention.
    Jamba: "jamba" {
        blocks: Some(Transformer {
            rotation: RopeLayers::Never, sum: ResidualOrder::ResidualFirst, experts: ExpertRouting::SOFTMAX_AS_IS,
            ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.jamba(keys), traits: &[T::Hybrid, T::IgnoresExpertWeightsScale],
    }
    /// Mamba 2.
    Mamba2: "mamba2" {
        blocks: Some(Transformer { lenient: true, ..Transformer::LLAMA }), hparams: |hp, keys| hp.mamba2(keys),
        traits: &[T::Recurrent],
    }
    /// Qwen 1 and 1.5 in the original format.
    Qwen: "qwen" { blocks: Some(Transformer::LLAMA) }
    /// Qwen 2 with experts.
    Qwen2Moe: "qwen2moe" {
        blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Gemma.
    Gemma: "gemma" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, scales_queries: true, ..Transformer::LLAMA }),
    }
    /// `EmbeddingGemma`.
    GemmaEmbedding: "gemma-embedding" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::ScaledTokens, ..Transformer::GEMMA }),
        hparams: |hp, keys| hp.gemma_embedding(keys), traits: &[T::ReadsOnly],
    }
    /// Phi 3.5 with experts.
    PhiMoe: "phimoe" {
        blocks: Some(Transformer {
            scales_queries: true, sum: ResidualOrder::InTurnResidualLast, ..Transformer::LLAMA
        }),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Command R7B and A.
    Cohere2: "cohere2" {
        blocks: Some(Transformer { rotation: RopeLayers::Windows, ..Transformer::PARALLEL }),
        hparams: |hp, keys| hp.cohere2(keys), traits: &[T::ReadsFeedForwardScales],
    }
    /// The first `DeepSeek` with experts.
    DeepSeek: "deepseek" { blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }) }
    /// Seed-OSS.
    SeedOss: "seed_oss" {
        blocks: Some(Transformer { feed_forward: Norms::before(Slot::AttnPostNorm), ..Transformer::LLAMA }),
    }
    /// ERNIE 4.5, also with experts.
    Ernie45: "ernie4_5" | "ernie4_5-moe" { blocks: Some(Transformer::LLAMA), traits: &[T::IgnoresExpertWeightsScale] }
    /// Hunyuan, also with experts.
    Hunyuan: "hunyuan-dense" | "hunyuan-moe" {
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// The text part of Hunyuan VL.
    HunyuanVl: "hunyuan_vl" {
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.read_rope_sections(keys),
        traits: &[T::GivesLayerInputs, T::SeveralPositionsBySections],
    }
    /// EXAONE 3.
    Exaone: "exaone" { blocks: Some(Transformer::LLAMA) }
    /// EXAONE 4.
    Exaone4: "exaone4" {
        blocks: Some(Transformer { rotation: RopeLayers::WindowsIfAny, ..Transformer::POST_NORM }),
        hparams: |hp, keys| hp.exaone4(keys),
    }
    /// `InternLM` 2.
    InternLm2: "internlm2" { blocks: Some(Transformer::LLAMA) }
    /// `MiniMax` M2.
    MiniMaxM2: "minimax-m2" {
        blocks: Some(Transformer {
            heads: QkNorm::Across, experts: ExpertRouting { gating: None, ..ExpertRouting::SOFTMAX },
            ..Transformer::LLAMA
        }),
        traits: &[T::GivesLayerInputs, T::IgnoresExpertWeightsScale],
    }
    /// dots.llm1 and Ling 2.
    Dots1: "dots1" | "bailingmoe2" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
    }
    /// Ling.
    BailingMoe: "bailingmoe" {
        blocks: Some(Transformer {
            experts: ExpertRouting { normalised: None, ..ExpertRouting::SOFTMAX }, ..Transformer::LLAMA
        }),
    }
    /// `OLMo`.
    Olmo: "olmo" {
        blocks: Some(Transformer { attention: Norms::BARE, feed_forward: Norms::BARE, ..Transformer::LAYER }),
        hparams: |hp, keys| hp.clamped_kqv(keys),
    }
    /// `OLMoE`.
    Olmoe: "olmoe" {
        blocks: Some(Transformer {
            heads: QkNorm::Across, experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA
        }),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// Arcee's AFM.
    Arcee: "arcee" { blocks: Some(Transformer { squares: true, ..Transformer::LLAMA }) }
    /// Apertus.
    Apertus: "apertus" { blocks: Some(Transformer::LLAMA) }
    /// Nemotron and Minitron.
    Nemotron: "nemotron" { blocks: Some(Transformer { squares: true, ..Transformer::LAYER }) }
    /// Orion.
    Orion: "orion" { blocks: Some(Transformer::LAYER) }
    /// XVERSE.
    Xverse: "xverse" { blocks: Some(Transformer::LLAMA) }
    /// Falcon.
    Falcon: "falcon" {
        blocks: Some(Transformer {
            sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]), ..Transformer::PARALLEL
        }),
    }
    /// GPT-2, and `StarCoder`, whose graph is the same.
    Gpt2: "gpt2" | "starcoder" { blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }) }
    /// GPT-NeoX and Pythia.
    GptNeoX: "gptneox" {
        blocks: Some(Transformer {
            sum: ResidualOrder::FromHeader([FeedForward, Residual, Attention]), ..Transformer::LAYER
        }),
        hparams: |hp, keys| hp.parallel_residual(keys),
    }
    /// BLOOM.
    Bloom: "bloom" { blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }) }
    /// MPT.
    Mpt: "mpt" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, heads: QkNorm::AcrossSplit, ..Transformer::LAYER }),
        hparams: |hp, keys| hp.clamped_kqv(keys),
    }
    /// DBRX.
    Dbrx: "dbrx" {
        blocks: Some(Transformer { feed_forward: Norms::before(Slot::AttnOutNorm), ..Transformer::LAYER }),
        hparams: |hp, keys| hp.clamped_kqv(keys), traits: &[T::IgnoresExpertWeightsScale],
    }
    /// BERT with learned positions: reads whole texts at once.
    Bert: "bert" | "jina-bert-v2" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::BERT }), traits: &[T::NoOutput],
    }
    /// BERT variants with rotary positions.
    NomicBert: "nomic-bert" | "nomic-bert-moe" | "jina-bert-v3" {
        blocks: Some(Transformer::BERT), traits: &[T::NoOutput, T::IgnoresExpertWeightsScale],
    }
    /// `ModernBERT`.
    ModernBert: "modern-bert" {
        blocks: Some(Transformer {
            attention: Norms { before: PreNorm::NormOrAttentions(Slot::AttnNorm), ..Norms::NOTHING },
            ..Transformer::LAYER
        }),
        hparams: |hp, keys| hp.dense_first_window(keys, 3), traits: &[T::NoOutput],
    }
    /// `EuroBERT`.
    EuroBert: "eurobert" { blocks: Some(Transformer::LLAMA), traits: &[T::NoOutput] }
    /// EAGLE 3: one block that drafts for another model.
    Eagle3: "eagle3" {
        graph: |build| build.eagle3(), mtp: |build| build.eagle3(), hparams: |hp, keys| hp.eagle3(keys),
        since: R::EarlyAugust2026, compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::UntiedOutput, T::EagleDraft],
    }
    /// `DFlash` and `DSpark`: blocks that draft several tokens at once for another model.
    DFlash: "dflash" {
        graph: |build| build.dflash(), mtp: |build| build.dflash(), hparams: |hp, keys| hp.dflash(keys),
        since: R::EarlyAugust2026, compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::SeveralPositionsBySections, T::ReadsFeedForwardScales, T::BlockDraft],
    }
    /// Gemma 4's assistant, which drafts for it and shares its caches.
    Gemma4Assistant: "gemma4-assistant" {
        graph: |build| build.gemma4_assistant(), mtp: |build| build.gemma4_assistant(),
        hparams: |hp, keys| hp.gemma4_assistant(keys),
        traits: &[T::OnlyDrafts, T::WindowsNeedNoRopeFactors, T::SharesPartnersCaches],
    }
    /// Baichuan: of 40 blocks without rotary positions.
    Baichuan: "baichuan" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, _| hp.baichuan(),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// `CodeShell`.
    CodeShell: "codeshell" { blocks: Some(Transformer::LAYER), compared: Compared::OnCuda(R::EarlyAugust2026) }
    /// Jais 1: positions as a bias of attention.
    Jais: "jais" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LAYER }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// Jais 2.
    Jais2: "jais2" {
        blocks: Some(Transformer { squares: true, ..Transformer::LAYER }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// Maincoder.
    MainCoder: "maincoder" {
        blocks: Some(Transformer { heads: QkNorm::EachRotated, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// openPangu Embedded.
    Pangu: "pangu-embedded" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresRopeFactors],
    }
    /// Refact: positions as a bias of attention.
    Refact: "refact" {
        blocks: Some(Transformer { rotation: RopeLayers::Never, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// K-EXAONE.
    ExaoneMoe: "exaone-moe" {
        blocks: Some(Transformer {
            rotation: RopeLayers::Windows, experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.needed_window(keys, 4), compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// Tencent Hy3.
    HyV3: "hy_v3" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, _| hp.sigmoid_by_default(), unmarked: is_unmarked, since: R::EarlyAugust2026,
        keeps_last_rows: Releases::since(R::EarlyAugust2026), loads_mtp_blocks: Releases::only(R::EarlyAugust2026),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::ReadsFeedForwardScales],
    }
    /// `JetBrains` Mellum 2.
    Mellum: "mellum" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.optional_window(keys, 4),
        compared: Compared::OnCuda(R::September2026),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresExpertWeightsScale],
    }
    /// `MiMo` V2.
    Mimo2: "mimo2" {
        blocks: Some(Transformer {
            experts: ExpertRouting { gating: Some(gating::SIGMOID), ..ExpertRouting::SOFTMAX }, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.mimo2(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresQkvScales, T::IgnoresFusedQkvScale, T::IgnoresQkvBiases, T::IgnoresExpertWeightsScale],
    }
    /// The text part of `PaddleOCR`-VL.
    PaddleOcr: "paddleocr" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::SeveralPositions],
    }
    /// `OpenELM`.
    OpenElm: "openelm" {
        blocks: Some(Transformer { sum: ResidualOrder::InTurnResidualFirst, ..Transformer::LLAMA }),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::IgnoresFusedQkvScale],
    }
    /// `PLaMo`.
    Plamo: "plamo" {
        blocks: Some(Transformer {
            norm: Norm::Rms, sum: ResidualOrder::SideBySide([FeedForward, Attention, Residual]),
            ..Transformer::PARALLEL
        }),
        compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// Dream and `LLaDA`, which fill in a whole text at once.
    Dream: "dream" | "llada" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, _| hp.bidirectional(),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Diffusion, T::IgnoresRopeFactors],
    }
    /// The same with experts.
    LladaMoe: "llada-moe" {
        blocks: Some(Transformer { experts: ExpertRouting::SOFTMAX_AS_IS, ..Transformer::LLAMA }),
        hparams: |hp, _| hp.bidirectional(), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Diffusion, T::IgnoresExpertWeightsScale],
    }
    /// RND1, a diffusion model of Qwen 3's blocks.
    Rnd1: "rnd1" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, _| hp.bidirectional(),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::Diffusion, T::IgnoresExpertWeightsScale],
    }
    /// Kimi Linear: delta attention, and compressed attention without positions.
    KimiLinear: "kimi-linear" {
        blocks: Some(Transformer {
            experts: ExpertRouting { normalised: Some(true), ..ExpertRouting::FROM_HEADER }, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.kimi_linear(keys), compared: Compared::OnCuda(R::September2026),
        traits: &[T::ReservesOneSequence, T::Hybrid, T::IgnoresQkvScales, T::IgnoresSsmScales],
    }
    /// Ling 3: the same with rotary positions and a gate on attention.
    BailingMoe3: "bailingmoe3" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.bailing_moe3(keys), since: R::September2026,
        keeps_last_rows: Releases::since(R::September2026), caches_mtp_blocks: Releases::since(R::September2026),
        rolls_back: Releases::since(R::September2026), compared: Compared::OnCuda(R::September2026),
        traits: &[
            T::Hybrid, T::GivesLayerInputs, T::SeveralPositionsBySections, T::IgnoresScales, T::GatesLatent,
            T::KeepsInput,
        ],
    }
    /// Kimi K3: Kimi Linear's blocks, whose residuals are banked and mixed by attention.
    KimiK3: "kimi-k3" {
        graph: |build| build.kimi_k3(), hparams: |hp, keys| hp.kimi_k3(keys), since: R::September2026,
        rolls_back: Releases::since(R::September2026), compared: Compared::OnCuda(R::September2026),
        traits: &[T::Hybrid, T::IgnoresScales, T::ScalesDecay, T::WritesAllSnapshots],
    }
    /// RWKV 6.
    Rwkv6: "rwkv6" {
        graph: |build| build.rwkv(), hparams: |hp, keys| hp.rwkv(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Recurrent, T::RwkvVersion6, T::RescalesBlocks],
    }
    /// RWKV 6's time mixing in Qwen 2's body (QRWKV).
    Rwkv6Qwen2: "rwkv6qwen2" {
        graph: |build| build.rwkv(), hparams: |hp, keys| hp.rwkv(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Recurrent, T::QwenBody, T::RwkvVersion6],
    }
    /// RWKV 7.
    Rwkv7: "rwkv7" {
        graph: |build| build.rwkv(), hparams: |hp, keys| hp.rwkv(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Recurrent],
    }
    /// RWKV 7's time mixing in Qwen 2's body.
    Arwkv7: "arwkv7" {
        graph: |build| build.rwkv(), hparams: |hp, keys| hp.rwkv(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::Recurrent, T::QwenBody],
    }
    /// Step 3.5.
    Step35: "step35" {
        blocks: Some(Transformer {
            heads: QkNorm::EachOfCopies, experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.step35(keys),
        unmarked: |slot| matches!(slot, Slot::AttnQNorm | Slot::AttnKNorm) || is_unmarked(slot),
        keeps_last_rows: Releases::since(R::EarlyAugust2026), loads_mtp_blocks: Releases::only(R::EarlyAugust2026),
        compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresRopeFactorsInWindows, T::NormsKeptRows, T::MtpKeepsRopeFactors],
    }
    /// Cohere's models with experts.
    Cohere2Moe: "cohere2moe" {
        blocks: Some(Transformer {
            rotation: RopeLayers::WindowsAndDense,
            experts: ExpertRouting { halved: true, ..ExpertRouting::FROM_HEADER }, ..Transformer::PARALLEL
        }),
        hparams: |hp, keys| hp.cohere2_moe(keys),
        unmarked: |slot| matches!(slot, Slot::NextnEmbedTokens | Slot::NextnSharedHeadHead | Slot::NextnSharedHeadNorm),
        since: R::EarlyAugust2026, keeps_last_rows: Releases::since(R::EarlyAugust2026),
        compared: Compared::OnCuda(R::September2026), traits: &[T::ReadsFeedForwardScales],
    }
    /// `SmallThinker`, which routes by the input of the block.
    SmallThinker: "smallthinker" {
        blocks: Some(Transformer {
            rotation: RopeLayers::ButFirstOfNth,
            experts: ExpertRouting { normalised: Some(true), by_block_input: true, ..ExpertRouting::FROM_HEADER },
            ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.smallthinker(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// `DeciLM` and Nemotron Ultra: blocks differ in their heads and feed-forward parts, and some lack one.
    Deci: "deci" { graph: |build| build.deci(), compared: Compared::OnCuda(R::EarlyAugust2026) }
    /// Grok.
    Grok: "grok" {
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnOutNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::NormOr(Slot::LayerOutNorm, Slot::FfnPostNorm)),
            ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.grok(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::ForbidsFlashAttention, T::IgnoresExpertWeightsScale, T::AddsDenseToExperts],
    }
    /// Arcee Trinity.
    AfMoe: "afmoe" {
        blocks: Some(Transformer {
            embeddings: EmbeddingScale::Scaled, rotation: RopeLayers::ButEveryNth,
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::NormOfAll(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)),
            experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.afmoe(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
    }
    /// Tencent Hy4: compressed, gated attention over several residual streams.
    HyV4: "hy_v4" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        graph: |build| build.hy_v4(), hparams: |hp, keys| hp.hy_v4(keys), since: R::September2026,
        compared: Compared::OnCuda(R::September2026),
        traits: &[T::ClampsInActivation, T::IgnoresAttnOutputScale, T::CastsHeadStreams, T::NoIndexerRotation],
    }
    /// GLM 5.3: delta attention by channel and compressed attention to chosen pools, over mixed residual streams.
    Glm5Next: "glm5-next" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        graph: |build| build.glm5_next(), hparams: |hp, keys| hp.pooled_latent(keys), since: R::November2026,
        rolls_back: Releases::since(R::September2026), compared: Compared::OnCuda(R::November2026),
        traits: &[
            T::Hybrid, T::FusesHyperConnections, T::NoMtpGraph, T::IgnoresScales, T::ScalesDecay, T::WritesAllSnapshots,
        ],
    }
    /// Muse Glimmer.
    MuseGlimmer: "muse-glimmer" {
        blocks: Some(Transformer {
            embeddings: EmbeddingScale::Normalised, rotation: RopeLayers::Windows,
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::FreeNormOfAll(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::FreeNorm(Slot::FfnPostNorm)),
            ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.muse_glimmer(keys), since: R::September2026,
        compared: Compared::OnCuda(R::September2026), traits: &[T::GivesLayerInputs],
    }
    /// Spark 2.5.
    Spark25: "spark2_5" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.needed_window(keys, 4), since: R::September2026,
        compared: Compared::OnCuda(R::September2026),
    }
    /// Maple.
    Maple: "maple" {
        blocks: Some(Transformer { rotation: RopeLayers::Windows, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.maple(keys), since: R::September2026, compared: Compared::OnCuda(R::September2026),
        traits: &[T::ClampsInActivation, T::IgnoresExpertWeightsScale],
    }
    /// Laguna.
    Laguna: "laguna" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.laguna(keys), since: R::EarlyAugust2026, compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::SoftplusGate],
    }
    /// Arctic: a dense part in every block, and experts that read its input.
    Arctic: "arctic" {
        graph: |build| build.arctic(), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresExpertWeightsScale],
    }
    /// `GroveMoE`: a second set of experts, shared by groups of the first.
    GroveMoe: "grovemoe" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.grovemoe(keys),
        compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::IgnoresExpertWeightsScale],
    }
    /// `BitNet`: norms inside both halves.
    BitNet: "bitnet" {
        graph: |build| build.bitnet(), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::UntiedOutput, T::ReadsFeedForwardScales],
    }
    /// `PLaMo` 3.
    Plamo3: "plamo3" {
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)), ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.optional_window(keys, 8), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::IgnoresFusedQkvScale],
    }
    /// `MiniCPM` 3: compressed attention that caches full heads.
    MiniCpm3: "minicpm3" {
        blocks: Some(Transformer { embeddings: EmbeddingScale::Scaled, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.minicpm3(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::RotatesMlaByFactors],
    }
    /// PLM: the same without compressed queries.
    Plm: "plm" {
        blocks: Some(Transformer { squares: true, ..Transformer::LLAMA }), hparams: |hp, keys| hp.plm(keys),
        compared: Compared::OnCuda(R::September2026), traits: &[T::NeedsFlashAttentionOff],
    }
    /// Chameleon.
    Chameleon: "chameleon" {
        blocks: Some(Transformer { heads: QkNorm::EachWithMean, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.chameleon(keys), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::MasksImageLogits],
    }
    /// Talkie: norms without weights, and the embeddings added after every block.
    Talkie: "talkie" {
        graph: |build| build.talkie(), hparams: |hp, _| hp.talkie(), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::ReadsFfnDownScale],
    }
    /// Llama used for embeddings: its attention does not read the cache.
    LlamaEmbed: "llama-embed" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::ReadsFeedForwardScales, T::IgnoresCache],
    }
    /// Granite with sliding windows.
    GraniteSwa: "granite_swa" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.granite_swa(keys), since: R::September2026,
        compared: Compared::OnCuda(R::September2026), traits: &[T::IgnoresExpertWeightsScale],
    }
    /// `NeoBERT`: an encoder with rotary positions.
    NeoBert: "neo-bert" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026), traits: &[T::NoOutput],
    }
    /// The language part of `CogVLM` 2, whose weights for images are others.
    CogVlm: "cogvlm" {
        blocks: Some(Transformer::LLAMA), compared: Compared::OnCuda(R::EarlyAugust2026),
        traits: &[T::GivesAllLogits, T::NoMixedBatches, T::IgnoresFusedQkvScale, T::IgnoresRopeFactors],
    }
    /// dots 3 note: compressed attention of two sizes, with windows or an indexer.
    Dots3Note: "dots3note" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        hparams: |hp, keys| hp.windowed_latent(keys), since: R::September2026,
        compared: Compared::OnCuda(R::September2026), traits: &[T::ReadsFeedForwardScales],
    }
    /// `MiniMax` 01: lightning attention and full attention.
    MiniMax01: "minimax-01" {
        graph: |build| build.minimax_01(), hparams: |hp, keys| hp.lightning(keys), since: R::September2026,
        compared: Compared::OnCuda(R::September2026),
        traits: &[
            T::ReservesOneSequence, T::Hybrid, T::GivesLayerInputs, T::IgnoresFusedQkvScale,
            T::IgnoresExpertWeightsScale,
        ],
    }
    /// `MiniMax` M3: an indexer chooses blocks of positions.
    MiniMaxM3: "minimax-m3" {
        blocks: Some(Transformer { experts: ExpertRouting::FROM_HEADER, ..Transformer::LLAMA }),
        graph: |build| build.minimax_m3(), hparams: |hp, keys| hp.block_sparse(keys), since: R::EarlyAugust2026,
        compared: Compared::OnCuda(R::September2026),
    }
    /// Nanbeige: its blocks run several times.
    Nanbeige: "nanbeige" {
        blocks: Some(Transformer::LLAMA), hparams: |hp, keys| hp.looped(keys), since: R::EarlyAugust2026,
        compared: Compared::OnCuda(R::November2026), traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales],
    }
    /// `PLaMo` 2: state-space blocks and attention.
    Plamo2: "plamo2" {
        blocks: Some(Transformer {
            attention: Norms::before(Slot::AttnNorm).then(PostNorm::Norm(Slot::AttnPostNorm)),
            feed_forward: Norms::before(Slot::FfnNorm).then(PostNorm::Norm(Slot::FfnPostNorm)), ..Transformer::LLAMA
        }),
        hparams: |hp, keys| hp.plamo2(keys), compared: Compared::OnCuda(R::November2026),
        traits: &[T::Hybrid, T::IgnoresFusedQkvScale, T::IgnoresSsmScales, T::DecayIsScanned, T::OwnStateSpace],
    }
    /// HRM-Text: two stacks of blocks in nested cycles.
    HrmText: "hrm_text" {
        blocks: Some(Transformer { attention: Norms::BARE, feed_forward: Norms::BARE, ..Transformer::LLAMA }),
        graph: |build| build.hrm_text(), hparams: |hp, keys| hp.hrm_text(keys), since: R::September2026,
        compared: Compared::OnCuda(R::November2026),
    }
    /// T5: an encoder, and a decoder that attends to its result.
    T5: "t5" {
        graph: |build| build.t5(), hparams: |hp, keys| hp.t5(keys), compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::NamesDecoderBlocks, T::OneCacheOnly],
    }
    /// T5's encoder alone.
    T5Encoder: "t5encoder" {
        graph: |build| build.t5_encoder(), compared: Compared::OnCuda(R::November2026),
        traits: &[T::HasEncoder, T::IgnoresCache, T::EncoderOfTexts],
    }
    /// GPT-J, whose name is all that llama.cpp knows of it.
    GptJ: "gptj" { traits: &[T::HasNoLoader] }
    /// Granite Switch: adapters in the file, chosen for every token.
    GraniteSwitch: "graniteswitch" {
        graph: |build| build.granite_switch(), hparams: |hp, keys| hp.granite_switch(keys), since: R::September2026,
        compared: Compared::OnCuda(R::November2026), traits: &[T::NoMixedBatches],
    }
    /// Any other: the tensors in the file decide.
    Unlisted: "" {
        traits: &[T::GivesLayerInputs, T::ReadsFeedForwardScales, T::ReadsGateScale, T::AddsDenseToExperts],
    }
}

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

/// The architecture whose graph is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphFamily {
    /// The architecture.
    pub architecture: Architecture,
    /// It is the model's own; otherwise the nearest one by the file's tensors.
    pub exact: bool,
}

impl GraphFamily {
    /// The family of a header.
    pub fn of(header: &Header) -> Self {
        let name = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        let listed = Architecture::named(name);
        Self { architecture: listed.unwrap_or(Architecture::Unlisted), exact: listed.is_some() }
    }
}

impl Architecture {
    /// The architecture with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|architecture| architecture.names().contains(&name))
    }

    pub(super) fn row(self) -> &'static ArchitectureRow {
        &ROWS[self as usize]
    }

    /// Its names in headers.
    pub fn names(self) -> &'static [&'static str] {
        self.row().names
    }

    /// Where its graph was compared.
    pub fn compared(self) -> Compared {
        self.row().compared
    }

    /// Whether it has this trait.
    pub fn has(self, it: Trait) -> bool {
        self.row().traits.contains(&it)
    }

    /// An encoder: reads whole texts, caches nothing, and its graph has no logits.
    pub fn reads_only(self) -> bool {
        self.has(T::NoOutput) || self.has(T::ReadsOnly)
    }

    /// Whether the token embeddings are loaded as output weights too if there are none. A draft without them uses those
    /// of its partner.
    pub fn ties_output(self) -> bool {
        !self.has(T::NoOutput) && !self.has(T::UntiedOutput)
    }

    /// Whether positions have several axes (`llama_model_rope_type`, 0.1.161), given whether the header has sections.
    pub fn has_several_positions(self, sections: bool) -> bool {
        self.has(T::SeveralPositions) || sections && self.has(T::SeveralPositionsBySections)
    }

    /// Whether factors of rotary positions are loaded and not read, in blocks with a sliding window or in others.
    pub fn ignores_rope_factors(self, windowed: bool) -> bool {
        self.has(T::IgnoresRopeFactors) || windowed && self.has(T::IgnoresRopeFactorsInWindows)
    }

    /// Whether the scales of matrices with this role are loaded and not read.
    pub fn ignores_scale(self, of: LlmTensor) -> bool {
        match of {
            // of MTP blocks
            Slot::NextnEhProj => false,
            _ if self.has(T::IgnoresScales) => true,
            Slot::FfnDown if self.has(T::ReadsFfnDownScale) => false,
            Slot::FfnGate
            | Slot::FfnUp
            | Slot::FfnDown
            | Slot::FfnGateExps
            | Slot::FfnUpExps
            | Slot::FfnGateUpExps
            | Slot::FfnDownExps
            | Slot::FfnGateShexp
            | Slot::FfnUpShexp
            | Slot::FfnDownShexp => !self.has(T::ReadsFeedForwardScales),
            Slot::AttnQ | Slot::AttnK | Slot::AttnV => self.has(T::IgnoresQkvScales),
            Slot::AttnQkv => self.has(T::IgnoresFusedQkvScale),
            Slot::AttnGate => !self.has(T::ReadsGateScale),
            Slot::AttnOutput => self.has(T::IgnoresAttnOutputScale),
            Slot::SsmBeta | Slot::SsmIn | Slot::SsmOut => self.has(T::IgnoresSsmScales),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_graph_and_names_of_its_own() {
        let mut names = BTreeSet::new();
        for architecture in Architecture::ALL.iter().filter(|architecture| **architecture != Architecture::Unlisted) {
            let row = architecture.row();
            let own = !std::ptr::fn_addr_eq(row.graph, ArchitectureRow::PLAIN.graph);
            assert!(row.blocks.is_some() || own || architecture.has(T::HasNoLoader), "{architecture:?} has no graph");
            assert!(!row.names.is_empty(), "{architecture:?}");
            assert!(row.names.iter().all(|name| names.insert(name)), "{architecture:?}");
        }
    }
}
