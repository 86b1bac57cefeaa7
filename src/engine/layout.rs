//! Places layers on GPUs as Ollama up to 0.24 does.
//!
//! Source: `llm/server.go` (`Load`, `createLayout`, `buildLayout`, `verifyLayout`, `assignLayers`) and `ml/device.go`,
//! Ollama, May 2026. Arithmetic on bytes wraps as Go's does.

mod fit;
mod verify;

use super::backend;
use crate::machine::{Backend, Machine};
use crate::units::Bytes;
use fit::{GpuAssignment, GpuCapacity};

pub(super) use verify::LayoutRefusal;

/// Subtracted from every GPU's free memory before layers are placed.
pub(super) const fn minimum_memory(backend: Backend) -> Bytes {
    backend::of(backend).minimum
}

/// The input of the layout.
pub(super) struct LayoutTask<'a> {
    /// The machine; all its GPUs are considered.
    pub machine: &'a Machine,
    /// Bytes of each layer, the output layer last.
    pub layers: &'a [u64],
    /// Bytes taken on each GPU before anything is placed: one layer's buffer, adapters.
    pub taken: &'a [u64],
    /// Kept free on every GPU.
    pub overhead: u64,
    /// Reserved on every GPU that was tried: the larger graph.
    pub graph: u64,
    /// Requested layers on GPUs (`num_gpu`); none if the engine chooses.
    pub requested: Option<usize>,
    /// Use all GPUs at once.
    pub spread: bool,
    /// Refuse anything less than full offload.
    pub require_full: bool,
}

/// The placement of the layers.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// GPU of each layer, by its index in the machine.
    pub gpu_of: Vec<Option<usize>>,
    /// GPUs tried in the last round, including those without layers: each has a graph.
    pub tried: Vec<usize>,
    /// GPUs tried only in an earlier round: their graph stays reserved.
    pub tried_before: Vec<usize>,
    /// Bytes for layers on each GPU.
    pub room: Vec<u64>,
    /// The GPU on which the search stopped, if it did.
    pub gave_up_on: Option<usize>,
    /// The output layer was left out of the search.
    pub without_output: bool,
    /// The requested number of layers when the search ended; none if the engine chose.
    pub requested: Option<usize>,
    /// Why Ollama would not load this.
    pub refusal: Option<LayoutRefusal>,
}

impl Layout {
    /// Layers on GPUs.
    pub fn offloaded(&self) -> usize {
        self.gpu_of.iter().flatten().count()
    }
}

/// Places the layers. The graph is reserved on GPUs that were tried, and the search repeats as long as it tries more
/// GPUs than before.
pub(super) fn place(task: &LayoutTask<'_>) -> Layout {
    let mut requested = task.requested;
    let mut with_graph = vec![false; task.machine.gpus.len()];
    let mut entries_before = 0;
    loop {
        let (found, room) = build(task, requested, &with_graph);
        let mut layout = layout_of(task, &found, room, requested);
        let used_graphs = layout.tried.iter().filter(|&&gpu| is_set(&with_graph, gpu)).count() as u64;
        let sums = verify::MemorySums::of(task, &layout, used_graphs);
        layout.refusal = verify::refusal(task, &layout, &sums, requested);
        layout.tried_before =
            (0..with_graph.len()).filter(|&gpu| is_set(&with_graph, gpu) && !layout.tried.contains(&gpu)).collect();
        if layout.refusal.is_some() {
            return layout;
        }
        if verify::exceeds_unified_memory(task, &sums) {
            requested = Some(0);
        }
        if found.entries.len() <= entries_before {
            return layout;
        }
        entries_before = found.entries.len();
        for &gpu in &layout.tried {
            if let Some(flag) = with_graph.get_mut(gpu) {
                *flag = true;
            }
        }
    }
}

fn is_set(flags: &[bool], index: usize) -> bool {
    flags.get(index).copied().unwrap_or(false)
}

/// The best assignment of one backend's GPUs.
#[derive(Clone, Debug, Default)]
struct Assignment {
    entries: Vec<GpuAssignment>,
    without_output: bool,
}

