//! Drafting: which draft llama-server uses and how, its context beside the model's (MTP blocks of the model itself, or a
//! file of its own), and what it uses of the model's.

use super::architectures::Trait;
use super::cache::Memory;
use super::context::{ContextParams, ContextType, DraftingOutputs, NextnRows};
use super::error::LoadError;
use super::measure::{Before, Measurer, Reservation};
use super::placement::Placement;
use super::release::ReleaseTraits;
use super::weights::{LlmTensor, TensorSuffix, WeightsInRam};
use super::{Device, LayerSplit, LoadedModel, MemoryBreakdown};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::BackendId;
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::settings::{CacheType, GpuLayers, Settings, SpecType};

/// A draft as requested.
#[derive(Clone, Debug)]
pub struct DraftRequest<'a> {
    /// The model of its own file; none for the MTP blocks of the model itself.
    pub model: Option<&'a LoadedModel>,
    /// Its devices, as indices among those of the model.
    pub devices: Vec<usize>,
    /// Its layers on GPUs; none for all.
    pub gpu_layers: Option<u64>,
    /// The options of its context. That has the context size of the model's.
    pub options: ContextParams,
    /// How it drafts.
    pub speculation: Speculation,
}

/// The memory that drafting takes and changes, in bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftMemory {
    /// Of the draft, as reserved.
    pub draft: DeviceBytes,
    /// Tokens of a batch of the draft with logits.
    pub n_outputs_max: u64,
    /// Its compute buffers once drafting is set up.
    pub draft_ready: Vec<u64>,
    /// The compute buffers of the model's context once drafting is set up; none if they stay as they were.
    pub main_ready: Option<Vec<u64>>,
    /// The compute buffers of the draft's pipeline that could not be allocated, so that it has none.
    pub refused_pipeline: Option<Vec<u64>>,
}

/// The model's context that a draft is made beside.
#[derive(Clone, Copy, Debug)]
pub struct MainContext<'m> {
    /// The model.
    pub model: &'m LoadedModel,
    /// Its devices.
    pub devices: &'m [Device],
    /// Its layers per device.
    pub spread: &'m LayerSplit,
    /// The options of its context.
    pub options: &'m ContextParams,
    /// What it takes.
    pub measured: &'m MemoryBreakdown,
    /// Bytes per device of what is loaded after the draft, before drafting begins: a projector.
    pub later: &'m [u64],
    /// How both are reserved.
    pub reservation: Reservation,
}

/// Bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Compute buffers.
    pub compute: Vec<u64>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
}

impl DeviceBytes {
    /// All bytes on a device.
    pub(super) fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

impl<'a> DraftRequest<'a> {
    fn own_devices(&self, devices: &[Device]) -> Vec<Device> {
        self.devices.iter().filter_map(|at| devices.get(*at).cloned()).collect()
    }

    /// What `--fit` counts for it with a context of `n_ctx` tokens: it is measured alone, and one that cannot be made
    /// without its partner is not counted.
    pub fn for_fit(&self, main: &'a LoadedModel, devices: &[Device], n_ctx: u64, spread: &LayerSplit) -> DeviceBytes {
        let own = self.own_devices(devices);
        let options = ContextParams { n_ctx, ..self.options.clone() };
        let spread = self.spread(spread);
        let model = self.model.unwrap_or(main);
        let measured = Measurer::new(model, &own).measure(&model.place(&own, &spread), &options, Reservation::Measured);
        if let Ok(measured) = measured {
            return self.among(&measured, devices.len());
        }
        let none = || vec![0; devices.len() + 1];
        DeviceBytes { model: none(), context: none(), compute: none(), in_ram: WeightsInRam::default() }
    }

