//! The scheduler's passes: the device of each operation after each pass, and the tensors copied between devices.

mod overlap;
mod page;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::alike::{alike, blocks_title, ranges};
use super::trace::{self, Phase, ScheduleDevice, Trace};
use crate::engine::ggml::backend::Without;
use crate::engine::ggml::schedule::Pass;
use crate::engine::ggml::tensor::{BackendId, Buffer, NO_BACKEND, Op, TensorId};
use crate::engine::ggml::{BackendRef, Graph};
use crate::engine::llama_cpp::ResolvedRequest;
use crate::engine::{EngineError, PlanRequest};
use crate::plan::Plan;
use crate::units::Bytes;

pub use overlap::Overlap;

/// The page.
#[derive(Clone, Debug)]
pub struct SchedulePage {
    trace: Trace,
    /// The state before the first pass and after each pass.
    pub steps: Vec<ScheduleStep>,
    /// The graph's operations in order, grouped by blocks of the model.
    pub blocks: Vec<GraphBlock>,
    /// The blocks that are alike after every step together, as indices into [`Self::blocks`].
    pub alike: Vec<Vec<usize>>,
    /// The graph splits.
    pub cuts: Vec<GraphSplit>,
    /// The copies of the graph of the other phase; none if llama.cpp refuses it.
    pub other_phase: Option<CopyTotals>,
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
    /// Index into [`SchedulePage::backends`].
    pub backend: usize,
    /// Its operations, as indices into the graph's nodes.
    pub nodes: Range<usize>,
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
    /// Index into [`SchedulePage::backends`] of its source.
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
    /// The scheduling of the graph of `plan` in `phase`, on GPUs that lack the operation `without` if one is given.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings, or cannot run without the operation.
    pub fn of(request: &PlanRequest, plan: &Plan, without: Option<Op>, phase: Phase) -> Result<Self, EngineError> {
        let trace = Trace::of(request, plan, phase)?;
        let common = common(&trace);
        let Some(op) = without else { return Ok(Self::read(trace, common, None)) };
        let whole = CopyTotals::of(&cuts(&trace));
        let lacking = trace.again(without_op(&trace.resolved, op), phase)?;
        Ok(Self::read(lacking, common, Some((op, whole))))
    }

    fn read(trace: Trace, common: Vec<(Op, usize)>, without: Option<(Op, CopyTotals)>) -> Self {
        let blocks = blocks(&trace.details.graph);
        let (steps, cuts, remark) = (steps(&trace), cuts(&trace), trace.remark.clone());
        let other = trace.again(trace.resolved.clone(), trace.phase.other());
        let other_phase = other.ok().map(|other| CopyTotals::of(&self::cuts(&other)));
        let mut page = Self { trace, steps, blocks, alike: Vec::new(), cuts, other_phase, common, without, remark };
        page.alike = alike(page.blocks.iter().map(|block| page.signature(block)));
        page
    }

    /// What blocks that are alike have in common: operations with their devices after every step, and copies into them.
    fn signature(&self, block: &GraphBlock) -> u64 {
        let (graph, hasher) = (&self.trace.details.graph, &mut DefaultHasher::new());
        // what stands before and after the blocks is a row of its own
        block.layer.is_none().then_some(block.nodes.start).hash(hasher);
        for at in block.nodes.clone() {
            graph.nodes.get(at).map(|id| graph[*id].op).hash(hasher);
            for step in &self.steps {
                (step.places.get(at), step.highlighted.get(at)).hash(hasher);
            }
        }
        for cut in self.cuts_into(block) {
            let copies = cut.crossings.iter().map(|crossing| (crossing.from, crossing.bytes.0, crossing.weight));
            (cut.backend, cut.nodes.len(), copies.collect::<Vec<_>>()).hash(hasher);
        }
        hasher.finish()
    }

    /// The splits that begin in a block and have copies.
    pub fn cuts_into<'s>(&'s self, block: &'s GraphBlock) -> impl Iterator<Item = &'s GraphSplit> {
        self.cuts.iter().filter(|cut| block.nodes.contains(&cut.nodes.start) && !cut.crossings.is_empty())
    }

