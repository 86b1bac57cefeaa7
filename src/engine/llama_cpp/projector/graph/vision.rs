//! Encoders of images (`models/*.cpp` in `tools/mtmd`, 0.1.161).

use super::super::hparams::Activation;
use super::{ATTENTION_OUT, Affine, Blocks, ClipGraph, Norm, POSITIONS, Rotary};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Steps;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};

// `SigLIP` encoders: Gemma 3, `SmolVLM` and Idefics 3, LFM2-VL, Janus Pro, Phi 4 (`models/siglip.cpp`, 0.1.161).

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

// Qwen2-VL, Qwen2.5-VL, Qwen3-VL (`models/qwen2vl.cpp`, `models/qwen3vl.cpp`, 0.1.161).

const UP: Affine = ["mm.0.weight", "mm.0.bias"];
const DOWN: Affine = ["mm.2.weight", "mm.2.bias"];

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
        for il in 0..n_layer {
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
        for il in 0..n_layer {
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

// GLM-4.xV, GLM-OCR, GLM-5V (`models/glm4v.cpp`, 0.1.161).

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

// Gemma 4: vision, and the two of the unified model that have no blocks (`models/gemma4v.cpp`, `gemma4uv.cpp`,
// `gemma4ua.cpp`, 0.1.161).

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

// `InternVL` (`models/internvl.cpp`, 0.1.161).

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

// Kimi-VL (`models/kimivl.cpp`, 0.1.161).

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
}

// Kimi K2.5: the same with positions in a table of two axes (`models/kimik25.cpp`, 0.1.161).

impl ClipGraph<'_> {
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

// CogVLM: norms follow both halves of a block (`models/cogvlm.cpp`, 0.1.161).

impl ClipGraph<'_> {
    pub fn cogvlm(&mut self) -> TensorId {
        let (n_embd, patches) = (self.n_embd(), self.patches());
        let x = self.patches_with_bias();
        let class = self.need("v.class_embd");
        let x = self.g.concat(x, class, 1);
        let learned = self.need(POSITIONS);
        if self.shape(x) != self.shape(learned) {
            let ne = self.shape(x);
            return self.misfit(learned, ne);
        }
        let mut x = self.g.add(x, learned);
        let blocks = self.plain_blocks(patches + 1, Norm::Layer);
        for il in 0..self.encoder.hparams.n_layer {
            let y = self.linear_in(il, x, ["attn_qkv.weight", "attn_qkv.bias"]);
            let qkv = [(); 3].map(|()| self.head_window(y, &blocks));
            let y = self.attention(qkv, TensorId::NONE);
            let out = ATTENTION_OUT.map(|name| self.layer(il, name));
            let y = self.projected_attention(y, out);
            let y = self.norm_in(il, y, ["ln1.weight", "ln1.bias"], Norm::Layer);
            let half = self.g.add(y, x);
            let y = self.feed_forward(il, half, blocks.activation);
            let y = self.norm_in(il, y, ["ln2.weight", "ln2.bias"], Norm::Layer);
            x = self.g.add(y, half);
        }
        let row = self.g[x].nb[1];
        let x = self.g.window(x, [n_embd, patches, 1, 1], [row]);
        let x = self.multiply("mm.model.fc.weight", x);
        let [weight, bias] = self.need_both(["mm.post_fc_norm.weight", "mm.post_fc_norm.bias"]);
        let x = self.norm(x, weight, bias, Norm::Layer);
        let x = self.g.unary(x, UnaryOp::Gelu);
        let up = self.multiply("mm.up.weight", x);
        let gate = self.multiply("mm.gate.weight", x);
        let x = self.g.glu_split(gate, up);
        let x = self.multiply("mm.down.weight", x);
        let [begin, end] = ["v.boi", "v.eoi"].map(|name| self.need(name));
        let x = self.g.concat(begin, x, 1);
        self.g.concat(x, end, 1)
    }
}

// Llama 4 (`models/llama4.cpp`, 0.1.161).

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

