//! Differences between builds of llama.cpp: a table of changes, each bracketed by the last build that is known to be as
//! before and the first that is known to have it.
//!
//! To add a release: compare its sources with those of the newest release here (`llama-graph.cpp`, `models/*.cpp`,
//! `ggml-backend.cpp`, `ggml-alloc.c`, `llama-context.cpp`, `llama-kv-cache.cpp`, `common/fit.cpp`). For every difference
//! that changes a byte add a trait below and a row to the table of changes, which gives the trait its old value, or, where it
//! is one of some architectures, a row alone, which a column of theirs names (`architectures.rs`). Add the release to
//! [`Release`] and its figures to `tests/llama_cpp/`. Code tests traits, never releases or builds.

use super::architecture::Architecture;
use crate::engine::ggml::backend::cuda::CudaRules;
use crate::engine::ggml::backend::metal::MetalRules;
use crate::engine::ggml::backend::vulkan::VulkanRules;
use crate::engine::ggml::schedule::{SchedulerRules, SplitInputs};
use crate::machine::{Backend, Machine};
use crate::settings::{Build, Release, Settings, SpecType};

/// Some builds in a row, between two changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Builds {
    since: Option<Change>,
    until: Option<Change>,
    any: bool,
}

impl Builds {
    /// Not one.
    pub const NONE: Self = Self { since: None, until: None, any: false };
    /// Every one.
    pub const ALL: Self = Self { since: None, until: None, any: true };

    /// Those with a change.
    pub const fn since(change: Change) -> Self {
        Self { since: Some(change), ..Self::ALL }
    }

    /// Those before a change.
    pub const fn before(change: Change) -> Self {
        Self { until: Some(change), ..Self::ALL }
    }

    /// Those with one change and without another.
    pub const fn between(since: Change, until: Change) -> Self {
        Self { since: Some(since), until: Some(until), any: true }
    }

    /// Whether builds with these traits are among them.
    pub fn contain(self, traits: &ReleaseTraits) -> bool {
        self.any
            && self.since.is_none_or(|change| traits.has(change))
            && self.until.is_none_or(|change| !traits.has(change))
    }
}

