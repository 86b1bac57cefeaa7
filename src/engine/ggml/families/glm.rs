//! `ChatGLM` 3, GLM 4 and GLM 4.5.

use super::attention::Extras;
use super::experts::Routing;
use super::feed_forward::{Activation, Matrices};
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// `ChatGLM` 3.
    pub(super) fn chatglm(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, Slot::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::GatedInOne);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// GLM 4: normalised after each half too.
    pub(super) fn glm4(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let y = self.rms(y, Slot::AttnPostNorm, il);
            let half = self.g.add(y, residual);
            let y = self.rms(half, Slot::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::GatedInOne);
            let y = self.rms(y, Slot::FfnPostNorm, il);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// GLM 4.5: the first blocks dense, then experts and one that is always used.
    pub(super) fn glm4moe(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.norm_heads(il, qkv, Norm::Rms);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, Slot::AttnPostNorm, il);
            let y = self.lead_or_experts(il, y);
            x = self.g.add(y, half);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// A dense part in the leading blocks; in the others experts, chosen as the header says, and a shared one.
    pub(super) fn lead_or_experts(&mut self, il: usize, x: Id) -> Id {
        if il < self.hp.n_layer_dense_lead {
            return self.feed_forward(il, x, Activation::Gated);
        }
        let routing = Routing {
            gating: self.hp.expert_gating,
            normalised: self.hp.expert_weights_norm,
            scaled: self.experts_scaled(),
            ..Routing::SOFTMAX
        };
        let chosen = self.experts(il, x, routing);
        let shared = self.feed_forward_of(il, x, Activation::Gated, Matrices::SHARED);
        self.g.add(chosen, shared)
    }
}
