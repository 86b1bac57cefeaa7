//! Trace of llama.cpp's measurement of a plan: the reserved graph, its scheduling and its allocation; and how its tensors
//! are named.

use crate::engine::PlanRequest;
use crate::engine::ggml::schedule::PassTrace as Passes;
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId};
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::llama_cpp::{AllocationDetails, MemoryBreakdown, ResolvedRequest};
use crate::engine::{self, EngineError, EngineId, RequestParts};
use crate::plan::{PartKind, Plan};
use crate::settings::{Context, GpuLayers, Settings};
use crate::units::Bytes;

/// A request to llama.cpp and the record of its measurement.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The request.
    pub resolved: ResolvedRequest,
    /// The memory that is allocated.
    pub measured: MemoryBreakdown,
    /// Graph, schedule and allocation of the compute buffers.
    pub details: AllocationDetails,
    /// The device of every tensor after each pass of the scheduler.
    pub passes: Passes,
    /// The devices, by their indices in the schedule.
    pub homes: Vec<ScheduleDevice>,
    /// One sentence on what the graph does not show, or if the engine builds none and llama.cpp's is shown instead.
    pub remark: Option<String>,
}

/// A device of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleDevice {
    /// As in the plan: `GPU0`, `CPU`.
    pub id: String,
    /// Index into [`Plan::devices`].
    pub device: usize,
    /// Alignment of allocations, in bytes.
    pub alignment: u64,
}

impl Trace {
    /// The measurement behind `plan`, the plan of `request`; for an engine that only estimates, that of a request to
    /// llama.cpp with the same layers, context, batch and cache types.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        let own = engine::of(request.engine).resolve(request.parts())?;
        let (resolved, remark) = match own {
            Some(resolved) => (resolved, beside(plan)),
            None => of_llama_cpp(request, plan)?,
        };
        let cpu = plan.devices.len().saturating_sub(1);
        let devices = resolved.gpus.iter().copied().chain([cpu]);
        let home = |(device, backend): (usize, BackendRef)| ScheduleDevice {
            id: plan.devices.get(device).map(|device| device.id.clone()).unwrap_or_default(),
            device,
            alignment: backend.alignment(),
        };
        let homes = devices.zip(resolved.backends()).map(home).collect();
        Self::measure(resolved, homes, remark)
    }

    /// The measurement of a changed request on the same devices.
    ///
    /// # Errors
    /// If llama.cpp refuses it.
    pub fn again(&self, resolved: ResolvedRequest) -> Result<Self, EngineError> {
        Self::measure(resolved, self.homes.clone(), self.remark.clone())
    }

    fn measure(
        resolved: ResolvedRequest,
        homes: Vec<ScheduleDevice>,
        remark: Option<String>,
    ) -> Result<Self, EngineError> {
        let mut passes = Passes::new();
        let (measured, details) = resolved.measure_traced(&mut passes)?;
        Ok(Self { resolved, measured, details, passes, homes, remark })
    }
}

/// The request to llama.cpp that is shown for an engine that builds no graph, and a sentence that says so.
fn of_llama_cpp(request: &PlanRequest, plan: &Plan) -> Result<(ResolvedRequest, Option<String>), EngineError> {
    let settings = llama_cpp_settings(plan, &request.settings);
    let parts = RequestParts { settings: &settings, ..request.parts() };
    let resolved = engine::of(EngineId::LlamaCpp).resolve(parts)?;
    let mut resolved =
        resolved.ok_or_else(|| EngineError::Settings("llama.cpp builds no graph for this".to_owned()))?;
    if plan.offloaded > 0 && resolved.gpus.len() > 1 {
        let layers = |gpu: &usize| plan.devices.get(*gpu).map_or(0, |device| device.layers.len());
        resolved.spread.tensor_split = resolved.gpus.iter().map(|gpu| layers(gpu) as f32).collect();
    }
    let remark = format!(
        "{} estimates and builds no graph: this is llama.cpp's (release {}), with the same layers on GPU, context, \
         batch and cache types.",
        request.engine.title(),
        resolved.loaded.release.name
    );
    Ok((resolved, Some(remark)))
}

/// A sentence on the compute buffers of what is loaded beside the model, which has graphs of its own.
fn beside(plan: &Plan) -> Option<String> {
    let beside = plan.parts.iter().filter(|part| part.kind != PartKind::Model);
    let taken = beside.map(|part| (part.kind.title(), part.devices.iter().map(|memory| memory.graph).sum::<Bytes>()));
    let taken: Vec<String> = taken.map(|(title, bytes)| format!("{bytes} for the {title}")).collect();
    let taken = taken.join(" and ");
    (!taken.is_empty()).then(|| format!("This is the model's own graph; compute buffers also take {taken}."))
}

/// The knobs in effect in `plan`, as llama.cpp's options.
fn llama_cpp_settings(plan: &Plan, settings: &Settings) -> Settings {
    let now = &plan.settings;
    Settings {
        ctx: Context::Tokens(now.ctx_total),
        parallel: Some(now.parallel),
        batch: Some(now.batch),
        ubatch: Some(now.ubatch),
        cache_type_k: Some(now.cache_type_k),
        cache_type_v: Some(now.cache_type_v),
        flash_attn: now.flash_attn,
        gpu_layers: GpuLayers::Count(plan.offloaded as u64),
        tensor_split: Vec::new(),
        ..settings.clone()
    }
}

/// `blk.3.ffn_gate` for a weight, `cache_k-3` for a cache, `kq-3` for a result, `ROPE-3` for one without a name.
pub fn name(graph: &Graph, id: TensorId) -> String {
    let tensor = &graph[id];
    let word = if tensor.label.is_empty() { nameless(tensor) } else { tensor.label };
    match (tensor.buffer, tensor.layer) {
        (Buffer::Weights(_), layer @ 0..) => format!("blk.{layer}.{word}"),
        (_, layer @ 0..) => format!("{word}-{layer}"),
        _ => word.to_owned(),
    }
}

const fn nameless(tensor: &Tensor) -> &'static str {
    match (tensor.op, tensor.input) {
        (Op::None, true) => "input",
        (Op::None, false) => "tensor",
        (op, _) => op.name(),
    }
}

/// `f32 4096×512`: type and shape without trailing ones.
pub fn shape(tensor: &Tensor) -> String {
    let last = tensor.ne.iter().rposition(|&n| n != 1).unwrap_or(0);
    let sides: Vec<String> = tensor.ne[..=last].iter().map(ToString::to_string).collect();
    format!("{} {}", tensor.ty.name(), sides.join("×"))
}
