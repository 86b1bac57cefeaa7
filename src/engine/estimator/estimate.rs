//! Places layers on GPUs as Ollama up to 0.11 does: blocks from last to first, GPUs in turn.
//!
//! Source: `llm/memory.go` (`estimateGPULayers`, `pickBestFullFitByLibrary`, `pickBestPartialFitByLibrary`,
//! `PredictServerFit`) and `llm/server.go` (`llamaServer.Load`, `createGPULayers`), Ollama, August 2025. Arithmetic on
//! bytes wraps as Go's does.

mod placed;

use std::ops::Range;

use super::assemble::Placement;
use super::{Block, Case, by_library};
use crate::engine::admission::Admission;
use crate::engine::backend;
use crate::machine::{Backend, Gpu};
use crate::plan::{Plan, Why};
use crate::units::Bytes;
use placed::Placed;

/// Places the layers of a model.
pub(super) fn placement(case: &mut Case<'_>) -> Placement {
    let found = pick(&EstimateTask::of(case), &slots(case), case.settings.spread, case.settings.require_full);
    let first = found.slots.first().and_then(|slot| slot.backend);
    case.sizes.on_gpus(first, found.slots.len() > 1);
    // on Metal, a model larger than all memory gets no GPU
    let unified = first == Some(Backend::Metal) && found.vram() > case.machine.ram.total.0;
    let loads = found.layers() > 0 && !unified;
    Placed { case, found, first, unified, loads }.placement()
}

/// Whether the requested layers fit on the GPUs of one library, and the bytes they take there, or would take on the
/// GPUs tried last.
pub(super) fn predict(case: &Case<'_>) -> (bool, Bytes) {
    predicted(&EstimateTask::of(case), &slots(case))
}

fn predicted(task: &EstimateTask<'_>, slots: &[Slot]) -> (bool, Bytes) {
    let mut vram = 0;
    for group in by_library(slots, |slot| slot.backend) {
        let found = estimate(task, &group);
        vram = found.vram();
        if is_enough(task, &found) {
            return (true, Bytes(vram));
        }
    }
    (false, Bytes(vram))
}

/// What must be evicted before the model is loaded, and why; `plan` is the one that requires full offload. None if
/// nothing must. Source: `llm/server.go`, `llamaServer.Load`, Ollama, August 2025.
pub(super) fn eviction_reason(case: &Case<'_>, plan: &Plan) -> Option<Admission> {
    let picked = pick(&EstimateTask::of(case), &slots(case), case.settings.spread, true);
    let (needed, free) = (Bytes(picked.total()), case.machine.ram.free);
    match plan.refusal.clone() {
        Some(why) if picked.refused => Some(Admission::EvictOne(why)),
        // exceeding RAM and swap is an error, independent of other loaded models
        Some(why) => Some(Admission::Refused(why)),
        None if plan.offloaded == 0 && needed > free => {
            Some(Admission::EvictOne(format!("it needs {needed} of RAM, but {free} is free")))
        }
        None => None,
    }
}

/// Picks among `slots`, which are not empty: as few of one library as hold the whole model, else those of the library
/// that holds the most bytes, the first of equals.
fn pick(task: &EstimateTask<'_>, slots: &[Slot], spread: bool, require_full: bool) -> MemoryEstimate {
    let mut last_tried = MemoryEstimate::default();
    for mut group in by_library(slots, |slot| slot.backend) {
        // most free memory first; a stable sort
        group.sort_by_key(|slot| std::cmp::Reverse(slot.free));
        let first = if spread { group.len() } else { 1 };
        for count in first..=group.len() {
            last_tried = estimate(task, &group[..count]);
            if is_enough(task, &last_tried) {
                return last_tried;
            }
        }
    }
    if require_full {
        return MemoryEstimate { refused: true, ..last_tried };
    }
    let each = by_library(slots, |slot| slot.backend).into_iter().map(|group| estimate(task, &group));
    each.reduce(|best, found| if found.vram() > best.vram() { found } else { best }).unwrap_or_default()
}

fn is_enough(task: &EstimateTask<'_>, found: &MemoryEstimate) -> bool {
    let layers = found.layers();
    layers > 0 && layers >= task.requested.unwrap_or(task.layer_count())
}

