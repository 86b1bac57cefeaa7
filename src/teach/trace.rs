//! Trace of llama.cpp's measurement of a plan: the reserved graph, its scheduling and its allocation; and how its tensors
//! are named.

use crate::engine::PlanRequest;
use crate::engine::ggml::schedule::PassTrace as Passes;
use crate::engine::ggml::tensor::{Buffer, Op, Tensor, TensorId};
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::llama_cpp::{AllocationDetails, LlamaCpp, MemoryBreakdown, ResolvedRequest};
use crate::engine::{EngineError, RequestParts, RunsLlamaCpp as _};
use crate::plan::{PartKind, Plan};
use crate::settings::{Context, GpuLayers, Settings};
use crate::units::{Bytes, Tokens};

/// The batch whose graph is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A prompt: an ubatch of tokens, for which memory is reserved.
    #[default]
    Prompt,
    /// Generation: one token of each sequence.
    Token,
}

impl Phase {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Prompt => Self::Token,
            Self::Token => Self::Prompt,
        }
    }

    /// In JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Token => "token",
        }
    }

    /// Tokens of the batch of `measured`.
    pub fn tokens(self, measured: &MemoryBreakdown) -> u64 {
        match self {
            Self::Prompt => measured.parameters.reserved().n_tokens,
            Self::Token => measured.parameters.probe(1).n_tokens,
        }
    }

    /// The batch of `measured`, as in a sentence: `a prompt of 512 tokens`.
    pub fn batch(self, measured: &MemoryBreakdown) -> String {
        let parameters = &measured.parameters;
        match self {
            Self::Prompt => format!("a prompt of {} tokens", Tokens(self.tokens(measured))),
            Self::Token if parameters.n_seq_max == 1 => "one token".to_owned(),
            Self::Token => format!("one token for each of {} sequences", parameters.n_seq_max),
        }
    }
}

/// A request to llama.cpp and the record of its measurement.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The request.
    pub resolved: ResolvedRequest,
    /// The batch of the graph.
    pub phase: Phase,
    /// The memory that is allocated.
    pub measured: MemoryBreakdown,
    /// Graph, schedule and allocation of the compute buffers.
    pub details: AllocationDetails,
    /// The device of every tensor after each pass of the scheduler.
    pub passes: Passes,
    /// The devices, by their indices in the schedule.
    pub backends: Vec<ScheduleDevice>,
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
    /// The measurement behind `plan`, the plan of `request`, with the graph of `phase`; for an engine that only estimates, that of a request to
    /// llama.cpp with the same layers, context, batch and cache types.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan, phase: Phase) -> Result<Self, EngineError> {
        let own = request.resolved()?;
        let (resolved, remark) = match own {
            Some(resolved) => (resolved, beside(plan)),
            None => of_llama_cpp(request, plan)?,
        };
        let cpu = plan.devices.len().saturating_sub(1);
        let devices = resolved.gpus.iter().copied().chain([cpu]);
        let backend = |(device, backend): (usize, BackendRef)| ScheduleDevice {
            id: plan.devices.get(device).map(|device| device.id.clone()).unwrap_or_default(),
            device,
            alignment: backend.alignment(),
        };
        let backends = devices.zip(resolved.backends()).map(backend).collect();
        Self::measure(resolved, phase, backends, remark)
    }

    /// The measurement of a changed request on the same devices, with the graph of `phase`.
    ///
    /// # Errors
    /// If llama.cpp refuses it.
    pub fn again(&self, resolved: ResolvedRequest, phase: Phase) -> Result<Self, EngineError> {
        Self::measure(resolved, phase, self.backends.clone(), self.remark.clone())
    }

    /// Tokens of the batch of the graph.
    pub fn tokens(&self) -> u64 {
        self.phase.tokens(&self.measured)
    }

    /// The batch of the graph, as in a sentence.
    pub fn batch(&self) -> String {
        self.phase.batch(&self.measured)
    }

    fn measure(
        resolved: ResolvedRequest,
        phase: Phase,
        backends: Vec<ScheduleDevice>,
        remark: Option<String>,
    ) -> Result<Self, EngineError> {
        let mut passes = Passes::new();
        let (measured, details) = match phase {
            Phase::Prompt => resolved.measure_traced(&mut passes)?,
            Phase::Token => resolved.trace_token(&mut passes)?,
        };
        Ok(Self { resolved, phase, measured, details, passes, backends, remark })
    }
}

/// The request to llama.cpp that is shown for an engine that builds no graph, and a sentence that says so.
fn of_llama_cpp(request: &PlanRequest, plan: &Plan) -> Result<(ResolvedRequest, Option<String>), EngineError> {
    let settings = llama_cpp_settings(plan, &request.settings);
    let parts = RequestParts { settings: &settings, ..request.parts() };
    let mut resolved = LlamaCpp.resolve(parts)?;
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

/// The block of every node of `graph`; none before the first and after the last. An operation without a name of its own
/// belongs to the next one with a block, as only the last tensor of a step is named, and some norms have no block's number.
pub fn layers(graph: &Graph) -> Vec<Option<usize>> {
    let is_named = |tensor: &Tensor| !tensor.op.is_view() && !tensor.label.is_empty();
    let layer = |tensor: &Tensor| usize::try_from(tensor.layer).ok().filter(|_| is_named(tensor));
    let first = graph.nodes.iter().position(|id| layer(&graph[*id]).is_some()).unwrap_or(graph.nodes.len());
    let mut next = None;
    let mut layers: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (at, (found, id)) in layers.iter_mut().zip(&graph.nodes).enumerate().rev() {
        let tensor = &graph[*id];
        next = if at < first && is_named(tensor) { None } else { layer(tensor).or(next) };
        *found = next;
    }
    layers
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