    /// Measures it beside the model.
    ///
    /// # Errors
    /// When llama.cpp refuses it.
    pub fn measure(&self, main: &MainContext<'_>) -> Result<DraftMemory, LoadError> {
        let MainContext { devices, spread, options, measured, later, reservation, .. } = *main;
        let own = self.own_devices(devices);
        let placement = &main.model.place(devices, spread);
        let partner =
            Partner::new(&Measurer::new(main.model, devices), placement.clone(), options, self.devices.clone())?;
        let model = self.model.unwrap_or(main.model);
        if model.needs_partner() && !partner.is_reachable() {
            let why = "the draft uses tensors of the model that are not on its GPUs, where llama.cpp would end with an \
                       error: let it use those of the model";
            return Err(LoadError::settings(why));
        }
        let place = match self.model {
            Some(model) => model.place(&own, &self.spread(spread)),
            None => placement.clone(),
        };
        // the weights of MTP blocks are the model's
        let held =
            |main: &MemoryBreakdown, at: usize| main.total(at) - if self.model.is_none() { main.model[at] } else { 0 };
        let before = Before { taken: self.devices.iter().map(|at| held(measured, *at)).collect(), ..Before::default() };
        let mut options_of_draft = ContextParams { n_ctx: measured.parameters.n_ctx, ..self.options.clone() };
        let measurer = Measurer::new(model, &own).beside(&partner).after(before);
        let draft = measurer.measure(&place, &options_of_draft, reservation)?;
        let bytes = self.among(&draft, devices.len());
        let later = |at: usize| later.get(at).copied().unwrap_or(0);
        let main_ready = match self.speculation.main_outputs(model, main.model.hparams.n_layer()) {
            Some(drafting) => {
                let taken = (0..devices.len()).map(|at| bytes.total(at) + later(at)).collect();
                let before = Before { taken, gave_up_pipeline: measured.refused_pipeline.is_some() };
                let options = ContextParams { drafting, ..options.clone() };
                let again = Measurer::new(main.model, devices).after(before);
                Some(again.measure(placement, &options, reservation)?)
            }
            None => None,
        };
        let draft_ready = match self.speculation.draft_outputs(model) {
            Some(outputs) => {
                options_of_draft.drafting = outputs;
                let main = main_ready.as_ref().unwrap_or(measured);
                let taken = self.devices.iter().map(|at| held(main, *at) + later(*at)).collect();
                let gave_up_pipeline = draft.refused_pipeline.is_some();
                let again = measurer.after(Before { taken, gave_up_pipeline });
                again.measure(&place, &options_of_draft, reservation)?.compute
            }
            None => draft.compute.clone(),
        };
        Ok(DraftMemory {
            n_outputs_max: draft.parameters.n_outputs_max,
            draft: bytes,
            draft_ready: self.spread_over(&draft_ready, devices.len()),
            main_ready: main_ready.map(|ready| ready.compute),
            refused_pipeline: draft.refused_pipeline.map(|bytes| self.spread_over(&bytes, devices.len())),
        })
    }

    /// Its layers per device: the number is its own, the shares are the model's.
    fn spread(&self, main: &LayerSplit) -> LayerSplit {
        let overrides = if self.model.is_none() { main.overrides.clone() } else { Vec::new() };
        LayerSplit {
            gpu_layers: self.gpu_layers,
            tensor_split: main.tensor_split.clone(),
            overrides,
            load_mtp: self.speculation.is_mtp(),
            repack_for: main.repack_for,
        }
    }

    /// A breakdown over its devices as one over `count` devices and RAM, without the weights that it shares.
    fn among(&self, measured: &MemoryBreakdown, count: usize) -> DeviceBytes {
        let MemoryBreakdown { model, context, compute, in_ram, .. } = measured;
        DeviceBytes {
            model: if self.model.is_some() { self.spread_over(model, count) } else { vec![0; count + 1] },
            context: self.spread_over(context, count),
            compute: self.spread_over(compute, count),
            in_ram: if self.model.is_some() { *in_ram } else { WeightsInRam::default() },
        }
    }