macro_rules! changes {
    ($($what:literal $(#[doc = $doc:literal])* $name:ident: $old:literal => $new:literal $(, |$traits:ident| $undo:expr)?;)*) => {
        /// What changed between two builds of llama.cpp, newest first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::doc_markdown, reason = "the words are shown as they are")]
        pub enum Change {
            $(#[doc = $what] #[doc = ""] $(#[doc = $doc])* $name,)*
        }

        impl Change {
            /// All of them, newest first.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// The last build that is known to be as before, and the first that is known to have it.
            pub const fn builds(self) -> (Build, Build) {
                match self {
                    $(Self::$name => (Build($old), Build($new)),)*
                }
            }

            /// What it is about, in a few words.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what,)*
                }
            }

            /// The traits as they were before it.
            const fn undo(self, before: &mut ReleaseTraits) {
                before.later |= 1 << (self as usize);
                match self {
                    $(Self::$name => { $(let $traits = before; $undo)? })*
                }
            }
        }
    };
}

changes! {
    "how delta nets project their results"
    /// `llama-cpp-sys-4` 0.11.0 has it, which is newer than b11739.
    DeltaNetFlat: 11_739 => 11_740, |old| old.delta_net_flat = false;
    "what CUDA keeps for fused products of gate and feed-forward matrices"
    /// `llama-cpp-sys-4` 0.11.0 has it, which is newer than b11739.
    CudaGatedProducts: 11_434 => 11_740, |old| old.cuda.keeps_gated_products = false;
    "the rows with logits where a draft may read all"
    CropsUnlessDrafting: 11_434 => 11_548, |old| old.crops_unless_drafting = false;
    "a cache of experts"
    MoeCache: 11_434 => 11_548, |old| old.moe_cache = false;
    "the rows of attention without caches"
    UncachedPadded: 11_434 => 11_548, |old| old.pads_uncached = false;
    "when embeddings are looked up"
    /// ggml-org/llama.cpp 30160.
    RowsFirst: 11_434 => 11_548, |old| old.rows_first = false;
    "what Vulkan decides"
    VulkanCompared: 11_076 => 11_434, |old| old.vulkan = VulkanRules::SEPTEMBER_2026;
    "what a projector's encoder takes"
    ClipOfOctober: 11_076 => 11_434, |old| old.clip = ClipRules::SEPTEMBER_2026;
    "inputs for batches that mix tokens and embeddings"
    /// A third branch of `build_inp_embd` (`llama-graph.cpp`).
    MixedBatches: 11_394 => 11_401, |old| old.mixed_batches = false;
    "how states of all sequences are gathered"
    /// `build_rs` takes the whole of `s_copy` (`llama-graph.cpp`).
    StatesGatheredOnce: 11_353 => 11_382, |old| old.gathers_states_once = false;
    "what CUDA keeps for fused routing"
    CudaRouting: 11_076 => 11_382, |old| {
        old.cuda.keeps_routing = false;
        old.cuda.state_of_96 = false;
    };
    "the states that GLM 5.3 keeps for a draft"
    GlmRollsBack: 11_269 => 11_349;
    "copies of inputs that no split reads"
    /// `ggml_backend_sched_split_graph` walks the graph's leafs too.
    UnreadInputs: 11_236 => 11_269, |old| old.rules.multiplies_unread_inputs = false;
    "what Metal fuses"
    MetalProducts: 11_138 => 11_236, |old| old.metal = MetalRules::SEPTEMBER_2026;
    "the largest context of a fit"
    FitPerStream: 11_138 => 11_236, |old| old.fits_context = FitContext::PerSequence;
    "the type that Mistral Small 4's experts are summed in"
    ExpertsInF32: 11_076 => 11_138;
    "how one-bit weights are laid out for ARM"
    OneBitRepacked: 11_065 => 11_076, |old| old.repacks_one_bit = false;
    "the largest context of a fit"
    FitPerSequence: 10_950 => 11_065, |old| old.fits_context = FitContext::PerStream;
    "the time steps of Mamba"
    MambaSteps: 10_950 => 11_065, |old| old.mamba_copies_steps = false;
    "the cache types that CUDA's flash attention reads"
    CudaMixedCaches: 10_840 => 11_065, |old| {
        old.cuda.mixed_caches = false;
        old.cuda.wide_wmma = false;
    };
    "what Metal reserves"
    MetalReserves: 10_666 => 11_065, |old| old.metal = MetalRules::AUGUST_2026;
    "what a projector's encoder takes"
    ClipOfAugust: 10_204 => 11_065, |old| old.clip = ClipRules::EARLY_AUGUST_2026;
    "what Vulkan fuses"
    VulkanFusion: 10_204 => 11_065, |old| old.vulkan = VulkanRules::EARLY_AUGUST_2026;
    "the states that Kimi K3 and Qwen 3.8 keep for a draft"
    LateRollbacks: 10_705 => 10_950;
    "how delta nets normalise queries and keys"
    DeltaNetRms: 10_796 => 10_837, |old| old.delta_net_rms = false;
    "where a split with many inputs is cut"
    /// Until then where it has as many as its table, before that is enlarged (`ggml_backend_sched_split_graph`).
    SplitInputsUncut: 10_796 => 10_837, |old| old.rules.split_inputs = SplitInputs::Grow(30);
    "what CUDA keeps for sums of experts"
    CudaExpertSums: 10_666 => 10_793, |old| old.cuda.keeps_expert_sums = false;
    "whether the fused delta rule is probed"
    DeltaNetNotProbed: 10_666 => 10_705, |old| old.probes_delta_net = true;
    "tables that are read from the file on demand"
    LazyTables: 10_666 => 10_705;
    "the shape of Mamba 2's projections"
    Mamba2Flat: 10_603 => 10_635, |old| old.mamba2_projects_flat = false;
    "clamping in place"
    ClampCopies: 10_603 => 10_635, |old| old.clamps_in_place = true;
    "how a fit measures drafts"
    /// `common_fit_extra_model` (`common/common.cpp`).
    FitDraft: 10_581 => 10_605, |old| old.fits_draft = false;
    "the largest context of a fit"
    FitBySequences: 10_581 => 10_603, |old| old.fits_context = FitContext::Trained;
    "the cache of GLM 4.5's MTP block"
    GlmMtpUncached: 10_581 => 10_603;
    "rotary positions of compressed attention"
    MlaRope: 10_549 => 10_581, |old| old.single_mla_rope = false;
    "the states that Ling 3 keeps for a draft"
    LingRollsBack: 10_549 => 10_581;
    "how LFM 2 writes its states, and which it keeps for a draft"
    Lfm2RollsBack: 10_488 => 10_549, |old| old.convolution_rows = false;
    "how Mamba 2 writes its states"
    Mamba2Rows: 10_423 => 10_488, |old| old.mamba2_rows = false;
    "the states that Nemotron H keeps for a draft"
    NemotronRollsBack: 10_423 => 10_488;
    "the rows with logits of Nemotron H"
    NemotronLastRows: 10_338 => 10_405;
    "how many inputs a split may have"
    /// `ggml_backend_sched_split_graph`.
    SplitInputsGrow: 10_241 => 10_261, |old| old.rules.split_inputs = SplitInputs::Fixed(30);
    "one cache type for compressed attention"
    MlaOneType: 10_204 => 10_261, |old| old.mla_one_type = false;
    "flash attention with a quantised V cache"
    QuantisedVForcesFlash: 10_204 => 10_261, |old| old.quantised_v_forces_flash = false;
    "MTP blocks of models that do not draft with them"
    MtpOnDemand: 10_204 => 10_261;
    "the states that DeepSeek 4 keeps for a draft"
    DeepSeek4RollsBack: 10_204 => 10_261;
    "the gate of Qwen 3 Next's attention"
    /// `models/qwen3next.cpp`.
    Qwen3NextGate: 10_237 => 10_240, |old| old.gate_reshapes = true;
    "rows of k-quants that CUDA looks up"
    CudaKQuantRows: 10_151 => 10_204, |old| old.cuda.looks_up_k_quants = false;
    "the cache types that Vulkan's flash attention reads"
    VulkanIq4: 10_151 => 10_204, |old| old.vulkan = VulkanRules::AUGUST_2026;
    "what a projector's encoder takes"
    ClipOfJuly: 9_553 => 10_204, |old| old.clip = ClipRules::AUGUST_2026;
    "ways to draft"
    MoreDrafts: 9_553 => 10_204, |old| {
        old.drafts = &[
            SpecType::None,
            SpecType::DraftSimple,
            SpecType::DraftMtp,
            SpecType::DraftEagle3,
            SpecType::NgramSimple,
            SpecType::NgramMapK,
            SpecType::NgramMapK4v,
            SpecType::NgramMod,
            SpecType::NgramCache,
        ];
        old.rolls_back_for = &[SpecType::DraftMtp];
    };
    "the rows with logits of gpt-oss"
    /// `models/openai-moe.cpp` takes them after the last norm.
    GptOssLastRows: 10_153 => 10_159;
    "the devices that attention sinks draw operations to"
    SinksStay: 10_134 => 10_152, |old| old.rules.sinks_decide = true;
    "how delta nets reshape states"
    DeltaNetStates: 10_133 => 10_152, |old| old.delta_net_reshapes = true;
    "attention heads that Mamba 2's header needs"
    Mamba2Heads: 9_756 => 10_152, |old| old.mamba2_needs_heads = true;
    "the rows with logits and the MTP blocks of Step 3.5, GLM 5 and Hy 3"
    MtpBlocksOfJuly: 9_553 => 10_133;
    "split buffers of CUDA and ROCm"
    /// 74976e1ae, b9890, removed them.
    RowSplitsRemoved: 9_889 => 9_890, |old| old.cuda_splits_rows = true;
    "the logits of LFM 2 that gives embeddings"
    /// `models/lfm2.cpp` leaves the output matrix out.
    Lfm2Embeddings: 9_757 => 9_838, |old| old.lfm2_skips_logits = false;
    "the copies of a cache that CUDA's flash attention takes"
    /// ggml-org/llama.cpp 23907. Of what cards do before, nothing was compared.
    BackendsOfJune: 9_446 => 9_553, |old| {
        old.cuda = CudaRules::MAY_2026;
        old.backends_from = Some(Release::August2026);
    };
    "the rows with logits of Gemma 4"
    GemmaLastRows: 9_446 => 9_553;
    "the outputs for which logits are reserved"
    /// ggml-org/llama.cpp 23861.
    LimitedOutputs: 9_446 => 9_467, |old| old.limits_outputs = false;
    "the type of masks"
    /// b9410 is the merge of 23764 (031ddb2e0).
    NarrowMasks: 9_409 => 9_410, |old| old.masks_in_f16 = false;
    "the margin of a fit for a draft"
    /// `load_model` in `server-context.cpp`.
    DraftInMargins: 9_297 => 9_352, |old| old.margins_for_draft = false;
    "the margin of a fit for a projector"
    /// `load_model` in `server-context.cpp`.
    ProjectorInMargins: 9_246 => 9_297, |old| old.margins_for_projector = false;
    "how delta nets reshape states"
    /// b9200 is the merge of 23198 (3e12fbdea).
    DeltaNetReshapes: 9_199 => 9_200, |old| old.delta_net_reshapes = false;
    "the rows with logits of Qwen 3.5"
    Qwen35LastRows: 9_113 => 9_200;
    "rotating values that are parts of a larger matrix"
    /// `ggml_mul_mat_aux` (`llama-graph.cpp`) makes them contiguous; before, it asserts that they are.
    RotatedCopies: 9_014 => 9_102, |old| old.copies_to_rotate = false;
    "the device of a table of embeddings per layer"
    PerLayerTableInRam: 8_684 => 8_739, |old| old.per_layer_table_in_ram = false;
    "the rotation of quantised caches with a window, and of LFM 2"
    WindowsRotated: 8_684 => 8_739, |old| old.rotates_each_cache = false;
    "the rotation of quantised caches"
    /// b8607 is of 1 April, the day on which 21038 was merged.
    Rotated: 8_606 => 8_607, |old| old.rotates_quantised = false;
    "the fused delta rule where its states are elsewhere"
    DeltaNetProbed: 8_234 => 8_305, |old| {
        old.probes_delta_net = false;
        old.fuses_delta_net_elsewhere = false;
    };
    "the fused delta rule"
    DeltaNetFused: 8_180 => 8_233, |old| old.fuses_delta_net = false;
    "inputs for embeddings"
    /// 18898 was merged between b7762 of 16 January and b7812 (a5eaa1d6a) or soon after.
    EmbeddingInputs: 7_762 => 7_815, |old| old.both_inputs = false;
    "what stays until the graph ends"
    /// 17004 was merged on 4 January; b7523 is of 24 December and b7703 of 11 January.
    ResultsKept: 7_523 => 7_703, |old| old.keeps_results = false;
    "the fit, and which layer a GPU takes first"
    /// 16653 of 15 December and 18148 of three days later; b7313 is of 7 December and b7523 of the 24th.
    Fit: 7_313 => 7_523, |old| {
        old.fits = false;
        old.output_layer_first = false;
        old.mask_rows = 64;
        old.expands_activations = true;
    };
    "the order of values and keys, and the devices that are reserved"
    /// 16884 and 17232, both of 13 November; b7003 is of 9 November and b7157 of the 26th.
    ValuesFirst: 7_003 => 7_157, |old| {
        old.values_first = false;
        old.reserves_pinned = false;
        old.cells = (1, 1);
    };
    "the cells of caches, and the number of sequences"
    /// 16812 and 16736 of the end of October; b6904 is of these days.
    Cells: 6_530 => 6_904, |old| {
        old.cells = (256, 32);
        old.slots = 1;
        old.expands_activations = false;
        old.writes_read_cache = false;
    };
}

/// What the builds of llama.cpp between two changes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct ReleaseTraits {
    /// The newest release that is not newer.
    pub name: Release,
    /// Its place among all.
    index: usize,
    /// The changes that came later, a bit each.
    later: u128,
    /// The release whose rules of backends are taken for these builds, of which only graphs were compared, on a simulated
    /// card; none if their own were read.
    pub backends_from: Option<Release>,
    /// llama-server reserves logits for one token of each sequence; otherwise for a whole ubatch (`n_outputs_max`;
    /// ggml-org/llama.cpp 23861, of 1 June 2026).
    pub limits_outputs: bool,
    /// llama-server chooses layers and context by free memory (`--fit`, ggml-org/llama.cpp 16653, of December 2025);
    /// otherwise all layers and [`CONTEXT_BEFORE_FIT`] tokens are the defaults.
    pub fits: bool,
    /// llama-server's default number of sequences: 4 with unified KV (ggml-org/llama.cpp 16736, of November 2025, read),
    /// before that one (`common/common.h`, 0.1.122).
    pub slots: u64,
    /// Rules of the scheduler.
    pub rules: SchedulerRules,
    /// Rules of the CUDA backend.
    pub cuda: CudaRules,
    /// Rules of the Vulkan backend.
    pub vulkan: VulkanRules,
    /// Rules of the Metal backend.
    pub metal: MetalRules,
    /// Rules of clip, which encodes images and sounds.
    pub clip: ClipRules,
    /// The graph has inputs for batches that mix tokens and embeddings (`llama-graph.cpp`, 0.1.161).
    pub mixed_batches: bool,
    /// Clamping is in place (`ggml_clamp` in `ggml.c`, 0.1.150).
    pub clamps_in_place: bool,
    /// The ways to draft that it knows (`--spec-type`).
    pub drafts: &'static [SpecType],
    /// The ways to draft for which recurrent states are kept as snapshots.
    pub rolls_back_for: &'static [SpecType],
    /// `--fit` measures the draft in every trial; otherwise once, at the model's full context, as a part of the margins.
    pub fits_draft: bool,
    /// llama-server adds what a draft takes to the margins of a fit that does not measure it.
    pub margins_for_draft: bool,
    /// llama-server adds what a projector takes to the margins of a fit.
    pub margins_for_projector: bool,
    /// What the largest context of `--fit` is, where none is set.
    pub fits_context: FitContext,
    /// Rotary positions of MLA's decompressed queries are applied by one operation on the tail of each head; otherwise
    /// the parts are split and concatenated (`models/deepseek2.cpp`, 0.1.150).
    pub single_mla_rope: bool,
    /// Recurrent states of all sequences are gathered by one `get_rows`; otherwise those of the batch and the others
    /// separately (`build_rs` in `llama-graph.cpp`, 0.1.150).
    pub gathers_states_once: bool,
    /// Delta nets normalise queries and keys by RMS norm and scale; otherwise by L2 norm.
    pub delta_net_rms: bool,
    /// Delta nets reshape states before they are used; the extra view prevents reuse of the tensor in place
    /// (`models/delta-net-base.cpp`, 0.1.150).
    pub delta_net_reshapes: bool,
    /// Qwen 3 Next's attention reshapes its gate, likewise (`models/qwen3next.cpp`, 0.1.154).
    pub gate_reshapes: bool,
    /// Delta nets have a fused operation (ggml-org/llama.cpp 19504 and 20340, of March 2026).
    pub fuses_delta_net: bool,
    /// The delta rule is fused over several GPUs, and with caches in RAM, too.
    pub fuses_delta_net_elsewhere: bool,
    /// Tests whether the fused delta rule runs on the device of its block; otherwise it is assumed to.
    pub probes_delta_net: bool,
    /// Mamba 2 projects the tokens of all sequences at once; otherwise sequences apart (`models/mamba-base.cpp`, b10666).
    pub mamba2_projects_flat: bool,
    /// Mamba 2 writes its states as a row for each sequence; otherwise as one row (`models/mamba-base.cpp`, b10488).
    pub mamba2_rows: bool,
    /// Mamba makes its time steps contiguous first (`models/mamba-base.cpp`, b11065).
    pub mamba_copies_steps: bool,
    /// Short convolutions write their states as a row for each sequence; otherwise as one row (`models/lfm2.cpp`, b10603).
    pub convolution_rows: bool,
    /// A quantised V cache turns flash attention on without a probe graph.
    pub quantised_v_forces_flash: bool,
    /// MLA's compressed cache requires the same type for K and V.
    pub mla_one_type: bool,
    /// Refuses Mamba 2 models: their first matrix is checked against the header's number of attention heads, which is
    /// missing in their files.
    pub mamba2_needs_heads: bool,
    /// One-bit weights have a layout of their own on ARM (`ggml-cpu/repack.cpp`, 0.1.159).
    pub repacks_one_bit: bool,
    /// Masks of flash attention are inputs of f16; otherwise of f32, which the graph converts
    /// (ggml-org/llama.cpp 23764, of 29 May 2026).
    pub masks_in_f16: bool,
    /// Quantised caches hold rotated keys and values (ggml-org/llama.cpp 21038, of 1 April 2026).
    pub rotates_quantised: bool,
    /// The graph has inputs for tokens and for embeddings at once; otherwise only for tokens (`build_inp_embd` in
    /// `llama-graph.cpp`; ggml-org/llama.cpp 18898, of January 2026).
    pub both_inputs: bool,
    /// Logits and the hidden states before them stay until the graph ends (`set_outputs` in `llama-graph.cpp`;
    /// ggml-org/llama.cpp 17004, of January 2026).
    pub keeps_results: bool,
    /// The output layer is the first to be put on a GPU; otherwise the last (`i_gpu_start` in `llama-model.cpp`, 0.1.132
    /// and 0.1.130).
    pub output_layer_first: bool,
    /// Values are computed before keys (`build_attn` in `llama-graph.cpp`; ggml-org/llama.cpp 16884, of November 2025).
    pub values_first: bool,
    /// Graphs are reserved with the devices that the model's graph code sets; otherwise the scheduler loses them even when
    /// it allocates (ggml-org/llama.cpp 17232, of 13 November 2025).
    pub reserves_pinned: bool,
    /// Caches have a multiple of so many cells, with flash attention and without (`create_memory` in `llama-model.cpp`,
    /// 0.1.122 and 0.1.123; ggml-org/llama.cpp 16812 and 17046).
    pub cells: (u64, u64),
    /// Masks have a multiple of so many rows, and batches at least so many tokens (`GGML_KQ_MASK_PAD`, 0.1.130).
    pub mask_rows: u64,
    /// Activations come into the graph before what else their sum needs (`build_ffn` and `build_moe_ffn` in
    /// `llama-graph.cpp`, 0.1.123 and 0.1.130; ggml-org/llama.cpp 16630, until 17633 of 1 December 2025).
    pub expands_activations: bool,
    /// Writing rows into a cache also reads it (`ggml_set_rows` in `ggml.c`, 0.1.123).
    pub writes_read_cache: bool,
    /// The table of embeddings per layer of Gemma 3n and 4 belongs to the input layer, which is in RAM; otherwise to the
    /// output layer.
    pub per_layer_table_in_ram: bool,
    /// A quantised cache is rotated even if rows differ between blocks, and that with a window by matrices of its own.
    pub rotates_each_cache: bool,
    /// Values that are parts of a larger matrix are copied before they are rotated; otherwise the program ends.
    pub copies_to_rotate: bool,
    /// Embeddings of LFM 2 are given without logits (`models/lfm2.cpp`, b9838).
    pub lfm2_skips_logits: bool,
    /// Delta nets project the tokens of all sequences at once, and beta is not copied; otherwise sequences apart (read in
    /// `llama-cpp-sys-4` 0.11.0).
    pub delta_net_flat: bool,
    /// Rows of tables of embeddings are looked up before all else (ggml-org/llama.cpp 30160).
    pub rows_first: bool,
    /// There may be a cache on GPUs for experts that are in RAM (`--moe-cache-mib`).
    pub moe_cache: bool,
    /// Without caches, keys, values and masks have a multiple of 256 rows (`build_attn_inp_no_cache` in `llama-graph.cpp`,
    /// read in `llama-cpp-sys-4` 0.11.0).
    pub pads_uncached: bool,
    /// Graphs that may give the last hidden states of all tokens to a draft keep them only if it reads them; otherwise always
    /// (`crop_before_nextn` in `llama-graph.h`, `llama-cpp-sys-4` 0.11.0).
    pub crops_unless_drafting: bool,
    /// CUDA has buffers for matrices that are split by rows.
    pub cuda_splits_rows: bool,
}

