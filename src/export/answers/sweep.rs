//! Plans over the values of one knob or two, as JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use super::JsonValue;
use crate::answer::sweep::{Axis, DeviceSums, Matrix, PlanFigures, Point, Sweep};
use crate::answer::thresholds::{Threshold, ThresholdSide};
use crate::export::{ModelSource, PlanSource, csv, record};
use crate::plan::{Outcome, Plan, Totals, Verdict};
use crate::settings::knob::Knob;
use crate::speed::SpeedRange;
use crate::speed::turn::TurnTime;
use crate::text;
use crate::units::{Bytes, Ratio};

/// Plans along a knob.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SweepAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The knob.
    knob: &'static str,
    /// A plan in short for each value.
    points: Vec<PointRecord<'a>>,
    /// Where plans change between two values.
    #[serde(rename = "cliffs")]
    thresholds: Vec<ThresholdRecord<'a>>,
}

/// `SweepAnswer` about the model of `plan`, which was read from `source`.
///
/// # Errors
/// None that an answer can cause.
pub fn sweep_json((plan, source): (&Plan, &ModelSource), sweep: &Sweep) -> serde_json::Result<String> {
    let knob = sweep.knob;
    text::json(&SweepAnswer {
        head: PlanSource::of(plan, source),
        knob: knob.name(),
        points: sweep.points.iter().map(|point| PointRecord::of(knob, point)).collect(),
        thresholds: sweep.thresholds.iter().map(|threshold| ThresholdRecord::of(knob, threshold)).collect(),
    })
}

record! {
    /// A value, and the plan at it in short.
    PointRecord<'a>(knob: Knob, point: &'a Point) {
        value: JsonValue = JsonValue::of(knob, point.value),
        #[serde(flatten)]
        cell: CellRecord<'a> = CellRecord::of(&point.figures),
    }
}

record! {
    /// A change between two values.
    ThresholdRecord<'a>(knob: Knob, threshold: &'a Threshold) {
        /// The last value before the change.
        last: JsonValue = JsonValue::of(knob, threshold.last),
        /// The first value after it.
        first: JsonValue = JsonValue::of(knob, threshold.first),
        before: ThresholdSide = threshold.before,
        after: ThresholdSide = threshold.after,
        /// Other knobs that the engine changed.
        jumps: &'a [String] = &threshold.jumps,
    }
}

record! {
    /// A plan in short; if the engine refuses, `error` says why, and there are no figures.
    CellRecord<'a>(cell: &'a Result<PlanFigures, String>) {
        verdict: Option<Verdict> = cell.as_ref().ok().map(|figures| figures.verdict),
        /// Layers on GPUs.
        offloaded: Option<usize> = cell.as_ref().ok().map(|figures| figures.offloaded),
        /// All layers, the output layer counted.
        layer_count: Option<usize> = cell.as_ref().ok().map(|figures| figures.layer_count),
        /// Share of the memory that is on GPUs.
        on_gpu: Option<Ratio> = cell.as_ref().ok().map(|figures| figures.on_gpu),
        outcome: Option<Outcome> = cell.as_ref().ok().map(|figures| figures.outcome),
        /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
        parts_in_ram: Option<Bytes> = cell.as_ref().ok().map(|figures| figures.parts_in_ram),
        totals: Option<Totals> = cell.as_ref().ok().map(|figures| figures.totals),
        /// How fast it generates with an empty cache; null where that cannot be known.
        speed: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.speed),
        /// How fast it generates with a full cache; likewise.
        speed_at_full_context: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.speed_at_full_context),
        /// How fast it reads a long prompt; likewise.
        prompt_speed: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.prompt_speed),
        /// How long the turn takes that was asked for; null if none was.
        turn: Option<&'a TurnTime> = cell.as_ref().ok().and_then(|figures| figures.turn.as_ref()),
        /// GPUs in order, the CPU last.
        devices: &'a [DeviceSums] = cell.as_ref().ok().map_or(&[], |figures| &figures.devices),
        error: Option<&'a str> = cell.as_ref().err().map(String::as_str),
    }
}

/// Plans for every pair of values.
#[derive(JsonSchema, Serialize)]
pub(crate) struct MatrixAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    rows: AxisRecord,
    columns: AxisRecord,
    /// A list for each row, with a plan in short for each column.
    cells: Vec<Vec<CellRecord<'a>>>,
}

/// A knob and its values.
#[derive(JsonSchema, Serialize)]
pub(crate) struct AxisRecord {
    /// The knob, or `quant`.
    knob: &'static str,
    values: Vec<JsonValue>,
}

impl AxisRecord {
    fn of(axis: &Axis) -> Self {
        let values = match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| JsonValue::of(*knob, value)).collect(),
            Axis::Quantisation(_) => axis.plain().into_iter().map(JsonValue::Word).collect(),
        };
        Self { knob: axis.name(), values }
    }
}

