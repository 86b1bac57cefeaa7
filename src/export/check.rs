//! A load beside its plan, as JSON and as Markdown. Sizes are in MiB, as logs print them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Head, ModelSource, PlanSource, csv, record};
use crate::answer::check::running::{PsAnswer, PsCandidate};
use crate::answer::check::{Check, CheckedTerm, Compared, Part, Reason, SplitCheck};
use crate::observed::{Buffers, Load, Mib, Observation, ObservedSettings, Program, TableRow};
use crate::page::markdown::Escaped;
use crate::plan::{Confidence, Plan};
use crate::settings::{Release, seen};
use crate::text;
use crate::units::Bytes;

/// The loads in a log, one of them beside its plan.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CheckAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    loads: Vec<LoadRecord<'a>>,
    /// The index of the load that is compared.
    chosen: usize,
}

/// `CheckAnswer`. Without a `check`, nothing is compared.
///
/// # Errors
/// None that a check can cause.
pub fn json(seen: &Observation, chosen: usize, check: Option<&Check>) -> serde_json::Result<String> {
    let compared = |at: usize| check.filter(|_| at == chosen);
    let loads = seen.loads.iter().enumerate().map(|(at, load)| LoadRecord::of(load, compared(at)));
    text::json(&CheckAnswer { head: Head::THIS, loads: loads.collect(), chosen })
}

record! {
    /// A load of a model as its program reported it, in MiB, and its plan if it is the one that is compared.
    LoadRecord<'a>(load: &'a Load, check: Option<&'a Check>) {
        /// Number of its first line in the log, from 1.
        line: u64 = load.line,
        program: Option<&'static str> = load.program.map(Program::name),
        /// The program's version, or else its build.
        version: Option<String> = version(load),
        /// The engine that planned; null of a load that is not compared.
        engine: Option<&'static str> = check.map(|check| check.request.engine.name()),
        /// The release of llama.cpp that was planned; null likewise, and for an engine that does not run it.
        release: Option<Release> = check.and_then(|check| check.release.as_ref()).map(|choice| choice.release),
        /// That llama.cpp would refuse the file that was planned, and why; null where nothing is known of that.
        refused: Option<String> = check.and_then(|check| check.request.model.refused()),
        /// How sure the planned figures are; null likewise.
        confidence: Option<Confidence> = check.and_then(|check| check.request.plan().ok()).map(|plan| plan.confidence),
        /// Its command line, as far as it may be seen: numbers, types, names of files and repositories.
        command: Option<&'a str> = load.command.as_ref().map(|command| command.text.as_str()),
        /// The model's name.
        model: Option<String> = check.map(|check| check.request.model.name.clone()).or_else(|| name(load)),
        /// The settings that the log tells.
        settings: ObservedSettings = load.settings.shown(),
        /// Memory by device and term.
        observed: &'a Buffers = &load.observed,
        /// Rows of the breakdown table, the last of each device.
        table: &'a BTreeMap<String, TableRow> = &load.table,
        /// Layers on GPUs; null where the log does not tell them.
        layers: Option<LayersRecord> = check.and_then(|check| check.split.as_ref()).map(LayersRecord::of),
        /// Options that the log does not tell, taken from its figures.
        inferred: Vec<String> = check.iter().flat_map(|check| &check.inferred).map(Reason::option).collect(),
        /// Every figure of either side; none of a load that is not compared.
        compared: Vec<ComparedRecord<'a>> = check.iter().flat_map(|check| &check.rows).map(ComparedRecord::of).collect(),
        /// Whether the plan agrees; null of a load that is not compared.
        agrees: Option<bool> = check.map(Check::agrees),
    }
}

/// Layers on GPUs.
#[derive(JsonSchema, Serialize)]
pub(crate) struct LayersRecord {
    observed: u64,
    /// All layers, the output layer counted.
    of: u64,
    planned: Option<u64>,
}

impl LayersRecord {
    fn of(split: &SplitCheck) -> Self {
        let &SplitCheck { observed, of, planned, .. } = split;
        Self { observed, of, planned }
    }
}

record! {
    /// A figure of the log and of the plan, in MiB.
    ComparedRecord<'a>(row: &'a Compared) {
        device: &'a str = &row.device,
        part: Part = row.part,
        term: CheckedTerm = row.term,
        planned: Option<Mib> = row.planned.map(rounded),
        observed: Option<Mib> = row.observed.map(rounded),
        difference: Mib = rounded(row.difference()),
        /// Whether they are the same to 0.01 MiB per line of the log, or 1 MiB per row of its table.
        exact: bool = row.is_exact(),
        /// Whether they are the same to the digit that the log prints.
        same: bool = row.is_same(),
        /// Why they differ; null where they do not, or nothing explains it.
        reason: Option<String> = row.reason.as_ref().map(ToString::to_string),
    }
}

