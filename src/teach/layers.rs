//! The layers of a plan as a walk: device by device, what is taken off its free memory, and what is left after that.
//!
//! GPUs are filled from the last layer to the first (`common/fit.cpp` and `load_tensors` in `llama-model.cpp`, 0.1.161).

mod page;

use serde::Serialize;

use crate::machine::DeviceKind;
use crate::page::Hue;
use crate::plan::{DevicePlan, LayerPlan, PartKind, PartMemory, Plan, Why};
use crate::units::{Bytes, Difference};
pub use page::SubtractionRow;

/// The page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayersPage {
    /// The GPUs in the plan's order, RAM last.
    pub devices: Vec<DeviceWalk>,
    /// How many layers are on GPUs.
    pub result: String,
}

/// What is taken off one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceWalk {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// The name for the user.
    pub name: String,
    /// Free memory before the model is loaded.
    pub free: Bytes,
    /// In order.
    pub steps: Vec<Subtraction>,
    /// What is left after them, and why no further layer follows.
    pub end: String,
}

/// One amount that is taken off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subtraction {
    /// What it is for: `layer 12`.
    pub title: String,
    /// Its kind.
    pub kind: SubtractionKind,
    /// The amount.
    pub taken: Bytes,
    /// Whether the amount is given back instead.
    pub given_back: bool,
    /// What is left after it.
    pub left: Difference,
    /// The reason, as one sentence.
    pub reason: String,
}

/// What an amount is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubtractionKind {
    /// What the engine keeps free.
    Kept,
    /// The compute buffer of the model.
    Graph,
    /// What is loaded beside the model.
    Beside,
    /// The layer of this index in the plan.
    Layer(usize),
    /// Weights that are in no layer here.
    Weights,
    /// Caches that are in no layer here.
    Cache,
    /// What buffers grow by.
    Growth,
    /// Pages of a mapped file that nothing reads after the load.
    ReadOnce,
}

impl SubtractionKind {
    /// Its colour and its texture.
    pub const fn series(self) -> (Hue, &'static str) {
        match self {
            Self::Kept => (Hue::Reserved, "░"),
            Self::Graph | Self::Growth => (Hue::Graph, "▒"),
            Self::Beside => (Hue::InUse, "╱"),
            Self::Layer(_) | Self::Weights | Self::ReadOnce => (Hue::Weights, "█"),
            Self::Cache => (Hue::Cache, "▓"),
        }
    }
}

impl LayersPage {
    /// The walk through the devices of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let devices = (0..plan.devices.len()).filter_map(|at| DeviceWalk::of(plan, at)).collect();
        let result = format!(
            "{} of {} layers are on GPUs. Amounts are taken in the order in which engines fill GPUs: the last layer first.",
            plan.on_gpus(),
            plan.layers.len()
        );
        Self { devices, result }
    }

    /// The number of steps of all devices; before the first nothing is taken.
    pub fn steps(&self) -> usize {
        self.devices.iter().map(|device| device.steps.len()).sum()
    }

    /// The device that step `step` is on, and the number of its amounts that are taken by then.
    pub fn at(&self, step: usize) -> (usize, usize) {
        let mut before = 0;
        for (at, device) in self.devices.iter().enumerate() {
            if step <= before + device.steps.len() {
                return (at, step - before);
            }
            before += device.steps.len();
        }
        let last = self.devices.len().saturating_sub(1);
        (last, self.devices.get(last).map_or(0, |device| device.steps.len()))
    }

    /// The step after which `taken` amounts of a device are taken.
    pub fn step_of(&self, device: usize, taken: usize) -> usize {
        self.devices.iter().take(device).map(|device| device.steps.len()).sum::<usize>() + taken
    }

    /// The step that places a layer of the plan.
    pub fn step_of_layer(&self, layer: usize) -> Option<usize> {
        let all = self.devices.iter().flat_map(|device| &device.steps);
        all.map(|step| step.kind).position(|kind| kind == SubtractionKind::Layer(layer)).map(|at| at + 1)
    }
}

