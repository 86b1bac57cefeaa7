//! Graphs that differ from attention and feed-forward in turn in a step or two, and of encoders.

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::{Activation, FfnWeights, Routing};
use super::hyper_connections::{OF_ATTENTION, OF_FEED_FORWARD};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::{Norm, Transformer, gating};
use crate::engine::llama_cpp::weights::{LlmTensor, LlmTensor as T};

// gpt-oss and Llama 4: experts, and blocks with a sliding window or chunks.

impl GraphBuilder<'_> {
    /// gpt-oss: attention sinks, and experts in every block.
    pub fn gpt_oss(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        let rot = self.hp.n_rot[0];
        for il in 0..self.hp.n_layer() {
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

    /// Llama 4: every fourth block has full attention without positions; tokens are weighted before the experts.
    pub fn llama4(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        let temperature = self.attention_scale();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let step = self.hp.no_rope_layer_step;
            let rotated = step > 0 && !(il as u64 + 1).is_multiple_of(step);
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let factors = self.rope_factors(il);
            let mut qkv = self.qkv(il, y);
            if rotated {
                qkv = self.rotate(qkv, positions, factors);
                if self.hp.use_kq_norm {
                    (qkv.q, qkv.k) = (self.g.rms_norm(qkv.q), self.g.rms_norm(qkv.k));
                }
            } else {
                qkv.q = self.g.mul(qkv.q, temperature);
            }
            let y = self.attention(il, qkv, AttentionExtras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.sum(y, residual, "ffn_inp", il);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = if self.weight(il, LlmTensor::FfnGateInp).is_some() {
                let routing = Routing {
                    gating: gating::SIGMOID,
                    normalised: false,
                    scaled: self.experts_scaled(),
                    weigh_first: true,
                    ..Routing::SOFTMAX
                };
                let chosen = self.experts(il, y, routing);
                let shared = self.feed_forward_of(il, y, Activation::Gated, FfnWeights::SHARED);
                self.g.add(chosen, shared)
            } else {
                self.feed_forward(il, y, Activation::Gated)
            };
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }
}

// Arctic: in every block a dense part, and experts that read the block's own input (`models/arctic.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn arctic(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for il in 0..self.hp.n_layer() {
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

// `BitNet`: norms before the last matrix of both halves, and logits from the token embeddings where they are
// (`models/bitnet.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn bitnet(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for il in 0..self.hp.n_layer() {
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

// `DeciLM` and Nemotron Ultra: a search left blocks without attention, with one matrix for it, or without a
// feed-forward part (`models/deci.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn deci(&mut self) {
        let [mut x, positions, out_ids] = self.begin();
        for il in 0..self.hp.n_layer() {
            let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
            let mut y = x;
            if heads > 0 {
                y = self.rms(x, LlmTensor::AttnNorm, il);
                if heads_kv == 0 {
                    y = self.multiply(il, LlmTensor::AttnOutput, y);
                } else {
                    let factors = self.rope_factors(il);
                    y = self.rotated_attention(il, y, positions, factors);
                }
            }
            // without a feed-forward part the block's input goes on, and its attention is dropped
            if self.hp.n_ff[il] == 0 {
                continue;
            }
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = if heads > 0 { self.g.add(y, residual) } else { y };
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }
}

// HRM-Text: a high cycle runs the low stack of blocks several times and then the high stack, each from the sum of
// both states (`models/hrm-text.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn hrm_text(&mut self) {
        let kind = self.transformer_kind();
        let mut high = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let mut low = self.need_global(LlmTensor::HrmZLInit);
        if let Some(hrm) = self.hp.hrm {
            let mut first = 0;
            for _ in 0..hrm.h_cycles {
                for pass in 0..=hrm.l_cycles {
                    let sum = self.g.add(high, low);
                    let state = self.stack(&kind, first..first + hrm.layers_per_stack, sum, positions);
                    *(if pass == hrm.l_cycles { &mut high } else { &mut low }) = state;
                    first += hrm.layers_per_stack;
                }
            }
        }
        let x = self.g.get_rows(high, out_ids);
        self.g[x].output = true;
        self.label(x, "result_norm", None);
        let logits = self.logits(x);
        self.close(logits);
    }

    /// One pass of a stack, normalised at its end.
    fn stack(
        &mut self,
        kind: &Transformer,
        blocks: std::ops::Range<usize>,
        mut x: TensorId,
        positions: TensorId,
    ) -> TensorId {
        for il in blocks {
            let normed = self.g.rms_norm(x);
            x = self.transformer_block(kind, il, x, normed, positions);
            self.label(x, "l_out", Some(il));
        }
        self.g.rms_norm(x)
    }
}

// Hy4: compressed attention with sinks, a gate and an indexer, over several residual streams (`models/hy-v4.cpp`,
// 0.1.161).