/// The largest context that `--fit` begins with, in tokens over all sequences (`common_params_fit_impl` in `fit.cpp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitContext {
    /// The context that the model was trained with (0.1.150). The least context and its steps are not per sequence either.
    Trained,
    /// That for each sequence, even if they share their cells (0.1.159).
    PerSequence,
    /// That for each sequence with cells of its own (0.1.161).
    PerStream,
}

/// The default context before `--fit`, in tokens (`common/common.h`, 0.1.130).
pub const CONTEXT_BEFORE_FIT: u64 = 4096;

const NEWEST: ReleaseTraits = ReleaseTraits {
    name: Release::ALL[0],
    index: 0,
    later: 0,
    backends_from: None,
    limits_outputs: true,
    fits: true,
    slots: 4,
    rules: SchedulerRules { sinks_decide: false, split_inputs: SplitInputs::Unlimited, multiplies_unread_inputs: true },
    cuda: CudaRules::NEWEST,
    vulkan: VulkanRules::NOVEMBER_2026,
    metal: MetalRules::NOVEMBER_2026,
    clip: ClipRules::NOVEMBER_2026,
    mixed_batches: true,
    clamps_in_place: false,
    drafts: &SpecType::ALL,
    rolls_back_for: &[SpecType::DraftMtp, SpecType::DraftEagle3, SpecType::DraftDflash, SpecType::DraftDspark],
    fits_draft: true,
    margins_for_draft: true,
    margins_for_projector: true,
    fits_context: FitContext::PerStream,
    single_mla_rope: true,
    gathers_states_once: true,
    delta_net_rms: true,
    delta_net_reshapes: false,
    gate_reshapes: false,
    fuses_delta_net: true,
    fuses_delta_net_elsewhere: true,
    probes_delta_net: false,
    mamba2_projects_flat: true,
    mamba2_rows: true,
    mamba_copies_steps: true,
    convolution_rows: true,
    quantised_v_forces_flash: true,
    mla_one_type: true,
    mamba2_needs_heads: false,
    repacks_one_bit: true,
    masks_in_f16: true,
    rotates_quantised: true,
    both_inputs: true,
    keeps_results: true,
    output_layer_first: true,
    values_first: true,
    reserves_pinned: true,
    cells: (256, 256),
    mask_rows: 1,
    expands_activations: false,
    writes_read_cache: true,
    per_layer_table_in_ram: true,
    rotates_each_cache: true,
    copies_to_rotate: true,
    lfm2_skips_logits: true,
    delta_net_flat: true,
    rows_first: true,
    moe_cache: true,
    pads_uncached: true,
    crops_unless_drafting: true,
    cuda_splits_rows: false,
};

