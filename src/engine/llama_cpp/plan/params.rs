//! llama-server's options and their defaults (`common/arg.cpp` and `tools/server/server.cpp`, 0.1.161).

use std::sync::Arc;

use super::super::context::{self, ContextParams};
use super::super::draft::DraftRequest;
use super::super::fit::FitLimits;
use super::super::placement::{OverrideGroup, TensorOverride};
use super::super::release::ReleaseTraits;
use super::super::speculative::Speculation;
use super::super::{Device, LayerSplit, LoadedModel};
use super::drafts;
use super::projector::PlacedProjector;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::cuda::MatrixUnits;
use crate::engine::ggml::backend::{Cuda, Metal, Plain, Remote, Sycl, Vulkan};
use crate::engine::id::EngineError;
use crate::engine::prepared::PreparedModel;
use crate::machine::budget::VulkanLimits;
use crate::machine::{Backend, CpuInstructions, Gpu, Machine, Os};
use crate::plan::Part;
use crate::settings::{
    CacheType, Context, FlashAttn, GpuLayers, InEffect, LlamaProgram, Outputs, PROMPT_CACHE, Pooling, Settings,
};
use crate::units::Bytes;

/// Default logical batch, in tokens.
const BATCH: u64 = 2048;
/// Default physical batch, in tokens.
const UBATCH: u64 = 512;
/// Default number of sequences, with unified KV.
const SLOTS: u64 = 4;
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
    /// Bytes that the fit leaves free per GPU besides the projector.
    pub margin: u64,
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
        let speculation = drafts::speculation(prepared, model.release, settings)?;
        let gpus = gpus(machine);
        let used = gpus.iter().filter_map(|gpu| machine.gpus.get(*gpu));
        let devices: Vec<Device> =
            used.map(|gpu| Device { backend: backend(gpu, machine.os, model.release), free: gpu.free.0 }).collect();
        let experts = |block: u64| TensorOverride { block: block as usize, part: OverrideGroup::Experts, gpu: None };
        let blocks = model.hparams.n_layer_all as u64;
        let spread = LayerSplit {
            gpu_layers: match settings.gpu_layers {
                GpuLayers::Auto => None,
                GpuLayers::All => Some(blocks + 1),
                GpuLayers::Count(count) => Some(count),
            },
            tensor_split: settings.tensor_split.iter().map(|share| *share as f32).collect(),
            load_mtp: speculation.is_mtp(),
            repack_for: if settings.no_repack { CpuInstructions::None } else { machine.cpu.instructions },
            overrides: (0..settings.n_cpu_moe.unwrap_or(0).min(blocks)).map(experts).collect(),
        };
        let margin = settings.fit_target.unwrap_or(MARGIN).0;
        let options = speculation.main(options(model, settings, &speculation), model.release);
        let draft = drafts::request(prepared, model, &gpus, settings, &spread, &options, &speculation)?;
        let n_ubatch = options.n_ubatch.min(options.n_batch);
        let n_embd = model.hparams.n_embd_inp();
        let projector = PlacedProjector::new(machine, settings, model.release, n_ubatch, n_embd)?;
        let mut margins = vec![margin; gpus.len().max(1)];
        if let Some((projector, gpu)) = projector.as_ref().and_then(|projector| Some((projector, projector.gpu?)))
            && let Some(margin) = margins.get_mut(gpu)
        {
            *margin += projector.fit_bytes();
        }
        let limits = FitLimits { margins, min_ctx: settings.fit_ctx.unwrap_or(MIN_CONTEXT), ram: machine.ram.total.0 };
        Ok(Self { gpus, devices, spread, options, limits, draft, speculation, projector, margin })
    }
}

impl ServerParams<'_> {
    /// The limits of a fit that does not measure the draft in its trials: it is a part of the margins.
    pub fn limits_with_draft(&self, model: &LoadedModel) -> FitLimits {
        let mut limits = self.limits.clone();
        let Some(draft) = self.draft.as_ref().filter(|_| !model.release.fits_draft) else { return limits };
        let n_ctx = if self.options.n_ctx == 0 { model.hparams.n_ctx_train } else { self.options.n_ctx };
        let draft = draft.for_fit(model, &self.devices, n_ctx, &self.spread);
        limits.margins.iter_mut().enumerate().for_each(|(at, margin)| *margin += draft.total(at));
        limits
    }

    /// Bytes of the projector on each device, once it is loaded.
    pub fn of_projector(&self) -> Vec<u64> {
        let count = self.gpus.iter().max().map_or(1, |last| last + 2);
        let parts: Vec<Part> = self.projector.iter().flat_map(|projector| projector.parts(count)).collect();
        let held = |gpu: &usize| parts.iter().map(|part| part.devices[*gpu].asked().0).sum();
        self.gpus.iter().map(held).collect()
    }
}

