//! T5: an encoder and a decoder, whose positions are a bias of the attention scores by distance (`models/t5.cpp`,
//! `models/t5encoder.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::{Activation, FfnWeights};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor as T;

/// Queries, keys, values and output of an attention.
type AttentionWeights = [T; 4];

const OF_ENCODER: AttentionWeights = [T::EncAttnQ, T::EncAttnK, T::EncAttnV, T::EncAttnO];
const OF_DECODER: AttentionWeights = [T::AttnQ, T::AttnK, T::AttnV, T::AttnO];
const OF_CROSS: AttentionWeights = [T::CrossAttnQ, T::CrossAttnK, T::CrossAttnV, T::CrossAttnO];
const ENCODER_FFN: FfnWeights = FfnWeights { up: T::EncFfnUp, gate: T::EncFfnGate, down: T::EncFfnDown };

impl GraphBuilder<'_> {
    /// The decoder, which is what memory is reserved for. It attends to a text of the encoder as long as the training
    /// context.
    pub fn t5(&mut self) {
        let (n, read) = (self.batch.n_tokens, self.hp.n_ctx_train);
        let mut x = self.embeddings(false);
        let encoded = self.g.input(Type::F32, [self.hp.n_embd_inp(), read, 1, 1], "cross_embd");
        let cells = self.memory.full.as_ref().map_or(0, |cache| cache.size);
        let buckets = self.g.input(Type::I32, [cells, n, 1, 1], "pos_bucket_dec");
        self.attention_inputs();
        let cross_mask = self.mask_input([read, n, 1, 1], "attn_inp_cross_kq_mask");
        let out_ids = self.out_ids();
        let last = self.hp.dec_n_layer.saturating_sub(1);
        for il in 0..=last {
            let y = self.rms(x, T::AttnNorm, il);
            let qkv = self.t5_heads(il, OF_DECODER, y, y);
            let bias = self.position_bias(il, T::AttnRelB, buckets);
            let y = self.attention_unprojected(il, qkv, AttentionExtras { bias, ..AttentionExtras::default() });
            let y = self.linear(il, T::AttnO, y);
            let half = self.g.add(y, x);

            let y = self.rms(half, T::CrossAttnNorm, il);
            let qkv = self.t5_heads(il, OF_CROSS, y, encoded);
            let y = self.attention_over(il, qkv, cross_mask, AttentionExtras::default());
            let y = self.linear(il, T::CrossAttnO, y);
            let [y, half] = if il == last { [y, half].map(|x| self.g.get_rows(x, out_ids)) } else { [y, half] };
            let half = self.g.add(y, half);
            x = self.t5_feed_forward(il, half, T::FfnNorm, FfnWeights::DENSE);
        }
        self.end(x, Norm::Rms);
    }

    /// The encoder alone: it has no logits, and does not use its caches.
    pub fn t5_encoder(&mut self) {
        let n = self.batch.n_tokens;
        let mut x = self.embeddings(false);
        let buckets = self.g.input(Type::I32, [n, n, 1, 1], "pos_bucket_enc");
        self.attention_inputs();
        let out_ids = self.out_ids();
        for &il in self.blocks {
            let y = self.rms(x, T::EncAttnNorm, il);
            let qkv = self.t5_heads(il, OF_ENCODER, y, y);
            let bias = self.position_bias(il, T::EncAttnRelB, buckets);
            let y = self.attention_unprojected(il, qkv, AttentionExtras { bias, ..AttentionExtras::default() });
            let y = self.linear(il, T::EncAttnO, y);
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            x = self.t5_feed_forward(il, half, T::EncFfnNorm, ENCODER_FFN);
        }
        let weight = self.need_global(T::EncOutputNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        self.g[x].output = true;
        self.label(x, "result_norm", None);
        self.close(x);
    }

    /// Queries of `x`, keys and values of `of`.
    fn t5_heads(&mut self, il: usize, [q, k, v, _]: AttentionWeights, x: TensorId, of: TensorId) -> Qkv {
        let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
        let (k_size, v_size) = (self.hp.head_k(il), self.hp.head_v(il));
        let mut project = |slot, x: TensorId, size, heads| {
            let rows = self.g[x].ne[1];
            let y = self.affine(il, slot, x);
            self.g.reshape(y, [size, heads, rows, 1])
        };
        Qkv {
            q: project(q, x, k_size, heads),
            k: project(k, of, k_size, heads_kv),
            v: project(v, of, v_size, heads_kv),
        }
    }

    /// The bias of every head for the distance of two tokens, by the table of this block or of the first.
    fn position_bias(&mut self, il: usize, slot: T, buckets: TensorId) -> TensorId {
        let table = self.need(if self.has(il, slot) { il } else { 0 }, slot);
        let [cells, tokens, ..] = self.g[buckets].ne;
        let flat = self.g.reshape(buckets, [cells * tokens, 1, 1, 1]);
        let bias = self.g.get_rows(table, flat);
        let heads = self.g[bias].ne[0];
        let bias = self.g.reshape(bias, [heads, cells, tokens, 1]);
        self.g.permuted(bias, [2, 0, 1, 3])
    }

    fn t5_feed_forward(&mut self, il: usize, half: TensorId, norm: T, matrices: FfnWeights) -> TensorId {
        self.label(half, "ffn_inp", Some(il));
        let y = self.rms(half, norm, il);
        let activation = if self.has(il, matrices.gate) { Activation::Gated } else { Activation::Relu };
        let y = self.feed_forward_of(il, y, activation, matrices);
        self.sum(y, half, "l_out", il)
    }
}
