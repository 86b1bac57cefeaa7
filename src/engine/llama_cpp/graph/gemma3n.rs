//! Gemma 3n: four parallel streams that every block predicts and corrects (`AltUp`), a low-rank path beside
//! attention (`LAuReL`), per-layer embeddings, and sparse first blocks (`models/gemma3n.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp, row};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// Parallel streams; the first is the active one (`llama-hparams.h`, 0.1.161).
const STREAMS: u64 = 4;
/// The first blocks, whose activations are sparse (`models.h`, 0.1.161).
pub(super) const SPARSE_BLOCKS: usize = 10;

impl GraphBuilder<'_> {
    pub fn gemma3n(&mut self) {
        let x = self.embeddings(true);
        let positions = self.positions();
        self.attention_inputs();
        let per_layer = self.per_layer_inputs(x, TensorId::NONE);
        let mut streams = self.streams_of(x);
        for &il in self.blocks {
            let predicted = self.predicted_streams(il, streams);
            let active = self.stream(predicted);
            let x = self.rms(active, LlmTensor::AttnNorm, il);
            let beside = self.low_rank_path(il, x);
            let qkv = self.gemma3n_qkv(il, x, positions);
            let y = self.attention(il, qkv, AttentionExtras::default());
            let y = self.rms(y, LlmTensor::AttnPostNorm, il);
            let y = self.g.add(y, active);
            let both = self.g.add(y, beside);
            let half = self.g.scale(both);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.sparse_feed_forward(il, y);
            let y = self.unpinned_rms(y, LlmTensor::FfnPostNorm, il);
            let y = self.g.add(y, half);
            let corrected = self.corrected_streams(il, predicted, y);
            streams = self.add_per_layer_to_streams(il, corrected, per_layer);
            self.label(streams, "l_out", Some(il));
        }
        let x = self.merged_streams(streams);
        let out_ids = self.out_ids();
        let x = self.g.get_rows(x, out_ids);
        let logits = self.finish(x, Norm::Rms);
        let logits = self.soft_capped(logits);
        self.close(logits);
    }

    /// Queries, and keys and values if the block has its own cache: those are parts of one matrix without a copy.
    fn gemma3n_qkv(&mut self, il: usize, x: TensorId, positions: TensorId) -> Qkv {
        if self.hp.n_layer_kv_from_start.is_some_and(|own| il >= own) {
            return self.gemma4_qkv(il, x, positions, TensorId::NONE);
        }
        let Qkv { q, k, v } = self.qkv(il, x);
        let q = self.rms(q, LlmTensor::AttnQNorm, il);
        let k = self.rms(k, LlmTensor::AttnKNorm, il);
        let v = self.g.rms_norm(v);
        self.rotate(Qkv { q, k, v }, positions, TensorId::NONE)
    }

    /// One stream, or one block's embeddings.
    fn stream(&mut self, streams: TensorId) -> TensorId {
        let Tensor { ty, ne, .. } = self.g[streams];
        self.g.window(streams, [ne[0], ne[1], 1, 1], [row(ty, ne[0])])
    }

    /// All streams but the first.
    fn other_streams(&mut self, streams: TensorId) -> TensorId {
        let Tensor { nb, .. } = self.g[streams];
        self.g.window(streams, [self.hp.n_embd, self.batch.n_tokens, STREAMS - 1, 1], [nb[1], nb[2]])
    }

    /// Lengths of rows.
    fn magnitude(&mut self, x: TensorId) -> TensorId {
        let x = self.g.sqr(x);
        let x = self.g.sum_rows(x);
        self.g.sqrt(x)
    }

    /// `x` projected by the weights of `slot`, at the length `target`.
    fn projected(&mut self, slot: LlmTensor, x: TensorId, target: TensorId) -> TensorId {
        let y = self.multiply_global(slot, x);
        let own = self.magnitude(y);
        let y = self.g.mul(y, target);
        self.g.div(y, own)
    }

    /// The embeddings as the first stream, and their projections as the others.
    fn streams_of(&mut self, x: TensorId) -> TensorId {
        let target = self.magnitude(x);
        let repeated = self.g.repeat(x, [self.hp.n_embd, self.batch.n_tokens, STREAMS - 1, 1]);
        let others = self.projected(LlmTensor::AltupProj, repeated, target);
        self.g.concat(x, others, 2)
    }

    /// The mean of the streams, the others projected back.
    fn merged_streams(&mut self, streams: TensorId) -> TensorId {
        let active = self.stream(streams);
        let target = self.magnitude(active);
        let others = self.other_streams(streams);
        let others = self.projected(LlmTensor::AltupUnembdProj, others, target);
        let mut x = self.stream(streams);
        for _ in 1..STREAMS {
            let other = self.stream(others);
            x = self.g.add(x, other);
        }
        self.g.scale(x)
    }

    /// How much of each stream goes into the others, per token.
    fn stream_router(&mut self, il: usize, x: TensorId) -> TensorId {
        let x = self.rms(x, LlmTensor::AltupRouterNorm, il);
        let x = self.g.scale(x);
        let x = self.linear(il, LlmTensor::AltupRouter, x);
        self.g.unary(x, UnaryOp::Tanh)
    }

    fn predicted_streams(&mut self, il: usize, streams: TensorId) -> TensorId {
        let active = self.stream(streams);
        let modalities = self.stream_router(il, active);
        let factors = self.linear(il, LlmTensor::AltupPredictCoef, modalities);
        let factors = self.g.reshape(factors, [STREAMS, STREAMS, self.batch.n_tokens, 1]);
        let turned = self.g.permuted(streams, [1, 2, 0, 3]);
        let predicted = self.g.mul_mat(turned, factors);
        let predicted = self.g.permuted(predicted, [0, 2, 1, 3]);
        self.g.add(predicted, streams)
    }

    fn corrected_streams(&mut self, il: usize, predicted: TensorId, x: TensorId) -> TensorId {
        let n = self.batch.n_tokens;
        let modalities = self.stream_router(il, x);
        let active = self.stream(predicted);
        let innovation = self.g.sub(x, active);
        let factors = self.linear(il, LlmTensor::AltupCorrectCoef, modalities);
        let factors = self.g.scale(factors);
        let factors = self.g.transpose(factors);
        let factors = self.g.cont_as(factors, [1, n, STREAMS, 1]);
        let innovation = self.g.repeat(innovation, [self.hp.n_embd, n, STREAMS, 1]);
        let change = self.g.mul(innovation, factors);
        self.g.add(change, predicted)
    }

    /// Adds a block's own embeddings to all streams but the first.
    fn add_per_layer_to_streams(&mut self, il: usize, streams: TensorId, per_layer: TensorId) -> TensorId {
        let active = self.stream(streams);
        let scale = self.need(il, LlmTensor::AltupCorrectScale);
        let x = self.g.mul(active, scale);
        let x = self.linear(il, LlmTensor::PerLayerInpGate, x);
        let x = self.g.unary(x, UnaryOp::Gelu);
        let own = self.stream(per_layer);
        let x = self.g.mul(x, own);
        let x = self.linear(il, LlmTensor::PerLayerProj, x);
        let x = self.rms(x, LlmTensor::PerLayerPostNorm, il);
        let first = self.stream(streams);
        let others = self.other_streams(streams);
        let others = self.g.add(others, x);
        self.g.concat(first, others, 2)
    }

    fn low_rank_path(&mut self, il: usize, x: TensorId) -> TensorId {
        let y = self.linear(il, LlmTensor::LaurelL, x);
        let y = self.linear(il, LlmTensor::LaurelR, y);
        let y = self.rms(y, LlmTensor::LaurelPostNorm, il);
        self.g.add(y, x)
    }

    /// A gated feed-forward part; in the first blocks only the largest gates stay open.
    fn sparse_feed_forward(&mut self, il: usize, x: TensorId) -> TensorId {
        let up = self.linear(il, LlmTensor::FfnUp, x);
        let mut gate = self.linear(il, LlmTensor::FfnGate, x);
        if il < SPARSE_BLOCKS {
            gate = self.above_cutoff(gate);
        }
        let gate = self.g.unary(gate, UnaryOp::Gelu);
        let y = self.g.mul(up, gate);
        self.linear(il, LlmTensor::FfnDown, y)
    }

    /// What exceeds the mean by a multiple of the standard deviation.
    fn above_cutoff(&mut self, x: TensorId) -> TensorId {
        let mean = self.g.mean(x);
        let apart = self.g.sub(x, mean);
        let squares = self.g.sqr(apart);
        let sums = self.g.sum_rows(squares);
        let variance = self.g.scale(sums);
        let deviation = self.g.sqrt(variance);
        let more = self.g.scale(deviation);
        let cutoff = self.g.add(mean, more);
        let rest = self.g.sub(x, cutoff);
        self.g.unary(rest, UnaryOp::Relu)
    }
}
