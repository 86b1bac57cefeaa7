//! Mamba: state-space blocks of versions 1 and 2.

use super::super::GraphBuilder;
use super::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::hparams::Ssm;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// A recurrent block of the kind whose tensors the file has.
    pub fn recurrent_block(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        if self.has(il, LlmTensor::SsmConv1dQ) {
            self.kimi_delta(input, il, x)
        } else if self.has(il, LlmTensor::ShortConvIn) {
            self.short_convolution(input, il, x)
        } else if self.architecture.has(Trait::OwnStateSpace) {
            self.plamo2_mamba(input, il, x)
        } else if self.has(il, LlmTensor::SsmX) {
            self.mamba_block(input, il, x)
        } else {
            self.mamba2_block(input, il, x)
        }
    }

    /// A state-space block of version 1, where every channel is a head.
    fn mamba_block(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let Ssm { d_conv, d_inner, d_state, dt_rank, .. } = self.hp.ssm;
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let (rolling, old) = self.rolling_columns(input, il, [d_conv - 1, d_inner]);
        let embd = self.g[x].ne[0];
        let x = self.g.reshape(x, [embd, n, n_seqs, 1]);
        let xz = self.linear(il, LlmTensor::SsmIn, x);
        let Tensor { nb, .. } = self.g[xz];
        let half = [d_inner, n, n_seqs, 1];
        let x = self.g.window(xz, half, [nb[1], nb[2]]);
        let z = self.g.window(xz, half, [nb[1], nb[2]]);
        let x = self.g.transpose(x);
        let all = self.g.concat(old, x, 0);
        self.store_columns(rolling, all, d_conv - 1, true);
        let x = self.convolve(il, all);

        let parts = self.multiply(il, LlmTensor::SsmX, x);
        let Tensor { nb, .. } = self.g[parts];
        let mut dt = self.g.window(parts, [dt_rank, n, n_seqs, 1], [nb[1], nb[2]]);
        let state_part = [d_state, 1, n, n_seqs];
        let mut b = self.g.window(parts, state_part, [d_state * nb[0], nb[1], nb[2]]);
        let mut c = self.g.window(parts, state_part, [d_state * nb[0], nb[1], nb[2]]);
        let norms = [LlmTensor::SsmDtNorm, LlmTensor::SsmBNorm, LlmTensor::SsmCNorm].map(|slot| self.weight(il, slot));
        if self.hp.ssm.dt_b_c_rms || norms.iter().all(|norm| norm.is_some()) {
            for (x, weight) in [&mut dt, &mut b, &mut c].into_iter().zip(norms) {
                *x = self.norm_with(*x, weight, TensorId::NONE, Norm::Rms, Some(il));
            }
        } else if self.release.mamba_copies_steps {
            dt = self.g.cont(dt);
        }
        let dt = self.multiply(il, LlmTensor::SsmDt, dt);
        let bias = self.bias(il, LlmTensor::SsmDt);
        let dt = self.g.add(dt, bias);
        let heads = self.g.reshape(x, [1, d_inner, n, n_seqs]);
        let a = self.need(il, LlmTensor::SsmA);

        let state = self.state(il, RecurrentState::Recurrent);
        let rows = self.g[state].ne[1];
        let mut scan = |build: &mut Self, states: TensorId, ids: TensorId| {
            let states = build.g.reshape(states, [d_state, 1, d_inner, rows]);
            build.g.ssm_scan([states, heads, dt, a, b, c, ids], 1)
        };
        let scanned = self.carry_state(input, state, Some(&mut scan));
        let size = d_state * d_inner * n_seqs;
        let new = self.g.window(scanned, [size, 1, 1, 1], []);
        let target = self.g.window(state, [size, 1, 1, 1], []);
        self.g.store(new, target);

        let nb = self.g[heads].nb;
        let y = self.g.window(scanned, half, [nb[2], nb[3]]);
        let d = self.need(il, LlmTensor::SsmD);
        let skip = self.g.mul(x, d);
        let y = self.g.add(y, skip);
        let z = self.g.cont(z);
        let y = self.g.glu_split(z, y);
        let y = self.linear(il, LlmTensor::SsmOut, y);
        let embd = self.g[y].ne[0];
        self.g.reshape(y, [embd, n * n_seqs, 1, 1])
    }

    /// A state-space block of version 2.
    pub fn mamba2_block(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let Ssm { d_conv, d_inner, d_state, dt_rank: heads, n_group, .. } = self.hp.ssm;
        let head = d_inner / heads.max(1);
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let channels = d_inner + 2 * n_group * d_state;

        let (as_rows, flat) = (self.release.mamba2_rows, self.release.mamba2_projects_flat);
        let wide = self.g[x].ne[0];
        let x = if flat { x } else { self.g.reshape(x, [wide, n, n_seqs, 1]) };
        let all = self.linear(il, LlmTensor::SsmIn, x);
        let wide = self.g[all].ne[0];
        let all = if flat { self.g.reshape(all, [wide, n, n_seqs, 1]) } else { all };
        let Tensor { nb, .. } = self.g[all];
        let z = self.g.window(all, [head, heads, n, n_seqs], [head * nb[0], nb[1], nb[2]]);
        let x = self.g.window(all, [channels, n, n_seqs, 1], [nb[1], nb[2]]);
        let dt = self.g.window(all, [heads, n, n_seqs, 1], [nb[1], nb[2]]);
        let rolling = self.state(il, RecurrentState::Rolling);
        let columns = self.convolved_input(input, rolling, x, d_conv - 1, !as_rows);
        let mixed = self.convolve(il, columns);

        let Tensor { nb, .. } = self.g[mixed];
        let x = self.g.window(mixed, [head, heads, n, n_seqs], [head * nb[0], nb[1], nb[2]]);
        let group = [d_state, n_group, n, n_seqs];
        let b = self.g.window(mixed, group, [d_state * nb[0], nb[1], nb[2]]);
        let c = self.g.window(mixed, group, [d_state * nb[0], nb[1], nb[2]]);
        let dt = self.g.cont(dt);
        let bias = self.bias(il, LlmTensor::SsmDt);
        let dt = self.g.add(dt, bias);
        let a = self.need(il, LlmTensor::SsmA);

        let state = self.state(il, RecurrentState::Recurrent);
        let rows = self.g[state].ne[1];
        let mut scan = |build: &mut Self, states: TensorId, ids: TensorId| {
            let snapshots = 1 + build.cx.n_rs_seq;
            let states = build.g.reshape(states, [d_state, head, heads, rows]);
            build.g.ssm_scan([states, x, dt, a, b, c, ids], snapshots)
        };
        let scanned = self.carry_state(input, state, Some(&mut scan));
        let input_rows = self.memory.recurrent.as_ref().map_or(1, |recurrent| recurrent.sequences);
        let size = d_state * d_inner;
        let row = size * self.g[scanned].nb[0];
        let (new, target) = if as_rows {
            let stride = self.g[state].nb[1];
            let written = (1 + self.cx.n_rs_seq).min(n);
            let new = self.g.window(scanned, [size, n_seqs, written, 1], [row, row * n_seqs]);
            (new, self.g.window(state, [size, n_seqs, written, 1], [stride, row * input_rows]))
        } else {
            [scanned, state].map(|x| self.g.window(x, [size * n_seqs, 1, 1, 1], [])).into()
        };
        self.g.store(new, target);

        let stride = self.g[x].nb[1];
        let y = self.g.window(scanned, [head, heads, n, n_seqs], [stride, heads * stride, n * heads * stride]);
        let d = self.need(il, LlmTensor::SsmD);
        let skip = self.g.mul(x, d);
        let y = self.g.add(y, skip);
        let z = self.g.cont(z);
        let mut y = self.g.glu_split(z, y);
        let weight = self.weight(il, LlmTensor::SsmNorm);
        if weight.is_some() {
            y = self.g.reshape(y, [d_inner / n_group.max(1), n_group, n, n_seqs]);
            y = self.norm_with(y, weight, TensorId::NONE, Norm::Rms, Some(il));
        }
        let shape = if flat { [d_inner, n * n_seqs, 1, 1] } else { [d_inner, n, n_seqs, 1] };
        let y = self.g.reshape(y, shape);
        let y = self.linear(il, LlmTensor::SsmOut, y);
        let embd = self.g[y].ne[0];
        if flat { y } else { self.g.reshape(y, [embd, n * n_seqs, 1, 1]) }
    }

    /// The short convolution over `columns`, its bias if present, and the activation.
    pub fn convolve(&mut self, il: usize, columns: TensorId) -> TensorId {
        let kernel = self.need(il, LlmTensor::SsmConv1d);
        let mut x = self.g.ssm_conv(columns, kernel);
        let bias = self.bias(il, LlmTensor::SsmConv1d);
        x = self.g.plus(x, bias);
        self.g.unary(x, UnaryOp::Silu)
    }
}
