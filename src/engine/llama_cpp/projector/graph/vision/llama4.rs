//! Llama 4 (`models/llama4.cpp`, 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, POSITIONS, Rotary};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};

impl ClipGraph<'_> {
    pub fn llama4(&mut self) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (n_embd, side, factor) = (hparams.n_embd, hparams.patch_size, hparams.n_merge);
        let (width, height, patches) = (self.patches_x(), self.patches_y(), self.patches());
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.indices(patches + 1, label));
        let raw = self.raw(3);
        let matrix = self.need("v.patch_embd.weight");
        let kernel = self.reshape(matrix, [side, side, 3, n_embd]);
        let steps = self.patch_steps();
        let x = self.g.im2col_2d(kernel, raw, steps, Type::F32);
        let x = self.mm(matrix, x);
        let x = self.reshape(x, [n_embd, patches, 1, 1]);
        let class = self.need("v.class_embd");
        let x = self.g.concat(x, class, 1);
        let learned = self.need(POSITIONS);
        let rotary = Rotary::Halves(pos_w, pos_h);
        let blocks = Blocks { rotary, ..self.plain_blocks(patches + 1, Norm::Layer) };
        let x = self.vit(x, learned, &blocks);
        let row = self.g[x].nb[1];
        let x = self.g.window(x, [n_embd, patches, 1, 1], [row]);

        let x = self.reshape(x, [n_embd * factor, width / factor, height, 1]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let x = self.cont_as(x, [n_embd * factor * factor, width / factor, height / factor, 1]);
        let mut x = self.cont_as(x, [n_embd * factor * factor, patches / factor / factor, 1, 1]);
        for name in ["mm.model.mlp.1.weight", "mm.model.mlp.2.weight"] {
            x = self.multiply(name, x);
            x = self.g.unary(x, UnaryOp::Gelu);
        }
        self.multiply("mm.model.fc.weight", x)
    }
}
