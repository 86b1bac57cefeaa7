//! Gemma 4: vision, and the two of the unified model that have no blocks (`models/gemma4v.cpp`, `gemma4uv.cpp`,
//! `gemma4ua.cpp`, 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, Rotary};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};

impl ClipGraph<'_> {
    pub fn gemma4v(&mut self) -> TensorId {
        let (patches, n_embd, batch) = (self.patches(), self.n_embd(), self.n_batch);
        let raw = self.raw(3);
        let raw = self.g.scale(raw);
        let x = self.patches_of(raw);
        let [pos_x, pos_y] = ["pos_x", "pos_y"].map(|label| self.indices(patches, label));
        let x = self.add_positions_by_axis(x, [pos_x, pos_y]);
        let activation = self.encoder.hparams.activation;
        let rotary = Rotary::Halves(pos_x, pos_y);
        let x = self.vit(x, TensorId::NONE, &Blocks { positions: patches, batch, norm: Norm::Rms, activation, rotary });

        let (width, height, side) = (self.patches_x(), self.patches_y(), self.encoder.hparams.n_merge);
        let x = self.g.transpose(x);
        let x = self.cont_as(x, [width, height, n_embd, batch]);
        let x = self.g.pool_2d(x, side);
        let x = self.reshape(x, [(width / side) * (height / side), n_embd, batch, 1]);
        let x = self.g.transposed(x);
        let mut x = self.g.scale(x);
        let [bias, scale] = ["v.std_bias", "v.std_scale"].map(|name| self.tensor(name));
        if bias.is_some() && scale.is_some() {
            x = self.g.sub(x, bias);
            x = self.g.mul(x, scale);
        }
        self.embedded(x, "mm.input_projection.weight")
    }

    /// Normalisation and the matrix into the model.
    fn embedded(&mut self, x: TensorId, matrix: &str) -> TensorId {
        let x = self.g.rms_norm(x);
        self.multiply(matrix, x)
    }

    pub fn gemma4uv(&mut self) -> TensorId {
        let (side, patches) = (self.encoder.hparams.patch_size, self.patches());
        let raw = self.raw(3);
        let kernel = self.g.add_tensor(Tensor::new(Type::F32, [side, side, 3, 1]));
        let steps = self.patch_steps();
        let x = self.g.im2col_2d(kernel, raw, steps, Type::F32);
        let [row, width, height, batch] = self.shape(x);
        let x = self.reshape(x, [row, width * height * batch, 1, 1]);
        let x = self.norm_by(x, ["v.patch_norm.1.weight", "v.patch_norm.1.bias"], Norm::Layer);
        let kernel = self.need("v.patch_embd.weight");
        let x = self.product(kernel, x);
        let bias = self.need("v.patch_embd.bias");
        let x = self.g.add(x, bias);
        let x = self.norm_by(x, ["v.patch_norm.2.weight", "v.patch_norm.2.bias"], Norm::Layer);
        let axes = ["pos_x", "pos_y"].map(|label| self.indices(patches, label));
        let x = self.add_positions_by_axis(x, axes);
        let x = self.norm_by(x, ["v.patch_norm.3.weight", "v.patch_norm.3.bias"], Norm::Layer);
        self.embedded(x, "mm.input_projection.weight")
    }

    pub fn gemma4ua(&mut self) -> TensorId {
        let raw = self.raw(1);
        let x = self.g.permuted(raw, [1, 0, 2, 3]);
        self.embedded(x, "mm.a.input_projection.weight")
    }
}
