//! Hyper-connections: several residual streams, of which every half of a block reads a mix and to which it adds its result
//! in parts (`models/hy-v4.cpp`, `models/deepseek4.cpp`, 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::weights::LlmTensor;

/// The tensors of one half: the matrix that mixes, its scales, its bases.
pub(super) type HyperWeights = [LlmTensor; 3];

/// Of attention.
pub(super) const OF_ATTENTION: HyperWeights = [LlmTensor::HcAttnFn, LlmTensor::HcAttnScale, LlmTensor::HcAttnBase];
/// Of the feed-forward part.
pub(super) const OF_FEED_FORWARD: HyperWeights = [LlmTensor::HcFfnFn, LlmTensor::HcFfnScale, LlmTensor::HcFfnBase];

impl GraphBuilder<'_> {
    /// The embeddings in every stream: `[embedding, streams, tokens]`.
    pub(super) fn spread_over_streams(&mut self, x: TensorId) -> TensorId {
        let (n_embd, n) = (self.hp.n_embd, self.batch.n_tokens);
        let x = self.g.reshape(x, [n_embd, 1, n, 1]);
        self.g.repeat(x, [n_embd, self.hp.n_hyper_connections, n, 1])
    }

    /// The rows of the tokens with logits.
    pub(super) fn kept_streams(&mut self, x: TensorId, out_ids: TensorId) -> TensorId {
        let Tensor { ne: [n_embd, streams, n, _], .. } = self.g[x];
        let flat = self.g.reshape(x, [n_embd * streams, n, 1, 1]);
        let flat = self.g.get_rows(flat, out_ids);
        let kept = self.g[flat].ne[1];
        self.g.reshape(flat, [n_embd, streams, kept, 1])
    }

    /// What all streams together say of each: a product with `weight`.
    pub(super) fn stream_mixes(&mut self, weight: TensorId, x: TensorId) -> TensorId {
        let Tensor { ne: [n_embd, streams, n, _], .. } = self.g[x];
        let flat = self.g.reshape(x, [n_embd * streams, n, 1, 1]);
        let flat = self.g.rms_norm(flat);
        self.g.mul_mat(weight, flat)
    }

    /// A mix of the streams as the input of a half, and the shares in which its result goes back. Independent streams are
    /// not mixed with one another besides.
    pub(super) fn independent_pre(&mut self, il: usize, x: TensorId, weights: HyperWeights) -> (TensorId, TensorId) {
        let [matrix, scale, base] = weights.map(|slot| self.need(il, slot));
        let mixes = self.stream_mixes(matrix, x);
        let streams = self.g[x].ne[1];
        let [pre, post] = [(); 2].map(|()| {
            let part = self.mix_part([mixes, scale, base], streams);
            self.g.unary(part, UnaryOp::Sigmoid)
        });
        let pre = self.g.scale(pre);
        let post = self.g.scale(post);
        let post = self.g.scale(post);
        (self.reduced(x, pre), post)
    }

    /// The next `elements` of what the streams say, scaled and moved.
    fn mix_part(&mut self, [mixes, scale, base]: [TensorId; 3], elements: u64) -> TensorId {
        let scale = self.g.window(scale, [1, 1, 1, 1], []);
        let base = self.g.window(base, [elements, 1, 1, 1], []);
        let Tensor { ne: [_, n, ..], nb, .. } = self.g[mixes];
        let part = self.g.window(mixes, [elements, n, 1, 1], [nb[1]]);
        self.affine_part(part, scale, base)
    }

    /// The mix of the streams that the final norm reads.
    pub(super) fn hyper_head(&mut self, x: TensorId) -> TensorId {
        let weights = [LlmTensor::HcHeadFn, LlmTensor::HcHeadScale, LlmTensor::HcHeadBase];
        let [matrix, scale, base] = weights.map(|slot| self.need_global(slot));
        let mixes = self.stream_mixes(matrix, x);
        let pre = self.opened(mixes, scale, base);
        let pre = self.g.scale(pre);
        if self.architecture.has(Trait::CastsHeadStreams) {
            self.reduced(x, pre)
        } else {
            self.weighted_streams(x, pre)
        }
    }

    /// The sigmoid of `x`, scaled and moved.
    fn opened(&mut self, x: TensorId, scale: TensorId, base: TensorId) -> TensorId {
        let x = self.affine_part(x, scale, base);
        self.g.unary(x, UnaryOp::Sigmoid)
    }

    /// `x`, scaled and moved.
    fn affine_part(&mut self, x: TensorId, scale: TensorId, base: TensorId) -> TensorId {
        let x = self.g.mul(x, scale);
        self.g.add(x, base)
    }

    /// The sum of the streams of `x`, weighted.
    fn reduced(&mut self, x: TensorId, weights: TensorId) -> TensorId {
        let ty = self.g[x].ty;
        let x = self.g.cast(x, Type::F32);
        let sum = self.weighted_streams(x, weights);
        self.g.cast(sum, ty)
    }

    /// The same without changing the type.
    fn weighted_streams(&mut self, x: TensorId, weights: TensorId) -> TensorId {
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[x];
        let stride = self.g[weights].nb[1];
        let mut sum = TensorId::NONE;
        for _ in 0..streams {
            let stream = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
            let weight = self.g.window(weights, [1, n, 1, 1], [stride]);
            let part = self.g.mul(stream, weight);
            sum = if sum.is_some() { self.g.add(sum, part) } else { part };
        }
        sum
    }

    /// The streams `residual` with the result `y` of a half added in the shares `post`.
    pub(super) fn independent_post(&mut self, y: TensorId, residual: TensorId, post: TensorId) -> TensorId {
        let ty = self.g[residual].ty;
        let [y, post, residual] = [y, post, residual].map(|x| self.g.cast(x, Type::F32));
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[residual];
        let stride = self.g[post].nb[1];
        let mut all = TensorId::NONE;
        for _ in 0..streams {
            let stream = self.g.window(residual, [n_embd, n, 1, 1], [nb[2]]);
            let share = self.g.window(post, [1, n, 1, 1], [stride]);
            let part = self.g.mul(y, share);
            let sum = self.g.add(stream, part);
            let sum = self.g.reshape(sum, [n_embd, 1, n, 1]);
            all = if all.is_some() { self.g.concat(all, sum, 1) } else { sum };
        }
        self.g.cast(all, ty)
    }
}

