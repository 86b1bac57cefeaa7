//! Lines of a context: its parameters and its caches.

use std::collections::BTreeMap;

use serde::Serialize;

use super::said::Said;
use super::settings::{ObservedSettings, flash_attn};
use super::{Buffers, Mib, Term, scan};
use crate::settings::CacheType;

/// A context: the target's, or a draft's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedContext {
    /// Its own parameters.
    pub settings: ObservedSettings,
    /// KV caches, recurrent state, outputs and compute buffers by device, in MiB; of several reservations the last.
    pub observed: Buffers,
    /// Sizes of its caches as lines of their own; a window's cache has one for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheSize>,
    /// Compute buffers before they were reserved anew, by device, where they differ, in MiB.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved_before: BTreeMap<String, Mib>,
    /// The compute buffers of a pipeline were refused, and reserved again without one.
    #[serde(skip)]
    pub gave_up_pipeline: bool,
}

impl ObservedContext {
    /// Whether its compute buffers are told.
    pub fn computes(&self) -> bool {
        self.has(Term::Compute)
    }

    pub(super) fn has(&self, term: Term) -> bool {
        self.observed.values().any(|terms| terms.contains_key(&term))
    }

    /// Forgets a reservation, as the next line begins another.
    pub(super) fn release_compute(&mut self) {
        self.reserved_before.clear();
        for (device, terms) in &mut self.observed {
            if let Some(mib) = terms.remove(&Term::Compute) {
                self.reserved_before.insert(device.clone(), mib);
            }
        }
        self.observed.retain(|_, terms| !terms.is_empty());
    }
}

/// A cache's own line: `llama_kv_cache: size = 2176.00 MiB (131072 cells, 8 layers, 1/1 seqs), K (q8_0): …`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheSize {
    /// KV cache or recurrent state.
    pub term: Term,
    /// Its size over all devices.
    pub size: Mib,
    /// Tokens, or recurrent states.
    pub cells: u64,
    /// Layers with an own cache.
    pub layers: u64,
    /// Sequences, where the line has them.
    pub sequences: Option<u64>,
    /// Further states of each sequence, where the line has them.
    pub saved_states: Option<u64>,
    /// Type of K (`q8_0`) or of R, and its part of the size.
    pub first: Option<(String, Mib)>,
    /// Type of V or of S, and its part of the size.
    pub second: Option<(String, Mib)>,
}

impl CacheSize {
    /// Types of K and V, of a KV cache.
    pub fn types(&self) -> (Option<CacheType>, Option<CacheType>) {
        let of = |part: &Option<(String, Mib)>| part.as_ref().and_then(|(name, _)| name.parse().ok());
        match self.term {
            Term::Kv => (of(&self.first), of(&self.second)),
            _ => (None, None),
        }
    }
}

/// A line with the size of a whole cache.
pub(super) fn cache(text: &str) -> Option<CacheSize> {
    let (function, rest) = text.split_once(": size =")?;
    let term = if function.ends_with("llama_memory_recurrent") {
        Term::Rs
    } else if function.contains("llama_kv_cache") {
        Term::Kv
    } else {
        return None;
    };
    let (size, rest) = scan::mib(rest)?;
    let (cells, rest) = scan::count(rest.trim_start().strip_prefix('(')?)?;
    let (layers, rest) = scan::count(scan::after(rest, "cells,")?)?;
    let sequences = scan::after(rest, "layers,").and_then(scan::count);
    let saved_states = sequences.and_then(|(_, rest)| scan::count(scan::after(rest, "seqs")?));
    let saved_states = saved_states.filter(|(_, rest)| rest.trim_start().starts_with("rs_seq")).map(|(count, _)| count);
    let sequences = sequences.map(|(count, _)| count);
    let mut parts = rest.split(" (").skip(1).filter_map(part);
    Some(CacheSize { term, size, cells, layers, sequences, saved_states, first: parts.next(), second: parts.next() })
}

/// `q8_0): 1088.00 MiB`
fn part(text: &str) -> Option<(String, Mib)> {
    let (name, rest) = text.split_once("):")?;
    Some((scan::clip(name, 16), scan::mib(rest)?.0))
}

/// A parameter that a context prints when it is made.
pub(super) fn parameter(text: &str) -> Option<Said<'_>> {
    const FUNCTIONS: [&str; 3] = ["llama_context: ", "llama_init_from_model: ", "llama_new_context_with_model: "];
    let rest = FUNCTIONS.iter().find_map(|function| scan::after(text, function))?;
    if rest.starts_with("constructing") {
        return Some(Said::Constructing);
    }
    let Some((key, value)) = rest.split_once(" = ") else {
        let rest = rest.trim_start().strip_prefix("n_ctx_seq (")?;
        return rest.contains("n_ctx_train").then_some(Said::Parameter("n_ctx_seq and n_ctx_train", rest));
    };
    let key = key.trim();
    let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(Said::Parameter(key, value.trim()))
}

/// Enters a parameter's value.
pub(super) fn set(settings: &mut ObservedSettings, key: &str, value: &str) {
    let count = || scan::count(value).map(|(count, _)| count);
    match key {
        "n_ctx" => settings.n_ctx = count(),
        "n_ctx_seq" | "n_ctx_per_seq" => settings.n_ctx_seq = count(),
        "n_seq_max" => settings.n_seq_max = count(),
        "n_batch" => settings.n_batch = count(),
        "n_ubatch" => settings.n_ubatch = count(),
        "n_outputs_max" => settings.n_outputs_max = count(),
        // `n_tokens =  512, n_seqs =  1, n_outputs =  512`, of the largest graph that is reserved
        "reserved graph" => {
            settings.n_ubatch = settings.n_ubatch.max(scan::count_after(value, "n_tokens ="));
            settings.n_outputs_max = settings.n_outputs_max.max(scan::count_after(value, "n_outputs ="));
        }
        "n_rs_seq" => settings.n_rs_seq = count(),
        "flash_attn" => settings.flash_attn = flash_attn(value),
        "kv_unified" => settings.kv_unified = value.trim_end_matches(|c: char| !c.is_alphanumeric()).parse().ok(),
        // `n_ctx_seq (32768) < n_ctx_train (262144)`
        "n_ctx_seq and n_ctx_train" => {
            settings.n_ctx_seq = settings.n_ctx_seq.or(count());
            settings.n_ctx_train = scan::count_after(value, "n_ctx_train (");
        }
        _ => {}
    }
}

/// Whether a parameter is the first of a context's.
pub(super) fn is_first(key: &str) -> bool {
    matches!(key, "n_seq_max" | "n_ctx")
}
