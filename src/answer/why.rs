//! Why a layer is on its device: the inequality that decided, with its numbers, and the memory users by device.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::ram_remedy::is_short;
use super::verdict::{self, capitalised};
use crate::plan::{DevicePlan, LayerPlan, Outcome, Part, PartKind, Plan, Reserve, Why};
use crate::units::{Bytes, grouped};

/// Why one layer is on its device.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LayerAnswer {
    /// Its index: blocks in order, the output layer last.
    pub index: usize,
    /// Its device: `GPU0`, `CPU`.
    pub device: String,
    /// The reason in one sentence.
    pub reason: String,
    /// Its weights and cache, and the growth of the graph if the engine counts that.
    pub needed: Bytes,
    /// The memory left for it on the GPU tried last; none if memory did not decide.
    pub available: Option<Bytes>,
    /// How `available` came about; none if memory did not decide.
    pub inequality: Option<Inequality>,
}

/// `free − reserved − graph − layers placed before = room`, and whether `needed` fits in that.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Inequality {
    /// The GPU: `GPU0`.
    pub device: String,
    /// Free there before the model is loaded.
    pub free: Bytes,
    /// What is reserved: minimum memory, buffers, overhead, the graph.
    pub kept: Vec<ReservedPart>,
    /// Number of layers placed there before.
    pub placed: usize,
    /// Their memory.
    pub placed_bytes: Bytes,
    /// The memory left; zero if more is reserved than is free.
    pub room: Bytes,
    /// The memory that the layer needs.
    pub needed: Bytes,
    /// Whether `room` was enough.
    pub enough: bool,
}

/// A part of what is reserved.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ReservedPart {
    /// What it is for.
    pub name: String,
    /// How much.
    pub bytes: Bytes,
}

/// A use of memory on a device.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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

/// The memory users of each GPU, the largest first within a GPU.
pub fn memory_users(plan: &Plan) -> Vec<MemoryUser> {
    let of = |(at, gpu): (usize, &DevicePlan)| {
        let layers = match gpu.layers.len() {
            1 => "1 layer".to_owned(),
            n => format!("{n} layers"),
        };
        let mut users = vec![("in use by others".to_owned(), gpu.in_use())];
        for part in &plan.parts {
            let memory = part.devices.get(at).copied().unwrap_or_default();
            let (whose, graph) = match part.kind {
                PartKind::Model => (layers.clone(), "compute buffer".to_owned()),
                beside => (format!("the {}", beside.title()), format!("compute buffer of the {}", beside.title())),
            };
            users.extend([
                (format!("weights of {whose}"), memory.weights),
                (format!("cache of {whose}"), memory.cache),
                (graph, memory.graph),
            ]);
        }
        users.extend(gpu.reserves.iter().map(|reserve| (reserve.name.to_owned(), reserve.bytes)));
        users.retain(|&(_, bytes)| bytes > Bytes::ZERO);
        users.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let device = gpu.id.clone();
        users.into_iter().map(move |(name, bytes)| MemoryUser { device: device.clone(), name, bytes })
    };
    plan.gpus().iter().enumerate().flat_map(of).collect()
}

/// Index of the layer in RAM that is closest to fitting on a GPU: the first that had too little memory.
pub fn closest_to_fitting(plan: &Plan) -> Option<usize> {
    let in_ram = plan.layers.iter().filter(|layer| layer.device + 1 == plan.devices.len());
    let nearness = |why: &Why| (matches!(why, Why::NoRoom { .. }), *why != Why::OutputDropped);
    in_ram.max_by_key(|layer| (nearness(&layer.why), layer.index)).map(|layer| layer.index)
}

/// What keeps `plan` from being all in VRAM, in sentences; `None` if it is.
pub fn what_holds(plan: &Plan) -> Option<String> {
    if let Some(refusal) = &plan.refusal {
        return Some(format!("{} refuses: {refusal}", plan.engine_title()));
    }
    if plan.outcome() == Outcome::Vram && verdict::lack_of_room(plan).is_none() {
        return None;
    }
    let elsewhere: Bytes = plan.layers.iter().map(LayerPlan::elsewhere).sum();
    let parts = match elsewhere {
        Bytes::ZERO => String::new(),
        _ => format!(", without {elsewhere} of their weights, which are in RAM"),
    };
    let on_gpus = format!("{} of {} layers are on GPU then{parts}.", plan.on_gpus(), plan.layers.len());
    let said = match closest_to_fitting(plan).and_then(|index| layer(plan, index)) {
        Some(answer) => {
            let name = capitalised(&plan.layer_name(answer.index));
            format!("{on_gpus} {name} is in RAM: {}", answer.reason)
        }
        None if plan.outcome() >= Outcome::FromDisk || plan.outcome() <= Outcome::Tight => {
            format!("{on_gpus} {}", verdict::sentence(plan, None, None))
        }
        None => on_gpus,
    };
    Some(said)
}

