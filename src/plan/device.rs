//! The memory of one device, before and after what a plan puts there.

use std::sync::Arc;

use super::{FitMargin, LargestBuffer, LayerPlan, Reserve};
use crate::machine::budget::DriverMemory;
use crate::machine::{Backend, DeviceKind, Gpu, Machine};
use crate::units::Bytes;

/// The memory of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePlan {
    /// `GPU0`, `GPU1`, …, `CPU`.
    pub id: String,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// The name for the user.
    pub name: String,
    /// The library; none for the CPU.
    pub backend: Option<Backend>,
    /// Total memory.
    pub total: Bytes,
    /// Free memory before the model is loaded.
    pub free: Bytes,
    /// The part of `total` that is the device's own. The rest, all of it for the CPU, is RAM.
    pub own: Bytes,
    /// Weights of its layers, and parts of other layers.
    pub weights: Bytes,
    /// What only RAM has; all zero on GPUs.
    pub ram: InRam,
    /// KV or recurrent caches of its layers.
    pub cache: Bytes,
    /// The caches when all but the last token of a prompt of this length is read; none from engines that reserve them.
    pub after_prompt: Option<Bytes>,
    /// The compute graph's buffers.
    pub graph: Bytes,
    /// The model's compute buffer as the fit measures it, where a load takes another size.
    pub graph_measured: Option<Bytes>,
    /// The model's compute buffer of a pipeline that cannot be allocated, so that `graph` is without one.
    pub graph_pipelined: Option<Bytes>,
    /// What these buffers grow by once the first batches or images have been computed.
    pub growth: Bytes,
    /// The engine's reserves.
    pub reserves: Vec<Reserve>,
    /// How what a fit keeps free here came about; none where nothing was fitted.
    pub margin: Option<FitMargin>,
    /// Indices into [`Plan::layers`](super::Plan::layers), ascending.
    pub layers: Vec<usize>,
    /// The computer that the device is in, if it is used over RPC.
    pub computer: Option<Arc<str>>,
    /// What driver and backend take besides; in no other figure.
    pub driver: Option<DriverMemory>,
    /// The largest single buffer; none for the CPU, and from engines that do not know their buffers.
    pub largest_buffer: Option<LargestBuffer>,
}

/// What only the CPU has of RAM and holds there, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InRam {
    /// Further memory for what does not fit: free swap.
    pub swap_free: Bytes,
    /// What is kept for the system and other programs; no engine counts it.
    pub kept: Bytes,
    /// The part of the CPU's weights that is read in the mapped file, where it stays.
    pub mapped: Bytes,
    /// The part of the CPU's weights in a layout of its own (`CPU_REPACK`), memory that cannot be taken away.
    pub repacked: Bytes,
    /// The part of the CPU's weights that is pages of a mapped file which nothing reads after the load, because the
    /// weights in them are repacked or on another device: they take no memory that anybody else needs.
    pub read_once: Bytes,
    /// The part of the CPU's weights belonging to layers counted on GPUs; only for a CPU without layers.
    pub parts: Bytes,
    /// The part of `parts` that is experts.
    pub experts: Bytes,
    /// The part of the CPU's weights that belongs to layers, which tokens run through there.
    pub run: Bytes,
    /// The part of `run` that belongs to layers counted on GPUs, such as their experts.
    pub run_in_part: Bytes,
}

impl DevicePlan {
    /// The machine's devices, all empty: GPUs in its order, the CPU last.
    pub fn all_of(machine: &Machine) -> Vec<Self> {
        let gpu = |(index, gpu): (usize, &Gpu)| Self {
            backend: Some(gpu.backend),
            own: machine.own_memory(gpu),
            computer: gpu.computer.clone(),
            driver: DriverMemory::of(gpu),
            ..Self::empty(&format!("GPU{index}"), DeviceKind::Gpu, &gpu.name, gpu.total, gpu.free)
        };
        let ram = machine.ram;
        let cpu = Self {
            ram: InRam { swap_free: ram.swap_free, ..InRam::default() },
            ..Self::empty("CPU", DeviceKind::Cpu, "RAM", ram.total, ram.free)
        };
        machine.gpus.iter().enumerate().map(gpu).chain([cpu]).collect()
    }

    /// A device that holds nothing, with neither memory of its own nor swap.
    pub(crate) fn empty(id: &str, kind: DeviceKind, name: &str, total: Bytes, free: Bytes) -> Self {
        Self {
            id: id.to_owned(),
            kind,
            name: name.to_owned(),
            backend: None,
            total,
            free,
            own: Bytes::ZERO,
            weights: Bytes::ZERO,
            ram: InRam::default(),
            cache: Bytes::ZERO,
            after_prompt: None,
            graph: Bytes::ZERO,
            graph_measured: None,
            graph_pipelined: None,
            growth: Bytes::ZERO,
            reserves: Vec::new(),
            margin: None,
            layers: Vec::new(),
            computer: None,
            driver: None,
            largest_buffer: None,
        }
    }

    /// Adds a layer to this device.
    pub fn hold(&mut self, layer: &LayerPlan) {
        self.weights += layer.weights;
        self.cache += layer.cache;
        if self.kind == DeviceKind::Cpu {
            self.ram.run += layer.weights;
        }
        self.layers.push(layer.index);
    }

    /// Allocated bytes: weights, cache and graph.
    pub fn asked(&self) -> Bytes {
        self.weights + self.cache + self.graph
    }

    /// Allocated bytes without pages that nothing reads after the load.
    pub fn needed(&self) -> Bytes {
        self.asked() - self.ram.read_once
    }

    /// Total of the engine's reserves.
    pub fn reserved(&self) -> Bytes {
        self.reserves.iter().map(|reserve| reserve.bytes).sum()
    }

    /// What it keeps free on purpose, clipped to free memory: that is not an allocation.
    pub fn kept(&self) -> Bytes {
        self.reserved().min(self.free - self.needed())
    }

    /// Memory that is not free: allocated, kept free, and in use by others.
    pub fn taken(&self) -> Bytes {
        self.needed() + self.kept() + self.in_use()
    }

    /// Whether it is a GPU that shares RAM, at least in part.
    pub fn shares_ram(&self) -> bool {
        self.kind == DeviceKind::Gpu && self.own < self.total
    }

    /// What it takes of RAM, growth included: what memory of its own does not hold.
    pub fn in_ram(&self) -> Bytes {
        let all = self.needed() + self.growth;
        match self.kind {
            DeviceKind::Cpu => all,
            DeviceKind::Gpu if self.shares_ram() => all - self.own.min(self.free),
            DeviceKind::Gpu => Bytes::ZERO,
        }
    }

    /// Memory used by other programs.
    pub fn in_use(&self) -> Bytes {
        self.total - self.free
    }

    /// Whether more is allocated than is free here, including swap, at the latest once it has grown; what other devices
    /// take of the same RAM is not counted.
    pub fn is_over(&self) -> bool {
        self.needed() + self.growth > self.free + self.ram.swap_free
    }
}
