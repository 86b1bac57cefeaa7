//! What the real Ollama 0.33 and 0.30.9 decided on simulated machines, compared line by line. The form of the lines and
//! what is compared: `tests/ollama_030/README.md`.

mod compare;
mod line;
mod together;

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use plimsoll::settings::OllamaVersion;

use crate::support;
use line::{Line, Models};

fn lines(name: &str, version: OllamaVersion) -> Vec<Line> {
    let path = support::tests().join("vectors/ollama-0.30").join(format!("{name}.jsonl.gz"));
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| Line::read(line, version)).collect()
}

/// Compares all lines; panics with the first that disagrees, and how many disagree in what.
fn all_agree(name: &str, version: OllamaVersion, count: usize) {
    let mut models = Models::default();
    let lines = lines(name, version);
    let mut fields: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut first, mut wrong) = (None, 0);
    for line in &lines {
        let differences = compare::differences(line, &mut models);
        for difference in &differences {
            *fields.entry(difference.field).or_default() += 1;
        }
        wrong += usize::from(!differences.is_empty());
        if !differences.is_empty() && first.is_none() {
            first = Some(format!("{}\n{differences:#?}", line.text));
        }
    }
    assert!(first.is_none(), "{wrong} of {} lines disagree: {fields:?}; the first:\n{}", lines.len(), first.unwrap());
    assert_eq!(lines.len(), count);
}

#[test]
fn ollama_033_decides_the_same_for_one_request() {
    all_agree("single", OllamaVersion::V0_33, 4624);
}

#[test]
fn ollama_030_decides_the_same_for_one_request() {
    all_agree("june", OllamaVersion::V0_30, 378);
}

#[test]
fn ollama_033_loads_the_same_models_together() {
    let mut models = Models::default();
    let lines = lines("together", OllamaVersion::V0_33);
    let mut wrong = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let differences = together::differences(line, &mut models);
        if !differences.is_empty() {
            wrong.push((place, differences));
        }
    }
    // those that depend on what Ollama keeps of a model that is loaded anew
    let places: Vec<usize> = wrong.iter().map(|(place, _)| *place).collect();
    assert_eq!(lines.len(), 143);
    assert_eq!(places, [46, 139], "{:#?}", wrong.first());
}
