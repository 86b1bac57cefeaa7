//! Talkie: norms without weights, and after every block a part of the embeddings (`models/talkie.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::feed_forward::Activation;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn talkie(&mut self) {
        let x = self.embeddings(false);
        let embedded = self.g.rms_norm(x);
        let mut x = embedded;
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for &il in self.blocks {
            let y = self.g.rms_norm(x);
            let qkv = self.qkv(il, y);
            let mut qkv = self.rotate(qkv, positions, TensorId::NONE);
            qkv.q = self.rms(qkv.q, LlmTensor::AttnQNorm, il);
            qkv.k = self.g.rms_norm(qkv.k);
            let y = self.attention(il, qkv, AttentionExtras::default());
            let [y, residual, skip] = self.keep_outputs(il, out_ids, [y, x, embedded]);
            let half = self.g.add(y, residual);
            let y = self.g.rms_norm(half);
            let y = self.feed_forward(il, y, Activation::Gated);
            let y = self.g.add(y, half);
            let scale = self.need(il, LlmTensor::LayerOutScale);
            let skip = self.g.mul(skip, scale);
            x = self.sum(y, skip, "l_out", il);
        }
        let x = self.g.rms_norm(x);
        self.g[x].output = true;
        self.label(x, "result_norm", None);
        let logits = self.logits(x);
        let logits = self.g.scale(logits);
        self.close(logits);
    }
}
