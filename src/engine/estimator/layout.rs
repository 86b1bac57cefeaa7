//! Places layers on GPUs as Ollama up to 0.24 does.
//!
//! Source: `llm/server.go` (`Load`, `createLayout`, `buildLayout`, `verifyLayout`, `assignLayers`, `findBestFit`,
//! `greedyFit`) and `ml/device.go`, Ollama, May 2026. Arithmetic on bytes wraps as Go's does.

use std::ops::Range;

use super::assemble::{Placement, Refusal, UNIFIED_MEMORY, nonzero, too_large_for_ram};
use super::{Block, Case, by_library};
use crate::engine::backend;
use crate::machine::{Backend, Gpu, Os, Ram};
use crate::plan::{DevicePlan, GraphUse, Why};
use crate::units::Bytes;

/// Places the layers of a model.
pub(super) fn placement(case: &mut Case<'_>) -> Placement {
    let gpus = case.gpus();
    case.sizes.on_gpus(gpus.first().map(|gpu| gpu.backend), false);
    // the first discrete one, else the first
    let discrete = gpus.iter().position(|gpu| !gpu.integrated);
    let adapter_gpu = discrete.or((!gpus.is_empty()).then_some(0));
    let adapters = |gpu: usize| if Some(gpu) == adapter_gpu { case.settings.adapters.0 } else { 0 };
    let layers: Vec<u64> = case.blocks.iter().map(Block::both).chain([case.output]).collect();
    // Ollama subtracts both in turn and limits only the result to zero, which equals one subtraction
    let taken: Vec<u64> = (0..gpus.len()).map(|gpu| case.buffer.saturating_add(adapters(gpu))).collect();
    let larger_graph = case.sizes.partial.bytes.max(case.sizes.full.bytes);
    let layout = place(&LayoutTask {
        gpus,
        ram: case.machine.ram,
        os: case.machine.os,
        layers: &layers,
        taken: &taken,
        overhead: case.settings.gpu_overhead.0,
        graph: larger_graph.0,
        requested: case.effect.requested,
        spread: case.settings.spread,
        require_full: case.settings.require_full,
    });

    let offloaded = layout.offloaded();
    let (used, why, in_force) = match offloaded {
        all if all == layers.len() => (GraphUse::Full, "all layers are on GPU", &case.sizes.full),
        0 => (GraphUse::Partial, "no layer is on GPU, so none is allocated", &case.sizes.partial),
        _ => (GraphUse::Partial, "some layers are in RAM", &case.sizes.partial),
    };
    let mut devices = DevicePlan::all_of(case.machine);
    for (index, gpu) in gpus.iter().enumerate() {
        devices[index].graph = match index {
            used if layout.tried.contains(&used) => in_force.bytes,
            unused if layout.tried_before.contains(&unused) => larger_graph,
            _ => Bytes::ZERO,
        };
        devices[index].reserves = nonzero([
            ("minimum memory", backend::of(gpu.backend).minimum.0),
            ("one-layer buffer", case.buffer),
            ("GPU overhead", case.settings.gpu_overhead.0),
            ("adapters", adapters(index)),
        ]);
    }
    let mut notes = Vec::new();
    if layout.requested != case.effect.requested {
        notes.push(UNIFIED_MEMORY.to_owned());
    }
    for &gpu in &layout.tried_before {
        let id = &devices[gpu].id;
        notes.push(format!("{id} was tried but not used, and keeps the memory for its compute buffer"));
    }
    // a request for none is why none is considered
    let without_gpus = if case.machine.gpus.is_empty() { Why::NoGpu } else { Why::NotAskedFor };
    let split = layout.requested.is_some_and(|asked| asked > 0 && asked < layers.len());
    Placement {
        layers: layout.gpu_of.iter().copied().zip(layout.whys(&layers, &without_gpus)).collect(),
        offloaded,
        graph: case.sizes.graph(used, why),
        devices,
        refusal: layout.refusal,
        estimate: None,
        first: gpus.first().map(|gpu| gpu.backend),
        without_gpu: gpus.is_empty().then_some("there is no GPU"),
        split_on_metal: split && gpus.iter().any(|gpu| gpu.backend == Backend::Metal),
        notes,
    }
}

