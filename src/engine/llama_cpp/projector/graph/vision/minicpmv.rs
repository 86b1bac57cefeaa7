//! `MiniCPM`-V: a resampler, or from 4.6 mergers (`models/minicpmv.cpp`, 0.1.161).

use super::super::{Affine, Blocks, ClipGraph, Norm, POSITIONS, built};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::projector::hparams::Activation;

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
            for il in built(self.built, 0..insert) {
                x = self.block(il, x, TensorId::NONE, &blocks);
            }
            x = self.window_attention(x, patches);
            x = self.merged_with_mean(x, tokens);
            blocks = Blocks { positions: tokens, ..blocks };
            for il in built(self.built, insert..n_layer) {
                x = self.block(il, x, TensorId::NONE, &blocks);
            }
            tokens = (height / 2) * (width / 2);
        } else {
            for il in built(self.built, 0..n_layer) {
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
