//! GLM-4.xV, GLM-OCR, GLM-5V (`models/glm4v.cpp`, 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, POSITIONS, Rotary};
use crate::engine::ggml::graph::Steps;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};

impl ClipGraph<'_> {
    pub fn glm4v(&mut self) -> TensorId {
        let (patches, n_embd, merge) = (self.patches(), self.n_embd(), self.encoder.hparams.n_merge);
        let positions = self.indices(patches * 4, "positions");
        let x = self.patches_of_two_frames();
        let bias = self.need("v.patch_embd.bias");
        let mut x = self.g.add(x, bias);
        if self.tensor("v.norm_embd.weight").is_some() {
            x = self.norm_by(x, ["v.norm_embd.weight", "v.norm_embd.bias"], Norm::Rms);
        }
        let mut learned = TensorId::NONE;
        if self.tensor(POSITIONS).is_some() {
            learned = self.resized_positions();
            learned = self.in_squares(learned);
        }
        let blocks = Blocks { rotary: Rotary::Once(positions), ..self.plain_blocks(patches, Norm::Rms) };
        let x = self.vit(x, learned, &blocks);

        let tokens = patches / merge / merge;
        let x = self.reshape(x, [n_embd, merge, merge, tokens]);
        let x = self.g.permuted(x, [2, 0, 1, 3]);
        let kernel = self.need("mm.patch_merger.weight");
        let x = self.convolved(kernel, x, Steps { stride: merge, padding: 0 });
        let width = self.shape(x)[2];
        let x = self.reshape(x, [width, tokens, 1, 1]);
        let bias = self.need("mm.patch_merger.bias");
        let x = self.g.add(x, bias);

        let x = self.multiply("mm.model.fc.weight", x);
        let x = self.norm_by(x, ["mm.post_norm.weight", "mm.post_norm.bias"], Norm::Layer);
        let x = self.g.unary(x, UnaryOp::GeluErf);
        let names = ["mm.up.weight", "mm.up.bias", "mm.gate.weight", "mm.gate.bias", "mm.down.weight", "mm.down.bias"];
        let tensors = names.map(|name| self.tensor(name));
        self.feed_forward_by(x, tensors, self.encoder.hparams.activation)
    }
}
