//! The compute graph of a model: one batch of prompt tokens through all blocks, as llama.cpp builds it to reserve
//! memory (`llama-graph.cpp` and `models/*.cpp`, 0.1.161).
//!
//! Which architecture has which graph is in `architectures`. All use the same parts: the norms and ends of this file,
//! `inputs`, `weights`, `attention`, `feed_forward`, `recurrent`, `transformer`.
#![allow(clippy::cast_possible_wrap, reason = "there are at most 512 blocks")]

mod arctic;
mod attention;
mod bitnet;
pub(super) mod block_traits;
mod deci;
mod deepseek4;
mod delta_net;
mod drafts;
mod feed_forward;
mod gemma3n;
mod gemma4;
mod glm5_next;
mod gpt_oss;
mod granite_switch;
mod hrm_text;
mod hy_v4;
mod hybrid;
mod hyper_connections;
mod inputs;
mod kimi_k3;
mod llama4;
mod minimax_01;
mod minimax_m3;
mod ngrams;
mod plamo2;
mod pooling;
mod pools;
mod qwen4exp;
mod recurrent;
mod rwkv;
mod sampling;
mod t5;
mod talkie;
mod transformer;
mod weights;

use super::architecture::{Architecture, Trait};
use super::cache::Memory;
use super::context::{Batch, Cparams, NextnRows};
use super::draft_target::DraftTarget;
use super::error::LoadError;
use super::hparams::Hparams;
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::release::ReleaseTraits;
use super::transformer::Norm;
use super::weights::{LlmTensor, Weights};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};
use attention::{AttentionInput, IndexerInput};
use recurrent::RecurrentInput;

/// A model on its devices.
#[derive(Clone, Copy, Debug)]
pub struct GraphModel<'a> {
    /// The model.
    pub model: &'a LoadedModel,
    /// The device of every tensor.
    pub placement: &'a Placement,
    /// Its caches.
    pub memory: &'a Memory,
    /// The model that it drafts for, if it uses tensors of that.
    pub target: Option<&'a DraftTarget<'a>>,
    /// The blocks that are built, ascending.
    pub blocks: &'a [usize],
}

/// A graph under construction and its inputs.
pub(super) struct GraphBuilder<'a> {
    g: &'a mut Graph,
    release: &'static ReleaseTraits,
    architecture: &'static Architecture,
    hp: &'a Hparams,
    weights: &'a Weights,
    placement: &'a Placement,
    memory: &'a Memory,
    target: Option<&'a DraftTarget<'a>>,
    cx: &'a Cparams,
    batch: Batch,
    /// The blocks that are built, ascending.
    blocks: &'a [usize],
    /// Weights already in the graph, by weight and device.
    known: Vec<TensorId>,
    /// KV caches already in the graph: per block, K and V.
    caches: Vec<[TensorId; 2]>,
    /// The same of an indexer's keys.
    indexer_keys: Vec<TensorId>,
    /// States already in the graph: per recurrent block, in the order of `RecurrentState`.
    states: Vec<[TensorId; 3]>,
    full: Option<AttentionInput>,
    window: Option<AttentionInput>,
    indexer: Option<IndexerInput>,
    /// The tokens that the latest indexer chose.
    top_k: TensorId,
    /// The mask of the pools that the latest indexer of pools chose.
    pool_mask: TensorId,
    /// The first required tensor missing in the file.
    missing: Option<String>,
    /// Whether the program ends at an assertion, since it would rotate parts of a larger matrix.
    tears: bool,
    /// The logits, once the graph is complete.
    logits: TensorId,
    /// The input tokens.
    inp_tokens: TensorId,
    /// The input embeddings, including deepstack levels.
    inp_embd: TensorId,
}