/// The input of the layout.
struct LayoutTask<'a> {
    /// The GPUs, all of which are considered.
    gpus: &'a [Gpu],
    ram: Ram,
    os: Os,
    /// Bytes of each layer, the output layer last.
    layers: &'a [u64],
    /// Bytes taken on each GPU before anything is placed: one layer's buffer, adapters.
    taken: &'a [u64],
    /// Kept free on every GPU.
    overhead: u64,
    /// Reserved on every GPU that was tried: the larger graph.
    graph: u64,
    /// Requested layers on GPUs (`num_gpu`); none if the engine chooses.
    requested: Option<usize>,
    /// Use all GPUs at once.
    spread: bool,
    /// Refuse anything less than full offload.
    require_full: bool,
}

/// The placement of the layers.
#[derive(Clone, Debug, Default)]
struct Layout {
    /// GPU of each layer.
    gpu_of: Vec<Option<usize>>,
    /// GPUs tried in the last round, including those without layers: each has a graph.
    tried: Vec<usize>,
    /// GPUs tried only in an earlier round: their graph stays reserved.
    tried_before: Vec<usize>,
    /// Bytes for layers on each GPU.
    room: Vec<u64>,
    /// The GPU on which the search stopped; the roomiest if it tried none. None without GPUs.
    gave_up_on: Option<usize>,
    /// The search left out the output layer, for which there was room while it placed the others.
    output_dropped: bool,
    /// The requested number of layers when the search ended; none if the engine chose.
    requested: Option<usize>,
    /// Why Ollama would not load this.
    refusal: Option<Refusal>,
}

impl Layout {
    /// Layers on GPUs.
    fn offloaded(&self) -> usize {
        self.gpu_of.iter().flatten().count()
    }

    /// The reason for the device of each of `layers`, whose bytes these are; `without_gpus` where none is considered.
    fn whys(&self, layers: &[u64], without_gpus: &Why) -> Vec<Why> {
        let Some(gave_up_on) = self.gave_up_on else { return vec![without_gpus.clone(); layers.len()] };
        let mut room = self.room.clone();
        let mut blocker: Option<(usize, Bytes)> = None;
        // from last to first, in the order of placement
        let why = |(index, &bytes): (usize, &u64)| {
            let needed = Bytes(bytes);
            if let Some(gpu) = self.gpu_of[index] {
                let left = Bytes(room[gpu]);
                room[gpu] = room[gpu].saturating_sub(bytes);
                let forced = self.requested.is_some() && needed > left;
                return if forced { Why::AskedFor } else { Why::Fits { needed, room: left } };
            }
            if let Some(why) = self.why_left_out(index, layers.len()) {
                return why;
            }
            let (device, room) = (gave_up_on, Bytes(room[gave_up_on]));
            match blocker {
                // a smaller layer is not tried after one that did not fit
                Some((layer, blocked)) if needed <= room => {
                    Why::GivenUp { device, layer, needed: blocked, room, own: needed }
                }
                _ => {
                    blocker.get_or_insert((index, needed));
                    Why::NoRoom { needed, room, device }
                }
            }
        };
        let mut whys: Vec<Why> = layers.iter().enumerate().rev().map(why).collect();
        whys.reverse();
        whys
    }

