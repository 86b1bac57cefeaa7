//! Memory along one knob's range, and what fits over two.

use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::largest::COMMON_QUANTISATIONS;
use super::thresholds::Threshold;
use crate::engine::{EngineError, PlanRequest, PreparedModel};
use crate::gguf::FileType;
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, Headroom, Outcome, Plan, Totals, Verdict};
use crate::settings::knob::Knob;
use crate::speed::turn::TurnTime;
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
    pub thresholds: Vec<Threshold>,
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
    /// How fast it reads a long prompt.
    pub prompt_speed: Option<SpeedRange>,
    /// How long the turn takes that was asked for.
    pub turn: Option<TurnTime>,
    /// GPUs in order, the CPU last.
    pub devices: Vec<DeviceSums>,
}

/// The memory of one device.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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
    /// In a table of tokens per second with the context full: `34`. Where that is not known, or it does not fit: the outcome, or
    /// the share on GPUs.
    pub fn cell(&self) -> String {
        // never rounded to 0 or 100
        let share = || format!("{:.0} %", (self.on_gpu.0 * 100.0).clamp(1.0, 99.0));
        match (self.outcome, &self.speed_at_full_context) {
            (Outcome::DoesNotFit, _) => self.outcome.short().to_owned(),
            (_, Some(speed)) => speed.short(),
            (Outcome::PartsInRam | Outcome::ExpertsInRam | Outcome::LayersInRam, None) => share(),
            (other, None) => other.short().to_owned(),
        }
    }

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
            turn: speeds.and_then(|speeds| speeds.turn.as_ref()?.as_ref().ok().cloned()),
            prompt_speed: speeds.and_then(|speeds| Some(speeds.prompt.as_ref().ok()?.range())),
            devices: plan.devices.iter().zip(plan.headrooms()).enumerate().map(device).collect(),
        }
    }

    /// Plans `request` and summarises the plan.
    ///
    /// # Errors
    /// The engine's.
    pub fn of_request(request: &PlanRequest) -> Result<Self, EngineError> {
        let plan = request.trial()?;
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        Ok(Self::of(&plan, speeds.as_ref()))
    }

    /// As [`Plan::on_gpus`].
    pub fn on_gpus(&self) -> usize {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu).map(|device| device.layers).sum()
    }
}

impl PlanRequest {
    /// `sweep` with a point on either side of each of its thresholds, so that lines through the points have steps there.
    pub fn with_edges(&self, mut sweep: Sweep) -> Sweep {
        let edges = sweep.thresholds.iter().flat_map(|threshold| [threshold.last, threshold.first]);
        let inside = |value: &u64| sweep.points.first().is_some_and(|first| first.value < *value);
        let before_last = |value: &u64| sweep.points.last().is_some_and(|last| *value < last.value);
        let known = |value: &u64| sweep.points.iter().any(|point| point.value == *value);
        let mut missing: Vec<u64> = edges.filter(inside).filter(before_last).filter(|value| !known(value)).collect();
        missing.dedup();
        sweep.points.extend(missing.into_iter().map(|value| self.point(sweep.knob, value)));
        sweep.points.sort_by_key(|point| point.value);
        sweep
    }

    /// Plans at each of `values`, and the thresholds along the whole range.
    pub fn sweep(&self, knob: Knob, values: &[u64]) -> Sweep {
        let points = values.iter().map(|&value| self.point(knob, value)).collect();
        Sweep { knob, points, thresholds: self.thresholds(knob) }
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

/// What changes along one axis of a matrix, in the order of its rows or columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Values of a knob.
    Knob(Knob, Vec<u64>),
    /// Quantisations of the model.
    Quantisation(Vec<FileType>),
}

/// What an axis varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisKind {
    /// A knob.
    Knob(Knob),
    /// The model's quantisation.
    Quantisation,
}

impl AxisKind {
    /// Its name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Knob(knob) => knob.name(),
            Self::Quantisation => "quant",
        }
    }
}

/// Plans over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// What changes from row to row.
    pub rows: Axis,
    /// What changes from column to column.
    pub columns: Axis,
    /// Cells in row-major order; the engine's error where there is no plan.
    pub cells: Vec<Result<PlanFigures, String>>,
}

impl Matrix {
    /// The cell in this row and column.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Result<PlanFigures, String>> {
        if column >= self.columns.len() {
            return None;
        }
        self.cells.get(row * self.columns.len() + column)
    }
}