/// The layers that the runner loads on each GPU, in proportion to the estimate's counts in `split`; together they are the
/// last `count` blocks, plus the output layer if `count` exceeds the blocks. Shares are compared in float32, as in
/// Ollama.
fn gpu_layer_ranges(split: &[usize], blocks: usize, count: usize) -> Vec<Range<usize>> {
    let all: usize = split.iter().sum();
    let start = blocks.saturating_sub(count);
    let stop = start.saturating_add(count).min(blocks + 1);
    let mut before = 0;
    let mut next = start;
    let mut runs = Vec::with_capacity(split.len());
    for &layers in split {
        before += layers;
        let share = before as f32 / all as f32;
        let first = next;
        while next < stop && ((next - start) as f32 / (stop - start) as f32) < share {
            next += 1;
        }
        runs.push(first..next);
    }
    runs
}

/// The input of the estimate.
#[derive(Clone, Debug, Default)]
struct EstimateTask<'c> {
    blocks: &'c [Block],
    /// One layer reserved as a buffer: the first block, or only its cache if it has no tensors.
    buffer: u64,
    /// Bytes of the output layer, including the vision part, which is placed with it.
    output: u64,
    /// Weights of a separate projector, placed on the first GPU with enough memory.
    projector: u64,
    /// Kept free on every GPU.
    overhead: u64,
    /// The graph if some layers are in RAM.
    partial: u64,
    /// The graph if all layers are on GPUs.
    full: u64,
    /// Requested layers on GPUs; none if the engine chooses.
    requested: Option<usize>,
}

impl<'c> EstimateTask<'c> {
    fn of(case: &'c Case<'_>) -> Self {
        Self {
            blocks: &case.blocks,
            buffer: case.buffer,
            output: [case.vision.weights.0, case.vision.graph.0].into_iter().fold(case.output, u64::wrapping_add),
            projector: case.projector,
            overhead: case.settings.gpu_overhead.0,
            partial: case.sizes.partial.bytes.0,
            full: case.sizes.full.bytes.0,
            requested: case.effect.requested,
        }
    }

    /// All layers, including the output layer.
    fn layer_count(&self) -> usize {
        self.blocks.len() + 1
    }
}

/// A GPU with its layers, or RAM on a machine without GPUs, which is counted in the same way.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Index in the machine; none for RAM.
    gpu: Option<usize>,
    /// The library; none for RAM.
    backend: Option<Backend>,
    free: u64,
    /// Subtracted before layers are placed.
    minimum: u64,
    /// Whether it has memory for the reserves and at least two layers.
    usable: bool,
    /// Layers on it.
    layers: usize,
    /// Bytes counted: reserves, layers and finally the graph.
    size: u64,
}

/// The GPUs considered, or RAM if there are none.
fn slots(case: &Case<'_>) -> Vec<Slot> {
    let gpus = case.gpus();
    if gpus.is_empty() {
        return vec![Slot { free: case.machine.ram.free.0, ..Slot::default() }];
    }
    let slot = |(index, gpu): (usize, &Gpu)| Slot {
        gpu: Some(index),
        backend: Some(gpu.backend),
        free: gpu.free.0,
        minimum: backend::of(gpu.backend).minimum_ollama_011.0,
        ..Slot::default()
    };
    gpus.iter().enumerate().map(slot).collect()
}

/// The result of the estimate.
#[derive(Clone, Debug, Default)]
struct MemoryEstimate {
    slots: Vec<Slot>,
    /// For each block and then the output layer, its index into `slots`.
    slot_of: Vec<Option<usize>>,
    /// The reason of each.
    whys: Vec<Why>,
    /// Bytes counted for each block; one without tensors counts like the one placed before.
    counted: Vec<u64>,
    /// The slot of a separate projector.
    first_usable: Option<usize>,
    /// Layers in all slots.
    placed: usize,
    /// Whether the full graph is used.
    full_graph: bool,
    /// The graph that is used.
    graph: u64,
    /// Bytes in all slots.
    in_slots: u64,
    /// Bytes outside the slots.
    overflow: u64,
    /// Not all requested layers are on GPUs, and anything less is refused.
    refused: bool,
}