    /// Why the search did not try to place a layer, of so many.
    fn why_left_out(&self, index: usize, count: usize) -> Option<Why> {
        let is_output = index + 1 == count;
        // counted from the last block, because the output layer stays in RAM unless all layers were requested
        let asked_for = |asked: usize| asked > 0 && (asked >= count || (!is_output && index + 1 + asked >= count));
        match self.requested {
            Some(asked) if !asked_for(asked) => Some(Why::NotAskedFor),
            Some(_) if is_output => Some(Why::OutputDropped),
            None if is_output && self.output_dropped => Some(Why::OutputDropped),
            _ => None,
        }
    }
}

/// Places the layers. The graph is reserved on GPUs that were tried, and the search repeats as long as it tries more
/// GPUs than before.
fn place(task: &LayoutTask<'_>) -> Layout {
    let mut requested = task.requested;
    let mut with_graph = vec![false; task.gpus.len()];
    let mut tried_before = 0;
    loop {
        let mut layout = build(task, requested, &with_graph);
        let graphs = layout.tried.iter().filter(|&&gpu| with_graph[gpu]).count() as u64;
        let (mut in_ram, mut on_gpus) = (0u64, graphs.wrapping_mul(task.graph));
        for (&layer, gpu) in task.layers.iter().zip(&layout.gpu_of) {
            let side = if gpu.is_some() { &mut on_gpus } else { &mut in_ram };
            *side = side.wrapping_add(layer);
        }
        layout.refusal = refusal(task, &layout, in_ram);
        layout.tried_before =
            (0..with_graph.len()).filter(|&gpu| with_graph[gpu] && !layout.tried.contains(&gpu)).collect();
        if layout.refusal.is_some() {
            return layout;
        }
        // on macOS, a model larger than all memory gets no GPU in the next round
        if task.os == Os::MacOs && on_gpus > task.ram.total.0 {
            requested = Some(0);
        }
        if layout.tried.len() <= tried_before {
            return layout;
        }
        tried_before = layout.tried.len();
        layout.tried.iter().for_each(|&gpu| with_graph[gpu] = true);
    }
}

/// `llm/server.go`, `verifyLayout`.
fn refusal(task: &LayoutTask<'_>, layout: &Layout, in_ram: u64) -> Option<Refusal> {
    let (placed, all, free) = (layout.offloaded(), task.layers.len(), task.ram.free.0);
    let short = placed < all && layout.requested.is_none_or(|requested| placed < requested);
    if task.require_full && short && !task.gpus.is_empty() {
        return Some(Refusal::NotFull { placed, all });
    }
    if task.require_full && in_ram > free {
        return Some(Refusal::NotFullNorInRam { needed: in_ram, free });
    }
    too_large_for_ram(in_ram, task.ram, task.os)
}

/// The best assignment of one backend's GPUs.
#[derive(Clone, Debug, Default)]
struct Assignment {
    entries: Vec<GpuAssignment>,
    without_output: bool,
}

impl Assignment {
    fn layers(&self) -> usize {
        self.entries.iter().map(|entry| entry.layers.len()).sum()
    }
}

