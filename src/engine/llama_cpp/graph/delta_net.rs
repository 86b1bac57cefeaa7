//! Delta nets: gated ones by head (Qwen 3 Next and 3.5, in three of four blocks; the others have gated attention), and those
//! by channel of Kimi.

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::{Activation, FfnWeights, Routing};
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::hparams::Ssm;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// Qwen 3 Next and 3.5, dense or with experts.
    pub fn qwen3_next(&mut self) {
        let (states, [mut x, positions, out_ids]) = self.begin_hybrid();
        for il in 0..self.hp.n_layer() {
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

// The delta rule in single operations, for devices that do not run the fused one.

/// Tokens per chunk.
const CHUNK: u64 = 64;

/// Operands of the delta rule.
pub(super) struct DeltaRuleInputs {
    pub q: TensorId,
    pub k: TensorId,
    pub v: TensorId,
    pub gate: TensorId,
    pub beta: TensorId,
    pub state: TensorId,
}

impl GraphBuilder<'_> {
    /// Result (`[head, heads, tokens, sequences]`) and new state.
    fn delta_rule(&mut self, operands: &DeltaRuleInputs) -> (TensorId, TensorId) {
        if self.n_seq_tokens() == 1 { self.delta_token(operands) } else { self.delta_chunks(operands) }
    }

    /// One token per sequence.
    fn delta_token(&mut self, operands: &DeltaRuleInputs) -> (TensorId, TensorId) {
        let g = &mut *self.g;
        let [head, heads, _, n_seqs] = g[operands.v].ne;
        let q = g.scale(operands.q);
        let [q, k, v] = [q, operands.k, operands.v].map(|x| g.permute(x, [0, 2, 1, 3]));
        let gate = g.reshape(operands.gate, [1, 1, heads, n_seqs]);
        let beta = g.reshape(operands.beta, [1, 1, heads, n_seqs]);
        let gate = g.unary(gate, UnaryOp::Exp);
        let state = g.mul(operands.state, gate);
        let sk = g.mul(state, k);
        let sk = g.sum_rows(sk);
        let sk = g.transpose(sk);
        let d = g.sub(v, sk);
        let d = g.mul(d, beta);
        let d = g.transpose(d);
        let k = g.repeat(k, [head, head, heads, n_seqs]);
        let kd = g.mul(k, d);
        let state = g.add(state, kd);
        let y = g.mul(state, q);
        let y = g.sum_rows(y);
        (g.permute(y, [2, 0, 1, 3]), state)
    }

    /// Several tokens per sequence, in chunks.
    fn delta_chunks(&mut self, operands: &DeltaRuleInputs) -> (TensorId, TensorId) {
        let g = &mut *self.g;
        let [head, heads, n, n_seqs] = g[operands.v].ne;
        let chunks = n.div_ceil(CHUNK);
        let all = heads * n_seqs;
        let fill = chunks * CHUNK - n;
        let q = g.scale(operands.q);
        let [q, k, v, gate, beta] = [q, operands.k, operands.v, operands.gate, operands.beta].map(|x| {
            let x = g.permute(x, [0, 2, 1, 3]);
            g.pad(x, [0, fill, 0, 0])
        });
        let v_beta = g.mul(v, beta);
        let k_beta = g.mul(k, beta);
        let [q, k, k_beta, v_beta] = [q, k, k_beta, v_beta].map(|x| g.reshape(x, [head, CHUNK, chunks, all]));
        let gate = g.reshape(gate, [1, CHUNK, chunks, all]);
        let gate = g.transpose(gate);
        let gate = g.cont(gate);
        let decay = g.cumsum(gate);

        let across = g.reshape(decay, [1, CHUNK, chunks, all]);
        let across = g.repeat(across, [CHUNK, CHUNK, chunks, all]);
        let mask = g.sub(across, decay);
        let mask = g.tri(mask);
        let mask = g.unary(mask, UnaryOp::Exp);
        let kb = g.mul_mat(k, k_beta);
        let kb = g.mul(kb, mask);
        let kq = g.mul_mat(k, q);
        let kq = g.mul(kq, mask);
        let kq = g.tri(kq);
        let attention = self.inverse(kb);

        let g = &mut *self.g;
        let v = g.transpose(v_beta);
        let v = g.cont(v);
        let v = g.mul_mat(v, attention);
        let grown = g.unary(decay, UnaryOp::Exp);
        let k_beta = g.transpose(k_beta);
        let k_beta = g.cont(k_beta);
        let k_grown = g.mul(k_beta, grown);
        let k_decayed = g.mul_mat(k_grown, attention);
        let grown = g.transpose(grown);
        let grown = g.cont(grown);
        let q_grown = g.mul(q, grown);

        let Tensor { ne, nb, .. } = g[decay];
        let last = g.window(decay, [1, ne[1], ne[2], ne[3]], [nb[1], nb[2], nb[3]]);
        let last = g.cont(last);
        let last_grown = g.unary(last, UnaryOp::Exp);
        let last_grown = g.transpose(last_grown);
        let rest = g.sub(decay, last);
        let rest = g.unary(rest, UnaryOp::Neg);
        let rest = g.unary(rest, UnaryOp::Exp);
        let rest = g.transpose(rest);
        let rest = g.cont(rest);
        let k_rest = g.mul(k, rest);
        let k_rest = g.transpose(k_rest);
        let k_rest = g.cont(k_rest);
        let mut state = g.reshape(operands.state, [head, head, 1, all]);
        let v_turned = g.transpose(v);
        let v_turned = g.cont(v_turned);

        let mut y = v;
        for _ in 0..chunks {
            let [k_decayed, v_turned, kq, q_grown, k_rest, last_grown] =
                [k_decayed, v_turned, kq, q_grown, k_rest, last_grown].map(|x| {
                    let Tensor { ne, nb, .. } = g[x];
                    g.window(x, [ne[0], ne[1], 1, ne[3]], [nb[1], nb[2], nb[3]])
                });
            let before = g.mul_mat(k_decayed, state);
            let new = g.sub(v_turned, before);
            let within = g.mul_mat(new, kq);
            let carried = g.mul_mat(state, q_grown);
            let part = g.add(carried, within);
            y = g.set_in_place(y, part);
            let learnt = g.mul_mat(k_rest, new);
            state = g.mul(state, last_grown);
            state = g.add(state, learnt);
        }
        let Tensor { nb, .. } = g[y];
        let row = nb[1];
        let wide = row * CHUNK * chunks;
        let y = g.window(y, [head, n, heads, n_seqs], [row, wide, wide * heads]);
        let y = g.permute(y, [0, 2, 1, 3]);
        (y, g.reshape(state, [head, head, heads, n_seqs]))
    }

    /// Inverse of the unit triangular matrix with `kb` below its diagonal.
    fn inverse(&mut self, kb: TensorId) -> TensorId {
        let g = &mut *self.g;
        let lower = g.tri(kb);
        let ones = g.window(lower, [CHUNK, 1, 1, 1], []);
        let ones = g.fill(ones);
        let identity = g.diag(ones);
        let left = g.add(lower, identity);
        let right = g.unary(lower, UnaryOp::Neg);
        let solved = g.solve_tri(left, right);
        g.add(solved, identity)
    }
}

// Kimi's delta attention (KDA): a gated delta net whose decay differs by channel, after a short convolution each of
// queries, keys and values (`models/kimi-linear.cpp`, `models/kimi-k3.cpp`, `models/bailingmoe3.cpp`,
// `models/glm5-next.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// A block of delta attention from its normalised input.
    pub(super) fn kimi_delta(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let (head, heads) = (self.hp.n_embd_head_kda, self.hp.n_head[il]);
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        if !self.architecture.has(Trait::KeepsInput) {
            self.g.expand(x);
        }
        let rolling = self.state(il, RecurrentState::Rolling);
        let old = self.read_state(input, rolling);
        let flat = if self.has(il, LlmTensor::AttnQkv) {
            self.qkv_flat(il, x, [head * heads; 3])
        } else {
            [LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV].map(|slot| self.multiply(il, slot, x))
        };
        let kernels = [LlmTensor::SsmConv1dQ, LlmTensor::SsmConv1dK, LlmTensor::SsmConv1dV];
        let [q, k, v] = std::array::from_fn(|i| self.delta_convolution(il, [rolling, old, flat[i]], kernels[i]));
        let gate = self.channel_decay(il, x);
        let beta = self.linear(il, LlmTensor::SsmBeta, x);
        let beta = self.g.reshape(beta, [1, heads, n, n_seqs]);
        let beta = self.g.unary(beta, UnaryOp::Sigmoid);

        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let state = self.g.reshape(state, [head, head, heads, n_seqs]);
        let [q, k] = [q, k].map(|x| self.delta_norm(x));
        let y = self.delta_step(il, &DeltaRuleInputs { q, k, v, gate, beta, state }, recurrent);
        let y = self.g.cont(y);

        let factors = [LlmTensor::SsmG, LlmTensor::SsmGA, LlmTensor::SsmGB].into_iter();
        let present: Vec<_> = factors.filter(|slot| self.has(il, *slot)).collect();
        let z = present.into_iter().fold(x, |z, slot| self.linear(il, slot, z));
        let z = self.g.reshape(z, [head, heads, n * n_seqs, 1]);
        let y = self.g.reshape(y, [head, heads, n * n_seqs, 1]);
        let y = self.rms(y, LlmTensor::SsmNorm, il);
        let z = self.g.unary(z, UnaryOp::Sigmoid);
        let y = self.g.mul(y, z);
        let y = self.g.cont_as(y, [head * heads, n * n_seqs, 1, 1]);
        self.multiply(il, LlmTensor::AttnOutput, y)
    }

    /// The convolution of queries, keys or values `x` with the last inputs `old`; the new ones are written to `rolling`.
    fn delta_convolution(&mut self, il: usize, [rolling, old, x]: [TensorId; 3], kernel: LlmTensor) -> TensorId {
        let (head, heads, d_conv) = (self.hp.n_embd_head_kda, self.hp.n_head[il], self.hp.ssm.d_conv);
        let (n, n_seqs, wide) = (self.n_seq_tokens(), self.batch.n_seqs, head * heads);
        let third = |build: &mut Self, states: TensorId| {
            let Tensor { nb, .. } = build.g[states];
            build.g.window(states, [d_conv - 1, wide, n_seqs, 1], [(d_conv - 1) * nb[0], nb[1]])
        };
        let old = third(self, old);
        let x = self.g.reshape(x, [wide, n, n_seqs, 1]);
        let x = self.g.transpose(x);
        let all = self.g.concat(old, x, 0);
        let Tensor { nb, .. } = self.g[all];
        for _ in 0..self.snapshots_written() {
            let last = self.g.window(all, [d_conv - 1, wide, n_seqs, 1], [nb[1], nb[2]]);
            let target = third(self, rolling);
            self.g.store(last, target);
        }
        let kernel = self.need(il, kernel);
        let kernel = self.g.reshape(kernel, [d_conv, wide, 1, 1]);
        let y = self.g.ssm_conv(all, kernel);
        let y = self.g.reshape(y, [wide, n * n_seqs, 1, 1]);
        let y = self.g.unary(y, UnaryOp::Silu);
        self.g.reshape(y, [head, heads, n, n_seqs])
    }

    /// The decay of the state, by channel.
    fn channel_decay(&mut self, il: usize, x: TensorId) -> TensorId {
        let (head, heads) = (self.hp.n_embd_head_kda, self.hp.n_head[il]);
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let mut gate = self.linear(il, LlmTensor::SsmFA, x);
        if self.has(il, LlmTensor::SsmFB) {
            gate = self.linear(il, LlmTensor::SsmFB, gate);
        }
        let bias = self.bias(il, LlmTensor::SsmDt);
        gate = self.g.add(gate, bias);
        if !self.hp.bounded_decay {
            gate = self.g.unary(gate, UnaryOp::Softplus);
        }
        gate = self.g.reshape(gate, [head, heads, n * n_seqs, 1]);
        let a = self.need(il, LlmTensor::SsmA);
        let a = self.g.reshape(a, [1, heads, 1, 1]);
        gate = self.g.mul(gate, a);
        if self.hp.bounded_decay {
            if self.architecture.has(Trait::ScalesDecay) {
                gate = self.g.scale(gate);
            }
            gate = self.g.unary(gate, UnaryOp::Sigmoid);
            gate = self.g.scale(gate);
        }
        self.g.reshape(gate, [head, heads, n, n_seqs])
    }
}

