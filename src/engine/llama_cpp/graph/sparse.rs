//! gpt-oss and Llama 4: experts, and blocks with a sliding window or chunks.

use super::attention::AttentionExtras;
use super::experts::Routing;
use super::feed_forward::{Activation, FfnWeights};
use super::{GraphBuilder, Norm};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::hparams::gating;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// gpt-oss: attention sinks, and experts in every block.
    pub fn gpt_oss(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let rot = self.hp.n_rot[0];
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            let residual = x;
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let heads = [self.hp.n_head[il], self.hp.n_head_kv[il], self.hp.n_head_kv[il]];
            let qkv = self.qkv_sized(il, y, [rot; 3], heads);
            let qkv = self.rotate(qkv, positions, TensorId::NONE);
            let sinks = self.need(il, LlmTensor::AttnSinks);
            let y = self.attention(il, qkv, AttentionExtras { sinks, ..AttentionExtras::default() });
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::AttnPostNorm, il);
            let routing = Routing {
                gating: gating::SOFTMAX_WEIGHT,
                normalised: false,
                scaled: self.experts_scaled(),
                ..Routing::SOFTMAX
            };
            let y = self.experts(il, y, routing);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        if self.keeps_last_rows() {
            // the input of a draft model
            self.g[x].output = true;
            x = self.g.get_rows(x, out_ids);
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// Llama 4: every fourth block has full attention without positions; tokens are weighted before the experts.
    pub fn llama4(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        let temperature = self.attention_scale();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
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
            let half = self.g.add(y, residual);
            self.label(half, "ffn_inp", Some(il));
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
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }
}
