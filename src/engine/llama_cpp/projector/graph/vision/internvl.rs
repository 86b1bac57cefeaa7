//! `InternVL` (`models/internvl.cpp`, 0.1.161).

use super::super::{ClipGraph, Norm, POSITIONS};
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::projector::hparams::Activation;

impl ClipGraph<'_> {
    pub fn internvl(&mut self) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (n_embd, factor, batch) = (hparams.n_embd, hparams.n_merge, self.n_batch);
        // the large encoder of the larger models
        let norm = if (n_embd, hparams.n_layer) == (3200, 45) { Norm::Rms } else { Norm::Layer };
        let (width, height, patches) = (self.patches_x(), self.patches_y(), self.patches());
        let x = self.patches_with_bias();
        let class = self.need("v.class_embd");
        let [row, ..] = self.shape(class);
        let class = if self.rules.batches { self.g.repeat(class, [row, 1, batch, 1]) } else { class };
        let x = self.g.concat(x, class, 1);
        let learned = self.need(POSITIONS);
        let blocks = self.plain_blocks(patches + 1, norm);
        let x = self.vit(x, learned, &blocks);
        let [_, nb1, nb2, _] = self.g[x].nb;
        let x = self.g.window(x, [n_embd, patches, batch, 1], [nb1, nb2]);
        let x = if self.rules.batches { self.g.cont(x) } else { x };

        let x = self.reshape(x, [n_embd * factor, height / factor, width, batch]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let x = self.cont_as(x, [n_embd * factor * factor, height / factor, width / factor, batch]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let [a, b, c, d] = self.shape(x);
        let x = self.cont_as(x, [a, b * c, d, 1]);
        let x = self.norm_by(x, ["mm.model.mlp.0.weight", "mm.model.mlp.0.bias"], Norm::Layer);
        let [up, down] =
            [["mm.model.mlp.1.weight", "mm.model.mlp.1.bias"], ["mm.model.mlp.3.weight", "mm.model.mlp.3.bias"]];
        self.mlp(x, up, down, Activation::Gelu)
    }
}
