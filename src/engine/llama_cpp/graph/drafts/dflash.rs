//! `DFlash`: blocks that draft several tokens at once from the other model's hidden states, which are in their
//! caches; and `DSpark`, which lets each drafted token depend on the one before (`models/dflash.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::attention::{AttentionExtras, Qkv};
use super::super::feed_forward::Activation;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

impl GraphBuilder<'_> {
    /// The decoder of a batch of tokens; the encoder is not what memory is reserved for.
    pub fn dflash(&mut self) {
        let positions = self.positions();
        self.attention_inputs();
        let table = self.draft_embeddings();
        let tokens = self.g.input(Type::I32, [self.batch.n_tokens, 1, 1, 1], "inp_tokens");
        let mut x = self.g.get_rows(table, tokens);
        if self.hp.embedding_scale {
            x = self.g.scale(x);
        }
        self.label(x, "inp_noise_embd", None);
        for &il in self.blocks {
            x = self.dflash_block(il, x, positions);
        }
        let x = self.final_norm(x, Norm::Rms);
        let output = self.draft_output();
        let mut logits = self.g.mul_mat(output, x);
        let scale = self.draft_output_scale();
        logits = self.g.times(logits, scale);
        let logits = self.over_partner_vocabulary(logits, None);
        self.label(logits, "result_output", None);
        self.g.expand(logits);
        let logits = if self.global_weight(LlmTensor::DsparkMarkovW1).is_some() {
            self.markov_head(tokens, logits, x)
        } else {
            logits
        };
        self.close(logits);
    }

    fn dflash_block(&mut self, il: usize, x: TensorId, positions: TensorId) -> TensorId {
        let y = self.rms(x, LlmTensor::AttnNorm, il);
        let (n, head) = (self.batch.n_tokens, self.hp.head_k(il));
        let (heads, heads_kv) = (self.hp.n_head[il], self.hp.n_head_kv[il]);
        let q = self.linear(il, LlmTensor::AttnQ, y);
        let k = self.linear(il, LlmTensor::AttnK, y);
        let shares = !self.has(il, LlmTensor::AttnV);
        let v = if shares { k } else { self.linear(il, LlmTensor::AttnV, y) };
        let q = self.g.reshape(q, [head, heads, n, 1]);
        let k = self.g.reshape(k, [head, heads_kv, n, 1]);
        let v = self.g.reshape(v, [head, heads_kv, n, 1]);
        let q = self.rms(q, LlmTensor::AttnQNorm, il);
        let k = self.rms(k, LlmTensor::AttnKNorm, il);
        let v = if shares { self.g.rms_norm(v) } else { v };
        let factors = if self.hp.mrope { TensorId::NONE } else { self.rope_factors(0) };
        let qkv = self.rotate(Qkv { q, k, v }, positions, factors);
        let sinks = self.weight(il, LlmTensor::AttnSinks);
        let mut y = self.attention(il, qkv, AttentionExtras { sinks, ..AttentionExtras::default() });
        if self.hp.draft.attn_value_scale {
            y = self.g.scale(y);
        }
        if self.has(il, LlmTensor::AttnPostNorm) {
            y = self.rms(y, LlmTensor::AttnPostNorm, il);
        }
        let half = self.sum(y, x, "ffn_inp", il);
        let y = self.rms(half, LlmTensor::FfnNorm, il);
        let mut y = self.feed_forward(il, y, Activation::Gated);
        if self.has(il, LlmTensor::FfnPostNorm) {
            y = self.rms(y, LlmTensor::FfnPostNorm, il);
        }
        let mut x = self.g.add(y, half);
        let scale = self.weight(il, LlmTensor::LayerOutScale);
        x = self.g.times(x, scale);
        self.label(x, "l_out", Some(il))
    }

    /// Adds to the logits of every drafted token what the token before it makes likely, one position after the other.
    /// A batch with more tokens per sequence than a draft has keeps its logits.
    fn markov_head(&mut self, tokens: TensorId, logits: TensorId, hidden: TensorId) -> TensorId {
        let [n_vocab, n, ..] = self.g[logits].ne;
        let blocks = self.cx.n_seq_max;
        let drafts = n / blocks;
        if drafts == 0 || drafts > self.hp.draft.block_size {
            return logits;
        }
        let has_confidence = self.weights.find_global(LlmTensor::DsparkConfProj, TensorSuffix::Weight).is_some();
        let stride = self.g[logits].nb[1] * drafts;
        let first = self.g.window(tokens, [1, blocks, 1, 1], [self.g[tokens].nb[0] * drafts]);
        let mut before = self.g.cont_as(first, [blocks, 1, 1, 1]);
        let (mut all, mut confidences) = (TensorId::NONE, TensorId::NONE);
        let mut from = 0;
        if !self.hp.draft.sample_from_anchor {
            let anchor = self.g.window(logits, [n_vocab, blocks, 1, 1], [stride]);
            all = self.g.cont(anchor);
            if has_confidence {
                let anchor = self.g.window(logits, [1, blocks, 1, 1], [stride]);
                let anchor = self.g.cont(anchor);
                confidences = self.g.unary(anchor, UnaryOp::Sigmoid);
            }
            from = 1;
        }
        for at in from..drafts {
            let table = self.need_global(LlmTensor::DsparkMarkovW1);
            let state = self.g.get_rows(table, before);
            let mut bias = self.multiply_global(LlmTensor::DsparkMarkovW2, state);
            let scale = self.global_scale(LlmTensor::DsparkMarkovW2);
            bias = self.g.times(bias, scale);
            let bias = self.over_partner_vocabulary(bias, Some(n_vocab));
            let own = self.g.window(logits, [n_vocab, blocks, 1, 1], [stride]);
            let column = self.g.add(own, bias);
            all = self.beside(all, column);
            if has_confidence {
                let confidence = self.confidence(hidden, state, drafts);
                confidences = self.beside(confidences, confidence);
            }
            if at + 1 < drafts {
                before = self.g.argmax(column);
            }
        }
        let in_order = self.by_sequence(all, drafts);
        if has_confidence {
            let confidences = self.by_sequence(confidences, drafts);
            let rows = self.g.repeat(confidences, self.g[hidden].ne);
            self.g.set_output(rows);
            self.g.expand(rows);
        }
        in_order
    }

    /// How likely a drafted token is accepted.
    fn confidence(&mut self, hidden: TensorId, state: TensorId, drafts: u64) -> TensorId {
        let Tensor { ne: [wide, ..], nb, .. } = self.g[hidden];
        let own = self.g.window(hidden, [wide, self.cx.n_seq_max, 1, 1], [nb[1] * drafts]);
        let own = self.g.cont(own);
        let both = self.g.concat(own, state, 0);
        let mut y = self.multiply_global(LlmTensor::DsparkConfProj, both);
        let bias = self.global_bias(LlmTensor::DsparkConfProj);
        y = self.g.plus(y, bias);
        self.g.unary(y, UnaryOp::Sigmoid)
    }

    fn beside(&mut self, all: TensorId, column: TensorId) -> TensorId {
        if all.is_some() { self.g.concat(all, column, 1) } else { column }
    }

    /// Columns ordered by position, in the order of their sequences.
    fn by_sequence(&mut self, all: TensorId, drafts: u64) -> TensorId {
        let (wide, blocks) = (self.g[all].ne[0], self.cx.n_seq_max);
        let apart = self.g.reshape(all, [wide, blocks, drafts, 1]);
        let turned = self.g.permuted(apart, [0, 2, 1, 3]);
        self.g.reshape(turned, [wide, drafts * blocks, 1, 1])
    }
}
