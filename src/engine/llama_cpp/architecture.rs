//! What may be asked of an architecture. The architectures themselves are in `architectures`.

use Trait as T;

use super::release::Builds;
use super::transformer::{Transformer, gating};
use super::weights::{LlmTensor, LlmTensor as Slot};
use crate::settings::{Build, Release};

/// What is known of an architecture, its functions apart.
#[derive(Debug)]
pub struct Architecture {
    /// Its names in headers (`general.architecture`).
    pub names: &'static [&'static str],
    /// The shape of its blocks, where they are attention and feed-forward.
    pub(super) blocks: Option<Transformer>,
    /// Its blocks with a sliding window.
    pub(super) window: Window,
    /// How experts are chosen where the header does not say.
    pub(super) gating: u64,
    /// Whether a tensor of a skipped MTP block is loaded all the same, because the loader does not mark it with the block.
    pub(super) unmarked: fn(LlmTensor) -> bool,
    /// The first build that may know it: the one after the last that does not.
    pub(super) since: Build,
    /// Builds whose last block computes all tokens, as an input of a draft; others only those with logits.
    pub(super) keeps_last_rows: Builds,
    /// Builds that load its MTP blocks although the graph does not use them.
    pub(super) loads_mtp_blocks: Builds,
    /// Builds in which its MTP blocks have a KV cache beside the model's own.
    pub(super) caches_mtp_blocks: Builds,
    /// Builds that cannot load its files with MTP blocks.
    pub(super) refuses_mtp_blocks: Builds,
    /// Builds that keep snapshots of its recurrent states to roll back to (`llm_arch_supports_rs_rollback`).
    pub(super) rolls_back: Builds,
    /// Builds that may read its table of embeddings per layer on demand (`TENSOR_READ_LAZY`).
    pub(super) reads_lazily: Builds,
    /// Builds in which the last product of its experts is asked for in f32, as their values exceed f16, which GPUs
    /// refuse (`llama-graph.cpp`, 0.1.161).
    pub(super) experts_in_f32: Builds,
    /// The last build whose graph of it is known; none if the newest measured one's is.
    pub(super) known_until: Option<Build>,
    /// The operations that its graph may have.
    pub(super) room: GraphRoom,
    /// Where its graph was compared with what llama.cpp measures.
    pub compared: Compared,
    /// The first release for which it was compared, at least on a simulated card.
    pub compared_since: Release,
    pub(super) traits: &'static [Trait],
}

/// The blocks with a sliding window, where the header does not list them; its size is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// None, or by a rule of its own.
    None,
    /// All but the last of so many, if the header has a window.
    Optional(u64),
    /// The same, and the header must have one.
    Needed(u64),
    /// All but the first of so many, if the header has a window.
    DenseFirst(u64),
}

/// How many operations a graph may have (`llama_context::graph_max_nodes`, 0.1.161): the most of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GraphRoom {
    /// For every token of a ubatch.
    per_token: u64,
    /// For every tensor of the model.
    per_weight: u64,
}

impl GraphRoom {
    pub const USUAL: Self = Self { per_token: 0, per_weight: 8 };
    pub const LARGE: Self = Self { per_token: 40, per_weight: 32 };
    pub const LARGER: Self = Self { per_token: 80, per_weight: 64 };
    pub const LARGEST: Self = Self { per_token: 160, per_weight: 64 };

    /// Operations in a graph of so many tokens, of a model with so many tensors.
    pub fn operations(self, tokens: u64, weights: u64) -> u64 {
        (self.per_token * tokens).max(self.per_weight * weights).max(1024)
    }
}

/// Where the graph of an architecture was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// On every backend that is measured, for all releases that know it.
    Everywhere,
    /// On CUDA only, for this release and later ones.
    OnCuda(Release),
}

