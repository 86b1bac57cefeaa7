//! What each release of llama.cpp does its own way.
//!
//! To add a release: compare its sources with those of the newest one known here (`llama-graph.cpp`, `models/*.cpp`,
//! `ggml-backend.cpp`, `ggml-alloc.c`, `llama-context.cpp`, `llama-kv-cache.cpp`, `common/fit.cpp`); give every
//! difference that moves a byte a trait below, with the old behaviour where the older releases have it; add the release
//! to [`Release`], its row to [`TABLE`] and its figures to `tests/llama_cpp/`. Code asks for a trait, never for a release.

use super::architecture::Architecture;
use super::architecture::Architecture as A;
use crate::engine::ggml::schedule::SchedulerRules;
use crate::settings::Release;

/// A release's traits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct ReleaseTraits {
    /// Whose traits these are.
    pub name: Release,
    /// The package that its source was read in: `llama-cpp-sys-2 0.1.161`.
    pub package: &'static str,
    /// How graphs are scheduled.
    pub rules: SchedulerRules,
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

/// Every release's traits, in the order of [`Release::ALL`].
pub const TABLE: [ReleaseTraits; Release::ALL.len()] = [
    ReleaseTraits {
        name: Release::November2026,
        package: "llama-cpp-sys-2 0.1.161",
        rules: SchedulerRules { sinks_decide: false, most_inputs: None, multiplies_unread_inputs: true },
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
    },
    ReleaseTraits {
        name: Release::August2026,
        package: "llama-cpp-sys-2 0.1.150",
        rules: SchedulerRules { sinks_decide: true, most_inputs: Some(30), multiplies_unread_inputs: false },
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
    },
];

impl ReleaseTraits {
    /// Those of `release`.
    pub fn of(release: Release) -> &'static Self {
        &TABLE[release as usize]
    }
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
