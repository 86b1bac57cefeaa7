//! `SigLIP` encoders: Gemma 3, `SmolVLM` and Idefics 3, LFM2-VL, Janus Pro, Phi 4 (`models/siglip.cpp`, 0.1.161).

use super::super::hparams::Activation;
use super::super::kind::ProjectorType as P;
use super::input::POSITIONS;
use super::vit::{Blocks, Rotary};
use super::{ClipGraph, Norm};
use crate::engine::ggml::tensor::TensorId;

impl ClipGraph<'_> {
    /// Blocks with nothing but learned positions.
    pub(super) fn plain_blocks(&self, positions: u64, norm: Norm) -> Blocks {
        let activation = self.encoder.hparams.activation;
        Blocks { positions, batch: self.n_batch, norm, activation, rotary: Rotary::None }
    }

    pub(super) fn siglip(&mut self) -> TensorId {
        let kind = self.encoder.kind;
        let x = self.patches_with_bias();
        let learned = match kind {
            P::Lfm2 | P::Phi4 => self.resized_positions(),
            _ => self.tensor(POSITIONS),
        };
        let blocks = self.plain_blocks(self.patches(), Norm::Layer);
        let x = self.vit(x, learned, &blocks);
        let factor = self.encoder.hparams.n_merge;
        match kind {
            P::Gemma3 => self.gemma3(x),
            P::Idefics3 => {
                let x = self.merged_patches(x, factor);
                let matrix = self.need("mm.model.fc.weight");
                self.mm(matrix, x)
            }
            P::Lfm2 => {
                let mut x = self.merged_patches(x, factor);
                let [weight, bias] = ["mm.input_norm.weight", "mm.input_norm.bias"].map(|name| self.tensor(name));
                if weight.is_some() {
                    x = self.norm(x, weight, TensorId::NONE, Norm::Layer);
                }
                let x = self.plus(x, bias);
                self.mlp(x, ["mm.1.weight", "mm.1.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu)
            }
            P::JanusPro => {
                let activation = self.encoder.hparams.activation;
                self.mlp(x, ["mm.0.weight", "mm.0.bias"], ["mm.1.weight", "mm.1.bias"], activation)
            }
            _ => self.mlp(x, ["mm.0.weight", "mm.0.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu),
        }
    }

    fn gemma3(&mut self, x: TensorId) -> TensorId {
        let (side, n_embd, merge) = (self.patches_x(), self.n_embd(), self.encoder.hparams.n_merge);
        let x = self.g.transpose(x);
        let x = self.cont_as(x, [side, side, n_embd, 1]);
        let x = self.g.pool_2d(x, merge);
        let [pooled, ..] = self.shape(x);
        let x = self.reshape(x, [pooled * pooled, n_embd, 1, 1]);
        let x = self.transposed(x);
        let weight = self.need("mm.soft_emb_norm.weight");
        let x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        let matrix = self.need("mm.input_projection.weight");
        let matrix = self.transposed(matrix);
        self.product(matrix, x)
    }
}
