//! A load beside its plan, as JSON and as Markdown. Sizes are in MiB, as logs print them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record;
use crate::answer::check::running::{PsAnswer, PsCandidate};
use crate::answer::check::{Check, CheckedTerm, Compared, Part, Reason, SplitCheck};
use crate::engine::PlanRequest;
use crate::observed::{Buffers, Load, Mib, Observation, ObservedSettings, Program, TableRow};
use crate::settings::Release;
use crate::text;

/// `{"loads":[{"program","version","release","command","model","settings","observed","table","compared","agrees"}],"chosen"}`.
/// Loads that are not compared, as all but `chosen` or all without a `check`, have an empty `compared` and a null `agrees`.
///
/// # Errors
/// None that a check can cause.
pub fn json(seen: &Observation, chosen: usize, check: Option<&Check>) -> serde_json::Result<String> {
    let compared = |at: usize| check.filter(|_| at == chosen);
    let loads = seen.loads.iter().enumerate().map(|(at, load)| JsonLoad::of(load, compared(at)));
    text::json(&Object { loads: loads.collect(), chosen })
}

#[derive(Serialize)]
struct Object<'a> {
    loads: Vec<JsonLoad<'a>>,
    chosen: usize,
}

record! {
    JsonLoad<'a>(load: &'a Load, check: Option<&'a Check>) {
        line: u64 = load.line,
        program: Option<&'static str> = load.program.map(Program::name),
        version: Option<String> = version(load),
        release: Option<Release> = check.and_then(|check| check.release.as_ref()).map(|choice| choice.release),
        command: Option<&'a str> = load.command.as_ref().map(|command| command.text.as_str()),
        model: Option<String> = check.map(|check| check.request.model.name.clone()).or_else(|| name(load)),
        settings: &'a ObservedSettings = &load.settings,
        observed: &'a Buffers = &load.observed,
        table: &'a BTreeMap<String, TableRow> = &load.table,
        layers: Option<JsonLayers<'a>> = check.and_then(|check| check.split.as_ref()).map(JsonLayers::of),
        /// Options that the log does not tell, taken from its figures.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        inferred: Vec<String> = check.iter().flat_map(|check| &check.inferred).map(Reason::option).collect(),
        compared: Vec<JsonRow<'a>> = check.iter().flat_map(|check| &check.rows).map(JsonRow::of).collect(),
        agrees: Option<bool> = check.map(Check::agrees),
    }
}

record! {
    JsonLayers<'a>(split: &'a SplitCheck) {
        observed: u64 = split.observed,
        of: u64 = split.of,
        planned: &'a Option<u64> = &split.planned,
    }
}

record! {
    JsonRow<'a>(row: &'a Compared) {
        device: &'a str = &row.device,
        part: Part = row.part,
        term: CheckedTerm = row.term,
        planned: Option<Mib> = row.planned.map(rounded),
        observed: Option<Mib> = row.observed.map(rounded),
        difference: Mib = rounded(row.difference()),
        exact: bool = row.is_exact(),
        same: bool = row.is_same(),
        reason: Option<String> = row.reason.as_ref().map(ToString::to_string),
    }
}

/// To hundredths; no minus before zero.
fn rounded(mib: Mib) -> Mib {
    Mib((mib.0 * 100.0).round() / 100.0 + 0.0)
}

/// `{"engine","wanted","planned":{…},"candidates":[{"changes","processor","size","gpu_percent","layers"}],"agrees"}`; sizes in
/// bytes.
///
/// # Errors
/// None that an answer can cause.
pub fn ps_json(request: &PlanRequest, answer: &PsAnswer) -> serde_json::Result<String> {
    let of = |candidate: &PsCandidate| {
        serde_json::json!({
            "changes": candidate.changes,
            "processor": candidate.shows.processor_column(),
            "size": candidate.shows.size,
            "gpu_percent": candidate.gpu_percent,
            "layers": { "offloaded": candidate.layers.0, "of": candidate.layers.1 },
        })
    };
    text::json(&serde_json::json!({
        "engine": request.engine.name(),
        "wanted": answer.gpu_percent,
        "planned": of(&answer.planned),
        "candidates": answer.candidates.iter().map(of).collect::<Vec<_>>(),
        "agrees": answer.agrees(),
    }))
}

/// The version of the program of a load, or else its build: `b11342`.
pub fn version(load: &Load) -> Option<String> {
    load.version.clone().or_else(|| load.build.map(|build| format!("b{build}")))
}

/// What a load calls its model.
pub fn name(load: &Load) -> Option<String> {
    let model = load.models.first();
    let named = model.and_then(|model| model.name.clone().or_else(|| model.path.clone()));
    named.or_else(|| load.asked.clone()).or_else(|| load.command.as_ref()?.model.clone())
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
        let device = row.device.replace('|', "\\|");
        let (planned, observed) = (figure(row.planned), figure(row.observed));
        let mark = mark.unwrap_or_default();
        out += &format!("| {device} | {part} | {planned} | {observed} | {difference}{mark} |\n");
    }
    out.push('\n');
    for (number, reason) in (1..).zip(reasons) {
        out += &format!("{number}. {reason}\n");
    }
    let program = load.program.map_or("a program", Program::name);
    out += format!("\n{} with {program} {}", check.request.model.name, version(load).unwrap_or_default()).trim_end();
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
