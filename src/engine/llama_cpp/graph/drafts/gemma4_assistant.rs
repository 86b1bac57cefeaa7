//! Gemma 4's assistant: a few small blocks that read the caches of the model they draft for
//! (`models/gemma4-assistant.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::attention::{AttentionExtras, Qkv};
use super::super::feed_forward::Activation;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// Embedding and hidden state of the other model, through all blocks, to logits and the next hidden state.
    pub fn gemma4_assistant(&mut self) {
        let (n, blocks) = (self.batch.n_tokens, self.hp.n_layer_all);
        let table = self.partner_embeddings();
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let hidden = self.g.input(Type::F32, [self.hp.draft.n_embd_out, n, 1, 1], "inp_h");
        let x = self.g.get_rows(table, tokens);
        let x = self.g.scale(x);
        let both = self.g.concat(x, hidden, 0);
        let mut x = self.multiply_global(LlmTensor::NextnProjPre, both);
        self.attention_inputs();
        let positions = self.positions();
        let out_ids = self.out_ids();
        for il in 0..blocks {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let q = self.linear(il, LlmTensor::AttnQ, y);
            let q = self.g.reshape(q, [self.hp.head_k(il), self.hp.n_head[il], n, 1]);
            let q = self.rms(q, LlmTensor::AttnQNorm, il);
            let factors = if self.hp.is_swa[il] { TensorId::NONE } else { self.rope_factors(il) };
            let q = self.g.rope(q, positions, factors);
            let qkv = Qkv { q, k: TensorId::NONE, v: TensorId::NONE };
            let mut y = self.attention(il, qkv, AttentionExtras::default());
            if il + 1 == blocks {
                [y, x] = [y, x].map(|x| self.g.get_rows(x, out_ids));
            }
            let y = self.rms(y, LlmTensor::AttnPostNorm, il);
            let half = self.g.add(y, x);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            let y = self.unpinned_rms(y, LlmTensor::FfnPostNorm, il);
            let y = self.g.add(y, half);
            let scale = self.need(il, LlmTensor::LayerOutScale);
            x = self.g.mul(y, scale);
            self.label(x, "l_out", Some(il));
        }
        let weight = self.need_global(LlmTensor::OutputNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        let logits = self.logits(x);
        let next = self.multiply_global(LlmTensor::NextnProjPost, x);
        self.label(next, "h_nextn", None);
        self.g.set_output(next);
        self.close(logits);
        self.g.expand(next);
    }
}
