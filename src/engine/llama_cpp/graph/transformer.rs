//! Architectures whose blocks are attention followed by feed-forward: their differences as data, and one function that
//! builds all their graphs.

mod halves;

use super::GraphBuilder;
use super::recurrent::RecurrentInput;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::engine::llama_cpp::transformer::ResidualTerm::{Attention, FeedForward, Residual};
use crate::engine::llama_cpp::transformer::{
    EmbeddingScale, ExpertRouting, Norm, Norms, PostNorm, PreNorm, QkNorm, ResidualOrder, RopeLayers, Transformer,
};
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix, Weights};

/// Inputs of attention, or of recurrent blocks, besides the block's tensors.
#[derive(Clone, Copy)]
struct Inputs {
    positions: TensorId,
    /// A factor per token for the queries, if the model has one.
    temperature: TensorId,
    states: Option<RecurrentInput>,
}

impl GraphBuilder<'_> {
    /// The traits of the model's architecture, or of the nearest one.
    pub(super) fn transformer_kind(&self) -> Transformer {
        let kind = self.architecture.blocks.unwrap_or_else(|| Transformer::nearest(self.weights, self.hp));
        if self.hp.swin_norm {
            kind.after_halves()
        } else if self.hp.norm_rms {
            Transformer { norm: Norm::Rms, ..kind }
        } else {
            kind
        }
    }

    /// The graph of blocks in turn.
    pub fn blocks_in_turn(&mut self) {
        let kind = self.transformer_kind();
        self.transformer(&kind);
    }

    pub(super) fn transformer(&mut self, kind: &Transformer) {
        let mut x = self.input_embeddings(kind);
        let positions = self.positions();
        x = self.embedding_extras(x, positions);
        let inputs = Inputs {
            positions,
            temperature: if self.hp.attn_temperature { self.attention_scale() } else { TensorId::NONE },
            states: self.memory.recurrent.is_some().then(|| self.recurrent_input()),
        };
        self.attention_inputs();
        let out_ids = self.out_ids();
        for &il in self.blocks {
            self.layer_input(il, x);
            if il > 0 && self.hp.deepstack_mapping[il] >= 0 {
                x = self.add_deepstack_level(x);
            }
            let normed = self.half_input(kind, il, x, kind.attention.before, x);
            let y = self.attention_half(kind, il, x, normed, inputs);
            let logits = if kind.experts.by_block_input { self.router(il, x) } else { TensorId::NONE };
            let [y, residual, normed, logits] = self.keep_outputs(il, out_ids, [y, x, normed, logits]);
            x = self.feed_forward_half(kind, il, y, [residual, normed, logits]);
            self.label(x, "l_out", Some(il));
            if !self.hp.maps_deepstack() && (il as u64) < self.hp.n_deepstack_layers {
                x = self.add_deepstack_level(x);
            }
            x = self.end_of_pass(il, x);
        }
        self.output_head(kind, x, out_ids);
    }

    /// `x` after block `il`, normalised if that ends a pass of blocks that run again.
    fn end_of_pass(&mut self, il: usize, x: TensorId) -> TensorId {
        let next = il + 1;
        let ends = next < self.hp.n_layer() && self.hp.normed_pass.is_some_and(|pass| next.is_multiple_of(pass));
        if !ends {
            return x;
        }
        let weight = self.need_global(LlmTensor::OutputNorm);
        self.norm_with(x, weight, TensorId::NONE, Norm::Rms, Some(il))
    }

    /// One block of such an architecture by itself, from its normalised input.
    pub(super) fn transformer_block(
        &mut self,
        kind: &Transformer,
        il: usize,
        x: TensorId,
        normed: TensorId,
        positions: TensorId,
    ) -> TensorId {
        let inputs = Inputs { positions, temperature: TensorId::NONE, states: None };
        let y = self.attention_half(kind, il, x, normed, inputs);
        self.feed_forward_half(kind, il, y, [x, normed, TensorId::NONE])
    }

    /// Token embeddings.
    fn input_embeddings(&mut self, kind: &Transformer) -> TensorId {
        let x = self.embeddings(kind.embeddings == EmbeddingScale::ScaledTokens);
        match kind.embeddings {
            EmbeddingScale::Scaled => self.g.scale(x),
            EmbeddingScale::Normalised => self.g.rms_norm(x),
            EmbeddingScale::Plain | EmbeddingScale::ScaledTokens => x,
        }
    }

    /// Adds learned positions and token types, then normalises, each if the file has the tensors.
    fn embedding_extras(&mut self, mut x: TensorId, positions: TensorId) -> TensorId {
        let types = self.global_weight(LlmTensor::TokenTypes);
        if types.is_some() {
            let first = self.g.window(types, [self.hp.n_embd, 1, 1, 1], []);
            x = self.g.add(x, first);
        }
        let table = self.global_weight(LlmTensor::PositionEmbd);
        if table.is_some() {
            let learned = self.g.get_rows(table, positions);
            x = if types.is_some() { self.g.add(learned, x) } else { self.g.add(x, learned) };
        }
        let weight = self.global_weight(LlmTensor::TokenEmbdNorm);
        if weight.is_some() {
            let bias = self.global_bias(LlmTensor::TokenEmbdNorm);
            x = self.norm_with(x, weight, bias, Norm::Layer, Some(0));
        }
        x
    }

    /// The final norm and the logits; encoders have no logits, and some no final norm.
    fn output_head(&mut self, kind: &Transformer, mut x: TensorId, out_ids: TensorId) {
        let keeps = self.keeps_last_rows();
        let norms_kept = self.architecture.has(Trait::NormsKeptRows);
        if keeps && norms_kept {
            // a draft reads the hidden states before the norm
            self.g.set_output(x);
            x = self.g.get_rows(x, out_ids);
        }
        let encoder = self.global_weight(LlmTensor::EncOutputNorm);
        let without = self.weights.find_global(LlmTensor::OutputNorm, TensorSuffix::Weight).is_none();
        let x = if kind.attention.before == PreNorm::Bare {
            let x = self.norm_with(x, TensorId::NONE, TensorId::NONE, kind.norm, None);
            self.g[x].output = true;
            self.label(x, "result_norm", None)
        } else if self.hp.reads_only && encoder.is_some() {
            let x = self.norm_with(x, encoder, TensorId::NONE, kind.norm, None);
            self.g[x].output = true;
            x
        } else if without && (self.hp.reads_only || kind.lenient) {
            x
        } else {
            self.final_norm(x, kind.norm)
        };
        let embeds = self.hp.reads_only || self.architecture.has(Trait::IgnoresCache);
        if embeds && !self.architecture.has(Trait::Diffusion) {
            return self.close(x);
        }
        let x = if keeps && !norms_kept { self.g.get_rows(x, out_ids) } else { x };
        let x = if self.hp.scales_final { self.g.scale(x) } else { x };
        let logits = self.logits(x);
        let mut logits = self.output_bias(logits);
        if self.hp.logit_scale {
            logits = self.g.scale(logits);
        }
        let mut logits = self.soft_capped(logits);
        if self.architecture.has(Trait::MasksImageLogits) {
            logits = self.without_images(logits);
        }
        self.close(logits);
    }

    /// `logits` with those of image tokens pushed down (`models/chameleon.cpp`, 0.1.161).
    fn without_images(&mut self, logits: TensorId) -> TensorId {
        let images = self.g.add_tensor(Tensor::new(Type::F32, [CHAMELEON_IMAGE_TOKENS, 1, 1, 1]));
        let images = self.g.clamp(images);
        self.g.set(logits, images)
    }
}