/// What llama.cpp's backend for `gpu` decides in this release.
pub fn backend(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> BackendRef {
    let cuda = |units| Cuda { units, rules: release.cuda, events: true };
    let own: BackendRef = match gpu.backend {
        Backend::Cuda => Arc::new(cuda(MatrixUnits::of(gpu.compute))),
        Backend::Rocm => Arc::new(cuda(MatrixUnits::None)),
        Backend::Metal => Arc::new(Metal { rules: release.metal }),
        Backend::Vulkan => Arc::new(vulkan(gpu, os, release)),
        Backend::Sycl => Arc::new(Sycl),
        Backend::Plain => Arc::new(Plain),
    };
    if gpu.computer.is_some() { Arc::new(Remote(own)) } else { own }
}

fn vulkan(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> Vulkan {
    let (VulkanLimits { align, host_align, max_tensor, max_buffer }, ..) = VulkanLimits::of(gpu, os);
    Vulkan { alignment: align, host_alignment: host_align, max_tensor, max_buffer, rules: release.vulkan }
}

/// The machine's GPUs in the order in which they get layers: those of other computers first, then the local ones,
/// integrated ones only if there are no others (`llama_prepare_model_devices` in `llama.cpp`, 0.1.161).
pub fn gpus(machine: &Machine) -> Vec<usize> {
    let of = |wanted: &dyn Fn(&Gpu) -> bool| -> Vec<usize> {
        let list = machine.gpus.iter().enumerate();
        list.filter(|(_, gpu)| wanted(gpu)).map(|(at, _)| at).collect()
    };
    let remote = of(&|gpu| gpu.computer.is_some());
    let discrete = of(&|gpu| gpu.computer.is_none() && !gpu.integrated);
    let local = if discrete.is_empty() { of(&|gpu| gpu.computer.is_none()) } else { discrete };
    [remote, local].concat()
}

fn options(model: &LoadedModel, settings: &Settings, speculation: &Speculation) -> ContextParams {
    let (type_k, type_v) = cache_types(settings);
    let n_seq_max = settings.parallel.unwrap_or(SLOTS);
    let (n_batch, n_ubatch) = (settings.batch.unwrap_or(BATCH), settings.ubatch.unwrap_or(UBATCH));
    let embeddings = embeddings(model, settings);
    // texts for embeddings are computed in one ubatch each (`server.cpp`)
    let n_batch = if embeddings.is_some() { n_batch.min(n_ubatch) } else { n_batch };
    // `server_output_limits` in `server-context.cpp`
    let all_outputs = embeddings.is_some() || settings.pooling.is_some_and(|pooling| pooling != Pooling::None);
    ContextParams {
        n_ctx: match settings.ctx {
            Context::Auto => 0,
            Context::Tokens(tokens) => tokens,
            Context::Max => model.hparams.n_ctx_train,
        },
        n_batch,
        n_ubatch,
        n_seq_max,
        n_outputs_max: match settings.outputs {
            Outputs::Parallel if all_outputs => 0,
            Outputs::Parallel => speculation.outputs(n_seq_max, n_batch),
            Outputs::Ubatch => 0,
            Outputs::Tokens(tokens) => tokens,
        },
        type_k: type_k.format(),
        type_v: type_v.format(),
        flash_attn: settings.flash_attn,
        embeddings,
        kv_unified: settings.kv_unified || settings.parallel.is_none(),
        offload_kqv: !settings.no_kv_offload,
        op_offload: !settings.no_op_offload,
        swa_full: settings.swa_full,
        pipeline_refused: settings.pipeline_refused,
        ..ContextParams::default()
    }
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
        image_max_tokens: None,
        release: Some(model.release.name),
        build: settings.build,
        spec_type: params.speculation.names(),
        spec_draft_n_max: params.speculation.has_context().then_some(params.speculation.n_max),
        // `auto` maps, unless a device cannot
        load_mode: Some(settings.load_mode.unwrap_or_default()),
        cache_ram: (model.hparams.causal && settings.program.serves())
            .then(|| settings.cache_ram.unwrap_or(PROMPT_CACHE)),
        ctx_checkpoints: settings.ctx_checkpoints,
        sources: std::collections::BTreeMap::new(),
    }
}

/// Types of K and V.
pub fn cache_types(settings: &Settings) -> (CacheType, CacheType) {
    (settings.cache_type_k.unwrap_or(CacheType::F16), settings.cache_type_v.unwrap_or(CacheType::F16))
}
