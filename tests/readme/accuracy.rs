//! The tables of accuracy, generated from the comparisons themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use plimsoll::engine::EngineId;
use plimsoll::engine::llama_cpp::release::ReleaseTraits;
use plimsoll::settings::Release;

use super::check_table;
use crate::llama_cpp::{self, Measured};
use crate::vectors::outcome::ModelOutcome;
use crate::vectors::{ollama_011, ollama_024};

/// One engine, or one release of it, compared.
#[derive(Clone)]
struct Compared {
    /// As the table shows it: `` `llama.cpp`, release 2026-11 ``.
    name: String,
    /// The number of plans that must have been compared.
    lines: usize,
    /// How many of them must be exact.
    exact: usize,
    rows: BTreeMap<String, Row>,
    /// Logs of real devices whose figures agree to the printed digit.
    logs: usize,
}

/// Of releases before 2026-08, each with some everyday models.
const OLDER_LINES: usize = 1181;

fn compared() -> [Compared; 15] {
    let ollama = |engine: EngineId, outcomes: &[ModelOutcome], lines| Compared {
        name: format!("`{engine}`"),
        lines,
        exact: lines,
        rows: per_architecture(outcomes.iter().map(|one| (one.architecture.as_str(), Row::of(one)))),
        logs: 0,
    };
    let llama_cpp = |measured: Measured, release: Release, lines| Compared {
        name: format!("`{}` {release}, {}", EngineId::LlamaCpp, measured.title()),
        lines,
        exact: lines - llama_cpp::known_to_differ(measured, release),
        rows: per_architecture(llama_cpp::outcomes(measured, release).iter().map(|one| {
            let exact = one.lines.iter().filter(|line| line.is_ok()).count();
            (one.architecture.as_str(), Row { lines: one.lines.len(), exact, worst: one.worst })
        })),
        logs: llama_cpp::logs_of(measured, release),
    };
    // in one row, with graphs on a simulated card alone
    let older = |lines| {
        let older = || Release::ALL.into_iter().filter(|release| ReleaseTraits::of(*release).backends_from.is_some());
        let differ: usize = older().map(|release| llama_cpp::known_to_differ(Measured::Plain, release)).sum();
        let outcomes: Vec<_> = older().flat_map(|release| llama_cpp::outcomes(Measured::Plain, release)).collect();
        let rows = outcomes.iter().map(|one| {
            let exact = one.lines.iter().filter(|line| line.is_ok()).count();
            (one.architecture.as_str(), Row { lines: one.lines.len(), exact, worst: one.worst })
        });
        Compared {
            name: format!("`{}` 2025-09 to 2026-04, {}", EngineId::LlamaCpp, Measured::Plain.title()),
            lines,
            exact: lines - differ,
            rows: per_architecture(rows),
            logs: 0,
        }
    };
    [
        llama_cpp(Measured::Cuda, Release::November2026, 10292),
        llama_cpp(Measured::Cuda, Release::September2026, 3326),
        llama_cpp(Measured::Cuda, Release::EarlyAugust2026, 2386),
        llama_cpp(Measured::Cuda, Release::August2026, 6484),
        llama_cpp(Measured::Vulkan, Release::November2026, 6667),
        llama_cpp(Measured::Vulkan, Release::August2026, 4489),
        llama_cpp(Measured::Metal, Release::November2026, 477),
        llama_cpp(Measured::Metal, Release::September2026, 477),
        llama_cpp(Measured::Plain, Release::November2026, 8736),
        llama_cpp(Measured::Plain, Release::September2026, 2797),
        llama_cpp(Measured::Plain, Release::EarlyAugust2026, 2597),
        llama_cpp(Measured::Plain, Release::August2026, 4679),
        older(OLDER_LINES),
        ollama(EngineId::Ollama024, ollama_024::outcomes(), ollama_024::LINES),
        ollama(EngineId::Ollama011, ollama_011::outcomes(), ollama_011::LINES),
    ]
}

/// Lines compared, those that are exact, and the worst error of a total.
#[derive(Clone, Copy, Default)]
struct Row {
    lines: usize,
    exact: usize,
    worst: f64,
}

