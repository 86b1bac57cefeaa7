//! Pixtral, Mistral Small 3.x, Ministral 3, `LightOnOCR` (`models/pixtral.cpp`, 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, Rotary};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Steps;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::projector::hparams::Activation;

impl ClipGraph<'_> {
    pub fn pixtral(&mut self) -> TensorId {
        let (patches, n_embd, merge) = (self.patches(), self.n_embd(), self.encoder.hparams.n_merge);
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.indices(patches, label));
        let x = self.patches_with_bias();
        let blocks = Blocks { rotary: Rotary::Halves(pos_h, pos_w), ..self.plain_blocks(patches, Norm::Rms) };
        let mut x = self.vit(x, TensorId::NONE, &blocks);
        let merger = self.tensor("mm.patch_merger.weight");
        if merger.is_some() {
            let weight = self.need("mm.input_norm.weight");
            x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
            x = self.reshape(x, [n_embd, self.patches_x(), self.patches_y(), 1]);
            x = self.g.permuted(x, [2, 0, 1, 3]);
            // a kernel without elements of its own: all its rows and channels are the first
            let kernel = self.g.view(x, [merge, merge, n_embd, 1], [4, 0, 0, 0]);
            x = self.g.im2col_2d(kernel, x, Steps { stride: merge, padding: 0 }, Type::F32);
            let [row, width, height, _] = self.shape(x);
            x = self.reshape(x, [row, width * height, 1, 1]);
            x = self.mm(merger, x);
        }
        let x = self.mlp(x, ["mm.1.weight", "mm.1.bias"], ["mm.2.weight", "mm.2.bias"], Activation::Gelu);
        self.with_row_breaks(x)
    }

    /// An embedding between the rows of the image, if the file has one.
    fn with_row_breaks(&mut self, x: TensorId) -> TensorId {
        let token = self.tensor("v.token_embd.img_break");
        if !token.is_some() {
            return x;
        }
        let merge = self.encoder.hparams.n_merge;
        let (width, height) = (self.patches_x() / merge, self.patches_y() / merge);
        let [n_embd, ..] = self.shape(x);
        let x = self.reshape(x, [n_embd, width, height, 1]);
        let breaks = self.g.add_tensor(Tensor::new(Type::F32, [n_embd, 1, height, 1]));
        let breaks = self.g.scale(breaks);
        let breaks = self.g.add(breaks, token);
        let x = self.g.concat(x, breaks, 1);
        let row = self.g[x].nb[1];
        self.g.window(x, [n_embd, width * height + height.saturating_sub(1), 1, 1], [row])
    }
}
