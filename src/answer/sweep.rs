//! Memory along one knob's whole range, as data.

use serde::Serialize;

use super::cliffs::Cliff;
use crate::engine::FitGoal;
use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::plan::{FitStatus, Plan, PlanSummary, Totals, Verdict};
use crate::settings::knob::Knob;
use crate::units::{Bytes, Ratio};

/// Plans along a knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The knob.
    pub knob: Knob,
    /// One point per value, ascending.
    pub points: Vec<Point>,
    /// Where things change in between.
    pub cliffs: Vec<Cliff>,
}

/// What one plan comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The knob's value.
    pub value: u64,
    /// What the engine made of it; the sentence it refused with where it made no plan.
    pub outcome: Result<Outcome, String>,
}

/// A plan in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Layers on GPUs.
    pub offloaded: usize,
    /// Layers in all, the output layer counted.
    pub layer_count: usize,
    /// The share of what is asked for that is on GPUs.
    pub on_gpu: Ratio,
    /// Weights of layers that count as on GPUs and run from RAM, where no layer is there as a whole.
    pub parts_in_ram: Bytes,
    /// Sums over devices.
    pub totals: Totals,
    /// GPUs in order, the CPU last.
    pub devices: Vec<DeviceSums>,
}

/// What one device is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceSums {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// GPU or CPU.
    pub kind: DeviceKind,
    /// What was free before the model.
    pub free: Bytes,
    /// Weights of its layers.
    pub weights: Bytes,
    /// Caches of its layers.
    pub cache: Bytes,
    /// The compute graph.
    pub graph: Bytes,
    /// What the engine keeps back here.
    pub reserved: Bytes,
    /// Number of its layers.
    pub layers: usize,
}

impl Outcome {
    /// In short.
    pub fn of(plan: &Plan) -> Self {
        Self::of_gist(&PlanSummary::of(plan))
    }

    /// As [`Plan::on_gpus`].
    pub fn on_gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu).map(|device| device.layers).sum()
    }

    /// How it stands, as people should read it.
    pub fn fit_status(&self) -> FitStatus {
        FitStatus::of(self.verdict, self.parts_in_ram)
    }

    fn of_gist(summary: &PlanSummary) -> Self {
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
            parts_in_ram: summary.parts_in_ram(),
            totals,
            devices: summary.devices.iter().map(device).collect(),
        }
    }
}

impl PlanRequest {
    /// Plans at each of `values`, and where things change along the whole range.
    pub fn sweep(&self, knob: Knob, values: &[u64]) -> Sweep {
        let points = values.iter().map(|&value| self.point(knob, value)).collect();
        Sweep { knob, points, cliffs: self.cliffs(knob) }
    }

    /// What the engine makes of `knob` at `value`.
    pub fn point(&self, knob: Knob, value: u64) -> Point {
        Point { value, outcome: self.outcome(&[(knob, value)]) }
    }

    /// What the engine makes of these knobs set to these values.
    pub(super) fn outcome(&self, knobs: &[(Knob, u64)]) -> Result<Outcome, String> {
        let request = self.changed(|settings| knobs.iter().for_each(|&(knob, value)| knob.set(settings, value)));
        request.summary(FitGoal::Most).map(|summary| Outcome::of_gist(&summary)).map_err(|error| error.to_string())
    }
}