    fn spread_over(&self, bytes: &[u64], count: usize) -> Vec<u64> {
        let mut all = vec![0; count + 1];
        for (at, bytes) in bytes.iter().enumerate() {
            let place = self.devices.get(at).copied().unwrap_or(count);
            if let Some(place) = all.get_mut(place) {
                *place += bytes;
            }
        }
        all
    }
}

// The context that a draft is made beside: a draft without embeddings, output matrix or caches of its own uses
// those.

/// The model that a draft drafts for, as it is loaded (`ctx_other` in `llama-context.cpp`, 0.1.161).
#[derive(Clone, Debug)]
pub struct Partner<'a> {
    /// The model.
    pub model: &'a LoadedModel,
    /// The device of its tensors.
    pub placement: Placement,
    /// Its caches.
    pub memory: Memory,
    /// The devices of the draft, as indices among those of the model.
    pub devices: Vec<usize>,
}

impl<'a> Partner<'a> {
    /// `model` as measured by `measurer` with these options, beside a draft on `devices`.
    ///
    /// # Errors
    /// When llama.cpp refuses these options for this model.
    pub fn new(
        measurer: &Measurer<'a>,
        placement: Placement,
        options: &ContextParams,
        devices: Vec<usize>,
    ) -> Result<Self, LoadError> {
        let memory = measurer.memory(&placement, options)?;
        Ok(Self { model: measurer.model, placement, memory, devices })
    }

    /// Whether the draft has the devices of what it may share: the output layer, and the caches of the last two blocks.
    pub fn is_reachable(&self) -> bool {
        let blocks = self.placement.layers.iter().take(self.model.hparams.n_layer()).rev().take(2);
        blocks.chain([&self.placement.output]).all(|device| self.place(*device).is_some())
    }

    /// The draft's device for a device of the model; none if the draft does not use it.
    pub fn place(&self, of_model: BackendId) -> Option<BackendId> {
        if of_model == self.placement.cpu {
            return Some(self.devices.len() as BackendId);
        }
        self.devices.iter().position(|device| *device == usize::from(of_model)).map(|place| place as BackendId)
    }
}

impl LoadedModel {
    /// Whether this is a draft that cannot be made without a partner.
    pub fn needs_partner(&self) -> bool {
        let has = |slot| self.weights.find_global(slot, TensorSuffix::Weight).is_some();
        let (embeddings, output) = (has(LlmTensor::TokenEmbd), has(LlmTensor::Output));
        let is = |kind| self.family.architecture.has(kind);
        // without an output matrix, the embeddings of a draft of several tokens are one
        is(Trait::SharesPartnersCaches)
            || is(Trait::EagleDraft) && !(embeddings && output)
            || is(Trait::BlockDraft) && !embeddings
    }
}

// What drafting changes in llama-server's two contexts, the model's and the draft's (`common/speculative.cpp`,
// `common/arg.cpp` and `tools/server`, 0.1.161).

/// Default of `--spec-draft-n-max`.
const N_MAX: u64 = 3;

/// How tokens are drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// The ways asked for.
    pub types: Vec<SpecType>,
    /// Tokens drafted at most by a model.
    pub n_max: u64,
    /// The draft's device chooses its best tokens.
    pub backend_sampling: bool,
}

impl Default for Speculation {
    /// llama-server's defaults: nothing is drafted.
    fn default() -> Self {
        Self { types: Vec::new(), n_max: N_MAX, backend_sampling: true }
    }
}

impl Speculation {
    /// How `draft` drafts if the user does not say (`common_speculative_types_from_gguf`, 0.1.161).
    pub fn type_of(draft: &LoadedModel) -> SpecType {
        let weights = &draft.weights;
        if draft.family.architecture.has(Trait::BlockDraft) {
            let markov = weights.find_global(LlmTensor::DsparkMarkovW1, TensorSuffix::Weight).is_some();
            return if markov { SpecType::DraftDspark } else { SpecType::DraftDflash };
        }
        let last = draft.hparams.n_layer_all.saturating_sub(1);
        match weights.find(last, LlmTensor::NextnEhProj, TensorSuffix::Weight) {
            Some(_) => SpecType::DraftMtp,
            None => SpecType::None,
        }
    }

