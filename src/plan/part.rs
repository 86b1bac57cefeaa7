//! What is loaded together: the model, and the projectors and the draft that come with it.

use serde::Serialize;

use super::DevicePlan;
use crate::units::Bytes;

/// One of the models loaded together, with its memory on every device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one it is.
    pub kind: PartKind,
    /// Its file as the user named it; none if it is not known, or is that of the model.
    pub file: Option<String>,
    /// Its memory on each of [`Plan::devices`](super::Plan::devices), in their order.
    pub devices: Vec<PartMemory>,
}

/// The models that llama-server loads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// The model itself.
    Model,
    /// The projector of images.
    Vision,
    /// The projector of sounds.
    Audio,
    /// The model that drafts tokens, or the model's own blocks for that (MTP).
    Draft,
}

impl PartKind {
    /// As in JSON and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Vision => "vision",
            Self::Audio => "audio",
            Self::Draft => "draft",
        }
    }

    /// As in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Vision => "vision projector",
            Self::Audio => "audio projector",
            Self::Draft => "draft",
        }
    }
}

/// The memory of a part on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartMemory {
    /// Weights.
    pub weights: Bytes,
    /// The part of `weights` in a layout of the CPU's own (`CPU_REPACK`).
    pub repacked: Bytes,
    /// The part of `weights` that is pages of a mapped file which nothing reads after the load.
    pub read_once: Bytes,
    /// KV caches and recurrent states.
    pub cache: Bytes,
    /// The compute buffer as reserved while loading.
    pub graph: Bytes,
    /// The compute buffer that stays once the first batches or images have been computed.
    pub graph_ready: Bytes,
}

impl Part {
    /// The part of a model that comes alone and has all memory of `devices`.
    pub fn alone(devices: &[DevicePlan]) -> Vec<Self> {
        let memory = |device: &DevicePlan| PartMemory {
            weights: device.weights,
            repacked: device.repacked,
            read_once: device.read_once,
            cache: device.cache,
            graph: device.graph,
            graph_ready: device.graph,
        };
        vec![Self { kind: PartKind::Model, file: None, devices: devices.iter().map(memory).collect() }]
    }

    /// Sets the memory of `devices` to the sums over `parts`.
    pub fn sum_into(parts: &[Self], devices: &mut [DevicePlan]) {
        for (at, device) in devices.iter_mut().enumerate() {
            let of_device = || parts.iter().filter_map(|part| part.devices.get(at));
            device.weights = of_device().map(|memory| memory.weights).sum();
            device.repacked = of_device().map(|memory| memory.repacked).sum();
            device.read_once = of_device().map(|memory| memory.read_once).sum();
            device.cache = of_device().map(|memory| memory.cache).sum();
            device.graph = of_device().map(|memory| memory.graph).sum();
            device.growth = of_device().map(|memory| memory.graph_ready).sum::<Bytes>() - device.graph;
        }
    }

    /// The same part with its memory at `places` among `count` devices; what has no place is on the last one.
    #[must_use]
    pub fn spread_over(self, places: &[usize], count: usize) -> Self {
        let mut devices = vec![PartMemory::default(); count];
        for (at, memory) in self.devices.into_iter().enumerate() {
            let place = places.get(at).copied().unwrap_or(count.saturating_sub(1));
            if let Some(device) = devices.get_mut(place) {
                *device = memory;
            }
        }
        Self { devices, ..self }
    }

    /// Its memory on all devices.
    pub fn total(&self) -> Bytes {
        self.devices.iter().map(|memory| memory.asked()).sum()
    }
}

impl PartMemory {
    /// Weights, cache and graph as reserved.
    pub fn asked(self) -> Bytes {
        self.weights + self.cache + self.graph
    }

    /// The same without pages that nothing reads after the load.
    pub fn needed(self) -> Bytes {
        self.asked() - self.read_once
    }
}
