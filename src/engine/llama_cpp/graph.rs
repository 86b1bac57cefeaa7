//! The compute graph of a model: one batch of prompt tokens through all blocks, as llama.cpp builds it to reserve
//! memory (`llama-graph.cpp` and `models/*.cpp`, 0.1.161).
//!
//! Which architecture has which graph is in `architectures`. All use the same parts: this file's inputs, norms, weights and
//! ends, `attention`, `feed_forward`, `recurrent`, `transformer`.
#![allow(clippy::cast_possible_wrap, reason = "there are at most 512 blocks")]

mod attention;
mod deepseek4;
mod delta_net;
mod drafts;
mod feed_forward;
mod gemma;
mod hyper_connections;
mod minimax;
mod pools;
mod recurrent;
mod rwkv;
mod transformer;
mod variants;

use super::architecture::{Architecture, Trait};
use super::cache::{KvLayer, Memory};
use super::context::{Batch, Cparams, NextnRows};
use super::draft_target::DraftTarget;
use super::error::LoadError;
use super::hparams::Hparams;
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::release::ReleaseTraits;
use super::transformer::Norm;
use super::weights::{LlmTensor, TensorSuffix, Weights};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId, UnaryOp};
use crate::settings::Pooling;
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
        let GraphModel { model, placement, memory, target } = *loaded;
        let hp = &model.hparams;
        let devices = usize::from(placement.cpu) + 1;
        graph.clear();
        graph.reserve(hp.n_layer_all * 128);
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
}

impl GraphBuilder<'_> {
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

// Inputs: tokens or embeddings, positions, and the rows with logits.

impl GraphBuilder<'_> {
    /// Embeddings of the batch: looked up by token, given, or mixed; the graph holds all three variants. `scaled`
    /// multiplies the rows of tokens.
    fn embeddings(&mut self, scaled: bool) -> TensorId {
        let (n_tokens, n_embd, n_inp) = (self.batch.n_tokens, self.hp.n_embd, self.hp.n_embd_inp());
        let table = self.need_global(LlmTensor::TokenEmbd);
        let tokens = self.g.input(Type::I32, [n_tokens, 1, 1, 1], "inp_tokens");
        self.inp_tokens = tokens;
        let both = self.release.both_inputs;
        let given = both.then(|| self.g.input(Type::F32, [n_inp, n_tokens, 1, 1], "inp_embd"));
        let rows = self.look_up(table, tokens);
        let mixed_rows = self.mixes_batches().then(|| {
            let tokens = self.g.input(Type::I32, [n_tokens, 1, 1, 1], "inp_mixed_tokens");
            self.look_up(table, tokens)
        });
        let looked_up = self.widened(rows);
        if let Some(given) = given {
            self.g.expand(looked_up);
            self.g.expand(given);
        }
        if let Some(rows) = mixed_rows {
            self.mixed_embeddings(rows);
        }
        let mut x = looked_up;
        if n_inp != n_embd && both {
            let stride = self.g[x].nb[1];
            x = self.g.window(x, [n_embd, n_tokens, 1, 1], [stride]);
        }
        self.inp_embd = x;
        let by_row = self.release.mixed_batches;
        let only_tokens = by_row && self.hp.embedding_scale && self.hp.n_deepstack_layers > 0;
        if self.hp.embedding_scale && !only_tokens {
            x = self.contiguous(x);
            x = self.g.scale(x);
        }
        if (by_row && scaled) || only_tokens {
            let rows = self.g.input(Type::F32, [1, n_tokens, 1, 1], "inp_scale_rows");
            x = self.contiguous(x);
            x = self.g.mul(x, rows);
        }
        self.label(x, "embd", None);
        if both {
            self.g.expand(x);
        }
        // the model's own graph does it, so that other inputs may come first
        if scaled && !by_row { self.g.scale(x) } else { x }
    }

    /// Whether the graph has inputs for batches that mix tokens and embeddings.
    fn mixes_batches(&self) -> bool {
        self.release.mixed_batches && !self.architecture.has(Trait::NoMixedBatches)
    }

    /// Mixed batch: given rows, some replaced by `rows` of tokens.
    fn mixed_embeddings(&mut self, rows: TensorId) {
        let (n_tokens, n_inp) = (self.batch.n_tokens, self.hp.n_embd_inp());
        let slots = self.g.input(Type::I64, [n_tokens, 1, 1, 1], "inp_mixed_slots");
        let mixed = self.g.input(Type::F32, [n_inp, n_tokens, 1, 1], "inp_mixed_embd");
        let mixed = self.g.dup(mixed);
        let rows = self.widened(rows);
        let mixed = self.g.set_rows(mixed, rows, slots);
        self.g.expand(mixed);
    }

    /// The rows of `table`, at once where they are looked up before anything else.
    fn look_up(&mut self, table: TensorId, tokens: TensorId) -> TensorId {
        let rows = self.g.get_rows(table, tokens);
        if self.release.rows_first {
            self.g.expand(rows);
        }
        rows
    }

    /// Rows of tokens, as wide as those that are given.
    fn widened(&mut self, rows: TensorId) -> TensorId {
        let more = self.hp.n_embd_inp() - self.hp.n_embd;
        if more > 0 && self.release.both_inputs { self.g.pad(rows, [more, 0, 0, 0]) } else { rows }
    }

    /// `x` made contiguous.
    fn contiguous(&mut self, x: TensorId) -> TensorId {
        if self.g.is_contiguous(x) { x } else { self.g.cont(x) }
    }

    /// Token positions.
    fn positions(&mut self) -> TensorId {
        let n = self.batch.n_tokens * self.hp.n_pos_per_embd(self.architecture);
        self.g.input(Type::I32, [n, 1, 1, 1], "inp_pos")
    }

    /// Rows with logits.
    fn out_ids(&mut self) -> TensorId {
        self.g.input(Type::I32, [self.batch.n_outputs, 1, 1, 1], "out_ids")
    }

    /// A factor per token for the queries.
    fn attention_scale(&mut self) -> TensorId {
        self.g.input(Type::F32, [1, 1, self.batch.n_tokens, 1], "inp_attn_scale")
    }

    /// Adds a deepstack level of the input embeddings, which only embeddings have.
    fn add_deepstack_level(&mut self, x: TensorId) -> TensorId {
        if !self.release.both_inputs {
            return x;
        }
        let given = self.inp_embd;
        let stride = self.g[given].nb[1];
        let level = self.g.window(given, [self.hp.n_embd, self.batch.n_tokens, 1, 1], [stride]);
        self.g.add(x, level)
    }
}

