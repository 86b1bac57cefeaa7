//! Gemma 4's audio encoder: blocks of two feed-forward networks, attention within chunks and a convolution
//! (`models/gemma4a.cpp`, 0.1.161).

use super::super::{ATTENTION_OUT, ClipGraph, Norm, built};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Steps;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};
use crate::engine::llama_cpp::projector::hparams::Activation;

/// Positions of a chunk.
const CHUNK: u64 = 12;
/// Positions before a chunk that it attends to.
const PAST: u64 = 12;
/// Positions that a chunk attends to.
const CONTEXT: u64 = CHUNK + PAST;
/// Relative positions.
const DISTANCES: u64 = PAST + 1;
/// Elements before a row that the convolution reads.
const CONVOLUTION_PADDING: u64 = 4;

/// What all blocks share.
#[derive(Clone, Copy)]
struct Chunks {
    positions: u64,
    count: u64,
    distances: TensorId,
    mask: TensorId,
}

impl ClipGraph<'_> {
    pub fn gemma4a(&mut self) -> TensorId {
        let (d_head, n_head) = (self.encoder.hparams.d_head, self.encoder.hparams.n_head);
        let mut x = self.subsampled();
        let positions = self.shape(x)[1];
        let chunks = positions.div_ceil(CHUNK);
        let distances = self.input(Type::F32, [n_head * d_head, DISTANCES, 1, 1], "pos_emb");
        let mask = self.input(Type::F32, [CONTEXT, CHUNK, chunks, 1], "kq_mask");
        let shared = Chunks { positions, count: chunks, distances, mask };
        for il in built(self.built, 0..self.encoder.hparams.n_layer) {
            x = self.gemma4a_block(il, x, shared);
        }
        if self.tensor("a.pre_encode.out.weight").is_some() {
            x = self.linear(x, ["a.pre_encode.out.weight", "a.pre_encode.out.bias"]);
        }
        let weight = self.tensor("mm.a.soft_emb_norm.weight");
        let x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        let matrix = self.tensor("mm.a.input_projection.weight");
        if matrix.is_some() { self.mm(matrix, x) } else { x }
    }

    /// Two convolutions that halve both axes, as rows.
    fn subsampled(&mut self) -> TensorId {
        let raw = self.raw(1);
        let mut x = self.g.transposed(raw);
        for [kernel, bias, norm] in [
            ["a.conv1d.0.weight", "a.conv1d.0.bias", "a.conv1d.0.norm.weight"],
            ["a.conv1d.1.weight", "a.conv1d.1.bias", "a.conv1d.1.norm.weight"],
        ] {
            let kernel = self.need(kernel);
            x = self.convolved(kernel, x, Steps { stride: 2, padding: 1 });
            let bias = self.tensor(bias);
            x = self.g.plus(x, bias);
            let norm = self.tensor(norm);
            if norm.is_some() {
                x = self.g.permuted(x, [1, 2, 0, 3]);
                x = self.norm(x, norm, TensorId::NONE, Norm::Layer);
                x = self.g.permuted(x, [2, 0, 1, 3]);
            }
            x = self.g.unary(x, UnaryOp::Relu);
        }
        let x = self.g.permuted(x, [1, 2, 0, 3]);
        let [a, b, c, _] = self.shape(x);
        let x = self.reshape(x, [a * b, c, 1, 1]);
        self.linear(x, ["a.input_projection.weight", "a.input_projection.bias"])
    }

    fn gemma4a_block(&mut self, il: usize, x: TensorId, shared: Chunks) -> TensorId {
        let mut residual =
            self.half_step(il, x, ["ffn_norm.weight", "ffn_up.weight", "ffn_down.weight", "ffn_post_norm.weight"]);
        if ["attn_q.weight", "attn_k.weight", "attn_v.weight"].into_iter().all(|name| self.layer(il, name).is_some()) {
            let x = self.chunked_attention(il, residual, shared);
            residual = self.g.add(residual, x);
        }
        let convolution = ["conv_norm.weight", "conv_pw1.weight", "conv_dw.weight", "conv_pw2.weight"];
        if convolution.into_iter().all(|name| self.layer(il, name).is_some()) {
            let x = self.light_convolution(il, residual);
            residual = self.g.add(residual, x);
        }
        let second = ["ffn_norm_1.weight", "ffn_up_1.weight", "ffn_down_1.weight", "ffn_post_norm_1.weight"];
        let residual = self.half_step(il, residual, second);
        let weight = self.layer(il, "ln2.weight");
        if weight.is_some() { self.norm(residual, weight, TensorId::NONE, Norm::Rms) } else { residual }
    }

    /// Half of a feed-forward network's output, added to its input.
    fn half_step(&mut self, il: usize, x: TensorId, [before, up, down, after]: [&'static str; 4]) -> TensorId {
        let [before, up, down, after] = [before, up, down, after].map(|name| self.layer(il, name));
        if !(before.is_some() && up.is_some() && down.is_some()) {
            return x;
        }
        let mut y = self.norm(x, before, TensorId::NONE, Norm::Rms);
        let none = TensorId::NONE;
        y = self.feed_forward_by(y, [up, none, none, none, down, none], Activation::Silu);
        if after.is_some() {
            y = self.norm(y, after, TensorId::NONE, Norm::Rms);
        }
        let y = self.g.scale(y);
        self.g.add(x, y)
    }

    fn chunked_attention(&mut self, il: usize, residual: TensorId, shared: Chunks) -> TensorId {
        let (d_head, n_head) = (self.encoder.hparams.d_head, self.encoder.hparams.n_head);
        let Chunks { positions, count: chunks, .. } = shared;
        let [own, usual] = ["attn_pre_norm.weight", "ln1.weight"].map(|name| self.layer(il, name));
        let weight = if own.is_some() { own } else { usual };
        let x = if weight.is_some() { self.norm(residual, weight, TensorId::NONE, Norm::Rms) } else { residual };
        let [q, k, v] = ["attn_q.weight", "attn_k.weight", "attn_v.weight"].map(|name| {
            let matrix = self.need_layer(il, name);
            self.mm(matrix, x)
        });
        let [q, k, v] = [q, k, v].map(|x| self.reshape(x, [d_head, n_head, positions, 1]));
        let q = self.scaled_heads(il, q, "per_dim_scale.weight");
        let k = self.scaled_heads(il, k, "per_dim_k_scale.weight");
        let q = self.g.pad(q, [0, 0, chunks * CHUNK - positions, 0]);
        let q = self.reshape(q, [d_head, n_head, CHUNK, chunks]);
        let q = self.g.permuted(q, [0, 3, 1, 2]);
        let k = self.context_of_chunks(k, shared);
        let k = self.g.permuted(k, [0, 3, 1, 2]);
        let v = self.context_of_chunks(v, shared);
        let v = self.g.permuted(v, [1, 3, 0, 2]);
        let mut scores = self.product(k, q);
        let relative = self.layer(il, "attn_k_rel.weight");
        if relative.is_some() {
            let distances = self.relative_scores(relative, q, shared);
            scores = self.g.add(scores, distances);
        }
        scores = self.g.scale(scores);
        scores = self.g.unary(scores, UnaryOp::Tanh);
        scores = self.g.scale(scores);
        scores = self.g.add(scores, shared.mask);
        let weights = self.g.soft_max(scores, TensorId::NONE, TensorId::NONE);
        let x = self.product(v, weights);
        let x = self.g.permuted(x, [0, 2, 3, 1]);
        let mut x = self.cont_as(x, [d_head * n_head, CHUNK * chunks, 1, 1]);
        if chunks * CHUNK > positions {
            let row = self.g[x].nb[1];
            x = self.g.window(x, [d_head * n_head, positions, 1, 1], [row]);
            x = self.g.cont(x);
        }
        let x = self.linear_in(il, x, ATTENTION_OUT);
        let weight = self.layer(il, "attn_post_norm.weight");
        if weight.is_some() { self.norm(x, weight, TensorId::NONE, Norm::Rms) } else { x }
    }

    fn scaled_heads(&mut self, il: usize, x: TensorId, name: &'static str) -> TensorId {
        let x = self.g.scale(x);
        let scale = self.layer(il, name);
        if !scale.is_some() {
            return x;
        }
        let d_head = self.encoder.hparams.d_head;
        let scale = self.reshape(scale, [d_head, 1, 1, 1]);
        self.g.mul(x, scale)
    }

    /// For every chunk the rows that it attends to: windows that overlap.
    fn context_of_chunks(&mut self, x: TensorId, shared: Chunks) -> TensorId {
        let (d_head, n_head) = (self.encoder.hparams.d_head, self.encoder.hparams.n_head);
        let Chunks { positions, count: chunks, .. } = shared;
        let mut x = self.g.pad(x, [0, 0, (CONTEXT * chunks).saturating_sub(positions), 0]);
        if !self.rules.pads_at_start {
            x = self.g.roll(x);
            x = self.g.cont(x);
        }
        let [_, nb1, nb2, _] = self.g[x].nb;
        let x = self.g.window(x, [d_head, n_head, CONTEXT, chunks], [nb1, nb2, CHUNK * nb2]);
        self.g.cont(x)
    }

    /// Scores by distance, shifted to positions.
    fn relative_scores(&mut self, matrix: TensorId, q: TensorId, shared: Chunks) -> TensorId {
        let (d_head, n_head) = (self.encoder.hparams.d_head, self.encoder.hparams.n_head);
        let chunks = shared.count;
        let distances = self.product(matrix, shared.distances);
        let distances = self.reshape(distances, [d_head, n_head, DISTANCES, 1]);
        let distances = self.g.permuted(distances, [0, 2, 1, 3]);
        let q = self.reshape(q, [d_head, CHUNK * chunks, n_head, 1]);
        let x = self.product(distances, q);
        let x = self.reshape(x, [DISTANCES, CHUNK, chunks, n_head]);
        let x = self.g.pad(x, [CONTEXT + 1 - DISTANCES, 0, 0, 0]);
        let x = self.reshape(x, [(CONTEXT + 1) * CHUNK, chunks, n_head, 1]);
        let [_, nb1, nb2, _] = self.g[x].nb;
        let x = self.g.window(x, [CHUNK * CONTEXT, chunks, n_head, 1], [nb1, nb2]);
        let x = self.g.cont(x);
        self.reshape(x, [CONTEXT, CHUNK, chunks, n_head])
    }

    fn light_convolution(&mut self, il: usize, residual: TensorId) -> TensorId {
        // the file has the names of this norm and of the one within the convolution the other way round
        let weight = self.layer(il, "conv_norm.weight");
        let x = self.norm(residual, weight, TensorId::NONE, Norm::Rms);
        let matrix = self.need_layer(il, "conv_pw1.weight");
        let x = self.mm(matrix, x);
        let ([width, rows, ..], row) = (self.shape(x), self.g[x].nb[1]);
        let gate = self.g.window(x, [width / 2, rows, 1, 1], [row]);
        let gate = self.g.cont(gate);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let x = self.g.window(x, [width / 2, rows, 1, 1], [row]);
        let x = self.g.mul(x, gate);
        let x = self.g.transposed(x);
        let x = self.g.pad(x, [CONVOLUTION_PADDING, 0, 0, 0]);
        let x = if self.rules.pads_at_start { x } else { self.g.roll(x) };
        let kernel = self.need_layer(il, "conv_dw.weight");
        let x = self.g.ssm_conv(x, kernel);
        let bias = self.layer(il, "conv_dw.bias");
        let mut x = self.g.plus(x, bias);
        let weight = self.layer(il, "norm_conv.weight");
        if weight.is_some() {
            x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        }
        let x = self.g.unary(x, UnaryOp::Silu);
        let matrix = self.need_layer(il, "conv_pw2.weight");
        self.mm(matrix, x)
    }
}
