//! llama-server's options with their defaults, for one model on one machine.

use super::architecture::Trait;
use super::context::{self, ContextParams};
use super::devices::{Device, backend, gpus};
use super::draft::{self, DraftRequest};
use super::fit::FitLimits;
use super::loaded::LoadedModel;
use super::margins::Margins;
use super::moe_cache::MoeCacheRequest;
use super::overrides::UserOverrides;
use super::placement::LayerSplit;
use super::prepared::PreparedModel;
use super::projector::PlacedProjector;
use super::release::CONTEXT_BEFORE_FIT;
use super::speculation::Speculation;
use super::tensor_split::{self, TensorSplit};
use crate::engine::error::EngineError;
use crate::machine::{CpuInstructions, Machine};
use crate::plan::Part;
use crate::settings::{
    CacheType, Context, FlashAttn, GpuLayers, InEffect, LlamaProgram, Outputs, PROMPT_CACHE, Pooling, Settings,
    SplitMode,
};
use crate::units::Bytes;

/// Default logical batch, in tokens.
const BATCH: u64 = 2048;
/// Default physical batch, in tokens.
const UBATCH: u64 = 512;
/// Default margin that a fit leaves free on each device.
const MARGIN: Bytes = Bytes::mib(1024);
/// Default minimum context of a fit, in tokens.
const MIN_CONTEXT: u64 = 4096;

/// The request to llama.cpp.
pub struct ServerParams<'a> {
    /// The GPUs used, as indices in the machine.
    pub gpus: Vec<usize>,
    pub devices: Vec<Device>,
    pub spread: LayerSplit,
    pub options: ContextParams,
    pub limits: FitLimits,
    /// The draft, if one is loaded.
    pub draft: Option<DraftRequest<'a>>,
    pub speculation: Speculation,
    /// The projector.
    pub projector: Option<PlacedProjector>,
    /// The cards that stand behind the one device of a split by tensors.
    pub cards: Option<TensorSplit>,
    /// Layers and context that the user does not set are chosen by free memory.
    pub is_fitted: bool,
    /// What the fit leaves free, and for what.
    pub margins: Margins,
}

impl<'a> ServerParams<'a> {
    /// The request for a model as loaded by its release, `prepared` being the same with what is beside it.
    ///
    /// # Errors
    /// When llama-server refuses the options of drafting, or the projector cannot be loaded.
    pub fn new(
        prepared: &'a PreparedModel,
        model: &'a LoadedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Self, EngineError> {
        let mut params = Self::without_projector(prepared, model, machine, settings)?;
        let ContextParams { n_batch, n_ubatch, .. } = params.options;
        let n_embd = model.hparams.n_embd_inp();
        params.projector = PlacedProjector::new(machine, settings, model.release, n_ubatch.min(n_batch), n_embd)?;
        for (kind, place, bytes) in params.projector.iter().flat_map(PlacedProjector::fit_shares) {
            params.margins.add_projector(kind, place, bytes, model.release.margins_for_projector);
        }
        params.limits.margins = params.margins.list();
        Ok(params)
    }