/// One round: each backend separately; the one holding most layers is used.
fn build(task: &LayoutTask<'_>, requested: Option<usize>, with_graph: &[bool]) -> Layout {
    let gpus = task.gpus;
    let free = |index: usize| gpus[index].free.0.saturating_sub(task.taken.get(index).copied().unwrap_or(0));
    let mut room = vec![0; gpus.len()];
    // a stable sort, as Go's is for up to 12 elements
    let mut order: Vec<usize> = (0..gpus.len()).collect();
    order.sort_by_key(|&index| (backend::is_placed_last(&gpus[index]), std::cmp::Reverse(free(index))));

    let mut best = Assignment::default();
    for group in by_library(&order, |gpu| Some(gpus[gpu].backend)) {
        let mut devices = Vec::new();
        let mut last_used = 0;
        for index in group {
            let graph = if with_graph[index] { task.graph } else { 0 };
            if graph != 0 {
                last_used = devices.len();
            }
            let minimum = backend::of(gpus[index].backend).minimum.0;
            let reserved = minimum.wrapping_add(task.overhead).wrapping_add(graph);
            room[index] = free(index).saturating_sub(reserved);
            // with a user-set number of layers integrated GPUs are treated like discrete ones
            let integrated = backend::is_placed_last(&gpus[index]) && requested.is_none() && !task.spread;
            devices.push(GpuCapacity { gpu: index, free: room[index], integrated });
        }
        let found = assign(task, &devices, requested, last_used);
        if found.layers() > best.layers() {
            best = found;
        } else if best.layers() == 0 {
            // a search that places nothing leaves its GPUs untried, but still reports the omitted output layer
            best.without_output = found.without_output;
        }
    }

    let mut gpu_of = vec![None; task.layers.len()];
    for entry in &best.entries {
        gpu_of[entry.layers.clone()].fill(Some(entry.gpu));
    }
    let tried: Vec<usize> = best.entries.iter().map(|entry| entry.gpu).collect();
    let output = task.layers.last().copied().unwrap_or(0);
    Layout {
        gpu_of,
        gave_up_on: tried.first().copied().or((0..room.len()).max_by_key(|&gpu| room[gpu])),
        tried,
        tried_before: Vec::new(),
        // where nothing is placed, an output layer without room has no other reason than the blocks
        output_dropped: best.without_output && (best.layers() > 0 || room.iter().any(|&room| output <= room)),
        room,
        requested,
        refusal: None,
    }
}

