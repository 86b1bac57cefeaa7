//! Streams that are mixed with one another too, by a matrix per token that Sinkhorn's iterations make doubly
//! stochastic (`models/deepseek4.cpp`, `models/glm5-next.cpp`, 0.1.161). Each step is one operation, or several
//! where the device of the block does not run it.

use super::super::GraphBuilder;
use super::HyperWeights;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};

/// What a half leaves for the streams after it.
#[derive(Clone, Copy)]
pub struct StreamMix {
    /// The streams before the half.
    pub residual: TensorId,
    /// The shares in which its result is added.
    pub post: TensorId,
    /// The matrix that mixes the streams.
    pub comb: TensorId,
}

impl GraphBuilder<'_> {
    /// A mix of the streams as the input of a half.
    pub fn mixed_pre(&mut self, il: usize, x: TensorId, weights: HyperWeights) -> (TensorId, StreamMix) {
        let [matrix, scale, base] = weights.map(|slot| self.need(il, slot));
        let mixes = self.stream_mixes(matrix, x);
        let streams = self.g[x].ne[1];
        let [pre, post] = [(); 2].map(|()| {
            let part = self.mix_part([mixes, scale, base], streams);
            let part = self.g.unary(part, UnaryOp::Sigmoid);
            self.g.scale(part)
        });
        let comb = if self.cx.fused_hc.comb {
            self.g.hc_comb(mixes, scale, base, streams)
        } else {
            let part = self.mix_part([mixes, scale, base], streams * streams);
            let n = self.g[part].ne[1];
            let part = self.g.reshape(part, [streams, streams, n, 1]);
            self.sinkhorn(part)
        };
        self.label(comb, "hc_comb", Some(il));
        let y = if self.cx.fused_hc.pre { self.g.hc_pre(x, pre) } else { self.weighted_streams(x, pre) };
        self.label(y, "hc_pre", Some(il));
        (y, StreamMix { residual: x, post, comb })
    }

    /// The streams after a half with the result `y`.
    pub fn mixed_post(&mut self, il: usize, y: TensorId, mix: StreamMix) -> TensorId {
        let StreamMix { residual, post, comb } = mix;
        if self.cx.fused_hc.post {
            let all = self.g.hc_post(y, residual, post, comb);
            return self.label(all, "hc_post", Some(il));
        }
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[residual];
        let (share_stride, comb_stride) = (self.g[post].nb[1], self.g[comb].nb[2]);
        let mut all = TensorId::NONE;
        for _ in 0..streams {
            let share = self.g.window(post, [1, n, 1, 1], [share_stride]);
            let mut sum = self.g.mul(y, share);
            for _ in 0..streams {
                let stream = self.g.window(residual, [n_embd, n, 1, 1], [nb[2]]);
                let weight = self.g.window(comb, [1, n, 1, 1], [comb_stride]);
                let part = self.g.mul(stream, weight);
                sum = self.g.add(sum, part);
            }
            let sum = self.g.reshape(sum, [n_embd, 1, n, 1]);
            all = if all.is_some() { self.g.concat(all, sum, 1) } else { sum };
        }
        self.label(all, "hc_post", Some(il))
    }

    /// The mean of the streams.
    pub fn stream_mean(&mut self, x: TensorId) -> TensorId {
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[x];
        let mut sum = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
        for _ in 1..streams {
            let stream = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
            sum = self.g.add(sum, stream);
        }
        self.g.scale(sum)
    }

    /// Rows and columns of a matrix per token, normalised in turn.
    fn sinkhorn(&mut self, comb: TensorId) -> TensorId {
        let mut comb = self.g.soft_max(comb, TensorId::NONE, TensorId::NONE);
        let epsilon = self.g.add_tensor(Tensor::new(Type::F32, [1; 4]));
        let epsilon = self.g.fill(epsilon);
        comb = self.g.add(comb, epsilon);
        for round in 0..self.hp.n_sinkhorn_iterations.max(1) {
            if round > 0 {
                let sums = self.g.sum_rows(comb);
                let sums = self.g.add(sums, epsilon);
                comb = self.g.div(comb, sums);
            }
            let turned = self.g.permuted(comb, [1, 0, 2, 3]);
            let sums = self.g.sum_rows(turned);
            let sums = self.g.add(sums, epsilon);
            let sums = self.g.permute(sums, [1, 0, 2, 3]);
            comb = self.g.div(comb, sums);
        }
        comb
    }
}
