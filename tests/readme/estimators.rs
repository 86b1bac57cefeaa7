//! How far off the usual estimates of a model's memory are, beside plimsoll's.
//!
//! Asked are all questions that llama.cpp answered of the whole models in `tests/models`, on its CUDA backend in release
//! 2026-11. Compared is the sum of all memory, on GPUs and in RAM.

use std::fmt::Write;

use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Backend;
use plimsoll::settings::{CacheType, Context, FlashAttn, Release, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use super::check_table;
use crate::fixtures;
use crate::llama_cpp::{self, Measured};
use crate::support;

/// A usual estimate of all memory in bytes; none where it has no answer.
type Estimate = fn(&Question) -> Option<f64>;

const ESTIMATES: [(&str, Estimate); 3] = [
    ("the file, and a fifth more", |question| Some(question.file * 1.2)),
    ("the file, and 2 × layers × KV heads × head length × bytes × tokens", |question| {
        Some(question.file + question.cache_by_the_usual_formula())
    }),
    ("Ollama's own estimate (up to 0.24)", |question| question.by_ollama()),
];

struct Question {
    model: plimsoll::engine::PreparedModel,
    file: f64,
    asked: Value,
}

impl Question {
    fn number(&self, key: &str, default: u64) -> u64 {
        self.asked[key].as_u64().unwrap_or(default)
    }

    fn cache_type(&self, key: &str) -> CacheType {
        self.asked[key].as_str().unwrap_or("f16").parse().unwrap()
    }

    fn cache_by_the_usual_formula(&self) -> f64 {
        let hyper = &self.model.hyper;
        let heads: u64 = hyper.kv_heads.iter().sum();
        let bytes = |length: Option<u64>, key: &str| {
            let ty = self.cache_type(key).format();
            length.unwrap_or(0) as f64 * ty.block_bytes() as f64 / ty.block() as f64
        };
        let per_head = bytes(hyper.key_length, "type_k") + bytes(hyper.value_length, "type_v");
        heads as f64 * per_head * self.number("n_ctx", 4096) as f64
    }

    /// With all layers on GPUs, as the question has them.
    fn by_ollama(&self) -> Option<f64> {
        let sequences = self.number("n_seq_max", 1).max(1);
        let settings = Settings {
            ctx: Context::Tokens(self.number("n_ctx", 4096) / sequences),
            parallel: Some(sequences),
            batch: Some(self.number("n_ubatch", 512)),
            cache_type_k: Some(self.cache_type("type_k")),
            cache_type_v: Some(self.cache_type("type_v")),
            flash_attn: match self.asked["flash_attn"].as_str() {
                Some("on") => FlashAttn::On,
                Some("off") => FlashAttn::Off,
                _ => FlashAttn::Auto,
            },
            ..Settings::default()
        };
        let count = self.asked["devices"].as_array().map_or(1, Vec::len).max(1);
        let gpus = vec![fixtures::card(Backend::Cuda, Bytes::gib(4096)); count];
        let request = PlanRequest::new(EngineId::Ollama024, self.model.clone(), fixtures::machine(gpus), settings);
        request.plan().ok().map(|plan| plan.totals.all.0 as f64)
    }
}

/// The errors of an estimate, in order of size, and how many questions it does not answer.
struct Errors {
    name: &'static str,
    sorted: Vec<f64>,
    unanswered: usize,
}

impl Errors {
    fn at(&self, share: f64) -> f64 {
        let last = self.sorted.len() - 1;
        self.sorted[((last as f64) * share).round() as usize]
    }
}

fn all_errors() -> (usize, Vec<Errors>) {
    let whole = support::names_in(&["models"]);
    let mut errors: Vec<Errors> =
        ESTIMATES.iter().map(|(name, _)| Errors { name, sorted: Vec::new(), unanswered: 0 }).collect();
    let mut count = 0;
    for (name, lines) in llama_cpp::measured_lines(Measured::Cuda, Release::November2026) {
        if !whole.contains(&name) {
            continue;
        }
        let model = fixtures::model(&name);
        let file = model.bytes.0 as f64;
        for line in lines {
            let sum = |key: &str| -> Option<u64> { line["out"][key].as_array()?.iter().map(Value::as_u64).sum() };
            let (Some(weights), Some(caches), Some(compute)) = (sum("model"), sum("context"), sum("compute")) else {
                continue;
            };
            let taken = (weights + caches + compute) as f64;
            let question = Question { model: model.clone(), file, asked: line["in"].clone() };
            count += 1;
            for (errors, (_, estimate)) in errors.iter_mut().zip(ESTIMATES) {
                match estimate(&question) {
                    Some(estimated) => errors.sorted.push((estimated / taken - 1.0).abs()),
                    None => errors.unanswered += 1,
                }
            }
        }
    }
    for errors in &mut errors {
        errors.sorted.sort_by(f64::total_cmp);
    }
    (count, errors)
}

#[test]
fn the_table_of_usual_estimates_is_current() {
    let (count, errors) = all_errors();
    let mut table = format!(
        "| all memory, {count} questions | half are off by | one of ten by more than |\n| --- | ---: | ---: |\n"
    );
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    for errors in &errors {
        let refused = match errors.unanswered {
            0 => String::new(),
            some => format!(" ({} answered)", count - some),
        };
        writeln!(table, "| {}{refused} | {} | {} |", errors.name, percent(errors.at(0.5)), percent(errors.at(0.9)))
            .unwrap();
    }
    // what the table of accuracy shows of the same lines
    let exact = llama_cpp::known_to_differ(Measured::Cuda, Release::November2026) == 0;
    assert!(exact, "the last row says that all agree");
    writeln!(table, "| plimsoll | 0 | 0 |").unwrap();
    check_table("README.md", "estimators", &table);
}