// Weights and caches as tensors of the graph: each is added once per device.

impl GraphBuilder<'_> {
    /// The file's tensor with this index, on `place`.
    fn weight_at(&mut self, index: usize, device: BackendId) -> TensorId {
        let place = self.placement.home(device, index);
        let id = self.weight_on(index, place);
        self.g[id].repacked = self.placement.repacked(place, index).is_some();
        id
    }

    fn weight_on(&mut self, index: usize, place: BackendId) -> TensorId {
        let at = index * (usize::from(self.placement.cpu) + 1) + usize::from(place);
        if !self.known[at].is_some() {
            let weight = &self.weights.all[index];
            let label = weight.role.map_or("", |(slot, _)| slot.name());
            let layer = weight.block.map_or(-1, |il| il as i16);
            self.known[at] = self.g.given(weight.ty, weight.ne, Buffer::Weights(place), label, layer);
        }
        self.known[at]
    }

    fn part(&mut self, il: usize, slot: LlmTensor, part: TensorSuffix) -> TensorId {
        // of blocks that run the weights of others, llama.cpp looks for scales under their own number
        let il = if part == TensorSuffix::Scale { il } else { self.hp.weight_block(il) };
        match self.weights.find(il, slot, part) {
            Some(index) => self.weight_at(index, self.placement.in_block(il, Some(slot))),
            None => TensorId::NONE,
        }
    }

    /// Whether the file has a weight of block `il` with this role.
    fn has(&self, il: usize, slot: LlmTensor) -> bool {
        self.weights.find(self.hp.weight_block(il), slot, TensorSuffix::Weight).is_some()
    }

    /// The weight of block `il` with this role, if the file has it.
    fn weight(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        self.part(il, slot, TensorSuffix::Weight)
    }

    /// Its bias, if the file has one and the graph reads it.
    fn bias(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_bias(slot) {
            return TensorId::NONE;
        }
        self.part(il, slot, TensorSuffix::Bias)
    }

    /// Its scale, if the file has one and the graph reads it.
    fn scale_of(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_scale(slot) {
            return TensorId::NONE;
        }
        self.part(il, slot, TensorSuffix::Scale)
    }

    /// The weight of block `il` with this role, or an error if it is missing.
    fn need(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        let id = self.weight(il, slot);
        if id.is_some() { id } else { self.lacking(self.name_in_file(il, slot)) }
    }

    /// The matrices of the adapters of the weight with this role, or an error if one is missing.
    fn need_adapters(&mut self, il: usize, slot: LlmTensor) -> [TensorId; 2] {
        [(TensorSuffix::LoraA, "lora_a"), (TensorSuffix::LoraB, "lora_b")].map(|(part, suffix)| {
            let id = self.part(il, slot, part);
            if id.is_some() { id } else { self.lacking(format!("blk.{il}.{}.{suffix}", slot.name())) }
        })
    }

    /// The name of a block's weight in the file.
    fn name_in_file(&self, il: usize, slot: LlmTensor) -> String {
        let il = self.hp.weight_block(il);
        match slot.name().strip_prefix("enc.") {
            Some(name) => format!("enc.blk.{il}.{name}.weight"),
            None if self.architecture.has(Trait::NamesDecoderBlocks) => format!("dec.blk.{il}.{}.weight", slot.name()),
            None => format!("blk.{il}.{}.weight", slot.name()),
        }
    }

    fn lacking(&mut self, name: String) -> TensorId {
        self.missing.get_or_insert(name);
        self.g.given(Type::F32, [1; 4], Buffer::Weights(self.placement.cpu), "", -1)
    }

    fn global(&mut self, slot: LlmTensor, part: TensorSuffix) -> TensorId {
        match self.weights.find_global(slot, part) {
            Some(index) => self.weight_at(index, self.placement.of_model(Some(slot), self.architecture, self.release)),
            None => TensorId::NONE,
        }
    }

    /// The model-wide weight with this role, if the file has it.
    fn global_weight(&mut self, slot: LlmTensor) -> TensorId {
        self.global(slot, TensorSuffix::Weight)
    }

    fn global_bias(&mut self, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_bias(slot) {
            return TensorId::NONE;
        }
        self.global(slot, TensorSuffix::Bias)
    }

    fn global_scale(&mut self, slot: LlmTensor) -> TensorId {
        self.global(slot, TensorSuffix::Scale)
    }

    fn need_global(&mut self, slot: LlmTensor) -> TensorId {
        let id = self.global_weight(slot);
        if id.is_some() { id } else { self.lacking(format!("{}.weight", slot.name())) }
    }

    /// The output matrix, or the token embeddings on the output layer's device.
    fn output_weight(&mut self) -> TensorId {
        let own = self.global_weight(LlmTensor::Output);
        if own.is_some() {
            return own;
        }
        match self.weights.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight) {
            Some(index) => self.tied_output(index),
            None => self.lacking("output.weight".to_owned()),
        }
    }

    /// The token embeddings as output matrix.
    fn tied_output(&mut self, index: usize) -> TensorId {
        if !self.placement.repacks_tied_output(index) {
            return self.weight_on(index, self.placement.tied_output(index));
        }
        // in RAM twice, once to look up rows
        let weight = &self.weights.all[index];
        let id = self.g.given(weight.ty, weight.ne, Buffer::Weights(self.placement.cpu), "token_embd", -1);
        self.g[id].repacked = true;
        id
    }

    /// The token embeddings of a draft: its own, or those of the model that it drafts for.
    fn draft_embeddings(&mut self) -> TensorId {
        let own = self.global_weight(LlmTensor::TokenEmbd);
        if own.is_some() { own } else { self.partner_embeddings() }
    }

    /// The token embeddings of the model that a draft is for.
    fn partner_embeddings(&mut self) -> TensorId {
        let cpu = |target: &DraftTarget<'_>| target.placement.cpu;
        self.of_target(LlmTensor::TokenEmbd, TensorSuffix::Weight, cpu)
    }

    /// The output matrix of a draft: its own, its embeddings, or that of the model that it drafts for.
    fn draft_output(&mut self) -> TensorId {
        let own = self.global_weight(LlmTensor::Output);
        if own.is_some() {
            return own;
        }
        let embeddings = self.weights.find_global(LlmTensor::TokenEmbd, TensorSuffix::Weight);
        if let (Some(index), true) = (embeddings, self.architecture.ties_output()) {
            return self.tied_output(index);
        }
        match self.target.and_then(DraftTarget::output) {
            Some((slot, device)) => self.of_target(slot, TensorSuffix::Weight, |_| device),
            None => self.lacking("output.weight".to_owned()),
        }
    }

    /// The scale of the output matrix, if it has one.
    fn draft_output_scale(&mut self) -> TensorId {
        let own = self.weights.find_global(LlmTensor::Output, TensorSuffix::Weight).is_some();
        let has = |target: &DraftTarget<'_>| {
            target.model.weights.find_global(LlmTensor::Output, TensorSuffix::Scale).is_some()
        };
        if own || !self.target.is_some_and(has) {
            return self.global_scale(LlmTensor::Output);
        }
        self.of_target(LlmTensor::Output, TensorSuffix::Scale, |target| target.placement.output)
    }

    /// A model-wide tensor of the model that a draft is for, on the device that `home` says.
    fn of_target(
        &mut self,
        slot: LlmTensor,
        part: TensorSuffix,
        home: impl FnOnce(&DraftTarget<'_>) -> BackendId,
    ) -> TensorId {
        let found = self.target.and_then(|target| {
            let index = target.model.weights.find_global(slot, part)?;
            Some((&target.model.weights.all[index], target.place(home(target))?))
        });
        match found {
            Some((weight, place)) => self.g.given(weight.ty, weight.ne, Buffer::Weights(place), slot.name(), -1),
            None => self.lacking(format!("{}.weight", slot.name())),
        }
    }

    /// Rope factors of block `il`: fixed, or for long or short contexts.
    fn rope_factors(&mut self, il: usize) -> TensorId {
        if self.architecture.ignores_rope_factors(self.hp.is_swa[il]) {
            return TensorId::NONE;
        }
        let long = self.cx.n_ctx_seq > self.hp.n_ctx_orig_yarn;
        let slots = [LlmTensor::RopeFreqs, if long { LlmTensor::RopeLong } else { LlmTensor::RopeShort }];
        let found = slots.into_iter().find_map(|slot| self.weights.find_global(slot, TensorSuffix::Weight));
        let device = self.placement.layers[self.hp.weight_block(il)];
        found.map_or(TensorId::NONE, |index| self.weight_at(index, device))
    }

    /// The K (0) or V (1) cache used by block `il`.
    fn cache(&mut self, layer: &KvLayer, part: usize, size: u64, streams: u64) -> TensorId {
        let known = self.caches[layer.owner][part];
        if known.is_some() {
            return known;
        }
        let (ty, elements, label) = match part {
            0 => (layer.ty_k, layer.k, "cache_k"),
            _ => (layer.ty_v, layer.v.unwrap_or(0), "cache_v"),
        };
        let id = self.g.given(ty, [elements, size, streams, 1], Buffer::Cache(layer.place), label, layer.owner as i16);
        self.caches[layer.owner][part] = id;
        id
    }

    /// `weight · x`, scaled if the file has a scale.
    fn linear(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let y = self.g.mul_mat(weight, x);
        let scale = self.scale_of(il, slot);
        let y = self.g.times(y, scale);
        self.with_adapters(il, slot, x, y, None)
    }

    /// `y`, the product of a block's weight with `x`, and those of the adapters beside the weight; of the experts that are
    /// `chosen`, if it is one of theirs (`build_lora_mm` in `llama-graph.cpp`, 0.1.161).
    fn with_adapters(
        &mut self,
        il: usize,
        slot: LlmTensor,
        x: TensorId,
        y: TensorId,
        chosen: Option<TensorId>,
    ) -> TensorId {
        let Some(adapters) = self.cx.adapters.clone() else { return y };
        let il = self.hp.weight_block(il);
        let Some(index) = self.weights.find(il, slot, TensorSuffix::Weight) else { return y };
        let place = self.placement.home(self.placement.in_block(il, Some(slot)), index);
        let mut sum = y;
        for pair in adapters.of(index) {
            let mut added = x;
            for (ty, ne) in pair.matrices {
                // like caches, and unlike weights, they decide nothing by what they are used for
                let matrix = self.g.given(ty, ne, Buffer::Cache(place), slot.name(), il as i16);
                added = match chosen {
                    Some(chosen) => self.g.mul_mat_id(matrix, added, chosen),
                    None => self.g.mul_mat(matrix, added),
                };
            }
            let added = self.g.scale(added);
            sum = self.g.add(sum, added);
        }
        sum
    }

    /// The same with a weight outside blocks, without scale.
    fn multiply_global(&mut self, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need_global(slot);
        self.g.mul_mat(weight, x)
    }

    /// `weight · x + bias`, the bias if present.
    fn affine(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let y = self.linear(il, slot, x);
        let bias = self.bias(il, slot);
        self.g.plus(y, bias)
    }
}