impl Axis {
    /// Its name on the command line and in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Knob(knob, _) => knob.name(),
            Self::Quantisation(_) => "quant",
        }
    }

    /// Its name on the screen.
    pub const fn title(&self) -> &'static str {
        match self {
            Self::Knob(knob, _) => knob.title(),
            Self::Quantisation(_) => "quantisation",
        }
    }

    /// Number of rows or columns.
    pub const fn len(&self) -> usize {
        match self {
            Self::Knob(_, values) => values.len(),
            Self::Quantisation(to) => to.len(),
        }
    }

    /// Whether it has no rows or columns.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Labels for the screen.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.show(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// Labels for the command line and files.
    pub fn plain(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.plain(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// The `count` most common quantisations that this model can be converted to, the largest first.
    pub fn quantisations(request: &PlanRequest, count: usize) -> Self {
        let sizes = request.model.quantisations();
        let size = |to: FileType| sizes.iter().position(|&(other, _)| other == to);
        let mut chosen: Vec<FileType> =
            COMMON_QUANTISATIONS.into_iter().filter(|&to| size(to).is_some()).take(count.max(1)).collect();
        chosen.sort_by_key(|&to| std::cmp::Reverse(size(to)));
        Self::Quantisation(chosen)
    }

    /// `knob` with up to `count` of its stops, chosen by [`Knob::spread`].
    pub fn spread(knob: Knob, request: &PlanRequest, count: usize) -> Self {
        Self::Knob(knob, knob.spread(&request.bounds(), count))
    }
}

impl PlanRequest {
    /// A plan for every pair of values.
    pub fn matrix(&self, rows: Axis, columns: Axis) -> Matrix {
        let pairs: Vec<_> = self.pairs(&rows, &columns).collect();
        // no batching: some cells take far longer than others
        let cells = pairs.par_iter().with_max_len(1);
        let cells = cells.map(|pair| self.outcome_of(pair.as_ref().map_err(Clone::clone)?)).collect();
        Matrix { rows, columns, cells }
    }

    /// Every pair of values in row-major order; an error if the model cannot be converted to a quantisation.
    pub fn pairs(&self, rows: &Axis, columns: &Axis) -> impl Iterator<Item = Result<CellSettings, String>> + use<> {
        let (down, across) = (self.axis_values(rows), self.axis_values(columns));
        down.into_iter().flat_map(move |row| {
            let pair = move |column| CellSettings::default().with(&row)?.with(&column);
            across.clone().into_iter().map(pair)
        })
    }

    /// The figures of one cell.
    fn outcome_of(&self, pair: &CellSettings) -> Result<PlanFigures, String> {
        let model = pair.model.as_ref().map_or(&self.model, |(_, model)| model);
        self.with_model(Arc::clone(model)).figures(&pair.knobs)
    }

    /// The values of an axis. Each quantisation is converted once, not for each cell.
    fn axis_values(&self, axis: &Axis) -> Vec<AxisValue> {
        match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| AxisValue::Knob(*knob, value)).collect(),
            Axis::Quantisation(to) => {
                let converted = |to: FileType| match self.model.requantised(to) {
                    Ok(model) => Ok((to, model.into())),
                    Err(error) => Err(error.to_string()),
                };
                to.iter().map(|&to| AxisValue::Model(converted(to))).collect()
            }
        }
    }
}

/// The value of one row or column.
#[derive(Clone)]
enum AxisValue {
    Knob(Knob, u64),
    Model(Result<(FileType, Arc<PreparedModel>), String>),
}

/// The changes of one cell.
#[derive(Clone, Debug, Default)]
pub struct CellSettings {
    knobs: Vec<(Knob, u64)>,
    model: Option<(FileType, Arc<PreparedModel>)>,
}

impl CellSettings {
    fn with(mut self, step: &AxisValue) -> Result<Self, String> {
        match step {
            AxisValue::Knob(knob, value) => self.knobs.push((*knob, *value)),
            AxisValue::Model(model) => self.model = Some(model.clone()?),
        }
        Ok(self)
    }

    /// `request` with these changes.
    pub fn of(&self, request: &PlanRequest) -> PlanRequest {
        let mut then = match &self.model {
            Some((to, model)) => request.quantised_as(*to, Arc::clone(model)),
            None => request.clone(),
        };
        for &(knob, value) in &self.knobs {
            knob.set(&mut then.settings, value);
        }
        then
    }
}