    /// Blocks as a title: `blocks 3–39`; `input` and `output` for what stands before and after them.
    pub fn blocks_title(&self, blocks: &[usize]) -> String {
        let layers: Option<Vec<usize>> =
            blocks.iter().map(|at| self.blocks.get(*at).and_then(|block| block.layer)).collect();
        match (layers, blocks.first().and_then(|at| self.blocks.get(*at))) {
            (Some(layers), _) if !layers.is_empty() => blocks_title(&layers),
            (_, Some(block)) => block.name(),
            _ => String::new(),
        }
    }

    /// Which blocks they are, if their title does not say it: `0–2, 4–6`.
    pub fn blocks_listed(&self, blocks: &[usize]) -> Option<String> {
        let layers = blocks.iter().filter_map(|at| self.blocks.get(*at).and_then(|block| block.layer));
        let ranges = ranges(layers);
        ranges.contains(',').then_some(ranges)
    }

    /// What graph this is, and what the other phase's copies are.
    pub fn shown_graph(&self) -> String {
        let (now, trace) = (self.crossed(), &self.trace);
        let other = self.other_phase.map(|other| {
            let batch = trace.phase.other().batch(&trace.measured);
            format!(" That of {batch} has {}.", other.sentence())
        });
        format!("This is the graph of {}: {}.{}", trace.batch(), now.sentence(), other.unwrap_or_default())
    }

    /// The devices; RAM is the last.
    pub fn backends(&self) -> &[ScheduleDevice] {
        &self.trace.backends
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
            name: trace::name(graph, id),
            op: tensor.op.name(),
            shape: trace::shape(tensor),
            sources: graph.sources(tensor).map(|source| trace::name(graph, source)).collect(),
            view: tensor.op.is_view(),
        })
    }

    /// The name of operation `at`.
    pub fn op(&self, at: usize) -> Option<&'static str> {
        let graph = &self.trace.details.graph;
        graph.nodes.get(at).map(|id| graph[*id].op.name())
    }

    /// Whether operation `at` is a view.
    pub fn is_view(&self, at: usize) -> bool {
        let graph = &self.trace.details.graph;
        graph.nodes.get(at).is_some_and(|id| graph[*id].op.is_view())
    }

    /// The device of operation `at` after step `step`.
    pub fn backend_of(&self, at: usize, step: usize) -> Option<usize> {
        self.steps.get(step).and_then(|step| step.places.get(at)).copied().and_then(backend)
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

    /// `3 graph splits, 2 tensors copied, 8.0 MiB`
    pub fn sentence(self) -> String {
        let Self { cuts, tensors, bytes } = self;
        match tensors {
            0 => format!("{}, nothing copied", counted(cuts, "graph split")),
            _ => format!("{}, {} copied, {bytes}", counted(cuts, "graph split"), counted(tensors, "tensor")),
        }
    }
}

/// `1 tensor`, `2 tensors`
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The request with GPUs that do not support `op`.
fn without_op(resolved: &ResolvedRequest, op: Op) -> ResolvedRequest {
    let mut resolved = resolved.clone();
    for device in &mut resolved.devices {
        device.backend = Arc::new(Without { backend: device.backend.clone(), op });
    }
    resolved
}

/// The operations that GPUs could be assumed to lack. Operations that write into a cache are excluded: ggml aborts if
/// the cache's backend does not support them (`ggml_backend_sched_backend_id_from_cur`, 0.1.161).
fn common(trace: &Trace) -> Vec<(Op, usize)> {
    let (graph, places) = (&trace.details.graph, &trace.details.schedule.places);
    let cpu = trace.backends.len().saturating_sub(1);
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
        .map(|split| GraphSplit {
            backend: usize::from(split.place),
            nodes: split.nodes.clone(),
            crossings: Vec::new(),
        })
        .collect();
    for (at, original, copy) in schedule.crossings() {
        let Some(cut) = cuts.get_mut(at) else { continue };
        let place: BackendId = schedule.places[original.index()];
        cut.crossings.push(SplitInput {
            name: trace::name(graph, original),
            shape: trace::shape(&graph[original]),
            from: usize::from(place),
            bytes: Bytes(backends.get(cut.backend).map_or(0, |backend| backend.allocation(graph, &graph[copy]))),
            copies: schedule.copies,
            weight: matches!(graph[original].buffer, Buffer::Weights(_)),
        });
    }
    cuts
}

