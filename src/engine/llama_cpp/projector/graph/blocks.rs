//! The blocks that almost all encoders share (`build_vit`, `build_ffn`, `build_attn` in `clip.cpp`, 0.1.161).

use super::super::Modality;
use super::super::hparams::Activation;
use super::super::kind::Trait;
use super::{ClipGraph, Norm, built};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;

/// Rotary positions of queries and keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rotary {
    None,
    /// One operation.
    Once(TensorId),
    /// One operation per half of a head.
    Halves(TensorId, TensorId),
}

/// What all blocks of an encoder have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Positions of one image.
    pub positions: u64,
    /// Images.
    pub batch: u64,
    pub norm: Norm,
    pub activation: Activation,
    pub rotary: Rotary,
}

/// The matrices after attention.
pub(super) const ATTENTION_OUT: [&str; 2] = ["attn_out.weight", "attn_out.bias"];

impl ClipGraph<'_> {
    /// Blocks with nothing but learned positions.
    pub(super) fn plain_blocks(&self, positions: u64, norm: Norm) -> Blocks {
        let activation = self.encoder.hparams.activation;
        Blocks { positions, batch: self.n_batch, norm, activation, rotary: Rotary::None }
    }

    /// All blocks, with the normalisations before and after.
    pub(super) fn vit(&mut self, x: TensorId, learned: TensorId, blocks: &Blocks) -> TensorId {
        let (n_embd, batch) = (self.n_embd(), self.shape(x)[2]);
        let x = self.g.plus(x, learned);
        let x = if self.rules.batches { self.reshape(x, [n_embd, blocks.positions * batch, 1, 1]) } else { x };
        let mut x = self.pre_norm(x, blocks.norm);
        for il in built(self.built, 0..self.encoder.hparams.n_layer) {
            x = self.block(il, x, TensorId::NONE, blocks);
        }
        if self.encoder.kind.has(Trait::AveragesPairs) {
            x = self.g.transposed(x);
            x = self.g.pool_1d(x, 2);
            x = self.g.transposed(x);
        }
        let x = self.post_norm(x, blocks.norm);
        let positions = self.shape(x)[1] / batch.max(1);
        if !self.rules.batches {
            return x;
        }
        self.reshape(x, [n_embd, positions, batch, 1])
    }

    /// Normalisation before the first block, if there is one.
    pub(super) fn pre_norm(&mut self, x: TensorId, norm: Norm) -> TensorId {
        self.outer_norm(x, ["v.pre_ln.weight", "v.pre_ln.bias"], ["a.pre_ln.weight", "a.pre_ln.bias"], norm)
    }

    /// Normalisation after the last block, if there is one.
    pub(super) fn post_norm(&mut self, x: TensorId, norm: Norm) -> TensorId {
        self.outer_norm(x, ["v.post_ln.weight", "v.post_ln.bias"], ["a.post_ln.weight", "a.post_ln.bias"], norm)
    }

    fn outer_norm(&mut self, x: TensorId, vision: [&str; 2], audio: [&str; 2], norm: Norm) -> TensorId {
        let names = if self.encoder.modality == Modality::Audio { audio } else { vision };
        let [weight, bias] = names.map(|name| self.tensor(name));
        if weight.is_some() { self.norm(x, weight, bias, norm) } else { x }
    }

    /// One block; the mask is optional.
    pub(super) fn block(&mut self, il: usize, input: TensorId, mask: TensorId, blocks: &Blocks) -> TensorId {
        let x = self.norm_in(il, input, ["ln1.weight", "ln1.bias"], blocks.norm);
        let [q, k, v] = self.queries_keys_values(il, x, blocks);
        let x = self.attention([q, k, v], mask);
        let out = ATTENTION_OUT.map(|name| self.layer(il, name));
        let x = self.projected_attention(x, out);
        let scale = self.layer(il, "ls1.weight");
        let x = self.g.times(x, scale);
        let x = self.post_norm_in(il, x, "attn_post_norm.weight", blocks.norm);
        let residual = self.g.add(x, input);

        let x = self.norm_in(il, residual, ["ln2.weight", "ln2.bias"], blocks.norm);
        let x = self.feed_forward(il, x, blocks.activation);
        let x = self.post_norm_in(il, x, "ffn_post_norm.weight", blocks.norm);
        let scale = self.layer(il, "ls2.weight");
        let x = self.g.times(x, scale);
        let x = self.g.add(residual, x);
        let scale = self.layer(il, "out_scale.weight");
        self.g.times(x, scale)
    }

    fn post_norm_in(&mut self, il: usize, x: TensorId, name: &'static str, norm: Norm) -> TensorId {
        let weight = self.layer(il, name);
        if weight.is_some() { self.norm(x, weight, TensorId::NONE, norm) } else { x }
    }

    /// Queries, keys and values of a block, with positions.
    fn queries_keys_values(&mut self, il: usize, x: TensorId, blocks: &Blocks) -> [TensorId; 3] {
        let hparams = &self.encoder.hparams;
        let (d_head, n_head, n_head_kv) = (hparams.d_head, hparams.n_head, hparams.n_head_kv);
        let fused = self.layer(il, "attn_qkv.weight");
        let norms = ["attn_q_norm.weight", "attn_k_norm.weight"].map(|name| self.layer(il, name));
        let [mut q, mut k, mut v];
        if fused.is_some() {
            let x = self.mm(fused, x);
            let bias = self.layer(il, "attn_qkv.bias");
            let x = self.g.plus(x, bias);
            [q, k, v] = [(); 3].map(|()| self.head_window(x, blocks));
            [q, k] = self.head_norms([q, k], norms, blocks.norm);
        } else {
            [q, k, v] =
                [["attn_q.weight", "attn_q.bias"], ["attn_k.weight", "attn_k.bias"], ["attn_v.weight", "attn_v.bias"]]
                    .map(|names| self.linear_in(il, x, names));
            let per_head = norms[0].is_some() && self.shape(norms[0])[0] == d_head;
            if !per_head {
                [q, k] = self.head_norms([q, k], norms, blocks.norm);
            }
            let Blocks { positions, batch, .. } = *blocks;
            q = self.reshape(q, [d_head, n_head, positions, batch]);
            k = self.reshape(k, [d_head, n_head_kv, positions, batch]);
            v = self.reshape(v, [d_head, n_head_kv, positions, batch]);
            if per_head {
                [q, k] = self.head_norms([q, k], norms, blocks.norm);
            }
        }
        [q, k] = [q, k].map(|x| self.rotated(x, blocks.rotary));
        if self.encoder.kind.has(Trait::NormsValues) {
            v = self.g.rms_norm(v);
        }
        [q, k, v]
    }

    /// The queries, keys or values in the rows of a fused product.
    pub(super) fn head_window(&mut self, x: TensorId, blocks: &Blocks) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (d_head, n_head) = (hparams.d_head, hparams.n_head);
        if 3 * d_head * n_head > self.shape(x)[0] {
            return self.misfit(x, [d_head, n_head, 3, 1]);
        }
        let ([element, row, ..], positions) = (self.g[x].nb, blocks.positions);
        self.g.window(x, [d_head, n_head, positions, blocks.batch], [element * d_head, row, row * positions])
    }

    fn head_norms(&mut self, qk: [TensorId; 2], norms: [TensorId; 2], kind: Norm) -> [TensorId; 2] {
        let [mut q, mut k] = qk;
        if norms[0].is_some() {
            q = self.norm(q, norms[0], TensorId::NONE, kind);
        }
        if norms[1].is_some() {
            k = self.norm(k, norms[1], TensorId::NONE, kind);
        }
        [q, k]
    }

    fn rotated(&mut self, x: TensorId, rotary: Rotary) -> TensorId {
        match rotary {
            Rotary::None => x,
            Rotary::Once(positions) => self.g.rope(x, positions, TensorId::NONE),
            Rotary::Halves(first, second) if !self.rules.rotates_in_place => {
                let ([width, heads, rows, _], [_, nb1, nb2, _]) = (self.shape(x), self.g[x].nb);
                let [first, second] = [first, second].map(|positions| {
                    let half = self.g.window(x, [width / 2, heads, rows, 1], [nb1, nb2]);
                    self.g.rope(half, positions, TensorId::NONE)
                });
                self.g.concat(first, second, 0)
            }
            Rotary::Halves(first, second) => {
                let x = self.g.rope(x, first, TensorId::NONE);
                self.g.rope(x, second, TensorId::NONE)
            }
        }
    }

    /// Attention without the matrix after it; the mask is optional.
    pub(super) fn attention(&mut self, [q, k, v]: [TensorId; 3], mask: TensorId) -> TensorId {
        for x in [q, k, v] {
            self.g.expand(x);
        }
        let q = self.g.permute(q, [0, 2, 1, 3]);
        let k = self.g.permute(k, [0, 2, 1, 3]);
        if self.flash_attn {
            let v = self.g.permute(v, [0, 2, 1, 3]);
            let [k, v] = [k, v].map(|x| self.g.cast(x, Type::F16));
            let mask = if mask.is_some() { self.g.cast(mask, Type::F16) } else { mask };
            let x = self.g.flash_attention(q, k, v, mask, TensorId::NONE);
            let [a, b, c, d] = self.shape(x);
            return self.reshape(x, [a * b, c * d, 1, 1]);
        }
        let v = self.g.permuted(v, [1, 2, 0, 3]);
        let scores = self.product(k, q);
        let scores = self.g.soft_max(scores, mask, TensorId::NONE);
        let x = self.product(v, scores);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let [a, b, c, d] = self.shape(x);
        self.cont_as(x, [a * b, c * d, 1, 1])
    }

    /// The matrix and bias after attention, each optional.
    pub(super) fn projected_attention(&mut self, x: TensorId, [weight, bias]: [TensorId; 2]) -> TensorId {
        let x = if weight.is_some() { self.mm(weight, x) } else { x };
        self.g.plus(x, bias)
    }

    pub(super) fn feed_forward(&mut self, il: usize, x: TensorId, activation: Activation) -> TensorId {
        const NAMES: [&str; 6] =
            ["ffn_up.weight", "ffn_up.bias", "ffn_gate.weight", "ffn_gate.bias", "ffn_down.weight", "ffn_down.bias"];
        let tensors = NAMES.map(|name| self.layer(il, name));
        self.feed_forward_by(x, tensors, activation)
    }

    /// A feed-forward network of up, gate and down with their biases, all optional but down's weight.
    pub(super) fn feed_forward_by(
        &mut self,
        x: TensorId,
        [up, up_bias, gate, gate_bias, down, down_bias]: [TensorId; 6],
        activation: Activation,
    ) -> TensorId {
        let wide = if up.is_some() { self.mm(up, x) } else { x };
        let wide = self.g.plus(wide, up_bias);
        let x = if gate.is_some() {
            let gated = self.mm(gate, x);
            let gated = self.g.plus(gated, gate_bias);
            self.g.glu_split(gated, wide)
        } else {
            self.activate(wide, activation)
        };
        let x = if down.is_some() { self.mm(down, x) } else { x };
        self.g.plus(x, down_bias)
    }
}
