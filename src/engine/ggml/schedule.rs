//! Assigns a graph to devices: five passes assign every tensor, then the graph is cut into splits, and tensors needed
//! on another device are copied (`ggml_backend_sched_split_graph`, 0.1.161).

use super::backend::{AllocDeps, BackendRef, SplitGraph};
use super::graph::Graph;
use super::tensor::{BackendId, Buffer, NO_BACKEND, Op, Tensor, TensorId};

/// Copies of each input with pipeline parallelism (`GGML_SCHED_MAX_COPIES`, 0.1.161).
pub const PIPELINE_COPIES: usize = 4;

/// The scheduler's devices and options.
#[derive(Clone, Debug)]
pub struct Scheduler<'a> {
    /// GPUs in order of preference, the CPU last.
    pub backends: &'a [BackendRef],
    /// GPUs may run operations whose weights are in RAM (`op_offload`).
    pub op_offload: bool,
    /// Pipeline parallelism.
    pub pipeline: bool,
    /// Tensors stay on the device set by the model's graph code. llama.cpp drops these assignments when it only
    /// measures (`ggml_backend_sched_reserve_size` resets the scheduler first, 0.1.161), as `--fit` does.
    pub pins: bool,
    /// Release-specific rules.
    pub rules: SchedulerRules,
}

/// The scheduler's differences between releases of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerRules {
    /// Attention is assigned by its sinks, as any operation by its weights; otherwise sinks are ignored.
    pub sinks_decide: bool,
    /// How many inputs are copied into one split.
    pub split_inputs: SplitInputs,
    /// A pipeline also keeps copies of inputs that no operation reads, in graph order; otherwise only of inputs in
    /// order of first use.
    pub multiplies_unread_inputs: bool,
}

/// The table of a split's inputs (`GGML_SCHED_MAX_SPLIT_INPUTS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitInputs {
    /// It has so many places: a split is cut where it is full, and llama.cpp ends if one operation needs more.
    Fixed(usize),
    /// It has so many places at first: a split is cut where it is full between two operations, and an operation that needs
    /// more doubles it.
    Grow(usize),
    /// Splits are not cut for it.
    Unlimited,
}

impl SplitInputs {
    /// Whether a split with so many is cut before an operation that needs another one.
    fn is_full(self, inputs: usize) -> bool {
        match self {
            Self::Fixed(most) => inputs == most,
            Self::Grow(first) => inputs.is_multiple_of(first) && (inputs / first).is_power_of_two(),
            Self::Unlimited => false,
        }
    }
}

/// Consecutive operations on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The device.
    pub place: BackendId,
    /// Its operations: indices into [`Graph::nodes`] at scheduling time.
    pub nodes: std::ops::Range<usize>,
    /// Tensors copied to the device before it runs: indices into [`Schedule::inputs`].
    pub inputs: std::ops::Range<usize>,
}

/// A graph assigned to devices, in the order of the allocator's walk.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The device of every tensor in the arena, copies included.
    pub places: Vec<BackendId>,
    /// Consecutive operations on one device each.
    pub splits: Vec<Split>,
    /// Inputs of all splits.
    pub inputs: Vec<TensorId>,
    /// The first copy of each of them.
    pub input_copies: Vec<TensorId>,
    /// Operations and the copies between splits, with the device that holds each result.
    pub nodes: Vec<(TensorId, BackendId)>,
    /// Tensors allocated before the graph runs.
    pub leafs: Vec<(TensorId, BackendId)>,
    /// Copies of every split input: one, or several in a pipeline, which are consecutive in the arena.
    pub copies: usize,
    /// A split, or a pipeline, has more inputs than ggml's table holds; ggml ends the program then.
    pub overflows: bool,
}

impl Schedule {
    /// Clears the schedule, keeping its capacity.
    pub fn clear(&mut self) {
        let Self { places, splits, inputs, input_copies, nodes, leafs, copies, overflows } = self;
        places.clear();
        splits.clear();
        inputs.clear();
        input_copies.clear();
        nodes.clear();
        leafs.clear();
        (*copies, *overflows) = (0, false);
    }

    /// The inputs of `split`.
    pub fn inputs(&self, split: &Split) -> &[TensorId] {
        &self.inputs[split.inputs.clone()]
    }