// `LLaVA` and Granite Vision, which project the output of earlier blocks (`models/llava.cpp`, 0.1.161).

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
        for il in 0..last {
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

// `MiniCPM`-V: a resampler, or from 4.6 mergers (`models/minicpmv.cpp`, 0.1.161).

/// Elements per head of the resampler.
const RESAMPLER_HEAD: u64 = 128;

impl ClipGraph<'_> {
    fn selected_positions(&mut self) -> TensorId {
        let positions = self.indices(self.patches(), "positions");
        let table = self.need(POSITIONS);
        self.g.get_rows(table, positions)
    }

    pub fn minicpmv(&mut self) -> TensorId {
        let patches = self.patches();
        let projection = self.need("resampler.proj.weight");
        let [width, ..] = self.shape(projection);
        let learned = self.selected_positions();
        let x = self.patches_with_bias();
        let blocks = self.plain_blocks(patches, Norm::Layer);
        let x = self.vit(x, learned, &blocks);

        let query = self.need("resampler.query");
        let values = self.multiply("resampler.kv.weight", x);
        let query = self.norm_by(query, ["resampler.ln_q.weight", "resampler.ln_q.bias"], Norm::Layer);
        let values = self.norm_by(values, ["resampler.ln_kv.weight", "resampler.ln_kv.bias"], Norm::Layer);
        let waves = self.waves(width, patches);
        let keys = self.g.add(values, waves);
        let q = self.linear(query, ["resampler.attn.q.weight", "resampler.attn.q.bias"]);
        let k = self.linear(keys, ["resampler.attn.k.weight", "resampler.attn.k.bias"]);
        let v = self.linear(values, ["resampler.attn.v.weight", "resampler.attn.v.bias"]);
        let (heads, queries) = (width / RESAMPLER_HEAD, self.encoder.hparams.query_num);
        let q = self.reshape(q, [RESAMPLER_HEAD, heads, queries, 1]);
        let [k, v] = [k, v].map(|x| self.reshape(x, [RESAMPLER_HEAD, heads, patches, 1]));
        let x = self.attention([q, k, v], TensorId::NONE);
        let x = self.linear(x, ["resampler.attn.out.weight", "resampler.attn.out.bias"]);
        let x = self.norm_by(x, ["resampler.ln_post.weight", "resampler.ln_post.bias"], Norm::Layer);
        self.mm(projection, x)
    }

    /// Sine and cosine of both axes, for every patch.
    fn waves(&mut self, width: u64, patches: u64) -> TensorId {
        let omega = self.input(Type::F32, [width / 4, 1, 1, 1], "omega");
        let [pos_h, pos_w] = ["pos_h", "pos_w"].map(|label| self.input(Type::F32, [1, patches, 1, 1], label));
        let omega = self.g.repeat(omega, [width / 4, patches, 1, 1]);
        let [x, y] = [pos_w, pos_h].map(|positions| {
            let angles = self.g.mul(omega, positions);
            let (sin, cos) = (self.g.sin(angles), self.g.cos(angles));
            self.g.concat(sin, cos, 0)
        });
        self.g.concat(x, y, 0)
    }

    pub fn minicpmv4_6(&mut self) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (n_layer, merges_twice) = (hparams.n_layer, hparams.n_merge == 4);
        let insert = (hparams.insert_layer_id + 1).min(n_layer);
        let patches = self.patches();
        let (height, width) = (self.patches_y() / 2, self.patches_x() / 2);
        let learned = self.selected_positions();
        let x = self.patches_with_bias();
        let x = self.g.add(x, learned);
        let mut x = self.pre_norm(x, Norm::Layer);
        let mut blocks = self.plain_blocks(patches, Norm::Layer);
        let mut tokens = height * width;
        if merges_twice {
            for il in 0..insert {
                x = self.block(il, x, TensorId::NONE, &blocks);
            }
            x = self.window_attention(x, patches);
            x = self.merged_with_mean(x, tokens);
            blocks = Blocks { positions: tokens, ..blocks };
            for il in insert..n_layer {
                x = self.block(il, x, TensorId::NONE, &blocks);
            }
            tokens = (height / 2) * (width / 2);
        } else {
            for il in 0..n_layer {
                x = self.block(il, x, TensorId::NONE, &blocks);
            }
        }
        let x = self.post_norm(x, Norm::Layer);
        let parts = self.quarters(x, tokens);
        let x = self.concatenated(parts);
        let x = self.norm_by(x, ["mm.input_norm.weight", "mm.input_norm.bias"], Norm::Layer);
        self.mlp(x, ["mm.up.weight", "mm.up.bias"], ["mm.down.weight", "mm.down.bias"], Activation::GeluErf)
    }

    /// Attention within windows of four patches, as one attention with a mask.
    fn window_attention(&mut self, x: TensorId, patches: u64) -> TensorId {
        const NAMES: [Affine; 3] = [
            ["v.vit_merger.attn_q.weight", "v.vit_merger.attn_q.bias"],
            ["v.vit_merger.attn_k.weight", "v.vit_merger.attn_k.bias"],
            ["v.vit_merger.attn_v.weight", "v.vit_merger.attn_v.bias"],
        ];
        let (d_head, n_head) = (self.encoder.hparams.d_head, self.encoder.hparams.n_head);
        let order = self.indices(patches, "vit_merger_window_idx");
        let back = self.indices(patches, "vit_merger_inv_window_idx");
        let mut mask = self.input(Type::F32, [patches, patches, 1, 1], "vit_merger_window_mask");
        if self.flash_attn {
            mask = self.g.cast(mask, Type::F16);
        }
        let inner = self.norm_by(x, ["v.vit_merger.ln1.weight", "v.vit_merger.ln1.bias"], Norm::Layer);
        let inner = self.g.get_rows(inner, order);
        let qkv = NAMES.map(|names| self.linear(inner, names));
        let qkv = qkv.map(|x| self.reshape(x, [d_head, n_head, patches, 1]));
        let inner = self.attention(qkv, mask);
        let inner = self.linear(inner, ["v.vit_merger.attn_out.weight", "v.vit_merger.attn_out.bias"]);
        let inner = self.g.get_rows(inner, back);
        self.g.add(inner, x)
    }

    /// The four patches of every square, each as rows of its own.
    fn quarters(&mut self, x: TensorId, tokens: u64) -> [TensorId; 4] {
        [(); 4].map(|()| {
            let rows = self.indices(tokens, "merger_ds_idx");
            self.g.get_rows(x, rows)
        })
    }

    fn concatenated(&mut self, [first, second, third, fourth]: [TensorId; 4]) -> TensorId {
        let x = self.g.concat(first, second, 0);
        let x = self.g.concat(x, third, 0);
        self.g.concat(x, fourth, 0)
    }

    /// Squares of four patches become one, added to their mean.
    fn merged_with_mean(&mut self, x: TensorId, tokens: u64) -> TensorId {
        let parts = self.quarters(x, tokens);
        let sum = self.g.add(parts[0], parts[1]);
        let sum = self.g.add(sum, parts[2]);
        let sum = self.g.add(sum, parts[3]);
        let mean = self.g.scale(sum);
        let x = self.concatenated(parts);
        let x = self.norm_by(x, ["v.vit_merger.ds_ln.weight", "v.vit_merger.ds_ln.bias"], Norm::Layer);
        let up = ["v.vit_merger.ds_ffn_up.weight", "v.vit_merger.ds_ffn_up.bias"];
        let down = ["v.vit_merger.ds_ffn_down.weight", "v.vit_merger.ds_ffn_down.bias"];
        let x = self.mlp(x, up, down, Activation::Gelu);
        self.g.add(x, mean)
    }
}

// Pixtral, Mistral Small 3.x, Ministral 3, `LightOnOCR` (`models/pixtral.cpp`, 0.1.161).

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

// A type whose graph is not built: patches and blocks as most types have them, without a projector of its own.

impl ClipGraph<'_> {
    pub fn nearest(&mut self) -> TensorId {
        let x = self.patches_with_bias();
        let learned = self.tensor(POSITIONS);
        let patches = self.patches();
        let learned = if learned.is_some() && self.shape(learned)[1] == patches { learned } else { TensorId::NONE };
        let blocks = self.plain_blocks(patches, Norm::Layer);
        self.vit(x, learned, &blocks)
    }
}