/// Why no change is listed: RAM is short, or no layer can be brought onto GPUs; `None` if some layer is in RAM.
pub fn nothing_to_move(plan: &Plan) -> Option<&'static str> {
    if is_short(plan) {
        return Some("RAM is short, and no single change that was tried frees enough of it.");
    }
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight if verdict::lack_of_room(plan).is_some() => {
            Some("All layers are on GPU, and no single change keeps free what must stay free.")
        }
        Outcome::Vram | Outcome::Tight => Some("Nothing needs to change: all layers are on GPU."),
        Outcome::PartsInRam | Outcome::ExpertsInRam => Some("No whole layer is in RAM: only parts of layers are."),
        Outcome::LayersInRam | Outcome::Cpu | Outcome::FromDisk | Outcome::DoesNotFit => None,
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
        Why::InPart { .. }
        | Why::AskedFor
        | Why::NotAskedFor
        | Why::NoGpu
        | Why::GivenUp { .. }
        | Why::NotCounted
        | Why::Nothing => None,
    };
    let reason = match (&layer.why, &inequality) {
        (Why::Fits { .. } | Why::NoRoom { .. }, Some(inequality)) => inequality.to_string(),
        (Why::OutputDropped, Some(Inequality { device, room, .. })) => {
            format!(
                "The whole model does not fit, so the engine keeps the output layer in RAM; {device} has {room} left."
            )
        }
        _ => layer.reason(&plan.devices),
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

/// Whether `one` was placed before `other`: blocks go from last to first, the output layer first or last by engine.
fn is_before(plan: &Plan, one: usize, other: usize) -> bool {
    let output = plan.layers.len().saturating_sub(1);
    match plan.engine.facts().places_output_last {
        true if one == output => false,
        true if other == output => true,
        _ => one > other,
    }
}

/// Index of the GPU with the most memory left after its layers, and that memory.
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
    /// The inequality for the layer `index` on a GPU, or after all its layers if `index` is `None`.
    fn of(plan: &Plan, index: Option<usize>, device: usize, needed: Bytes, room: Bytes, enough: bool) -> Option<Self> {
        let gpu = plan.gpus().get(device)?;
        let before = gpu.layers.iter().filter_map(|&placed| plan.layers.get(placed));
        let before: Vec<_> =
            before.filter(|placed| index.is_none_or(|index| is_before(plan, placed.index, index))).collect();
        let placed_bytes: Bytes = before.iter().map(|layer| layer.here()).sum();
        let in_part = before.iter().any(|layer| matches!(layer.why, Why::InPart { .. }));
        // engines may reserve the larger graph while placing layers, whichever is in force in the end
        let graph = &plan.graph;
        let largest = graph.partial.bytes.max(graph.full.bytes);
        let on_gpu = |part: &Part| part.devices.get(device).copied().unwrap_or_default();
        let own = plan.parts.first().map(|model| on_gpu(model).graph).unwrap_or_default();
        let graphs = [largest, graph.partial.bytes, graph.full.bytes, own, gpu.graph, Bytes::ZERO];
        let beside = plan.parts.iter().filter(|part| part.kind != PartKind::Model);
        let beside = beside.map(|part| Reserve { name: part.kind.title(), bytes: on_gpu(part).asked() });
        let reserves: Vec<Reserve> =
            gpu.reserves.iter().cloned().chain(beside.filter(|part| part.bytes > Bytes::ZERO)).collect();
        // the last ones in the list may have been added with a later layer, so try shorter ones too
        let prefixes = || (0..=reserves.len()).rev().filter_map(|count| reserves.get(..count));
        let before_layers = |list: &[Reserve]| gpu.free - list.iter().map(|part| part.bytes).sum();
        let left = |list: &[Reserve]| before_layers(list) - placed_bytes;
        let explains = |list: &[Reserve]| graphs.into_iter().find(|&graph| left(list) - graph == room);
        let kept = |list: &[Reserve], name: &str, bytes: Bytes| {
            let parts = list.iter().map(|part| ReservedPart { name: part.name.to_owned(), bytes: part.bytes });
            let last = ReservedPart { name: name.to_owned(), bytes };
            parts.chain(Some(last).filter(|last| last.bytes > Bytes::ZERO)).collect::<Vec<_>>()
        };
        let mut placed = (before.len(), placed_bytes);
        let kept = if let Some((list, graph)) = prefixes().find_map(|list| Some((list, explains(list)?))) {
            let name = match graph {
                bytes if bytes == plan.graph.in_force().bytes => "compute buffer",
                bytes if bytes == plan.graph.partial.bytes => "partial compute buffer",
                bytes if bytes == plan.graph.full.bytes => "full compute buffer",
                _ => "compute buffer",
            };
            kept(list, name, graph)
        } else if let Some(list) = prefixes().find(|list| left(list) >= room && !in_part) {
            kept(list, "compute buffer and related ones", left(list) - room)
        } else {
            // earlier layers had other parts on this GPU when this layer was tried
            let list = prefixes().find(|list| before_layers(list) >= room)?;
            placed = (0, Bytes::ZERO);
            let name = match before.len() {
                1 => "compute buffer and 1 layer (partial at that point)".to_owned(),
                n => format!("compute buffer and {n} layers (some partial)"),
            };
            kept(list, &name, before_layers(list) - room)
        };
        let (placed, placed_bytes) = placed;
        Some(Self { device: gpu.id.clone(), free: gpu.free, kept, placed, placed_bytes, room, needed, enough })
    }

    /// Whether reserves and earlier layers exceed the free memory.
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
            // Ollama up to 0.24 compares free memory as 32-bit floats, which have 24 bits of precision
            write!(f, " leaves {room}, which in 32-bit floats, as the engine compares, is less than {needed}.")
        }
    }
}
