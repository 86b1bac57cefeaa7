//! Answers as JSON and CSV, whose keys and columns scripts depend on. Sizes are integers in bytes.
#![allow(clippy::format_push_string, reason = "a table is written once; what reads best wins")]

use serde::Serialize;

use super::Goal;
use super::change::Change;
use super::cliffs::Side;
use super::largest::Largest;
use super::matrix::{Axis, Matrix};
use super::quant::LargestQuantisation;
use super::sweep::{Outcome, Sweep};
use super::why::{LayerAnswer, Taker};
use crate::export;
use crate::gguf::FileType;
use crate::plan::{Confidence, Plan, Verdict};
use crate::settings::knob::Knob;

/// `{"knob","value","next","plan"}`: `next` is the first step that fails, null at the end of the range. Where nothing
/// fits, `value` and `plan` are null and `next` is `least`, where the range begins.
///
/// # Errors
/// None that an answer can cause.
pub fn max_json(knob: Knob, largest: Option<&Largest>, least: u64) -> serde_json::Result<String> {
    let value = largest.map(|largest| Value::Number(largest.value));
    let next = largest.map_or(Some(least), |largest| largest.next).map(Value::Number);
    most_json(knob.name(), value, next, largest.map(|largest| &largest.plan))
}

/// The same for the quantisation, whose values are names such as `Q4_K_M`.
///
/// # Errors
/// None that an answer can cause.
pub fn max_quantisation_json(largest: &LargestQuantisation) -> serde_json::Result<String> {
    let name = |file_type: FileType| Value::Word(file_type.to_string());
    let found = largest.found.as_ref();
    most_json("quant", found.map(|&(to, _)| name(to)), largest.next.map(name), found.map(|(_, plan)| plan))
}

fn most_json(
    knob: &'static str,
    value: Option<Value>,
    next: Option<Value>,
    plan: Option<&Plan>,
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<P: Serialize> {
        knob: &'static str,
        value: Option<Value>,
        next: Option<Value>,
        plan: Option<P>,
    }
    serde_json::to_string_pretty(&Object { knob, value, next, plan: plan.map(export::object) })
}

/// `{"layers":[{"index","device","reason","needed","available",…}],"changes":[{"knob","value","brings",…}],"takers":[…]}`.
/// `brings` is `all`, or the layer: `layer 12`. `with` holds a second knob that has to be turned too.
///
/// # Errors
/// None that an answer can cause.
pub fn why_json(
    plan: &Plan,
    layers: &[LayerAnswer],
    changes: &[(Change, Goal)],
    takers: &[Taker],
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        engine: &'static str,
        confidence: Confidence,
        verdict: Verdict,
        refused: Option<&'a str>,
        layers: &'a [LayerAnswer],
        changes: Vec<Proposal>,
        takers: &'a [Taker],
    }
    serde_json::to_string_pretty(&Object {
        engine: plan.engine.name(),
        confidence: plan.confidence,
        verdict: plan.verdict,
        refused: plan.refusal.as_deref(),
        layers,
        changes: changes.iter().map(|(change, goal)| Proposal::of(change, *goal)).collect(),
        takers,
    })
}

/// A change and what it achieves.
#[derive(Serialize)]
struct Proposal {
    knob: &'static str,
    value: Value,
    brings: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<With>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    says: String,
    options: Option<String>,
}

/// The second knob of a change that needs two.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct With {
    flash_attn: &'static str,
}

/// A knob's value: a number, or a word.
#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Word(String),
}

impl Value {
    fn of(knob: Knob, value: u64) -> Self {
        if knob.choices().is_some() { Self::Word(knob.show(value)) } else { Self::Number(value) }
    }
}

impl Proposal {
    fn of(change: &Change, goal: Goal) -> Self {
        let mut with = None;
        let mut device = None;
        let value = match *change {
            Change::Context(value) | Change::Parallel(value) | Change::Batch(value) => Value::Number(value),
            Change::Cache(ty) => Value::Word(ty.to_string()),
            Change::CacheWithFlash(ty) => {
                with = Some(With { flash_attn: "on" });
                Value::Word(ty.to_string())
            }
            Change::Quantisation(to) => Value::Word(to.to_string()),
            Change::FlashAttn => Value::Word("on".to_owned()),
            Change::GpuLayers(layers) => match layers.word() {
                Ok(count) => Value::Number(count),
                Err(word) => Value::Word(word.to_owned()),
            },
            Change::Free { gpu, bytes } | Change::MoreMemory { gpu, bytes } => {
                device = Some(format!("GPU{gpu}"));
                Value::Number(bytes.0)
            }
        };
        Self {
            knob: change.knob(),
            value,
            brings: goal.to_string(),
            with,
            device,
            says: change.to_string(),
            options: change.options(),
        }
    }
}