/// Image tokens of Chameleon's vocabulary (`models/chameleon.cpp`, 0.1.161).
const CHAMELEON_IMAGE_TOKENS: u64 = 8192;

impl Transformer {
    /// The same with the norms of both inputs on both outputs.
    const fn after_halves(self) -> Self {
        Self {
            attention: Norms { after: PostNorm::Norm(LlmTensor::AttnNorm), ..Norms::NOTHING },
            feed_forward: Norms {
                before: PreNorm::AttentionOutput,
                after: PostNorm::Norm(LlmTensor::FfnNorm),
                ..Norms::NOTHING
            },
            ..self
        }
    }

    /// The closest traits for an unlisted architecture, by the tensors of its blocks.
    fn nearest(weights: &Weights, hp: &Hparams) -> Self {
        let any = |slot, part| (0..hp.n_layer()).find_map(|il| weights.find(il, slot, part));
        let holds = |slot| any(slot, TensorSuffix::Weight).is_some();
        let biased = |slot| any(slot, TensorSuffix::Bias).is_some();
        let sums = holds(LlmTensor::AttnOutNorm) && holds(LlmTensor::LayerOutNorm);
        let own = holds(LlmTensor::FfnNorm);
        let parallel = !own && !sums && !holds(LlmTensor::AttnPostNorm);
        let across = any(LlmTensor::AttnQNorm, TensorSuffix::Weight)
            .is_some_and(|at| weights.all[at].ne[0] > hp.n_embd_head_k[0]);
        let attention = Norms {
            before: if holds(LlmTensor::AttnNorm) { PreNorm::Norm(LlmTensor::AttnNorm) } else { PreNorm::Nothing },
            after: if own { PostNorm::Norm(LlmTensor::AttnPostNorm) } else { PostNorm::Nothing },
            sum: sums.then_some(LlmTensor::AttnOutNorm),
        };
        let feed_forward = Norms {
            before: match (own, parallel) {
                _ if sums => PreNorm::Nothing,
                (true, _) => PreNorm::Norm(LlmTensor::FfnNorm),
                (false, true) => PreNorm::NormOrAttentions(LlmTensor::FfnNorm),
                (false, false) => PreNorm::Norm(LlmTensor::AttnPostNorm),
            },
            after: PostNorm::FreeNorm(LlmTensor::FfnPostNorm),
            sum: sums.then_some(LlmTensor::LayerOutNorm),
        };
        Self {
            norm: if biased(LlmTensor::AttnNorm) || biased(LlmTensor::AttnOutNorm) { Norm::Layer } else { Norm::Rms },
            rotation: match weights.find_global(LlmTensor::PositionEmbd, TensorSuffix::Weight) {
                Some(_) => RopeLayers::Never,
                None => RopeLayers::Every,
            },
            heads: if across { QkNorm::Across } else { QkNorm::Each },
            attention,
            feed_forward,
            sum: if parallel {
                ResidualOrder::SideBySide([Attention, FeedForward, Residual])
            } else {
                ResidualOrder::InTurn
            },
            experts: ExpertRouting::FROM_HEADER,
            lenient: true,
            ..Self::LLAMA
        }
    }
}
