//! Granite Switch: low-rank adapters beside every matrix, one of which an extra block of attention chooses for each
//! token (`models/granite-switch.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

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
        for &il in self.blocks {
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