/// The rules of parts and backends that a plan reads: those of others decide nothing in it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is of a part of its own")]
pub(super) struct RulesRead {
    clip: bool,
    cuda: bool,
    vulkan: bool,
    metal: bool,
}

impl RulesRead {
    /// Those of what is loaded on a machine.
    pub fn of(machine: &Machine, settings: &Settings) -> Self {
        let has = |backends: &[Backend]| machine.gpus.iter().any(|gpu| backends.contains(&gpu.backend));
        Self {
            clip: settings.projector.is_some(),
            cuda: has(&[Backend::Cuda, Backend::Rocm]),
            vulkan: has(&[Backend::Vulkan]),
            metal: has(&[Backend::Metal]),
        }
    }
}

/// The number of sets of traits: after each change, and before the first.
const SETS: usize = Change::ALL.len() + 1;

/// The traits of builds, oldest first: by the changes that are known to be in them, and, from [`SETS`] on, by those that may
/// be, because their bracket has begun.
static TABLE: [ReleaseTraits; 2 * SETS] = {
    let mut table = [NEWEST; 2 * SETS];
    let mut index = 0;
    while index < table.len() {
        let at_most = index >= SETS;
        let changes = index % SETS;
        // newest first
        let mut change = 0;
        while change < Change::ALL.len() {
            if RANKS[at_most as usize][change] >= changes {
                Change::ALL[change].undo(&mut table[index]);
            }
            change += 1;
        }
        table[index].index = index;
        table[index].name = Release::until(next(changes, at_most));
        index += 1;
    }
    table
};

