//! Qwen2-VL, Qwen2.5-VL, Qwen3-VL (`models/qwen2vl.cpp`, `models/qwen3vl.cpp`, 0.1.161).

use super::super::{Blocks, ClipGraph, Norm, Rotary, built};
use super::{DOWN, UP};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::projector::hparams::Activation;

impl ClipGraph<'_> {
    fn multi_rotary_blocks(&mut self, norm: Norm) -> Blocks {
        let patches = self.patches();
        let positions = self.indices(patches * 4, "positions");
        let activation = self.encoder.hparams.activation;
        Blocks { positions: patches, batch: 1, norm, activation, rotary: Rotary::Once(positions) }
    }

    pub fn qwen2vl(&mut self, norm: Norm) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (pattern, n_layer, projected) = (hparams.n_wa_pattern, hparams.n_layer, hparams.projection_dim);
        let (patches, n_embd) = (self.patches(), self.n_embd());
        let x = self.patches_of_two_frames();
        let blocks = self.multi_rotary_blocks(norm);
        let mut x = self.pre_norm(x, norm);
        let mut mask = TensorId::NONE;
        if pattern > 0 {
            let indices = self.indices(patches / 4, "inv_window_idx");
            mask = self.input(Type::F32, [patches, patches, 1, 1], "window_mask");
            if self.flash_attn {
                mask = self.g.cast(mask, Type::F16);
            }
            x = self.reshape(x, [n_embd * 4, patches / 4, 1, 1]);
            x = self.g.get_rows(x, indices);
            x = self.reshape(x, [n_embd, patches, 1, 1]);
        }
        for il in built(self.built, 0..n_layer) {
            let windowed = pattern > 0 && (il + 1) % pattern != 0;
            x = self.block(il, x, if windowed { mask } else { TensorId::NONE }, &blocks);
        }
        let x = self.post_norm(x, norm);
        let x = self.reshape(x, [n_embd * 4, patches / 4, 1, 1]);
        let x = self.mlp(x, UP, DOWN, Activation::Gelu);
        if pattern == 0 {
            return x;
        }
        let indices = self.indices(patches / 4, "window_idx");
        let x = self.reshape(x, [projected, patches / 4, 1, 1]);
        let x = self.g.get_rows(x, indices);
        self.reshape(x, [projected, patches / 4, 1, 1])
    }

    pub fn qwen3vl(&mut self) -> TensorId {
        let (patches, n_embd) = (self.patches(), self.n_embd());
        let n_layer = self.encoder.hparams.n_layer;
        let merged = self.encoder.hparams.n_merge * self.encoder.hparams.n_merge;
        let x = self.patches_of_two_frames();
        let bias = self.need("v.patch_embd.bias");
        let x = self.g.add(x, bias);
        let learned = self.resized_positions();
        let learned = self.in_squares(learned);
        let x = self.g.add(x, learned);
        let blocks = self.multi_rotary_blocks(Norm::Layer);
        let mut x = self.pre_norm(x, Norm::Layer);
        let mut deepstack = TensorId::NONE;
        for il in built(self.built, 0..n_layer) {
            x = self.block(il, x, TensorId::NONE, &blocks);
            if self.layer(il, "deepstack.fc1.weight").is_some() {
                let feature = self.reshape(x, [n_embd * merged, patches / merged, 1, 1]);
                let feature = self.deepstack_feature(il, feature);
                deepstack = if deepstack.is_some() { self.g.concat(deepstack, feature, 0) } else { feature };
            }
        }
        let x = self.post_norm(x, Norm::Layer);
        let x = self.reshape(x, [n_embd * 4, patches / 4, 1, 1]);
        let x = self.mlp(x, UP, DOWN, Activation::Gelu);
        if deepstack.is_some() { self.g.concat(x, deepstack, 0) } else { x }
    }

    fn deepstack_feature(&mut self, il: usize, x: TensorId) -> TensorId {
        let x = self.norm_in(il, x, ["deepstack.norm.weight", "deepstack.norm.bias"], Norm::Layer);
        let x = self.linear_in(il, x, ["deepstack.fc1.weight", "deepstack.fc1.bias"]);
        let x = self.activate(x, Activation::Gelu);
        self.linear_in(il, x, ["deepstack.fc2.weight", "deepstack.fc2.bias"])
    }
}
