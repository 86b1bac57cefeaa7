//! Why a layer is where it is: the inequality that decided, with its numbers, and what took the memory.

use std::fmt;

use serde::Serialize;

use crate::plan::{DevicePlan, FitStatus, LayerPlan, Plan, Reserve, Why};
use crate::units::{Bytes, grouped};

/// Why one layer is where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerAnswer {
    /// Its index in [`Plan::layers`].
    pub index: usize,
    /// Where it is: `GPU0`, `CPU`.
    pub device: String,
    /// One sentence.
    pub reason: String,
    /// Its weights and cache, and what the graph would have grown by where the engine counts that.
    pub needed: Bytes,
    /// What there was for it on the GPU that was tried last; `None` where room did not decide.
    pub available: Option<Bytes>,
    /// How that came about; where room decided.
    pub inequality: Option<Inequality>,
}

/// `free − kept back − graph − layers placed before = room`, and whether that was enough for `needed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inequality {
    /// The GPU: `GPU0`.
    pub device: String,
    /// What was free there before the model.
    pub free: Bytes,
    /// What is kept back, part by part: minimum memory, buffers, overhead, the graph's reserve.
    pub kept: Vec<ReservedPart>,
    /// How many layers were placed there before.
    pub placed: usize,
    /// What they take.
    pub placed_bytes: Bytes,
    /// What that leaves; nothing where more is kept back than is free.
    pub room: Bytes,
    /// What the layer needs.
    pub needed: Bytes,
    /// The room was enough.
    pub enough: bool,
}

/// A part of what is kept back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReservedPart {
    /// What it is for, in a few words.
    pub name: String,
    /// How much.
    pub bytes: Bytes,
}

/// Something that takes memory on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUser {
    /// The device: `GPU0`.
    pub device: String,
    /// What it is: `weights of 26 layers`.
    pub name: String,
    /// How much.
    pub bytes: Bytes,
}

/// The answer for every layer, in order.
pub fn layers(plan: &Plan) -> Vec<LayerAnswer> {
    plan.layers.iter().map(|layer| answer(plan, layer)).collect()
}

/// The answer for the layer of this index in [`Plan::layers`].
pub fn layer(plan: &Plan, index: usize) -> Option<LayerAnswer> {
    plan.layers.get(index).map(|layer| answer(plan, layer))
}

/// What takes the memory of each GPU, the largest first within a GPU.
pub fn memory_users(plan: &Plan) -> Vec<MemoryUser> {
    let of = |gpu: &DevicePlan| {
        let layers = match gpu.layers.len() {
            1 => "1 layer".to_owned(),
            n => format!("{n} layers"),
        };
        let mut takers = vec![
            (format!("weights of {layers}"), gpu.weights),
            (format!("cache of {layers}"), gpu.cache),
            ("compute graph".to_owned(), gpu.graph),
            ("in use by others".to_owned(), gpu.in_use()),
        ];
        takers.extend(gpu.reserves.iter().map(|reserve| (format!("reserved: {}", reserve.name), reserve.bytes)));
        takers.retain(|&(_, bytes)| bytes > Bytes::ZERO);
        takers.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let device = gpu.id.clone();
        takers.into_iter().map(move |(name, bytes)| MemoryUser { device: device.clone(), name, bytes })
    };
    plan.gpus().iter().flat_map(of).collect()
}

/// Why there is no layer to be brought onto GPUs; none where there is one.
pub fn nothing_to_move(plan: &Plan) -> Option<&'static str> {
    match plan.fit_status() {
        FitStatus::Fits => Some("Nothing needs to change: all layers are on GPU."),
        FitStatus::PartInRam(_) => Some("No whole layer is in RAM: only parts of layers are."),
        FitStatus::Split | FitStatus::InRam | FitStatus::DoesNotFit => None,
    }
}

fn answer(plan: &Plan, layer: &LayerPlan) -> LayerAnswer {
    let needed = layer.weights + layer.cache;
    let index = Some(layer.index);
    let inequality = match layer.why {
        Why::Fits { needed, room } => Inequality::of(plan, index, layer.device, needed, room, true),
        Why::NoRoom { needed, room, device } => Inequality::of(plan, index, device, needed, room, false),
        Why::OutputDropped => {
            left_over(plan).and_then(|(device, room)| Inequality::of(plan, None, device, needed, room, room >= needed))
        }
        Why::InPart { .. } | Why::AskedFor | Why::NotAskedFor | Why::NoGpu | Why::GivenUp { .. } | Why::Nothing => None,
    };
    let reason = match (&layer.why, &inequality) {
        (Why::Fits { .. } | Why::NoRoom { .. }, Some(inequality)) => inequality.to_string(),
        (Why::OutputDropped, Some(Inequality { device, room, .. })) => {
            format!(
                "The whole model does not fit, so the engine keeps the output layer in RAM; {device} has {room} left."
            )
        }
        (why, _) => why.sentence(&plan.devices),
    };
    let (needed, available) = match layer.why {
        Why::Fits { needed, room } | Why::NoRoom { needed, room, .. } => (needed, Some(room)),
        _ => (needed, inequality.as_ref().map(|inequality| inequality.room)),
    };
    LayerAnswer {
        index: layer.index,
        device: plan.devices.get(layer.device).map_or_else(String::new, |device| device.id.clone()),
        reason,
        needed,
        available,
        inequality,
    }
}