    /// All split inputs: the index of the split, the original tensor and its first copy.
    pub fn crossings(&self) -> impl Iterator<Item = (usize, TensorId, TensorId)> {
        self.splits.iter().enumerate().flat_map(|(at, split)| {
            let copies = &self.input_copies[split.inputs.clone()];
            self.inputs(split).iter().zip(copies).map(move |(input, copy)| (at, *input, *copy))
        })
    }
}

/// The passes; the second has four parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Allocated tensors, inputs, and operations with weights.
    Anchors,
    /// Operations after those on GPUs.
    GpusDown,
    /// Operations before those on GPUs.
    GpusUp,
    /// Operations after those on any device.
    RestDown,
    /// Operations before those on any device.
    RestUp,
    /// Remaining operations, to a device that supports them and holds most of their operands.
    BestFit,
    /// Operands without a device yet.
    Sources,
    /// Cuts at every change of device and adds copies.
    Split,
}

/// Assignments after each pass, for the teach screen.
pub type PassTrace = Vec<(Pass, Vec<BackendId>)>;

/// A pass that assigns devices.
type AssignPass<'a> = fn(&Scheduler<'a>, &Graph, &mut [BackendId]);

impl Scheduler<'_> {
    /// Schedules `graph` into `schedule`, replacing its contents. Copies are added to the graph's arena and operands
    /// are redirected to them. `trace` receives every tensor's device after each pass.
    pub fn run(&self, graph: &mut Graph, schedule: &mut Schedule, mut trace: Option<&mut PassTrace>) {
        schedule.clear();
        self.assign(graph, &mut schedule.places, |pass, places| {
            if let Some(trace) = trace.as_deref_mut() {
                trace.push((pass, places.to_vec()));
            }
        });
        self.split(graph, schedule);
        if let Some(trace) = trace {
            trace.push((Pass::Split, schedule.places.clone()));
        }
    }

    /// Assigns every tensor a device, before copies are made. `places` must be empty.
    pub fn assign(&self, graph: &Graph, places: &mut Vec<BackendId>, mut after: impl FnMut(Pass, &[BackendId])) {
        places.extend(graph.tensors.iter().map(|tensor| if self.pins { tensor.pin } else { NO_BACKEND }));
        let steps: [(Pass, AssignPass<'_>); 7] = [
            (Pass::Anchors, Self::anchor),
            (Pass::GpusDown, |this, graph, places| this.spread_down(graph, places, this.cpu())),
            (Pass::GpusUp, |this, graph, places| this.spread_up(graph, places, this.cpu())),
            (Pass::RestDown, |this, graph, places| this.spread_down(graph, places, NO_BACKEND)),
            (Pass::RestUp, |this, graph, places| this.spread_up(graph, places, NO_BACKEND)),
            (Pass::BestFit, Self::best_fit),
            (Pass::Sources, Self::sources),
        ];
        for (pass, step) in steps {
            step(self, graph, places);
            after(pass, places);
        }
    }

    /// Whether the device `place` supports `op`.
    fn can(&self, graph: &Graph, place: BackendId, op: &Tensor) -> bool {
        self.backends.get(usize::from(place)).is_some_and(|backend| backend.supports(graph, op))
    }

    /// The CPU.
    const fn cpu(&self) -> BackendId {
        (self.backends.len() - 1) as BackendId
    }

    /// The device that holds `tensor`, if it is allocated already.
    fn allocated(graph: &Graph, tensor: &Tensor) -> Option<BackendId> {
        tensor.view_of.get().map_or(tensor.buffer, |of| graph[of].buffer).place()
    }

    /// Whether `place` can read `id` without a copy: devices only read their own memory.
    fn readable(graph: &Graph, places: &[BackendId], id: TensorId, place: BackendId) -> bool {
        let tensor = &graph[id];
        if let Some(device) = Self::allocated(graph, tensor) {
            return device == place;
        }
        let mut device = places[id.index()];
        if device == NO_BACKEND && tensor.view_of.is_some() {
            device = places[tensor.view_of.index()];
        }
        device == place
    }
}

// The first four passes: the device of every operation.

