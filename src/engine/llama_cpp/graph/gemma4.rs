//! Gemma 4: head sizes differ between kinds of blocks, later blocks use the caches of earlier ones, and some models
//! have per-layer embeddings.

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::{Activation, Routing};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{TensorId, UnaryOp, row};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

impl GraphBuilder<'_> {
    /// Gemma 4.
    pub fn gemma4(&mut self) {
        let first = if self.release.rows_first { self.per_layer_rows() } else { TensorId::NONE };
        if first.is_some() {
            self.g.expand(first);
        }
        let mut x = self.embeddings(true);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let per_layer = self.per_layer_inputs(x, first);
        for &il in self.blocks {
            self.layer_input(il, x);
            let residual = x;
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let factors = if self.hp.is_swa[il] { TensorId::NONE } else { self.rope_factors(il) };
            let qkv = self.gemma4_qkv(il, y, positions, factors);
            let y = self.attention_unprojected(il, qkv, AttentionExtras::default());
            let y = self.linear(il, LlmTensor::AttnOutput, y);
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let y = self.rms(y, LlmTensor::AttnPostNorm, il);
            let half = self.g.add(y, residual);
            let y = if self.weight(il, LlmTensor::FfnGateInp).is_some() {
                self.gemma4_experts(il, half)
            } else {
                let y = self.rms(half, LlmTensor::FfnNorm, il);
                self.feed_forward(il, y, Activation::Gated)
            };
            let y = self.unpinned_rms(y, LlmTensor::FfnPostNorm, il);
            x = self.g.add(y, half);
            if per_layer.is_some() {
                x = self.add_per_layer(il, x, per_layer, out_ids);
            }
            let scale = self.weight(il, LlmTensor::LayerOutScale);
            x = self.g.times(x, scale);
            self.label(x, "l_out", Some(il));
        }
        self.close_selected(x, out_ids);
    }

    /// Queries, and keys and values if the block has its own cache.
    pub(super) fn gemma4_qkv(&mut self, il: usize, x: TensorId, positions: TensorId, factors: TensorId) -> Qkv {
        let (head, n) = (self.hp.head_k(il), self.batch.n_tokens);
        let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
        let fused = if self.weight(il, LlmTensor::AttnQkv).is_some() {
            self.linear(il, LlmTensor::AttnQkv, x)
        } else {
            TensorId::NONE
        };
        let part = |build: &mut Self, slot: LlmTensor, heads: u64| {
            if fused.is_some() {
                let stride = build.g[fused].nb[1];
                let view = build.g.window(fused, [head * heads, n, 1, 1], [stride]);
                build.g.cont(view)
            } else {
                build.linear(il, slot, x)
            }
        };
        let q = part(self, LlmTensor::AttnQ, heads);
        let q = self.g.reshape(q, [head, heads, n, 1]);
        let q = self.rms(q, LlmTensor::AttnQNorm, il);
        let q = self.g.rope(q, positions, factors);
        if self.hp.n_layer_kv_from_start.is_some_and(|own| il >= own) {
            return Qkv { q, k: TensorId::NONE, v: TensorId::NONE };
        }
        let k = part(self, LlmTensor::AttnK, heads_kv);
        let has_v = fused.is_some() || self.weight(il, LlmTensor::AttnV).is_some();
        let v = if has_v { part(self, LlmTensor::AttnV, heads_kv) } else { k };
        let k = self.g.reshape(k, [head, heads_kv, n, 1]);
        let v = self.g.reshape(v, [head, heads_kv, n, 1]);
        let k = self.rms(k, LlmTensor::AttnKNorm, il);
        let v = self.g.rms_norm(v);
        let k = self.g.rope(k, positions, factors);
        Qkv { q, k, v }
    }

    /// A dense part and experts in parallel.
    fn gemma4_experts(&mut self, il: usize, x: TensorId) -> TensorId {
        let y = self.rms(x, LlmTensor::FfnNorm, il);
        let y = self.feed_forward(il, y, Activation::Gated);
        let dense = self.rms(y, LlmTensor::FfnPostNorm1, il);
        let y = self.rms(x, LlmTensor::FfnPreNorm2, il);
        let router = self.g.rms_norm(x);
        let router = self.g.scale(router);
        let scale = self.scale_of(il, LlmTensor::FfnGateInp);
        let router = self.g.mul(router, scale);
        let logits = self.multiply(il, LlmTensor::FfnGateInp, router);
        let y = self.experts_by(il, y, logits, Routing::SOFTMAX);
        let chosen = self.rms(y, LlmTensor::FfnPostNorm2, il);
        self.g.add(dense, chosen)
    }

    /// Rows of the table of per-layer embeddings, if the model has one.
    fn per_layer_rows(&mut self) -> TensorId {
        if self.weights.find_global(LlmTensor::PerLayerTokenEmbd, TensorSuffix::Weight).is_none() {
            return TensorId::NONE;
        }
        let tokens = self.g.input(Type::I32, [self.batch.n_tokens, 1, 1, 1], "inp_tokens");
        let table = self.need_global(LlmTensor::PerLayerTokenEmbd);
        self.g.get_rows(table, tokens)
    }

    /// Per-layer embeddings: looked up by token, maybe `first` of all, plus a projection of the input embeddings.
    pub(super) fn per_layer_inputs(&mut self, x: TensorId, first: TensorId) -> TensorId {
        let rows = if first.is_some() { first } else { self.per_layer_rows() };
        if !rows.is_some() {
            return TensorId::NONE;
        }
        let (size, n, blocks) = (self.hp.n_embd_per_layer, self.batch.n_tokens, self.hp.n_layer() as u64);
        let looked_up = if first.is_some() {
            let scaled = self.g.scale(rows);
            self.g.reshape(scaled, [size, blocks, n, 1])
        } else {
            let apart = self.g.reshape(rows, [size, blocks, n, 1]);
            let scaled = self.g.scale(apart);
            self.g.expand(scaled);
            scaled
        };

        let y = self.multiply_global(LlmTensor::PerLayerModelProj, x);
        let y = self.g.scale(y);
        let y = self.g.reshape(y, [size, blocks, n, 1]);
        let weight = self.need_global(LlmTensor::PerLayerProjNorm);
        let y = self.norm_with(y, weight, TensorId::NONE, Norm::Rms, None);
        let y = self.g.add(y, looked_up);
        let y = self.g.scale(y);
        self.g.permuted(y, [0, 2, 1, 3])
    }

    fn add_per_layer(&mut self, il: usize, x: TensorId, per_layer: TensorId, out_ids: TensorId) -> TensorId {
        let y = self.linear(il, LlmTensor::PerLayerInpGate, x);
        let y = self.g.unary(y, UnaryOp::Gelu);
        let [size, n, ..] = self.g[per_layer].ne;
        let own = self.g.window(per_layer, [size, n, 1, 1], [row(Type::F32, size)]);
        let [own] = self.keep_outputs(il, out_ids, [own]);
        let y = self.g.mul(y, own);
        let y = self.linear(il, LlmTensor::PerLayerProj, y);
        let y = self.rms(y, LlmTensor::PerLayerPostNorm, il);
        self.g.add(x, y)
    }
}