impl DeviceWalk {
    fn of(plan: &Plan, at: usize) -> Option<Self> {
        let device = plan.devices.get(at)?;
        let own = plan.parts.first().and_then(|model| model.devices.get(at)).copied().unwrap_or_default();
        let mut walk = Self {
            id: device.id.clone(),
            name: device.name.clone(),
            free: device.free,
            steps: Vec::new(),
            end: String::new(),
        };
        for reserve in &device.reserves {
            walk.take(SubtractionKind::Kept, reserve.name, reserve.bytes, "The engine keeps this free.");
        }
        let graph = "The compute buffer is needed whatever the layers: it holds results while the graph runs.";
        walk.take(SubtractionKind::Graph, "compute buffer", own.graph, graph);
        for part in plan.parts.iter().filter(|part| part.kind != PartKind::Model) {
            let taken = part.devices.get(at).copied().map_or(Bytes::ZERO, PartMemory::asked);
            walk.take(SubtractionKind::Beside, part.kind.title(), taken, "It is loaded beside the model.");
        }
        let layers = || device.layers.iter().rev().filter_map(|layer| plan.layers.get(*layer));
        for layer in layers() {
            let kind = SubtractionKind::Layer(layer.index);
            walk.take(kind, &plan.layer_name(layer.index), layer.here(), &layer.reason(&plan.devices));
        }
        walk.rest(device, own, layers().map(LayerPlan::here).sum());
        walk.end = walk.ends(plan, at, device);
        Some(walk)
    }

    /// Takes what is in no layer here.
    fn rest(&mut self, device: &DevicePlan, own: PartMemory, in_layers: Bytes) {
        let rest = own.weights + own.cache - in_layers;
        let what = match device.kind {
            DeviceKind::Cpu => "Token embeddings, weights of layers on GPUs that are kept in RAM, and caches there.",
            DeviceKind::Gpu => "Parts of layers that are counted elsewhere, copies and alignment.",
        };
        self.take(SubtractionKind::Weights, "outside its layers", rest, what);
        let growth = "Compute buffers grow by this with the first batches or images.";
        self.take(SubtractionKind::Growth, "growth", device.growth, growth);
        if device.ram.read_once > Bytes::ZERO {
            let left =
                Difference(self.left().0.saturating_add(i64::try_from(device.ram.read_once.0).unwrap_or(i64::MAX)));
            self.steps.push(Subtraction {
                title: "pages read once".to_owned(),
                kind: SubtractionKind::ReadOnce,
                taken: device.ram.read_once,
                given_back: true,
                left,
                reason:
                    "Nothing reads these pages of the mapped file after the load: they take no memory that anybody \
                         else needs."
                        .to_owned(),
            });
        }
    }

    fn take(&mut self, kind: SubtractionKind, title: &str, taken: Bytes, reason: &str) {
        if taken == Bytes::ZERO && !matches!(kind, SubtractionKind::Layer(_)) {
            return;
        }
        let left = self.left() - taken;
        let (title, reason) = (title.to_owned(), reason.to_owned());
        self.steps.push(Subtraction { title, kind, taken, given_back: false, left, reason });
    }

    /// What is left after all steps so far.
    pub fn left(&self) -> Difference {
        self.left_after(self.steps.len())
    }

    /// What is left after so many steps.
    pub fn left_after(&self, taken: usize) -> Difference {
        let last = taken.checked_sub(1).and_then(|last| self.steps.get(last));
        last.map_or_else(|| Difference::between(self.free, Bytes::ZERO), |step| step.left)
    }

    /// What is left at the end, and the first layer that had no room.
    fn ends(&self, plan: &Plan, at: usize, device: &DevicePlan) -> String {
        let (left, id) = (self.left(), &self.id);
        let kept = if device.reserved() > Bytes::ZERO {
            format!(", besides {} kept free", device.reserved())
        } else {
            String::new()
        };
        let end = if left.is_short() {
            format!("{id} is short of {}.", left.lacking())
        } else {
            format!("{} is left on {id}{kept}.", left.left())
        };
        let others =
            device.shares_ram() && plan.headrooms().get(at).is_some_and(|headroom| headroom.above_kept() != left);
        let others = others.then(|| "It shares RAM, which the other devices take from too.".to_owned());
        let refused = |layer: &&LayerPlan| matches!(layer.why, Why::NoRoom { device, .. } if device == at);
        let next =
            plan.layers.iter().rev().find(refused).map(|layer| {
                format!("Next would be {}. {}", plan.layer_name(layer.index), layer.reason(&plan.devices))
            });
        [Some(end), others, next].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