impl MemoryEstimate {
    /// Layers on GPUs, without RAM.
    fn layers(&self) -> usize {
        if self.slots.iter().any(|slot| slot.gpu.is_none()) { 0 } else { self.placed }
    }

    /// Bytes on GPUs.
    fn vram(&self) -> u64 {
        if self.layers() == 0 { 0 } else { self.in_slots }
    }

    /// All bytes counted.
    fn total(&self) -> u64 {
        self.in_slots.wrapping_add(self.overflow)
    }
}

/// The estimate for `slots`, which use the same library.
fn estimate(task: &EstimateTask<'_>, slots: &[Slot]) -> MemoryEstimate {
    let (partial, full) = graphs(task, slots);
    let mut run = EstimateRun {
        task,
        graph: partial.max(full),
        open: Vec::with_capacity(slots.len()),
        given_up: None,
        found: MemoryEstimate { slots: slots.to_vec(), ..MemoryEstimate::default() },
    };
    run.prepare();
    run.blocks();
    run.output();
    run.finish(partial, full)
}

/// Partial and full graph. Metal splits at no cost; several GPUs always use the partial size.
fn graphs(task: &EstimateTask<'_>, slots: &[Slot]) -> (u64, u64) {
    if slots.first().is_some_and(|slot| slot.backend.is_some_and(|backend| backend::of(backend).partial_is_full)) {
        (task.full, task.full)
    } else if slots.len() > 1 {
        (task.partial, task.partial)
    } else {
        (task.partial, task.full)
    }
}

/// A block that did not fit on a device; none for RAM.
#[derive(Clone, Copy)]
struct GivenUp {
    device: Option<usize>,
    layer: usize,
    needed: Bytes,
    room: Bytes,
}

struct EstimateRun<'t> {
    task: &'t EstimateTask<'t>,
    /// The larger graph, which is reserved.
    graph: u64,
    /// Slots that are not full yet.
    open: Vec<usize>,
    /// The last slot that was full, and the block that did not fit there.
    given_up: Option<GivenUp>,
    found: MemoryEstimate,
}

