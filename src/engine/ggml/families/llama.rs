//! Llama and its nearest kin: Mistral 3, `SmolLM` 3, Granite.

use super::attention::Extras;
use super::experts::Routing;
use super::feed_forward::{Activation, Matrices};
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// Llama, Mistral, Mixtral.
    pub(super) fn llama(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let factors = self.rope_factors(il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, factors);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.dense_or_experts(il, y, residual);
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// Mistral 3: queries may be multiplied by a factor that grows with the position.
    pub(super) fn mistral3(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        let temperature = if self.hp.attn_temperature { self.attention_scale() } else { Id::NONE };
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let factors = self.rope_factors(il);
            let qkv = self.qkv(il, y);
            let mut qkv = self.rotate(qkv, positions, factors);
            if temperature.is_some() {
                qkv.q = self.g.mul(qkv.q, temperature);
            }
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.dense_or_experts(il, y, residual);
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// `SmolLM` 3: every fourth block knows no positions.
    pub(super) fn smollm3(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let mut qkv = self.qkv(il, y);
            if !(il as u64 + 1).is_multiple_of(self.hp.no_rope_layer_step) {
                qkv = self.rotate(qkv, positions, Id::NONE);
            }
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.dense_or_experts(il, y, residual);
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// Granite: embeddings, residuals and logits are multiplied by constants.
    pub(super) fn granite(&mut self) {
        let mut x = self.embeddings(false);
        let positions = if self.hp.has_rope { self.positions() } else { Id::NONE };
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            if il > 0 && self.hp.deepstack_mapping[il] >= 0 {
                x = self.add_vision_level(x);
            }
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let y = self.granite_attention(il, y, positions);
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.granite_feed_forward(il, y, residual);
        }
        let x = self.final_norm(x, Norm::Rms);
        let logits = self.logits(x);
        let logits = self.g.scale(logits);
        self.close(logits);
    }

    /// Granite's attention, rotated if the model knows positions at all.
    pub(super) fn granite_attention(&mut self, il: usize, x: Id, positions: Id) -> Id {
        let mut qkv = self.qkv(il, x);
        if positions.is_some() {
            let factors = self.rope_factors(il);
            qkv = self.rotate(qkv, positions, factors);
        }
        self.attention(il, qkv, Extras::default())
    }

    /// Granite's second half of a block; experts may have one that is always used.
    pub(super) fn granite_feed_forward(&mut self, il: usize, mut x: Id, residual: Id) -> Id {
        if self.hp.residual_scale {
            x = self.g.scale(x);
        }
        let x = self.g.add(x, residual);
        self.label(x, "ffn_inp", Some(il));
        let mut y = self.rms(x, Slot::FfnNorm, il);
        if self.weight(il, Slot::FfnGateInp).is_some() {
            let routing = Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX };
            let chosen = self.experts(il, y, routing);
            y = if self.hp.n_ff_shexp > 0 {
                let shared = self.feed_forward_of(il, y, Activation::Gated, Matrices::SHARED);
                self.g.add(chosen, shared)
            } else {
                chosen
            };
        } else {
            y = self.feed_forward(il, y, Activation::Gated);
        }
        if self.hp.residual_scale {
            y = self.g.scale(y);
        }
        let x = self.g.add(y, x);
        self.label(x, "l_out", Some(il))
    }

    /// The second half of a block: residual, normalisation, feed-forward or experts, residual.
    pub(super) fn dense_or_experts(&mut self, il: usize, x: Id, residual: Id) -> Id {
        let x = self.g.add(x, residual);
        self.label(x, "ffn_inp", Some(il));
        let y = self.rms(x, Slot::FfnNorm, il);
        let y = if self.weight(il, Slot::FfnGateInp).is_some() {
            let routing = Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX };
            self.experts(il, y, routing)
        } else {
            self.feed_forward(il, y, Activation::Gated)
        };
        let x = self.g.add(y, x);
        self.label(x, "l_out", Some(il))
    }
}