impl Scheduler<'_> {
    /// Pass 1: allocated tensors stay on their device, inputs go to the CPU, and an operation with weights goes to
    /// their device, or to the first GPU that runs it with weights from RAM.
    fn anchor(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in graph.leafs.iter().chain(&graph.nodes) {
            if places[id.index()] == NO_BACKEND {
                places[id.index()] = self.anchor_of(graph, &graph[id]);
            }
        }
    }

    fn anchor_of(&self, graph: &Graph, tensor: &Tensor) -> BackendId {
        if let Some(device) = Self::allocated(graph, tensor) {
            return device;
        }
        if tensor.input {
            return self.cpu();
        }
        // rope factors are too small to decide the device, and so are attention sinks
        if tensor.op == Op::Rope || (tensor.op == Op::FlashAttn && !self.rules.sinks_decide) {
            return NO_BACKEND;
        }
        for source in graph.sources(tensor) {
            let Buffer::Weights(device) = graph[source].buffer else { continue };
            if device == self.cpu() && self.op_offload && !graph[source].repacked {
                let offloads = |gpu: &BackendRef| gpu.offloads(tensor) && gpu.supports(graph, tensor);
                let target = self.backends[..usize::from(device)].iter().position(offloads);
                return target.map_or(device, |gpu| gpu as BackendId);
            }
            return if self.can(graph, device, tensor) { device } else { NO_BACKEND };
        }
        NO_BACKEND
    }

    /// Pass 2, downwards: an unassigned operation gets the device of the one before it if that device supports it,
    /// except for the device `stops_at`.
    fn spread_down(&self, graph: &Graph, places: &mut [BackendId], stops_at: BackendId) {
        self.spread(graph, places, stops_at, graph.computed.iter());
    }

    /// Pass 2, upwards: from the operation after it.
    fn spread_up(&self, graph: &Graph, places: &mut [BackendId], stops_at: BackendId) {
        self.spread(graph, places, stops_at, graph.computed.iter().rev());
    }

    fn spread<'g>(
        &self,
        graph: &Graph,
        places: &mut [BackendId],
        stops_at: BackendId,
        order: impl Iterator<Item = &'g TensorId>,
    ) {
        let mut current = NO_BACKEND;
        for &id in order {
            let place = &mut places[id.index()];
            if *place != NO_BACKEND {
                current = if *place == stops_at { NO_BACKEND } else { *place };
            } else if self.can(graph, current, &graph[id]) {
                *place = current;
            }
        }
    }

    /// Pass 3: an unassigned operation goes to the device that supports it and can read most of its operands. (Devices
    /// here never share a buffer type, so no operation can be upgraded to a better one.)
    fn best_fit(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in &graph.computed {
            let tensor = &graph[id];
            if places[id.index()] != NO_BACKEND {
                continue;
            }
            let readable = |place: BackendId| {
                graph
                    .sources(tensor)
                    .filter(|source| {
                        let below = graph[*source].view_of;
                        let placed = places[source.index()] != NO_BACKEND
                            || below.get().is_some_and(|b| places[b.index()] != NO_BACKEND);
                        placed && Self::readable(graph, places, *source, place)
                    })
                    .count()
            };
            // the first of equals
            let able = (0..=self.cpu()).rev().filter(|place| self.can(graph, *place, tensor));
            let best = able.max_by_key(|place| readable(*place));
            places[id.index()] = best.unwrap_or_else(|| self.cpu());
        }
    }

    /// Pass 4: views go to the device of their tensor, unassigned operands to that of their first reader.
    fn sources(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in &graph.nodes {
            let tensor = &graph[id];
            if places[id.index()] == NO_BACKEND && tensor.view_of.is_some() {
                places[id.index()] = places[tensor.view_of.index()];
            }
            for source in graph.sources(tensor) {
                if places[source.index()] == NO_BACKEND {
                    let below = graph[source].view_of;
                    places[source.index()] = below.get().map_or(places[id.index()], |below| places[below.index()]);
                }
            }
            if places[id.index()] == NO_BACKEND {
                let able = self.backends.iter().position(|backend| backend.supports(graph, tensor));
                places[id.index()] = able.map_or(self.cpu(), |place| place as BackendId);
            }
        }
    }
}

// The fifth pass: cuts the graph where the device changes, adds copies, and lets each backend optimise its splits.