// Kimi K3: Kimi Linear's blocks, and between them attention over banked residuals (`models/kimi-k3.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn kimi_k3(&mut self) {
        let mut x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let mut bank = TensorId::NONE;
        for il in 0..self.hp.n_layer() {
            let score = self.weight(il, LlmTensor::AttnResScore);
            let mixed = self.mixed_residuals(bank, x, score);
            let banked = self.hp.residual_bank > 0 && il.is_multiple_of(self.hp.residual_bank);
            if banked {
                bank = self.bank_residual(bank, x);
            }
            let y = self.rms(mixed, LlmTensor::AttnNorm, il);
            self.g.expand(y);
            let y = if self.hp.is_recr[il] {
                self.kimi_delta(states, il, y)
            } else {
                let (qkv, extras) = self.latent_qkv(il, y, TensorId::NONE);
                if self.has(il, LlmTensor::AttnGate) {
                    self.gated_by_heads(il, y, qkv, extras)
                } else {
                    self.attention(il, qkv, extras)
                }
            };
            let half = if banked { y } else { self.g.add(x, y) };
            let score = self.weight(il, LlmTensor::FfnResScore);
            let mixed = self.mixed_residuals(bank, half, score);
            let y = self.rms(mixed, LlmTensor::FfnNorm, il);
            let y = self.kimi_feed_forward(il, y);
            x = self.sum(half, y, "l_out", il);
        }
        let score = self.global_weight(LlmTensor::OutputResScore);
        let x = self.mixed_residuals(bank, x, score);
        let x = self.g.get_rows(x, out_ids);
        self.end(x, Norm::Rms);
    }

    /// `bank` with the residual `x` behind the others.
    fn bank_residual(&mut self, bank: TensorId, x: TensorId) -> TensorId {
        let x = self.g.reshape(x, [self.hp.n_embd, 1, self.batch.n_tokens, 1]);
        if bank.is_some() { self.g.concat(bank, x, 1) } else { x }
    }

    /// `x` and the banked residuals, weighted by how well each scores.
    fn mixed_residuals(&mut self, bank: TensorId, x: TensorId, score: TensorId) -> TensorId {
        if !bank.is_some() {
            return x;
        }
        let (banked, n) = (self.g[bank].ne[1], self.batch.n_tokens);
        let of_bank = self.residual_scores(bank, score);
        let of_bank = self.g.reshape(of_bank, [banked, n, 1, 1]);
        let own = self.residual_scores(x, score);
        let scores = self.g.concat(of_bank, own, 0);
        let weights = self.g.soft_max(scores, TensorId::NONE, TensorId::NONE);
        let Tensor { nb, .. } = self.g[weights];
        let [of_bank, own] = [banked, 1].map(|rows| {
            let part = self.g.window(weights, [rows, n, 1, 1], [nb[1]]);
            self.g.cont(part)
        });
        let mixed = self.g.hc_pre(bank, of_bank);
        let own = self.g.mul(x, own);
        self.g.add(mixed, own)
    }

    fn residual_scores(&mut self, x: TensorId, score: TensorId) -> TensorId {
        let x = self.g.rms_norm(x);
        let x = self.g.mul(x, score);
        self.g.sum_rows(x)
    }

    /// A dense part, or experts in a narrower space beside a shared one.
    fn kimi_feed_forward(&mut self, il: usize, x: TensorId) -> TensorId {
        if !self.has(il, LlmTensor::FfnGateInp) {
            return self.feed_forward(il, x, Activation::Situ);
        }
        let down = self.weight(il, LlmTensor::FfnRoutedDown);
        let narrow = if down.is_some() { self.g.mul_mat(down, x) } else { x };
        let logits = self.router(il, x);
        let routing = Routing {
            gating: self.hp.expert_gating,
            normalised: self.hp.expert_weights_norm,
            scaled: self.experts_scaled(),
            activation: Activation::Situ,
            weigh_first: false,
        };
        let mut y = self.experts_by(il, narrow, logits, routing);
        if self.has(il, LlmTensor::FfnRoutedNorm) {
            y = self.rms(y, LlmTensor::FfnRoutedNorm, il);
        }
        let up = self.weight(il, LlmTensor::FfnRoutedUp);
        if up.is_some() {
            y = self.g.mul_mat(up, y);
        }
        if !self.has(il, LlmTensor::FfnGateShexp) {
            return y;
        }
        let shared = self.feed_forward_of(il, x, Activation::Situ, FfnWeights::SHARED);
        self.g.add(y, shared)
    }
}