// Embeddings of whole texts, made of the hidden states of their tokens (`build_pooling` in `llama-graph.cpp`,
// 0.1.161).

impl GraphBuilder<'_> {
    /// Pools the final hidden states, one row per sequence. (A classifier's few rows after it are not counted.)
    fn pool(&mut self, pooling: Pooling) {
        let is_final = |label: &str| label == "result_norm" || label == "result_embd";
        let Some(&states) = self.g.nodes.iter().rev().find(|id| is_final(self.g[**id].label)) else { return };
        let (tokens, sequences) = (self.batch.n_tokens, self.batch.n_seqs.min(self.batch.n_tokens));
        let pooled = match pooling {
            Pooling::None => return,
            Pooling::Mean => {
                let shares = self.g.input(Type::F32, [tokens, sequences, 1, 1], "inp_mean");
                let columns = self.g.transposed(states);
                self.g.mul_mat(columns, shares)
            }
            Pooling::Cls | Pooling::Last | Pooling::Rank => {
                let rows = self.g.input(Type::I32, [sequences, 1, 1, 1], "inp_cls");
                self.g.get_rows(states, rows)
            }
        };
        self.label(pooled, "result_embd_pooled", None);
        self.g.set_output(pooled);
        self.g.expand(pooled);
    }
}

