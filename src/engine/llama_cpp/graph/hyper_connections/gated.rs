//! Streams that are normalised and gated by a product of two narrow matrices, in place of the norms before each half
//! (`models/qwen4exp.cpp`, 0.1.161).

use super::super::GraphBuilder;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::weights::LlmTensor;

/// The tensors of one half: norm, the matrices that narrow and widen, the one for the shares of the result.
pub type GatedWeights = [LlmTensor; 4];

/// Of attention.
pub const GATED_ATTENTION: GatedWeights =
    [LlmTensor::HcAttnNorm, LlmTensor::HcAttnDown, LlmTensor::HcAttnUp, LlmTensor::HcAttnInject];
/// Of the feed-forward part.
pub const GATED_FEED_FORWARD: GatedWeights =
    [LlmTensor::HcFfnNorm, LlmTensor::HcFfnDown, LlmTensor::HcFfnUp, LlmTensor::HcFfnInject];

impl GraphBuilder<'_> {
    /// A mix of the streams as the input of a half, and the shares in which its result goes back.
    pub fn gated_pre(&mut self, il: usize, x: TensorId, weights: GatedWeights) -> (TensorId, TensorId) {
        let [norm, down, up, inject] = weights.map(|slot| self.need(il, slot));
        let (y, normed) = self.gated_mix(Some(il), x, [norm, down, up]);
        (y, self.g.mul_mat(inject, normed))
    }

    /// The mean of the streams, each normalised and gated, and all of them normalised. What belongs to no block is not
    /// fused.
    pub fn gated_mix(
        &mut self,
        il: Option<usize>,
        x: TensorId,
        [norm, down, up]: [TensorId; 3],
    ) -> (TensorId, TensorId) {
        let [n_embd, streams, n, _] = self.g[x].ne;
        let normed = self.g.rms_norm(x);
        let normed = self.g.mul(normed, norm);
        let normed = self.g.reshape(normed, [n_embd * streams, n, 1, 1]);
        let narrow = self.g.mul_mat(down, normed);
        let narrow = self.g.scale(narrow);
        let narrow = self.g.unary(narrow, UnaryOp::Silu);
        let gate = self.g.mul_mat(up, narrow);
        let apart = [n_embd, streams, n, 1];
        if il.is_some() && self.cx.fused_hc.pre {
            let [streams, gate] = [normed, gate].map(|x| self.g.reshape(x, apart));
            let y = self.g.hc_pre(streams, gate);
            return (self.label(y, "hc_pre", il), normed);
        }
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let gated = self.g.mul(normed, gate);
        let gated = self.g.reshape(gated, apart);
        let Tensor { nb, .. } = self.g[gated];
        let first = self.g.window(gated, [n_embd, n, 1, 1], [nb[2]]);
        let mut sum = self.g.cont(first);
        for _ in 1..streams {
            let stream = self.g.window(gated, [n_embd, n, 1, 1], [nb[2]]);
            sum = self.g.add(sum, stream);
        }
        (self.g.scale(sum), normed)
    }

    /// The streams `residual` with the result `y` of a half added in the shares `inject`.
    pub fn gated_post(&mut self, il: usize, residual: TensorId, y: TensorId, inject: TensorId) -> TensorId {
        let [n_embd, streams, n, _] = self.g[residual].ne;
        let shares = self.g.scale(inject);
        let shares = self.g.unary(shares, UnaryOp::Sigmoid);
        let shares = self.g.scale(shares);
        if self.cx.fused_hc.post {
            let all = self.g.hc_post(y, residual, shares, TensorId::NONE);
            return self.label(all, "hc_post", Some(il));
        }
        let shares = self.g.reshape(shares, [1, streams, n, 1]);
        let y = self.g.reshape(y, [n_embd, 1, n, 1]);
        let y = self.g.repeat(y, [n_embd, streams, n, 1]);
        let y = self.g.mul(y, shares);
        self.g.add(residual, y)
    }
}
