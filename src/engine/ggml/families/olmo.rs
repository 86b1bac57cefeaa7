//! `OLMo` 2 and 3: normalised only after each half of a block; queries and keys across all heads.

use super::attention::{Extras, Qkv};
use super::feed_forward::Activation;
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// `OLMo` 2 and 3.
    pub(super) fn olmo2(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let qkv = self.qkv_across_heads(il, x);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let y = self.rms(y, Slot::AttnPostNorm, il);
            let half = self.g.add(y, residual);
            let y = self.feed_forward(il, half, Activation::Gated);
            let y = self.free_rms(y, Slot::FfnPostNorm, il);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    fn qkv_across_heads(&mut self, il: usize, x: Id) -> Qkv {
        let (head, n) = (self.hp.head_v(il), self.n_tokens);
        let heads = [self.hp.n_head[il], self.hp.n_head_kv[il], self.hp.n_head_kv[il]];
        let [mut q, mut k, mut v] = self.qkv_flat(il, x, heads.map(|heads| head * heads));
        q = self.rms(q, Slot::AttnQNorm, il);
        k = self.rms(k, Slot::AttnKNorm, il);
        for (x, heads) in [(&mut q, heads[0]), (&mut k, heads[1]), (&mut v, heads[2])] {
            *x = self.g.reshape(*x, [head, heads, n, 1]);
        }
        Qkv { q, k, v }
    }
}
