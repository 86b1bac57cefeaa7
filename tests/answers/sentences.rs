//! Figures in sentences: what is read out of them is what the plan says, and each sentence with a figure is short.

use plimsoll::answer::{Change, verdict};
use plimsoll::engine::PlanRequest;
use plimsoll::export::json;
use plimsoll::plan::Plan;
use plimsoll::question::glance;
use plimsoll::speed::{SpeedRange, Speeds};
use plimsoll::units::{Bytes, Difference, Tokens};
use serde_json::Value;

use super::glance::{ASKED, Asked};

/// Words of a sentence with a figure, at most.
const WORDS: usize = 25;

/// A plan as its JSON has it.
struct Record(Value);

impl Record {
    fn of(plan: &Plan) -> Self {
        Self(serde_json::from_str(&json(plan).unwrap()).unwrap())
    }

    fn number(&self, pointer: &str) -> i64 {
        self.0.pointer(pointer).and_then(Value::as_i64).unwrap_or_else(|| panic!("{pointer}"))
    }

    fn tokens(&self, pointer: &str) -> String {
        Tokens(self.number(pointer) as u64).to_string()
    }

    fn devices(&self) -> &[Value] {
        self.0["devices"].as_array().unwrap()
    }

    fn device(&self, id: &str) -> &Value {
        self.devices().iter().find(|device| device["id"] == id).unwrap_or_else(|| panic!("no {id}"))
    }

    fn cpu(&self) -> &Value {
        self.devices().last().unwrap()
    }

    fn layers_in_ram(&self) -> String {
        self.cpu()["layers"].as_array().unwrap().len().to_string()
    }

    /// Free memory less what the plan takes.
    fn left(&self, id: &str) -> i64 {
        int(&self.device(id)["headroom"]) + int(&self.device(id)["reserved"])
    }

    /// What a driver takes once the model is loaded: with what it takes for the context, where that is known apart.
    fn driver(&self, id: &str) -> [u64; 2] {
        let driver = &self.device(id)["driver"];
        let context = driver["context"]["bytes"].as_u64().unwrap_or(0);
        ["least", "most"].map(|end| driver["loaded"][end].as_u64().unwrap_or(0) + context)
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

fn bytes(value: &Value) -> String {
    Bytes(value.as_u64().unwrap_or_else(|| panic!("{value}"))).to_string()
}

fn signed(bytes: i64) -> String {
    Difference(bytes).to_string()
}

/// `350 MiB`, or `451 MiB to 456 MiB`.
fn span([least, most]: [u64; 2]) -> String {
    let [least, most] = [least, most].map(|bytes| Bytes(bytes).to_string());
    if least == most { least } else { format!("{least} to {most}") }
}

/// What stands in the places `{}` of `form` in `text`, if it has that form.
fn read<'a>(form: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut parts = form.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    for part in parts {
        let end = if part.is_empty() { rest.len() } else { rest.find(part)? };
        found.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    rest.is_empty().then_some(found)
}

/// Sentences, without their full stops.
fn sentences(text: &str) -> Vec<&str> {
    text.trim().trim_end_matches('.').split(". ").map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether a sentence states a figure: names of types, devices and versions are none.
fn has_figure(sentence: &str) -> bool {
    let words = sentence.split(|c: char| c.is_whitespace() || "(),;:".contains(c));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count() > 0
}

/// Words of a sentence; groups of digits are one, as is a number with its unit's sign.
fn words(sentence: &str) -> usize {
    sentence.split([' ', '\n']).filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

#[test]
fn scratch() {
    let mut all = std::collections::BTreeMap::<String, (usize, String)>::new();
    let mut add = |kind: &str, sentence: &str| {
        if !has_figure(sentence) {
            return;
        }
        let mut masked = String::new();
        for c in sentence.chars() {
            let c = if c.is_ascii_digit() { '#' } else { c };
            if !(c == '#' && masked.ends_with('#')) {
                masked.push(c);
            }
        }
        let entry = all.entry(format!("{kind}: {masked}")).or_insert((0, sentence.to_owned()));
        if words(sentence) > words(&entry.1) {
            entry.1 = sentence.to_owned();
        }
        entry.0 += 1;
    };
    for Asked { plan, limits, speeds, .. } in &*ASKED {
        for sentence in sentences(&glance::state(plan)) {
            add("state", sentence);
        }
        for sentence in sentences(&glance::besides(plan, Some(limits), speeds.as_ref())) {
            add("besides", sentence);
        }
        for note in &plan.notes {
            for sentence in sentences(note) {
                add("note", sentence);
            }
        }
        for sentence in sentences(&verdict::sentence(plan, Some(limits), speeds.as_ref())) {
            add("whole", sentence);
        }
    }
    let mut out = String::new();
    for (masked, (count, example)) in &all {
        out += &format!("{count:4} {:3} {masked}\n         {example}\n", words(example));
    }
    std::fs::write("/tmp/pv63/scratch.txt", out).unwrap();
}
