//! Weights and caches as tensors of the graph: each is added once per device.

use super::super::architecture::Trait;
use super::super::cache::KvLayer;
use super::super::draft_target::DraftTarget;
use super::super::weights::{LlmTensor, TensorSuffix};
use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId};

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
    pub(super) fn has(&self, il: usize, slot: LlmTensor) -> bool {
        self.weights.find(self.hp.weight_block(il), slot, TensorSuffix::Weight).is_some()
    }

    /// The weight of block `il` with this role, if the file has it.
    pub(super) fn weight(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        self.part(il, slot, TensorSuffix::Weight)
    }

    /// Its bias, if the file has one and the graph reads it.
    pub(super) fn bias(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_bias(slot) {
            return TensorId::NONE;
        }
        self.part(il, slot, TensorSuffix::Bias)
    }

    /// Its scale, if the file has one and the graph reads it.
    pub(super) fn scale_of(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_scale(slot) {
            return TensorId::NONE;
        }
        self.part(il, slot, TensorSuffix::Scale)
    }

    /// The weight of block `il` with this role, or an error if it is missing.
    pub(super) fn need(&mut self, il: usize, slot: LlmTensor) -> TensorId {
        let id = self.weight(il, slot);
        if id.is_some() { id } else { self.lacking(self.name_in_file(il, slot)) }
    }

    /// The matrices of the adapters of the weight with this role, or an error if one is missing.
    pub(super) fn need_adapters(&mut self, il: usize, slot: LlmTensor) -> [TensorId; 2] {
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
    pub(super) fn global_weight(&mut self, slot: LlmTensor) -> TensorId {
        self.global(slot, TensorSuffix::Weight)
    }

    pub(super) fn global_bias(&mut self, slot: LlmTensor) -> TensorId {
        if self.architecture.ignores_bias(slot) {
            return TensorId::NONE;
        }
        self.global(slot, TensorSuffix::Bias)
    }

    pub(super) fn global_scale(&mut self, slot: LlmTensor) -> TensorId {
        self.global(slot, TensorSuffix::Scale)
    }

    pub(super) fn need_global(&mut self, slot: LlmTensor) -> TensorId {
        let id = self.global_weight(slot);
        if id.is_some() { id } else { self.lacking(format!("{}.weight", slot.name())) }
    }

    /// The output matrix, or the token embeddings on the output layer's device.
    pub(super) fn output_weight(&mut self) -> TensorId {
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
    pub(super) fn draft_embeddings(&mut self) -> TensorId {
        let own = self.global_weight(LlmTensor::TokenEmbd);
        if own.is_some() { own } else { self.partner_embeddings() }
    }

    /// The token embeddings of the model that a draft is for.
    pub(super) fn partner_embeddings(&mut self) -> TensorId {
        let cpu = |target: &DraftTarget<'_>| target.placement.cpu;
        self.of_target(LlmTensor::TokenEmbd, TensorSuffix::Weight, cpu)
    }

    /// The output matrix of a draft: its own, its embeddings, or that of the model that it drafts for.
    pub(super) fn draft_output(&mut self) -> TensorId {
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
    pub(super) fn draft_output_scale(&mut self) -> TensorId {
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
    pub(super) fn rope_factors(&mut self, il: usize) -> TensorId {
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
    pub(super) fn cache(&mut self, layer: &KvLayer, part: usize, size: u64, streams: u64) -> TensorId {
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
    pub(super) fn linear(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let y = self.g.mul_mat(weight, x);
        let scale = self.scale_of(il, slot);
        let y = self.g.times(y, scale);
        self.with_adapters(il, slot, x, y, None)
    }

    /// `y`, the product of a block's weight with `x`, and those of the adapters beside the weight; of the experts that are
    /// `chosen`, if it is one of theirs (`build_lora_mm` in `llama-graph.cpp`, 0.1.161).
    pub(super) fn with_adapters(
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
    pub(super) fn multiply_global(&mut self, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need_global(slot);
        self.g.mul_mat(weight, x)
    }

    /// `weight · x + bias`, the bias if present.
    pub(super) fn affine(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let y = self.linear(il, slot, x);
        let bias = self.bias(il, slot);
        self.g.plus(y, bias)
    }
}