    /// The same without the projector.
    pub(super) fn without_projector(
        prepared: &'a PreparedModel,
        model: &'a LoadedModel,
        machine: &Machine,
        settings: &Settings,
    ) -> Result<Self, EngineError> {
        let speculation = draft::speculation(prepared, model.release, settings)?;
        let gpus = gpus(machine, settings)?;
        tensor_split::check_rows(settings.split_mode, machine, &gpus, model.release)?;
        let used = gpus.iter().filter_map(|gpu| machine.gpus.get(*gpu));
        let mut devices: Vec<Device> =
            used.map(|gpu| Device { backend: backend(gpu, machine.os, model.release), free: gpu.free.0 }).collect();
        let proportions: Vec<f32> = settings.tensor_split.iter().map(|share| *share as f32).collect();
        let by_tensors = settings.split_mode == SplitMode::Tensor;
        let cards = by_tensors.then(|| TensorSplit::new(gpus.len(), &proportions));
        if by_tensors {
            refuse_tensor_split(model, &gpus, settings)?;
            devices = TensorSplit::device(&devices);
        }
        let blocks = model.hparams.n_layer_all as u64;
        let spread = LayerSplit {
            gpu_layers: match settings.gpu_layers {
                GpuLayers::Auto => None,
                GpuLayers::All => Some(blocks + 1),
                GpuLayers::Count(count) => Some(count),
            },
            tensor_split: if by_tensors { Vec::new() } else { proportions },
            load_mtp: speculation.is_mtp(),
            repack_for: if settings.no_repack { CpuInstructions::None } else { machine.cpu.instructions },
            overrides: Vec::new(),
            by_user: UserOverrides::new(settings.into(), model, &prepared.header, machine, &gpus, devices.len())?,
            no_host: settings.no_host,
            by_rows: settings.split_mode == SplitMode::Row,
        };
        let margin = |at: usize| settings.fit_targets.get(at).copied().or(settings.fit_target).unwrap_or(MARGIN).0;
        let options = speculation.main(options(model, settings, &speculation), model.release);
        if options.moe_cache.is_some() && !model.release.moe_cache {
            return Err(EngineError::Settings(format!(
                "llama.cpp {} does not know --moe-cache-mib: use a newer release",
                settings.llama_cpp_build()
            )));
        }
        let draft = draft::request(prepared, model, machine, &gpus, settings, &spread, &options, &speculation)?;
        let margins = Margins::new((0..gpus.len().max(1)).map(margin).collect(), machine, settings)?;
        let limits = FitLimits {
            margins: margins.list(),
            min_ctx: settings.fit_ctx.unwrap_or(MIN_CONTEXT),
            ram: machine.ram.total.0,
        };
        let is_fitted = model.release.fits && !settings.no_fit && cards.is_none();
        Ok(Self {
            gpus,
            devices,
            spread,
            options,
            limits,
            draft,
            speculation,
            projector: None,
            cards,
            is_fitted,
            margins,
        })
    }

    /// Counts the draft as a part of the margins, as a fit that does not measure it in its trials does.
    pub(super) fn add_draft_to_margins(&mut self, model: &LoadedModel) {
        let Some(draft) = &self.draft else { return };
        let n_ctx = if self.options.n_ctx == 0 { model.hparams.n_ctx_train } else { self.options.n_ctx };
        let draft = draft.for_fit(model, &self.devices, n_ctx, &self.spread);
        for (place, gpu) in self.gpus.iter().enumerate().take(self.devices.len()) {
            self.margins.add_draft(*gpu, draft.total(place));
        }
        self.limits.margins = self.margins.list();
    }

    /// Bytes of the projector on each device, once it is loaded.
    pub fn of_projector(&self) -> Vec<u64> {
        let count = self.gpus.iter().max().map_or(1, |last| last + 2);
        let parts: Vec<Part> = self.projector.iter().flat_map(|projector| projector.parts(count)).collect();
        let held = |gpu: &usize| parts.iter().map(|part| part.devices[*gpu].asked().0).sum();
        self.gpus.iter().map(held).collect()
    }
}

fn options(model: &LoadedModel, settings: &Settings, speculation: &Speculation) -> ContextParams {
    let (type_k, type_v) = cache_types(settings);
    let release = model.release;
    let n_seq_max = settings.parallel.unwrap_or(release.slots);
    let (n_batch, n_ubatch) = (settings.batch.unwrap_or(BATCH), settings.ubatch.unwrap_or(UBATCH));
    let embeddings = embeddings(model, settings);
    // texts for embeddings are computed in one ubatch each (`server.cpp`)
    let n_batch = if embeddings.is_some() { n_batch.min(n_ubatch) } else { n_batch };
    // `server_output_limits` in `server-context.cpp`
    let all_outputs = embeddings.is_some() || settings.pooling.is_some_and(|pooling| pooling != Pooling::None);
    ContextParams {
        n_ctx: match settings.ctx {
            Context::Auto => {
                let default = if release.fits { 0 } else { CONTEXT_BEFORE_FIT };
                settings.ctx_per_slot.map_or(default, |each| each.saturating_mul(n_seq_max))
            }
            Context::Tokens(tokens) => tokens,
            Context::Max => model.hparams.n_ctx_train,
        },
        n_batch,
        n_ubatch,
        n_seq_max,
        n_outputs_max: match settings.outputs {
            Outputs::Parallel if all_outputs => n_batch,
            Outputs::Parallel => speculation.outputs(n_seq_max, n_batch),
            Outputs::Ubatch => 0,
            Outputs::Tokens(tokens) => tokens,
        },
        type_k: type_k.format(),
        type_v: type_v.format(),
        flash_attn: if settings.split_mode == SplitMode::Tensor { FlashAttn::On } else { settings.flash_attn },
        embeddings,
        kv_unified: settings.kv_unified || (settings.parallel.is_none() && release.slots > 1),
        offload_kqv: !settings.no_kv_offload,
        op_offload: !settings.no_op_offload,
        swa_full: settings.swa_full,
        moe_cache: settings.moe_cache.filter(|bytes| bytes.0 > 0).map(|bytes| MoeCacheRequest {
            bytes: bytes.0,
            proportions: settings.tensor_split.iter().map(|share| *share as f32).collect(),
        }),
        pipeline_refused: settings.pipeline_refused,
        unread_inputs: settings.unread_inputs,
        ..ContextParams::default()
    }
}

