//! Lines of contexts and slots.

use crate::observed::hole::holes;
use crate::observed::kind::Kind;
use crate::observed::row::{Row, patterns};

/// Lines of a new context, and of a server's slots.
pub(super) const ROWS: &[Row] = patterns! {
    /// llama_context: constructing llama_context
    "llama_context: constructing" => Kind::Part, |now| now.begin_context();
    /// llama_context: n_ctx_seq (32768) < n_ctx_train (262144) -- the full capacity of the model will not be utilized
    /// llama_init_from_model: n_ctx_seq (4096) < n_ctx_train (131072)
    /// llama_new_context_with_model: n_ctx_seq (4096) < n_ctx_train (131072)
    "llama_context: n_ctx_seq ({}){}n_ctx_train ({})" | "llama_init_from_model: n_ctx_seq ({}){}n_ctx_train ({})"
        | "llama_new_context_with_model: n_ctx_seq ({}){}n_ctx_train ({})" (tokens: u64, _: &str, trained: u64) =>
        Kind::Other, |now| {
            let settings = now.context_settings();
            settings.n_ctx_seq.get_or_insert(tokens);
            settings.n_ctx_train = Some(trained);
        };
    /// llama_context: n_ctx         = 4096
    /// llama_init_from_model: n_ctx      = 4096
    /// llama_new_context_with_model: n_ctx      = 4096
    "llama_context: {} = {}" | "llama_init_from_model: {} = {}" | "llama_new_context_with_model: {} = {}"
        (key: Key<'_>, value: &str) => Kind::Other, |now| now.set(key.0, value);
    /// graph_reserve: reserving a graph for ubatch with n_tokens =  512, n_seqs =  1, n_outputs =  512
    "reserving a graph for ubatch with n_tokens ={}, n_seqs ={}, n_outputs ={}" (tokens: u64, _: &str, outputs: u64) =>
        Kind::Other, |now| {
            // of the largest graph
            let settings = now.context_settings();
            settings.n_ubatch = settings.n_ubatch.max(Some(tokens));
            settings.n_outputs_max = settings.n_outputs_max.max(Some(outputs));
        };
    /// sched_reserve: graph splits = 158 (with bs=512), 107 (with bs=1)
    "graph splits ={}(with bs={}), {} (with bs=1)" (_: &str, tokens: u64, splits: u64) => Kind::Other, |now| {
        // as many as a ubatch and the context have
        now.context_settings().n_ubatch.get_or_insert(tokens);
        now.context().splits_of_a_token = Some(splits);
    };
    /// sched_reserve: graph (pp bs=512, tg bs=1): nodes = 2312 / 2312, splits = 158 / 107, input objects = 6 / 6
    "graph ({}bs={}, tg bs=1): {}splits ={}/ {}" (_: &str, tokens: u64, _: &str, _: &str, splits: u64) =>
        Kind::Other, |now| {
            now.context_settings().n_ubatch.get_or_insert(tokens);
            now.context().splits_of_a_token = Some(splits);
        };
    /// srv    load_model: n_parallel is set to auto, using n_parallel = 4 and kv_unified = true
    "n_parallel is set to auto, using n_parallel = {} and kv_unified = {}" (sequences: u64, unified: bool) =>
        Kind::Other, |now| {
            now.asked.n_seq_max = Some(sequences);
            now.asked.kv_unified = unified.then_some(true).or(now.asked.kv_unified);
        };
    /// srv    load_model: initializing, n_slots = 1, n_ctx_slot = 8192, kv_unified = 'false'
    "n_slots = {}, n_ctx_slot = {}" (sequences: u64, tokens: u64) =>
        Kind::Other, |now| (now.asked.n_seq_max, now.asked.n_ctx_seq) = (Some(sequences), Some(tokens));
    /// srv    load_model: initializing slots, n_slots = 1
    "n_slots = {}" (sequences: u64) => Kind::Other, |now| now.asked.n_seq_max = Some(sequences);
    /// slot   load_model: id  0 | task -1 | new slot, n_ctx = 8192
    /// slot         init: id  0 | task -1 | new slot n_ctx_slot = 8192
    "new slot, n_ctx = {}" | "n_ctx_slot = {}" (tokens: u64) => Kind::Other, |now| now.asked.n_ctx_seq = Some(tokens);
};

struct Key<'a>(&'a str);

holes! {
    Key<'a>: |text| {
        let is_name = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        is_name.then_some(Self(text))
    };
}
