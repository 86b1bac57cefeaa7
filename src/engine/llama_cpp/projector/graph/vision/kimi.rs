//! Kimi-VL, and Kimi K2.5: the same with positions in a table of two axes (`models/kimivl.cpp`, `models/kimik25.cpp`,
//! 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, POSITIONS, Rotary};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::projector::hparams::Activation;

impl ClipGraph<'_> {
    pub fn kimivl(&mut self) -> TensorId {
        let patches = self.patches();
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.indices(patches, label));
        let learned = self.resized_positions();
        let x = self.patches_with_bias();
        let blocks = Blocks { rotary: Rotary::Halves(pos_w, pos_h), ..self.plain_blocks(patches, Norm::Layer) };
        let x = self.vit(x, learned, &blocks);
        self.merged_by_two_matrices(x)
    }

    /// Squares of patches, each normalised, through two matrices.
    fn merged_by_two_matrices(&mut self, x: TensorId) -> TensorId {
        let (n_embd, factor) = (self.n_embd(), self.encoder.hparams.n_merge);
        let x = self.merged_patches(x, factor);
        let [row, tokens, ..] = self.shape(x);
        let [element, ..] = self.g[x].nb;
        let x = self.g.window(x, [n_embd, tokens * factor * factor, 1, 1], [element * n_embd]);
        let [weight, bias] = self.need_both(["mm.input_norm.weight", "mm.input_norm.bias"]);
        let x = self.norm(x, weight, bias, Norm::Layer);
        let x = self.g.window(x, [row, tokens, 1, 1], [element * row]);
        self.mlp(x, ["mm.1.weight", "mm.1.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu)
    }

    pub fn kimik25(&mut self) -> TensorId {
        let patches = self.patches();
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.indices(patches, label));
        let learned = self.resized_grid_of_positions();
        let x = self.patches_with_bias();
        let x = self.g.add(x, learned);
        let blocks = Blocks { rotary: Rotary::Halves(pos_w, pos_h), ..self.plain_blocks(patches, Norm::Layer) };
        let x = self.vit(x, TensorId::NONE, &blocks);
        self.merged_by_two_matrices(x)
    }

    /// Learned positions of a table with two axes, interpolated to the image's patches.
    fn resized_grid_of_positions(&mut self) -> TensorId {
        let table = self.need(POSITIONS);
        let (width, height, n_embd) = (self.patches_x(), self.patches_y(), self.n_embd());
        let [.., columns, rows, _] = self.shape(table);
        let flat = [n_embd, width * height, 1, 1];
        if (width, height) == (columns, rows) {
            return self.cont_as(table, flat);
        }
        let x = self.g.permute(table, [2, 1, 0, 3]);
        let x = self.g.interpolate(x, [height, width, n_embd, 1]);
        let x = self.g.permute(x, [2, 1, 0, 3]);
        self.cont_as(x, flat)
    }
}
