//! `MiniMax` 01: lightning attention, whose state decays by position, and full attention (`models/minimax-01.cpp`,
//! 0.1.161).

use super::GraphBuilder;
use super::feed_forward::Routing;
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// How much older tokens count, by head: the slopes, and for a batch the decay of queries, of keys, and between tokens.
#[derive(Clone, Copy)]
struct Decay {
    slopes: TensorId,
    q: TensorId,
    k: TensorId,
    diagonal: TensorId,
}

impl GraphBuilder<'_> {
    pub fn minimax_01(&mut self) {
        let (states, [mut x, positions, out_ids]) = self.begin_hybrid();
        let decay = self.decay_inputs();
        for &il in self.blocks {
            self.layer_input(il, x);
            let normed = self.rms(x, LlmTensor::AttnNorm, il);
            let y = if self.hp.is_recr[il] {
                self.lightning_attention(states, il, normed, decay)
            } else {
                self.rotated_attention(il, normed, positions, TensorId::NONE)
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, normed]);
            let residual = self.g.scale(residual);
            let half = self.g.add(y, residual);
            let normed = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.experts(il, normed, Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX });
            let residual = self.g.scale(normed);
            x = self.sum(y, residual, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }

    fn decay_inputs(&mut self) -> Decay {
        let (heads, n, n_seqs) = (self.hp.n_head[0], self.n_seq_tokens(), self.batch.n_seqs);
        let mut input = |ne| self.g.input(Type::F32, ne, "la_decay");
        Decay {
            slopes: input([heads, 1, 1, 1]),
            q: input([1, heads, n, n_seqs]),
            k: input([1, heads, n, n_seqs]),
            diagonal: input([n, n, heads, n_seqs]),
        }
    }

    fn lightning_attention(&mut self, input: RecurrentInput, il: usize, x: TensorId, decay: Decay) -> TensorId {
        let (head, heads) = (self.hp.n_embd_head_la, self.hp.n_head[il]);
        let (n, n_seqs, n_embd) = (self.n_seq_tokens(), self.batch.n_seqs, self.hp.n_embd);
        // without elements, and read all the same
        let rolling = self.state(il, RecurrentState::Rolling);
        self.read_state(input, rolling);
        let x = self.g.reshape(x, [n_embd, n, 1, n_seqs]);
        let qkv = self.linear(il, LlmTensor::AttnQkv, x);
        let qkv = self.g.unary(qkv, UnaryOp::Silu);
        let qkv = self.g.reshape(qkv, [head * 3, heads, n, n_seqs]);
        let Tensor { nb, .. } = self.g[qkv];
        let [q, k, v] = [(); 3].map(|()| self.g.window(qkv, [head, heads, n, n_seqs], [nb[1], nb[2], nb[3]]));
        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let state = self.g.reshape(state, [head, head, heads, n_seqs]);

        let [of_q, of_k, of_diagonal] = [decay.q, decay.k, decay.diagonal].map(|x| {
            let x = self.g.scale(x);
            self.g.unary(x, UnaryOp::Exp)
        });
        let carried = self.g.mul(q, of_q);
        let carried = self.g.permute(carried, [0, 2, 1, 3]);
        let carried = self.g.mul_mat(state, carried);
        let [q, by_token] = [q, k].map(|x| self.g.permute(x, [0, 2, 1, 3]));
        let qk = self.g.mul_mat(by_token, q);
        let qk = self.g.mul(qk, of_diagonal);
        let v = self.g.permuted(v, [1, 2, 0, 3]);
        let within = self.g.mul_mat(v, qk);
        let y = self.g.add(carried, within);
        self.g.expand(y);

        let rate = self.g.scale(decay.slopes);
        let rate = self.g.scale(rate);
        let rate = self.g.unary(rate, UnaryOp::Exp);
        let rate = self.g.reshape(rate, [1, 1, heads, 1]);
        let kept = self.g.mul(state, rate);
        let k = self.g.mul(k, of_k);
        let k = self.g.permuted(k, [1, 2, 0, 3]);
        let learnt = self.g.mul_mat(k, v);
        let new = self.g.add(kept, learnt);
        let target = self.g.window(recurrent, [self.hp.n_embd_s() * n_seqs, 1, 1, 1], []);
        self.g.store(new, target);

        let y = self.g.permuted(y, [0, 2, 1, 3]);
        let y = self.g.reshape(y, [head * heads, n, 1, n_seqs]);
        let y = self.rms(y, LlmTensor::AttnNorm2, il);
        let gate = self.linear(il, LlmTensor::AttnGate, x);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let y = self.g.mul(gate, y);
        let y = self.multiply(il, LlmTensor::AttnOutput, y);
        self.g.reshape(y, [n_embd, n * n_seqs, 1, 1])
    }
}