/// Refuses what llama.cpp refuses of a split by tensors (`llama_prepare_model_devices` in `llama.cpp`, `llama_model_create`
/// and `llama_init_from_model`, 0.1.161).
fn refuse_tensor_split(model: &LoadedModel, gpus: &[usize], settings: &Settings) -> Result<(), EngineError> {
    let why = if gpus.is_empty() {
        "llama.cpp refuses --split-mode tensor: it needs a GPU"
    } else if model.family.architecture.has(Trait::NoTensorSplit) {
        "llama.cpp refuses --split-mode tensor for this architecture: use layer"
    } else if settings.flash_attn == FlashAttn::Off {
        "llama.cpp refuses --split-mode tensor without flash attention: turn it on, or use layer"
    } else {
        return Ok(());
    };
    Err(EngineError::Settings(why.to_owned()))
}

/// How the embeddings that are asked for are pooled; none where none are. Models that are made for them are asked for them.
fn embeddings(model: &LoadedModel, settings: &Settings) -> Option<Pooling> {
    if settings.reranking {
        return Some(Pooling::Rank);
    }
    let asked = settings.embeddings.unwrap_or_else(|| model.is_embedder());
    asked.then(|| settings.pooling.or(model.hparams.pooling).unwrap_or(Pooling::None))
}

/// The settings in effect.
pub fn in_effect(
    context: &context::Cparams,
    params: &ServerParams<'_>,
    model: &LoadedModel,
    settings: &Settings,
) -> InEffect {
    let (cache_type_k, cache_type_v) = cache_types(settings);
    InEffect {
        ctx: context.n_ctx,
        ctx_per_sequence: context.n_ctx_seq,
        ctx_total: context.n_ctx,
        parallel: context.n_seq_max,
        batch: context.n_batch,
        ubatch: context.n_ubatch,
        cache_type_k,
        cache_type_v,
        flash_attn: if context.flash_attn { FlashAttn::On } else { FlashAttn::Off },
        gpu_layers: match settings.gpu_layers {
            GpuLayers::Auto => -1,
            _ => i64::try_from(params.spread.gpu_layers.unwrap_or(0)).unwrap_or(i64::MAX),
        },
        kv_unified: Some(context.kv_unified),
        outputs: Some(context.reserved().n_outputs),
        embeddings: context.embeddings,
        program: Some(settings.program).filter(|program| *program != LlamaProgram::Server),
        n_cpu_moe: Some(settings.n_cpu_moe.unwrap_or(0).min(model.hparams.n_layer_all as u64)),
        n_cpu_ffn: settings.n_cpu_ffn.map(|count| count.min(model.hparams.n_layer_all as u64)),
        override_tensor: settings.override_tensor.iter().map(ToString::to_string).collect(),
        split_mode: Some(settings.split_mode).filter(|mode| *mode != SplitMode::Layer).map(SplitMode::name),
        release: Some(settings.llama_cpp().release),
        build: settings.llama_cpp().build,
        spec_type: params.speculation.names(),
        spec_draft_n_max: params.speculation.has_context().then_some(params.speculation.n_max),
        // `auto` maps, unless a device cannot
        load_mode: Some(settings.load_mode.unwrap_or_default()),
        cache_ram: (model.hparams.causal && settings.program.serves())
            .then(|| settings.cache_ram.unwrap_or(PROMPT_CACHE)),
        ctx_checkpoints: settings.ctx_checkpoints,
        ..InEffect::default()
    }
}

/// Types of K and V.
pub fn cache_types(settings: &Settings) -> (CacheType, CacheType) {
    (settings.cache_type_k.unwrap_or(CacheType::F16), settings.cache_type_v.unwrap_or(CacheType::F16))
}

// The result of the fit, before any explanations.
