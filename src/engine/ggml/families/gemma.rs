//! Gemma 2 and 3: normalised before and after each half of a block, some blocks with a sliding window.

use super::attention::Extras;
use super::feed_forward::Activation;
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// Gemma 2: scores and logits are capped.
    pub(super) fn gemma2(&mut self) {
        let x = self.embeddings(false);
        let x = self.g.scale(x);
        self.gemma(x);
    }

    /// Gemma 3: queries and keys are normalised head by head.
    pub(super) fn gemma3(&mut self) {
        let x = self.embeddings(true);
        self.gemma(x);
    }

    fn gemma(&mut self, mut x: Id) {
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.norm_heads(il, qkv, Norm::Rms);
            let mut qkv = self.rotate(qkv, positions, Id::NONE);
            qkv.q = self.g.scale(qkv.q);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let y = self.rms(y, Slot::AttnPostNorm, il);
            let half = self.g.add(y, residual);
            let y = self.rms(half, Slot::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            let y = self.free_rms(y, Slot::FfnPostNorm, il);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        let logits = self.capped(logits);
        self.close(logits);
    }

    /// Normalises without insisting on the block's device.
    pub(super) fn free_rms(&mut self, x: Id, slot: Slot, il: usize) -> Id {
        let weight = self.need(il, slot);
        self.norm_with(x, weight, Id::NONE, Norm::Rms, None)
    }

    /// Logits, kept within bounds where the model says so.
    pub(super) fn capped(&mut self, logits: Id) -> Id {
        if !self.hp.final_soft_cap {
            return logits;
        }
        let x = self.g.scale(logits);
        let x = self.g.unary(x);
        self.g.scale(x)
    }
}
