//! Arctic: in every block a dense part, and experts that read the block's own input (`models/arctic.cpp`, 0.1.161).

use super::GraphBuilder;
use super::feed_forward::{Activation, Routing};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn arctic(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for &il in self.blocks {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let y = self.rotated_attention(il, y, positions, TensorId::NONE);
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            let dense = self.g.add(y, half);
            let y = self.rms(residual, LlmTensor::FfnNormExps, il);
            let y = self.experts(il, y, Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX });
            x = self.sum(y, dense, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }
}
