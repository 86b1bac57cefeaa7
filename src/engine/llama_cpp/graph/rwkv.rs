//! RWKV 6 and 7, alone or in Qwen 2's body: every block mixes each token with the one before (`models/rwkv6.cpp`,
//! `models/rwkv7.cpp`, `models/rwkv6qwen2.cpp`, `models/arwkv7.cpp`, 0.1.161).

mod rwkv6;
mod rwkv7;

use super::GraphBuilder;
use super::feed_forward::Activation;
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn rwkv(&mut self) {
        // in Qwen's body only time mixing sees the token before
        let own = !self.architecture.has(Trait::QwenBody);
        let kind = if own { Norm::Layer } else { Norm::Rms };
        let mut x = self.embeddings(false);
        if own {
            let weight = self.need_global(LlmTensor::TokenEmbdNorm);
            let bias = self.global_bias(LlmTensor::TokenEmbdNorm);
            x = self.norm_with(x, weight, bias, kind, Some(0));
        }
        let states = self.recurrent_input();
        let out_ids = self.out_ids();
        let (n, n_seqs, n_embd) = (self.n_seq_tokens(), self.batch.n_seqs, self.hp.n_embd);
        let mut first_value = TensorId::NONE;
        for &il in self.blocks {
            let residual = self.g.reshape(x, [n_embd, n, n_seqs, 1]);
            let shifts = self.token_shifts(states, il);
            let normed = self.norm(residual, LlmTensor::AttnNorm, kind, il);
            let before = self.token_before(shifts, normed);
            let y = if self.architecture.has(Trait::RwkvVersion6) {
                self.rwkv6_time_mix(states, il, normed, before)
            } else {
                self.rwkv7_time_mix(states, il, normed, before, &mut first_value)
            };
            x = if own {
                self.channel_mix_half(il, [y, residual, normed, shifts], out_ids)
            } else {
                let last = self.last_token(normed);
                self.store_shifts(il, last);
                let half = self.g.add(y, residual);
                let half = self.g.reshape(half, [n_embd, n * n_seqs, 1, 1]);
                let [half] = self.keep_outputs(il, out_ids, [half]);
                let y = self.rms(half, LlmTensor::FfnNorm, il);
                let y = self.feed_forward(il, y, Activation::Gated);
                self.g.add(y, half)
            };
            let every = self.hp.rescale_every_n_layers;
            if self.architecture.has(Trait::RescalesBlocks) && every != 0 && (il + 1).is_multiple_of(every) {
                x = self.g.scale(x);
            }
            self.label(x, "l_out", Some(il));
        }
        self.end(x, kind);
    }

    /// The second half of RWKV's own blocks: channel mixing.
    fn channel_mix_half(
        &mut self,
        il: usize,
        [y, residual, normed, shifts]: [TensorId; 4],
        out_ids: TensorId,
    ) -> TensorId {
        let half = self.sum(y, residual, "ffn_inp", il);
        let half_normed = self.norm(half, LlmTensor::AttnNorm2, Norm::Layer, il);
        let before = self.token_before(shifts, half_normed);
        let [of_time, of_channel] = [normed, half_normed].map(|x| self.last_token(x));
        let last = self.g.concat(of_time, of_channel, 1);
        self.store_shifts(il, last);
        let flat = [self.hp.n_embd, self.batch.n_tokens, 1, 1];
        let rows = [half, half_normed, before].map(|x| self.g.reshape(x, flat));
        let [half, x, before] = self.keep_outputs(il, out_ids, rows);
        let change = self.g.sub(before, x);
        let key = self.lerp(il, change, LlmTensor::ChannelMixLerpK, x);
        let receptance = self.has(il, LlmTensor::ChannelMixReceptance).then(|| {
            let r = self.lerp(il, change, LlmTensor::ChannelMixLerpR, x);
            let r = self.linear(il, LlmTensor::ChannelMixReceptance, r);
            self.g.unary(r, UnaryOp::Sigmoid)
        });
        let k = self.linear(il, LlmTensor::ChannelMixKey, key);
        let k = self.g.unary(k, UnaryOp::Relu);
        let k = self.g.sqr(k);
        let mut y = self.linear(il, LlmTensor::ChannelMixValue, k);
        if let Some(receptance) = receptance {
            y = self.g.mul(receptance, y);
        }
        self.g.add(y, half)
    }

    /// `x` moved by a part of `change`, by channel.
    fn lerp(&mut self, il: usize, change: TensorId, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let part = self.g.mul(change, weight);
        self.g.add(part, x)
    }

    /// The last tokens of the batch before, one for each half that needs it.
    fn token_shifts(&mut self, input: RecurrentInput, il: usize) -> TensorId {
        let rolling = self.state(il, RecurrentState::Rolling);
        let old = self.read_state(input, rolling);
        self.g.reshape(old, [self.hp.n_embd, self.hp.token_shift_count, self.batch.n_seqs, 1])
    }

    /// For every token of `x` the one before.
    fn token_before(&mut self, shifts: TensorId, x: TensorId) -> TensorId {
        let (n, n_seqs, n_embd) = (self.n_seq_tokens(), self.batch.n_seqs, self.hp.n_embd);
        let Tensor { ne, nb, .. } = self.g[shifts];
        let first = if ne[1] == 1 { shifts } else { self.g.window(shifts, [n_embd, 1, n_seqs, 1], [nb[1], nb[2]]) };
        let Tensor { nb, .. } = self.g[x];
        let rest = self.g.window(x, [n_embd, n.saturating_sub(1), n_seqs, 1], [nb[1], nb[2]]);
        self.g.concat(first, rest, 1)
    }

    /// The last token of every sequence.
    fn last_token(&mut self, x: TensorId) -> TensorId {
        let Tensor { nb, .. } = self.g[x];
        self.g.window(x, [self.hp.n_embd, 1, self.batch.n_seqs, 1], [nb[1], nb[2]])
    }

    /// Writes the last tokens back to the state.
    fn store_shifts(&mut self, il: usize, last: TensorId) {
        let rolling = self.state(il, RecurrentState::Rolling);
        let all = [self.hp.n_embd_r() * self.batch.n_seqs, 1, 1, 1];
        let [last, target] = [last, rolling].map(|x| self.g.window(x, all, []));
        self.g.store(last, target);
    }

    /// The outputs of a step of linear attention; its new states are written back.
    fn wkv_output(&mut self, il: usize, both: TensorId) -> TensorId {
        let (n_embd, n) = (self.hp.n_embd, self.batch.n_tokens);
        let y = self.g.window(both, [n_embd * n, 1, 1, 1], []);
        let all = [self.hp.n_embd_s() * self.batch.n_seqs, 1, 1, 1];
        let recurrent = self.state(il, RecurrentState::Recurrent);
        let [new, target] = [both, recurrent].map(|x| self.g.window(x, all, []));
        self.g.store(new, target);
        y
    }

    /// `y` normalised by head if the file has weights for it, as rows.
    fn group_norm_of_heads(&mut self, il: usize, y: TensorId) -> TensorId {
        let (n_embd, n, head) = (self.hp.n_embd, self.batch.n_tokens, self.hp.wkv_head_size);
        if !self.has(il, LlmTensor::TimeMixLn) {
            return self.g.reshape(y, [n_embd, n, 1, 1]);
        }
        let y = self.g.reshape(y, [head, n_embd / head, n, 1]);
        let y = self.g.layer_norm(y);
        let y = self.g.reshape(y, [n_embd, n, 1, 1]);
        let weight = self.need(il, LlmTensor::TimeMixLn);
        let bias = self.bias(il, LlmTensor::TimeMixLn);
        let y = self.g.mul(y, weight);
        self.g.add(y, bias)
    }

    /// `x` (`[embedding, tokens, 1, parts]`) by part.
    fn mixed_parts<const N: usize>(&mut self, x: TensorId) -> [TensorId; N] {
        let stride = self.g[x].nb[1];
        [(); N].map(|()| self.g.window(x, [self.hp.n_embd, self.batch.n_tokens, 1, 1], [stride]))
    }

    /// The output projection, by sequence.
    fn time_mix_output(&mut self, il: usize, y: TensorId) -> TensorId {
        let y = self.linear(il, LlmTensor::TimeMixOutput, y);
        self.g.reshape(y, [self.hp.n_embd, self.n_seq_tokens(), self.batch.n_seqs, 1])
    }
}
