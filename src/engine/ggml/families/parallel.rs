//! Command R and Stable LM, whose attention and feed-forward may work side by side, and `StarCoder` 2.

use super::attention::Extras;
use super::feed_forward::Activation;
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// Command R.
    pub(super) fn command_r(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let normed = {
                let weight = self.need(il, Slot::AttnNorm);
                self.norm_with(x, weight, Id::NONE, Norm::Layer, Some(il))
            };
            let qkv = self.qkv(il, normed);
            let qkv = self.norm_heads(il, qkv, Norm::Layer);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [attended, residual, normed] = self.keep_outputs(il, out_ids, [y, x, normed]);
            let y = self.feed_forward(il, normed, Activation::Gated);
            let y = self.g.add(y, residual);
            x = self.g.add(y, attended);
            self.label(x, "l_out", Some(il));
        }
        let mut logits = self.finish(x, Norm::Layer);
        if self.hp.logit_scale {
            logits = self.g.scale(logits);
        }
        self.close(logits);
    }

    /// Stable LM: side by side where there is no second normalisation.
    pub(super) fn stablelm(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let normed = self.norm(x, Slot::AttnNorm, Norm::Layer, il);
            let qkv = self.qkv(il, normed);
            let qkv = self.norm_heads(il, qkv, Norm::Layer);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual, normed] = self.keep_outputs(il, out_ids, [y, x, normed]);
            let half = self.g.add(y, residual);
            let y = if self.weight(il, Slot::FfnNorm).is_some() {
                self.norm(half, Slot::FfnNorm, Norm::Layer, il)
            } else {
                normed
            };
            let y = self.feed_forward(il, y, Activation::Gated);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Layer);
        self.close(logits);
    }

    /// `StarCoder` 2.
    pub(super) fn starcoder2(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.norm(x, Slot::AttnNorm, Norm::Layer, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.g.add(y, residual);
            let y = self.norm(half, Slot::FfnNorm, Norm::Layer, il);
            let y = self.feed_forward(il, y, Activation::Plain);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Layer);
        self.close(logits);
    }
}
