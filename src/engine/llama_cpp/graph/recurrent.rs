//! Recurrent blocks: their states, which are read from the cache, updated and written back; state spaces; and the models that
//! mix them with attention.

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::feed_forward::{Activation, FfnWeights, Routing};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Buffer, Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::hparams::Ssm;
use crate::engine::llama_cpp::transformer::{Norm, gating};
use crate::engine::llama_cpp::weights::LlmTensor;

/// The state rows of the batch's sequences.
#[derive(Clone, Copy)]
pub(super) struct RecurrentInput {
    pub copy: TensorId,
    main: TensorId,
    rest: TensorId,
}

/// The states of a recurrent block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecurrentState {
    /// The last inputs of its convolution.
    Rolling,
    /// The state-space or delta-net state.
    Recurrent,
    /// The last inputs of the convolution over its table of n-grams.
    Ngrams,
}

/// Computes the output from the states and the rows used by the batch.
type StateUpdate<'f, 'a> = &'f mut dyn FnMut(&mut GraphBuilder<'a>, TensorId, TensorId) -> TensorId;

impl<'a> GraphBuilder<'a> {
    /// Tokens per sequence of the batch.
    pub(super) fn n_seq_tokens(&self) -> u64 {
        self.batch.n_seq_tokens()
    }

    /// Inputs for the recurrent blocks.
    pub(super) fn recurrent_input(&mut self) -> RecurrentInput {
        let rows = self.memory.recurrent.as_ref().map_or(self.batch.n_seqs, |recurrent| recurrent.sequences);
        let copy = self.g.input(Type::I32, [rows, 1, 1, 1], "rs_s_copy");
        let main = self.g.window(copy, [self.batch.n_seqs, 1, 1, 1], []);
        // all sequences but the first, or those of the batch
        let n_rest = if self.release.gathers_states_once { rows - 1 } else { rows - self.batch.n_seqs };
        let rest = self.g.window(copy, [n_rest, 1, 1, 1], []);
        RecurrentInput { copy, main, rest }
    }

    /// The cache of one state of a block: one row per sequence.
    pub(super) fn state(&mut self, il: usize, which: RecurrentState) -> TensorId {
        let at = which as usize;
        if !self.states[il][at].is_some()
            && let Some(recurrent) = &self.memory.recurrent
        {
            let place = recurrent.layers.get(il).copied().flatten().unwrap_or(self.placement.cpu);
            let (elements, label) = match which {
                RecurrentState::Rolling => (recurrent.r, "cache_r"),
                RecurrentState::Recurrent => (recurrent.s, "cache_s"),
                RecurrentState::Ngrams => (recurrent.ngrams_of(il), "cache_ple_r"),
            };
            let ne = [elements, recurrent.rows(), 1, 1];
            self.states[il][at] = self.g.given(Type::F32, ne, Buffer::Cache(place), label, il as i16);
        }
        self.states[il][at]
    }

    /// The state rows of the batch; rows of other sequences are copied along.
    pub(super) fn read_state(&mut self, input: RecurrentInput, state: TensorId) -> TensorId {
        self.carry_state(input, state, None)
    }

    /// The same, but `step` reads the rows itself.
    pub(super) fn carry_state(
        &mut self,
        input: RecurrentInput,
        state: TensorId,
        step: Option<StateUpdate<'_, 'a>>,
    ) -> TensorId {
        let [size, rows, ..] = self.g[state].ne;
        let n_seqs = self.batch.n_seqs;
        let others = self.g[input.copy].ne[0] - n_seqs;
        let states = self.g.reshape(state, [size, rows, 1, 1]);
        let cleared = self.g.window(states, [size, 1, 1, 1], []);
        let cleared = self.g.scale_in_place(cleared);
        self.g.expand(cleared);

        let single_gather = step.is_none() && self.release.gathers_states_once;
        let gathered = self.g.get_rows(states, if single_gather { input.copy } else { input.rest });
        let gap = self.g[gathered].nb[1];
        let output = match step {
            Some(step) => step(self, states, input.main),
            None if single_gather => self.g.window(gathered, [size, n_seqs, 1, 1], [gap]),
            None => self.g.get_rows(states, input.main),
        };
        self.g.expand(output);

        let kept = if self.release.gathers_states_once {
            self.g.window(gathered, [size, others, 1, 1], [gap])
        } else {
            gathered
        };
        let stride = self.g[state].nb[1];
        let target = self.g.window(state, [size, others, 1, 1], [stride]);
        self.g.store(kept, target);
        output
    }

