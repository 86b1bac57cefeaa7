//! Arctic: in every block a dense part, and experts that read the block's own input (`models/arctic.cpp`, 0.1.161).

use super::attention::AttentionExtras;
use super::experts::Routing;
use super::feed_forward::Activation;
use super::{GraphBuilder, Norm};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn arctic(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, TensorId::NONE);
            let y = self.attention(il, qkv, AttentionExtras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            let dense = self.g.add(y, half);
            let y = self.rms(residual, LlmTensor::FfnNormExps, il);
            let y = self.experts(il, y, Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX });
            x = self.g.add(y, dense);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }
}
