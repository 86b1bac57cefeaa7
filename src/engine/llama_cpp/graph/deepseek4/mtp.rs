//! The MTP block: the streams of a token's hidden state, each beside the embedding of the next token, through one
//! more block, which only attends to a window (`graph_mtp` in `models/deepseek4.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::attention::{AttentionExtras, Qkv};
use super::super::hyper_connections::OF_ATTENTION;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// The first MTP block.
    pub fn deepseek4_mtp(&mut self) {
        let kind = self.transformer_kind();
        let il = self.hp.n_layer();
        let (n, n_embd, streams) = (self.batch.n_tokens, self.hp.n_embd, self.hp.n_hyper_connections);
        let own = self.weight(il, LlmTensor::NextnEmbedTokens);
        let table = if own.is_some() { own } else { self.need_global(LlmTensor::TokenEmbd) };
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let embedded = self.g.get_rows(table, tokens);
        self.label(embedded, "mtp_tok_embd", Some(il));
        let hidden = self.g.input(Type::F32, [n_embd * streams, n, 1, 1], "mtp_h_input");
        let hidden = self.g.reshape(hidden, [n_embd, streams, n, 1]);
        let positions = self.positions();
        let out_ids = self.out_ids();
        self.attention_inputs();
        let hidden = self.rms(hidden, LlmTensor::NextnHnorm, il);
        let embedded = self.rms(embedded, LlmTensor::NextnEnorm, il);
        let embedded = self.spread_over_streams(embedded);
        let both = self.g.concat(embedded, hidden, 0);
        let x = self.linear(il, LlmTensor::NextnEhProj, both);
        self.label(x, "mtp_eh_proj", Some(il));

        let x = self.deepseek4_half(il, x, OF_ATTENTION, |build, y| {
            let y = build.rms(y, LlmTensor::AttnNorm, il);
            let rows = build.single_rows(il, y, positions);
            let y = build.window_attention(il, rows.q, rows.kv);
            build.by_groups(il, y, positions)
        });
        let x = self.deepseek4_experts(&kind, il, x);
        let kept = self.kept_streams(x, out_ids);
        self.g.set_output(kept);
        self.label(kept, "h_nextn", None);
        let x = self.hyper_head(kept);
        let own = self.weight(il, LlmTensor::NextnSharedHeadNorm);
        let weight = if own.is_some() { own } else { self.need_global(LlmTensor::OutputNorm) };
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        self.g.set_output(x);
        let own = self.weight(il, LlmTensor::NextnSharedHeadHead);
        let logits = if own.is_some() { self.g.mul_mat(own, x) } else { self.logits(x) };
        self.label(logits, "result_output", None);
        self.close(logits);
    }

    /// Attention to a window whose cache has values too, which nothing reads.
    fn window_attention(&mut self, il: usize, q: TensorId, kv: TensorId) -> TensorId {
        let memory = self.memory;
        let (Some(cache), Some(input)) = (&memory.window, self.window) else { return q };
        let Some(layer) = cache.layers[il] else { return q };
        let rotation = input.rotation_k;
        let [q, kv] = [q, kv].map(|x| if rotation.is_some() { self.rotated(x, rotation) } else { x });
        self.g.expand(q);
        self.g.expand(kv);
        let qkv = Qkv { q, k: kv, v: kv };
        let layer = crate::engine::llama_cpp::cache::KvLayer { v: None, ..layer };
        let (k, v) = self.store_and_view_cache(il, cache, &layer, input, qkv);
        let sinks = self.need(il, LlmTensor::AttnSinks);
        let y = self.attend(il, q, k, v, input.mask, AttentionExtras { sinks, ..AttentionExtras::default() });
        self.label(y, "kqv_out", Some(il));
        if rotation.is_some() { self.rotated(y, rotation) } else { y }
    }
}