    /// The rolling state of a block, and what the batch's sequences have in it: `columns` inputs of every channel.
    pub(super) fn rolling_columns(
        &mut self,
        input: RecurrentInput,
        il: usize,
        shape: [u64; 2],
    ) -> (TensorId, TensorId) {
        let state = self.state(il, RecurrentState::Rolling);
        (state, self.columns_of(input, state, shape))
    }

    /// What the batch's sequences have in `state`: `columns` inputs of every channel.
    fn columns_of(&mut self, input: RecurrentInput, state: TensorId, [columns, channels]: [u64; 2]) -> TensorId {
        let old = self.read_state(input, state);
        self.g.reshape(old, [columns, channels, self.batch.n_seqs, 1])
    }

    /// The input of a convolution: the `state` followed by `x` (`[channels, tokens, sequences]`); the last
    /// columns are written back to the state. `flat` writes them as one row, as Mamba version 1 does.
    pub(super) fn convolved_input(
        &mut self,
        input: RecurrentInput,
        state: TensorId,
        x: TensorId,
        columns: u64,
        flat: bool,
    ) -> TensorId {
        let channels = self.g[x].ne[0];
        let old = self.columns_of(input, state, [columns, channels]);
        let x = self.g.transpose(x);
        let all = self.g.concat(old, x, 0);
        self.store_columns(state, all, columns, flat);
        all
    }

    /// Writes the last columns of a convolution's input back to its state, and those before as snapshots.
    pub(super) fn store_columns(&mut self, state: TensorId, all: TensorId, columns: u64, flat: bool) {
        for _ in 0..self.snapshots_written() {
            self.store_last_columns(state, all, columns, flat);
        }
    }

    /// States that a batch writes: no more than its tokens, except in delta nets.
    pub(super) fn snapshots_written(&self) -> u64 {
        let states = 1 + self.cx.n_rs_seq;
        let all = self.architecture.has(Trait::WritesAllSnapshots);
        if all { states } else { states.min(self.n_seq_tokens()) }
    }

    fn store_last_columns(&mut self, state: TensorId, all: TensorId, columns: u64, flat: bool) {
        let n_seqs = self.batch.n_seqs;
        let Tensor { ne, nb, .. } = self.g[all];
        let mut last = self.g.window(all, [columns, ne[1], ne[2], 1], [nb[1], nb[2]]);
        if self.architecture.has(Trait::CopiesRollingState) {
            last = self.g.cont(last);
        }
        let row = columns * ne[1];
        let target = if flat {
            self.g.window(state, [row * n_seqs, 1, 1, 1], [])
        } else {
            let stride = self.g[state].nb[1];
            self.g.window(state, [row, n_seqs, 1, 1], [stride])
        };
        self.g.store(last, target);
    }
}

// Mamba: state-space blocks of versions 1 and 2.

