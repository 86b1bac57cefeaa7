//! Hy4: compressed attention with sinks, a gate and an indexer, over several residual streams (`models/hy-v4.cpp`,
//! 0.1.161).

use super::GraphBuilder;
use super::hyper_connections::{OF_ATTENTION, OF_FEED_FORWARD};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn hy_v4(&mut self) {
        let kind = self.transformer_kind();
        let [x, positions, out_ids] = self.begin();
        let mut x = self.spread_over_streams(x);
        for &il in self.blocks {
            let (y, post) = self.independent_pre(il, x, OF_ATTENTION);
            let y = self.rms(y, LlmTensor::AttnNorm, il);
            let (qkv, extras) = self.latent_qkv(il, y, positions);
            let y = self.gated_by_heads(il, y, qkv, extras);
            x = self.independent_post(y, x, post);

            let (y, post) = self.independent_pre(il, x, OF_FEED_FORWARD);
            let y = self.rms(y, LlmTensor::FfnNorm, il);
            let y = self.dense_or_experts(&kind, il, y, TensorId::NONE);
            x = self.independent_post(y, x, post);
            self.label(x, "l_out", Some(il));
        }
        let x = self.kept_streams(x, out_ids);
        let x = self.hyper_head(x);
        self.end(x, Norm::Rms);
    }
}
