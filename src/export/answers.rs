//! Answers as JSON and as CSV; keys and columns are stable. Sizes are integers in bytes. Each answer in JSON begins with
//! `engine`, `release` (null for an engine that does not run llama.cpp) and `confidence` (null if there is no plan).

mod need;
mod place;

pub use need::{need_csv, need_json};
pub use place::place_json;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{object, record};
use crate::answer::Remedy;
use crate::answer::best::{BestRequest, Card, FirstToken, KnobChange, Loss};
use crate::answer::change::Change;
use crate::answer::limits::{Cliff, CliffSide, Largest, LargestQuantisation};
use crate::answer::parts::PartAnswer;
use crate::answer::place::Placed;
use crate::answer::sweep::{Axis, Matrix, PlanFigures, Point, Sweep};
use crate::answer::together::sets::{ResidentSet, ResidentSets};
use crate::answer::together::{Growth, LoadOutcome, Shelf};
use crate::answer::why::{LayerAnswer, MemoryUser};
use crate::engine::{EngineId, EngineVersion, PlanRequest};
use crate::gguf::FileType;
use crate::machine::{Machine, Ram};
use crate::plan::{Confidence, Outcome, Plan, Verdict};
use crate::settings::knob::Knob;
use crate::settings::{Release, Settings};
use crate::speed::SpeedRange;
use crate::text;
use crate::units::{Bytes, Difference};

/// The engine, its release, and the confidence of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerSource {
    engine: &'static str,
    #[serde(skip)]
    title: &'static str,
    release: Option<Release>,
    confidence: Option<Confidence>,
}

/// `Ollama ≥ 0.30, release 2026-11 · exact`
impl fmt::Display for AnswerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        if let Some(release) = self.release {
            write!(f, ", release {release}")?;
        }
        match self.confidence {
            Some(confidence) => write!(f, " · {confidence}"),
            None => Ok(()),
        }
    }
}

impl AnswerSource {
    /// The source of `plan`.
    pub const fn of(plan: &Plan) -> Self {
        Self {
            engine: plan.engine.name(),
            title: plan.engine.title(),
            release: plan.settings.release,
            confidence: Some(plan.confidence),
        }
    }

    /// The source of answers to `request`; no confidence if it has no plan.
    pub fn of_request(request: &PlanRequest) -> Self {
        Self::of_engine(request.engine, &request.settings, request.plan().ok().map(|plan| plan.confidence))
    }

    /// The source with `engine`, in the release that `settings` choose.
    pub fn of_engine(engine: EngineId, settings: &Settings, confidence: Option<Confidence>) -> Self {
        let release = EngineVersion::of(engine, settings).release;
        Self { engine: engine.name(), title: engine.title(), release, confidence }
    }
}

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

/// `{…,"layers":[{"index","device","reason","needed","available",…}],"changes":[{"knob","value","brings",…}],"placement":{"times","reason","settings"},"takers":[…]}`.
/// `brings` is `all`, or the layer: `layer 12`. `with` is a second knob that has to change too.
///
/// # Errors
/// None that an answer can cause.
pub fn why_json(
    plan: &Plan,
    layers: &[LayerAnswer],
    changes: &[Remedy],
    placed: Option<&Placed>,
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
        changes: Vec<Proposal<'a>>,
        placement: Option<FasterPlacement<'a>>,
        takers: &'a [MemoryUser],
        beside: &'a [PartAnswer],
    }
    text::json(&Object {
        source: AnswerSource::of(plan),
        verdict: plan.verdict,
        refused: plan.refusal.as_deref(),
        layers,
        changes: changes.iter().map(Proposal::of).collect(),
        placement: placed.map(FasterPlacement::of),
        takers,
        beside,
    })
}

record! {
    /// A placement that is faster than the engine's.
    FasterPlacement<'a>(placed: &'a Placed) {
        times: Option<f64> = placed.times(),
        reason: &'a str = &placed.reason,
        settings: BTreeMap<&'static str, String> = placed.options(),
    }
}