/// Builds the graph of `loaded` by `own` into `graph`, replacing its contents.
///
/// # Errors
/// When the file lacks a tensor that its architecture requires, or the context is for MTP blocks and it has none.
pub(super) fn build(
    own: fn(&mut GraphBuilder<'_>),
    loaded: &GraphModel<'_>,
    context: &Cparams,
    batch: Batch,
    graph: &mut Graph,
) -> Result<(), LoadError> {
    let mut build = GraphBuilder::new(loaded, context, batch, graph);
    build.check_drafting()?;
    own(&mut build);
    if let Some(pooling) = context.embeddings {
        build.pool(pooling);
    }
    if context.drafting.samplers {
        build.sample();
    }
    if build.tears {
        return Err(LoadError::settings(
            "llama.cpp would end here: these builds cannot quantise the V cache of a model whose queries, keys and values \
             are one matrix; use f16 for it, or a later build",
        ));
    }
    match build.missing {
        Some(name) => Err(LoadError::model(format!(
            "the file has no tensor {name}, which its architecture requires: \
                                                  convert the model again"
        ))),
        None => Ok(()),
    }
}

/// Builds into `graph`, replacing its contents, only the attention of every block that has a cache.
pub fn build_attention(loaded: &GraphModel<'_>, context: &Cparams, batch: Batch, graph: &mut Graph) {
    GraphBuilder::new(loaded, context, batch, graph).attention_alone();
}

impl<'a> GraphBuilder<'a> {
    fn new(loaded: &GraphModel<'a>, context: &'a Cparams, batch: Batch, graph: &'a mut Graph) -> Self {
        let GraphModel { model, placement, memory, target, blocks } = *loaded;
        let hp = &model.hparams;
        let devices = usize::from(placement.cpu) + 1;
        graph.clear();
        graph.reserve((blocks.len() + 1) * 128);
        Self {
            g: graph,
            release: model.release,
            architecture: model.family.architecture,
            hp,
            weights: &model.weights,
            placement,
            memory,
            target,
            cx: context,
            batch,
            blocks,
            known: vec![TensorId::NONE; model.weights.all.len() * devices],
            caches: vec![[TensorId::NONE; 2]; hp.n_layer_all],
            indexer_keys: vec![TensorId::NONE; hp.n_layer_all],
            states: vec![[TensorId::NONE; 3]; hp.n_layer_all],
            full: None,
            window: None,
            indexer: None,
            top_k: TensorId::NONE,
            pool_mask: TensorId::NONE,
            missing: None,
            tears: false,
            logits: TensorId::NONE,
            inp_tokens: TensorId::NONE,
            inp_embd: TensorId::NONE,
        }
    }

    /// Normalises `x` and applies the weights of `slot`.
    fn norm(&mut self, x: TensorId, slot: LlmTensor, kind: Norm, il: usize) -> TensorId {
        let weight = self.need(il, slot);
        let bias = self.bias(il, slot);
        self.norm_with(x, weight, bias, kind, Some(il))
    }

    /// Root-mean-square normalisation with the weights of `slot`.
    fn rms(&mut self, x: TensorId, slot: LlmTensor, il: usize) -> TensorId {
        let weight = self.need(il, slot);
        self.norm_with(x, weight, TensorId::NONE, Norm::Rms, Some(il))
    }

    /// Normalises `x`, then applies weight and bias if present. Within a block, the normalisation is pinned to the
    /// block's device.
    fn norm_with(&mut self, x: TensorId, weight: TensorId, bias: TensorId, kind: Norm, il: Option<usize>) -> TensorId {
        let mut y = match kind {
            Norm::Rms => self.g.rms_norm(x),
            Norm::Layer => self.g.layer_norm(x),
        };
        if weight.is_some() || bias.is_some() {
            self.label(y, "norm", il);
            if let Some(il) = il {
                self.pin(y, il);
            }
        }
        y = self.g.times(y, weight);
        y = self.g.plus(y, bias);
        y
    }

    /// Pins `x` to the device of block `il` where llama.cpp does: with all layers offloaded, or for few tokens.
    fn pin(&mut self, x: TensorId, il: usize) {
        if self.batch.has_few_tokens() || self.placement.full_offload {
            self.g[x].pin = self.placement.layers[il];
        }
    }

    /// Limits all elements to a range.
    fn clamp(&mut self, x: TensorId) -> TensorId {
        if self.release.clamps_in_place { self.g.clamp_in_place(x) } else { self.g.clamp(x) }
    }

    fn label(&mut self, x: TensorId, label: &'static str, il: Option<usize>) -> TensorId {
        self.g.name(x, label, il.map_or(-1, |il| il as i16))
    }

    /// In the last block, keeps only the rows whose logits are needed.
    fn keep_outputs<const N: usize>(&mut self, il: usize, out_ids: TensorId, of: [TensorId; N]) -> [TensorId; N] {
        let last = il + 1 == self.hp.n_layer();
        if !last || self.keeps_last_rows() || self.architecture.has(Trait::GivesAllLogits) {
            return of;
        }
        of.map(|x| if x.is_some() { self.g.get_rows(x, out_ids) } else { x })
    }

    /// Whether the last block keeps the rows of all tokens.
    fn keeps_last_rows(&self) -> bool {
        let drafts = self.cx.drafting.embeddings_nextn == NextnRows::All;
        self.architecture.keeps_last_rows.contain(self.release) && (drafts || !self.release.crops_unless_drafting)
    }

    /// What most graphs begin with: the embeddings, the positions, the masks of attention, and the rows with logits.
    fn begin(&mut self) -> [TensorId; 3] {
        let (x, positions) = (self.embeddings(false), self.positions());
        self.attention_inputs();
        [x, positions, self.out_ids()]
    }

    /// The same with states.
    fn begin_hybrid(&mut self) -> (RecurrentInput, [TensorId; 3]) {
        let (x, states) = (self.embeddings(false), self.recurrent_input());
        self.attention_inputs();
        (states, [x, self.positions(), self.out_ids()])
    }

    /// A sum in block `il` with its name.
    fn sum(&mut self, a: TensorId, b: TensorId, label: &'static str, il: usize) -> TensorId {
        let x = self.g.add(a, b);
        self.label(x, label, Some(il))
    }

    /// What most graphs end with: normalisation and logits.
    fn end(&mut self, x: TensorId, kind: Norm) {
        let logits = self.finish(x, kind);
        self.close(logits);
    }

    /// Normalisation and logits.
    fn finish(&mut self, x: TensorId, kind: Norm) -> TensorId {
        let x = self.final_norm(x, kind);
        self.logits(x)
    }

    fn final_norm(&mut self, x: TensorId, kind: Norm) -> TensorId {
        let weight = self.need_global(LlmTensor::OutputNorm);
        let bias = self.global_bias(LlmTensor::OutputNorm);
        let x = self.norm_with(x, weight, bias, kind, None);
        self.g[x].output = self.release.keeps_results;
        self.label(x, "result_norm", None)
    }

    fn logits(&mut self, x: TensorId) -> TensorId {
        let output = self.output_weight();
        let mut x = self.g.mul_mat(output, x);
        let scale = self.global_scale(LlmTensor::Output);
        x = self.g.times(x, scale);
        self.label(x, "result_output", None)
    }

    /// RMS normalisation that is not pinned to the block's device.
    fn unpinned_rms(&mut self, x: TensorId, slot: LlmTensor, il: usize) -> TensorId {
        let weight = self.need(il, slot);
        self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None)
    }

    /// Adds the output bias if present.
    fn output_bias(&mut self, logits: TensorId) -> TensorId {
        let bias = self.global_bias(LlmTensor::Output);
        self.g.plus(logits, bias)
    }

    /// Applies the final logit soft cap if the model has one.
    fn soft_capped(&mut self, logits: TensorId) -> TensorId {
        if !self.hp.final_soft_cap {
            return logits;
        }
        let x = self.g.scale(logits);
        let x = self.g.unary(x, UnaryOp::Tanh);
        self.g.scale(x)
    }

    /// Adds the logits and everything they depend on to the graph.
    fn close(&mut self, logits: TensorId) {
        if self.release.keeps_results {
            self.g.set_output(logits);
        }
        self.g.expand(logits);
        self.logits = logits;
    }

    /// Marks the input of layer `il` as an output if a draft reads it.
    fn layer_input(&mut self, il: usize, x: TensorId) {
        if self.cx.drafting.layer_inputs.contains(&il) {
            self.g.set_output(x);
        }
    }

    /// Whether drafting can read what it asks for.
    fn check_drafting(&self) -> Result<(), LoadError> {
        let asked = self.cx.drafting.layer_inputs.iter();
        let last = self.hp.n_layer();
        let ends = |il: usize| il < last || (il == last && self.architecture.has(Trait::GivesFinalInput));
        if asked.clone().next().is_some()
            && !(self.architecture.has(Trait::GivesLayerInputs) && asked.clone().all(|il| ends(*il)))
        {
            return Err(LoadError::settings(
                "llama.cpp would end with an error: its graph of this model does not give the hidden states that the \
                 draft reads: use another draft",
            ));
        }
        Ok(())
    }
}
