//! Nemotron H, Falcon H1 and LFM 2: recurrent blocks, attention blocks, and feed-forward blocks.

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::feed_forward::{Activation, FfnWeights, Routing};
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::transformer::{Norm, gating};
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// Nemotron H: every block is one of the three; no positions.
    pub fn nemotron_h(&mut self) {
        let mut x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for &il in self.blocks {
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
        for &il in self.blocks {
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
        for &il in self.blocks {
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
