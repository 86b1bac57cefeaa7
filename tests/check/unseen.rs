//! Logs that were not looked at while the reader was written (`unseen.jsonl.gz`): a person read their figures, and
//! judged which sentences on them are false.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use plimsoll::answer::check::{Check, CheckRequest, Compared, check};
use plimsoll::machine::spec::MachineSpec;
use plimsoll::observed::Observation;
use plimsoll::settings::{Context, Settings};
use rstest::rstest;
use serde_json::Value;

use super::samples::{catalogue_projector, model};
use crate::support;

/// A log with what is known of it, as it is read, and its check.
pub type ReadLog = (Value, Observation, Option<Check>);

/// Each log by its name, with its comparison where its model is known.
pub static LOGS: LazyLock<BTreeMap<String, ReadLog>> = LazyLock::new(|| {
    let path = support::tests().join("check/unseen.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let logs = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    logs.map(|log| {
        let seen = Observation::of(log["raw"].as_str().unwrap());
        let check = log["planned"].as_str().map(|reference| compare(&log, &seen, reference));
        (log["id"].as_str().unwrap().to_owned(), (log, seen, check))
    })
    .collect()
});

fn compare(log: &Value, seen: &Observation, reference: &str) -> Check {
    let id = log["id"].as_str().unwrap();
    let knobs = |settings: &mut Settings| {
        // this excerpt tells neither
        if id.starts_with("lg-11") {
            (settings.ctx, settings.parallel, settings.kv_unified) = (Context::Tokens(8192), Some(4), true);
        }
    };
    let machine = MachineSpec::default();
    let request = CheckRequest {
        model: Arc::new(model(reference).into()),
        projector: catalogue_projector(reference),
        is_same_file: false,
        machine: &machine,
        engine: None,
        release: None,
        knobs: &knobs,
    };
    check(seen.load().unwrap_or_else(|| panic!("{id}")), &request).unwrap_or_else(|why| panic!("{id}: {why}"))
}

fn name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

pub fn is_row(row: &Compared, of: &Value) -> bool {
    row.device == of["device"] && name(&row.part) == of["part"] && name(&row.term) == of["term"]
}

#[test]
fn every_figure_is_read_and_every_log_is_one_load() {
    let mut wrong = String::new();
    for (id, (log, seen, check)) in &*LOGS {
        if seen.loads.len() != 1 {
            let _ = writeln!(wrong, "{id}: {} loads", seen.loads.len());
        }
        let Some(check) = check else { continue };
        for figure in log["read"].as_array().unwrap() {
            let mib = figure["mib"].as_f64().unwrap();
            let row = check.rows.iter().find(|row| is_row(row, figure));
            let read = row.and_then(|row| row.observed).map(|mib| mib.0);
            if read.is_none_or(|read| (read - mib).abs() > 0.011) {
                let _ = writeln!(wrong, "{id}: {figure} is read as {read:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_sentence_is_said_that_was_found_to_be_false() {
    let mut said = String::new();
    for (id, (log, _, check)) in &*LOGS {
        let Some(check) = check else { continue };
        for sentence in log["false"].as_array().unwrap() {
            let row = check.rows.iter().find(|row| is_row(row, sentence));
            let reason = row.and_then(|row| row.reason.as_ref()).map(ToString::to_string).unwrap_or_default();
            if reason == sentence["says"].as_str().unwrap() {
                let _ = writeln!(said, "{id} {sentence}");
            }
        }
    }
    assert!(said.is_empty(), "{said}");
}

/// One reason of each kind, with what it says.
#[rstest]
// weights of another mixture, in whatever order
#[case("lg-13", "CPU", "model", "the file's weights are not those")]
#[case("lg-14", "ROCm0", "model", "the file's weights are not those")]
#[case("lg-31", "CUDA0", "model", "the file's weights are not those")]
#[case("lg-39", "CPU", "model", "the file's weights are not those")]
#[case("lg-42", "CPU", "model", "the file's weights are not those")]
#[case("lg-34b", "CPU", "model", "the log does not tell which layers are on GPUs")]
// another model
#[case("lg-21", "CPU", "kv", "its caches are of 48 blocks, and this one has 40")]
// what an excerpt lacks
#[case("lg-09b", "CPU", "compute", "its line is not in the log")]
// a program that only looks like one of llama.cpp's
#[case("lg-01", "CPU", "compute", "llama-paged is none of llama.cpp's programs")]
// settings that the figures show
#[case("lg-33", "CUDA3", "compute", "--n-cpu-moe 54")]
#[case("lg-33", "CUDA3", "model", "the file's weights are not those")]
#[case("lg-33", "CUDA3", "kv", "--tensor-split 55,9,8,8")]
#[case("lg-33", "CUDA0", "compute", "weights in RAM are copied here")]
fn reasons_are_those_of_the_log(#[case] id: &str, #[case] device: &str, #[case] term: &str, #[case] says: &str) {
    let check = LOGS[id].2.as_ref().unwrap();
    let row = check.rows.iter().find(|row| row.device == device && name(&row.term) == term).unwrap();
    let reason = row.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(reason.contains(says), "{id} {device} {term}: {reason}");
}

/// What is exact where the log tells all of it, or its figures do.
#[rstest]
#[case("lg-02", 6)]
#[case("lg-08", 6)]
#[case("lg-09", 3)]
#[case("lg-11", 5)]
#[case("lg-15", 3)]
#[case("lg-16", 3)]
#[case("lg-18", 3)]
#[case("lg-22", 1)]
#[case("lg-30", 4)]
#[case("lg-33", 9)]
#[case("lg-43b", 7)]
#[case("lg-44", 10)]
fn figures_agree(#[case] id: &str, #[case] same: usize) {
    let check = LOGS[id].2.as_ref().unwrap();
    assert_eq!(check.same(), same, "{:?}", check.rows);
}
