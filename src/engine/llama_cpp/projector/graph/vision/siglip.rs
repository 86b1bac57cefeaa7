//! `SigLIP` encoders: Gemma 3, `SmolVLM` and Idefics 3, LFM2-VL, Janus Pro, Phi 4 (`models/siglip.cpp`, 0.1.161).

use super::super::{ClipGraph, Norm, POSITIONS};
use super::{DOWN, UP};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::projector::hparams::Activation;

impl ClipGraph<'_> {
    /// An encoder with learned positions, interpolated or as they are, and what projects its output.
    pub fn siglip(&mut self, resizes: bool, project: fn(&mut Self, TensorId) -> TensorId) -> TensorId {
        let x = self.patches_with_bias();
        let learned = if resizes { self.resized_positions() } else { self.tensor(POSITIONS) };
        let blocks = self.plain_blocks(self.patches(), Norm::Layer);
        let x = self.vit(x, learned, &blocks);
        project(self, x)
    }

    pub fn idefics3(&mut self, x: TensorId) -> TensorId {
        let x = self.merged_patches(x, self.encoder.hparams.n_merge);
        self.multiply("mm.model.fc.weight", x)
    }

    pub fn lfm2(&mut self, x: TensorId) -> TensorId {
        let mut x = self.merged_patches(x, self.encoder.hparams.n_merge);
        let [weight, bias] = ["mm.input_norm.weight", "mm.input_norm.bias"].map(|name| self.tensor(name));
        if weight.is_some() {
            x = self.norm(x, weight, TensorId::NONE, Norm::Layer);
        }
        let x = self.g.plus(x, bias);
        self.mlp(x, ["mm.1.weight", "mm.1.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu)
    }

    pub fn janus_pro(&mut self, x: TensorId) -> TensorId {
        let activation = self.encoder.hparams.activation;
        self.mlp(x, ["mm.0.weight", "mm.0.bias"], ["mm.1.weight", "mm.1.bias"], activation)
    }

    pub fn two_matrices(&mut self, x: TensorId) -> TensorId {
        self.mlp(x, UP, DOWN, Activation::Gelu)
    }

    pub fn gemma3(&mut self, x: TensorId) -> TensorId {
        let (side, n_embd, merge) = (self.patches_x(), self.n_embd(), self.encoder.hparams.n_merge);
        let x = self.g.transpose(x);
        let x = self.cont_as(x, [side, side, n_embd, 1]);
        let x = self.g.pool_2d(x, merge);
        let [pooled, ..] = self.shape(x);
        let x = self.reshape(x, [pooled * pooled, n_embd, 1, 1]);
        let x = self.g.transposed(x);
        let weight = self.need("mm.soft_emb_norm.weight");
        let x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        let matrix = self.need("mm.input_projection.weight");
        let matrix = self.g.transposed(matrix);
        self.product(matrix, x)
    }
}