impl GraphBuilder<'_> {
    pub fn hy_v4(&mut self) {
        let kind = self.transformer_kind();
        let [x, positions, out_ids] = self.begin();
        let mut x = self.spread_over_streams(x);
        for il in 0..self.hp.n_layer() {
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

// Talkie: norms without weights, and after every block a part of the embeddings (`models/talkie.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn talkie(&mut self) {
        let x = self.embeddings(false);
        let embedded = self.g.rms_norm(x);
        let mut x = embedded;
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
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

// T5: an encoder and a decoder, whose positions are a bias of the attention scores by distance (`models/t5.cpp`,
// `models/t5encoder.cpp`, 0.1.161).

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
        for il in 0..self.hp.n_layer() {
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

// Granite Switch: low-rank adapters beside every matrix, one of which an extra block of attention chooses for each
// token (`models/granite-switch.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn granite_switch(&mut self) {
        let n = self.batch.n_tokens;
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_sub_tokens");
        let signals = ["inp_router_k", "inp_router_v", "inp_router_q"];
        let [k, v, q] = signals.map(|label| self.g.input(Type::F32, [n, 1, 1, 1], label));
        let table = self.need_global(LlmTensor::TokenEmbd);
        let mut x = self.g.get_rows(table, tokens);
        if self.hp.embedding_scale {
            x = self.g.scale(x);
        }
        self.label(x, "inp_embd", None);
        let positions = if self.hp.has_rope { self.positions() } else { TensorId::NONE };
        self.attention_inputs();
        let mut adapters = self.chosen_adapters([q, k, v]);
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let y = self.switched_attention(il, y, positions, adapters);
            let [mut y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            if il + 1 == self.hp.n_layer() {
                let as_rows = self.g.reshape(adapters, [1, n, 1, 1]);
                let kept = self.g.get_rows(as_rows, out_ids);
                adapters = self.g.reshape(kept, [self.batch.n_outputs, 1, 1, 1]);
            }
            if self.hp.residual_scale {
                y = self.g.scale(y);
            }
            let half = self.sum(y, residual, "ffn_inp", il);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let mut y = self.switched_feed_forward(il, y, adapters);
            if self.hp.residual_scale {
                y = self.g.scale(y);
            }
            x = self.sum(y, half, "l_out", il);
        }
        let logits = self.finish(x, Norm::Rms);
        let logits = self.g.scale(logits);
        self.close(logits);
    }

    /// The adapter of every token: what the last block's only head attends to.
    fn chosen_adapters(&mut self, signals: [TensorId; 3]) -> TensorId {
        let (n, il) = (self.batch.n_tokens, self.hp.n_layer());
        let head = self.hp.head_v(il);
        let [q, k, v] = signals.map(|signal| {
            let lane = self.g.reshape(signal, [1, 1, n, 1]);
            self.g.pad(lane, [head.saturating_sub(1), 0, 0, 0])
        });
        let y = self.attention_unprojected(il, Qkv { q, k, v }, AttentionExtras::default());
        let stride = self.g[y].nb[1];
        let first = self.g.window(y, [1, n, 1, 1], [stride]);
        let first = self.g.cont(first);
        let first = self.g.reshape(first, [n, 1, 1, 1]);
        let first = self.g.clamp(first);
        let first = self.g.unary(first, UnaryOp::Round);
        self.g.cast(first, Type::I32)
    }

    fn switched_attention(&mut self, il: usize, x: TensorId, positions: TensorId, adapters: TensorId) -> TensorId {
        let (n, head) = (self.batch.n_tokens, self.hp.head_k(il));
        let heads = [self.hp.n_head[il], self.hp.n_head_kv[il], self.hp.n_head_kv[il]];
        let all = self.multiply(il, LlmTensor::AttnQkv, x);
        self.label(all, "wqkv", Some(il));
        let stride = self.g[all].nb[1];
        let slots = [LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV];
        let [q, k, v] = std::array::from_fn(|i| {
            let part = self.g.window(all, [head * heads[i], n, 1, 1], [stride]);
            let part = self.g.cont(part);
            let delta = self.adapted(il, slots[i], x, adapters);
            let part = self.g.add(part, delta);
            self.g.reshape(part, [head, heads[i], n, 1])
        });
        let mut qkv = Qkv { q, k, v };
        if self.hp.has_rope {
            let factors = self.rope_factors(il);
            qkv = self.rotate(qkv, positions, factors);
        }
        let y = self.attention_unprojected(il, qkv, AttentionExtras::default());
        self.switched(il, LlmTensor::AttnOutput, y, adapters)
    }

    fn switched_feed_forward(&mut self, il: usize, x: TensorId, adapters: TensorId) -> TensorId {
        let gate = self.switched(il, LlmTensor::FfnGate, x, adapters);
        let up = self.switched(il, LlmTensor::FfnUp, x, adapters);
        let gate = self.g.unary(gate, UnaryOp::Silu);
        let y = self.g.mul(gate, up);
        self.switched(il, LlmTensor::FfnDown, y, adapters)
    }

    /// `weight · x`, and what each token's adapter adds.
    fn switched(&mut self, il: usize, slot: LlmTensor, x: TensorId, adapters: TensorId) -> TensorId {
        let y = self.multiply(il, slot, x);
        let delta = self.adapted(il, slot, x, adapters);
        self.g.add(y, delta)
    }

    /// What each token's adapter of this matrix makes of `x`.
    fn adapted(&mut self, il: usize, slot: LlmTensor, x: TensorId, adapters: TensorId) -> TensorId {
        let Tensor { ne: [wide, n, ..], .. } = self.g[x];
        let [a, b] = self.need_adapters(il, slot);
        let x = self.g.reshape(x, [wide, 1, n, 1]);
        let ids = self.g.reshape(adapters, [1, n, 1, 1]);
        let y = self.g.mul_mat_id(a, x, ids);
        let y = self.g.mul_mat_id(b, y, ids);
        let wide = self.g[y].ne[0];
        self.g.reshape(y, [wide, n, 1, 1])
    }
}