/// The build at which a change counts: the first that has it, or the first that may.
const fn begins(change: Change, at_most: bool) -> u64 {
    let (old, new) = change.builds();
    if at_most { old.0 + 1 } else { new.0 }
}

/// How many changes come before each: by what is known to be in builds, and by what may be.
const RANKS: [[usize; Change::ALL.len()]; 2] = [ranks(false), ranks(true)];

const fn ranks(at_most: bool) -> [usize; Change::ALL.len()] {
    let mut ranks = [0; Change::ALL.len()];
    let mut one = 0;
    while one < ranks.len() {
        let own = begins(Change::ALL[one], at_most);
        let mut other = 0;
        while other < ranks.len() {
            let its = begins(Change::ALL[other], at_most);
            // of two at once the one that is listed last is the older
            if its < own || (its == own && other > one) {
                ranks[one] += 1;
            }
            other += 1;
        }
        one += 1;
    }
    ranks
}

/// The build at which the change comes that so many come before; after the last one, none.
const fn next(changes: usize, at_most: bool) -> Build {
    let mut change = 0;
    while change < Change::ALL.len() {
        if RANKS[at_most as usize][change] == changes {
            return Build(begins(Change::ALL[change], at_most));
        }
        change += 1;
    }
    Build(u64::MAX)
}

