//! A plan for llama-server: its options and their defaults, the model as placed, the plan of it, and an upper bound that is
//! known before.

mod confidence;

use std::sync::Arc;

use super::adapters::Adapted;
use super::architecture::Trait;
use super::cache::Memory;
use super::context::{self, ContextParams, Cparams};
use super::devices::{self, Device, backend, gpus};
use super::draft::{self, DraftMemory, DraftRequest, MainContext};
use super::fit::{FitLimits, FitResult, NoRoom, fit_for, without_fit};
use super::homes::WeightsInRam;
use super::loaded::LoadedModel;
use super::margins::Margins;
use super::measure::{AllocationDetails, MeasuredGraphs, Measurer, MemoryBreakdown, Reservation};
use super::moe_cache::MoeCacheRequest;
use super::overrides::{self, UserOverrides};
use super::peak;
use super::placement::{BlockOverride, LayerSplit, OverrideGroup, Placement, SplitRequest};
use super::prepared::PreparedModel;
use super::projector::PlacedProjector;
use super::release::{CONTEXT_BEFORE_FIT, Change, ReleaseTraits, RulesRead};
use super::resolved::ResolvedRequest;
use super::speculation::Speculation;
use super::tensor_split::{self, TensorSplit};
use crate::engine::error::EngineError;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::Cpu;
use crate::engine::goal::FitGoal;
use crate::engine::plan_request::RequestParts;
use crate::engine::preflight::{Preflight, UpperBound};
use crate::machine::budget::CopiedCache;
use crate::machine::{self, BufferLimit, CpuInstructions, Machine};
use crate::plan::{
    BufferUse, Confidence, DevicePlan, FitMargin, GraphPlan, GraphSize, GraphUse, LargestBuffer, LayerPlan, Part,
    PartKind, PartMemory, Peak, Plan, PlanSummary, Reserve, Term, Totals, Uncertainty, Verdict, Why,
};
use crate::settings::EngineId;
use crate::settings::{
    CacheType, Context, FlashAttn, GpuLayers, InEffect, LlamaProgram, LoadMode, Outputs, PROMPT_CACHE, Pooling,
    Settings, SplitMode,
};
use crate::units::Bytes;
pub use confidence::{Evidence, Likeness, ModelledError, evidence};

/// Plans a request.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn plan(request: RequestParts<'_>) -> Result<Plan, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    let mut plan = placed(request, loaded, FitGoal::Most, |placed, measurer, graphs| {
        PlanBuilder { model: request.model, placed, details: measurer.details(graphs) }.plan()
    })?;
    plan.doubt(changes_under_way(request, loaded, &plan));
    Ok(plan)
}

/// Why `plan` is not exact: its build may have a change already with which it is another one.
fn changes_under_way(request: RequestParts<'_>, loaded: &LoadedModel, plan: &Plan) -> Option<Uncertainty> {
    let build = request.settings.llama_cpp_build();
    let later = ReleaseTraits::once_changed(build)?;
    let changes = later.under_way(build, loaded.family.architecture, RulesRead::of(request.machine, request.settings));
    if changes.is_empty() {
        return None;
    }
    let then = request.model.loaded_by(later).and_then(|loaded| {
        placed(request, loaded, FitGoal::Most, |placed, _, _| {
            placed.in_effect() == plan.settings && placed.devices() == plan.devices
        })
    });
    if then.unwrap_or(false) {
        return None;
    }
    let changed = |change: Change| {
        let (old, new) = change.builds();
        format!("{} changed between {old} and {new}", change.what())
    };
    let changes = changes.into_iter().map(changed).collect::<Vec<_>>().join(", ");
    let reason = format!("llama.cpp {build} is planned without what it may have already: {changes}");
    Some(Uncertainty { confidence: Confidence::Modelled, reason })
}

/// The plan without its explanations; none if the goal is not met and the fit stopped.
///
/// # Errors
/// As [`plan`].
pub fn summary(request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    placed(request, loaded, fit_goal, |placed, _, _| (!placed.fitted.missed).then(|| placed.summary()))
}

/// An upper bound known before planning.
///
/// # Errors
/// As [`plan`].
pub fn preflight(RequestParts { model, machine, settings }: RequestParts<'_>) -> Result<Preflight, EngineError> {
    let loaded = model.llama_cpp(settings.llama_cpp_build())?;
    // a bound needs no projector, which takes as long to measure as a model
    let mut params = ServerParams::without_projector(model, loaded, machine, settings)?;
    if params.options.n_ctx == 0 {
        params.options.n_ctx = params.limits.min_context(loaded, &params.options);
    }
    let context = Cparams::new(&params.options, loaded)?;
    let gpus = (0..machine.gpus.len()).map(|gpu| params.gpus.contains(&gpu)).collect();
    let upper_bound = LowerBound { loaded, params: &params, context: &context, machine }.upper_bound();
    Ok(Preflight { settings: in_effect(&context, &params, loaded, settings), gpus, upper_bound, refused: false })
}