/// Operands of one operation (`GGML_MAX_SRC` in `ggml.h`, 0.1.161).
const MAX_OPERANDS: usize = 10;

/// The first copy of every tensor on every device.
struct Copies {
    first: Vec<TensorId>,
    devices: usize,
    /// Copies per tensor: several in a pipeline.
    count: usize,
}

impl Copies {
    fn of(&mut self, id: TensorId, place: BackendId) -> &mut TensorId {
        &mut self.first[id.index() * self.devices + usize::from(place)]
    }
}

impl Scheduler<'_> {
    /// Pass 5, and the order of the allocator's walk.
    fn split(&self, graph: &mut Graph, schedule: &mut Schedule) {
        let devices = self.backends.len();
        let count = if self.pipeline { PIPELINE_COPIES } else { 1 };
        let mut copies = Copies { first: vec![TensorId::NONE; graph.tensors.len() * devices], devices, count };
        schedule.copies = count;
        let multiplied = if self.pipeline { self.multiplied(graph) } else { Vec::new() };
        let uses = graph.uses();
        self.cut(graph, schedule, &mut copies);
        let most = schedule.splits.iter().map(|split| split.inputs.len()).chain([multiplied.len()]).max();
        schedule.overflows = matches!(self.rules.split_inputs, SplitInputs::Fixed(limit) if most > Some(limit));
        for input in multiplied {
            schedule.multiply(input, graph);
        }
        let kept = self.optimise(graph, schedule, &uses);
        Self::set_order(graph, schedule, &mut copies, &kept);
    }

    /// Every backend reorders its splits, and keeps tensors longer there.
    fn optimise(&self, graph: &mut Graph, schedule: &Schedule, uses: &[u32]) -> AllocDeps {
        let (mut kept, mut numbers) = (AllocDeps::default(), Vec::new());
        for split in &schedule.splits {
            let backend = &self.backends[usize::from(split.place)];
            let (range, numbers) = (split.nodes.clone(), &mut numbers);
            let mut nodes = SplitGraph { graph: &mut *graph, range, uses, numbers };
            backend.graph_optimize(&mut nodes, &mut kept);
        }
        kept
    }

    /// Cuts the graph into splits.
    fn cut(&self, graph: &mut Graph, schedule: &mut Schedule, copies: &mut Copies) {
        let first = graph.computed.first().map(|id| schedule.places[id.index()]);
        let mut split = Split { place: first.unwrap_or(self.cpu()), nodes: 0..0, inputs: 0..0 };
        let mut node = 0;
        for at in 0..graph.computed.len() {
            let id = graph.computed[at];
            while graph.nodes[node] != id {
                node += 1;
            }
            let place = schedule.places[id.index()];
            let inputs = schedule.inputs.len() - split.inputs.start;
            let mut needs_split = || {
                Self::copies_weights(graph, schedule, id, place)
                    || (self.rules.split_inputs.is_full(inputs)
                        && Self::needs_new_copy(graph, schedule, copies, id, place))
            };
            if place != split.place || (inputs > 0 && needs_split()) {
                (split.nodes.end, split.inputs.end) = (node, schedule.inputs.len());
                let next = Split { place, nodes: node..node, inputs: split.inputs.end..split.inputs.end };
                schedule.splits.push(std::mem::replace(&mut split, next));
            }
            for operand in graph[id].src.range() {
                let source = graph.operands[operand];
                if !source.is_some() || !Self::is_away(graph, schedule, source, place) {
                    continue;
                }
                if !copies.of(source, place).is_some() {
                    *copies.of(source, place) = schedule.copy(graph, source, place, copies.count);
                    schedule.inputs.push(source);
                    schedule.input_copies.push(*copies.of(source, place));
                }
                graph.operands[operand] = *copies.of(source, place);
            }
        }
        (split.nodes.end, split.inputs.end) = (graph.nodes.len(), schedule.inputs.len());
        schedule.splits.push(split);
    }

    /// Whether `id` reads weights of another device: a new split lets their copies reuse the memory of earlier ones.
    fn copies_weights(graph: &Graph, schedule: &Schedule, id: TensorId, place: BackendId) -> bool {
        graph.sources(&graph[id]).any(|source| {
            matches!(graph[source].buffer, Buffer::Weights(_)) && Self::is_away(graph, schedule, source, place)
        })
    }

    /// Whether `id` needs a copy that does not exist yet.
    fn needs_new_copy(graph: &Graph, schedule: &Schedule, copies: &mut Copies, id: TensorId, place: BackendId) -> bool {
        let mut sources = graph.sources(&graph[id]);
        sources.any(|source| !copies.of(source, place).is_some() && Self::is_away(graph, schedule, source, place))
    }

    /// Whether `place` needs a copy of `source`.
    fn is_away(graph: &Graph, schedule: &Schedule, source: TensorId, place: BackendId) -> bool {
        schedule.places[source.index()] != place && !Self::readable(graph, &schedule.places, source, place)
    }

    /// The operations in order; before each split its copies, each after a no-op that keeps the original alive; after an
    /// operation a no-op for what is kept until then.
    fn set_order(graph: &mut Graph, schedule: &mut Schedule, copies: &mut Copies, kept: &AllocDeps) {
        let Schedule { places, splits, inputs, nodes, leafs, .. } = schedule;
        nodes.reserve(graph.nodes.len() + 2 * inputs.len());
        for split in &*splits {
            for &input in &inputs[split.inputs.clone()] {
                let Tensor { ne, nb, .. } = graph[input];
                let reader = graph.compute_view(Op::None, input, ne, nb, [input]);
                places.push(split.place);
                nodes.push((reader, places[input.index()]));
                nodes.push((*copies.of(input, split.place), split.place));
            }
            for at in split.nodes.clone() {
                let id = graph.nodes[at];
                nodes.push((id, places[id.index()]));
                for operands in kept.until(id).chunks(MAX_OPERANDS) {
                    places.push(split.place);
                    nodes.push((graph.keep(operands), split.place));
                }
            }
        }
        // a pipeline allocates the copies before the graph runs
        let pipeline = copies.count > 1;
        for split in splits.iter().filter(|_| pipeline) {
            for &input in &inputs[split.inputs.clone()] {
                let first = copies.of(input, split.place).0;
                leafs.extend((first..first + copies.count as u32).map(|copy| (TensorId(copy), split.place)));
            }
        }
        leafs.extend(graph.leafs.iter().map(|id| (*id, places[id.index()])));
    }

    /// The inputs that a pipeline keeps several copies of.
    fn multiplied(&self, graph: &Graph) -> Vec<TensorId> {
        if self.rules.multiplies_unread_inputs { inputs(graph) } else { read_inputs(graph) }
    }
}

