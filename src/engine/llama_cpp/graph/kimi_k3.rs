//! Kimi K3: Kimi Linear's blocks, and between them attention over banked residuals (`models/kimi-k3.cpp`, 0.1.161).

use super::GraphBuilder;
use super::feed_forward::{Activation, FfnWeights, Routing};
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn kimi_k3(&mut self) {
        let mut x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let mut bank = TensorId::NONE;
        for &il in self.blocks {
            let score = self.weight(il, LlmTensor::AttnResScore);
            let mixed = self.mixed_residuals(bank, x, score);
            let banked = self.hp.residual_bank > 0 && il.is_multiple_of(self.hp.residual_bank);
            if banked {
                bank = self.bank_residual(bank, x);
            }
            let y = self.rms(mixed, LlmTensor::AttnNorm, il);
            self.g.expand(y);
            let y = if self.hp.is_recr[il] {
                self.kimi_delta(states, il, y)
            } else {
                let (qkv, extras) = self.latent_qkv(il, y, TensorId::NONE);
                if self.has(il, LlmTensor::AttnGate) {
                    self.gated_by_heads(il, y, qkv, extras)
                } else {
                    self.attention(il, qkv, extras)
                }
            };
            let half = if banked { y } else { self.g.add(x, y) };
            let score = self.weight(il, LlmTensor::FfnResScore);
            let mixed = self.mixed_residuals(bank, half, score);
            let y = self.rms(mixed, LlmTensor::FfnNorm, il);
            let y = self.kimi_feed_forward(il, y);
            x = self.sum(half, y, "l_out", il);
        }
        let score = self.global_weight(LlmTensor::OutputResScore);
        let x = self.mixed_residuals(bank, x, score);
        let x = self.g.get_rows(x, out_ids);
        self.end(x, Norm::Rms);
    }

    /// `bank` with the residual `x` behind the others.
    fn bank_residual(&mut self, bank: TensorId, x: TensorId) -> TensorId {
        let x = self.g.reshape(x, [self.hp.n_embd, 1, self.batch.n_tokens, 1]);
        if bank.is_some() { self.g.concat(bank, x, 1) } else { x }
    }

    /// `x` and the banked residuals, weighted by how well each scores.
    fn mixed_residuals(&mut self, bank: TensorId, x: TensorId, score: TensorId) -> TensorId {
        if !bank.is_some() {
            return x;
        }
        let (banked, n) = (self.g[bank].ne[1], self.batch.n_tokens);
        let of_bank = self.residual_scores(bank, score);
        let of_bank = self.g.reshape(of_bank, [banked, n, 1, 1]);
        let own = self.residual_scores(x, score);
        let scores = self.g.concat(of_bank, own, 0);
        let weights = self.g.soft_max(scores, TensorId::NONE, TensorId::NONE);
        let Tensor { nb, .. } = self.g[weights];
        let [of_bank, own] = [banked, 1].map(|rows| {
            let part = self.g.window(weights, [rows, n, 1, 1], [nb[1]]);
            self.g.cont(part)
        });
        let mixed = self.g.hc_pre(bank, of_bank);
        let own = self.g.mul(x, own);
        self.g.add(mixed, own)
    }

    fn residual_scores(&mut self, x: TensorId, score: TensorId) -> TensorId {
        let x = self.g.rms_norm(x);
        let x = self.g.mul(x, score);
        self.g.sum_rows(x)
    }

    /// A dense part, or experts in a narrower space beside a shared one.
    fn kimi_feed_forward(&mut self, il: usize, x: TensorId) -> TensorId {
        if !self.has(il, LlmTensor::FfnGateInp) {
            return self.feed_forward(il, x, Activation::Situ);
        }
        let down = self.weight(il, LlmTensor::FfnRoutedDown);
        let narrow = if down.is_some() { self.g.mul_mat(down, x) } else { x };
        let logits = self.router(il, x);
        let routing = Routing {
            gating: self.hp.expert_gating,
            normalised: self.hp.expert_weights_norm,
            scaled: self.experts_scaled(),
            activation: Activation::Situ,
            weigh_first: false,
        };
        let mut y = self.experts_by(il, narrow, logits, routing);
        if self.has(il, LlmTensor::FfnRoutedNorm) {
            y = self.rms(y, LlmTensor::FfnRoutedNorm, il);
        }
        let up = self.weight(il, LlmTensor::FfnRoutedUp);
        if up.is_some() {
            y = self.g.mul_mat(up, y);
        }
        if !self.has(il, LlmTensor::FfnGateShexp) {
            return y;
        }
        let shared = self.feed_forward_of(il, x, Activation::Situ, FfnWeights::SHARED);
        self.g.add(y, shared)
    }
}
