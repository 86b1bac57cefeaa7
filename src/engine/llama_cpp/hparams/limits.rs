//! Limits of hyperparameters: far beyond every published model, and small enough that no product of them and a
//! context overflows.

use super::super::error::LoadError;
use super::{Hparams, Ssm};

/// Limit of row sizes: embeddings, feed-forward, inner sizes.
const MAX_WIDTH: u64 = 1 << 22;
/// Limit of counts and sizes of heads, experts, groups.
const MAX_COUNT: u64 = 1 << 14;
/// Limit of the elements per token of a block's cache, or of a state.
const MAX_CACHED: u64 = 1 << 26;

impl Hparams {
    /// Refuses impossible hyperparameters.
    ///
    /// # Errors
    /// When one that recurrent blocks need is missing, or one of them or a cache size exceeds its limit.
    pub(super) fn check_bounds(&self) -> Result<(), LoadError> {
        let Ssm { d_conv, d_inner, d_state, dt_rank, n_group, .. } = self.ssm;
        let max = |list: &[u64]| list.iter().copied().max().unwrap_or(0);
        let indexer = self.indexer.clone().unwrap_or_default();
        let (mla, (latent, latent_lora)) = (self.mla.unwrap_or_default(), self.latent_swa.unwrap_or_default());
        let numbers = [
            ("context_length", self.n_ctx_train, u64::from(u32::MAX)),
            ("embedding_length", self.n_embd, MAX_WIDTH),
            ("feed_forward_length", max(&self.n_ff), MAX_WIDTH),
            ("attention.head_count", max(&self.n_head), MAX_COUNT),
            ("attention.head_count_kv", max(&self.n_head_kv), MAX_COUNT),
            ("attention.key_length", max(&self.n_embd_head_k), MAX_COUNT),
            ("attention.value_length", max(&self.n_embd_head_v), MAX_COUNT),
            ("rope.dimension_count", max(&self.n_rot), MAX_COUNT),
            ("attention.sliding_window", self.n_swa.unwrap_or(0), u64::from(u32::MAX)),
            ("expert_count", self.n_expert, MAX_COUNT),
            ("expert_used_count", max(&self.n_expert_used), MAX_COUNT),
            ("expert_group_count", self.n_expert_groups, MAX_COUNT),
            ("expert_group_used_count", self.n_group_used, MAX_COUNT),
            ("embedding_length_per_layer_input", self.n_embd_per_layer, MAX_COUNT),
            ("n_deepstack_layers", self.n_deepstack_layers, 64),
            ("shortconv.l_cache", self.n_shortconv_l_cache, MAX_COUNT),
            ("attention.kv_lora_rank", self.n_lora_kv.max(latent_lora), MAX_COUNT),
            ("attention.key_length_mla", mla.0.max(latent.0), MAX_COUNT),
            ("attention.value_length_mla", mla.1.max(latent.1), MAX_COUNT),
            ("attention.compress_ratios", max(&self.compress_ratios), MAX_WIDTH),
            ("attention.indexer.head_count", indexer.n_head, MAX_COUNT),
            ("attention.indexer.key_length", indexer.head_size, MAX_COUNT),
            ("attention.indexer.block_size", indexer.block_size, MAX_COUNT),
            ("attention.indexer.kpool", indexer.pools.map_or(0, |pools| pools.size), MAX_COUNT),
            ("attention.indexer.top_k", indexer.top_k, u64::from(u32::MAX)),
            ("embedding_length_out", self.draft.n_embd_out, MAX_WIDTH),
            ("block_size", self.draft.block_size, MAX_COUNT),
            ("conv_kernel_size", self.draft.conv_kernel_size, MAX_COUNT),
            ("conv_group_size", self.draft.conv_group_size, MAX_WIDTH),
            ("selector_rank", self.draft.selector_rank, MAX_WIDTH),
            ("selector_top_k", self.draft.selector_top_k, u64::from(u32::MAX)),
            ("vocabulary", self.n_vocab, u64::from(u32::MAX)),
            ("hyper_connection.count", self.n_hyper_connections, 64),
            ("hyper_connection.sinkhorn_iterations", self.n_sinkhorn_iterations, 1024),
            ("attention.output_group_count", self.n_output_groups, MAX_COUNT),
            ("wkv.head_size", self.wkv_head_size, MAX_COUNT),
            ("token_shift_count", self.token_shift_count, 64),
            ("kda.head_dim", self.n_embd_head_kda, MAX_COUNT),
            ("ssm.conv_kernel", d_conv, MAX_COUNT),
            ("ssm.inner_size", d_inner, MAX_WIDTH),
            ("ssm.state_size", d_state, MAX_COUNT),
            ("ssm.time_step_rank", dt_rank, MAX_COUNT),
            ("ssm.group_count", n_group, MAX_COUNT),
        ];
        if let Some((key, value, most)) = numbers.into_iter().find(|(_, value, most)| value > most) {
            return Err(LoadError::model(format!("{key} is {value}: more than {most} is not supported")));
        }
        let sized = self.n_shortconv_l_cache != 0
            || self.n_embd_head_kda != 0
            || self.wkv_head_size != 0
            || self.n_embd_head_la != 0;
        let lacks_size = !sized && [d_conv, d_inner, d_state].contains(&0) || self.n_embd_head_kda != 0 && d_conv == 0;
        if self.is_recr.contains(&true) && lacks_size {
            let why =
                "recurrent blocks need ssm.conv_kernel, ssm.inner_size and ssm.state_size: convert the model again";
            return Err(LoadError::model(why));
        }
        let cached = (0..self.n_layer_all).map(|il| self.k_gqa(il).max(self.v_gqa(il))).max().unwrap_or(0);
        let kept = cached.max(self.n_embd_r()).max(self.n_embd_s()).max(self.n_embd_ngrams());
        if kept > MAX_CACHED {
            return Err(LoadError::model(format!("a cache of {kept} elements per token is not supported")));
        }
        Ok(())
    }
}
