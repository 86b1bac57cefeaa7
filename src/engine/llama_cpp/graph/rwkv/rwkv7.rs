//! The time mixing of RWKV 7 (`models/rwkv7-base.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Op, TensorId, UnaryOp};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// `first_value` receives the values of the first block, which the others mix in.
    pub(super) fn rwkv7_time_mix(
        &mut self,
        input: RecurrentInput,
        il: usize,
        x: TensorId,
        before: TensorId,
        first_value: &mut TensorId,
    ) -> TensorId {
        let (n_embd, n, head) = (self.hp.n_embd, self.batch.n_tokens, self.hp.wkv_head_size);
        let by_head = [head, n_embd / head, n, 1];
        let gated = self.has(il, LlmTensor::TimeMixG1) && self.has(il, LlmTensor::TimeMixG2);
        let change = self.g.sub(before, x);
        let parts = if gated { 6 } else { 5 };
        let change = self.g.repeat(change, [n_embd, self.n_seq_tokens(), self.batch.n_seqs, parts]);
        let mixed = self.lerp(il, change, LlmTensor::TimeMixLerpFused, x);
        let [xr, xw, xk, xv, xa, xg] = self.mixed_parts(mixed);

        let r = self.linear(il, LlmTensor::TimeMixReceptance, xr);
        let w = self.linear(il, LlmTensor::TimeMixW1, xw);
        let w = self.g.unary(w, UnaryOp::Tanh);
        let w = self.shifted(il, [LlmTensor::TimeMixW2, LlmTensor::TimeMixW0], w);
        let w = self.g.unary(w, UnaryOp::Sigmoid);
        let w = self.g.scale(w);
        let w = self.g.unary(w, UnaryOp::Exp);
        let k = self.linear(il, LlmTensor::TimeMixKey, xk);
        let mut v = self.linear(il, LlmTensor::TimeMixValue, xv);
        if first_value.is_some() {
            let towards = self.g.sub(*first_value, v);
            let part = self.linear(il, LlmTensor::TimeMixV1, xv);
            let part = self.shifted(il, [LlmTensor::TimeMixV2, LlmTensor::TimeMixV0], part);
            let part = self.g.unary(part, UnaryOp::Sigmoid);
            let part = self.g.mul(towards, part);
            v = self.g.add(v, part);
        } else {
            *first_value = v;
        }
        let gate = gated.then(|| {
            let gate = self.linear(il, LlmTensor::TimeMixG1, xg);
            let gate = self.g.unary(gate, UnaryOp::Sigmoid);
            self.linear(il, LlmTensor::TimeMixG2, gate)
        });
        let a = self.linear(il, LlmTensor::TimeMixA1, xa);
        let a = self.shifted(il, [LlmTensor::TimeMixA2, LlmTensor::TimeMixA0], a);
        let a = self.g.unary(a, UnaryOp::Sigmoid);

        let [kk, ka] = [LlmTensor::TimeMixKK, LlmTensor::TimeMixKA].map(|slot| {
            let weight = self.need(il, slot);
            self.g.mul(k, weight)
        });
        let kk = self.g.reshape(kk, by_head);
        let kk = self.g.l2_norm(kk);
        let aka = self.g.mul(a, ka);
        let more = self.g.sub(aka, ka);
        let k = self.g.add(k, more);
        let [r, w, k, v, a] = [r, w, k, v, a].map(|x| self.g.reshape(x, by_head));

        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let removed = self.g.unary(kk, UnaryOp::Neg);
        let added = self.g.mul(kk, a);
        let both = self.g.linear_attention(Op::RwkvWkv7, [r, w, k, v, removed, added, state]);
        let y = self.wkv_output(il, both);
        let y = self.group_norm_of_heads(il, y);
        let kr = self.g.mul(k, r);
        let bonus = self.need(il, LlmTensor::TimeMixRK);
        let bonus = self.g.reshape(bonus, [head, n_embd / head, 1, 1]);
        let bonus = self.g.mul(kr, bonus);
        let bonus = self.g.sum_rows(bonus);
        let bonus = self.g.mul(v, bonus);
        let bonus = self.g.reshape(bonus, [n_embd, n, 1, 1]);
        let y = self.g.add(y, bonus);
        let y = gate.map_or(y, |gate| self.g.mul(y, gate));
        self.time_mix_output(il, y)
    }

    /// The first weight times `x`, plus the second.
    fn shifted(&mut self, il: usize, [by, plus]: [LlmTensor; 2], x: TensorId) -> TensorId {
        let y = self.linear(il, by, x);
        let plus = self.need(il, plus);
        self.g.add(y, plus)
    }
}