/// `{"knob","points":[{"value","verdict","offloaded",…}],"cliffs":[{"last","first","before","after","jumps"}]}`; a point
/// that the engine refuses has `error` alone.
///
/// # Errors
/// None that an answer can cause.
pub fn sweep_json(sweep: &Sweep) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        knob: &'static str,
        points: Vec<Point<'a>>,
        cliffs: Vec<Edge<'a>>,
    }
    #[derive(Serialize)]
    struct Point<'a> {
        value: Value,
        #[serde(flatten)]
        cell: Cell<'a>,
    }
    #[derive(Serialize)]
    struct Edge<'a> {
        last: Value,
        first: Value,
        before: Side,
        after: Side,
        jumps: &'a [String],
    }
    let knob = sweep.knob;
    let cliffs = sweep.cliffs.iter().map(|cliff| Edge {
        last: Value::of(knob, cliff.last),
        first: Value::of(knob, cliff.first),
        before: cliff.before,
        after: cliff.after,
        jumps: &cliff.jumps,
    });
    let points = sweep.points.iter();
    let points = points.map(|point| Point { value: Value::of(knob, point.value), cell: Cell::of(&point.outcome) });
    serde_json::to_string_pretty(&Object { knob: knob.name(), points: points.collect(), cliffs: cliffs.collect() })
}

/// A plan in short, or why there is none.
#[derive(Serialize)]
#[serde(untagged)]
enum Cell<'a> {
    Planned(&'a Outcome),
    Refused { error: &'a str },
}

impl<'a> Cell<'a> {
    fn of(outcome: &'a Result<Outcome, String>) -> Self {
        match outcome {
            Ok(outcome) => Self::Planned(outcome),
            Err(error) => Self::Refused { error },
        }
    }
}

/// `{"rows":{"knob","values"},"columns":{"knob","values"},"cells":[[{"verdict","on_gpu",…}]]}`, row after row.
///
/// # Errors
/// None that an answer can cause.
pub fn matrix_json(matrix: &Matrix) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        rows: Names,
        columns: Names,
        cells: Vec<Vec<Cell<'a>>>,
    }
    #[derive(Serialize)]
    struct Names {
        knob: &'static str,
        values: Vec<Value>,
    }
    let names = |axis: &Axis| Names {
        knob: axis.name(),
        values: match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| Value::of(*knob, value)).collect(),
            Axis::Quantisation(_) => axis.plain().into_iter().map(Value::Word).collect(),
        },
    };
    let rows = matrix.cells.chunks(matrix.columns.len().max(1));
    serde_json::to_string_pretty(&Object {
        rows: names(&matrix.rows),
        columns: names(&matrix.columns),
        cells: rows.map(|row| row.iter().map(Cell::of).collect()).collect(),
    })
}

const COLUMNS: &str = "verdict,offloaded,layer_count,on_gpu,weights,cache,graph,gpu,cpu,all";

/// One line per point: the value, the plan in short, then weights, cache, graph and free bytes of each device.
pub fn sweep_csv(sweep: &Sweep) -> String {
    let devices =
        sweep.points.iter().find_map(|point| point.outcome.as_ref().ok()).map_or(&[][..], |first| &first.devices);
    let mut csv = format!("{},{COLUMNS}", sweep.knob.name());
    for device in devices {
        for part in ["weights", "cache", "graph", "free"] {
            csv.push_str(&format!(",{}_{part}", device.id));
        }
    }
    csv.push('\n');
    for point in &sweep.points {
        csv.push_str(&sweep.knob.plain(point.value));
        csv.push(',');
        csv.push_str(&fields(&point.outcome));
        for device in 0..devices.len() {
            let sums = point.outcome.as_ref().ok().and_then(|outcome| outcome.devices.get(device));
            csv.push_str(&match sums {
                Some(sums) => format!(",{},{},{},{}", sums.weights.0, sums.cache.0, sums.graph.0, sums.free.0),
                None => ",,,,".to_owned(),
            });
        }
        csv.push('\n');
    }
    csv
}

/// One line per cell: both values, then the plan in short.
pub fn matrix_csv(matrix: &Matrix) -> String {
    let (rows, columns) = (matrix.rows.plain(), matrix.columns.plain());
    let mut csv = format!("{},{},{COLUMNS}\n", matrix.rows.name(), matrix.columns.name());
    let pairs = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
    for ((row, column), cell) in pairs.zip(&matrix.cells) {
        csv.push_str(&format!("{row},{column},{}\n", fields(cell)));
    }
    csv
}

/// What [`COLUMNS`] names; where the engine makes no plan, the verdict is `refused` and the rest is empty.
fn fields(outcome: &Result<Outcome, String>) -> String {
    let Ok(outcome) = outcome else { return format!("refused{}", ",".repeat(COLUMNS.matches(',').count())) };
    let totals = outcome.totals;
    format!(
        "{},{},{},{:.4},{},{},{},{},{},{}",
        outcome.verdict,
        outcome.offloaded,
        outcome.layer_count,
        outcome.on_gpu.0,
        totals.weights.0,
        totals.cache.0,
        totals.graph.0,
        totals.gpu.0,
        totals.cpu.0,
        totals.all.0,
    )
}
