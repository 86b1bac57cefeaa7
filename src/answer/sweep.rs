//! Memory along one knob's range.

use serde::Serialize;

use super::cliffs::Cliff;
use crate::engine::FitGoal;
use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::plan::{Outcome, Plan, PlanSummary, Totals, Verdict};
use crate::settings::knob::Knob;
use crate::units::{Bytes, Ratio};

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
    /// Free before the model is loaded.
    pub free: Bytes,
    /// Weights of its layers.
    pub weights: Bytes,
    /// Caches of its layers.
    pub cache: Bytes,
    /// The compute graph.
    pub graph: Bytes,
    /// Reserved by the engine.
    pub reserved: Bytes,
    /// Number of its layers.
    pub layers: usize,
}

impl PlanFigures {
    /// Summarises `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self::of_summary(&PlanSummary::of(plan))
    }

    /// As [`Plan::on_gpus`].
    pub fn on_gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu).map(|device| device.layers).sum()
    }

    fn of_summary(summary: &PlanSummary) -> Self {
        let device = |device: &crate::plan::DevicePlan| DeviceSums {
            id: device.id.clone(),
            kind: device.kind,
            free: device.free,
            weights: device.weights,
            cache: device.cache,
            graph: device.graph,
            reserved: device.reserved(),
            layers: device.layers.len(),
        };
        let totals = Totals::of(&summary.devices);
        Self {
            verdict: summary.verdict,
            offloaded: summary.offloaded,
            layer_count: summary.layer_count,
            on_gpu: totals.gpu.share_of(totals.all),
            outcome: summary.outcome(),
            parts_in_ram: summary.parts_in_ram(),
            totals,
            devices: summary.devices.iter().map(device).collect(),
        }
    }
}

impl PlanRequest {
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
        request
            .summary(FitGoal::Most)
            .map(|summary| PlanFigures::of_summary(&summary))
            .map_err(|error| error.to_string())
    }
}