/// The request to llama.cpp after the fit.
///
/// # Errors
/// As [`plan`].
pub fn resolve(request: RequestParts<'_>) -> Result<ResolvedRequest, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    placed(request, loaded, FitGoal::Most, |PlacedModel { loaded, params, .. }, _, _| {
        let ServerParams { gpus, devices, spread, options, .. } = params;
        ResolvedRequest { loaded: loaded.clone(), gpus, devices, spread, options }
    })
}

/// What `then` makes of the model, as `loaded` and placed by the fit, and of the graphs of its load.
fn placed<'a, T>(
    request: RequestParts<'a>,
    loaded: &'a LoadedModel,
    fit_goal: FitGoal,
    then: impl FnOnce(PlacedModel<'a>, &Measurer<'_>, MeasuredGraphs) -> T,
) -> Result<T, EngineError> {
    let RequestParts { model, machine, settings } = request;
    let params = ServerParams::new(model, loaded, machine, settings)?;
    let devices = params.devices.clone();
    let measurer = Measurer::new(loaded, &devices);
    let (placed, graphs) = PlacedModel::new(request, loaded, &measurer, params, fit_goal)?;
    Ok(then(placed, &measurer, graphs))
}

/// A device's memory left for layers.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceRoom {
    /// Bytes left after the graph and the layers placed so far.
    left: Bytes,
    /// Of those, the margin that the fit keeps free.
    margin: Bytes,
}

struct PlanBuilder<'a> {
    model: &'a PreparedModel,
    placed: PlacedModel<'a>,
    details: AllocationDetails,
}