impl Row {
    fn of(outcome: &ModelOutcome) -> Self {
        Self { lines: outcome.lines, exact: outcome.exact, worst: outcome.worst }
    }

    fn and(self, other: Self) -> Self {
        Self { lines: self.lines + other.lines, exact: self.exact + other.exact, worst: self.worst.max(other.worst) }
    }

    /// The number of lines, and where some differ, how many do not.
    fn cell(self) -> String {
        let Self { lines, exact, worst } = self;
        if exact == lines { lines.to_string() } else { format!("{exact} of {lines} ({:.2} %)", worst * 100.0) }
    }

    fn figures(self) -> String {
        let worst = if self.worst > 0.0 { format!("{:.2} %", self.worst * 100.0) } else { "0".to_owned() };
        format!("{} | {} | {worst}", self.lines, self.exact)
    }
}

fn per_architecture<'a>(outcomes: impl Iterator<Item = (&'a str, Row)>) -> BTreeMap<String, Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (architecture, outcome) in outcomes {
        let row = rows.entry(architecture.to_owned()).or_default();
        *row = row.and(outcome);
    }
    rows
}

/// One row per engine.
fn summary<'a>(compared: impl IntoIterator<Item = &'a Compared>) -> String {
    let mut table = String::from("| engine | architectures | plans compared | exact | worst error | real logs |\n");
    table.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
    for Compared { name, rows, logs, .. } in compared {
        let all = rows.values().copied().fold(Row::default(), Row::and);
        let logs = if *logs == 0 { "–".to_owned() } else { logs.to_string() };
        writeln!(table, "| {name} | {} | {} | {logs} |", rows.len(), all.figures()).unwrap();
    }
    table
}

/// The rows of the front page: those of other releases than the newest in one.
fn with_older_releases_in_one(compared: &[Compared]) -> Vec<Compared> {
    let newest = format!("`{}` {}", EngineId::LlamaCpp, Release::default());
    let is_older = |engine: &&Compared| engine.name.contains("llama.cpp") && !engine.name.starts_with(&newest);
    let (older, mut shown): (Vec<_>, Vec<_>) = compared.iter().partition(is_older);
    let rows = older.iter().flat_map(|engine| engine.rows.iter().map(|(name, row)| (name.as_str(), *row)));
    let sum = |of: fn(&Compared) -> usize| older.iter().map(|engine| of(engine)).sum();
    let in_one = Compared {
        name: format!("`{}`, older releases", EngineId::LlamaCpp),
        lines: sum(|engine| engine.lines),
        exact: sum(|engine| engine.exact),
        rows: per_architecture(rows),
        logs: sum(|engine| engine.logs),
    };
    let at = shown.iter().take_while(|engine| engine.name.contains("llama.cpp")).count();
    shown.insert(at, &in_one);
    shown.into_iter().cloned().collect()
}

/// A row per architecture, a column per engine.
fn per_architecture_and_engine(compared: &[Compared]) -> String {
    let names: Vec<_> = compared.iter().map(|engine| engine.name.as_str()).collect();
    let architectures: BTreeSet<&String> = compared.iter().flat_map(|engine| engine.rows.keys()).collect();
    let mut table = format!("| architecture | {} |\n| --- |{}\n", names.join(" | "), " ---: |".repeat(names.len()));
    for architecture in architectures {
        let cells =
            compared.iter().map(|engine| engine.rows.get(architecture).map_or("–".to_owned(), |row| row.cell()));
        writeln!(table, "| {architecture} | {} |", cells.collect::<Vec<_>>().join(" | ")).unwrap();
    }
    table
}

#[test]
fn the_accuracy_tables_are_current() {
    let compared = compared();
    let summary = summary(&compared);
    for Compared { name, lines, exact, .. } in &compared {
        let rows: Vec<_> = summary.lines().filter(|row| row.starts_with(&format!("| {name} |"))).collect();
        assert!(matches!(rows[..], [row] if row.contains(&format!("| {lines} | {exact} |"))), "{rows:?}");
    }
    check_table("README.md", "accuracy", &self::summary(&with_older_releases_in_one(&compared)));
    check_table("tests/exactness.md", "engines", &summary);
    check_table("tests/exactness.md", "architectures", &per_architecture_and_engine(&compared));
}