impl Assignment {
    fn layers(&self) -> usize {
        self.entries.iter().map(GpuAssignment::len).sum()
    }
}

/// One round: each backend separately; the one holding most layers is used.
fn build(task: &LayoutTask<'_>, requested: Option<usize>, with_graph: &[bool]) -> (Assignment, Vec<u64>) {
    let gpus = &task.machine.gpus;
    let free = |index: usize| {
        let free = gpus.get(index).map_or(0, |gpu| gpu.free.0);
        free.saturating_sub(task.taken.get(index).copied().unwrap_or(0))
    };
    let mut room = vec![0; gpus.len()];
    // a stable sort, as Go's is for up to 12 elements
    let mut order: Vec<usize> = (0..gpus.len()).collect();
    order.sort_by_key(|&index| (gpus.get(index).is_some_and(backend::is_placed_last), std::cmp::Reverse(free(index))));

    let mut best = Assignment::default();
    let mut backends: Vec<Backend> = Vec::new();
    for &first in &order {
        let Some(backend) = gpus.get(first).map(|gpu| gpu.backend) else { continue };
        if backends.contains(&backend) {
            continue;
        }
        backends.push(backend);
        let mut devices = Vec::new();
        let mut last_used = 0;
        for &index in &order {
            let Some(gpu) = gpus.get(index).filter(|gpu| gpu.backend == backend) else { continue };
            let graph = if is_set(with_graph, index) { task.graph } else { 0 };
            if graph != 0 {
                last_used = devices.len();
            }
            let reserved = minimum_memory(backend).0.wrapping_add(task.overhead).wrapping_add(graph);
            let left = free(index).saturating_sub(reserved);
            if let Some(room) = room.get_mut(index) {
                *room = left;
            }
            // with a user-set number of layers integrated GPUs are treated like discrete ones
            let integrated = backend::is_placed_last(gpu) && requested.is_none() && !task.spread;
            devices.push(GpuCapacity { gpu: index, free: left, integrated });
        }
        let found = assign(task, &devices, requested, last_used);
        if found.layers() > best.layers() {
            best = found;
        } else if best.layers() == 0 {
            // a search that places nothing leaves its GPUs untried, but still reports the omitted output layer
            best.without_output = found.without_output;
        }
    }
    (best, room)
}

/// Uses as few of one backend's GPUs as possible; if not everything fits, tries again without the output layer.
fn assign(task: &LayoutTask<'_>, devices: &[GpuCapacity], requested: Option<usize>, last_used: usize) -> Assignment {
    let mut requested = requested;
    let all = task.layers.len();
    let mut found = Assignment::default();
    for (count, without_output) in [(all, false), (all.saturating_sub(1), true)] {
        let layers = task.layers.get(..count).unwrap_or_default();
        requested = requested.map(|requested| requested.min(count));
        found.without_output = without_output;
        let first = if task.spread { devices.len().saturating_sub(1) } else { last_used };
        for last in first..devices.len() {
            let set = devices.get(..=last).unwrap_or_default();
            let is_last_attempt = last + 1 == devices.len();
            found.entries = fit::best(layers, set, requested, is_last_attempt && !task.require_full);
            if found.layers() == count || Some(found.layers()) == requested {
                break;
            }
        }
        if found.layers() == count {
            break;
        }
    }
    found
}

fn layout_of(task: &LayoutTask<'_>, found: &Assignment, room: Vec<u64>, requested: Option<usize>) -> Layout {
    let mut gpu_of = vec![None; task.layers.len()];
    for entry in &found.entries {
        for place in gpu_of.get_mut(entry.layers.clone()).into_iter().flatten() {
            *place = Some(entry.gpu);
        }
    }
    let tried: Vec<usize> = found.entries.iter().map(|entry| entry.gpu).collect();
    Layout {
        gpu_of,
        gave_up_on: tried.first().copied(),
        tried,
        tried_before: Vec::new(),
        room,
        without_output: found.without_output,
        requested,
        refusal: None,
    }
}

#[cfg(test)]
mod tests;