record! {
    /// A change and the goal that it meets.
    Proposal<'a>(remedy: &'a Remedy) {
        knob: &'static str = remedy.change.knob(),
        value: JsonValue = JsonValue::after(&remedy.change),
        brings: String = remedy.goal.to_string(),
        /// A second knob that has to change too.
        #[serde(skip_serializing_if = "Option::is_none")]
        with: Option<With> = match remedy.change {
            Change::CacheWithFlash(_) => Some(With { flash_attn: "on" }),
            _ => None,
        },
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<String> = match remedy.change {
            Change::Free { gpu, .. } | Change::MoreMemory { gpu, .. } => Some(format!("GPU{gpu}")),
            _ => None,
        },
        says: String = remedy.says(),
        options: Option<String> = remedy.options(),
        /// What it costs the user.
        #[serde(skip_serializing_if = "Option::is_none")]
        costs: &'a Option<String> = &remedy.cost,
        speed: &'a Option<SpeedRange> = &remedy.speed,
    }
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

    /// The value that a change sets.
    fn after(change: &Change) -> Self {
        let word = |word: &str| Self::Word(word.to_owned());
        match *change {
            Change::Context(value) | Change::Parallel(value) | Change::Batch(value) | Change::CpuMoe(value) => {
                Self::Number(value)
            }
            Change::Cache(ty) | Change::CacheWithFlash(ty) => word(ty.name()),
            Change::Quantisation(to) => word(to.name()),
            Change::ProjectorInRam => word("none"),
            Change::FlashAttn => word("on"),
            Change::GpuLayers(layers) => layers.word().map_or_else(word, Self::Number),
            Change::Free { bytes, .. } | Change::MoreMemory { bytes, .. } => Self::Number(bytes.0),
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
    let knob = sweep.knob;
    let points = sweep.points.iter().map(|point| PointRecord::of(knob, point)).collect();
    let cliffs = sweep.cliffs.iter().map(|cliff| CliffRecord::of(knob, cliff)).collect();
    text::json(&Object { source, knob: knob.name(), points, cliffs })
}

record! {
    PointRecord<'a>(knob: Knob, point: &'a Point) {
        value: JsonValue = JsonValue::of(knob, point.value),
        #[serde(flatten)]
        cell: CellRecord<'a> = CellRecord::of(&point.figures),
    }
}

record! {
    CliffRecord<'a>(knob: Knob, cliff: &'a Cliff) {
        last: JsonValue = JsonValue::of(knob, cliff.last),
        first: JsonValue = JsonValue::of(knob, cliff.first),
        before: CliffSide = cliff.before,
        after: CliffSide = cliff.after,
        jumps: &'a [String] = &cliff.jumps,
    }
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

/// `{…,"held":["ctx"],"margin":N,"cards":[{"names":["safe"],"outcome","ctx","cache_type_k","cache_type_v","quant",
/// "margin","first_token":{"prompt","whole","cached"},"placement","loss","changes":[{"knob","from","to","was_set"}],"gives_up":[{"what","says"}],"options","plan"}]}`; `margin`
/// is what the fullest GPU has left, `loss` what quantised weights and caches lose in nats per token, `options` are the command line options that turn `asked` into the card's settings.
///
/// # Errors
/// None that an answer can cause.
pub fn best_json(plan: &Plan, asked: &Settings, question: &BestRequest, cards: &[Card]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        held: Vec<&'static str>,
        margin: Bytes,
        cards: Vec<CardRecord<'a>>,
    }
    text::json(&Object {
        source: AnswerSource::of(plan),
        held: question.held.iter().map(|knob| knob.name()).collect(),
        margin: question.margin,
        cards: cards.iter().map(|card| CardRecord::of(card, asked)).collect(),
    })
}

record! {
    CardRecord<'a>(card: &'a Card, asked: &Settings) {
        names: Vec<&'static str> = card.objectives.iter().map(|objective| objective.name()).collect(),
        outcome: Outcome = card.plan.outcome(),
        ctx: u64 = card.plan.settings.ctx,
        cache_type_k: &'static str = card.plan.settings.cache_type_k.name(),
        cache_type_v: &'static str = card.plan.settings.cache_type_v.name(),
        quant: Option<&'a str> = card.plan.model.file_type.as_deref(),
        margin: Option<Difference> = card.plan.tightest_gpu().map(|(_, headroom)| headroom.above()),
        first_token: Option<FirstToken> = card.first_token,
        placement: Option<&'a str> = card.placement.as_ref().map(|placement| placement.reason.as_str()),
        loss: f64 = card.loss,
        changes: Vec<ChangeRecord<'a>> = card.changes.iter().map(ChangeRecord::of).collect(),
        gives_up: Vec<LossRecord<'a>> = card.gives_up.iter().map(LossRecord::of).collect(),
        options: String = card.options(asked),
        plan: PlanFigures = PlanFigures::of(&card.plan, card.speeds.as_ref()),
    }
}

