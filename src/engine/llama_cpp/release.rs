//! Differences between releases of llama.cpp.
//!
//! To add a release: compare its sources with those of the newest release here (`llama-graph.cpp`, `models/*.cpp`,
//! `ggml-backend.cpp`, `ggml-alloc.c`, `llama-context.cpp`, `llama-kv-cache.cpp`, `common/fit.cpp`); add a trait below
//! for every difference that changes a byte, with the old behaviour for older releases, or, where it is one of some
//! architectures, a column of theirs (`architectures.rs`); add the release to [`Release`],
//! its row, which starts from its neighbour's, to [`TABLE`] and its figures to `tests/llama_cpp/`. Code tests traits, never releases.

use crate::engine::ggml::backend::cuda::CudaRules;
use crate::engine::ggml::backend::metal::MetalRules;
use crate::engine::ggml::backend::vulkan::VulkanRules;
use crate::engine::ggml::schedule::SchedulerRules;
use crate::settings::{Release, SpecType};

/// Some releases in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    /// The newest and the oldest.
    ends: Option<(Release, Release)>,
}

impl Releases {
    /// Not one.
    pub const NONE: Self = Self { ends: None };
    /// Every one.
    pub const ALL: Self = Self::since(Release::ALL[Release::ALL.len() - 1]);

    /// `oldest` and those after it.
    pub const fn since(oldest: Release) -> Self {
        Self { ends: Some((Release::ALL[0], oldest)) }
    }

    /// `newest` and those before it.
    pub const fn until(newest: Release) -> Self {
        Self { ends: Some((newest, Release::ALL[Release::ALL.len() - 1])) }
    }

    /// `one` by itself.
    pub const fn only(one: Release) -> Self {
        Self { ends: Some((one, one)) }
    }

    /// Whether this one is among them.
    pub fn contain(self, release: Release) -> bool {
        self.ends.is_some_and(|(newest, oldest)| newest.is_from(release) && release.is_from(oldest))
    }
}

/// A release's traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct ReleaseTraits {
    /// The release.
    pub name: Release,
    /// The package with its source, or a build: `llama-cpp-sys-2 0.1.161`.
    pub package: &'static str,
    /// The release whose rules of backends are taken for this one's, of which only graphs were compared, on a simulated
    /// card; none if its own were read.
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
    /// Tests whether the fused delta rule runs on the device of its block; otherwise it is assumed to.
    pub probes_delta_net: bool,
    /// State-space blocks use matrices with one row per sequence, made contiguous first; otherwise separate sequences
    /// and flat rows.
    pub state_space_as_rows: bool,
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

/// The newest.
const NOVEMBER_2026: ReleaseTraits = ReleaseTraits {
    name: Release::November2026,
    package: "llama-cpp-sys-2 0.1.161",
    backends_from: None,
    limits_outputs: true,
    fits: true,
    slots: 4,
    rules: SchedulerRules { sinks_decide: false, max_split_inputs: None, multiplies_unread_inputs: true },
    cuda: CudaRules::NOVEMBER_2026,
    vulkan: VulkanRules::NOVEMBER_2026,
    metal: MetalRules::NOVEMBER_2026,
    clip: ClipRules::NOVEMBER_2026,
    mixed_batches: true,
    clamps_in_place: false,
    drafts: &SpecType::ALL,
    rolls_back_for: &[SpecType::DraftMtp, SpecType::DraftEagle3, SpecType::DraftDflash, SpecType::DraftDspark],
    fits_draft: true,
    fits_context: FitContext::PerStream,
    single_mla_rope: true,
    gathers_states_once: true,
    delta_net_rms: true,
    delta_net_reshapes: false,
    gate_reshapes: false,
    fuses_delta_net: true,
    probes_delta_net: false,
    state_space_as_rows: true,
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
};

/// What differs from the newest.
const SEPTEMBER_2026: ReleaseTraits = ReleaseTraits {
    name: Release::September2026,
    package: "llama-cpp-sys-2 0.1.159",
    rules: SchedulerRules { sinks_decide: false, max_split_inputs: None, multiplies_unread_inputs: false },
    cuda: CudaRules::SEPTEMBER_2026,
    vulkan: VulkanRules::SEPTEMBER_2026,
    metal: MetalRules::SEPTEMBER_2026,
    clip: ClipRules::SEPTEMBER_2026,
    mixed_batches: false,
    fits_context: FitContext::PerSequence,
    gathers_states_once: false,
    ..NOVEMBER_2026
};

/// What differs from the one after it. The table of split inputs, which 0.1.154 cannot enlarge and 0.1.155 can, is taken
/// for one that can be, because builds between the two are planned with this row.
const EARLY_AUGUST_2026: ReleaseTraits = ReleaseTraits {
    name: Release::EarlyAugust2026,
    package: "llama-cpp-sys-2 0.1.154",
    rules: SchedulerRules { sinks_decide: false, max_split_inputs: None, multiplies_unread_inputs: false },
    cuda: CudaRules::EARLY_AUGUST_2026,
    vulkan: VulkanRules::EARLY_AUGUST_2026,
    metal: MetalRules::AUGUST_2026,
    clip: ClipRules::EARLY_AUGUST_2026,
    clamps_in_place: true,
    fits_draft: false,
    fits_context: FitContext::Trained,
    single_mla_rope: false,
    delta_net_rms: false,
    gate_reshapes: true,
    probes_delta_net: true,
    state_space_as_rows: false,
    quantised_v_forces_flash: false,
    mla_one_type: false,
    repacks_one_bit: false,
    ..SEPTEMBER_2026
};

