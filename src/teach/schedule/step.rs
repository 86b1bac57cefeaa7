//! The state after each pass of the scheduler.

use crate::engine::ggml::schedule::Pass;
use crate::engine::ggml::tensor::{BackendId, NO_BACKEND, TensorId};
use crate::teach::trace::Trace;

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
pub fn home(place: BackendId) -> Option<usize> {
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

    /// Its name as in llama.cpp's source (`ggml_backend_sched_split_graph`, ggml-backend.cpp, 0.1.161).
    pub const fn source_name(&self) -> &'static str {
        match self.pass {
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

    /// What the pass does, in a few plain sentences.
    pub const fn description(&self) -> &'static str {
        match self.pass {
            None => {
                "The graph is built, and no operation has a device yet. Weights and caches are where they were loaded."
            }
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
}

/// The steps of `trace`, from no assignment to the splits.
pub fn steps(trace: &Trace) -> Vec<ScheduleStep> {
    let details = &trace.details;
    let graph = &details.graph;
    let devices = trace.homes.len();
    // copies are appended by the last pass: only the tensors before it can be assigned
    let arena = trace.passes.first().map_or(0, |(_, places)| places.len());
    let nothing = vec![NO_BACKEND; arena];
    let previous = std::iter::once(&nothing).chain(trace.passes.iter().map(|(_, places)| places));
    let shown: Vec<TensorId> = graph.leafs.iter().chain(&graph.nodes).copied().collect();
    let place = |places: &[BackendId], id: TensorId| places.get(id.index()).copied().unwrap_or(NO_BACKEND);
    let count = |places: &[BackendId]| {
        let mut counts = vec![DeviceCount::default(); devices + 1];
        for &id in &shown {
            let at = home(place(places, id)).unwrap_or(devices);
            if let Some(count) = counts.get_mut(at) {
                let operation = graph[id].op != crate::engine::ggml::Op::None && !graph[id].op.is_view();
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