/// A step: the assignments after a pass.
#[derive(Clone, Debug)]
pub struct ScheduleStep {
    /// The pass; `None` for the state before the first.
    pub pass: Option<Pass>,
    /// The device of every operation of the graph, in its order.
    pub places: Vec<BackendId>,
    /// Whether this step changed each operation.
    pub highlighted: Vec<bool>,
    /// Counts for each device, and last for tensors without a device.
    pub counts: Vec<DeviceCount>,
    /// Number of tensors that this step assigned; in the last step also the copies.
    pub changed: usize,
}

/// Number of tensors on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCount {
    /// Operations.
    pub operations: usize,
    /// Views, weights, caches and inputs; in the last step copies too.
    pub others: usize,
}

/// Index of the device, if one is assigned.
fn backend(place: BackendId) -> Option<usize> {
    (place != NO_BACKEND).then_some(usize::from(place))
}

impl ScheduleStep {
    /// Its number and name in short: `2 gpu down`.
    pub const fn name(&self) -> &'static str {
        match self.pass {
            None => "0 start",
            Some(Pass::Anchors) => "1 assign",
            Some(Pass::GpusDown) => "2 gpu down",
            Some(Pass::GpusUp) => "2 gpu up",
            Some(Pass::RestDown) => "2 rest down",
            Some(Pass::RestUp) => "2 rest up",
            Some(Pass::BestFit) => "3 upgrade",
            Some(Pass::Sources) => "4 remaining src",
            Some(Pass::Split) => "5 split graph",
        }
    }

    /// Its name as in llama.cpp's source.
    pub const fn source_name(&self) -> &'static str {
        source_name(self.pass)
    }

    /// What the pass does, in a few plain sentences.
    pub const fn description(&self) -> &'static str {
        pass_description(self.pass)
    }
}

/// The name of a pass as in llama.cpp's source (`ggml_backend_sched_split_graph`, ggml-backend.cpp, 0.1.161).
pub const fn source_name(pass: Option<Pass>) -> &'static str {
    match pass {
        None => "before pass 1",
        Some(Pass::Anchors) => "pass 1, assign backends to ops with pre-allocated inputs",
        Some(Pass::GpusDown) => "pass 2, expand gpu down",
        Some(Pass::GpusUp) => "pass 2, expand gpu up",
        Some(Pass::RestDown) => "pass 2, expand rest down",
        Some(Pass::RestUp) => "pass 2, expand rest up",
        Some(Pass::BestFit) => "pass 3, upgrade nodes",
        Some(Pass::Sources) => "pass 4, remaining src",
        Some(Pass::Split) => "pass 5, split graph",
    }
}

/// What a pass does, in a few plain sentences.
pub const fn pass_description(pass: Option<Pass>) -> &'static str {
    match pass {
        None => "The graph is built, and no operation has a device yet. Weights and caches are where they were loaded.",
        Some(Pass::Anchors) => {
            "Weights and caches stay where they are in memory. An operation that reads weights runs on the device \
             that holds them; if that is the CPU and the batch is large, on a GPU, to which they are copied. \
             Inputs start in RAM."
        }
        Some(Pass::GpusDown) => {
            "From the first operation to the last: one without a device gets the GPU of the operation before it, \
             if that GPU supports it. The CPU is not passed on yet."
        }
        Some(Pass::GpusUp) => {
            "The same from the last operation to the first: one without a device gets the GPU of the operation \
             after it."
        }
        Some(Pass::RestDown) => {
            "Once more from first to last, now for the CPU too: one without a device gets the device of the \
             operation before it."
        }
        Some(Pass::RestUp) => {
            "And from last to first. Only operations that no neighbour's device supports are left without one."
        }
        Some(Pass::BestFit) => {
            "An operation still without a device gets one that supports it, if possible the one that holds most \
             of its operands. One that has a device moves to a faster one that can use the same memory; here no \
             two devices share memory."
        }
        Some(Pass::Sources) => {
            "A view gets the device of the data that it looks at; an operand without a device gets that of the \
             operation that reads it first."
        }
        Some(Pass::Split) => {
            "The graph is cut wherever the device changes. Each split gets copies of what it reads from other \
             devices, and weights that are copied to a GPU begin a split of their own."
        }
    }
}

