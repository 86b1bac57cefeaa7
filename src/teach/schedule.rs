//! The scheduler's passes: the device of each operation after each pass, and the tensors copied between devices.

mod blocks;
mod printout;
mod step;

use crate::engine::EngineError;
use crate::engine::PlanRequest;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::Without;
use crate::engine::ggml::tensor::{BackendId, Buffer, Op, TensorId};
use crate::engine::llama_cpp::ResolvedRequest;
use crate::plan::Plan;
use crate::units::Bytes;

use super::names;
use super::trace::{ScheduleDevice, Trace, TraceRequest};
pub use blocks::GraphBlock;
pub use step::{DeviceCount, ScheduleStep};

/// The page.
#[derive(Clone, Debug)]
pub struct SchedulePage {
    trace: Trace,
    /// The state before the first pass and after each pass.
    pub steps: Vec<ScheduleStep>,
    /// The graph's operations in order, grouped by blocks of the model.
    pub blocks: Vec<GraphBlock>,
    /// The graph splits.
    pub cuts: Vec<GraphSplit>,
    /// Operations computed on GPUs that they could be assumed to lack, with their numbers, the most frequent first.
    pub common: Vec<(Op, usize)>,
    /// The operation that GPUs are assumed to lack, and the copies if they support it.
    pub without: Option<(Op, CopyTotals)>,
    /// One sentence if the engine builds no graph and llama.cpp's is shown instead.
    pub remark: Option<String>,
}

/// A graph split: consecutive operations on one device, and the tensors copied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSplit {
    /// Index into [`SchedulePage::homes`].
    pub home: usize,
    /// Its operations, as indices into the graph's nodes.
    pub nodes: std::ops::Range<usize>,
    /// The tensors that are copied to it.
    pub crossings: Vec<SplitInput>,
}

/// A tensor that is copied from one device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitInput {
    /// `l_out-11`.
    pub name: String,
    /// `f32 4096×512`.
    pub shape: String,
    /// Index into [`SchedulePage::homes`] of its source.
    pub from: usize,
    /// Bytes allocated for one copy, before alignment.
    pub bytes: Bytes,
    /// Number of copies: one, or several with pipeline parallelism.
    pub copies: usize,
    /// Whether it is a weight copied to a GPU.
    pub weight: bool,
}

/// Totals of the copies between devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyTotals {
    /// Graph splits.
    pub cuts: usize,
    /// Tensors that are copied.
    pub tensors: usize,
    /// Their bytes, each counted once.
    pub bytes: Bytes,
}

/// An operation of the graph, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// `Qcur-3`.
    pub name: String,
    /// `MUL_MAT`.
    pub op: &'static str,
    /// `f32 4096×512`.
    pub shape: String,
    /// Names of its operands.
    pub sources: Vec<String>,
    /// Whether it is a view.
    pub view: bool,
}

impl SchedulePage {
    /// The scheduling of `plan`'s graph, on GPUs that lack the operation `without` if one is given.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings, or cannot run without the operation.
    pub fn of(request: &PlanRequest, plan: &Plan, without: Option<Op>) -> Result<Self, EngineError> {
        let asked = TraceRequest::of(request, plan)?;
        let homes = asked.homes(plan);
        let trace = Trace::of(asked.resolved, homes)?;
        let common = common(&trace);
        let Some(op) = without else { return Ok(Self::read(trace, common, None, asked.remark)) };
        let whole = CopyTotals::of(&cuts(&trace));
        let lacking = Trace::of(without_op(&trace.resolved, op), trace.homes)?;
        Ok(Self::read(lacking, common, Some((op, whole)), asked.remark))
    }

    fn read(trace: Trace, common: Vec<(Op, usize)>, without: Option<(Op, CopyTotals)>, remark: Option<String>) -> Self {
        let steps = step::steps(&trace);
        let blocks = blocks::blocks(&trace.details.graph);
        let cuts = cuts(&trace);
        Self { trace, steps, blocks, cuts, common, without, remark }
    }

    /// The devices; RAM is the last.
    pub fn homes(&self) -> &[ScheduleDevice] {
        &self.trace.homes
    }

    /// Number of operations in the graph, including views.
    pub fn node_count(&self) -> usize {
        self.trace.details.graph.nodes.len()
    }

