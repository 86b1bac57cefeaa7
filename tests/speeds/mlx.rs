//! The speed of MLX on measurements of public threads (`mlx.jsonl`): constants fitted on all of them, and errors by constants of
//! fits that had not seen the measurement's thread.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::sync::LazyLock;

use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Machine;
use plimsoll::settings::{Context, Settings};
use plimsoll::speed::Speed;
use plimsoll::speed::family::Family;
use plimsoll::speed::range::Class;
use plimsoll::speed::terms::{Constants, FITTED, spread};
use plimsoll::speed::work::Work;
use serde::Deserialize;

use super::cases::Case;
use super::fit::{self, Field, Parameter, Place};
use super::folds::{self, Judged};
use crate::support;

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    thread: String,
    gpu: String,
    model: String,
    mode: String,
    depth: u64,
    tps: f64,
}

impl Line {
    fn request(&self) -> PlanRequest {
        let model = catalogue::find(&self.model)
            .unwrap()
            .model(self.mode.parse::<plimsoll::model::mixture::Quantisation>().unwrap());
        let machine = Machine::described(&[self.gpu.as_str()], "512GiB").unwrap();
        let model = PlanRequest::new(EngineId::Mlx, model.unwrap(), machine, Settings::default()).made();
        model.changed(|settings| settings.ctx = Context::Tokens(self.depth.max(4096)))
    }

    fn case(&self, at: u64) -> Case {
        let request = self.request();
        let plan = request.plan().unwrap_or_else(|error| panic!("{}: {error}", self.model));
        let work = Work::of(&request.model, &request.machine, &plan, self.depth).unwrap();
        Case { id: at, thread: self.thread.clone(), depth: self.depth, measured: self.tps, threads: None, work }
    }
}

fn lines() -> Vec<Line> {
    let text = fs::read_to_string(support::tests().join("speeds/mlx.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| lines().iter().zip(0..).map(|(line, at)| line.case(at)).collect());

/// What is fitted.
const PARAMETERS: [Parameter; 4] = [
    of_mlx(|one| &mut one.weights, 0.8, 0.05),
    of_mlx(|one| &mut one.cache_flash, 0.7, 0.1),
    of_mlx(|one| &mut one.layer, 60e-6, 0.1),
    of_mlx(|one| &mut one.busy, 30e-6, 0.1),
];

const fn of_mlx(field: Field, prior: f64, pull: f64) -> Parameter {
    Parameter { place: Place::Of(&[Family::Mlx], field), prior, pull, most: 1.0 }
}

/// The constants with those of MLX fitted on these: the same descent as that of the other families.
fn fitted(cases: &[&Case]) -> Constants {
    let weights = fit::weights(cases);
    fit::descend(FITTED, &PARAMETERS, |constants| {
        let data: f64 =
            cases.iter().zip(&weights).map(|(case, weight)| weight * fit::error(case, constants).abs()).sum();
        data + fit::pulls_to_priors(&PARAMETERS, constants)
    })
}

/// Each judged by constants of a fit without its thread.
static HELD_OUT: LazyLock<Vec<Judged>> = LazyLock::new(|| {
    let judged = |case: &Case| {
        let others: Vec<&Case> = CASES.iter().filter(|other| other.thread != case.thread).collect();
        Judged::by(case, &fitted(&others))
    };
    CASES.iter().map(judged).collect()
});

/// The table of errors in `tests/speeds/README.md`.
pub fn table() -> String {
    let cases: Vec<&Case> = CASES.iter().collect();
    let threads: BTreeSet<&str> = CASES.iter().map(|case| case.thread.as_str()).collect();
    let mut table = "| MLX | number | threads | median error | nine of ten | in the range shown |\n".to_owned();
    table.push_str("| --- | --- | --- | --- | --- | --- |\n");
    let groups: [(&str, folds::Group); 4] = [
        ("all", |_| true),
        ("dense", |case| case.work.devices[0].busy == 0.0),
        ("experts or recurrent states", |case| case.work.devices[0].busy > 0.0),
        ("4096 tokens and more", |case| case.depth >= 4096),
    ];
    for (name, group) in groups {
        let errors = folds::errors(&cases, &HELD_OUT, group);
        let threads = if name == "all" { threads.len().to_string() } else { String::new() };
        let [median, nine, covered] = [errors.median, errors.nine_of_ten, errors.covered].map(|share| share * 100.0);
        writeln!(table, "| {name} | {} | {threads} | {median:.0} % | {nine:.0} % | {covered:.0} % |", errors.count)
            .unwrap();
    }
    table
}

#[test]
fn constants_are_those_of_a_fit() {
    let cases: Vec<&Case> = CASES.iter().collect();
    let (fitted, own) = (*fitted(&cases).of(Family::Mlx), FITTED.of(Family::Mlx));
    let of_fit = folds::spread(&cases, &HELD_OUT, Class::Mlx);
    let said = format!("{fitted:?} {of_fit:?}");
    for (fit, own) in [
        (fitted.weights, own.weights),
        (fitted.cache_flash, own.cache_flash),
        (fitted.layer, own.layer),
        (fitted.busy, own.busy),
        (of_fit.0, spread(Class::Mlx).0),
        (of_fit.1, spread(Class::Mlx).1),
    ] {
        assert!((fit / own - 1.0).abs() < 0.02, "{said}");
    }
}

#[test]
fn ranges_hold_what_a_fit_had_not_seen() {
    let cases: Vec<&Case> = CASES.iter().collect();
    let errors = folds::errors(&cases, &HELD_OUT, |_| true);
    println!("{}", table());
    assert!(errors.median < 0.15 && errors.covered >= 0.8, "{}", table());
}

#[test]
fn ranges_say_where_they_come_from() {
    let request = lines()[0].request();
    let plan = request.plan().unwrap();
    let speed = Speed::of(&request.model, &request.machine, &plan, 0).unwrap();
    let deep = Speed::of(&request.model, &request.machine, &plan, 4096).unwrap();
    assert!(speed.tokens_per_second > deep.tokens_per_second);
    assert!(speed.terms[0].formula.contains("546"), "{:?}", speed.terms);
    // no memory is read faster than its bandwidth
    let least = CASES[0].work.devices[0].weights.bytes / 546e9;
    assert!(speed.high <= least.recip(), "{speed:?}");
}