    /// Whether `draft` is a model for this way to draft.
    pub fn suits(kind: SpecType, draft: &LoadedModel) -> bool {
        let architecture = draft.family.architecture;
        match kind {
            SpecType::DraftEagle3 => architecture.has(Trait::EagleDraft),
            SpecType::DraftDflash | SpecType::DraftDspark => architecture.has(Trait::BlockDraft),
            SpecType::DraftSimple => !draft.needs_partner(),
            _ => true,
        }
    }

    fn has(&self, kind: SpecType) -> bool {
        self.types.contains(&kind)
    }

    /// The ways asked for as `--spec-type` has them; none if nothing drafts.
    pub fn names(&self) -> Option<String> {
        let drafts = self.types.iter().filter(|kind| **kind != SpecType::None);
        let names: Vec<&str> = drafts.map(|kind| kind.name()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// MTP blocks draft.
    pub fn is_mtp(&self) -> bool {
        self.has(SpecType::DraftMtp)
    }

    /// A draft computes several tokens at once.
    fn is_block(&self) -> bool {
        self.has(SpecType::DraftDflash) || self.has(SpecType::DraftDspark)
    }

    /// A draft reads inputs of the model's layers.
    fn reads_layers(&self) -> bool {
        self.is_block() || self.has(SpecType::DraftEagle3)
    }

    /// A model drafts, or blocks of the model itself.
    pub fn has_context(&self) -> bool {
        self.is_mtp() || self.reads_layers() || self.has(SpecType::DraftSimple)
    }

    /// Tokens that one draft may have, the largest over the ways asked for.
    fn n_draft(&self) -> u64 {
        let of = |kind: &SpecType| match kind {
            SpecType::None => 0,
            SpecType::NgramSimple | SpecType::NgramMapK | SpecType::NgramMapK4v => 48,
            SpecType::NgramMod => 64,
            SpecType::NgramCache => 8,
            _ => self.n_max,
        };
        self.types.iter().map(of).max().unwrap_or(0)
    }

    /// Tokens whose logits one ubatch of the model computes for `sequences`.
    pub fn outputs(&self, sequences: u64, n_batch: u64) -> u64 {
        sequences.saturating_mul(1 + self.n_draft()).min(n_batch).max(1)
    }

    /// The options of the model's context, from those without drafting.
    #[must_use]
    pub fn main(&self, options: ContextParams, release: &ReleaseTraits) -> ContextParams {
        let snapshots = self.types.iter().any(|kind| release.rolls_back_for.contains(kind));
        ContextParams {
            n_outputs_max_per_seq: (1 + self.n_draft()).min(options.n_batch).max(1),
            n_rs_seq: if snapshots { self.n_max } else { 0 },
            ..options
        }
    }

    /// The options of the draft's context beside a context with the options `main`.
    pub fn draft(&self, main: &ContextParams, type_k: Type, type_v: Type) -> ContextParams {
        let (sequences, per_block) = (main.n_seq_max.max(1), 1 + self.n_max);
        let rows = if self.is_block() { per_block } else { 1 };
        ContextParams {
            type_k,
            type_v,
            n_rs_seq: 0,
            n_outputs_max: sequences * rows,
            n_outputs_max_per_seq: if self.backend_sampling { rows } else { 1 },
            ctx_type: if self.is_mtp() { ContextType::Mtp } else { ContextType::Default },
            pipeline_refused: None,
            drafting: DraftingOutputs::default(),
            ..main.clone()
        }
    }

    /// What drafting then asks of the model's context, whose blocks are `n_layer`; none if nothing that changes its
    /// memory.
    pub fn main_outputs(&self, draft: &LoadedModel, n_layer: usize) -> Option<DraftingOutputs> {
        if !self.reads_layers() {
            return None;
        }
        let layers = draft.hparams.draft.target_layers.iter().copied();
        let (layer_inputs, last): (Vec<_>, Vec<_>) = layers.partition(|il| *il < n_layer || self.is_block());
        let nextn = self.is_mtp() || !last.is_empty();
        let embeddings_nextn = if nextn { NextnRows::All } else { NextnRows::None };
        (!layer_inputs.is_empty()).then_some(DraftingOutputs { samplers: false, embeddings_nextn, layer_inputs })
    }

    /// The same of the draft's context.
    pub fn draft_outputs(&self, draft: &LoadedModel) -> Option<DraftingOutputs> {
        let selects = self.is_block() && draft.hparams.draft.selector_top_k > 0;
        let samples = self.backend_sampling && !selects && (self.is_mtp() || self.reads_layers());
        samples.then_some(DraftingOutputs {
            samplers: true,
            embeddings_nextn: NextnRows::Outputs,
            layer_inputs: Vec::new(),
        })
    }
}

// The options of drafting as llama-server takes them (`common/arg.cpp`, 0.1.161).

/// How `prepared` drafts: as asked, or else as its draft's file says.
///
/// # Errors
/// When something that was asked for is missing, or this release does not know it.
pub(super) fn speculation(
    prepared: &PreparedModel,
    release: &ReleaseTraits,
    settings: &Settings,
) -> Result<Speculation, EngineError> {
    let draft = prepared.draft().map(|draft| draft.model.llama_cpp(release.name)).transpose()?;
    let types = match (&settings.draft.types, draft) {
        (Some(types), _) => types.clone(),
        (None, Some(draft)) => vec![Speculation::type_of(draft)],
        (None, None) => Vec::new(),
    };
    let refuse = |why: String| Err(EngineError::Settings(why));
    for kind in &types {
        let needs_file = matches!(
            kind,
            SpecType::DraftSimple | SpecType::DraftEagle3 | SpecType::DraftDflash | SpecType::DraftDspark
        );
        if needs_file && draft.is_none() {
            return refuse(format!("{kind} needs a draft model: name its file with --model-draft"));
        }
        if !release.drafts.contains(kind) {
            return refuse(format!("llama.cpp release {} does not know {kind}: use a newer release", release.name));
        }
        if draft.is_some_and(|draft| !Speculation::suits(*kind, draft)) {
            return refuse(format!("the draft model is not one for {kind}: use another --spec-type"));
        }
    }
    let default = Speculation::default();
    Ok(Speculation { types, n_max: settings.draft.n_max.unwrap_or(default.n_max), ..default })
}

/// The draft beside a context of the model with the options `main`.
///
/// # Errors
/// When the user named a GPU that llama-server does not use.
pub(super) fn request<'a>(
    prepared: &'a PreparedModel,
    model: &LoadedModel,
    gpus: &[usize],
    settings: &Settings,
    spread: &LayerSplit,
    main: &ContextParams,
    speculation: &Speculation,
) -> Result<Option<DraftRequest<'a>>, EngineError> {
    let own = prepared.draft().map(|draft| draft.model.llama_cpp(model.release.name)).transpose()?;
    if own.is_none() && !speculation.is_mtp() {
        return Ok(None);
    }
    let asked = &settings.draft;
    let used = |gpu: &usize| gpus.iter().position(|used| used == gpu).ok_or(*gpu);
    let named = asked.devices.as_ref().filter(|_| own.is_some());
    let devices = named.map(|named| named.iter().map(used).collect::<Result<Vec<usize>, usize>>()).transpose();
    let devices = devices.map_err(|gpu| {
        EngineError::Settings(format!("GPU{gpu} is not one that llama-server uses: name others for the draft"))
    })?;
    let format = |ty: Option<CacheType>| ty.unwrap_or(CacheType::F16).format();
    Ok(Some(DraftRequest {
        model: own,
        devices: devices.unwrap_or_else(|| (0..gpus.len()).collect()),
        gpu_layers: match (own, asked.gpu_layers) {
            (None, _) => spread.gpu_layers,
            (Some(_), GpuLayers::Count(count)) => Some(count),
            (Some(_), GpuLayers::Auto | GpuLayers::All) => None,
        },
        options: speculation.draft(main, format(asked.cache_type_k), format(asked.cache_type_v)),
        speculation: speculation.clone(),
    }))
}