/// A line for each figure, in MiB.
pub fn csv(check: &Check) -> String {
    let row = |row: &Compared| {
        let ComparedRecord { device, planned, observed, difference, exact, same, reason, .. } = ComparedRecord::of(row);
        let mib = |mib: Option<Mib>| csv::cell(mib.map(|mib| format!("{:.2}", mib.0)));
        [
            device.to_owned(),
            part_title(row),
            mib(planned),
            mib(observed),
            mib(Some(difference)),
            exact.to_string(),
            same.to_string(),
            csv::cell(reason),
        ]
    };
    let columns = ["device", "part", "planned", "observed", "difference", "exact", "same", "reason"];
    csv::table(columns, check.rows.iter().map(row))
}

/// To hundredths; no minus before zero.
fn rounded(mib: Mib) -> Mib {
    Mib((mib.0 * 100.0).round() / 100.0 + 0.0)
}

/// Settings that show a column of `ollama ps`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ColumnAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The percentage on GPUs that the column shows.
    wanted: u8,
    /// What the settings show that were given.
    planned: CandidateRecord<'a>,
    /// Changes that show the column.
    candidates: Vec<CandidateRecord<'a>>,
    /// Whether the settings that were given show it.
    agrees: bool,
}

record! {
    /// Settings, and what `ollama ps` shows of them.
    CandidateRecord<'a>(candidate: &'a PsCandidate) {
        /// What differs from the settings that were given.
        changes: &'a [String] = &candidate.changes,
        /// The column PROCESSOR.
        processor: String = candidate.shows.processor_column(),
        /// The size in bytes.
        size: Bytes = candidate.shows.size,
        gpu_percent: u8 = candidate.gpu_percent,
        layers: OffloadedRecord = OffloadedRecord { offloaded: candidate.layers.0, of: candidate.layers.1 },
    }
}

/// Layers on GPUs.
#[derive(JsonSchema, Serialize)]
pub(crate) struct OffloadedRecord {
    offloaded: usize,
    /// All layers, the output layer counted.
    of: usize,
}

/// `ColumnAnswer` about `plan`, of a model that was read from `source`.
///
/// # Errors
/// None that an answer can cause.
pub fn ps_json((plan, source): (&Plan, &ModelSource), answer: &PsAnswer) -> serde_json::Result<String> {
    text::json(&ColumnAnswer {
        head: PlanSource::of(plan, source),
        wanted: answer.gpu_percent,
        planned: CandidateRecord::of(&answer.planned),
        candidates: answer.candidates.iter().map(CandidateRecord::of).collect(),
        agrees: answer.agrees(),
    })
}

/// The version of the program of a load, or else its build: `b11342`.
pub fn version(load: &Load) -> Option<String> {
    load.version.clone().or_else(|| load.build.map(|build| format!("b{build}")))
}

/// What a load calls its model: by its header, else as far as its path or a command may be seen.
pub fn name(load: &Load) -> Option<String> {
    let model = load.models.first();
    let path = model.and_then(|model| model.path.as_ref());
    let asked = || path.or(load.asked.as_ref()).or_else(|| load.command.as_ref()?.model.as_ref());
    let named = model.and_then(|model| model.name.clone());
    named.or_else(|| asked().map(|name| seen::model(name).into_owned()))
}

/// A table for an issue or a forum, with the reasons below.
pub fn markdown(load: &Load, check: &Check) -> String {
    let mut out = String::from("| device | part | planned MiB | observed MiB | difference |\n|---|---|--:|--:|--:|\n");
    let mut reasons: Vec<String> = Vec::new();
    let figure = |mib: Option<Mib>| mib.map_or_else(|| "–".to_owned(), |mib| format!("{:.2}", mib.0));
    for row in &check.rows {
        let mark = row.reason.as_ref().map(ToString::to_string).map(|reason| {
            let known = reasons.iter().position(|known| *known == reason);
            let at = known.unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!(" ({})", at + 1)
        });
        let difference = row.difference_text();
        let part = part_title(row);
        let device = Escaped::of(&row.device);
        let (planned, observed) = (figure(row.planned), figure(row.observed));
        let mark = mark.unwrap_or_default();
        out += &format!("| {device} | {part} | {planned} | {observed} | {difference}{mark} |\n");
    }
    out.push('\n');
    for (number, reason) in (1..).zip(reasons) {
        out += &format!("{number}. {}\n", Escaped::of(&reason));
    }
    let program = load.program.map_or("a program", Program::name);
    let version = version(load).unwrap_or_default();
    out += format!("\n{} with {program} {}", Escaped::of(&check.request.model.name), Escaped::of(&version)).trim_end();
    out += &match &check.release {
        Some(choice) => format!(", planned for release {} of llama.cpp.\n", choice.release),
        None => format!(", planned for {}.\n", check.request.engine.title()),
    };
    out
}

/// `KV cache`, `draft: KV cache`.
pub fn part_title(row: &Compared) -> String {
    match row.part {
        Part::Model => row.term.title().to_owned(),
        Part::Projector => format!("projector: {}", row.term),
        Part::Draft => format!("draft: {}", row.term),
    }
}
