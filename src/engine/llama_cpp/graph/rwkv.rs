//! RWKV 6 and 7, alone or in Qwen 2's body: every block mixes each token with the one before (`models/rwkv6.cpp`,
//! `models/rwkv7.cpp`, `models/rwkv6qwen2.cpp`, `models/arwkv7.cpp`, 0.1.161).

use super::GraphBuilder;
use super::feed_forward::Activation;
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Op, Tensor, TensorId, UnaryOp};
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
        for il in 0..self.hp.n_layer() {
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

// The time mixing of RWKV 6 (`models/rwkv6-base.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    fn rwkv6_time_mix(&mut self, input: RecurrentInput, il: usize, x: TensorId, before: TensorId) -> TensorId {
        let (n_embd, n, head) = (self.hp.n_embd, self.batch.n_tokens, self.hp.wkv_head_size);
        let (heads, heads_kv) = (n_embd / head, self.hp.n_head_kv[il]);
        let gated = !self.has(il, LlmTensor::TimeMixFirst);
        let change = self.g.sub(before, x);
        let [xw, xk, xv, xr, xg] = self.rwkv6_mixed(il, change, x);

        let [mut r, mut k, mut v] =
            [(LlmTensor::TimeMixReceptance, xr), (LlmTensor::TimeMixKey, xk), (LlmTensor::TimeMixValue, xv)]
                .map(|(slot, x)| self.affine(il, slot, x));
        let gate = self.linear(il, LlmTensor::TimeMixGate, xg);
        let gate = self.g.unary(gate, if gated { UnaryOp::Sigmoid } else { UnaryOp::Silu });
        if heads_kv != 0 && heads_kv != heads {
            for x in [&mut k, &mut v] {
                let apart = self.g.reshape(*x, [head, 1, heads_kv, n]);
                *x = self.g.repeat(apart, [head, heads / heads_kv, heads_kv, n]);
            }
        }
        for x in [&mut k, &mut v, &mut r] {
            *x = self.g.reshape(*x, [head, heads, n, 1]);
        }
        let w = self.linear(il, LlmTensor::TimeMixDecayW1, xw);
        let w = self.g.unary(w, UnaryOp::Tanh);
        let w = self.linear(il, LlmTensor::TimeMixDecayW2, w);
        let decay = self.need(il, LlmTensor::TimeMixDecay);
        let w = self.g.add(w, decay);
        let w = self.g.unary(w, UnaryOp::Exp);
        let w = self.g.unary(w, UnaryOp::Neg);
        let w = self.g.unary(w, UnaryOp::Exp);
        let w = self.g.reshape(w, [head, heads, n, 1]);
        if gated {
            let kw = self.g.mul(k, w);
            k = self.g.sub(k, kw);
        }
        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let both = if gated {
            self.g.linear_attention(Op::GatedLinearAttn, [k, v, r, w, state])
        } else {
            let first = self.need(il, LlmTensor::TimeMixFirst);
            self.g.linear_attention(Op::RwkvWkv6, [k, v, r, first, w, state])
        };
        let y = self.wkv_output(il, both);
        let y = if gated { self.g.reshape(y, [n_embd, n, 1, 1]) } else { self.group_norm_of_heads(il, y) };
        let y = self.g.mul(y, gate);
        self.time_mix_output(il, y)
    }

    /// The input of decay, key, value, receptance and gate: each token with a part of the one before that depends on it.
    fn rwkv6_mixed(&mut self, il: usize, change: TensorId, x: TensorId) -> [TensorId; 5] {
        let (n_embd, n) = (self.hp.n_embd, self.batch.n_tokens);
        let [change, x] = [change, x].map(|x| self.g.reshape(x, [n_embd, n, 1, 1]));
        let mixed = self.lerp(il, change, LlmTensor::TimeMixLerpX, x);
        let mixed = self.linear(il, LlmTensor::TimeMixW1, mixed);
        let mixed = self.g.unary(mixed, UnaryOp::Tanh);
        let extra = self.g[mixed].ne[0] / 5;
        let mixed = self.g.reshape(mixed, [extra, 1, 5, n]);
        let mixed = self.g.permuted(mixed, [0, 1, 3, 2]);
        let w2 = self.need(il, LlmTensor::TimeMixW2);
        let Tensor { ne, .. } = self.g[w2];
        let w2 = self.g.reshape(w2, [ne[0], ne[1], 1, 5]);
        let mixed = self.g.mul_mat(w2, mixed);
        if self.has(il, LlmTensor::TimeMixLerpFused) {
            let [change, x] = [change, x].map(|x| self.g.reshape(x, [n_embd, 1, n, 1]));
            let mixed = self.moved(il, LlmTensor::TimeMixLerpFused, mixed, change, x);
            return self.mixed_parts(mixed);
        }
        let parts: [TensorId; 5] = self.mixed_parts(mixed);
        let slots = [
            LlmTensor::TimeMixLerpW,
            LlmTensor::TimeMixLerpK,
            LlmTensor::TimeMixLerpV,
            LlmTensor::TimeMixLerpR,
            LlmTensor::TimeMixLerpG,
        ];
        std::array::from_fn(|i| self.moved(il, slots[i], parts[i], change, x))
    }

    /// `x` moved by the part of `change` that `mixed` and a weight say.
    fn moved(&mut self, il: usize, slot: LlmTensor, mixed: TensorId, change: TensorId, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let part = self.g.add(mixed, weight);
        let part = self.g.mul(part, change);
        self.g.add(part, x)
    }
}