/// The steps of `trace`, from no assignment to the splits.
fn steps(trace: &Trace) -> Vec<ScheduleStep> {
    let details = &trace.details;
    let graph = &details.graph;
    let devices = trace.backends.len();
    // copies are appended by the last pass: only the tensors before it can be assigned
    let arena = trace.passes.first().map_or(0, |(_, places)| places.len());
    let nothing = vec![NO_BACKEND; arena];
    let previous = std::iter::once(&nothing).chain(trace.passes.iter().map(|(_, places)| places));
    let shown: Vec<TensorId> = graph.leafs.iter().chain(&graph.nodes).copied().collect();
    let place = |places: &[BackendId], id: TensorId| places.get(id.index()).copied().unwrap_or(NO_BACKEND);
    let count = |places: &[BackendId]| {
        let mut counts = vec![DeviceCount::default(); devices + 1];
        for &id in &shown {
            let at = backend(place(places, id)).unwrap_or(devices);
            if let Some(count) = counts.get_mut(at) {
                let operation = graph[id].op != Op::None && !graph[id].op.is_view();
                *(if operation { &mut count.operations } else { &mut count.others }) += 1;
            }
        }
        counts
    };
    let of_nodes = |places: &[BackendId]| graph.nodes.iter().map(|id| place(places, *id)).collect::<Vec<_>>();
    let mut steps = vec![ScheduleStep {
        pass: None,
        places: of_nodes(&nothing),
        highlighted: vec![false; graph.nodes.len()],
        counts: count(&nothing),
        changed: 0,
    }];
    for ((pass, places), before) in trace.passes.iter().zip(previous) {
        let reads_copy = |id: TensorId| graph.sources(&graph[id]).any(|source| source.index() >= arena);
        let is_new = |id: TensorId| place(places, id) != place(before, id);
        let split = *pass == Pass::Split;
        let highlighted = |id: &TensorId| if split { reads_copy(*id) } else { is_new(*id) };
        let mut counts = count(places);
        let mut changed = shown.iter().filter(|id| is_new(**id)).count();
        if split {
            let copies = details.schedule.copies;
            for split in &details.schedule.splits {
                let made = copies * split.inputs.len();
                if let Some(count) = counts.get_mut(usize::from(split.place)) {
                    count.others += made;
                }
                changed += made;
            }
        }
        steps.push(ScheduleStep {
            pass: Some(*pass),
            places: of_nodes(places),
            highlighted: graph.nodes.iter().map(highlighted).collect(),
            counts,
            changed,
        });
    }
    steps
}

/// Consecutive operations of one block, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBlock {
    /// The block; `None` before the first and after the last.
    pub layer: Option<usize>,
    /// Indices into the graph's nodes.
    pub nodes: Range<usize>,
}

impl GraphBlock {
    /// `block 3`; `input` before the first block, `output` after the last.
    pub fn name(&self) -> String {
        match self.layer {
            Some(layer) => format!("block {layer}"),
            None if self.nodes.start == 0 => "input".to_owned(),
            None => "output".to_owned(),
        }
    }
}

/// Groups the nodes of `graph`.
fn blocks(graph: &Graph) -> Vec<GraphBlock> {
    let layers = trace::layers(graph);
    let mut blocks: Vec<GraphBlock> = Vec::new();
    for (at, layer) in layers.into_iter().enumerate() {
        match blocks.last_mut().filter(|block| block.layer == layer) {
            Some(block) => block.nodes.end = at + 1,
            None => blocks.push(GraphBlock { layer, nodes: at..at + 1 }),
        }
    }
    blocks
}