// The choice of the best tokens by the device of the output layer, one chain of samplers per sequence
// (`llm_graph_context::build_sampling`, 0.1.161).

/// Tokens that a draft chooses among (`common/speculative.cpp`, 0.1.161).
const BEST: u64 = 10;

impl GraphBuilder<'_> {
    /// Adds the best tokens of every row of logits.
    fn sample(&mut self) {
        if !self.logits.is_some() {
            return;
        }
        let n_vocab = self.g[self.logits].ne[0];
        // one more row keeps the graph the same for sequences without logits
        let padded = self.g.pad(self.logits, [0, 1, 0, 0]);
        let (mut left, per_sequence) = (self.batch.n_outputs, self.n_seq_tokens().min(self.cx.n_outputs_max_per_seq));
        for _ in 0..self.batch.n_seqs {
            let rows = per_sequence.min(left);
            left -= rows;
            for _ in 0..rows.max(1) {
                self.sample_row(padded, n_vocab, rows > 0);
            }
        }
    }

    fn sample_row(&mut self, logits: TensorId, n_vocab: u64, is_read: bool) {
        let row = self.g.window(logits, [n_vocab, 1, 1, 1], []);
        let row = self.g.reshape(row, [n_vocab, 1, 1, 1]);
        let best = self.g.top_k(row, BEST);
        self.label(best, "top_k", None);
        let each = self.g.reshape(row, [1, n_vocab, 1, 1]);
        let values = self.g.get_rows(each, best);
        self.label(values, "top_k_rows", None);
        for x in [values, best] {
            self.g[x].output |= is_read;
            self.g.expand(x);
        }
    }
}