// The time mixing of RWKV 7 (`models/rwkv7-base.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// `first_value` receives the values of the first block, which the others mix in.
    fn rwkv7_time_mix(
        &mut self,
        input: RecurrentInput,
        il: usize,
        x: TensorId,
        before: TensorId,
        first_value: &mut TensorId,
    ) -> TensorId {
        let (n_embd, n, head) = (self.hp.n_embd, self.batch.n_tokens, self.hp.wkv_head_size);
        let by_head = [head, n_embd / head, n, 1];
        let gated = self.has(il, LlmTensor::TimeMixG1) && self.has(il, LlmTensor::TimeMixG2);
        let change = self.g.sub(before, x);
        let parts = if gated { 6 } else { 5 };
        let change = self.g.repeat(change, [n_embd, self.n_seq_tokens(), self.batch.n_seqs, parts]);
        let mixed = self.lerp(il, change, LlmTensor::TimeMixLerpFused, x);
        let [xr, xw, xk, xv, xa, xg] = self.mixed_parts(mixed);

        let r = self.linear(il, LlmTensor::TimeMixReceptance, xr);
        let w = self.linear(il, LlmTensor::TimeMixW1, xw);
        let w = self.g.unary(w, UnaryOp::Tanh);
        let w = self.shifted(il, [LlmTensor::TimeMixW2, LlmTensor::TimeMixW0], w);
        let w = self.g.unary(w, UnaryOp::Sigmoid);
        let w = self.g.scale(w);
        let w = self.g.unary(w, UnaryOp::Exp);
        let k = self.linear(il, LlmTensor::TimeMixKey, xk);
        let mut v = self.linear(il, LlmTensor::TimeMixValue, xv);
        if first_value.is_some() {
            let towards = self.g.sub(*first_value, v);
            let part = self.linear(il, LlmTensor::TimeMixV1, xv);
            let part = self.shifted(il, [LlmTensor::TimeMixV2, LlmTensor::TimeMixV0], part);
            let part = self.g.unary(part, UnaryOp::Sigmoid);
            let part = self.g.mul(towards, part);
            v = self.g.add(v, part);
        } else {
            *first_value = v;
        }
        let gate = gated.then(|| {
            let gate = self.linear(il, LlmTensor::TimeMixG1, xg);
            let gate = self.g.unary(gate, UnaryOp::Sigmoid);
            self.linear(il, LlmTensor::TimeMixG2, gate)
        });
        let a = self.linear(il, LlmTensor::TimeMixA1, xa);
        let a = self.shifted(il, [LlmTensor::TimeMixA2, LlmTensor::TimeMixA0], a);
        let a = self.g.unary(a, UnaryOp::Sigmoid);

        let [kk, ka] = [LlmTensor::TimeMixKK, LlmTensor::TimeMixKA].map(|slot| {
            let weight = self.need(il, slot);
            self.g.mul(k, weight)
        });
        let kk = self.g.reshape(kk, by_head);
        let kk = self.g.l2_norm(kk);
        let aka = self.g.mul(a, ka);
        let more = self.g.sub(aka, ka);
        let k = self.g.add(k, more);
        let [r, w, k, v, a] = [r, w, k, v, a].map(|x| self.g.reshape(x, by_head));

        let recurrent = self.state(il, RecurrentState::Recurrent);
        let state = self.read_state(input, recurrent);
        let removed = self.g.unary(kk, UnaryOp::Neg);
        let added = self.g.mul(kk, a);
        let both = self.g.linear_attention(Op::RwkvWkv7, [r, w, k, v, removed, added, state]);
        let y = self.wkv_output(il, both);
        let y = self.group_norm_of_heads(il, y);
        let kr = self.g.mul(k, r);
        let bonus = self.need(il, LlmTensor::TimeMixRK);
        let bonus = self.g.reshape(bonus, [head, n_embd / head, 1, 1]);
        let bonus = self.g.mul(kr, bonus);
        let bonus = self.g.sum_rows(bonus);
        let bonus = self.g.mul(v, bonus);
        let bonus = self.g.reshape(bonus, [n_embd, n, 1, 1]);
        let y = self.g.add(y, bonus);
        let y = gate.map_or(y, |gate| self.g.mul(y, gate));
        self.time_mix_output(il, y)
    }

    /// The first weight times `x`, plus the second.
    fn shifted(&mut self, il: usize, [by, plus]: [LlmTensor; 2], x: TensorId) -> TensorId {
        let y = self.linear(il, by, x);
        let plus = self.need(il, plus);
        self.g.add(y, plus)
    }
}
