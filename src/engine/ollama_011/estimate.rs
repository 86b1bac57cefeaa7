//! The number of layers that a set of GPUs holds: blocks from last to first, GPUs in turn.
//!
//! Source: `llm/memory.go`, `estimateGPULayers`, Ollama, August 2025. Arithmetic on bytes wraps as Go's does.

use crate::engine::backend;
use crate::machine::{Backend, Machine};
use crate::plan::Why;
use crate::units::Bytes;

/// A block's bytes; no weights if it has no tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockBytes {
    pub weights: Option<u64>,
    pub cache: u64,
}

/// The input of the estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct EstimateTask {
    pub blocks: Vec<BlockBytes>,
    /// Weights of the output layer.
    pub output: u64,
    /// Weights of the vision part, which is placed with the output layer.
    pub vision_weights: u64,
    /// Its graph.
    pub vision_graph: u64,
    /// Weights of a separate projector, placed on the first GPU with enough memory.
    pub projector: u64,
    /// Kept free on every GPU.
    pub overhead: u64,
    /// The graph if some layers are in RAM.
    pub partial: u64,
    /// The graph if all layers are on GPUs.
    pub full: u64,
    /// Requested layers on GPUs; none if the engine chooses.
    pub requested: Option<usize>,
}

impl EstimateTask {
    /// One layer reserved as a buffer: the first block, or only its cache if it has no tensors.
    pub fn buffer(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.weights.unwrap_or(0).wrapping_add(block.cache))
    }

    /// The output layer, including the vision part.
    fn last_layer(&self) -> u64 {
        self.output.wrapping_add(self.vision_weights).wrapping_add(self.vision_graph)
    }

    /// All layers, including the output layer.
    pub fn layer_count(&self) -> usize {
        self.blocks.len() + 1
    }
}

/// A GPU, or RAM on a machine without GPUs, which is counted in the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EstimateDevice {
    /// Index in the machine; none for RAM.
    pub gpu: Option<usize>,
    /// The library; none for RAM.
    pub backend: Option<Backend>,
    pub free: u64,
    /// Subtracted before layers are placed.
    pub minimum: u64,
}

impl EstimateDevice {
    /// The GPUs of `machine`, or RAM if it has none.
    pub fn all_of(machine: &Machine) -> Vec<Self> {
        if machine.gpus.is_empty() {
            return vec![Self { gpu: None, backend: None, free: machine.ram.free.0, minimum: 0 }];
        }
        let gpu = |(index, gpu): (usize, &crate::machine::Gpu)| Self {
            gpu: Some(index),
            backend: Some(gpu.backend),
            free: gpu.free.0,
            minimum: backend::of(gpu.backend).minimum_ollama_011.0,
        };
        machine.gpus.iter().enumerate().map(gpu).collect()
    }
}

/// A device with its layers.
#[derive(Clone, Debug)]
pub(super) struct DeviceSlot {
    pub device: EstimateDevice,
    /// Whether it has memory for the reserves and at least two layers.
    pub usable: bool,
    /// Layers on it.
    pub layers: usize,
    /// Bytes counted: reserves, layers and finally the graph.
    pub size: u64,
}

/// The result of the estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryEstimate {
    pub slots: Vec<DeviceSlot>,
    /// For each block and then the output layer, its index into `slots`.
    pub slot_of: Vec<Option<usize>>,
    /// The reason of each.
    pub whys: Vec<Why>,
    /// Bytes counted for each block; one without tensors counts like the one placed before.
    pub counted: Vec<u64>,
    /// The slot of a separate projector.
    pub first_usable: Option<usize>,
    /// Layers in all slots.
    pub placed: usize,
    /// Whether the full graph is used.
    pub full_graph: bool,
    /// The graph that is used.
    pub graph: u64,
    /// Bytes in all slots.
    pub in_slots: u64,
    /// Bytes outside the slots.
    pub overflow: u64,
}

