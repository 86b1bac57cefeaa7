//! How large hyperparameters may be: far beyond every published model, and small enough that no product of them and a
//! context overflows.

use super::{Hparams, Ssm};
use crate::engine::llama_cpp::error::LoadError;

/// Rows of matrices: embeddings, feed-forward parts, inner sizes.
const WIDE: u64 = 1 << 22;
/// Counts and sizes of heads, experts, groups.
const NARROW: u64 = 1 << 14;
/// Elements per token of a block's cache, or of a state.
const CACHED: u64 = 1 << 26;

impl Hparams {
    /// Refuses what no model can have.
    ///
    /// # Errors
    /// When one that recurrent blocks need is missing, or a hyperparameter, or what it makes a cache take, is beyond all bounds.
    pub(super) fn check_bounds(&self) -> Result<(), LoadError> {
        let Ssm { d_conv, d_inner, d_state, dt_rank, n_group, .. } = self.ssm;
        let most = |list: &[u64]| list.iter().copied().max().unwrap_or(0);
        let numbers = [
            ("context_length", self.n_ctx_train, u64::from(u32::MAX)),
            ("embedding_length", self.n_embd, WIDE),
            ("feed_forward_length", most(&self.n_ff), WIDE),
            ("attention.head_count", most(&self.n_head), NARROW),
            ("attention.head_count_kv", most(&self.n_head_kv), NARROW),
            ("attention.key_length", most(&self.n_embd_head_k), NARROW),
            ("attention.value_length", most(&self.n_embd_head_v), NARROW),
            ("rope.dimension_count", most(&self.n_rot), NARROW),
            ("attention.sliding_window", self.n_swa.unwrap_or(0), u64::from(u32::MAX)),
            ("expert_count", self.n_expert, NARROW),
            ("expert_used_count", most(&self.n_expert_used), NARROW),
            ("expert_group_count", self.n_expert_groups, NARROW),
            ("expert_group_used_count", self.n_group_used, NARROW),
            ("embedding_length_per_layer_input", self.n_embd_per_layer, NARROW),
            ("n_deepstack_layers", self.n_deepstack_layers, 64),
            ("shortconv.l_cache", self.n_shortconv_l_cache, NARROW),
            ("attention.kv_lora_rank", self.n_lora_kv, NARROW),
            ("ssm.conv_kernel", d_conv, NARROW),
            ("ssm.inner_size", d_inner, WIDE),
            ("ssm.state_size", d_state, NARROW),
            ("ssm.time_step_rank", dt_rank, NARROW),
            ("ssm.group_count", n_group, NARROW),
        ];
        if let Some((key, value, most)) = numbers.into_iter().find(|(_, value, most)| value > most) {
            return Err(LoadError::model(format!("{key} is {value}: more than {most} is not supported")));
        }
        if self.is_recr.contains(&true) && self.n_shortconv_l_cache == 0 && [d_conv, d_inner, d_state].contains(&0) {
            let why =
                "recurrent blocks need ssm.conv_kernel, ssm.inner_size and ssm.state_size: convert the model again";
            return Err(LoadError::model(why.to_owned()));
        }
        let cached = (0..self.n_layer_all).map(|il| self.k_gqa(il).max(self.v_gqa(il))).max().unwrap_or(0);
        let kept = cached.max(self.n_embd_r()).max(self.n_embd_s());
        if kept > CACHED {
            return Err(LoadError::model(format!("a cache of {kept} elements per token is not supported")));
        }
        Ok(())
    }
}
