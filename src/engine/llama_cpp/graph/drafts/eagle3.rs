//! EAGLE 3: one block over the embeddings of the other model's tokens and a mixture of its hidden states
//! (`models/eagle3.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::attention::AttentionExtras;
use super::super::feed_forward::Activation;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// The decoder; the encoder that mixes the hidden states is not what memory is reserved for.
    pub fn eagle3(&mut self) {
        let il = 0;
        let n = self.batch.n_tokens;
        let table = self.draft_embeddings();
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let given = self.g.input(Type::F32, [self.hp.n_embd, n, 1, 1], "inp_g_embeddings");
        let embedded = self.g.get_rows(table, tokens);
        self.label(embedded, "inp_embd", None);
        let positions = self.positions();
        self.attention_inputs();
        let embedded = self.rms(embedded, LlmTensor::AttnNorm, il);
        let mixed = self.unpinned_rms(given, LlmTensor::AttnNorm2, il);
        let residual = if self.hp.draft.norm_before_residual { mixed } else { given };
        let both = self.g.concat(embedded, mixed, 0);
        let qkv = self.qkv(il, both);
        let factors = self.rope_factors(il);
        let qkv = self.rotate(qkv, positions, factors);
        let y = self.attention(il, qkv, AttentionExtras::default());
        let half = self.sum(y, residual, "ffn_inp", il);
        let y = self.rms(half, LlmTensor::FfnNorm, il);
        let y = self.feed_forward(il, y, Activation::Gated);
        let x = self.g.add(y, half);
        self.g.set_output(x);
        self.label(x, "l_out", Some(il));
        let weight = self.need_global(LlmTensor::OutputNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        let output = self.draft_output();
        let logits = self.g.mul_mat(output, x);
        let logits = self.over_partner_vocabulary(logits, None);
        self.label(logits, "result_output", None);
        self.close(logits);
    }

    /// Logits of a draft's smaller vocabulary as logits of the other model's, of `n_vocab` tokens if that is known.
    pub fn over_partner_vocabulary(&mut self, logits: TensorId, n_vocab: Option<u64>) -> TensorId {
        let ids = self.global_weight(LlmTensor::D2t);
        if !ids.is_some() {
            return logits;
        }
        let Tensor { ne: [n_draft, rows, ..], .. } = self.g[logits];
        let n_vocab = n_vocab.unwrap_or(self.hp.n_vocab);
        let all = self.g.add_tensor(Tensor::new(Type::F32, [1, n_vocab, rows, 1]));
        let all = self.g.fill(all);
        let logits = self.g.reshape(logits, [1, n_draft, rows, 1]);
        let ids = self.g.reshape(ids, [n_draft, 1, 1, 1]);
        let all = self.g.set_rows(all, logits, ids);
        self.g.reshape(all, [n_vocab, rows, 1, 1])
    }
}