impl MemoryEstimate {
    /// Layers on GPUs, without RAM.
    pub fn layers(&self) -> usize {
        if self.slots.iter().any(|slot| slot.device.gpu.is_none()) { 0 } else { self.placed }
    }

    /// Bytes on GPUs.
    pub fn vram(&self) -> u64 {
        if self.layers() == 0 { 0 } else { self.in_slots }
    }

    /// All bytes counted.
    pub fn total(&self) -> u64 {
        self.in_slots.wrapping_add(self.overflow)
    }
}

/// The estimate for `devices`, which use the same library.
pub(super) fn estimate(task: &EstimateTask, devices: &[EstimateDevice]) -> MemoryEstimate {
    let (partial, full) = graphs(task, devices);
    let mut run = EstimateRun {
        task,
        graph: partial.max(full),
        open: Vec::with_capacity(devices.len()),
        given_up: None,
        found: MemoryEstimate::default(),
    };
    run.prepare(devices);
    run.blocks();
    run.output();
    run.finish(partial, full)
}

/// Partial and full graph. Metal splits at no cost; several GPUs always use the partial size.
fn graphs(task: &EstimateTask, devices: &[EstimateDevice]) -> (u64, u64) {
    if devices.first().is_some_and(|device| device.backend.is_some_and(|backend| backend::of(backend).partial_is_full))
    {
        (task.full, task.full)
    } else if devices.len() > 1 {
        (task.partial, task.partial)
    } else {
        (task.partial, task.full)
    }
}

/// A block that did not fit on a slot.
#[derive(Clone, Copy)]
struct GivenUp {
    slot: usize,
    block: usize,
    needed: Bytes,
    room: Bytes,
}

struct EstimateRun<'t> {
    task: &'t EstimateTask,
    /// The larger graph, which is reserved.
    graph: u64,
    /// Slots that are not full yet.
    open: Vec<usize>,
    /// The last slot that was full, and the block that did not fit there.
    given_up: Option<GivenUp>,
    found: MemoryEstimate,
}

