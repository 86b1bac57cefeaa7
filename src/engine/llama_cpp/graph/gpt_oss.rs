//! gpt-oss: attention sinks, and experts in every block.

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::feed_forward::Routing;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::{Norm, gating};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn gpt_oss(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        let rot = self.hp.n_rot[0];
        for &il in self.blocks {
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
            x = self.sum(y, half, "l_out", il);
        }
        if self.keeps_last_rows() {
            // the input of a draft model
            self.g[x].output = true;
            x = self.g.get_rows(x, out_ids);
        }
        self.end(x, Norm::Rms);
    }
}