/// Uses as few of one backend's GPUs as possible; if not everything fits, tries again without the output layer.
fn assign(task: &LayoutTask<'_>, devices: &[GpuCapacity], requested: Option<usize>, last_used: usize) -> Assignment {
    let mut requested = requested;
    let all = task.layers.len();
    let mut found = Assignment::default();
    for (count, without_output) in [(all, false), (all.saturating_sub(1), true)] {
        requested = requested.map(|requested| requested.min(count));
        found.without_output = without_output;
        let first = if task.spread { devices.len().saturating_sub(1) } else { last_used };
        for last in first..devices.len() {
            let force = last + 1 == devices.len() && !task.require_full;
            found.entries = best_fit(&task.layers[..count], &devices[..=last], requested, force);
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

/// A GPU and its memory left for layers.
#[derive(Clone, Copy, Debug)]
struct GpuCapacity {
    /// Index in the machine.
    gpu: usize,
    /// Bytes for layers.
    free: u64,
    /// An integrated GPU, which is placed last.
    integrated: bool,
}

/// A GPU that was tried, and its layers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GpuAssignment {
    gpu: usize,
    layers: Range<usize>,
}

/// Memory multiplier for forced requests.
const FORCED: f32 = 1000.0;
/// Precision of the search for the capacity.
const PRECISION: f32 = 1e-6;

/// The maximum number of layers on `devices`, class by class, as evenly balanced as possible. `requested` limits the
/// number; `force` then ignores the available memory. Entries are in layer order.
fn best_fit(layers: &[u64], devices: &[GpuCapacity], requested: Option<usize>, force: bool) -> Vec<GpuAssignment> {
    let mut end = layers.len();
    let mut requested = requested;
    let mut entries = Vec::new();
    // discrete and integrated GPUs, the class of the first device first
    let first = devices.first().is_some_and(|device| device.integrated);
    for class in [first, !first] {
        let class: Vec<GpuCapacity> = devices.iter().copied().filter(|device| device.integrated == class).collect();
        if class.is_empty() {
            continue;
        }
        let high = if requested.is_some() && force { FORCED } else { 1.0 };
        let class_entries = balanced(&layers[..end], &class, requested.unwrap_or(usize::MAX), high);
        let count: usize = class_entries.iter().map(|entry| entry.layers.len()).sum();
        end -= count;
        requested = requested.map(|requested| requested - count);
        entries.splice(0..0, class_entries);
    }
    entries
}

/// Fills with the smallest share of every GPU's free memory, up to `high`, that holds as many layers as `high`.
fn balanced(layers: &[u64], devices: &[GpuCapacity], limit: usize, high: f32) -> Vec<GpuAssignment> {
    let count = |capacity: f32| greedy(layers, devices, limit, capacity).iter().map(|entry| entry.layers.len()).sum();
    let (mut low, mut high) = (0.0f32, high);
    let max_layers: usize = count(high);
    while high - low > PRECISION {
        let middle = f32::midpoint(low, high);
        // where float32 is too coarse for the precision, Ollama loops forever
        if middle <= low || middle >= high {
            break;
        }
        if count(middle) == max_layers { high = middle } else { low = middle }
    }
    let mut entries = greedy(layers, devices, limit, high);
    entries.reverse();
    entries
}

/// Fills GPUs from last to first with layers from last to first, each until the next layer does not fit: every GPU tried
/// with its layers.
fn greedy(layers: &[u64], devices: &[GpuCapacity], limit: usize, capacity: f32) -> Vec<GpuAssignment> {
    let first = layers.len().saturating_sub(limit);
    let mut next = layers.len();
    let mut entries = Vec::with_capacity(devices.len());
    for device in devices.iter().rev() {
        let end = next;
        let mut free = (device.free as f32 * capacity) as u64;
        while next > first
            && let Some(left) = free.checked_sub(layers[next - 1])
        {
            free = left;
            next -= 1;
        }
        entries.push(GpuAssignment { gpu: device.gpu, layers: next..end });
        if next <= first {
            break;
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures;
    use crate::machine::Machine;

    /// A GPU with `free` MiB for layers, after the minimum memory.
    fn gpu(backend: Backend, free: u64) -> Gpu {
        fixtures::gpu(backend, Bytes::mib(free) + backend::of(backend).minimum)
    }

    fn cuda(free: u64) -> Gpu {
        gpu(Backend::Cuda, free)
    }

    fn machine(gpus: Vec<Gpu>, ram: u64) -> Machine {
        let ram = Ram { total: Bytes::mib(ram), free: Bytes::mib(ram), swap_free: Bytes::ZERO, bandwidth: None };
        Machine { os: Os::Linux, ram, ..fixtures::machine(gpus) }
    }

    /// Ten layers of 10 MiB; a graph of 25 MiB.
    fn task(machine: &Machine) -> LayoutTask<'_> {
        const LAYER: u64 = 10 << 20;
        LayoutTask {
            gpus: &machine.gpus,
            ram: machine.ram,
            os: machine.os,
            layers: &[LAYER; 10],
            taken: &[],
            overhead: 0,
            graph: 25 << 20,
            requested: None,
            spread: false,
            require_full: false,
        }
    }

    fn counts(layout: &Layout, gpus: usize) -> Vec<usize> {
        (0..gpus).map(|gpu| layout.gpu_of.iter().filter(|&&place| place == Some(gpu)).count()).collect()
    }

    #[test]
    fn the_graph_is_reserved_in_the_second_round() {
        let enough = machine(vec![cuda(125)], 1000);
        assert_eq!(place(&task(&enough)).offloaded(), 10);
        let short = machine(vec![cuda(124)], 1000);
        let layout = place(&task(&short));
        assert_eq!((layout.offloaded(), layout.output_dropped), (9, true));
        assert_eq!(layout.gpu_of.last(), Some(&None), "the output layer is given up first");
    }

    #[test]
    fn without_room_for_a_block_no_gpu_is_tried_and_the_layout_remembers_why() {
        let full = machine(vec![cuda(5), cuda(7)], 1000);
        let layout = place(&task(&full));
        assert_eq!((layout.offloaded(), layout.output_dropped, layout.gave_up_on), (0, false, Some(1)));
        assert!(layout.tried.is_empty());
        let no_room = |device| Why::NoRoom { needed: Bytes::mib(10), room: Bytes::mib(7), device };
        assert_eq!(layout.whys(&[10 << 20; 10], &Why::NoGpu), vec![no_room(1); 10]);
        // an output layer that fits is left out because the blocks do not
        let layers = [10 << 20, 10 << 20, 6 << 20];
        let layout = place(&LayoutTask { layers: &layers, ..task(&full) });
        assert_eq!((layout.offloaded(), layout.output_dropped, layout.gave_up_on), (0, true, Some(1)));
        assert_eq!(layout.whys(&layers, &Why::NoGpu), [no_room(1), no_room(1), Why::OutputDropped]);
    }

    #[test]
    fn the_fewest_possible_gpus_are_used_by_free_memory() {
        let layout = place(&task(&machine(vec![cuda(130), cuda(200)], 1000)));
        assert_eq!((counts(&layout, 2), layout.tried), (vec![0, 10], vec![1]));
        let layout = place(&task(&machine(vec![cuda(80), cuda(90)], 1000)));
        assert_eq!(counts(&layout, 2), [5, 5], "the load is as even as it can be");
    }

    #[test]
    fn spread_uses_all_gpus() {
        let machine = machine(vec![cuda(200), cuda(200)], 1000);
        let layout = place(&LayoutTask { spread: true, ..task(&machine) });
        assert_eq!(counts(&layout, 2), [5, 5]);
    }

    #[test]
    fn one_backend_is_used_at_a_time() {
        let gpus = |rocm| machine(vec![cuda(60), gpu(Backend::Rocm, rocm), cuda(60)], 1000);
        let layout = place(&task(&gpus(50)));
        assert_eq!((counts(&layout, 3), layout.tried_before.len()), (vec![3, 0, 3], 0));
        // the other backend wins once graphs are reserved, and its own graph is not
        let layout = place(&task(&gpus(70)));
        assert_eq!((counts(&layout, 3), layout.tried_before), (vec![0, 7, 0], vec![0, 2]));
    }

    #[test]
    fn integrated_gpus_come_after_discrete_ones_unless_a_number_is_asked_for() {
        let mut shared = cuda(500);
        shared.integrated = true;
        let machine = machine(vec![shared, cuda(65)], 1000);
        let layout = place(&task(&machine));
        assert_eq!(counts(&layout, 2), [6, 4], "the discrete one is filled, the other takes the rest");
        let layout = place(&LayoutTask { requested: Some(10), ..task(&machine) });
        assert_eq!(layout.offloaded(), 10);
        assert!(counts(&layout, 2)[0] > 6, "both fill in proportion to their memory");
    }

    #[test]
    fn a_request_is_forced_unless_a_full_fit_is_required() {
        let machine = machine(vec![cuda(55)], 1000);
        let layout = place(&LayoutTask { requested: Some(8), ..task(&machine) });
        assert_eq!((layout.offloaded(), layout.gpu_of.last()), (8, Some(&None)));
        let layout = place(&LayoutTask { requested: Some(8), require_full: true, ..task(&machine) });
        assert_eq!(layout.refusal, Some(Refusal::NotFull { placed: 5, all: 10 }));
        let layout = place(&LayoutTask { requested: Some(0), ..task(&machine) });
        assert_eq!((layout.offloaded(), layout.tried.len()), (0, 0));
    }

    #[test]
    fn overhead_and_taken_memory_are_not_used() {
        let machine = machine(vec![cuda(125)], 1000);
        let layout = place(&LayoutTask { taken: &[20 << 20], overhead: 10 << 20, ..task(&machine) });
        assert_eq!(layout.offloaded(), 7);
        let layout = place(&LayoutTask { taken: &[u64::MAX], ..task(&machine) });
        assert_eq!(layout.offloaded(), 0);
    }

    #[test]
    fn layouts_that_ram_cannot_hold_are_refused() {
        let mib = |n: u64| n << 20;
        let mut machine = machine(vec![cuda(85)], 45);
        machine.ram.swap_free = Bytes::mib(4);
        // the first round places eight layers, the second, with the graph reserved, six
        machine.ram.free = Bytes::mib(35);
        let layout = place(&task(&machine));
        assert_eq!(layout.refusal, Some(Refusal::TooLargeForRam { needed: mib(40), free: mib(35), swap: mib(4) }));
        assert_eq!(layout.offloaded(), 6, "what was tried last is shown");
        machine.os = Os::MacOs;
        assert_eq!(place(&task(&machine)).refusal, None);
        machine.os = Os::Linux;
        machine.ram.free = Bytes::mib(36);
        assert_eq!(place(&task(&machine)).refusal, None);
        machine.gpus.clear();
        let full = LayoutTask { require_full: true, ..task(&machine) };
        assert_eq!(place(&full).refusal, Some(Refusal::NotFullNorInRam { needed: mib(100), free: mib(36) }));
    }

    #[test]
    fn on_macos_a_model_larger_than_all_memory_gets_no_gpu() {
        let mut machine = machine(vec![gpu(Backend::Metal, 200)], 110);
        machine.os = Os::MacOs;
        let layout = place(&task(&machine));
        // layers alone would fit; with the graph they do not, and the round that finds out is the last
        assert_eq!((layout.offloaded(), layout.requested), (10, None));
        machine.ram.total = Bytes::mib(99);
        let layout = place(&task(&machine));
        assert_eq!((layout.offloaded(), layout.requested, layout.tried_before), (0, Some(0), vec![0]));
    }

    fn devices(free: &[u64]) -> Vec<GpuCapacity> {
        free.iter().enumerate().map(|(gpu, &free)| GpuCapacity { gpu, free, integrated: false }).collect()
    }

    fn runs(entries: &[GpuAssignment]) -> Vec<(usize, usize)> {
        entries.iter().map(|entry| (entry.gpu, entry.layers.len())).collect()
    }

    #[test]
    fn layers_are_spread_evenly_over_equal_gpus() {
        assert_eq!(runs(&best_fit(&[10; 8], &devices(&[100, 100]), None, false)), [(0, 4), (1, 4)]);
    }

    #[test]
    fn a_gpu_without_layers_is_an_entry_if_tried() {
        assert_eq!(runs(&best_fit(&[10; 2], &devices(&[100, 5]), None, false)), [(0, 2), (1, 0)]);
        assert_eq!(runs(&best_fit(&[10; 2], &devices(&[5]), None, false)), [(0, 0)]);
        assert_eq!(runs(&best_fit(&[], &devices(&[5]), None, false)), [(0, 0)]);
    }

    #[test]
    fn a_request_limits_and_forces() {
        assert_eq!(runs(&best_fit(&[10; 8], &devices(&[100]), Some(3), false)), [(0, 3)]);
        assert_eq!(runs(&best_fit(&[10; 8], &devices(&[25]), Some(3), false)), [(0, 2)]);
        assert_eq!(runs(&best_fit(&[10; 8], &devices(&[25]), Some(3), true)), [(0, 3)]);
        assert_eq!(runs(&best_fit(&[10; 8], &devices(&[25]), Some(0), true)), [(0, 0)]);
        // the factor would have to be 16 or more: the bisection still ends
        assert_eq!(runs(&best_fit(&[100; 8], &devices(&[25]), Some(8), true)), [(0, 8)]);
        // the multiplier does not help without memory
        assert_eq!(runs(&best_fit(&[100; 8], &devices(&[0]), Some(8), true)), [(0, 0)]);
    }

    #[test]
    fn integrated_gpus_get_the_remaining_layers() {
        let mut devices = devices(&[50, 50]);
        devices[1].integrated = true;
        assert_eq!(runs(&best_fit(&[10; 8], &devices, None, false)), [(1, 3), (0, 5)]);
    }
}
