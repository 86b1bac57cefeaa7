//! `DeciLM` and Nemotron Ultra: a search left blocks without attention, with one matrix for it, or without a feed-forward
//! part (`models/deci.cpp`, 0.1.161).

use super::attention::AttentionExtras;
use super::feed_forward::Activation;
use super::{GraphBuilder, Norm};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn deci(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
            let mut y = x;
            if heads > 0 {
                y = self.rms(x, LlmTensor::AttnNorm, il);
                if heads_kv == 0 {
                    y = self.linear(il, LlmTensor::AttnOutput, y);
                } else {
                    let factors = self.rope_factors(il);
                    let qkv = self.qkv(il, y);
                    let qkv = self.rotate(qkv, positions, factors);
                    y = self.attention(il, qkv, AttentionExtras::default());
                }
            }
            // without a feed-forward part the block's input goes on, and its attention is dropped
            if self.hp.n_ff[il] == 0 {
                continue;
            }
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = if heads > 0 { self.g.add(y, residual) } else { y };
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }
}
