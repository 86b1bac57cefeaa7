//! Answers as JSON; the keys are stable. Sizes are integers in bytes. Each answer begins with `engine`, `release` (null
//! for an engine that does not run llama.cpp) and `confidence` (null if there is no plan).

pub mod best;
pub mod csv;
mod source;
pub mod together;

use serde::Serialize;

use super::object;
use crate::answer::Remedy;
use crate::answer::change::Change;
use crate::answer::limits::CliffSide;
use crate::answer::limits::Largest;
use crate::answer::limits::LargestQuantisation;
use crate::answer::parts::PartAnswer;
use crate::answer::sweep::{Axis, Matrix};
use crate::answer::sweep::{PlanFigures, Sweep};
use crate::answer::why::{LayerAnswer, MemoryUser};
use crate::gguf::FileType;
use crate::plan::{Plan, Verdict};
use crate::settings::knob::Knob;
use crate::speed::SpeedRange;
use crate::text;

pub use source::AnswerSource;

/// `{…,"knob","value","next","plan"}`: `next` is the first value that fails, null at the end of the range. If nothing
/// fits, `value` and `plan` are null and `next` is `least`, the beginning of the range.
///
/// # Errors
/// None that an answer can cause.
pub fn max_json(
    source: AnswerSource,
    knob: Knob,
    largest: Option<&Largest>,
    least: u64,
    held: Option<&str>,
) -> serde_json::Result<String> {
    let value = largest.map(|largest| JsonValue::Number(largest.value));
    let next = largest.map_or(Some(least), |largest| largest.next).map(JsonValue::Number);
    largest_json(source, knob.name(), [value, next], held, largest.map(|largest| &largest.plan))
}

/// [`max_json`] for the quantisation; values are names such as `Q4_K_M`.
///
/// # Errors
/// None that an answer can cause.
pub fn max_quantisation_json(source: AnswerSource, largest: &LargestQuantisation) -> serde_json::Result<String> {
    let name = |file_type: FileType| JsonValue::Word(file_type.to_string());
    let found = largest.found.as_ref();
    let values = [found.map(|&(to, _)| name(to)), largest.next.map(name)];
    largest_json(source, "quant", values, None, found.map(|(_, plan)| plan))
}

fn largest_json(
    source: AnswerSource,
    knob: &'static str,
    [value, next]: [Option<JsonValue>; 2],
    held: Option<&str>,
    plan: Option<&Plan>,
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a, P: Serialize> {
        #[serde(flatten)]
        source: AnswerSource,
        knob: &'static str,
        value: Option<JsonValue>,
        next: Option<JsonValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<&'a str>,
        plan: Option<P>,
    }
    text::json(&Object { source, knob, value, next, held, plan: plan.map(object) })
}

/// `{…,"layers":[{"index","device","reason","needed","available",…}],"changes":[{"knob","value","brings",…}],"takers":[…]}`.
/// `brings` is `all`, or the layer: `layer 12`. `with` is a second knob that has to change too.
///
/// # Errors
/// None that an answer can cause.
pub fn why_json(
    plan: &Plan,
    layers: &[LayerAnswer],
    changes: &[Remedy],
    takers: &[MemoryUser],
    beside: &[PartAnswer],
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        verdict: Verdict,
        refused: Option<&'a str>,
        layers: &'a [LayerAnswer],
        changes: Vec<Proposal>,
        takers: &'a [MemoryUser],
        beside: &'a [PartAnswer],
    }
    text::json(&Object {
        source: AnswerSource::of(plan),
        verdict: plan.verdict,
        refused: plan.refusal.as_deref(),
        layers,
        changes: changes.iter().map(Proposal::of).collect(),
        takers,
        beside,
    })
}

/// A change and the goal that it meets.
#[derive(Serialize)]
struct Proposal {
    knob: &'static str,
    value: JsonValue,
    brings: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<With>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    says: String,
    options: Option<String>,
    speed: Option<SpeedRange>,
}

/// The second knob of a change of two.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct With {
    flash_attn: &'static str,
}

/// A knob's value.
#[derive(Serialize)]
#[serde(untagged)]
enum JsonValue {
    Number(u64),
    Word(String),
}

impl JsonValue {
    fn of(knob: Knob, value: u64) -> Self {
        if knob.choices().is_some() { Self::Word(knob.show(value)) } else { Self::Number(value) }
    }
}