impl PlanBuilder<'_> {
    fn plan(self) -> Plan {
        let parts = self.placed.parts();
        let devices = self.placed.devices();
        let layers = self.layers(&devices, &parts[0]);
        let totals = Totals::of(&devices);
        let offloaded = self.placed.measured().offloaded();
        let verdict = Verdict::of(&devices, offloaded, layers.len(), false);
        let uncertainties = self.uncertainties();
        let mut plan = Plan {
            engine: EngineId::LlamaCpp,
            origin: self.placed.machine.origin,
            confidence: Uncertainty::worst(&uncertainties),
            model: self.model.summary(),
            settings: self.placed.in_effect(),
            graph: self.graph(layers.len(), &devices),
            offloaded,
            notes: self.notes(&uncertainties),
            uncertainties,
            decided: Vec::new(),
            parts,
            devices,
            layers,
            totals,
            estimate: None,
            own_caches: None,
            v_transposed: self.details.memory.v_transposed(),
            verdict,
            refusal: None,
            ollama_ps: None,
        };
        let without = plan.without_pipeline();
        plan.notes.extend(without.map(|without| format!("it runs {without}: its compute buffers with it do not fit")));
        plan
    }

    /// How many layers have weights on other devices, and what places none there.
    fn notes_on_overrides(&self) -> Vec<String> {
        let LayerSplit { overrides: by_fit, by_user, .. } = &self.placed.fitted.spread;
        let mut notes = Vec::new();
        if by_user.is_given {
            let elsewhere = self.placed.placement().weights_elsewhere(self.placed.loaded);
            let layers = elsewhere.iter().filter(|bytes| **bytes > 0).count();
            let note = || format!("{layers} of the layers have weights on another device, as you asked");
            notes.extend((layers > 0).then(note));
        } else if !by_fit.is_empty() {
            let layers = by_fit.len();
            notes.push(format!("{layers} layers have weights on another device: experts or feed-forward tensors"));
        }
        let idle = overrides::without_effect(&self.placed.settings.override_tensor, &self.model.header);
        let of_none = |one: String| format!("'{one}' of --override-tensor places no tensor of this model");
        notes.extend(idle.into_iter().map(of_none));
        notes
    }

    /// Why the figures are not exact.
    fn uncertainties(&self) -> Vec<Uncertainty> {
        let PlacedModel { loaded, params, machine, .. } = &self.placed;
        let gpus = params.gpus.iter().filter_map(|gpu| machine.gpus.get(*gpu));
        let architecture = &self.model.architecture;
        let build = self.placed.settings.llama_cpp();
        let mut found = confidence::uncertainties(loaded, build, architecture, machine.os, gpus);
        found.extend(Uncertainty::of_weights(self.model));
        if self.placed.settings.split_mode == SplitMode::Row {
            let reason = "how a split by rows divides matrices is modelled as one by layers".to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        if params.cards.is_some() {
            let reason =
                "what each card holds of a split by tensors was read from llama.cpp's source: it measures all cards \
                          as one device"
                    .to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        if self.placed.settings.backend_sampling {
            let reason = "what --backend-sampling adds to the graph is not counted".to_owned();
            found.push(Uncertainty { confidence: Confidence::Modelled, reason });
        }
        let draft = params.draft.as_ref().and_then(|draft| draft.model);
        found.extend(draft.and_then(confidence::of_draft));
        let modelled = params.projector.as_ref().and_then(|projector| projector.modelled.clone());
        found.extend(modelled.map(|reason| Uncertainty { confidence: Confidence::Modelled, reason }));
        found
    }

    fn layers(&self, devices: &[DevicePlan], model: &Part) -> Vec<LayerPlan> {
        let placement = self.placed.placement();
        let weights = placement.weights_by_layer(self.placed.loaded);
        let elsewhere = placement.weights_elsewhere(self.placed.loaded);
        let outputs = weights.len().saturating_sub(1);
        let mut room: Vec<DeviceRoom> = devices
            .iter()
            .zip(&model.devices)
            .map(|(device, own)| {
                let others = device.asked() - own.asked();
                DeviceRoom { left: device.free - own.graph - others, margin: device.reserved() }
            })
            .collect();
        let experts = Placement::expert_weights(self.placed.loaded);
        let experts = |index: usize| Bytes(experts.get(index).copied().unwrap_or(0));
        let (mut refused_layer, mut behind) = (None, None);
        // GPUs are filled from the last layer to the first
        let mut layers: Vec<LayerPlan> = (0..weights.len())
            .rev()
            .map(|index| {
                let device = self.placed.layer_device(index);
                let cache = Bytes(if index < outputs { self.details.memory.of_block(index) } else { 0 });
                let weights = Bytes(weights[index]);
                let elsewhere = Bytes(elsewhere.get(index).copied().unwrap_or(0));
                let needed = weights + cache - elsewhere;
                let why = self.why(device, needed, elsewhere, &room, needed - experts(index), refused_layer);
                if matches!(why, Why::NoRoom { .. }) {
                    refused_layer = Some(index);
                }
                if let Some(room) = room.get_mut(device) {
                    room.left = room.left - needed;
                }
                let per_token = if index < outputs { self.details.memory.per_token(index) } else { Bytes::ZERO };
                let hparams = &self.placed.loaded.hparams;
                // what the formula of a block's caches depends on: most have that of the block behind them
                let kind = (cache, per_token, hparams.n_head_kv.get(index), hparams.is_swa.get(index), index < outputs);
                let known = behind.take().filter(|(known, _)| *known == kind).map(|(_, term)| term);
                let cache_term = known.unwrap_or_else(|| {
                    let of_block = || self.details.memory.term(hparams, index);
                    Arc::new(if index < outputs { of_block() } else { Term::nothing("cache") })
                });
                behind = Some((kind, Arc::clone(&cache_term)));
                LayerPlan { index, device, weights, cache, per_token, cache_term, why }
            })
            .collect();
        layers.reverse();
        layers
    }

    /// The reason for a layer's device. `needed` are its bytes there, `elsewhere` its weights on other devices, `room`
    /// the bytes left on every device after the layers behind it, `own` what the fit tried to place of it,
    /// `refused_layer` the layer behind it that was the first without room.
    fn why(
        &self,
        device: usize,
        needed: Bytes,
        elsewhere: Bytes,
        room: &[DeviceRoom],
        own: Bytes,
        refused_layer: Option<usize>,
    ) -> Why {
        let on_gpu = device < self.placed.machine.gpus.len();
        let room = |device: usize| room.get(device).copied().unwrap_or_default();
        let left = |device: usize| room(device).left - room(device).margin;
        match (on_gpu, self.placed.settings.gpu_layers) {
            _ if self.placed.params.gpus.is_empty() => Why::NoGpu,
            (true, _) if elsewhere > Bytes::ZERO => Why::InPart { needed, elsewhere },
            (true, GpuLayers::Auto) if !self.placed.params.is_fitted => Why::AskedFor,
            // if the total of all GPUs suffices, a single GPU may be filled into its margin
            (true, GpuLayers::Auto) if needed > left(device) => Why::Fits { needed, room: room(device).left },
            (true, GpuLayers::Auto) => Why::Fits { needed, room: left(device) },
            (true, _) => Why::AskedFor,
            (false, GpuLayers::Auto) => {
                let Some(NoRoom { gpu, needed, room }) = self.placed.fitted.refused else { return Why::NotCounted };
                let (device, needed, room) = (self.placed.device_of(gpu), Bytes(needed), Bytes(room));
                match refused_layer {
                    Some(layer) if room > Bytes::ZERO => Why::GivenUp { device, layer, needed, room, own },
                    _ => Why::NoRoom { needed, room, device },
                }
            }
            (false, _) => Why::NotAskedFor,
        }
    }

    fn graph(&self, layer_count: usize, devices: &[DevicePlan]) -> GraphPlan {
        let compute = &self.placed.measured().compute;
        let peak = |(place, bytes): (u8, &u64)| {
            let largest = self.details.largest_on(place);
            peak::peak(self.placed.device_of(usize::from(place)), place, *bytes, &largest)
        };
        let peaks: Vec<Peak> = (0_u8..).zip(compute).map(peak).collect();
        let name = |device: usize| devices.get(device).map(|device| device.id.clone()).unwrap_or_default();
        let branches = peaks.iter().map(|peak| peak::branch(name(peak.device), peak)).collect();
        let winner = (0..compute.len()).rev().max_by_key(|at| compute.get(*at)).unwrap_or(0);
        let bytes = Bytes(compute.get(winner).copied().unwrap_or(0));
        let size = GraphSize { bytes, own: bytes, branches, winner };
        let why = "each device reserves its own compute buffer; this is the peak of the largest".to_owned();
        let used = if self.placed.measured().offloaded() < layer_count { GraphUse::Partial } else { GraphUse::Full };
        // there is only one graph, for the layers as placed
        let (partial, full) = (size.clone(), size);
        GraphPlan { partial, full, used, why, legend: Vec::new(), peaks }
    }

    fn notes(&self, uncertainties: &[Uncertainty]) -> Vec<String> {
        let mut notes = self.model.header.notes.clone();
        notes.extend(self.model.note_on_projector(self.placed.settings.projector.as_deref()));
        notes.push(self.placed.settings.llama_cpp().to_string());
        notes.extend(uncertainties.iter().map(|uncertainty| uncertainty.reason.clone()));
        if !self.placed.loaded.release.fits && !self.placed.settings.no_fit {
            notes.push(format!(
                "this release fits nothing to free memory: where they are not set, all layers are on GPUs and the context \
                 has {CONTEXT_BEFORE_FIT} tokens"
            ));
        }
        if self.placed.params.cards.is_some() && !self.placed.settings.no_fit {
            notes.push("llama.cpp does not fit a model that is split by tensors: nothing was adjusted".to_owned());
        }
        if let Some(failure) = &self.placed.fitted.failure {
            notes.push(format!("the fit failed: {failure}"));
        }
        if let Some(projector) = &self.placed.params.projector {
            notes.extend(projector.notes.iter().cloned());
        }
        notes.extend(self.notes_on_overrides());
        notes.extend(self.placed.note_on_repacking());
        notes.extend(self.placed.notes_on_draft());
        for option in EngineId::LlamaCpp.facts().ignored(self.placed.settings) {
            notes.push(format!("{option} is ignored: llama.cpp has no such option"));
        }
        notes
    }
}

// llama-server's options and their defaults (`common/arg.cpp` and `tools/server/server.cpp`, 0.1.161).

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
    fn without_projector(
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
}

impl ServerParams<'_> {
    /// Counts the draft as a part of the margins, as a fit that does not measure it in its trials does.
    fn add_draft_to_margins(&mut self, model: &LoadedModel) {
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

/// A request and its fit.
pub struct PlacedModel<'a> {
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub loaded: &'a LoadedModel,
    /// As left by the fit.
    pub params: ServerParams<'a>,
    pub fitted: FitResult,
    /// What a load of it takes.
    load: MemoryBreakdown,
    /// The draft, if one stays loaded.
    pub draft: Option<DraftMemory>,
    /// Its file as the user named it.
    draft_file: Option<&'a str>,
    /// Bytes of adapters per device, RAM last, if there are any.
    adapters: Option<Vec<u64>>,
    /// The compute buffers with the products of adapters, once they are used.
    adapted_graph: Option<Vec<u64>>,
}

impl<'a> PlacedModel<'a> {
    /// Runs the fit, and measures the load with the graphs that the fit measured where they are the same.
    ///
    /// # Errors
    /// When llama.cpp refuses the settings.
    pub fn new(
        RequestParts { model: prepared, machine, settings }: RequestParts<'a>,
        loaded: &'a LoadedModel,
        measurer: &Measurer<'_>,
        mut params: ServerParams<'a>,
        fit_goal: FitGoal,
    ) -> Result<(Self, MeasuredGraphs), EngineError> {
        let (fitted, graphs) = if params.is_fitted {
            if loaded.release.margins_for_draft && !loaded.release.fits_draft {
                params.add_draft_to_margins(loaded);
            }
            let in_trials = params.draft.as_ref().filter(|_| loaded.release.fits_draft);
            fit_for(fit_goal, measurer, in_trials, &params.spread, &params.options, &params.limits)?
        } else {
            without_fit(measurer, &params.spread, &params.options)?
        };
        params.options.n_ctx = fitted.n_ctx;
        params.spread = fitted.spread.clone();
        let placement = loaded.place(&params.devices, &params.spread);
        // what misses its goal is not loaded
        let reservation = if fitted.missed { Reservation::Measured } else { Reservation::Loaded };
        let (load, graphs) = measurer.reserve(&placement, &params.options, reservation, graphs, None)?;
        let used = params.draft.as_ref().filter(|_| params.speculation.has_context());
        let main = MainContext {
            model: loaded,
            devices: &params.devices,
            spread: &params.spread,
            options: &params.options,
            measured: &load,
            later: &params.of_projector(),
            reservation: Reservation::Loaded,
        };
        let draft = used.map(|draft| draft.measure(&main)).transpose()?;
        let draft_file = prepared.draft().map(|draft| draft.file.as_str());
        let backends = devices::backends(&params.devices);
        let adapted = Adapted { model: loaded, header: &prepared.header, placement: &placement, backends: &backends };
        let pairs = adapted.pairs(settings)?;
        let adapters = adapted.bytes(&pairs, !settings.control_vectors.is_empty());
        let adapted_graph = if pairs.is_empty() {
            None
        } else {
            let options = ContextParams { adapters: Some(Arc::new(pairs)), ..params.options.clone() };
            Some(measurer.measure(&placement, &options, Reservation::Loaded)?.compute)
        };
        let placed =
            Self { machine, settings, loaded, params, fitted, load, draft, draft_file, adapters, adapted_graph };
        Ok((placed, graphs))
    }

    /// The plan without its explanations.
    pub fn summary(self) -> PlanSummary {
        let (devices, offloaded, layer_count) = (self.devices(), self.measured().offloaded(), self.layer_count());
        let verdict = Verdict::of(&devices, offloaded, layer_count, false);
        PlanSummary { settings: self.in_effect(), devices, layer_count, offloaded, verdict, refused: false }
    }

    /// The allocated bytes.
    pub fn measured(&self) -> &MemoryBreakdown {
        &self.load
    }

    /// The device of every tensor.
    pub fn placement(&self) -> Placement {
        self.loaded.place(&self.params.devices, &self.params.spread)
    }

    fn blocks(&self) -> usize {
        self.loaded.loaded_blocks(self.params.spread.load_mtp)
    }

    /// Number of blocks plus the output layer.
    pub fn layer_count(&self) -> usize {
        self.blocks() + 1
    }

    pub fn in_effect(&self) -> InEffect {
        let image_max_tokens = self.params.projector.as_ref().and_then(PlacedProjector::image_max_tokens);
        let effect = in_effect(&self.measured().parameters, &self.params, self.loaded, self.settings);
        InEffect { image_max_tokens, ..effect }
    }

    /// The plan's device for a device of the schedule.
    pub fn device_of(&self, place: usize) -> usize {
        let gpu = self.params.gpus.get(place).filter(|_| place < self.params.devices.len());
        gpu.copied().unwrap_or(self.machine.gpus.len())
    }

    /// The device of this layer: a block, or the output layer after the blocks.
    pub fn layer_device(&self, layer: usize) -> usize {
        let blocks = self.blocks();
        let layer_devices = &self.measured().layer_devices;
        let block = layer_devices.get(layer).filter(|_| layer < blocks);
        self.device_of(usize::from(block.or(layer_devices.last()).copied().unwrap_or(0)))
    }

    /// The keys and values that flash attention may copy; none without it.
    fn copied_cache(&self) -> Option<CopiedCache> {
        let (context, hparams) = (&self.measured().parameters, &self.loaded.hparams);
        let (k, v) = cache_types(self.settings);
        let full = (0..hparams.n_layer()).filter(|il| hparams.attends[*il] && !hparams.is_swa[*il]);
        let elements = full.map(|il| hparams.k_gqa(il) + hparams.v_gqa(il)).max()?;
        let is_f16 = [k, v].iter().all(|ty| *ty == CacheType::F16);
        context.flash_attn.then_some(CopiedCache { elements, tokens: context.n_ctx, is_f16 })
    }

    /// The devices with the sums over all parts.
    pub fn devices(&self) -> Vec<DevicePlan> {
        let mut devices = DevicePlan::all_of(self.machine);
        let cache = self.copied_cache();
        for (at, device) in devices.iter_mut().enumerate() {
            let (reserve, margin) = self.margin(at).unzip();
            (device.reserves, device.margin) = (reserve.into_iter().collect(), margin);
            device.driver = device.driver.zip(cache).map(|(driver, cache)| driver.beside(cache)).or(device.driver);
        }
        let parts = self.parts();
        Part::sum_into(&parts, &mut devices);
        if let Some(ram) = devices.last_mut() {
            let of_adapters = self.adapters.as_ref().and_then(|bytes| bytes.last()).copied().unwrap_or(0);
            ram.mapped = match self.settings.load_mode.unwrap_or_default() {
                LoadMode::Mmap => ram.weights - ram.repacked - ram.read_once - Bytes(of_adapters),
                _ => self.loaded.lazy_table(self.settings.lazy_mode),
            };
        }
        for place in 0..=self.params.devices.len() {
            if let Some(device) = devices.get_mut(self.device_of(place)) {
                let of_load = self.load.compute.get(place);
                let of = |bytes: &u64| Bytes(*bytes);
                device.graph_measured =
                    self.fitted.measured.compute.get(place).filter(|it| Some(*it) != of_load).map(of);
                device.graph_pipelined = self.load.refused_pipeline.as_ref().and_then(|all| all.get(place)).map(of);
            }
        }
        for (place, &gpu) in self.params.gpus.iter().enumerate() {
            if let Some(device) = devices.get_mut(gpu) {
                device.largest_buffer = self.largest_buffer(place, gpu);
            }
        }
        for layer in 0..self.layer_count() {
            if let Some(device) = devices.get_mut(self.layer_device(layer)) {
                device.layers.push(layer);
            }
        }
        if let Some(ram) = devices.last_mut() {
            let of_model = parts.first().and_then(|model| model.devices.last());
            ram.run = of_model.map_or(Bytes::ZERO, |model| model.weights - model.read_once)
                - Bytes(Placement::input_layer_weights(self.loaded));
            if ram.layers.is_empty() {
                (ram.parts, ram.run_in_part) = (ram.run, ram.run);
                if ram.parts > Bytes::ZERO {
                    ram.experts = Bytes(self.placement().experts_in_ram(self.loaded)).min(ram.parts);
                }
            } else if ram.layers.len() < self.layer_count() {
                // what belongs to no layer is not run through
                let placement = self.placement();
                let by_layer = placement.weights_by_layer(self.loaded);
                let elsewhere = placement.weights_elsewhere(self.loaded);
                let moved = |layer: usize| Bytes(elsewhere.get(layer).copied().unwrap_or(0));
                let of = |layer: &usize| by_layer.get(*layer).map(|bytes| Bytes(*bytes) - moved(*layer));
                let whole: Bytes = ram.layers.iter().filter_map(of).sum();
                let others = (0..elsewhere.len()).filter(|layer| !ram.layers.contains(layer));
                ram.run_in_part = others.map(moved).sum::<Bytes>().min(ram.run - whole);
                ram.run = ram.run.min(whole + ram.run_in_part);
            }
        }
        devices
    }

    /// The largest buffer of the model on a GPU. A backend divides memory that is larger than its driver allows, or than
    /// its own blocks are, but no tensor (`ggml_backend_alloc_ctx_tensors_from_buft` in `ggml-alloc.c`, 0.1.161).
    fn largest_buffer(&self, place: usize, gpu: usize) -> Option<LargestBuffer> {
        let limit = BufferLimit::of(self.machine.gpus.get(gpu)?, self.machine.os);
        let block = self.params.devices.get(place)?.backend.max_buffer();
        let block = limit.map_or(block, |limit| block.min(limit.bytes.0));
        let pieces = self.measured().pieces.get(place)?;
        let sizes = pieces.iter().map(|piece| Bytes(piece.bytes.min(block.max(piece.tensor))));
        let (bytes, holds) = sizes.zip(BufferUse::ALL).max_by_key(|(bytes, _)| *bytes)?;
        (bytes > Bytes::ZERO).then_some(LargestBuffer { bytes, holds, limit })
    }

    /// The model, its projector and its draft.
    pub fn parts(&self) -> Vec<Part> {
        let MemoryBreakdown { model, context, compute, in_ram, .. } = self.measured();
        let ready = self.draft.as_ref().and_then(|draft| draft.main_ready.as_ref());
        let ready = ready.or(self.adapted_graph.as_ref()).unwrap_or(compute);
        let own = self.part(PartKind::Model, None, [model, context, compute, ready], *in_ram);
        let draft = self.draft.as_ref().map(|DraftMemory { draft, draft_ready, .. }| {
            let file = self.draft_file.map(str::to_owned);
            self.part(PartKind::Draft, file, [&draft.model, &draft.context, &draft.compute, draft_ready], draft.in_ram)
        });
        let count = self.machine.gpus.len() + 1;
        let projector = self.params.projector.iter().flat_map(|projector| projector.parts(count));
        let adapters = self.adapters.as_ref().map(|bytes| {
            let files: Vec<String> = self.settings.loras.iter().map(ToString::to_string).collect();
            let files = files.into_iter().chain(self.settings.control_vectors.iter().cloned()).collect::<Vec<_>>();
            let none = vec![0; bytes.len()];
            let in_ram = WeightsInRam::default();
            self.part(PartKind::Adapters, Some(files.join(", ")), [bytes, &none, &none, &none], in_ram)
        });
        [own].into_iter().chain(projector).chain(draft).chain(adapters).collect()
    }

    /// A part from its weights, caches, graphs and final graphs per device, and its weights in RAM by buffers.
    fn part(&self, kind: PartKind, file: Option<String>, bytes: [&Vec<u64>; 4], in_ram: WeightsInRam) -> Part {
        let [weights, cache, graph, ready] = bytes;
        let mut memory: Vec<PartMemory> = weights
            .iter()
            .zip(cache)
            .zip(graph.iter().zip(ready))
            .map(|((weights, cache), (graph, ready))| PartMemory {
                weights: Bytes(*weights),
                cache: Bytes(*cache),
                graph: Bytes(*graph),
                graph_ready: Bytes(*ready),
                ..PartMemory::default()
            })
            .collect();
        if let Some(ram) = memory.last_mut().filter(|_| in_ram.repacked > 0) {
            let mode = self.settings.load_mode.unwrap_or_default();
            ram.repacked = Bytes(in_ram.repacked);
            if mode.maps() {
                ram.weights = Bytes(in_ram.mapped());
            }
            if mode == LoadMode::Mmap {
                ram.read_once = Bytes(in_ram.span) - Bytes(in_ram.others);
            }
        }
        let mut places: Vec<usize> = (0..weights.len()).map(|place| self.device_of(place)).collect();
        if let Some(cards) = &self.params.cards {
            memory = self.on_cards(kind, cards, memory);
            places = self.params.gpus.iter().copied().chain([self.machine.gpus.len()]).collect();
        }
        Part { kind, file, devices: memory }.spread_over(&places, self.machine.gpus.len() + 1)
    }

    /// What each card of a split by tensors has of the memory of their one device, RAM last: parts of matrices and caches,
    /// and a compute buffer as large as the device's (`ggml_backend_meta_buffer_type_alloc_buffer` in
    /// `ggml-backend-meta.cpp`, 0.1.161).
    fn on_cards(&self, kind: PartKind, cards: &TensorSplit, memory: Vec<PartMemory>) -> Vec<PartMemory> {
        let [all, ram @ ..] = memory.as_slice() else { return memory };
        let weights = if kind == PartKind::Model {
            let backends = devices::backends(&self.params.devices);
            self.placement().split_weights(self.loaded, &backends, cards)
        } else {
            cards.divide(all.weights.0, 0)
        };
        let each = weights.into_iter().zip(cards.divide(all.cache.0, 0));
        let each = each.map(|(weights, cache)| PartMemory { weights: Bytes(weights), cache: Bytes(cache), ..*all });
        each.chain(ram.iter().copied()).collect()
    }

    /// What the user should know about weights in a layout of the CPU's own.
    pub fn note_on_repacking(&self) -> Option<String> {
        let parts = self.parts();
        let repacked: Bytes = parts.iter().filter_map(|part| part.devices.last()).map(|memory| memory.repacked).sum();
        let machine::Cpu { instructions, assumed } = self.machine.cpu;
        let how = if assumed { ", assumed; use --cpu to state it" } else { "" };
        (repacked > Bytes::ZERO).then(|| {
            format!(
                "{repacked} of weights in RAM are repacked for the CPU ({instructions}{how}) into memory of their own, \
                 beside the file; --no-repack leaves them in it"
            )
        })
    }

    /// What the user should know about the draft, one sentence each.
    pub fn notes_on_draft(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let states = self.measured().parameters.n_rs_seq;
        if states > 0 && self.loaded.hparams.is_recr.contains(&true) {
            notes.push(format!("recurrent states are kept {} times, to roll back drafted tokens", states + 1));
        }
        if self.params.draft.is_some() && self.draft.is_none() {
            notes.push("the draft model is loaded, counted by the fit and freed again: nothing uses it".to_owned());
        }
        if self.draft.as_ref().is_some_and(|draft| draft.refused_pipeline.is_some()) {
            notes
                .push("the draft runs without pipeline parallelism: its compute buffers with it do not fit".to_owned());
        }
        let parts = self.parts();
        let drafting: Vec<&Part> =
            parts.iter().filter(|part| matches!(part.kind, PartKind::Model | PartKind::Draft)).collect();
        for (at, device) in self.devices().iter().enumerate() {
            let memory = || drafting.iter().filter_map(|part| part.devices.get(at));
            let (graph, ready) = (
                memory().map(|memory| memory.graph).sum::<Bytes>(),
                memory().map(|memory| memory.graph_ready).sum::<Bytes>(),
            );
            if ready > graph {
                let when = if self.draft.is_some() { "when drafting begins" } else { "once the adapters are applied" };
                notes.push(format!("compute buffers on {} grow by {} {when}", device.id, ready - graph));
            }
        }
        notes
    }

    /// What the fit keeps free of a GPU, and how that came about.
    fn margin(&self, gpu: usize) -> Option<(Reserve, FitMargin)> {
        let place = self.params.gpus.iter().position(|used| *used == gpu).filter(|_| self.params.is_fitted)?;
        let margin = self.params.margins.explained(place, gpu, self.machine.gpus.len());
        Some((Reserve { name: "fit margin", bytes: margin.left() }, margin))
    }
}

// An upper bound of a plan: weights and caches must be placed somewhere, whatever the graph adds.

/// The minimum memory of a request.
struct LowerBound<'a> {
    loaded: &'a LoadedModel,
    params: &'a ServerParams<'a>,
    context: &'a Cparams,
    machine: &'a Machine,
}