impl GraphBuilder<'_> {
    /// A recurrent block of the kind whose tensors the file has.
    pub(super) fn recurrent_block(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
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
    pub(super) fn mamba2_block(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
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
    pub(super) fn convolve(&mut self, il: usize, columns: TensorId) -> TensorId {
        let kernel = self.need(il, LlmTensor::SsmConv1d);
        let mut x = self.g.ssm_conv(columns, kernel);
        let bias = self.bias(il, LlmTensor::SsmConv1d);
        x = self.g.plus(x, bias);
        self.g.unary(x, UnaryOp::Silu)
    }
}

// Nemotron H, Falcon H1 and LFM 2: recurrent blocks, attention blocks, and feed-forward blocks.

impl GraphBuilder<'_> {
    /// Nemotron H: every block is one of the three; no positions.
    pub fn nemotron_h(&mut self) {
        let mut x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let y = if self.hp.is_recr[il] {
                self.mamba2_block(states, il, y)
            } else if self.hp.n_ff[il] == 0 {
                let qkv = self.qkv(il, y);
                self.attention(il, qkv, AttentionExtras::default())
            } else {
                self.nemotron_feed_forward(il, y)
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            x = self.sum(y, residual, "l_out", il);
        }
        self.layer_input(self.hp.n_layer(), x);
        self.close_selected(x, out_ids);
    }

    pub(super) fn nemotron_feed_forward(&mut self, il: usize, x: TensorId) -> TensorId {
        if !self.weight(il, LlmTensor::FfnGateInp).is_some() {
            return self.feed_forward(il, x, Activation::Squared);
        }
        let latent = self.weight(il, LlmTensor::FfnLatentDown);
        let narrow = if latent.is_some() { self.g.mul_mat(latent, x) } else { x };
        let logits = self.router(il, x);
        let routing = Routing {
            gating: gating::SIGMOID,
            normalised: self.hp.expert_weights_norm,
            scaled: self.experts_scaled(),
            activation: Activation::Squared,
            weigh_first: false,
        };
        let mut chosen = self.experts_by(il, narrow, logits, routing);
        let latent = self.weight(il, LlmTensor::FfnLatentUp);
        if latent.is_some() {
            chosen = self.g.mul_mat(latent, chosen);
        }
        let shared = self.feed_forward_of(il, x, Activation::Squared, FfnWeights::SHARED);
        self.g.add(chosen, shared)
    }

    /// Falcon H1: attention and state space in parallel in every block.
    pub fn falcon_h1(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        let states = self.recurrent_input();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let attended = self.rotated_attention(il, y, positions, TensorId::NONE);
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let carried = self.mamba2_block(states, il, y);
            let y = self.g.add(attended, carried);
            let half = self.g.add(y, x);
            let [half] = self.keep_outputs(il, out_ids, [half]);
            self.label(half, "ffn_inp", Some(il));
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }

    /// LFM 2: short convolution or attention, then a dense part or experts.
    pub fn lfm2(&mut self) {
        let (states, [mut x, positions, out_ids]) = self.begin_hybrid();
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let y = if self.hp.is_recr[il] {
                self.short_convolution(states, il, y)
            } else {
                let qkv = self.qkv(il, y);
                let qkv = self.norm_heads(il, qkv, Norm::Rms);
                let qkv = self.rotate(qkv, positions, TensorId::NONE);
                self.attention(il, qkv, AttentionExtras::default())
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(residual, y);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = if self.weight(il, LlmTensor::FfnGateInp).is_some() {
                let routing =
                    Routing { gating: self.hp.expert_gating, scaled: self.experts_scaled(), ..Routing::SOFTMAX };
                self.experts(il, y, routing)
            } else {
                self.feed_forward(il, y, Activation::Gated)
            };
            x = self.sum(half, y, "l_out", il);
        }
        let weight = self.need_global(LlmTensor::TokenEmbdNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        self.g[x].output = true;
        if self.cx.embeddings.is_some() && self.release.lfm2_skips_logits {
            self.g.expand(x);
            self.logits = x;
            return;
        }
        let logits = self.logits(x);
        self.close(logits);
    }

    /// A gated convolution over the last tokens.
    pub(super) fn short_convolution(&mut self, input: RecurrentInput, il: usize, x: TensorId) -> TensorId {
        let (n, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let columns = self.hp.n_shortconv_l_cache - 1;
        let embd = self.g[x].ne[0];
        let x = self.g.reshape(x, [embd, n, n_seqs, 1]);
        let all = self.linear(il, LlmTensor::ShortConvIn, x);
        let Tensor { ne, nb, .. } = self.g[all];
        let third = [ne[0] / 3, ne[1], ne[2], 1];
        let [b, c, x] = [(); 3].map(|()| self.g.window(all, third, [nb[1], nb[2]]));
        let bx = self.g.mul(b, x);
        let bx = self.g.transpose(bx);
        let state = self.state(il, RecurrentState::Rolling);
        let old = self.read_state(input, state);
        let old = self.g.reshape(old, [columns, self.hp.n_embd, n_seqs, 1]);
        let all = self.g.concat(old, bx, 0);
        let flat = !self.release.convolution_rows;
        self.store_columns(state, all, columns, flat);
        let kernel = self.need(il, LlmTensor::ShortConvConv);
        let y = self.g.ssm_conv(all, kernel);
        let y = self.g.mul(c, y);
        let y = self.linear(il, LlmTensor::ShortConvOut, y);
        let embd = self.g[y].ne[0];
        self.g.reshape(y, [embd, n * n_seqs, 1, 1])
    }
}

// `PLaMo` 2's state-space blocks: norms on time steps and both projections, and a decay per head
// (`models/plamo2.cpp`, 0.1.161).

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