/// What differs from the one after it.
const AUGUST_2026: ReleaseTraits = ReleaseTraits {
    name: Release::August2026,
    package: "llama-cpp-sys-2 0.1.150",
    rules: SchedulerRules { sinks_decide: true, max_split_inputs: Some(30), multiplies_unread_inputs: false },
    cuda: CudaRules::AUGUST_2026,
    vulkan: VulkanRules::AUGUST_2026,
    clip: ClipRules::AUGUST_2026,
    drafts: &[
        SpecType::None,
        SpecType::DraftSimple,
        SpecType::DraftMtp,
        SpecType::DraftEagle3,
        SpecType::NgramSimple,
        SpecType::NgramMapK,
        SpecType::NgramMapK4v,
        SpecType::NgramMod,
        SpecType::NgramCache,
    ],
    rolls_back_for: &[SpecType::DraftMtp],
    delta_net_reshapes: true,
    mamba2_needs_heads: true,
    ..EARLY_AUGUST_2026
};

/// What differs from the one after it, by its source: nothing of those three days was measured.
const MAY_2026: ReleaseTraits = ReleaseTraits {
    name: Release::May2026,
    package: "b9410",
    limits_outputs: false,
    cuda: CudaRules::MAY_2026,
    ..TAKEN_FROM_AUGUST_2026
};

/// Graphs of older releases were compared on a simulated card only.
const TAKEN_FROM_AUGUST_2026: ReleaseTraits = ReleaseTraits { backends_from: Some(Release::August2026), ..AUGUST_2026 };

/// What differs from the one after it, by its source: nothing of these two weeks was measured.
const MIDDLE_OF_MAY_2026: ReleaseTraits =
    ReleaseTraits { name: Release::MiddleOfMay2026, package: "b9200", masks_in_f16: false, ..MAY_2026 };

/// What differs from the one after it, besides what Qwen 3.5 keeps for its draft.
const APRIL_2026: ReleaseTraits = ReleaseTraits {
    name: Release::April2026,
    package: "llama-cpp-sys-2 0.1.146",
    delta_net_reshapes: false,
    ..MIDDLE_OF_MAY_2026
};

/// What differs from the one after it, by its source: nothing of these two weeks was measured.
const MIDDLE_OF_MARCH_2026: ReleaseTraits =
    ReleaseTraits { name: Release::MiddleOfMarch2026, package: "b8333", rotates_quantised: false, ..APRIL_2026 };

/// What differs from the one after it.
const MARCH_2026: ReleaseTraits = ReleaseTraits {
    name: Release::March2026,
    package: "llama-cpp-sys-2 0.1.141",
    fuses_delta_net: false,
    probes_delta_net: false,
    ..MIDDLE_OF_MARCH_2026
};

/// What differs from the one after it.
const JANUARY_2026: ReleaseTraits =
    ReleaseTraits { name: Release::January2026, package: "llama-cpp-sys-2 0.1.132", both_inputs: false, ..MARCH_2026 };

/// What differs from the one after it, by its source: nothing of these weeks was measured.
const DECEMBER_2025: ReleaseTraits =
    ReleaseTraits { name: Release::December2025, package: "b7500", keeps_results: false, ..JANUARY_2026 };

/// What differs from the one after it.
const LATE_NOVEMBER_2025: ReleaseTraits = ReleaseTraits {
    name: Release::LateNovember2025,
    package: "llama-cpp-sys-2 0.1.130",
    output_layer_first: false,
    mask_rows: 64,
    expands_activations: true,
    fits: false,
    ..DECEMBER_2025
};

/// What differs from the one after it.
const NOVEMBER_2025: ReleaseTraits = ReleaseTraits {
    name: Release::November2025,
    package: "llama-cpp-sys-2 0.1.123",
    values_first: false,
    reserves_pinned: false,
    cells: (1, 1),
    ..LATE_NOVEMBER_2025
};

/// What differs from the one after it.
const SEPTEMBER_2025: ReleaseTraits = ReleaseTraits {
    name: Release::September2025,
    package: "llama-cpp-sys-2 0.1.122",
    writes_read_cache: false,
    expands_activations: false,
    cells: (256, 32),
    slots: 1,
    ..NOVEMBER_2025
};

/// The traits of all releases, in the order of [`Release::ALL`].
pub const TABLE: [ReleaseTraits; Release::ALL.len()] = [
    NOVEMBER_2026,
    SEPTEMBER_2026,
    EARLY_AUGUST_2026,
    AUGUST_2026,
    MAY_2026,
    MIDDLE_OF_MAY_2026,
    APRIL_2026,
    MIDDLE_OF_MARCH_2026,
    MARCH_2026,
    JANUARY_2026,
    DECEMBER_2025,
    LATE_NOVEMBER_2025,
    NOVEMBER_2025,
    SEPTEMBER_2025,
];

impl ReleaseTraits {
    /// The traits of `release`.
    pub fn of(release: Release) -> &'static Self {
        &TABLE[release as usize]
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
    fn every_release_has_its_row() {
        assert_eq!(TABLE.map(|traits| traits.name), Release::ALL);
        assert!(Release::ALL.iter().all(|&release| ReleaseTraits::of(release).name == release));
    }
}