impl ReleaseTraits {
    /// The number of sets of traits.
    pub(super) const COUNT: usize = 2 * SETS;

    /// The traits of a build, or of the one that a release stands for: of the changes under way those before them.
    pub fn of(build: impl Into<Build>) -> &'static Self {
        Self::with(build.into(), false)
    }

    /// The same with the changes under way, if there are any that this build lies within.
    pub(super) fn once_changed(build: Build) -> Option<&'static Self> {
        Change::within(build).next().is_some().then(|| Self::with(build, true))
    }

    fn with(build: Build, at_most: bool) -> &'static Self {
        let done = Change::ALL.iter().filter(|change| begins(**change, at_most) <= build.0).count();
        &TABLE[done + if at_most { SETS } else { 0 }]
    }

    /// Whether an architecture is planned alike by these and other traits.
    fn are_like(&self, other: &Self, architecture: &Architecture, read: RulesRead) -> bool {
        let other_read = Self {
            name: self.name,
            index: self.index,
            later: self.later,
            clip: if read.clip { other.clip } else { self.clip },
            cuda: if read.cuda { other.cuda } else { self.cuda },
            vulkan: if read.vulkan { other.vulkan } else { self.vulkan },
            metal: if read.metal { other.metal } else { self.metal },
            ..*other
        };
        other_read == *self && architecture.builds().iter().all(|builds| builds.contain(self) == builds.contain(other))
    }

    /// The changes that a build lies within and that decide how an architecture is planned where these rules are read;
    /// `self` has them all.
    pub(super) fn load_builder(&self, build: Build, architecture: &Architecture, read: RulesRead) -> Vec<Change> {
        let decides = |change: &Change| {
            let mut without = *self;
            change.undo(&mut without);
            !without.are_like(self, architecture, read)
        };
        Change::within(build).filter(decides).collect()
    }

    /// Its place among all sets of traits.
    pub(super) const fn index(&self) -> usize {
        self.index
    }

    /// Whether a change is in it.
    pub(super) const fn has(&self, change: Change) -> bool {
        self.later & (1 << change as u32) == 0
    }
}

