//! Phi 2, 3 and 4.

use super::attention::Extras;
use super::experts::Routing;
use super::feed_forward::Activation;
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

impl Build<'_> {
    /// Phi 2: attention and feed-forward side by side.
    pub(super) fn phi2(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let normed = self.norm(x, Slot::AttnNorm, Norm::Layer, il);
            let qkv = self.qkv(il, normed);
            let mut qkv = self.rotate(qkv, positions, Id::NONE);
            qkv.q = self.g.scale(qkv.q);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual, normed] = self.keep_outputs(il, out_ids, [y, x, normed]);
            let z = self.feed_forward(il, normed, Activation::Plain);
            let y = self.g.add(y, z);
            x = self.g.add(y, residual);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Layer);
        let logits = self.output_bias(logits);
        self.close(logits);
    }

    /// Phi 3 and 4: gate and value share a matrix, or there are experts.
    pub(super) fn phi3(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let factors = self.rope_factors(il);
            let y = self.norm(x, Slot::AttnNorm, Norm::Rms, il);
            let qkv = self.qkv(il, y);
            let mut qkv = self.rotate(qkv, positions, factors);
            qkv.q = self.g.scale(qkv.q);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            let y = self.norm(half, Slot::FfnNorm, Norm::Rms, il);
            let y = if self.weight(il, Slot::FfnGateInp).is_some() {
                let routing = Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX };
                self.experts(il, y, routing)
            } else {
                self.feed_forward(il, y, Activation::GatedInOne)
            };
            x = self.g.add(half, y);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        let logits = self.output_bias(logits);
        self.close(logits);
    }
}
