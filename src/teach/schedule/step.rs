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
    /// Its number and name: `1 placed`.
    pub const fn name(&self) -> &'static str {
        match self.pass {
            None => "0 start",
            Some(Pass::Anchors) => "1 placed",
            Some(Pass::GpusDown) => "2 GPUs down",
            Some(Pass::GpusUp) => "2 GPUs up",
            Some(Pass::RestDown) => "2 rest down",
            Some(Pass::RestUp) => "2 rest up",
            Some(Pass::BestFit) => "3 upgrades",
            Some(Pass::Sources) => "4 sources",
            Some(Pass::Split) => "5 splits",
        }
    }

    /// What the pass does, in one or two sentences.
    pub const fn description(&self) -> &'static str {
        match self.pass {
            None => {
                "The graph is built, and no operation has a device yet. Weights and caches are where they were loaded."
            }
            Some(Pass::Anchors) => {
                "Tensors that are already allocated stay where they are. An operation with weights runs where its \
                 weights are; if those are in RAM and the batch is large, it is offloaded to a GPU. Inputs start in \
                 RAM."
            }
            Some(Pass::GpusDown) => "GPUs first: unassigned operations after an operation on a GPU are assigned to it.",
            Some(Pass::GpusUp) => {
                "The same backwards: unassigned operations before an operation on a GPU are \
                                   assigned to it."
            }
            Some(Pass::RestDown) => "The rest: unassigned operations after any assigned operation get its device.",
            Some(Pass::RestUp) => "The same backwards, so that every supported operation is assigned.",
            Some(Pass::BestFit) => {
                "What is left goes to the device that supports it and already holds most of its operands. \
                 (Operations could also move to a faster device that shares memory; none does here.)"
            }
            Some(Pass::Sources) => "Views go where their data is; unassigned operands go to their first reader.",
            Some(Pass::Split) => {
                "The graph is split wherever the device changes, and each split copies what it reads from other \
                 devices. Weights that are copied to a GPU start a new split."
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
