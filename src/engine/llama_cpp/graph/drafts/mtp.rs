//! An MTP block (NextN): the hidden state of a token and the embedding of the next one through one block of the
//! model, which drafts the token after (`graph_mtp` in `models/*.cpp`, 0.1.161).

use super::super::GraphBuilder;
use super::super::attention::AttentionExtras;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

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
