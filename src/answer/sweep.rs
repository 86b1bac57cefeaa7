//! Memory along one knob's range.

use serde::Serialize;

use super::cliffs::Cliff;
use crate::engine::{EngineError, PlanRequest};
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, Headroom, Outcome, Plan, Totals, Verdict};
use crate::settings::knob::Knob;
use crate::speed::{SpeedRange, Speeds};
use crate::units::{Bytes, Difference, Ratio};

/// Plans along a knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The knob.
    pub knob: Knob,
    /// One point per value, ascending.
    pub points: Vec<Point>,
    /// Where the figures changes in between.
    pub cliffs: Vec<Cliff>,
}

/// The figures at one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The knob's value.
    pub value: u64,
    /// The plan in short, or the engine's error in one sentence.
    pub figures: Result<PlanFigures, String>,
}

/// A plan in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanFigures {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Layers on GPUs.
    pub offloaded: usize,
    /// All layers, including the output layer.
    pub layer_count: usize,
    /// Share of the memory that is on GPUs.
    pub on_gpu: Ratio,
    /// Where what a token needs is.
    pub outcome: Outcome,
    /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
    pub parts_in_ram: Bytes,
    /// Sums over devices.
    pub totals: Totals,
    /// How fast it generates with an empty cache, where that can be known.
    pub speed: Option<SpeedRange>,
    /// How fast it generates with a full cache.
    pub speed_at_full_context: Option<SpeedRange>,
    /// GPUs in order, the CPU last.
    pub devices: Vec<DeviceSums>,
}

/// The memory of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceSums {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// Free before the model is loaded; of RAM, what GPUs do not take of it.
    pub free: Bytes,
    /// Weights of its layers.
    pub weights: Bytes,
    /// Caches of its layers.
    pub cache: Bytes,
    /// The compute graph.
    pub graph: Bytes,
    /// Reserved by the engine.
    pub reserved: Bytes,
    /// What is left above that; negative where it is missing.
    pub headroom: Difference,
    /// Number of its layers.
    pub layers: usize,
}

impl PlanFigures {
    /// Summarises `plan`, which is this fast.
    pub fn of(plan: &Plan, speeds: Option<&Speeds>) -> Self {
        let device = |(at, (device, headroom)): (usize, (&DevicePlan, Headroom))| DeviceSums {
            id: device.id.clone(),
            kind: device.kind,
            free: device.free - plan.lent_to_gpus(at),
            weights: device.weights,
            cache: device.cache,
            graph: device.graph,
            reserved: device.reserved(),
            headroom: headroom.above_kept(),
            layers: device.layers.len(),
        };
        Self {
            verdict: plan.verdict,
            offloaded: plan.offloaded,
            layer_count: plan.layers.len(),
            on_gpu: plan.totals.gpu.share_of(plan.totals.all),
            outcome: plan.outcome(),
            parts_in_ram: plan.parts_in_ram(),
            totals: plan.totals,
            speed: speeds.map(|speeds| speeds.start.range()),
            speed_at_full_context: speeds.map(|speeds| speeds.full.range()),
            devices: plan.devices.iter().zip(plan.headrooms()).enumerate().map(device).collect(),
        }
    }

    /// Plans `request` and summarises the plan.
    ///
    /// # Errors
    /// The engine's.
    pub fn of_request(request: &PlanRequest) -> Result<Self, EngineError> {
        let plan = request.plan()?;
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        Ok(Self::of(&plan, speeds.as_ref()))
    }

    /// As [`Plan::on_gpus`].
    pub fn on_gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu).map(|device| device.layers).sum()
    }
}

impl PlanRequest {
    /// `sweep` with a point on either side of each of its cliffs, so that lines through the points have steps there.
    pub fn with_edges(&self, mut sweep: Sweep) -> Sweep {
        let edges = sweep.cliffs.iter().flat_map(|cliff| [cliff.last, cliff.first]);
        let inside = |value: &u64| sweep.points.first().is_some_and(|first| first.value < *value);
        let before_last = |value: &u64| sweep.points.last().is_some_and(|last| *value < last.value);
        let known = |value: &u64| sweep.points.iter().any(|point| point.value == *value);
        let mut missing: Vec<u64> = edges.filter(inside).filter(before_last).filter(|value| !known(value)).collect();
        missing.dedup();
        sweep.points.extend(missing.into_iter().map(|value| self.point(sweep.knob, value)));
        sweep.points.sort_by_key(|point| point.value);
        sweep
    }

    /// Plans at each of `values`, and the cliffs along the whole range.
    pub fn sweep(&self, knob: Knob, values: &[u64]) -> Sweep {
        let points = values.iter().map(|&value| self.point(knob, value)).collect();
        Sweep { knob, points, cliffs: self.cliffs(knob) }
    }

    /// The figures with `knob` at `value`.
    pub fn point(&self, knob: Knob, value: u64) -> Point {
        Point { value, figures: self.figures(&[(knob, value)]) }
    }

    /// The figures with these knobs set to these values.
    pub(super) fn figures(&self, knobs: &[(Knob, u64)]) -> Result<PlanFigures, String> {
        let request = self.changed(|settings| knobs.iter().for_each(|&(knob, value)| knob.set(settings, value)));
        PlanFigures::of_request(&request).map_err(|error| error.to_string())
    }
}