/// What some architectures have or do, and most not (`llama-arch.cpp`, `llama-model.cpp` and `models/*.cpp`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// llama.cpp has the name but nothing that loads such a file (`llama_model_create`).
    HasNoLoader,
    /// It cannot be split by tensors (`llm_arch_supports_sm_tensor`).
    NoTensorSplit,
    /// Flash attention is off whatever is asked (`llama_init_from_model`).
    ForbidsFlashAttention,
    /// llama.cpp ends with an error unless flash attention is off: values have no heads.
    NeedsFlashAttentionOff,
    /// Logits are multiplied by a constant.
    ScalesLogits,
    /// The same if the header has one.
    ReadsLogitScale,
    /// Logits have a soft cap.
    CapsLogits,
    /// The same if the header has one.
    ReadsLogitCap,
    /// Attention scores have a soft cap.
    CapsScores,
    /// Attention scores have a bias by distance (`ALiBi`), and a KV head has several queries. It decides memory only
    /// then.
    BiasesScores,
    /// Queries are multiplied by a temperature if the header has one.
    ReadsTemperature,
    /// Queries, keys and values are limited if the header has a limit.
    ReadsKqvClamp,
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
    /// The bias of attention's output is loaded and not read.
    IgnoresAttnOutputBias,
    /// Biases of feed-forward matrices are loaded and not read.
    IgnoresFeedForwardBiases,
    /// The bias of logits is loaded and not read.
    IgnoresOutputBias,
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
    /// A draft that uses the caches of its target.
    SharesPartnersCaches,
}

/// The architecture whose graph is used.
#[derive(Clone, Copy, Debug)]
pub struct GraphFamily {
    /// The architecture.
    pub architecture: &'static Architecture,
    /// It is the model's own; otherwise the nearest one by the file's tensors.
    pub exact: bool,
}

impl Architecture {
    /// Blocks in turn, and nothing besides.
    pub(super) const PLAIN: Self = Self {
        names: &[],
        blocks: None,
        window: Window::None,
        gating: gating::NONE,
        unmarked: |_| false,
        since: Build(0),
        keeps_last_rows: Builds::NONE,
        loads_mtp_blocks: Builds::NONE,
        caches_mtp_blocks: Builds::NONE,
        refuses_mtp_blocks: Builds::NONE,
        rolls_back: Builds::NONE,
        reads_lazily: Builds::NONE,
        experts_in_f32: Builds::NONE,
        known_until: None,
        room: GraphRoom::USUAL,
        compared: Compared::Everywhere,
        compared_since: Release::August2026,
        traits: &[],
    };

    /// Its columns that follow from the build.
    pub(super) const fn builds(&self) -> [Builds; 7] {
        [
            self.keeps_last_rows,
            self.loads_mtp_blocks,
            self.caches_mtp_blocks,
            self.refuses_mtp_blocks,
            self.rolls_back,
            self.reads_lazily,
            self.experts_in_f32,
        ]
    }

    /// Whether it has this trait.
    pub fn has(&self, it: Trait) -> bool {
        self.traits.contains(&it)
    }

    /// An encoder: reads whole texts, caches nothing, and its graph has no logits.
    pub fn reads_only(&self) -> bool {
        self.has(T::NoOutput) || self.has(T::ReadsOnly)
    }

    /// Whether the token embeddings are loaded as output weights too if there are none. A draft without them uses those
    /// of its target.
    pub fn ties_output(&self) -> bool {
        !self.has(T::NoOutput) && !self.has(T::UntiedOutput)
    }

    /// Whether positions have several axes (`llama_model_rope_type`, 0.1.161), given whether the header has sections.
    pub fn has_several_positions(&self, sections: bool) -> bool {
        self.has(T::SeveralPositions) || sections && self.has(T::SeveralPositionsBySections)
    }

    /// Whether factors of rotary positions are loaded and not read, in blocks with a sliding window or in others.
    pub fn ignores_rope_factors(&self, windowed: bool) -> bool {
        self.has(T::IgnoresRopeFactors) || windowed && self.has(T::IgnoresRopeFactorsInWindows)
    }

    /// Whether the biases of matrices with this role are loaded and not read.
    pub fn ignores_bias(&self, of: LlmTensor) -> bool {
        match of {
            Slot::AttnQ | Slot::AttnK | Slot::AttnV | Slot::AttnQkv => self.has(T::IgnoresQkvBiases),
            Slot::AttnOutput => self.has(T::IgnoresAttnOutputBias),
            Slot::FfnGate | Slot::FfnUp | Slot::FfnDown => self.has(T::IgnoresFeedForwardBiases),
            Slot::Output => self.has(T::IgnoresOutputBias),
            _ => false,
        }
    }

    /// Whether the scales of matrices with this role are loaded and not read.
    pub fn ignores_scale(&self, of: LlmTensor) -> bool {
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
