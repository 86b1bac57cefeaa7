//! The time mixing of RWKV 6 (`models/rwkv6-base.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Op, Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub(super) fn rwkv6_time_mix(
        &mut self,
        input: RecurrentInput,
        il: usize,
        x: TensorId,
        before: TensorId,
    ) -> TensorId {
        let (n_embd, n, head) = (self.hp.n_embd, self.batch.n_tokens, self.hp.wkv_head_size);
        let (heads, heads_kv) = (n_embd / head, self.hp.n_head_kv[il]);
        let gated = !self.has(il, LlmTensor::TimeMixFirst);
        let change = self.g.sub(before, x);
        let [xw, xk, xv, xr, xg] = self.rwkv6_mixed(il, change, x);

        let [mut r, mut k, mut v] =
            [(LlmTensor::TimeMixReceptance, xr), (LlmTensor::TimeMixKey, xk), (LlmTensor::TimeMixValue, xv)]
                .map(|(slot, x)| self.affine(il, slot, x));
        let gate = self.linear(il, LlmTensor::TimeMixGate, xg);
        let gate = self.g.unary(gate, if gated { UnaryOp::Sigmoid } else { UnaryOp::Silu });
        if heads_kv != 0 && heads_kv != heads {
            for x in [&mut k, &mut v] {
                let apart = self.g.reshape(*x, [head, 1, heads_kv, n]);
                *x = self.g.repeat(apart, [head, heads / heads_kv, heads_kv, n]);
            }
        }
        for x in [&mut k, &mut v, &mut r] {
            *x = self.g.reshape(*x, [head, heads, n, 1]);
        }
        let w = self.linear(il, LlmTensor::TimeMixDecayW1, xw);
        let w = self.g.unary(w, UnaryOp::Tanh);
        let w = self.linear(il, LlmTensor::TimeMixDecayW2, w);
        let decay = self.need(il, LlmTensor::TimeMixDecay);
        let w = self.g.add(w, decay);
        let w = self.g.unary(w, UnaryOp::Exp);
        let w = self.g.unary(w, UnaryOp::Neg);
        let w = self.g.unary(w, UnaryOp::Exp);
        let w = self.g.reshape(w, [head, heads, n, 1]);
        if gated {
            let kw = self.g.mul(k, w);
            k = self.g.sub(k, kw);
        }
        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let both = if gated {
            self.g.linear_attention(Op::GatedLinearAttn, [k, v, r, w, state])
        } else {
            let first = self.need(il, LlmTensor::TimeMixFirst);
            self.g.linear_attention(Op::RwkvWkv6, [k, v, r, first, w, state])
        };
        let y = self.wkv_output(il, both);
        let y = if gated { self.g.reshape(y, [n_embd, n, 1, 1]) } else { self.group_norm_of_heads(il, y) };
        let y = self.g.mul(y, gate);
        self.time_mix_output(il, y)
    }

    /// The input of decay, key, value, receptance and gate: each token with a part of the one before that depends on it.
    fn rwkv6_mixed(&mut self, il: usize, change: TensorId, x: TensorId) -> [TensorId; 5] {
        let (n_embd, n) = (self.hp.n_embd, self.batch.n_tokens);
        let [change, x] = [change, x].map(|x| self.g.reshape(x, [n_embd, n, 1, 1]));
        let mixed = self.lerp(il, change, LlmTensor::TimeMixLerpX, x);
        let mixed = self.linear(il, LlmTensor::TimeMixW1, mixed);
        let mixed = self.g.unary(mixed, UnaryOp::Tanh);
        let extra = self.g[mixed].ne[0] / 5;
        let mixed = self.g.reshape(mixed, [extra, 1, 5, n]);
        let mixed = self.g.permuted(mixed, [0, 1, 3, 2]);
        let w2 = self.need(il, LlmTensor::TimeMixW2);
        let Tensor { ne, .. } = self.g[w2];
        let w2 = self.g.reshape(w2, [ne[0], ne[1], 1, 5]);
        let mixed = self.g.mul_mat(w2, mixed);
        if self.has(il, LlmTensor::TimeMixLerpFused) {
            let [change, x] = [change, x].map(|x| self.g.reshape(x, [n_embd, 1, n, 1]));
            let mixed = self.moved(il, LlmTensor::TimeMixLerpFused, mixed, change, x);
            return self.mixed_parts(mixed);
        }
        let parts: [TensorId; 5] = self.mixed_parts(mixed);
        let slots = [
            LlmTensor::TimeMixLerpW,
            LlmTensor::TimeMixLerpK,
            LlmTensor::TimeMixLerpV,
            LlmTensor::TimeMixLerpR,
            LlmTensor::TimeMixLerpG,
        ];
        std::array::from_fn(|i| self.moved(il, slots[i], parts[i], change, x))
    }

    /// `x` moved by the part of `change` that `mixed` and a weight say.
    fn moved(&mut self, il: usize, slot: LlmTensor, mixed: TensorId, change: TensorId, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let part = self.g.add(mixed, weight);
        let part = self.g.mul(part, change);
        self.g.add(part, x)
    }
}
