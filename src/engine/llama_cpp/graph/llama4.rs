//! Llama 4: every fourth block has full attention without positions; tokens are weighted before the experts.

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::feed_forward::{Activation, FfnWeights, Routing};
use crate::engine::llama_cpp::transformer::{Norm, gating};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn llama4(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        let temperature = self.attention_scale();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for &il in self.blocks {
            let residual = x;
            let step = self.hp.no_rope_layer_step;
            let rotated = step > 0 && !(il as u64 + 1).is_multiple_of(step);
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let factors = self.rope_factors(il);
            let mut qkv = self.qkv(il, y);
            if rotated {
                qkv = self.rotate(qkv, positions, factors);
                if self.hp.use_kq_norm {
                    (qkv.q, qkv.k) = (self.g.rms_norm(qkv.q), self.g.rms_norm(qkv.k));
                }
            } else {
                qkv.q = self.g.mul(qkv.q, temperature);
            }
            let y = self.attention(il, qkv, AttentionExtras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.sum(y, residual, "ffn_inp", il);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = if self.weight(il, LlmTensor::FfnGateInp).is_some() {
                let routing = Routing {
                    gating: gating::SIGMOID,
                    normalised: false,
                    scaled: self.experts_scaled(),
                    weigh_first: true,
                    ..Routing::SOFTMAX
                };
                let chosen = self.experts(il, y, routing);
                let shared = self.feed_forward_of(il, y, Activation::Gated, FfnWeights::SHARED);
                self.g.add(chosen, shared)
            } else {
                self.feed_forward(il, y, Activation::Gated)
            };
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }
}