impl EstimateRun<'_> {
    /// Leaves out devices without memory for two layers after reserves.
    fn prepare(&mut self, devices: &[EstimateDevice]) {
        let buffer = self.task.buffer();
        for (index, &device) in devices.iter().enumerate() {
            let projector = if self.open.is_empty() { self.task.projector } else { 0 };
            let minimum = [projector, self.graph, device.minimum, buffer.wrapping_mul(2)]
                .into_iter()
                .fold(self.task.overhead, u64::wrapping_add);
            let usable = device.free >= minimum;
            let mut size = 0;
            if usable {
                size = device.minimum.wrapping_add(buffer).wrapping_add(projector);
                self.open.push(index);
            }
            self.found.slots.push(DeviceSlot { device, usable, layers: 0, size });
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
        let mut size = self.task.buffer();
        for (index, block) in self.task.blocks.iter().enumerate().rev() {
            if let Some(weights) = block.weights {
                size = weights.wrapping_add(block.cache);
            }
            if let Some(counted) = self.found.counted.get_mut(index) {
                *counted = size;
            }
            let enough = self.enough();
            let (slot, why) = if enough { (None, Why::NotAskedFor) } else { self.place(index, size) };
            if slot.is_none() {
                self.found.overflow = self.found.overflow.wrapping_add(size);
            }
            self.set(index, slot, why);
        }
    }

    /// Tries the open slots in turn, starting with the block's own; one without enough memory is closed.
    fn place(&mut self, block: usize, size: u64) -> (Option<usize>, Why) {
        if self.open.is_empty() {
            return (None, self.why_closed(size));
        }
        let mut refused = None;
        while !self.open.is_empty() {
            let turn = block % self.open.len();
            let Some(&index) = self.open.get(turn) else { break };
            let (fits, room) = self.room(index, size);
            if fits {
                self.put(index, size);
                return (Some(index), Why::Fits { needed: Bytes(size), room });
            }
            refused = Some((index, room));
            self.given_up = Some(GivenUp { slot: index, block, needed: Bytes(size), room });
            self.open.remove(turn);
        }
        (None, self.no_room(size, refused))
    }

    /// Places the output layer like a block, but without closing slots.
    fn output(&mut self) {
        let (size, at) = (self.task.last_layer(), self.task.blocks.len());
        self.found.full_graph = self.found.placed >= at;
        if size == 0 {
            self.set(at, None, Why::Nothing);
            return;
        }
        let mut slot = None;
        let mut why = Why::NotAskedFor;
        if !self.enough() {
            let mut refused = None;
            for open in (1..=self.open.len()).rev() {
                let Some(&index) = self.open.get(self.found.placed % open) else { break };
                let (fits, room) = self.room(index, size);
                if fits {
                    self.put(index, size);
                    slot = Some(index);
                    refused = Some((index, room));
                    break;
                }
                refused = Some((index, room));
            }
            why = match (slot, refused) {
                (Some(_), Some((_, room))) => Why::Fits { needed: Bytes(size), room },
                (_, None) => self.why_closed(size),
                (None, refused) => self.no_room(size, refused),
            };
        }
        if self.found.placed < self.task.layer_count() {
            self.found.full_graph = false;
            self.found.overflow = self.found.overflow.wrapping_add(size);
        }
        self.set(at, slot, why);
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

    /// Whether as many layers are placed as requested.
    fn enough(&self) -> bool {
        self.task.requested.is_some_and(|requested| self.found.placed >= requested)
    }

    /// Whether `size` fits on a slot, and the bytes left there.
    fn room(&self, index: usize, size: u64) -> (bool, Bytes) {
        let Some(slot) = self.found.slots.get(index) else { return (false, Bytes::ZERO) };
        let used = self.task.overhead.wrapping_add(slot.size.wrapping_add(self.graph));
        (slot.device.free > used.wrapping_add(size), Bytes(slot.device.free.saturating_sub(used)))
    }

    fn put(&mut self, index: usize, size: u64) {
        if let Some(slot) = self.found.slots.get_mut(index) {
            slot.size = slot.size.wrapping_add(size);
            slot.layers += 1;
            self.found.placed += 1;
        }
    }

    fn set(&mut self, layer: usize, slot: Option<usize>, why: Why) {
        if let (Some(place), Some(reason)) = (self.found.slot_of.get_mut(layer), self.found.whys.get_mut(layer)) {
            *place = slot;
            *reason = why;
        }
    }

    fn no_room(&self, size: u64, refused: Option<(usize, Bytes)>) -> Why {
        let device = |index: usize| self.found.slots.get(index).and_then(|slot| slot.device.gpu);
        match refused.and_then(|(index, room)| Some((device(index)?, room))) {
            Some((device, room)) => Why::NoRoom { needed: Bytes(size), room, device },
            None => Why::NoGpu,
        }
    }

    /// Why no slot is open.
    fn why_closed(&self, size: u64) -> Why {
        let gpu = |index: usize| self.found.slots.get(index).and_then(|slot| slot.device.gpu);
        if let Some(GivenUp { slot, block, needed, room }) = self.given_up {
            return gpu(slot).map_or(Why::NoGpu, |device| Why::GivenUp {
                device,
                layer: block,
                needed,
                room,
                own: Bytes(size),
            });
        }
        // no slot was usable: the one with the most memory lacks room for a buffer and a layer as large as the first
        let left = |slot: &DeviceSlot| {
            let kept = [self.graph, slot.device.minimum, self.task.buffer(), self.task.projector]
                .into_iter()
                .fold(self.task.overhead, u64::saturating_add);
            slot.device.free.saturating_sub(kept)
        };
        let roomiest = self.found.slots.iter().max_by_key(|slot| left(slot));
        match roomiest.and_then(|slot| Some((slot.device.gpu?, left(slot)))) {
            Some((device, room)) => {
                Why::NoRoom { needed: Bytes(size.max(self.task.buffer())), room: Bytes(room), device }
            }
            None => Why::NoGpu,
        }
    }
}

#[cfg(test)]
mod tests;
