//! Spreads a graph over devices: five passes assign every tensor to a device, then the graph is cut into splits and
//! what crosses a border is copied (`ggml_backend_sched_split_graph`, 0.1.161).

mod assign;
mod split;

use super::backend::BackendProps;
use super::graph::Graph;
use super::tensor::{BackendId, NO_BACKEND, Tensor, TensorId};

/// Copies of every input while several devices work as a pipeline (`GGML_SCHED_MAX_COPIES`, 0.1.161).
pub const PIPELINE_COPIES: usize = 4;

/// How a graph is to be spread.
#[derive(Clone, Debug)]
pub struct Scheduler<'a> {
    /// GPUs in order of preference, the CPU last.
    pub backends: &'a [BackendProps],
    /// GPUs may take over operations whose weights are in RAM.
    pub op_offload: bool,
    /// Devices work on several batches at once.
    pub pipeline: bool,
    /// Tensors stay on the device that the model's own code insists on. llama.cpp forgets these when it only measures
    /// (`ggml_backend_sched_reserve_size` resets the scheduler first, 0.1.161), as `--fit` does.
    pub pins: bool,
    /// What differs between releases.
    pub rules: SchedulerRules,
}

/// What releases of ggml do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerRules {
    /// Attention goes where its sinks are, as any operation with weights; else these are too small to decide.
    pub sinks_decide: bool,
    /// The most copies that one split can begin with.
    pub most_inputs: Option<usize>,
    /// A pipeline keeps several copies even of inputs that no operation reads, in the order of the graph; else of those
    /// that are read, in that order.
    pub multiplies_unread_inputs: bool,
}

/// Consecutive operations on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The device.
    pub place: BackendId,
    /// Its operations: indices into [`Graph::nodes`] as they were scheduled.
    pub nodes: std::ops::Range<usize>,
    /// What is copied to the device before they run: indices into [`Schedule::inputs`].
    pub inputs: std::ops::Range<usize>,
}

/// A graph spread over devices, in the order in which the allocator walks through it.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The device of every tensor of the arena, copies included.
    pub places: Vec<BackendId>,
    /// Runs of operations on one device each.
    pub splits: Vec<Split>,
    /// What crosses into them.
    pub inputs: Vec<TensorId>,
    /// Operations with the copies between splits, and the device whose memory each result is in.
    pub nodes: Vec<(TensorId, BackendId)>,
    /// What is allocated before anything runs.
    pub leafs: Vec<(TensorId, BackendId)>,
    /// Copies of everything that crosses into a split: one, or several in a pipeline, one after the other in the arena.
    pub copies: usize,
}

impl Schedule {
    /// Forgets everything, and keeps the room that it had.
    pub fn clear(&mut self) {
        let Self { places, splits, inputs, nodes, leafs, copies } = self;
        places.clear();
        splits.clear();
        inputs.clear();
        nodes.clear();
        leafs.clear();
        *copies = 0;
    }

    /// What crosses into `split`.
    pub fn inputs(&self, split: &Split) -> &[TensorId] {
        &self.inputs[split.inputs.clone()]
    }

    /// What crosses: the split that it crosses into, the tensor, and the first of its copies there.
    pub fn crossings(&self) -> impl Iterator<Item = (usize, TensorId, TensorId)> {
        let mut next = 0;
        self.splits.iter().enumerate().flat_map(move |(at, split)| {
            let first = next;
            next += 2 * split.inputs.len() + split.nodes.len();
            // before each copy stands the reader that keeps its original alive
            let copies = self.nodes.iter().skip(first + 1).step_by(2).map(|(copy, _)| *copy);
            self.inputs(split).iter().copied().zip(copies).map(move |(input, copy)| (at, input, copy))
        })
    }
}

/// The passes, by what they do; the second has four parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// What has its bytes already, what is given, and operations with weights.
    Anchors,
    /// What follows operations on GPUs.
    GpusDown,
    /// What comes before them.
    GpusUp,
    /// What follows operations on any device.
    RestDown,
    /// What comes before them.
    RestUp,
    /// Whatever is left, to the device that can do it and holds most of its operands.
    BestFit,
    /// Operands that belong to nobody yet.
    Sources,
    /// Cut at every change of device and copy what crosses.
    Split,
}

/// Assignments after each pass, for those who want to watch.
pub type PassTrace = Vec<(Pass, Vec<BackendId>)>;

/// One of the passes that assign.
type AssignPass<'a> = fn(&Scheduler<'a>, &Graph, &mut [BackendId]);

impl Scheduler<'_> {
    /// Schedules `graph` into `schedule`, whatever that held before. Copies are added to the graph's arena, and operations
    /// read copies where they must. `trace` receives every tensor's device after each pass.
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

    /// Every tensor's device, before copies are made, into `places`, which are empty.
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

    /// Whether the device at `place` can do `op`.
    fn can(&self, place: BackendId, op: &Tensor) -> bool {
        self.backends.get(usize::from(place)).is_some_and(|backend| backend.supports(op))
    }

    /// The CPU.
    const fn cpu(&self) -> BackendId {
        (self.backends.len() - 1) as BackendId
    }

    /// The device that holds the bytes of `tensor`, if they are allocated already.
    fn allocated(graph: &Graph, tensor: &Tensor) -> Option<BackendId> {
        tensor.view_of.get().map_or(tensor.buffer, |of| graph[of].buffer).place()
    }

    /// Whether `place` can read `id` without a copy: a device reads its own memory only.
    fn readable(graph: &Graph, places: &[BackendId], id: TensorId, place: BackendId) -> bool {
        let tensor = &graph[id];
        if let Some(home) = Self::allocated(graph, tensor) {
            return home == place;
        }
        let mut home = places[id.index()];
        if home == NO_BACKEND && tensor.view_of.is_some() {
            home = places[tensor.view_of.index()];
        }
        home == place
    }
}