record! {
    ChangeRecord<'a>(change: &'a KnobChange) {
        knob: &'static str = change.knob.name(),
        from: &'a str = &change.from,
        to: &'a str = &change.to,
        was_set: bool = change.was_set,
    }
}

record! {
    LossRecord<'a>(loss: &'a Loss) {
        what: &'a str = loss.name(),
        says: String = loss.to_string(),
    }
}

/// `{…,"router","together":true,"models":[{"model","fate":"loaded|shares|evicted|refused","by","why","plan","prompt_cache",
/// "checkpoints"}],"devices":[{"id","name","total","free","drivers","left","left_in_ram"}],"any","sets":[{"models",
/// "contexts","outcome"}]}`: `by` is the index of another model, `prompt_cache` and `checkpoints` what grows in RAM while it
/// is in use, at most; `left` the memory that is free in the end, after `drivers`, what they take for all processes.
/// `left_in_ram` is the part of it that is RAM, of GPUs that share RAM, and counted in RAM's `left` too. `sets` are all that
/// stay loaded together, in the order given, and `any` the largest number of which any are all in VRAM; both are left out
/// for too many models.
///
/// # Errors
/// None that an answer can cause.
pub fn together_json(
    source: AnswerSource,
    names: &[String],
    machine: &Machine,
    shelf: &Shelf,
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        router: Option<String>,
        together: bool,
        models: Vec<LoadRecord<'a>>,
        devices: Vec<DeviceRecord<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        any: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sets: Option<Vec<SetRecord<'a>>>,
    }
    let loaded = &shelf.loaded;
    let drivers = loaded.held_by_drivers();
    let gpus = machine.gpus.iter().enumerate();
    let gpus = gpus.map(|(at, gpu)| {
        let (left, in_ram) = loaded.left_on(at, machine);
        let left_in_ram = (machine.own_memory(gpu) < gpu.total).then_some(in_ram);
        let drivers = drivers.get(at).copied();
        let (id, total, free) = (format!("GPU{at}"), gpu.total, gpu.free);
        DeviceRecord { id, name: &gpu.name, total, free, drivers, left, left_in_ram }
    });
    let Ram { total, free, .. } = machine.ram;
    let (id, left) = ("CPU".to_owned(), loaded.left.ram.free);
    let ram = DeviceRecord { id, name: "RAM", total, free, drivers: None, left, left_in_ram: None };
    let models = names.iter().zip(&loaded.outcomes).zip(&shelf.grows);
    text::json(&Object {
        source,
        router: shelf.router.name(),
        together: loaded.all_loaded(),
        models: models.map(|((name, outcome), grows)| LoadRecord::of(name, outcome, grows)).collect(),
        devices: gpus.chain([ram]).collect(),
        any: shelf.sets.as_ref().map(ResidentSets::any),
        sets: shelf.sets.as_ref().map(|sets| sets.all().iter().map(SetRecord::of).collect()),
    })
}

#[derive(Serialize)]
struct DeviceRecord<'a> {
    id: String,
    name: &'a str,
    total: Bytes,
    free: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    drivers: Option<Bytes>,
    left: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_in_ram: Option<Bytes>,
}

record! {
    SetRecord<'a>(set: &'a ResidentSet) {
        models: &'a [usize] = &set.members,
        contexts: &'a [u64] = &set.contexts,
        outcome: Outcome = set.outcome,
    }
}

