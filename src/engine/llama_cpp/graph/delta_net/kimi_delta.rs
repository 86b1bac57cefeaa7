//! Kimi's delta attention (KDA): a gated delta net whose decay differs by channel, after a short convolution each of
//! queries, keys and values (`models/kimi-linear.cpp`, `models/kimi-k3.cpp`, `models/bailingmoe3.cpp`,
//! `models/glm5-next.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::recurrent::{RecurrentInput, RecurrentState};
use super::rule::DeltaRuleInputs;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// A block of delta attention from its normalised input.
    pub fn kimi_delta(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
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
