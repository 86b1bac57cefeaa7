//! Hyper-connections: several residual streams, of which every half of a block reads a mix and to which it adds its result
//! in parts (`models/hy-v4.cpp`, `models/deepseek4.cpp`, 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Architecture;
use crate::engine::llama_cpp::weights::LlmTensor;

/// The tensors of one half: the matrix that mixes, its scales, its bases.
pub(super) type HyperWeights = [LlmTensor; 3];

/// Of attention.
pub(super) const OF_ATTENTION: HyperWeights = [LlmTensor::HcAttnFn, LlmTensor::HcAttnScale, LlmTensor::HcAttnBase];
/// Of the feed-forward part.
pub(super) const OF_FEED_FORWARD: HyperWeights = [LlmTensor::HcFfnFn, LlmTensor::HcFfnScale, LlmTensor::HcFfnBase];

/// How a half's result goes back to streams that are mixed.
#[derive(Clone, Copy)]
pub(super) struct Mixing {
    /// The shares of the result.
    pub post: TensorId,
    /// The shares of the streams in one another.
    pub comb: TensorId,
}

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
            let part = self.part_of_mixes(mixes, [scale, base], streams);
            self.g.unary(part, UnaryOp::Sigmoid)
        });
        let pre = self.g.scale(pre);
        let post = self.g.scale(post);
        let post = self.g.scale(post);
        (self.reduced(x, pre), post)
    }

    /// The mix of the streams that the final norm reads.
    pub(super) fn hyper_head(&mut self, x: TensorId) -> TensorId {
        let weights = [LlmTensor::HcHeadFn, LlmTensor::HcHeadScale, LlmTensor::HcHeadBase];
        let [matrix, scale, base] = weights.map(|slot| self.need_global(slot));
        let mixes = self.stream_mixes(matrix, x);
        let pre = self.g.mul(mixes, scale);
        let pre = self.g.add(pre, base);
        let pre = self.g.unary(pre, UnaryOp::Sigmoid);
        let pre = self.g.scale(pre);
        self.reduced(x, pre)
    }

    /// `elements` of the mixes of every token, scaled and moved.
    fn part_of_mixes(&mut self, mixes: TensorId, [scale, base]: [TensorId; 2], elements: u64) -> TensorId {
        let Tensor { ne: [_, n, ..], nb, .. } = self.g[mixes];
        let scale = self.g.window(scale, [1, 1, 1, 1], []);
        let base = self.g.window(base, [elements, 1, 1, 1], []);
        let part = self.g.window(mixes, [elements, n, 1, 1], [nb[1]]);
        let part = self.g.mul(part, scale);
        self.g.add(part, base)
    }

    /// The sum of the streams of `x`, weighted.
    fn reduced(&mut self, x: TensorId, weights: TensorId) -> TensorId {
        let ty = self.g[x].ty;
        let converts = self.architecture == Architecture::HyV4;
        let x = if converts { self.g.cast(x, Type::F32) } else { x };
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[x];
        let stride = self.g[weights].nb[1];
        let mut sum = TensorId::NONE;
        for _ in 0..streams {
            let stream = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
            let weight = self.g.window(weights, [1, n, 1, 1], [stride]);
            let part = self.g.mul(stream, weight);
            sum = if sum.is_some() { self.g.add(sum, part) } else { part };
        }
        if converts { self.g.cast(sum, ty) } else { sum }
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

    /// The same as [`Self::independent_pre`] of streams that are mixed: with the shares, how the streams mix.
    pub(super) fn mixed_pre(&mut self, il: usize, x: TensorId, weights: HyperWeights) -> (TensorId, Mixing) {
        let [matrix, scale, base] = weights.map(|slot| self.need(il, slot));
        let mixes = self.stream_mixes(matrix, x);
        self.label(mixes, "hc_mixes", Some(il));
        let streams = self.g[x].ne[1];
        let [pre, post] = [(); 2].map(|()| {
            let part = self.part_of_mixes(mixes, [scale, base], streams);
            let part = self.g.unary(part, UnaryOp::Sigmoid);
            self.g.scale(part)
        });
        self.label(pre, "hc_pre", Some(il));
        self.label(post, "hc_post", Some(il));
        let comb = if self.cx.fused_hc.comb {
            self.g.hc_comb(mixes, scale, base, streams)
        } else {
            let comb = self.part_of_mixes(mixes, [scale, base], streams * streams);
            let n = self.g[comb].ne[1];
            let comb = self.g.reshape(comb, [streams, streams, n, 1]);
            self.balanced(comb)
        };
        self.label(comb, "hc_comb", Some(il));
        let y = if self.cx.fused_hc.pre { self.g.hc_pre(x, pre) } else { self.reduced(x, pre) };
        self.label(y, "hc_pre", Some(il));
        (y, Mixing { post, comb })
    }

    /// Balances how streams mix, so that each gives and takes as much as the others (Sinkhorn).
    fn balanced(&mut self, comb: TensorId) -> TensorId {
        let comb = self.g.soft_max(comb, TensorId::NONE, TensorId::NONE);
        let least = self.g.add_tensor(Tensor::new(Type::F32, [1; 4]));
        let least = self.g.fill(least);
        let mut comb = self.g.add(comb, least);
        for round in 0..self.hp.n_sinkhorn_iterations.max(1) {
            if round > 0 {
                let sums = self.g.sum_rows(comb);
                let sums = self.g.add(sums, least);
                comb = self.g.div(comb, sums);
            }
            let turned = self.g.permute(comb, [1, 0, 2, 3]);
            let turned = self.g.cont(turned);
            let sums = self.g.sum_rows(turned);
            let sums = self.g.add(sums, least);
            let sums = self.g.permute(sums, [1, 0, 2, 3]);
            comb = self.g.div(comb, sums);
        }
        comb
    }

    /// The streams `residual`, mixed, with the result `y` of a half added in its shares.
    pub(super) fn mixed_post(&mut self, il: usize, y: TensorId, residual: TensorId, mixing: Mixing) -> TensorId {
        let Mixing { post, comb } = mixing;
        if self.cx.fused_hc.post {
            let x = self.g.hc_post(y, residual, post, comb);
            return self.label(x, "l_out", Some(il));
        }
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[residual];
        let (of_post, of_comb) = (self.g[post].nb, self.g[comb].nb);
        let mut all = TensorId::NONE;
        for _ in 0..streams {
            let share = self.g.window(post, [1, n, 1, 1], [of_post[1]]);
            let mut sum = self.g.mul(y, share);
            for _ in 0..streams {
                let stream = self.g.window(residual, [n_embd, n, 1, 1], [nb[2]]);
                let share = self.g.window(comb, [1, n, 1, 1], [of_comb[2]]);
                let part = self.g.mul(stream, share);
                sum = self.g.add(sum, part);
            }
            let sum = self.g.reshape(sum, [n_embd, 1, n, 1]);
            all = if all.is_some() { self.g.concat(all, sum, 1) } else { sum };
        }
        self.label(all, "l_out", Some(il))
    }

    /// The mean of the streams, which a draft reads.
    pub(super) fn mean_of_streams(&mut self, x: TensorId) -> TensorId {
        let Tensor { ne: [n_embd, streams, n, _], nb, .. } = self.g[x];
        let mut sum = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
        for _ in 1..streams {
            let stream = self.g.window(x, [n_embd, n, 1, 1], [nb[2]]);
            sum = self.g.add(sum, stream);
        }
        self.g.scale(sum)
    }
}