record! {
    LoadRecord<'a>(model: &'a str, outcome: &'a LoadOutcome, grows: &'a Growth) {
        model: &'a str = model,
        fate: &'static str = match outcome {
            LoadOutcome::Loaded(_) => "loaded",
            LoadOutcome::Shares(_) => "shares",
            LoadOutcome::Evicted { .. } => "evicted",
            LoadOutcome::Refused(_) => "refused",
        },
        by: Option<usize> = match outcome {
            LoadOutcome::Shares(by) | LoadOutcome::Evicted { by, .. } => Some(*by),
            _ => None,
        },
        why: Option<&'a str> = match outcome {
            LoadOutcome::Evicted { why, .. } | LoadOutcome::Refused(why) => Some(why),
            _ => None,
        },
        plan: Option<PlanFigures> = match outcome {
            LoadOutcome::Loaded(plan) => Some(PlanFigures::of(plan, None)),
            _ => None,
        },
        prompt_cache: Bytes = grows.prompt_cache,
        checkpoints: Bytes = grows.checkpoints,
    }
}

const COLUMNS: &str = "verdict,offloaded,layer_count,on_gpu,weights,cache,graph,gpu,cpu,all";

/// Weights in RAM of layers that count as on GPUs, the speed at the start and with a full cache, and that of a prompt.
const LAST_COLUMNS: &str = "parts_in_ram,tokens_per_second,tokens_per_second_at_full_context,\
     prompt_tokens_per_second";

/// One line per point: the value, `COLUMNS`, weights, cache, graph and free bytes of each device, then `LAST_COLUMNS`.
pub fn sweep_csv(sweep: &Sweep) -> String {
    let devices =
        sweep.points.iter().find_map(|point| point.figures.as_ref().ok()).map_or(&[][..], |first| &first.devices);
    let mut csv = format!("{},{COLUMNS}", sweep.knob.name());
    for device in devices {
        for part in ["weights", "cache", "graph", "free"] {
            csv.push_str(&format!(",{}_{part}", device.id));
        }
    }
    csv.push_str(&format!(",{LAST_COLUMNS}\n"));
    for point in &sweep.points {
        csv.push_str(&sweep.knob.plain(point.value));
        csv.push(',');
        csv.push_str(&fields(&point.figures));
        for device in 0..devices.len() {
            let sums = point.figures.as_ref().ok().and_then(|figures| figures.devices.get(device));
            csv.push_str(&match sums {
                Some(sums) => format!(",{},{},{},{}", sums.weights.0, sums.cache.0, sums.graph.0, sums.free.0),
                None => ",,,,".to_owned(),
            });
        }
        csv.push_str(&format!(",{}\n", last_fields(&point.figures)));
    }
    csv
}

/// One line per cell: both values, `COLUMNS` and `LAST_COLUMNS`.
pub fn matrix_csv(matrix: &Matrix) -> String {
    let (rows, columns) = (matrix.rows.plain(), matrix.columns.plain());
    let mut csv = format!("{},{},{COLUMNS},{LAST_COLUMNS}\n", matrix.rows.name(), matrix.columns.name());
    let pairs = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
    for ((row, column), cell) in pairs.zip(&matrix.cells) {
        csv.push_str(&format!("{row},{column},{},{}\n", fields(cell), last_fields(cell)));
    }
    csv
}

/// The fields of `LAST_COLUMNS`, empty without a plan or a speed.
fn last_fields(figures: &Result<PlanFigures, String>) -> String {
    let Ok(figures) = figures else { return ",,,".to_owned() };
    let speed =
        |range: Option<SpeedRange>| range.map_or_else(String::new, |range| format!("{:.2}", range.tokens_per_second));
    let [start, full, prompt] = [figures.speed, figures.speed_at_full_context, figures.prompt_speed].map(speed);
    format!("{},{start},{full},{prompt}", figures.parts_in_ram.0)
}

/// The fields of `COLUMNS`; if there is no plan, the verdict is `refused` and the rest is empty.
fn fields(figures: &Result<PlanFigures, String>) -> String {
    let Ok(figures) = figures else { return format!("refused{}", ",".repeat(COLUMNS.matches(',').count())) };
    let totals = figures.totals;
    format!(
        "{},{},{},{:.4},{},{},{},{},{},{}",
        figures.verdict,
        figures.offloaded,
        figures.layer_count,
        figures.on_gpu.0,
        totals.weights.0,
        totals.cache.0,
        totals.graph.0,
        totals.gpu.0,
        totals.cpu.0,
        totals.all.0,
    )
}
