//! By what the graphs of blocks differ. A graph that asks for a block's number, or for a list of the header by it, says so
//! here: blocks of which all this is equal are built as one kind (`built_blocks`).

use super::gemma3n;
use crate::engine::llama_cpp::context::Cparams;
use crate::engine::llama_cpp::hparams::{Hparams, Indexer};

/// What the graph of block `il` depends on besides its device, weights and caches: two blocks of which all this is equal
/// have the same.
pub(in crate::engine::llama_cpp) fn of(il: usize, hp: &Hparams, context: &Cparams) -> Vec<u64> {
    let every = |step: usize| step > 0 && il.is_multiple_of(step);
    let ends = |step: usize| step > 0 && (il + 1).is_multiple_of(step);
    let rope_step = usize::try_from(hp.no_rope_layer_step).unwrap_or(usize::MAX);
    let in_list = |list: &[bool]| list.get(il).copied().unwrap_or_default();
    let limited = |limits: &[f32]| limits.get(il).is_some_and(|limit| *limit > 0.0);
    let indexer = |list: fn(&Indexer) -> &[bool]| hp.indexer.as_ref().is_some_and(|indexer| in_list(list(indexer)));
    let flags = [
        il == 0,
        il + 1 == hp.n_layer(),
        in_list(&hp.is_swa),
        in_list(&hp.is_recr),
        in_list(&hp.attends),
        in_list(&hp.rope_pattern),
        indexer(|indexer| &indexer.is_full),
        indexer(|indexer| &indexer.is_read),
        limited(&hp.swiglu_clamp_exp),
        limited(&hp.swiglu_clamp_shexp),
        every(rope_step),
        ends(rope_step),
        hp.normed_pass.is_some_and(ends),
        ends(hp.rescale_every_n_layers),
        every(hp.residual_bank),
        il < hp.n_layer_dense_lead,
        il < hp.n_hash_layers,
        hp.n_layer_kv_from_start.is_some_and(|own| il < own),
        hp.n_embd_per_layer > 0 && il < gemma3n::SPARSE_BLOCKS,
        (il as u64) < hp.n_deepstack_layers,
        hp.deepstack_mapping.get(il).is_some_and(|level| *level >= 0),
        hp.ngrams.is_some_and(|table| table.block == il),
        context.drafting.layer_inputs.contains(&il),
    ];
    let number = |list: &[u64]| list.get(il).copied().unwrap_or_default();
    let numbers =
        [&hp.n_head, &hp.n_head_kv, &hp.n_ff, &hp.n_expert_used, &hp.compress_ratios].map(|list| number(list));
    numbers.into_iter().chain(flags.map(u64::from)).collect()
}