/// Whether `one` was placed before `other`: blocks from the last to the first, and the output layer first or last.
fn is_before(plan: &Plan, one: usize, other: usize) -> bool {
    let output = plan.layers.len().saturating_sub(1);
    match plan.engine.facts().places_output_last {
        true if one == output => false,
        true if other == output => true,
        _ => one > other,
    }
}

/// The GPU with most room left by the layers placed on it, by its index, and that room.
fn left_over(plan: &Plan) -> Option<(usize, Bytes)> {
    let left = |(index, gpu): (usize, &DevicePlan)| {
        let last_placed = plan.layers.get(*gpu.layers.first()?)?;
        match last_placed.why {
            Why::Fits { needed, room } => Some((index, room - needed)),
            _ => None,
        }
    };
    plan.gpus().iter().enumerate().filter_map(left).max_by_key(|&(_, room)| room)
}

impl Inequality {
    /// What was left of a GPU when this layer was tried there, or in the end where no layer is named.
    fn of(plan: &Plan, index: Option<usize>, device: usize, needed: Bytes, room: Bytes, enough: bool) -> Option<Self> {
        let gpu = plan.gpus().get(device)?;
        let before = gpu.layers.iter().filter_map(|&placed| plan.layers.get(placed));
        let before: Vec<_> =
            before.filter(|placed| index.is_none_or(|index| is_before(plan, placed.index, index))).collect();
        let placed_bytes: Bytes = before.iter().map(|layer| layer.here()).sum();
        let in_part = before.iter().any(|layer| matches!(layer.why, Why::InPart { .. }));
        // engines may reserve the larger graph while they place layers, whichever is in force in the end
        let graph = &plan.graph;
        let largest = graph.partial.bytes.max(graph.full.bytes);
        let graphs = [largest, graph.partial.bytes, graph.full.bytes, gpu.graph, Bytes::ZERO];
        // what an engine keeps back with its last layer is the last that it lists, and was not there yet before
        let lists = || (0..=gpu.reserves.len()).rev().filter_map(|count| gpu.reserves.get(..count));
        let before_layers = |list: &[Reserve]| gpu.free - list.iter().map(|part| part.bytes).sum();
        let left = |list: &[Reserve]| before_layers(list) - placed_bytes;
        let explains = |list: &[Reserve]| graphs.into_iter().find(|&graph| left(list) - graph == room);
        let kept = |list: &[Reserve], name: &str, bytes: Bytes| {
            let parts = list.iter().map(|part| ReservedPart { name: part.name.to_owned(), bytes: part.bytes });
            let last = ReservedPart { name: name.to_owned(), bytes };
            parts.chain(Some(last).filter(|last| last.bytes > Bytes::ZERO)).collect::<Vec<_>>()
        };
        let mut placed = (before.len(), placed_bytes);
        let kept = if let Some((list, graph)) = lists().find_map(|list| Some((list, explains(list)?))) {
            let name = match graph {
                bytes if bytes == plan.graph.in_force().bytes => "graph",
                bytes if bytes == plan.graph.partial.bytes => "partial graph",
                bytes if bytes == plan.graph.full.bytes => "full graph",
                _ => "graph",
            };
            kept(list, name, graph)
        } else if let Some(list) = lists().find(|list| left(list) >= room && !in_part) {
            kept(list, "graph and related buffers", left(list) - room)
        } else {
            // the layers before had other parts here when this one was tried
            let list = lists().find(|list| before_layers(list) >= room)?;
            placed = (0, Bytes::ZERO);
            let name = match before.len() {
                1 => "graph and 1 layer (partial at that point)".to_owned(),
                n => format!("graph and {n} layers (some partial)"),
            };
            kept(list, &name, before_layers(list) - room)
        };
        let (placed, placed_bytes) = placed;
        Some(Self { device: gpu.id.clone(), free: gpu.free, kept, placed, placed_bytes, room, needed, enough })
    }

    /// More is kept back, or taken by layers before, than is free.
    fn is_overdrawn(&self) -> bool {
        self.kept.iter().map(|part| part.bytes).sum::<Bytes>() + self.placed_bytes > self.free
    }
}

impl fmt::Display for Inequality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} free", self.device, self.free)?;
        for ReservedPart { name, bytes } in &self.kept {
            write!(f, " − {bytes} {name}")?;
        }
        match self.placed {
            0 => {}
            1 => write!(f, " − {} for 1 layer", self.placed_bytes)?,
            n => write!(f, " − {} for {n} layers", self.placed_bytes)?,
        }
        let (mut room, mut needed) = (self.room.to_string(), self.needed.to_string());
        if room == needed && self.room != self.needed {
            let exact = |bytes: Bytes| format!("{} bytes", grouped(bytes.0, '\u{2009}'));
            (room, needed) = (exact(self.room), exact(self.needed));
        }
        if self.enough {
            write!(f, " leaves {room}, enough for the {needed} this layer needs.")
        } else if self.room < self.needed {
            write!(f, " leaves {room}, less than the {needed} this layer needs.")
        } else if self.is_overdrawn() {
            write!(f, " leaves nothing: that exceeds the free memory.")
        } else {
            write!(f, " leaves {room}, too little for the {needed} this layer needs, as the engine rounds them.")
        }
    }
}