impl Change {
    /// Those that a build lies within: it may have them or not.
    pub fn within(build: Build) -> impl Iterator<Item = Self> {
        let is_within = move |change: &Self| {
            let (old, new) = change.builds();
            old < build && build < new
        };
        Self::ALL.into_iter().filter(is_within)
    }
}

/// What a release of clip does its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
pub struct ClipRules {
    /// Compared with what clip took.
    pub compared: bool,
    /// Both halves of a head are rotated in place; otherwise each by itself, and then joined.
    pub rotates_in_place: bool,
    /// Graphs are for several images at once.
    pub batches: bool,
    /// The dummy image has no more tokens than `--image-max-tokens`.
    pub dummy_within_limit: bool,
    /// Least and most tokens of Gemma 4's images.
    pub gemma4_tokens: (u64, u64),
    /// Rows are padded at their start; otherwise at their end and then rolled.
    pub pads_at_start: bool,
    /// The windows of a convolution have the type of its kernel; otherwise f16, or f32 for bf16.
    pub windows_like_kernel: bool,
    /// llama-server lowers the most tokens of an image to an ubatch where the model reads images at once.
    pub images_within_ubatch: bool,
}

impl ClipRules {
    /// Release 2026-11 (0.1.161).
    pub const NOVEMBER_2026: Self = Self {
        compared: true,
        rotates_in_place: true,
        batches: true,
        dummy_within_limit: true,
        gemma4_tokens: (70, 1120),
        pads_at_start: true,
        windows_like_kernel: false,
        images_within_ubatch: true,
    };
    /// Release 2026-09 (0.1.159).
    pub const SEPTEMBER_2026: Self =
        Self { dummy_within_limit: false, pads_at_start: false, images_within_ubatch: false, ..Self::NOVEMBER_2026 };
    /// Release 2026-08-05 (0.1.154), by its source; but a log of b10488 has the 64.49 MiB of Ministral 3's projector that
    /// only rotation in place takes here.
    pub const EARLY_AUGUST_2026: Self = Self { compared: false, gemma4_tokens: (40, 280), ..Self::SEPTEMBER_2026 };
    /// Release 2026-08 (0.1.150).
    pub const AUGUST_2026: Self = Self {
        compared: false,
        rotates_in_place: false,
        batches: false,
        dummy_within_limit: false,
        gemma4_tokens: (40, 280),
        pads_at_start: false,
        windows_like_kernel: true,
        images_within_ubatch: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_listed_newest_first() {
        for pair in Change::ALL.windows(2) {
            assert!(pair[0].builds().1 >= pair[1].builds().1, "{pair:?}");
        }
        for change in Change::ALL {
            let (old, new) = change.builds();
            assert!(
                old < new && !ReleaseTraits::of(old).has(change) && ReleaseTraits::of(new).has(change),
                "{change:?}"
            );
        }
    }

    #[test]
    fn releases_lie_within_no_change_and_differ() {
        for release in Release::ALL {
            let within: Vec<Change> = Change::within(release.build()).collect();
            assert!(within.is_empty(), "{release}: {within:?}");
            assert_eq!(ReleaseTraits::of(release).name, release);
        }
    }

    #[test]
    fn builds_within_a_change_have_both_sets_of_traits() {
        for change in Change::ALL {
            let (old, new) = change.builds();
            if old.0 + 1 == new.0 {
                continue;
            }
            let build = Build(old.0 + 1);
            assert!(!ReleaseTraits::of(build).has(change), "{change:?}");
            assert!(ReleaseTraits::once_changed(build).unwrap().has(change), "{change:?}");
        }
        assert!(ReleaseTraits::once_changed(Release::default().build()).is_none());
    }
}
