//! Graphs of drafts: MTP blocks, and models that draft for another.

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::feed_forward::Activation;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

// An MTP block (NextN): the hidden state of a token and the embedding of the next one through one block of the
// model, which drafts the token after (`graph_mtp` in `models/*.cpp`, 0.1.161).

/// What an MTP block begins with.
struct MtpStart {
    il: usize,
    x: TensorId,
    normed: TensorId,
    positions: TensorId,
    out_ids: TensorId,
}

impl GraphBuilder<'_> {
    /// The first MTP block of a model whose blocks have a shape.
    pub fn mtp_block(&mut self) {
        let MtpStart { il, x, normed, positions, out_ids } = self.mtp_start(true);
        let kind = self.transformer_kind();
        let x = self.transformer_block(&kind, il, x, normed, positions);
        self.mtp_output(il, x, out_ids);
    }

    /// That of Qwen 3.5.
    pub fn qwen35_mtp(&mut self) {
        let MtpStart { il, x, normed, positions, out_ids } = self.mtp_start(true);
        let y = self.gated_attention(il, normed, positions);
        let x = self.mtp_gated_half(il, y, x);
        self.mtp_output(il, x, out_ids);
    }

    /// That of Qwen 3 Next, which drops rows without logits early.
    pub fn qwen3_next_mtp(&mut self) {
        let MtpStart { il, x, normed, positions, out_ids } = self.mtp_start(true);
        let y = self.gated_attention(il, normed, positions);
        let [y, x] = [y, x].map(|x| self.g.get_rows(x, out_ids));
        let x = self.mtp_gated_half(il, y, x);
        self.mtp_output(il, x, TensorId::NONE);
    }

    /// The inputs of an MTP block; `rotates` if it has positions.
    fn mtp_start(&mut self, rotates: bool) -> MtpStart {
        let il = self.hp.n_layer();
        let x = self.mtp_input(il);
        let positions = if rotates { self.positions() } else { TensorId::NONE };
        let out_ids = self.out_ids();
        self.attention_inputs();
        let normed = self.rms(x, LlmTensor::AttnNorm, il);
        MtpStart { il, x, normed, positions, out_ids }
    }

    /// The embedding of each token beside the hidden state before it, both normalised, projected to the model's width.
    fn mtp_input(&mut self, il: usize) -> TensorId {
        let n = self.batch.n_tokens;
        let own = self.weight(il, LlmTensor::NextnEmbedTokens);
        let table = if own.is_some() { own } else { self.need_global(LlmTensor::TokenEmbd) };
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let embedded = self.g.get_rows(table, tokens);
        self.label(embedded, "mtp_tok_embd", Some(il));
        let hidden = self.g.input(Type::F32, [self.hp.n_embd, n, 1, 1], "mtp_h_input");
        let embedded = self.rms(embedded, LlmTensor::NextnEnorm, il);
        let hidden = self.rms(hidden, LlmTensor::NextnHnorm, il);
        let both = self.g.concat(embedded, hidden, 0);
        let x = self.linear(il, LlmTensor::NextnEhProj, both);
        self.label(x, "mtp_eh_proj", Some(il))
    }

    /// The residual, and the feed-forward half of a block with gated attention.
    fn mtp_gated_half(&mut self, il: usize, y: TensorId, x: TensorId) -> TensorId {
        let half = self.g.add(y, x);
        let y = self.rms(half, LlmTensor::AttnPostNorm, il);
        let y = self.gated_experts(il, y);
        self.g.add(y, half)
    }

    /// Nemotron H: attention without positions, then experts.
    pub fn nemotron_h_mtp(&mut self) {
        let MtpStart { il, x, normed, out_ids, .. } = self.mtp_start(false);
        let qkv = self.qkv(il, normed);
        let y = self.attention(il, qkv, AttentionExtras::default());
        let mut half = self.g.add(y, x);
        let crops = self.cx.drafting.embeddings_nextn != NextnRows::All;
        if crops {
            half = self.g.get_rows(half, out_ids);
        }
        let y = self.rms(half, LlmTensor::AttnPostNorm, il);
        let y = self.nemotron_feed_forward(il, y);
        let x = self.g.add(y, half);
        self.mtp_output(il, x, if crops { TensorId::NONE } else { out_ids });
    }

    /// The hidden states that the next draft starts from, and the logits of the rows `out_ids`, or of all.
    fn mtp_output(&mut self, il: usize, x: TensorId, out_ids: TensorId) {
        let names = [LlmTensor::NextnSharedHeadNorm, LlmTensor::LayerOutNorm];
        let own = names.into_iter().find(|slot| self.has(il, *slot));
        let weight = own.map_or(TensorId::NONE, |slot| self.weight(il, slot));
        let weight = if weight.is_some() { weight } else { self.need_global(LlmTensor::OutputNorm) };
        let hidden = |build: &mut Self, x: TensorId| {
            build.g.set_output(x);
            build.label(x, "h_nextn", None)
        };
        let x = if self.architecture.has(Trait::NormsKeptRows) {
            let x = self.g.get_rows(x, out_ids);
            let x = hidden(self, x);
            self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None)
        } else {
            let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
            let x = hidden(self, x);
            if out_ids.is_some() { self.g.get_rows(x, out_ids) } else { x }
        };
        let own = self.weight(il, LlmTensor::NextnSharedHeadHead);
        let logits = if own.is_some() {
            let scale = self.scale_of(il, LlmTensor::NextnSharedHeadHead);
            let logits = self.g.mul_mat(own, x);
            self.g.times(logits, scale)
        } else {
            self.logits(x)
        };
        self.label(logits, "result_output", None);
        self.close(logits);
    }
}

