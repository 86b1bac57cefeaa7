//! Qwen 2 and 3, their text parts in vision models, and those with experts.

use super::attention::Extras;
use super::{Build, Norm};
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::{Part, Slot};

impl Build<'_> {
    /// Qwen 2, 2.5 and their vision models.
    pub(super) fn qwen2(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.dense_or_experts(il, y, residual);
        }
        let logits = self.finish(x, Norm::Rms);
        let logits = self.output_bias(logits);
        self.close(logits);
    }

    /// Qwen 3: queries and keys are normalised head by head. Vision levels are added after the first blocks.
    pub(super) fn qwen3(&mut self) {
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        for il in 0..self.hp.n_layer() {
            let residual = x;
            let y = self.rms(x, Slot::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.norm_heads(il, qkv, Norm::Rms);
            let qkv = self.rotate(qkv, positions, Id::NONE);
            let y = self.attention(il, qkv, Extras::default());
            let [y, residual] = self.keep_outputs(il, out_ids, [y, residual]);
            x = self.dense_or_experts(il, y, residual);
            if (il as u64) < self.hp.n_deepstack_layers {
                x = self.add_vision_level(x);
            }
        }
        let logits = self.finish(x, Norm::Rms);
        self.close(logits);
    }

    /// Adds one of the further levels that came in with the embeddings.
    pub(super) fn add_vision_level(&mut self, x: Id) -> Id {
        let given = self.inp_embd;
        let stride = self.g[given].nb[1];
        let level = self.g.window(given, [self.hp.n_embd, self.n_tokens, 1, 1], [stride]);
        self.g.add(x, level)
    }

    /// The bias of the logits, as far as there is one.
    pub(super) fn output_bias(&mut self, logits: Id) -> Id {
        if self.weights.find_global(Slot::Output, Part::Bias).is_none() {
            return logits;
        }
        let bias = self.global_bias(Slot::Output);
        self.g.add(logits, bias)
    }
}