impl Proposal {
    fn of(remedy: &Remedy) -> Self {
        let Remedy { change, goal, speed, .. } = remedy;
        let mut with = None;
        let mut device = None;
        let value = match *change {
            Change::Context(value) | Change::Parallel(value) | Change::Batch(value) | Change::CpuMoe(value) => {
                JsonValue::Number(value)
            }
            Change::Cache(ty) => JsonValue::Word(ty.to_string()),
            Change::CacheWithFlash(ty) => {
                with = Some(With { flash_attn: "on" });
                JsonValue::Word(ty.to_string())
            }
            Change::Quantisation(to) => JsonValue::Word(to.to_string()),
            Change::ProjectorInRam => JsonValue::Word("none".to_owned()),
            Change::FlashAttn => JsonValue::Word("on".to_owned()),
            Change::GpuLayers(layers) => match layers.word() {
                Ok(count) => JsonValue::Number(count),
                Err(word) => JsonValue::Word(word.to_owned()),
            },
            Change::Free { gpu, bytes } | Change::MoreMemory { gpu, bytes } => {
                device = Some(format!("GPU{gpu}"));
                JsonValue::Number(bytes.0)
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
            speed: *speed,
        }
    }
}

/// `{…,"knob","points":[{"value","verdict","offloaded",…}],"cliffs":[{"last","first","before","after","jumps"}]}`; a
/// point without a plan has `value` and `error` only.
///
/// # Errors
/// None that an answer can cause.
pub fn sweep_json(source: AnswerSource, sweep: &Sweep) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        knob: &'static str,
        points: Vec<PointRecord<'a>>,
        cliffs: Vec<CliffRecord<'a>>,
    }
    #[derive(Serialize)]
    struct PointRecord<'a> {
        value: JsonValue,
        #[serde(flatten)]
        cell: CellRecord<'a>,
    }
    #[derive(Serialize)]
    struct CliffRecord<'a> {
        last: JsonValue,
        first: JsonValue,
        before: CliffSide,
        after: CliffSide,
        jumps: &'a [String],
    }
    let knob = sweep.knob;
    let cliffs = sweep.cliffs.iter().map(|cliff| CliffRecord {
        last: JsonValue::of(knob, cliff.last),
        first: JsonValue::of(knob, cliff.first),
        before: cliff.before,
        after: cliff.after,
        jumps: &cliff.jumps,
    });
    let points = sweep.points.iter();
    let points = points
        .map(|point| PointRecord { value: JsonValue::of(knob, point.value), cell: CellRecord::of(&point.figures) });
    text::json(&Object { source, knob: knob.name(), points: points.collect(), cliffs: cliffs.collect() })
}

/// A plan in short, or the engine's error.
#[derive(Serialize)]
#[serde(untagged)]
enum CellRecord<'a> {
    Planned(&'a PlanFigures),
    Refused { error: &'a str },
}

impl<'a> CellRecord<'a> {
    fn of(figures: &'a Result<PlanFigures, String>) -> Self {
        match figures {
            Ok(figures) => Self::Planned(figures),
            Err(error) => Self::Refused { error },
        }
    }
}

/// `{…,"rows":{"knob","values"},"columns":{"knob","values"},"cells":[[{"verdict","on_gpu",…}]]}`, in row-major order.
///
/// # Errors
/// None that an answer can cause.
pub fn matrix_json(source: AnswerSource, matrix: &Matrix) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        rows: AxisRecord,
        columns: AxisRecord,
        cells: Vec<Vec<CellRecord<'a>>>,
    }
    #[derive(Serialize)]
    struct AxisRecord {
        knob: &'static str,
        values: Vec<JsonValue>,
    }
    let axis_record = |axis: &Axis| AxisRecord {
        knob: axis.name(),
        values: match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| JsonValue::of(*knob, value)).collect(),
            Axis::Quantisation(_) => axis.plain().into_iter().map(JsonValue::Word).collect(),
        },
    };
    let rows = matrix.cells.chunks(matrix.columns.len().max(1));
    text::json(&Object {
        source,
        rows: axis_record(&matrix.rows),
        columns: axis_record(&matrix.columns),
        cells: rows.map(|row| row.iter().map(CellRecord::of).collect()).collect(),
    })
}
