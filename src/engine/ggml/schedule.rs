//! Assigns a graph to devices: five passes assign every tensor, then the graph is cut into splits, and tensors needed
//! on another device are copied (`ggml_backend_sched_split_graph`, 0.1.161).

mod passes;
mod splits;

use super::backend::BackendRef;
use super::graph::Graph;
use super::tensor::{BackendId, NO_BACKEND, Tensor, TensorId};

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
    /// The operation that reads each of them first: an index into [`Graph::nodes`] at scheduling time.
    pub input_nodes: Vec<usize>,
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
        let Self { places, splits, inputs, input_nodes, input_copies, nodes, leafs, copies, overflows } = self;
        places.clear();
        splits.clear();
        inputs.clear();
        input_nodes.clear();
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