    /// The trace that it is read from.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The operation with index `at` in the graph's nodes.
    pub fn node(&self, at: usize) -> Option<GraphNode> {
        let graph = &self.trace.details.graph;
        let id = *graph.nodes.get(at)?;
        let tensor = &graph[id];
        Some(GraphNode {
            name: names::name(graph, id),
            op: tensor.op.name(),
            shape: names::shape(tensor),
            sources: graph.sources(tensor).map(|source| names::name(graph, source)).collect(),
            view: tensor.op.is_view(),
        })
    }

    /// Whether operation `at` is a view.
    pub fn is_view(&self, at: usize) -> bool {
        let graph = &self.trace.details.graph;
        graph.nodes.get(at).is_some_and(|id| graph[*id].op.is_view())
    }

    /// The device of operation `at` after step `step`.
    pub fn home_of(&self, at: usize, step: usize) -> Option<usize> {
        self.steps.get(step).and_then(|step| step.places.get(at)).copied().and_then(step::home)
    }

    /// Whether step `step` changed operation `at`.
    pub fn is_highlighted(&self, at: usize, step: usize) -> bool {
        self.steps.get(step).and_then(|step| step.highlighted.get(at)).copied().unwrap_or(false)
    }

    /// Totals of the copies between devices.
    pub fn crossed(&self) -> CopyTotals {
        CopyTotals::of(&self.cuts)
    }
}

impl CopyTotals {
    fn of(cuts: &[GraphSplit]) -> Self {
        let all = || cuts.iter().flat_map(|cut| &cut.crossings);
        Self { cuts: cuts.len(), tensors: all().count(), bytes: all().map(|crossing| crossing.bytes).sum() }
    }
}

/// The request with GPUs that do not support `op`.
fn without_op(resolved: &ResolvedRequest, op: Op) -> ResolvedRequest {
    let mut resolved = resolved.clone();
    for device in &mut resolved.devices {
        device.backend = std::sync::Arc::new(Without { backend: device.backend.clone(), op });
    }
    resolved
}

/// The operations that GPUs could be assumed to lack. Operations that write into a cache are excluded: ggml aborts if
/// the cache's backend does not support them (`ggml_backend_sched_backend_id_from_cur`, 0.1.161).
fn common(trace: &Trace) -> Vec<(Op, usize)> {
    let (graph, places) = (&trace.details.graph, &trace.details.schedule.places);
    let cpu = trace.homes.len().saturating_sub(1);
    let mut common: Vec<(Op, usize)> = Vec::new();
    for &id in graph.nodes.iter().filter(|id| usize::from(places[id.index()]) < cpu) {
        let tensor = &graph[id];
        let below = tensor.view_of.get().map_or(tensor.buffer, |below| graph[below].buffer);
        if tensor.op.is_view() || below != Buffer::Unallocated {
            continue;
        }
        match common.iter_mut().find(|(op, _)| *op == tensor.op) {
            Some((_, count)) => *count += 1,
            None => common.push((tensor.op, 1)),
        }
    }
    let writes_cache = |op: Op| graph.nodes.iter().any(|id| graph[*id].op == op && is_written_into_cache(trace, *id));
    common.retain(|(op, _)| !writes_cache(*op));
    common.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    common
}

fn is_written_into_cache(trace: &Trace, id: TensorId) -> bool {
    let graph = &trace.details.graph;
    graph[id].view_of.get().is_some_and(|below| graph[below].buffer != Buffer::Unallocated)
}

fn cuts(trace: &Trace) -> Vec<GraphSplit> {
    let (graph, schedule) = (&trace.details.graph, &trace.details.schedule);
    let backends: Vec<BackendRef> = trace.resolved.backends();
    let mut cuts: Vec<GraphSplit> = schedule
        .splits
        .iter()
        .map(|split| GraphSplit { home: usize::from(split.place), nodes: split.nodes.clone(), crossings: Vec::new() })
        .collect();
    for (at, original, copy) in schedule.crossings() {
        let Some(cut) = cuts.get_mut(at) else { continue };
        let place: BackendId = schedule.places[original.index()];
        cut.crossings.push(SplitInput {
            name: names::name(graph, original),
            shape: names::shape(&graph[original]),
            from: usize::from(place),
            bytes: Bytes(backends.get(cut.home).map_or(0, |backend| backend.allocation(graph, &graph[copy]))),
            copies: schedule.copies,
            weight: matches!(graph[original].buffer, Buffer::Weights(_)),
        });
    }
    cuts
}