impl Schedule {
    /// Adds `count` copies of `source` on `place`; the copies of a pipeline outlive the graph.
    fn copy(&mut self, graph: &mut Graph, source: TensorId, place: BackendId, count: usize) -> TensorId {
        let Tensor { ty, ne, nb, label, layer, .. } = graph[source];
        let kept = count > 1;
        let copy = Tensor { nb, label, layer, input: kept, output: kept, ..Tensor::new(ty, ne) };
        let first = TensorId(graph.tensors.len() as u32);
        for _ in 0..count {
            graph.add_tensor(copy);
            self.places.push(place);
        }
        first
    }

    /// Keeps several copies of an input in a pipeline; the original is the first.
    fn multiply(&mut self, input: TensorId, graph: &mut Graph) {
        let place = self.places[input.index()];
        graph[input].output = true;
        self.leafs.push((input, place));
        let more = self.copy(graph, input, place, self.copies - 1).0;
        for copy in more..more + self.copies as u32 - 1 {
            let copy = TensorId(copy);
            (graph[copy].input, graph[copy].output) = (true, true);
            self.leafs.push((copy, place));
        }
    }
}

/// The inputs of `graph`, including unread ones.
fn inputs(graph: &Graph) -> Vec<TensorId> {
    graph.leafs.iter().copied().filter(|leaf| graph[*leaf].input).collect()
}

/// The inputs of `graph` in order of first use.
fn read_inputs(graph: &Graph) -> Vec<TensorId> {
    let mut read = Vec::new();
    for &id in &graph.computed {
        for source in graph.sources(&graph[id]) {
            if graph[source].input && !read.contains(&source) {
                read.push(source);
            }
        }
    }
    read
}
