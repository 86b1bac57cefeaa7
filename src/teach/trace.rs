//! llama.cpp's work on a plan, watched: the graph that is really reserved, its scheduling and its allocation.

use crate::engine::PlanRequest;
use crate::engine::ggml::schedule::PassTrace as Passes;
use crate::engine::llama_cpp::resolved::ResolvedRequest;
use crate::engine::llama_cpp::{AllocationDetails, MemoryBreakdown};
use crate::engine::{self, EngineError, EngineId};
use crate::plan::Plan;
use crate::settings::{Context, GpuLayers, Settings};

/// What was asked of llama.cpp, and what it did.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The request.
    pub resolved: ResolvedRequest,
    /// What is allocated.
    pub measured: MemoryBreakdown,
    /// How the compute buffers came about.
    pub details: AllocationDetails,
    /// Every tensor's device after each pass of the scheduler.
    pub passes: Passes,
    /// The devices, by their places in the schedule.
    pub homes: Vec<ScheduleDevice>,
}

/// A device of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleDevice {
    /// As in the plan: `GPU0`, `CPU`.
    pub id: String,
    /// Index into [`Plan::devices`].
    pub device: usize,
    /// Every allocation takes a multiple of so many bytes.
    pub alignment: u64,
}

/// A request, and why it is not the plan's own where it is not.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The request.
    pub resolved: ResolvedRequest,
    /// One sentence where the engine in force builds no graph, and llama.cpp's stands in.
    pub remark: Option<String>,
}

impl TraceRequest {
    /// What `plan`, the engine's answer to `request`, asks of llama.cpp; of an engine that only estimates, the same layers,
    /// context, batch and caches.
    ///
    /// # Errors
    /// When llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        if let Some(resolved) =
            engine::of(request.engine).resolve(&request.model, &request.machine, &request.settings)?
        {
            return Ok(Self { resolved, remark: None });
        }
        let settings = translated(plan, &request.settings);
        let resolved = engine::of(EngineId::LlamaCpp).resolve(&request.model, &request.machine, &settings)?;
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

    /// The ids of its devices, by their places in a schedule.
    pub fn homes(&self, plan: &Plan) -> Vec<ScheduleDevice> {
        let cpu = plan.devices.len().saturating_sub(1);
        let devices = self.resolved.gpus.iter().copied().chain([cpu]);
        let home = |(device, backend): (usize, crate::engine::ggml::BackendProps)| ScheduleDevice {
            id: plan.devices.get(device).map(|device| device.id.clone()).unwrap_or_default(),
            device,
            alignment: backend.alignment,
        };
        devices.zip(self.resolved.backends()).map(home).collect()
    }
}

impl Trace {
    /// Watches llama.cpp carry out `settled`.
    ///
    /// # Errors
    /// When llama.cpp refuses it.
    pub fn of(resolved: ResolvedRequest, homes: Vec<ScheduleDevice>) -> Result<Self, EngineError> {
        let mut passes = Passes::new();
        let (measured, details) = resolved.measure_traced(&mut passes)?;
        Ok(Self { resolved, measured, details, passes, homes })
    }
}

/// The knobs in effect in `plan`, as llama.cpp's options.
fn translated(plan: &Plan, settings: &Settings) -> Settings {
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
