//! llama.cpp's releases: what each does its own way, by name.
//!
//! To add a release: compare its sources with those of the newest one known here (`llama-graph.cpp`, `models/*.cpp`,
//! `ggml-backend.cpp`, `ggml-alloc.c`, `llama-context.cpp`, `llama-kv-cache.cpp`, `common/fit.cpp`); give every
//! difference that moves a byte a trait below, with the old behaviour where the older releases have it; add the release
//! to [`Release::ALL`] and its figures to `tests/llama_cpp/`. Code asks for a trait, never for a release.

use std::fmt;
use std::str::FromStr;

use super::architecture::Architecture;
use super::architecture::Architecture as A;
use crate::engine::ggml::schedule::Rules;

/// A release and its traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Release {
    /// `2026-11`.
    pub name: &'static str,
    /// The package that its source was read in: `llama-cpp-sys-2 0.1.161`.
    pub package: &'static str,
    /// How graphs are scheduled.
    pub rules: Rules,
    /// A batch may mix tokens and embeddings; the graph holds that third way in.
    pub mixed_batches: bool,
    /// A limit on values is written over them.
    pub clamps_in_place: bool,
    /// Whose last block computes every token, for a drafting model to read; else only those whose logits are wanted.
    pub keeps_last_rows: &'static [Architecture],
    /// Whose drafting blocks are loaded with the model although nothing in the graph needs them.
    pub loads_drafts: &'static [Architecture],
    /// Where the end of a query is rotated, that happens in one operation; else its parts are joined afterwards.
    pub rotates_tails: bool,
    /// Rows of recurrent states are gathered at once; else those of the batch and the others apart.
    pub gathers_states_at_once: bool,
    /// Delta nets normalise by the root mean square and a factor; else by length.
    pub delta_net_rms: bool,
    /// Delta nets look at states, and Qwen 3 Next's attention at its gate, in another shape before they use them, and
    /// such a look keeps its tensor's bytes from being reused.
    pub delta_net_looks: bool,
    /// Whether the fused delta rule runs where its block is gets tried; else it is taken for granted.
    pub probes_delta_net: bool,
    /// State-space blocks multiply and store matrices, with gaps closed first; else sequences apart and flat rows.
    pub state_space_as_rows: bool,
    /// A packed V cache turns flash attention on without a trial.
    pub packed_v_needs_no_trial: bool,
    /// MLA's one cache needs one type for K and V.
    pub mla_one_type: bool,
    /// Mamba 2's first matrix is expected to be as wide as the header's attention heads ask, of which its files name none;
    /// they are refused.
    pub mamba2_needs_heads: bool,
}

impl Release {
    /// The newest first.
    pub const ALL: [Self; 2] = [Self::NOVEMBER_2026, Self::AUGUST_2026];

    /// `llama-cpp-sys-2` 0.1.161.
    pub const NOVEMBER_2026: Self = Self {
        name: "2026-11",
        package: "llama-cpp-sys-2 0.1.161",
        rules: Rules { sinks_decide: false, most_inputs: None, multiplies_unread_inputs: true },
        mixed_batches: true,
        clamps_in_place: false,
        keeps_last_rows: &[A::Gemma4, A::GptOss, A::NemotronH, A::Qwen3Next, A::Qwen35, A::Qwen35Moe],
        loads_drafts: &[],
        rotates_tails: true,
        gathers_states_at_once: true,
        delta_net_rms: true,
        delta_net_looks: false,
        probes_delta_net: false,
        state_space_as_rows: true,
        packed_v_needs_no_trial: true,
        mla_one_type: true,
        mamba2_needs_heads: false,
    };

    /// `llama-cpp-sys-2` 0.1.150.
    pub const AUGUST_2026: Self = Self {
        name: "2026-08",
        package: "llama-cpp-sys-2 0.1.150",
        rules: Rules { sinks_decide: true, most_inputs: Some(30), multiplies_unread_inputs: false },
        mixed_batches: false,
        clamps_in_place: true,
        keeps_last_rows: &[A::Gemma4, A::Qwen35, A::Qwen35Moe],
        loads_drafts: &[A::Qwen35, A::Qwen35Moe],
        rotates_tails: false,
        gathers_states_at_once: false,
        delta_net_rms: false,
        delta_net_looks: true,
        probes_delta_net: true,
        state_space_as_rows: false,
        packed_v_needs_no_trial: false,
        mla_one_type: false,
        mamba2_needs_heads: true,
    };
}

impl Default for Release {
    /// The newest.
    fn default() -> Self {
        Self::NOVEMBER_2026
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|release| release.name == text.trim()).ok_or_else(|| {
            let names = Self::ALL.map(|release| release.name).join(" or ");
            format!("unknown release '{text}': use {names}")
        })
    }
}
