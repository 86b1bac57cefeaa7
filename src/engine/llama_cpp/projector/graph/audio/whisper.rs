//! Encoders of Whisper's kind: Ultravox, Qwen2-Audio, Voxtral and others (`models/whisper-enc.cpp`, 0.1.161).

use super::super::{Affine, ClipGraph, Norm};
use crate::engine::ggml::tensor::{TensorId, UnaryOp};
use crate::engine::llama_cpp::projector::hparams::Activation;
use crate::engine::llama_cpp::projector::kind::Trait;

const FIRST: Affine = ["mm.a.mlp.1.weight", "mm.a.mlp.1.bias"];
const SECOND: Affine = ["mm.a.mlp.2.weight", "mm.a.mlp.2.bias"];
const BEFORE: Affine = ["mm.a.norm_pre.weight", "mm.a.norm_pre.bias"];

impl ClipGraph<'_> {
    /// The encoder, and what projects its output.
    pub fn whisper(&mut self, project: fn(&mut Self, TensorId) -> TensorId) -> TensorId {
        let positions = self.nx / 2;
        let mut x = self.raw(1);
        let convolutions =
            [(["a.conv1d.1.weight", "a.conv1d.1.bias"], 1), (["a.conv1d.2.weight", "a.conv1d.2.bias"], 2)];
        for (names, stride) in convolutions {
            let [kernel, bias] = self.need_both(names);
            if self.shape(kernel)[1] != self.shape(x)[1] {
                return self.misfit(kernel, [0, 0, 0, 0]);
            }
            x = self.g.conv_1d_half_padded(kernel, x, stride);
            x = self.g.add(x, bias);
            x = self.g.unary(x, UnaryOp::GeluErf);
        }
        let x = self.g.transposed(x);
        let table = self.need("a.position_embd.weight");
        let ([width, ..], [_, row, ..]) = (self.shape(table), self.g[table].nb);
        let learned = self.g.window(table, [width, positions, 1, 1], [row]);
        let blocks = self.plain_blocks(positions, Norm::Layer);
        let mut x = self.vit(x, learned, &blocks);
        if self.encoder.kind.has(Trait::StacksFrames) {
            x = self.stacked(x);
        }
        project(self, x)
    }

    /// Groups of frames as one row each (`build_stack`).
    fn stacked(&mut self, x: TensorId) -> TensorId {
        let factor = self.encoder.hparams.stack_factor;
        if factor <= 1 {
            return x;
        }
        let row = self.n_embd() * factor;
        let elements = self.g[x].elements();
        // rounded up with a mask, as if the row were a power of two (`GGML_PAD`)
        let padded = (elements + row - 1) & !(row - 1);
        let mut x = x;
        if padded > elements {
            x = self.g.window::<0>(x, [elements, 1, 1, 1], []);
            x = self.g.pad(x, [padded - elements, 0, 0, 0]);
        }
        let element = self.g[x].nb[0];
        self.g.window(x, [row, padded / row, 1, 1], [element * row])
    }

    pub fn ultravox(&mut self, x: TensorId) -> TensorId {
        let weight = self.need(BEFORE[0]);
        let x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        let x = self.multiply(FIRST[0], x);
        let x = self.g.glu(x);
        let weight = self.need("mm.a.norm_mid.weight");
        let x = self.norm(x, weight, TensorId::NONE, Norm::Rms);
        self.multiply(SECOND[0], x)
    }

    pub fn meralion(&mut self, x: TensorId) -> TensorId {
        let x = self.norm_by(x, BEFORE, Norm::Layer);
        let x = self.linear(x, ["mm.a.mlp.0.weight", "mm.a.mlp.0.bias"]);
        let x = self.g.unary(x, UnaryOp::Silu);
        let gate = self.linear(x, FIRST);
        let gate = self.g.unary(gate, UnaryOp::Silu);
        let pool = self.linear(x, SECOND);
        let x = self.g.mul(gate, pool);
        self.linear(x, ["mm.a.mlp.3.weight", "mm.a.mlp.3.bias"])
    }

    pub fn glm_audio(&mut self, x: TensorId) -> TensorId {
        let x = self.norm_by(x, BEFORE, Norm::Layer);
        let x = self.stacked(x);
        let x = self.mlp(x, FIRST, SECOND, self.encoder.hparams.activation);
        let [first, last] = self.need_both(["v.boi", "v.eoi"]);
        let x = self.g.concat(first, x, 1);
        self.g.concat(x, last, 1)
    }

    pub fn audio_matrices(&mut self, x: TensorId) -> TensorId {
        self.mlp(x, FIRST, SECOND, Activation::GeluErf)
    }
}