impl EstimateRun<'_> {
    /// Leaves out slots without memory for two layers after reserves.
    fn prepare(&mut self) {
        let buffer = self.task.buffer;
        for (index, slot) in self.found.slots.iter_mut().enumerate() {
            let projector = if self.open.is_empty() { self.task.projector } else { 0 };
            let minimum = [projector, self.graph, slot.minimum, buffer.wrapping_mul(2)]
                .into_iter()
                .fold(self.task.overhead, u64::wrapping_add);
            slot.usable = slot.free >= minimum;
            if slot.usable {
                slot.size = slot.minimum.wrapping_add(buffer).wrapping_add(projector);
                self.open.push(index);
            }
        }
        self.found.first_usable = self.open.first().copied();
        if self.found.first_usable.is_none() {
            self.found.overflow = self.task.projector;
        }
    }

    fn blocks(&mut self) {
        let count = self.task.blocks.len();
        self.found.slot_of = vec![None; count + 1];
        self.found.whys = vec![Why::NotAskedFor; count + 1];
        self.found.counted = vec![0; count];
        let mut size = self.task.buffer;
        for (index, block) in self.task.blocks.iter().enumerate().rev() {
            if let Some(weights) = block.weights {
                size = weights.wrapping_add(block.cache);
            }
            self.found.counted[index] = size;
            self.place(index, size, true);
            if self.found.slot_of[index].is_none() {
                self.found.overflow = self.found.overflow.wrapping_add(size);
            }
        }
    }

    /// Places the output layer like a block, but without closing slots.
    fn output(&mut self) {
        let (size, at) = (self.task.output, self.task.blocks.len());
        self.found.full_graph = self.found.placed >= at;
        if size == 0 {
            self.found.whys[at] = Why::Nothing;
            return;
        }
        self.place(at, size, false);
        if self.found.placed < self.task.layer_count() {
            self.found.full_graph = false;
            self.found.overflow = self.found.overflow.wrapping_add(size);
        }
    }

    /// Tries the open slots in turn, starting with the layer's own, unless as many layers are placed as requested. A
    /// block closes those without enough memory.
    fn place(&mut self, layer: usize, size: u64, is_block: bool) {
        if self.task.requested.is_some_and(|requested| self.found.placed >= requested) {
            return;
        }
        let mut why = if self.open.is_empty() { self.why_closed(size) } else { Why::NoGpu };
        let turn = if is_block { layer } else { self.found.placed };
        for open in (1..=self.open.len()).rev() {
            let index = self.open[turn % open];
            let slot = &mut self.found.slots[index];
            let used = self.task.overhead.wrapping_add(slot.size.wrapping_add(self.graph));
            let (needed, room) = (Bytes(size), Bytes(slot.free.saturating_sub(used)));
            if slot.free > used.wrapping_add(size) {
                slot.size = slot.size.wrapping_add(size);
                slot.layers += 1;
                self.found.placed += 1;
                self.found.slot_of[layer] = Some(index);
                why = Why::Fits { needed, room };
                break;
            }
            why = slot.gpu.map_or(Why::NoGpu, |device| Why::NoRoom { needed, room, device });
            if is_block {
                self.given_up = Some(GivenUp { device: slot.gpu, layer, needed, room });
                self.open.remove(turn % open);
            }
        }
        self.found.whys[layer] = why;
    }

    fn finish(mut self, partial: u64, full: u64) -> MemoryEstimate {
        self.found.graph = if self.found.full_graph { full } else { partial };
        for slot in &mut self.found.slots {
            if slot.layers > 0 {
                slot.size = slot.size.wrapping_add(self.found.graph);
            }
            self.found.in_slots = self.found.in_slots.wrapping_add(slot.size);
        }
        self.found
    }

    /// Why there is no open slot for a layer.
    fn why_closed(&self, size: u64) -> Why {
        let own = Bytes(size);
        if let Some(GivenUp { device, layer, needed, room }) = self.given_up {
            return device.map_or(Why::NoGpu, |device| Why::GivenUp { device, layer, needed, room, own });
        }
        // no slot was usable: the one with the most memory lacks room for a buffer and a layer as large as the first
        let left = |slot: &Slot| {
            let kept = [self.graph, slot.minimum, self.task.buffer, self.task.projector]
                .into_iter()
                .fold(self.task.overhead, u64::saturating_add);
            Bytes(slot.free.saturating_sub(kept))
        };
        let needed = own.max(Bytes(self.task.buffer));
        let roomiest = self.found.slots.iter().max_by_key(|slot| left(slot));
        let no_room = |slot: &Slot| Some(Why::NoRoom { needed, room: left(slot), device: slot.gpu? });
        roomiest.and_then(no_room).unwrap_or(Why::NoGpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 10 bytes.
    const BLOCKS: [Block; 90] = [Block { weights: Some(6), cache: 4 }; 90];

    /// Some of them, an output layer of 7, graphs of 5 and 3.
    fn task(blocks: usize) -> EstimateTask<'static> {
        let blocks = &BLOCKS[..blocks];
        EstimateTask { blocks, buffer: 10, output: 7, partial: 5, full: 3, ..EstimateTask::default() }
    }

    fn gpu(index: usize, free: u64) -> Slot {
        Slot { gpu: Some(index), backend: Some(Backend::Cuda), free, minimum: 1, ..Slot::default() }
    }

    fn gpus(free: &[u64]) -> Vec<Slot> {
        free.iter().enumerate().map(|(index, &free)| gpu(index, free)).collect()
    }

    fn split(found: &MemoryEstimate) -> Vec<usize> {
        found.slots.iter().map(|slot| slot.layers).collect()
    }

    fn sizes(found: &MemoryEstimate) -> Vec<u64> {
        found.slots.iter().map(|slot| slot.size).collect()
    }

    #[test]
    fn everything_on_one_gpu_takes_the_full_graph() {
        let found = estimate(&task(3), &gpus(&[1000]));
        // minimum, buffer, three blocks, output, full graph
        assert_eq!((found.layers(), found.vram(), found.total()), (4, 1 + 10 + 30 + 7 + 3, 51));
        assert!(found.full_graph);
    }

    #[test]
    fn a_layer_needs_a_byte_more_than_it_takes() {
        // minimum, buffer and the larger graph are 16, three blocks 30, the output layer 7
        assert_eq!(estimate(&task(3), &gpus(&[54])).layers(), 4);
        let found = estimate(&task(3), &gpus(&[53]));
        assert_eq!((found.layers(), found.graph, found.overflow), (3, 5, 7));
        assert_eq!(found.whys[3], Why::NoRoom { needed: Bytes(7), room: Bytes(7), device: 0 });
        let found = estimate(&task(3), &gpus(&[46]));
        // one block less, and the output layer is not tried although it would fit
        assert_eq!((found.layers(), found.slot_of[3], found.overflow), (2, None, 10 + 7));
        assert_eq!(found.total(), found.vram() + 17);
    }

    #[test]
    fn a_gpu_must_have_room_for_two_layers() {
        let minimum = 1 + 5 + 20;
        assert_eq!(estimate(&task(9), &gpus(&[minimum - 1])).layers(), 0);
        let found = estimate(&task(9), &gpus(&[minimum]));
        // reserves count although no block fits
        assert_eq!((found.layers(), sizes(&found), found.vram()), (0, vec![1 + 10], 0));
        assert_eq!(found.total(), 11 + 90 + 7);
        let why = &estimate(&task(9), &gpus(&[minimum - 1])).whys[8];
        assert_eq!(*why, Why::NoRoom { needed: Bytes(10), room: Bytes(9), device: 0 });
    }

    #[test]
    fn several_gpus_get_layers_in_turn_and_the_partial_graph() {
        let found = estimate(&task(5), &gpus(&[1000, 1000]));
        assert_eq!(found.slot_of, [Some(0), Some(1), Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!((split(&found), found.graph), (vec![3, 3], 5));
        assert_eq!(sizes(&found), [1 + 10 + 30 + 5, 1 + 10 + 20 + 7 + 5]);
    }

    #[test]
    fn a_full_gpu_is_not_tried_again() {
        let mut blocks = BLOCKS[..6].to_vec();
        blocks[4] = Block { weights: Some(60), cache: 0 };
        let task = EstimateTask { blocks: &blocks, ..task(0) };
        let found = estimate(&task, &gpus(&[60]));
        assert_eq!(found.slot_of[..6], [None, None, None, None, None, Some(0)]);
        assert_eq!(found.whys[4], Why::NoRoom { needed: Bytes(60), room: Bytes(34), device: 0 });
        // the next block would fit, but is not tried
        let given_up = |own| Why::GivenUp { device: 0, layer: 4, needed: Bytes(60), room: Bytes(34), own: Bytes(own) };
        assert_eq!(found.whys[3], given_up(10));
        // the output layer
        assert_eq!(found.whys[6], given_up(7));
    }

    #[test]
    fn a_block_without_tensors_counts_like_the_one_before_it() {
        let mut blocks = BLOCKS[..4].to_vec();
        let counted =
            |blocks: &[Block], buffer| estimate(&EstimateTask { blocks, buffer, ..task(0) }, &gpus(&[1000])).counted;
        blocks[3] = Block { weights: Some(20), cache: 4 };
        blocks[2].weights = None;
        assert_eq!(counted(&blocks, 10), [10, 10, 24, 24]);
        // the last one counts like the buffer
        blocks[3].weights = None;
        assert_eq!(counted(&blocks, 4), [10, 10, 4, 4]);
    }

    #[test]
    fn the_request_limits_the_layers() {
        for (requested, layers, slot_of) in
            [(0, 0, [None, None, None]), (1, 1, [None, Some(0), None]), (9, 3, [Some(0), Some(0), Some(0)])]
        {
            let task = EstimateTask { requested: Some(requested), ..task(2) };
            let found = estimate(&task, &gpus(&[1000]));
            assert_eq!((found.layers(), found.slot_of.as_slice()), (layers, slot_of.as_slice()), "{requested}");
        }
    }

    #[test]
    fn a_separate_projector_goes_to_the_first_gpu_with_room() {
        let task = EstimateTask { projector: 100, ..task(1) };
        let found = estimate(&task, &gpus(&[100, 1000]));
        assert_eq!((found.first_usable, found.slots[0].size), (Some(1), 0));
        assert_eq!(found.slots[1].size, 1 + 10 + 100 + 10 + 7 + 5);
        let found = estimate(&task, &gpus(&[100]));
        assert_eq!((found.first_usable, found.overflow), (None, 100 + 10 + 7));
    }

    #[test]
    fn vision_is_placed_with_the_output_layer() {
        let task = EstimateTask { output: 7 + 40 + 2, ..task(1) };
        let found = estimate(&task, &gpus(&[1000]));
        assert_eq!(found.vram(), 1 + 10 + 10 + (7 + 40 + 2) + 3);
        let found = estimate(&task, &gpus(&[40]));
        assert_eq!((found.layers(), found.overflow), (1, 49));
    }

    #[test]
    fn ram_is_counted_like_a_gpu_but_holds_no_layers() {
        let ram = Slot { free: 1000, ..Slot::default() };
        let found = estimate(&task(3), &[ram]);
        assert_eq!((found.layers(), found.vram(), found.placed), (0, 0, 4));
        assert_eq!(found.total(), 10 + 30 + 7 + 3);
    }

    #[test]
    fn a_model_without_an_output_layer_never_counts_as_fully_offloaded() {
        let task = EstimateTask { output: 0, ..task(2) };
        let found = estimate(&task, &gpus(&[1000]));
        assert_eq!((found.layers(), found.full_graph, &found.whys[2]), (2, true, &Why::Nothing));
        assert_eq!(predicted(&task, &gpus(&[1000])), (false, Bytes(found.vram())));
    }

    #[test]
    fn the_fewest_possible_gpus_are_picked_by_free_memory() {
        let ids = |found: &MemoryEstimate| found.slots.iter().filter_map(|slot| slot.gpu).collect::<Vec<_>>();
        let devices = gpus(&[60, 100, 60]);
        assert_eq!(ids(&pick(&task(3), &devices, false, false)), [1]);
        assert_eq!(ids(&pick(&task(9), &devices, false, false)), [1, 0]);
        assert_eq!(ids(&pick(&task(3), &devices, true, false)), [1, 0, 2]);
        // if not everything fits, all GPUs are used, in machine order
        assert_eq!(ids(&pick(&task(90), &devices, false, false)), [0, 1, 2]);
        assert!(pick(&task(90), &devices, false, true).refused);
        assert!(!pick(&task(9), &devices, false, true).refused);
    }

    #[test]
    fn the_library_with_the_most_bytes_is_used_if_none_fits_all() {
        let mut devices = gpus(&[60, 200, 100]);
        devices[1].backend = Some(Backend::Vulkan);
        let library = |task: &EstimateTask<'_>| pick(task, &devices, false, false).slots[0].backend;
        assert_eq!(library(&task(3)), Some(Backend::Cuda));
        assert_eq!(library(&task(16)), Some(Backend::Vulkan));
        assert_eq!(library(&task(90)), Some(Backend::Vulkan));
        assert_eq!(library(&EstimateTask { requested: Some(11), ..task(90) }), Some(Backend::Cuda));
        // with no layers on any library, the first
        assert_eq!(library(&EstimateTask { requested: Some(0), ..task(90) }), Some(Backend::Cuda));
    }

    fn ends(split: &[usize], blocks: usize, count: usize) -> Vec<(usize, usize)> {
        gpu_layer_ranges(split, blocks, count).into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn each_gpu_gets_one_range() {
        assert_eq!(ends(&[33], 32, 33), [(0, 33)]);
        assert_eq!(ends(&[17, 16], 32, 33), [(0, 17), (17, 33)]);
        assert_eq!(ends(&[5, 0, 5], 32, 10), [(22, 27), (27, 27), (27, 32)]);
    }

    #[test]
    fn the_output_layer_is_loaded_only_with_every_block() {
        assert_eq!(ends(&[21], 32, 21), [(11, 32)]);
        // more than the model has
        assert_eq!(ends(&[3], 4, 999), [(0, 5)]);
    }

    #[test]
    fn gpus_without_layers_get_an_empty_range() {
        assert_eq!(ends(&[0, 0], 32, 10), [(22, 22), (22, 22)]);
        assert!(ends(&[], 32, 10).is_empty());
    }
}
