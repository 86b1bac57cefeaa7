//! Hyper-connections: several residual streams, of which every half of a block reads a mix and to which it adds its result
//! in parts (`models/hy-v4.cpp`, `models/deepseek4.cpp`, 0.1.161).

mod gated;
mod mixed;

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::weights::LlmTensor;
pub(super) use gated::{GATED_ATTENTION, GATED_FEED_FORWARD};

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
