//! `CogVLM`: norms follow both halves of a block (`models/cogvlm.cpp`, 0.1.161).

use super::super::{ATTENTION_OUT, ClipGraph, Norm, POSITIONS, built};
use crate::engine::ggml::tensor::{TensorId, UnaryOp};

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
        for il in built(self.built, 0..self.encoder.hparams.n_layer) {
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