// Streams that are mixed with one another too, by a matrix per token that Sinkhorn's iterations make doubly
// stochastic (`models/deepseek4.cpp`, `models/glm5-next.cpp`, 0.1.161). Each step is one operation, or several
// where the device of the block does not run it.

/// What a half leaves for the streams after it.
#[derive(Clone, Copy)]
pub(super) struct StreamMix {
    /// The streams before the half.
    pub residual: TensorId,
    /// The shares in which its result is added.
    pub post: TensorId,
    /// The matrix that mixes the streams.
    pub comb: TensorId,
}

impl GraphBuilder<'_> {
    /// A mix of the streams as the input of a half.
    pub(super) fn mixed_pre(&mut self, il: usize, x: TensorId, weights: HyperWeights) -> (TensorId, StreamMix) {
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
    pub(super) fn mixed_post(&mut self, il: usize, y: TensorId, mix: StreamMix) -> TensorId {
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
    pub(super) fn stream_mean(&mut self, x: TensorId) -> TensorId {
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

// Streams that are normalised and gated by a product of two narrow matrices, in place of the norms before each half
// (`models/qwen4exp.cpp`, 0.1.161).

/// The tensors of one half: norm, the matrices that narrow and widen, the one for the shares of the result.
pub(super) type GatedWeights = [LlmTensor; 4];

/// Of attention.
pub(super) const GATED_ATTENTION: GatedWeights =
    [LlmTensor::HcAttnNorm, LlmTensor::HcAttnDown, LlmTensor::HcAttnUp, LlmTensor::HcAttnInject];
/// Of the feed-forward part.
pub(super) const GATED_FEED_FORWARD: GatedWeights =
    [LlmTensor::HcFfnNorm, LlmTensor::HcFfnDown, LlmTensor::HcFfnUp, LlmTensor::HcFfnInject];

impl GraphBuilder<'_> {
    /// A mix of the streams as the input of a half, and the shares in which its result goes back.
    pub(super) fn gated_pre(&mut self, il: usize, x: TensorId, weights: GatedWeights) -> (TensorId, TensorId) {
        let [norm, down, up, inject] = weights.map(|slot| self.need(il, slot));
        let (y, normed) = self.gated_mix(Some(il), x, [norm, down, up]);
        (y, self.g.mul_mat(inject, normed))
    }

    /// The mean of the streams, each normalised and gated, and all of them normalised. What belongs to no block is not
    /// fused.
    pub(super) fn gated_mix(
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
    pub(super) fn gated_post(&mut self, il: usize, residual: TensorId, y: TensorId, inject: TensorId) -> TensorId {
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
