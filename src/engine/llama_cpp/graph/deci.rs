//! `DeciLM` and Nemotron Ultra: a search left blocks without attention, with one matrix for it, or without a
//! feed-forward part (`models/deci.cpp`, 0.1.161).

use super::GraphBuilder;
use super::feed_forward::Activation;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn deci(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for &il in self.blocks {
            let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
            let mut y = x;
            if heads > 0 {
                y = self.rms(x, LlmTensor::AttnNorm, il);
                if heads_kv == 0 {
                    y = self.multiply(il, LlmTensor::AttnOutput, y);
                } else {
                    let factors = self.rope_factors(il);
                    y = self.rotated_attention(il, y, positions, factors);
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
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }
}
