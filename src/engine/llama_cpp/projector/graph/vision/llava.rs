//! `LLaVA` and Granite Vision, which project the output of earlier blocks (`models/llava.cpp`, 0.1.161).

use super::super::{ClipGraph, Norm, POSITIONS, built};
use crate::engine::ggml::tensor::{TensorId, UnaryOp};

impl ClipGraph<'_> {
    pub fn llava(&mut self) -> TensorId {
        let hparams = &self.encoder.hparams;
        let features = &hparams.feature_layers;
        let deepest = features.iter().copied().filter_map(|layer| usize::try_from(layer).ok()).max();
        let last = deepest.unwrap_or(hparams.n_layer.saturating_sub(1));
        let is_feature = |il: usize| features.iter().any(|layer| usize::try_from(*layer) == Ok(il));

        let patches = self.patches();
        let x = self.patches_with_bias();
        let class = self.tensor("v.class_embd");
        let tokens = patches + u64::from(class.is_some());
        let x = if class.is_some() { self.g.concat(x, class, 1) } else { x };
        let positions = self.indices(tokens, "positions");
        let table = self.need(POSITIONS);
        let learned = self.g.get_rows(table, positions);
        let x = self.g.add(x, learned);
        let mut x = self.pre_norm(x, Norm::Layer);
        let blocks = self.plain_blocks(tokens, Norm::Layer);
        let mut stack = Vec::new();
        for il in built(self.built, 0..last) {
            if is_feature(il) {
                stack.push(x);
            }
            x = self.block(il, x, TensorId::NONE, &blocks);
        }
        let x = self.post_norm(x, Norm::Layer);
        if is_feature(last) {
            stack.push(x);
        }
        let x = stack.into_iter().reduce(|all, one| self.g.concat(all, one, 0)).unwrap_or(x);
        let [row, rows, ..] = self.shape(x);
        let x = self.reshape(x, [row, rows, 1, 1]);
        let kept = self.indices(patches, "patches");
        let x = self.g.get_rows(x, kept);
        self.llava_projector(x)
    }

    fn llava_projector(&mut self, x: TensorId) -> TensorId {
        let x = self.linear(x, ["mm.0.weight", "mm.0.bias"]);
        if self.tensor("mm.3.weight").is_some() {
            // two matrices, each with a normalisation
            let x = self.norm_by(x, ["mm.1.weight", "mm.1.bias"], Norm::Layer);
            let x = self.g.unary(x, UnaryOp::Gelu);
            let x = self.linear(x, ["mm.3.weight", "mm.3.bias"]);
            return self.norm_by(x, ["mm.4.weight", "mm.4.bias"], Norm::Layer);
        }
        let x = self.g.unary(x, UnaryOp::Gelu);
        if self.tensor("mm.2.weight").is_some() { self.linear(x, ["mm.2.weight", "mm.2.bias"]) } else { x }
    }
}
