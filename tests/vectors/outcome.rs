//! Comparisons, model by model.

use std::fmt::Debug;
use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use plimsoll::engine::PreparedModel;

use super::line::Line;
use crate::{fixtures, support};

/// The comparison of one model.
pub struct ModelOutcome {
    pub architecture: String,
    pub lines: usize,
    pub exact: usize,
    /// The largest relative error of a total.
    pub worst: f64,
    /// The first line that differs, in full.
    pub first: Option<String>,
}

/// Differences between a plan and a line.
#[derive(Default)]
pub struct Differences {
    pub fields: Vec<String>,
    pub worst: f64,
}

impl Differences {
    #[allow(clippy::needless_pass_by_value, reason = "values read better at its many uses")]
    pub fn field<T: PartialEq + Debug>(&mut self, name: &str, expected: T, got: T) {
        if expected != got {
            self.fields.push(format!("{name}: expected {expected:?}, got {got:?}"));
        }
    }

    pub fn total(&mut self, name: &str, expected: u64, got: u64) {
        self.worst = self.worst.max(expected.abs_diff(got) as f64 / expected.max(1) as f64);
        self.field(name, expected, got);
    }
}

/// Compares every line of every file in `tests/vectors/{folder}`.
pub fn compare_all(folder: &str, differences: fn(&PreparedModel, &Line) -> Differences) -> Vec<ModelOutcome> {
    let mut names: Vec<_> = fs::read_dir(support::tests().join("vectors").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".jsonl.gz").map(str::to_owned))
        .collect();
    names.sort();
    names.iter().map(|name| outcome(folder, name, differences)).collect()
}

fn outcome(folder: &str, name: &str, differences: fn(&PreparedModel, &Line) -> Differences) -> ModelOutcome {
    let path = support::tests().join("vectors").join(folder).join(format!("{name}.jsonl.gz"));
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let model = fixtures::model(name);
    let mut outcome =
        ModelOutcome { architecture: model.architecture.clone(), lines: 0, exact: 0, worst: 0.0, first: None };
    for (number, text) in text.lines().enumerate() {
        let line = Line::read(text);
        let differences = differences(&model, &line);
        outcome.lines += 1;
        outcome.worst = outcome.worst.max(differences.worst);
        if differences.fields.is_empty() {
            outcome.exact += 1;
        } else if outcome.first.is_none() {
            let fields = differences.fields.join("\n  ");
            outcome.first = Some(format!("{name}, line {}:\n  settings {}\n  {fields}", number + 1, line.input));
        }
    }
    outcome
}

/// Fails with the first line that differs, or if there are not `lines` lines.
pub fn assert_all_exact(outcomes: &[ModelOutcome], lines: usize) {
    if let Some(first) = outcomes.iter().find_map(|outcome| outcome.first.as_ref()) {
        let wrong: usize = outcomes.iter().map(|outcome| outcome.lines - outcome.exact).sum();
        panic!("{wrong} lines disagree; the first is {first}");
    }
    assert_eq!(outcomes.iter().map(|outcome| outcome.lines).sum::<usize>(), lines);
}