// EAGLE 3: one block over the embeddings of the other model's tokens and a mixture of its hidden states
// (`models/eagle3.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// The decoder; the encoder that mixes the hidden states is not what memory is reserved for.
    pub fn eagle3(&mut self) {
        let il = 0;
        let n = self.batch.n_tokens;
        let table = self.draft_embeddings();
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let given = self.g.input(Type::F32, [self.hp.n_embd, n, 1, 1], "inp_g_embeddings");
        let embedded = self.g.get_rows(table, tokens);
        self.label(embedded, "inp_embd", None);
        let positions = self.positions();
        self.attention_inputs();
        let embedded = self.rms(embedded, LlmTensor::AttnNorm, il);
        let mixed = self.unpinned_rms(given, LlmTensor::AttnNorm2, il);
        let residual = if self.hp.draft.norm_before_residual { mixed } else { given };
        let both = self.g.concat(embedded, mixed, 0);
        let qkv = self.qkv(il, both);
        let factors = self.rope_factors(il);
        let qkv = self.rotate(qkv, positions, factors);
        let y = self.attention(il, qkv, AttentionExtras::default());
        let half = self.sum(y, residual, "ffn_inp", il);
        let y = self.rms(half, LlmTensor::FfnNorm, il);
        let y = self.feed_forward(il, y, Activation::Gated);
        let x = self.g.add(y, half);
        self.g.set_output(x);
        self.label(x, "l_out", Some(il));
        let weight = self.need_global(LlmTensor::OutputNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        let output = self.draft_output();
        let logits = self.g.mul_mat(output, x);
        let logits = self.over_partner_vocabulary(logits, None);
        self.label(logits, "result_output", None);
        self.close(logits);
    }

    /// Logits of a draft's smaller vocabulary as logits of the other model's, of `n_vocab` tokens if that is known.
    pub(super) fn over_partner_vocabulary(&mut self, logits: TensorId, n_vocab: Option<u64>) -> TensorId {
        let ids = self.global_weight(LlmTensor::D2t);
        if !ids.is_some() {
            return logits;
        }
        let Tensor { ne: [n_draft, rows, ..], .. } = self.g[logits];
        let n_vocab = n_vocab.unwrap_or(self.hp.n_vocab);
        let all = self.g.add_tensor(Tensor::new(Type::F32, [1, n_vocab, rows, 1]));
        let all = self.g.fill(all);
        let logits = self.g.reshape(logits, [1, n_draft, rows, 1]);
        let ids = self.g.reshape(ids, [n_draft, 1, 1, 1]);
        let all = self.g.set_rows(all, logits, ids);
        self.g.reshape(all, [n_vocab, rows, 1, 1])
    }
}

// `DFlash`: blocks that draft several tokens at once from the other model's hidden states, which are in their
// caches; and `DSpark`, which lets each drafted token depend on the one before (`models/dflash.cpp`, 0.1.161).

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
        for il in 0..self.hp.n_layer() {
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

// Gemma 4's assistant: a few small blocks that read the caches of the model they draft for
// (`models/gemma4-assistant.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// Embedding and hidden state of the other model, through all blocks, to logits and the next hidden state.
    pub fn gemma4_assistant(&mut self) {
        let (n, blocks) = (self.batch.n_tokens, self.hp.n_layer_all);
        let table = self.partner_embeddings();
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let hidden = self.g.input(Type::F32, [self.hp.draft.n_embd_out, n, 1, 1], "inp_h");
        let x = self.g.get_rows(table, tokens);
        let x = self.g.scale(x);
        let both = self.g.concat(x, hidden, 0);
        let mut x = self.multiply_global(LlmTensor::NextnProjPre, both);
        self.attention_inputs();
        let positions = self.positions();
        let out_ids = self.out_ids();
        for il in 0..blocks {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let q = self.linear(il, LlmTensor::AttnQ, y);
            let q = self.g.reshape(q, [self.hp.head_k(il), self.hp.n_head[il], n, 1]);
            let q = self.rms(q, LlmTensor::AttnQNorm, il);
            let factors = if self.hp.is_swa[il] { TensorId::NONE } else { self.rope_factors(il) };
            let q = self.g.rope(q, positions, factors);
            let qkv = Qkv { q, k: TensorId::NONE, v: TensorId::NONE };
            let mut y = self.attention(il, qkv, AttentionExtras::default());
            if il + 1 == blocks {
                [y, x] = [y, x].map(|x| self.g.get_rows(x, out_ids));
            }
            let y = self.rms(y, LlmTensor::AttnPostNorm, il);
            let half = self.g.add(y, x);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.feed_forward(il, y, Activation::Gated);
            let y = self.unpinned_rms(y, LlmTensor::FfnPostNorm, il);
            let y = self.g.add(y, half);
            let scale = self.need(il, LlmTensor::LayerOutScale);
            x = self.g.mul(y, scale);
            self.label(x, "l_out", Some(il));
        }
        let weight = self.need_global(LlmTensor::OutputNorm);
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        let logits = self.logits(x);
        let next = self.multiply_global(LlmTensor::NextnProjPost, x);
        self.label(next, "h_nextn", None);
        self.g.set_output(next);
        self.close(logits);
        self.g.expand(next);
    }
}
