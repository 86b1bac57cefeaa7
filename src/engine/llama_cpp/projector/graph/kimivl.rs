//! Kimi-VL (`models/kimivl.cpp`, 0.1.161).

use super::super::hparams::Activation;
use super::vit::{Blocks, Rotary};
use super::{ClipGraph, Norm};
use crate::engine::ggml::tensor::TensorId;

impl ClipGraph<'_> {
    pub(super) fn kimivl(&mut self) -> TensorId {
        let (patches, n_embd, factor) = (self.patches(), self.n_embd(), self.encoder.hparams.n_merge);
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.indices(patches, label));
        let learned = self.resized_positions();
        let x = self.patches_with_bias();
        let blocks = Blocks { rotary: Rotary::Halves(pos_w, pos_h), ..self.plain_blocks(patches, Norm::Layer) };
        let x = self.vit(x, learned, &blocks);
        let x = self.merged_patches(x, factor);
        let [row, tokens, ..] = self.shape(x);
        let [element, ..] = self.g[x].nb;
        let x = self.g.window(x, [n_embd, tokens * factor * factor, 1, 1], [element * n_embd]);
        let [weight, bias] = self.need_both(["mm.input_norm.weight", "mm.input_norm.bias"]);
        let x = self.norm(x, weight, bias, Norm::Layer);
        let x = self.g.window(x, [row, tokens, 1, 1], [element * row]);
        self.mlp(x, ["mm.1.weight", "mm.1.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu)
    }
}
