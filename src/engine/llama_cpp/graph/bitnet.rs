//! `BitNet`: norms before the last matrix of both halves, and logits from the token embeddings where they are
//! (`models/bitnet.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::AttentionExtras;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn bitnet(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for &il in self.blocks {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, TensorId::NONE);
            let y = self.attention_unprojected(il, qkv, AttentionExtras::default());
            let y = self.rms(y, LlmTensor::AttnSubNorm, il);
            let y = self.affine(il, LlmTensor::AttnOutput, y);
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let up = self.linear(il, LlmTensor::FfnUp, y);
            let gate = self.linear(il, LlmTensor::FfnGate, y);
            let y = self.g.glu_split(gate, up);
            let y = self.rms(y, LlmTensor::FfnSubNorm, il);
            let y = self.linear(il, LlmTensor::FfnDown, y);
            x = self.sum(y, half, "l_out", il);
        }
        let x = self.final_norm(x, Norm::Rms);
        let logits = self.multiply_global(LlmTensor::TokenEmbd, x);
        self.label(logits, "result_output", None);
        self.close(logits);
    }
}