impl LowerBound<'_> {
    fn upper_bound(&self) -> UpperBound {
        let ServerParams { devices, spread, limits, .. } = self.params;
        let ram = self.machine.ram.free + self.machine.ram.swap_free;
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        if !self.params.is_fitted || spread.is_fixed(devices.len()) {
            let own = devices.iter().map(|device| device.backend.clone()).collect();
            let needed = self.minimum(&self.loaded.place(devices, spread), own);
            let fits =
                needed.iter().zip(free.iter().copied().map(Bytes).chain([ram])).all(|(needed, free)| *needed <= free);
            return if fits { UpperBound::Vram } else { UpperBound::DoesNotFit };
        }
        let vram: Bytes = free.into_iter().map(Bytes).sum();
        let movable = if self.loaded.hparams.n_expert > 0 { self.loaded.hparams.n_layer_all } else { 0 };
        let total: Bytes = self.minimum(&self.all_on(&[], movable), Vec::new()).into_iter().sum();
        if total > vram + ram {
            return UpperBound::DoesNotFit;
        }
        // the minimum: everything on one GPU, and without padding
        let on_gpus = |movable| {
            let minimum = self.minimum(&self.all_on(&[1], movable), vec![Arc::new(Cpu::default())]);
            minimum.first().copied().unwrap_or_default()
        };
        let margins = limits.margins.iter().copied().chain(std::iter::repeat(0));
        let may_take: Bytes =
            devices.iter().zip(margins).map(|(gpu, margin)| Bytes(gpu.free.saturating_sub(margin))).sum();
        if on_gpus(movable) > may_take {
            UpperBound::SomeLayers
        } else if movable > 0 && on_gpus(0) > may_take {
            UpperBound::AllLayers
        } else {
            UpperBound::Vram
        }
    }

    /// All layers on GPUs with `free` memory, or in RAM; of the first `movable` blocks, the tensors that a fit may move
    /// to RAM are there.
    fn all_on(&self, free: &[u64], movable: usize) -> Placement {
        let hparams = &self.loaded.hparams;
        let in_ram = |block| BlockOverride { block, part: OverrideGroup::FeedForward, gpu: None };
        let overrides: Vec<BlockOverride> = (0..movable).map(in_ram).collect();
        Placement::new(
            hparams,
            &SplitRequest {
                gpu_layers: None,
                tensor_split: &[],
                free,
                overrides: &overrides,
                by_user: &UserOverrides::default(),
                load_mtp: self.params.spread.load_mtp,
                output_layer_first: self.loaded.release.output_layer_first,
            },
        )
    }

    /// Weights and caches per device for GPUs of these kinds, RAM last.
    fn minimum(&self, placement: &Placement, mut backends: Vec<BackendRef>) -> Vec<Bytes> {
        backends.push(Arc::new(Cpu::default()));
        self.loaded.without_graph(placement, self.context, &backends).into_iter().map(Bytes).collect()
    }
}

impl LayerSplit {
    /// Whether a fit must not change it.
    fn is_fixed(&self, gpus: usize) -> bool {
        gpus == 0 || self.set_by_user(gpus).is_some()
    }
}

/// The caches of `plan`, which is a plan of `model`, and their shapes. Their devices are in the plan.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn cache_layout(model: &PreparedModel, plan: &Plan, settings: &Settings) -> Result<Memory, EngineError> {
    let effect = &plan.settings;
    let loaded = model.llama_cpp(effect.llama_cpp_build())?;
    let options = ContextParams {
        n_ctx: effect.ctx_total,
        n_batch: effect.batch,
        n_ubatch: effect.ubatch,
        n_seq_max: effect.parallel,
        type_k: effect.cache_type_k.format(),
        type_v: effect.cache_type_v.format(),
        flash_attn: match plan.v_transposed {
            Some(true) => FlashAttn::Off,
            Some(false) => FlashAttn::On,
            None => effect.flash_attn,
        },
        kv_unified: effect.kv_unified.unwrap_or(false),
        swa_full: settings.swa_full,
        ..ContextParams::default()
    };
    let placement = loaded.place(&[], &LayerSplit::default());
    Ok(Measurer::new(loaded, &[]).memory(&placement, &options)?)
}