/// `MatrixAnswer` about the model of `plan`, which was read from `source`.
///
/// # Errors
/// None that an answer can cause.
pub fn matrix_json((plan, source): (&Plan, &ModelSource), matrix: &Matrix) -> serde_json::Result<String> {
    let rows = matrix.cells.chunks(matrix.columns.len().max(1));
    text::json(&MatrixAnswer {
        head: PlanSource::of(plan, source),
        rows: AxisRecord::of(&matrix.rows),
        columns: AxisRecord::of(&matrix.columns),
        cells: rows.map(|row| row.iter().map(CellRecord::of).collect()).collect(),
    })
}

/// The first columns; if there is no plan, the verdict is `refused` and the rest is empty.
const COLUMNS: [&str; 10] =
    ["verdict", "offloaded", "layer_count", "on_gpu", "weights", "cache", "graph", "gpu", "cpu", "all"];

/// Weights in RAM of layers that count as on GPUs, the speed at the start and with a full cache, and that of a prompt.
const LAST_COLUMNS: [&str; 4] =
    ["parts_in_ram", "tokens_per_second", "tokens_per_second_at_full_context", "prompt_tokens_per_second"];

/// A line for each point: the value, `COLUMNS`, weights, cache, graph and free bytes of each device, then
/// `LAST_COLUMNS`.
pub fn sweep_csv(sweep: &Sweep) -> String {
    let devices =
        sweep.points.iter().find_map(|point| point.figures.as_ref().ok()).map_or(&[][..], |first| &first.devices);
    let of_devices = devices
        .iter()
        .flat_map(|device| ["weights", "cache", "graph", "free"].map(|what| format!("{}_{what}", device.id)));
    let columns = [sweep.knob.name()].into_iter().chain(COLUMNS).map(str::to_owned);
    let columns = columns.chain(of_devices).chain(LAST_COLUMNS.map(str::to_owned));
    let rows = sweep.points.iter().map(|point| {
        let figures = point.figures.as_ref().ok();
        let sums = (0..devices.len()).flat_map(|device| {
            let sums = figures.and_then(|figures| figures.devices.get(device));
            let sums =
                sums.map(|sums| [sums.weights, sums.cache, sums.graph, sums.free].map(|bytes| bytes.0.to_string()));
            sums.unwrap_or_default()
        });
        let value = sweep.knob.plain(point.value);
        [value].into_iter().chain(first_cells(figures)).chain(sums).chain(last_cells(figures)).collect::<Vec<_>>()
    });
    csv::table(columns, rows)
}

/// A line for each cell: both values, `COLUMNS` and `LAST_COLUMNS`.
pub fn matrix_csv(matrix: &Matrix) -> String {
    let (rows, columns) = (matrix.rows.plain(), matrix.columns.plain());
    let pairs = rows.iter().flat_map(|row| columns.iter().map(move |column| [row.clone(), column.clone()]));
    let names = [matrix.rows.name(), matrix.columns.name()].into_iter().chain(COLUMNS).chain(LAST_COLUMNS);
    let lines = pairs.zip(&matrix.cells).map(|(pair, cell)| {
        let figures = cell.as_ref().ok();
        pair.into_iter().chain(first_cells(figures)).chain(last_cells(figures)).collect::<Vec<_>>()
    });
    csv::table(names, lines)
}

fn first_cells(figures: Option<&PlanFigures>) -> [String; COLUMNS.len()] {
    let Some(figures) = figures else {
        let mut cells = [const { String::new() }; COLUMNS.len()];
        "refused".clone_into(&mut cells[0]);
        return cells;
    };
    let Totals { weights, cache, graph, gpu, cpu, all } = figures.totals;
    let bytes = |bytes: Bytes| bytes.0.to_string();
    [
        figures.verdict.to_string(),
        figures.offloaded.to_string(),
        figures.layer_count.to_string(),
        format!("{:.4}", figures.on_gpu.0),
        bytes(weights),
        bytes(cache),
        bytes(graph),
        bytes(gpu),
        bytes(cpu),
        bytes(all),
    ]
}

fn last_cells(figures: Option<&PlanFigures>) -> [String; LAST_COLUMNS.len()] {
    let Some(figures) = figures else { return Default::default() };
    let speed = |range: Option<SpeedRange>| csv::cell(range.map(|range| format!("{:.2}", range.tokens_per_second)));
    let PlanFigures { parts_in_ram, speed: start, speed_at_full_context: full, prompt_speed: prompt, .. } = figures;
    [parts_in_ram.0.to_string(), speed(*start), speed(*full), speed(*prompt)]
}
