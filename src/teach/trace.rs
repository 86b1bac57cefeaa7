//! Trace of llama.cpp's measurement of a plan: the reserved graph, its scheduling and its allocation.

use crate::engine::PlanRequest;
use crate::engine::ggml::schedule::PassTrace as Passes;
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

/// The request to trace.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The request.
    pub resolved: ResolvedRequest,
    /// One sentence if the engine builds no graph and llama.cpp's is shown instead.
    pub remark: Option<String>,
}

impl TraceRequest {
    /// The request behind `plan`, the plan of `request`; for an engine that only estimates, a request to llama.cpp with
    /// the same layers, context, batch and cache types.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        if let Some(resolved) = engine::of(request.engine).resolve(request.parts())? {
            return Ok(Self { resolved, remark: beside(plan) });
        }
        let settings = llama_cpp_settings(plan, &request.settings);
        let resolved =
            engine::of(EngineId::LlamaCpp).resolve(RequestParts { settings: &settings, ..request.parts() })?;
        let mut resolved =
            resolved.ok_or_else(|| EngineError::Settings("llama.cpp builds no graph for this".to_owned()))?;
        if plan.offloaded > 0 && resolved.gpus.len() > 1 {
            let layers = |gpu: &usize| plan.devices.get(*gpu).map_or(0, |device| device.layers.len());
            resolved.spread.tensor_split = resolved.gpus.iter().map(|gpu| layers(gpu) as f32).collect();
        }
        let remark = format!(
            "{} estimates and builds no graph: this is llama.cpp's (release {}), with the same layers on GPU, \
             context, batch and cache types.",
            request.engine.title(),
            resolved.loaded.release.name
        );
        Ok(Self { resolved, remark: Some(remark) })
    }

    /// Its devices, by their indices in the schedule.
    pub fn homes(&self, plan: &Plan) -> Vec<ScheduleDevice> {
        let cpu = plan.devices.len().saturating_sub(1);
        let devices = self.resolved.gpus.iter().copied().chain([cpu]);
        let home = |(device, backend): (usize, crate::engine::ggml::BackendRef)| ScheduleDevice {
            id: plan.devices.get(device).map(|device| device.id.clone()).unwrap_or_default(),
            device,
            alignment: backend.alignment(),
        };
        devices.zip(self.resolved.backends()).map(home).collect()
    }
}

impl Trace {
    /// Measures `resolved` and records the trace.
    ///
    /// # Errors
    /// If llama.cpp refuses it.
    pub fn of(resolved: ResolvedRequest, homes: Vec<ScheduleDevice>) -> Result<Self, EngineError> {
        let mut passes = Passes::new();
        let (measured, details) = resolved.measure_traced(&mut passes)?;
        Ok(Self { resolved, measured, details, passes, homes })
    }
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
