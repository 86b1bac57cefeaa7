//! Delta nets gated by head (Qwen 3 Next and 3.5, in three of four blocks; the others have gated attention).

mod kimi_delta;
mod rule;

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::{Activation, FfnWeights, Routing};
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::hparams::Ssm;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;
pub(super) use rule::DeltaRuleInputs;

impl GraphBuilder<'_> {
    /// Qwen 3 Next and 3.5, dense or with experts.
    pub fn qwen3_next(&mut self) {
        let (states, [mut x, positions, out_ids]) = self.begin_hybrid();
        for &il in self.blocks {
            self.layer_input(il, x);
            let residual = x;
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            self.g.expand(y);
            let y = if self.hp.is_recr[il] {
                self.delta_net(states, il, y)
            } else {
                self.gated_attention(il, y, positions)
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::AttnPostNorm, il);
            let y = self.gated_experts(il, y);
            x = self.sum(y, half, "l_out", il);
        }
        self.close_selected(x, out_ids);
    }

    /// The end of graphs that may normalise all rows, as an input of a draft model, before they select those with
    /// logits.
    pub(super) fn close_selected(&mut self, x: TensorId, out_ids: TensorId) {
        let mut x = self.final_norm(x, Norm::Rms);
        if self.keeps_last_rows() {
            x = self.g.get_rows(x, out_ids);
            self.g[x].output = true;
        }
        let logits = self.logits(x);
        let logits = self.soft_capped(logits);
        self.close(logits);
    }

    /// Attention whose result is multiplied by a gate projected together with the queries.
    pub(super) fn gated_attention(&mut self, il: usize, x: TensorId, positions: TensorId) -> TensorId {
        let (head, n) = (self.hp.head_v(il), self.batch.n_tokens);
        let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
        let [both, k, v] = if self.architecture.has(Trait::SeparateGatedQueries) {
            [LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV].map(|slot| self.linear(il, slot, x))
        } else {
            self.qkv_flat(il, x, [2 * head * heads, head * heads_kv, head * heads_kv])
        };
        let both = self.g.reshape(both, [2 * head, heads, n, 1]);
        let Tensor { nb, .. } = self.g[both];
        let part = [head, heads, n, 1];
        let q = self.g.window(both, part, [nb[1], nb[2]]);
        let gate = self.g.window(both, part, [nb[1], nb[2]]);
        let k = self.g.reshape(k, [head, heads_kv, n, 1]);
        let v = self.g.reshape(v, [head, heads_kv, n, 1]);
        let qkv = self.norm_heads(il, Qkv { q, k, v }, Norm::Rms);
        let qkv = self.rotate(qkv, positions, TensorId::NONE);
        let y = self.attention_unprojected(il, qkv, AttentionExtras::default());
        let gate = self.g.cont_as(gate, [head * heads, n, 1, 1]);
        let mut gate = self.g.unary(gate, UnaryOp::Sigmoid);
        if self.release.gate_reshapes && self.architecture.has(Trait::ReshapesGate) {
            gate = self.g.reshape(gate, [head * heads, n, 1, 1]);
        }
        let y = self.g.mul(y, gate);
        self.linear(il, LlmTensor::AttnOutput, y)
    }

    /// A gated delta net.
    pub(super) fn delta_net(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let Ssm { d_conv, d_inner, d_state: head_k, dt_rank: heads_v, n_group: heads_k, .. } = self.hp.ssm;
        let head_v = d_inner / heads_v.max(1);
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let (mixed, z) = self.mixed_and_gate(il, x);
        let (beta, gate) = self.decay(il, x);

        let rolling = self.state(il, RecurrentState::Rolling);
        let columns = self.convolved_input(input, rolling, mixed, d_conv - 1, false);
        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let state = self.g.reshape(state, [head_v, head_v, heads_v, n_seqs]);
        let mixed = self.convolve(il, columns);

        let Tensor { nb, .. } = self.g[mixed];
        let part = |build: &mut Self, head: u64, heads: u64| {
            build.g.window(mixed, [head, heads, n, n_seqs], [head * nb[0], nb[1], nb[1] * n])
        };
        let mut q = part(self, head_k, heads_k);
        let mut k = part(self, head_k, heads_k);
        let v = part(self, head_v, heads_v);
        for x in [&mut q, &mut k] {
            *x = self.delta_norm(*x);
        }
        let in_turn = self.architecture.has(Trait::RepeatsHeadsInTurn);
        let all_fused = self.release.fuses_delta_net && self.cx.fused_delta_chunks && self.cx.fused_delta_token;
        if heads_k != heads_v && !in_turn && !all_fused {
            for x in [&mut q, &mut k] {
                *x = self.g.repeat(*x, [head_k, heads_v, n, n_seqs]);
            }
        }
        if heads_k != heads_v && in_turn {
            for x in [&mut q, &mut k] {
                let apart = self.g.reshape(*x, [head_k, 1, heads_k, n * n_seqs]);
                let repeated = self.g.repeat(apart, [head_k, heads_v / heads_k.max(1), heads_k, n * n_seqs]);
                *x = self.g.reshape(repeated, [head_k, heads_v, n, n_seqs]);
            }
        }
        let operands = DeltaRuleInputs { q, k, v, gate, beta, state };
        let y = self.delta_step(il, &operands, recurrent);

        let z = self.g.reshape(z, [head_v, heads_v, n, n_seqs]);
        let y = self.rms(y, LlmTensor::SsmNorm, il);
        let sigmoid = self.architecture.has(Trait::SigmoidDeltaGate);
        let z = self.g.unary(z, if sigmoid { UnaryOp::Sigmoid } else { UnaryOp::Silu });
        let y = self.g.mul(y, z);
        if self.release.delta_net_flat {
            let y = self.g.reshape(y, [head_v * heads_v, n * n_seqs, 1, 1]);
            return self.linear(il, LlmTensor::SsmOut, y);
        }
        let y = self.g.reshape(y, [head_v * heads_v, n, n_seqs, 1]);
        let y = self.linear(il, LlmTensor::SsmOut, y);
        self.g.reshape(y, [self.hp.n_embd, n * n_seqs, 1, 1])
    }

    /// Queries or keys of a delta net, normalised.
    pub(super) fn delta_norm(&mut self, x: TensorId) -> TensorId {
        if !self.release.delta_net_rms {
            return self.g.l2_norm(x);
        }
        let x = self.g.rms_norm(x);
        self.g.scale(x)
    }

    /// The result of the delta rule; the new states are written to `recurrent`.
    pub(super) fn delta_step(&mut self, il: usize, operands: &DeltaRuleInputs, recurrent: TensorId) -> TensorId {
        let stays = if self.n_seq_tokens() > 1 { self.cx.fused_delta_chunks } else { self.cx.fused_delta_token };
        let fused = self.release.fuses_delta_net && stays;
        let keeps = self.cx.n_rs_seq > 0;
        let (y, new) = if fused || keeps { self.fused_delta_rule(il, operands) } else { self.delta_rule(operands) };
        let (size, stride, n_seqs) = (self.hp.n_embd_s(), self.g[recurrent].nb[1], self.batch.n_seqs);
        let written = if keeps { self.g[new].ne[2] } else { 1 };
        let target = self.g.window(recurrent, [size, n_seqs, written, 1], [stride, stride * n_seqs]);
        self.g.store(new, target);
        y
    }

    /// The delta rule as one operation, whose result also holds the new state.
    fn fused_delta_rule(&mut self, il: usize, operands: &DeltaRuleInputs) -> (TensorId, TensorId) {
        let DeltaRuleInputs { q, k, v, gate, beta, state } = *operands;
        let [head, heads, n, n_seqs] = self.g[v].ne;
        let state = if self.release.delta_net_reshapes {
            self.g.reshape(state, [head * head * heads, 1, n_seqs, 1])
        } else {
            state
        };
        let states = 1 + self.cx.n_rs_seq;
        let both = self.g.gated_delta_net([q, k, v, gate, beta, state], states);
        self.label(both, "delta_net", Some(il));
        let element = self.g[both].nb[0];
        let (row, block) = (element * head, element * head * heads);
        let y = self.g.window(both, [head, heads, n, n_seqs], [row, block, block * n]);
        let new = if states > 1 {
            let size = head * head * heads;
            self.g.window(both, [size, n_seqs, states.min(n), 1], [element * size, element * size * n_seqs])
        } else {
            self.g.window(both, [head, head, heads, n_seqs], [row, row * head, row * head * heads])
        };
        (y, new)
    }

    /// Queries, keys and values in one tensor, and the output gate; older files interleave all four.
    fn mixed_and_gate(&mut self, il: usize, x: TensorId) -> (TensorId, TensorId) {
        let Ssm { d_inner, d_state: head_k, dt_rank: heads_v, n_group: heads_k, .. } = self.hp.ssm;
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        if self.weight(il, LlmTensor::AttnQkv).is_some() {
            let mixed = self.linear(il, LlmTensor::AttnQkv, x);
            let wide = self.g[mixed].ne[0];
            let mixed = self.g.reshape(mixed, [wide, n, n_seqs, 1]);
            return (mixed, self.linear(il, LlmTensor::AttnGate, x));
        }
        let head_v = d_inner / heads_v.max(1);
        let values = head_v * heads_v / heads_k.max(1);
        let all = self.linear(il, LlmTensor::SsmIn, x);
        let all = self.g.reshape(all, [2 * head_k + 2 * values, heads_k, n, n_seqs]);
        let Tensor { nb, .. } = self.g[all];
        let [q, k, v, z] = [head_k, head_k, values, values]
            .map(|size| self.g.window(all, [size, heads_k, n, n_seqs], [nb[1], nb[2], nb[3]]));
        let z = self.g.cont(z);
        let q = self.g.cont_as(q, [head_k * heads_k, n, n_seqs, 1]);
        let k = self.g.cont_as(k, [head_k * heads_k, n, n_seqs, 1]);
        let v = self.g.cont_as(v, [head_v * heads_v, n, n_seqs, 1]);
        let mixed = self.g.concat(q, k, 0);
        (self.g.concat(mixed, v, 0), z)
    }

    /// The factors of the delta rule: beta, and the decay of the state.
    fn decay(&mut self, il: usize, x: TensorId) -> (TensorId, TensorId) {
        let Ssm { dt_rank: heads_v, n_group: heads_k, .. } = self.hp.ssm;
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let each = [1, heads_v, n, n_seqs];
        let (beta, alpha) = if self.weight(il, LlmTensor::SsmBetaAlpha).is_some() {
            let both = self.linear(il, LlmTensor::SsmBetaAlpha, x);
            let per = heads_v / heads_k.max(1);
            let both = self.g.reshape(both, [2 * per, heads_k, n, n_seqs]);
            let Tensor { nb, .. } = self.g[both];
            let [beta, alpha] =
                [per; 2].map(|size| self.g.window(both, [size, heads_k, n, n_seqs], [nb[1], nb[2], nb[3]]));
            let beta = if self.release.delta_net_flat { beta } else { self.g.cont(beta) };
            let beta = self.g.unary(beta, UnaryOp::Sigmoid);
            (self.g.reshape(beta, each), self.g.cont_as(alpha, [heads_v, n, n_seqs, 1]))
        } else {
            let beta = self.linear(il, LlmTensor::SsmBeta, x);
            let beta = self.g.reshape(beta, each);
            let beta = self.g.unary(beta, UnaryOp::Sigmoid);
            let alpha = self.linear(il, LlmTensor::SsmAlpha, x);
            (beta, self.g.reshape(alpha, [heads_v, n, n_seqs, 1]))
        };
        let bias = self.bias(il, LlmTensor::SsmDt);
        let alpha = self.g.add(alpha, bias);
        let alpha = self.g.unary(alpha, UnaryOp::Softplus);
        let a = self.need(il, LlmTensor::SsmA);
        let gate = self.g.mul(alpha, a);
        (beta, self.g.reshape(gate, each))
    }

    /// Routed experts plus a gated shared expert, or a dense feed-forward part.
    pub(super) fn gated_experts(&mut self, il: usize, x: TensorId) -> TensorId {
        if !self.weight(il, LlmTensor::FfnGateInp).is_some() {
            return self.feed_forward(il, x, Activation::Gated);
        }
        let chosen = self.experts(il, x, Routing::SOFTMAX);
        if !self.weight(il, LlmTensor::FfnUpShexp).is_some() {
            return chosen;
        }
        let shared = self.feed_forward_of(il, x, Activation::Gated, FfnWeights::SHARED);
        let gate = self.linear(il, LlmTensor::FfnGateInpShexp, x);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let shared = self.g.mul(shared, gate);
        self.g.add(chosen, shared)
    }
}
