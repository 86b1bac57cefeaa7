//! The delta rule in single operations, for devices that do not run the fused one.

use super::super::GraphBuilder;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};

/// Tokens per chunk.
const CHUNK: u64 = 64;

/// Operands of the delta rule.
pub struct DeltaRuleInputs {
    pub q: TensorId,
    pub k: TensorId,
    pub v: TensorId,
    pub gate: TensorId,
    pub beta: TensorId,
    pub state: TensorId,
}

impl GraphBuilder<'_> {
    /// Result (`[head, heads, tokens, sequences]`) and new state.
    pub(super) fn delta_rule(&mut self, operands: &DeltaRuleInputs) -> (TensorId, TensorId) {
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
