//! `MiniMax` 01: lightning attention, whose state decays by position, and full attention (`models/minimax-01.cpp`,
//! 0.1.161).

use super::attention::AttentionExtras;
use super::experts::Routing;
use super::recurrent::{RecurrentInput, RecurrentState};
use super::{GraphBuilder, Norm};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
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
        let mut x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let positions = self.positions();
        let out_ids = self.out_ids();
        let decay = self.decay_inputs();
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            let normed = self.rms(x, LlmTensor::AttnNorm, il);
            let y = if self.hp.is_recr[il] {
                self.lightning_attention(states, il, normed, decay)
            } else {
                let qkv = self.qkv(il, normed);
                let qkv = self.rotate(qkv, positions, TensorId::NONE);
                self.attention(il, qkv, AttentionExtras::default())
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, normed]);
            let residual = self.g.scale(residual);
            let half = self.g.add(y, residual);
            let normed = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.experts(il, normed, Routing { scaled: self.experts_scaled(), ..Routing::SOFTMAX });
            let residual = self.g.scale(normed);
            x = self.g.add(y, residual);
            self.label(x, "l_out", Some(il));
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    fn decay_inputs(&mut self) -> Decay {
        let (heads, n, n_seqs) = (self.hp.n_head[0], self.n_seq_tokens(), self.cx.n_seq_max);
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
        let (n, n_seqs, n_embd) = (self.n_seq_tokens(), self.cx.n_seq_max, self.hp.n_embd);
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
        let v = self.g.permute(v, [1, 2, 0, 3]);
        let v = self.g.cont(v);
        let within = self.g.mul_mat(v, qk);
        let y = self.g.add(carried, within);
        self.g.expand(y);

        let rate = self.g.scale(decay.slopes);
        let rate = self.g.scale(rate);
        let rate = self.g.unary(rate, UnaryOp::Exp);
        let rate = self.g.reshape(rate, [1, 1, heads, 1]);
        let kept = self.g.mul(state, rate);
        let k = self.g.mul(k, of_k);
        let k = self.g.permute(k, [1, 2, 0, 3]);
        let k = self.g.cont(k);
        let learnt = self.g.mul_mat(k, v);
        let new = self.g.add(kept, learnt);
        let target = self.g.window(recurrent, [self.hp.n_embd_s() * n_seqs, 1, 1, 1], []);
        let stored = self.g.cpy(new, target);
        self.g.expand(stored);

        let y = self.g.permute(y, [0, 2, 1, 3]);
        let y = self.g.cont(y);
        let y = self.g.reshape(y, [head * heads, n, 1, n_seqs]);
        let y = self.rms(y, LlmTensor::AttnNorm2, il);
        let gate = self.linear(il, LlmTensor::AttnGate, x);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let y = self.g.mul(gate, y);
        let y = self.linear(il, LlmTensor::AttnOutput, y);
        self.g.reshape(y, [n_embd, n * n_seqs, 1, 1])
    }
}
