//! `PLaMo` 2's state-space blocks: norms on time steps and both projections, and a decay per head
//! (`models/plamo2.cpp`, 0.1.161).

use super::GraphBuilder;
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::hparams::Ssm;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub(super) fn plamo2_mamba(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let Ssm { d_conv, d_inner, d_state, dt_rank: heads, .. } = self.hp.ssm;
        let head = d_inner / heads.max(1);
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let (rolling, old) = self.rolling_columns(input, il, [d_conv - 1, d_inner]);
        let embd = self.g[x].ne[0];
        let x = self.g.reshape(x, [embd, n, n_seqs, 1]);
        let zx = self.unscaled(il, LlmTensor::SsmIn, x);
        let zx = self.g.permute(zx, [0, 2, 1, 3]);
        let zx = self.g.cont_as(zx, [head * 2, heads, n, n_seqs]);
        let by_head = [head, heads, n, n_seqs];
        let Tensor { nb, .. } = self.g[zx];
        let x = self.g.window(zx, by_head, [nb[1], nb[2], nb[3]]);
        let x = self.g.cont_as(x, [d_inner, n, n_seqs, 1]);
        let z = self.g.window(zx, by_head, [nb[1], nb[2], nb[3]]);
        let x = self.g.transpose(x);
        let all = self.g.concat(old, x, 0);
        self.store_columns(rolling, all, d_conv - 1, true);
        let x = self.convolve(il, all);

        let parts = self.unscaled(il, LlmTensor::SsmX, x);
        let Tensor { nb, .. } = self.g[parts];
        let dt_size = (self.hp.n_embd / 16).max(DT_SIZE_MIN);
        let [b, c, dt] =
            [(d_state, LlmTensor::SsmBNorm), (d_state, LlmTensor::SsmCNorm), (dt_size, LlmTensor::SsmDtNorm)].map(
                |(size, slot)| {
                    let part = self.g.window(parts, [size, n, n_seqs, 1], [nb[1], nb[2]]);
                    let weight = self.need(il, slot);
                    self.norm_with(part, weight, TensorId::NONE, Norm::Rms, Some(il))
                },
            );
        let dt = self.unscaled(il, LlmTensor::SsmDt, dt);
        let bias = self.bias(il, LlmTensor::SsmDt);
        let dt = self.g.add(dt, bias);
        let a = self.need(il, LlmTensor::SsmA);
        let a = self.g.reshape(a, [1, heads, 1, 1]);
        let strides = |size: u64| [size * 4, size * heads * 4, size * heads * n * 4];
        let x = self.g.window(x, by_head, strides(head));
        let [b, c] = [b, c].map(|part| {
            let nb = self.g[part].nb;
            self.g.window(part, [d_state, 1, n, n_seqs], [d_state * nb[0], nb[1], nb[2]])
        });

        let state = self.state(il, RecurrentState::Recurrent);
        let rows = self.g[state].ne[1];
        let mut scan = |build: &mut Self, states: TensorId, ids: TensorId| {
            let states = build.g.reshape(states, [d_state, head, heads, rows]);
            build.g.ssm_scan([states, x, dt, a, b, c, ids], 1)
        };
        let scanned = self.carry_state(input, state, Some(&mut scan));
        let size = d_state * d_inner * n_seqs;
        let [new, target] = [scanned, state].map(|from| self.g.window(from, [size, 1, 1, 1], []));
        self.g.store(new, target);

        let y = self.g.window(scanned, by_head, strides(head));
        let d = self.need(il, LlmTensor::SsmD);
        let d = self.g.reshape(d, [1, heads, 1, 1]);
        let skip = self.g.mul(x, d);
        let y = self.g.add(y, skip);
        let z = self.g.cont(z);
        let y = self.g.glu_split(z, y);
        let nb = self.g[y].nb;
        let y = self.g.window(y, [d_inner, n, n_seqs, 1], [nb[2], nb[3]]);
        let y = self.unscaled(il, LlmTensor::SsmOut, y);
        let embd = self.g[y].ne[0];
        self.g.reshape(y, [embd, n * n_seqs, 1, 1])
    }

    /// `weight · x`, whatever scale the file has.
    fn unscaled(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        self.multiply(il, slot, x)
    }
}

/// The least columns of the projection of time steps.
const DT_SIZE_MIN: u64 = 64;
