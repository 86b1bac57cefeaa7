//! The catalogue's headers compared with published files.
//!
//! `facts.jsonl` has the facts with their sources: tensor counts and numbers of weights from llama.cpp's logs, sizes from
//! the same logs (GiB of tensors) and from Ollama's library (GB, or bytes of the file).

use std::collections::BTreeMap;
use std::fs;

use plimsoll::gguf::FileType;
use serde::Deserialize;

use super::{entry, model};
use crate::support;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    name: String,
    tensors: Option<usize>,
    parameters: Option<String>,
    #[serde(default)]
    files: Vec<Published>,
    #[serde(default)]
    ollama: Vec<Published>,
    #[allow(dead_code, reason = "for readers")]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    #[serde(default)]
    tag: String,
    /// The repository on Hugging Face that has the file.
    #[serde(default)]
    repo: String,
    quant: String,
    /// Of its tensors.
    gib: Option<f64>,
    /// Of the file.
    file_gib: Option<f64>,
    gb: Option<f64>,
    bytes: Option<f64>,
    /// Why the file differs from what llama.cpp's quantiser would make.
    unlike: Option<String>,
}

/// The comparison of one entry.
pub struct Check {
    /// Its name.
    pub name: String,
    /// Number of tensors: built, published.
    pub tensors: Option<(usize, usize)>,
    /// Number of weights: built, and as llama.cpp's log prints it.
    pub weights: Option<(u64, String)>,
    /// For each size compared: the file, and the relative error.
    pub sizes: Vec<(String, f64)>,
}

impl Check {
    /// The largest difference in size.
    pub fn worst(&self) -> f64 {
        self.sizes.iter().map(|(_, error)| *error).fold(0.0, f64::max)
    }
}

fn facts() -> Vec<Facts> {
    let text = fs::read_to_string(support::tests().join("catalogue/facts.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All comparisons that the facts allow, in the order of the catalogue.
pub fn checks() -> Vec<Check> {
    facts()
        .into_iter()
        .map(check)
        .filter(|check| check.tensors.is_some() || check.weights.is_some() || !check.sizes.is_empty())
        .collect()
}

fn check(facts: Facts) -> Check {
    let entry = entry(&facts.name);
    let built = model(entry, FileType::F16);
    let tensors = built.header.tensors.len().checked_add_signed(older_conversion(&facts.name)).unwrap();
    let like = facts.files.iter().chain(&facts.ollama).filter(|published| published.unlike.is_none());
    let size = |published: &Published| {
        let model = model(entry, published.quant.parse().unwrap());
        // a log counts the tensors only, a file's size includes its header
        let header = if published.gib.is_none() { model.hyper.vocabulary.unwrap() * HEADER_PER_TOKEN } else { 0 };
        let built = (model.bytes.0 + header) as f64;
        // the published figure is rounded to its last digit
        let (size, half) = match (published.bytes, published.gib, published.file_gib, published.gb) {
            (Some(bytes), ..) => (bytes, 0.0),
            (_, Some(gib), ..) => (gib * GIB, 0.0),
            (_, _, Some(gib), _) => (gib * GIB, if gib < 1.0 { 0.0005 } else { 0.05 } * GIB),
            (.., Some(gb)) => (gb * 1e9, half_a_digit(gb) * 1e9),
            _ => panic!("{}: no size", facts.name),
        };
        let what = format!("{} {}{}", published.quant, published.tag, published.repo);
        (what, ((built - size).abs() - half).max(0.0) / size)
    };
    Check {
        tensors: facts.tensors.map(|published| (tensors, published)),
        // this log counts attn_kv_b as well as the two tensors it is split into
        weights: facts.parameters.filter(|_| facts.name != "deepseek-r1-0528").map(|log| (built.parameters, log)),
        sizes: like.map(size).collect(),
        name: facts.name,
    }
}

/// Published files made by an older converter: how many tensors they have more or fewer than files of today.
fn older_conversion(name: &str) -> isize {
    match name {
        // attn_qkv and attn_gate were one ssm_in
        "qwen3-next-80b-a3b" => -36,
        // attn_kv_b was written as well as attn_k_b and attn_v_b
        "deepseek-r1-0528" | "kimi-k2-instruct" => 61,
        _ => 0,
    }
}

const GIB: f64 = 1_073_741_824.0;

/// Bytes of a header per token of the vocabulary: 6.7 MB for the 262 144 of Gemma 3.
const HEADER_PER_TOKEN: u64 = 26;

/// Ollama's library writes two digits below 10 GB, whole GB from there on, MB below 1 GB and tenths of TB from 1 TB on.
fn half_a_digit(gb: f64) -> f64 {
    match gb {
        ..1.0 => 0.0005,
        ..10.0 => 0.05,
        ..1000.0 => 0.5,
        _ => 50.0,
    }
}

#[test]
fn tensor_counts_match_published_files() {
    let checks = checks();
    let counts: Vec<_> = checks.iter().filter_map(|check| Some((&check.name, check.tensors?))).collect();
    for (name, (built, published)) in &counts {
        assert_eq!(built, published, "{name}");
    }
    assert!(counts.len() >= 40, "{}", counts.len());
}

#[test]
fn weight_counts_match_llama_cpp() {
    let checks = checks();
    let weights: Vec<_> = checks.iter().filter_map(|check| Some((&check.name, check.weights.as_ref()?))).collect();
    for (name, (built, log)) in &weights {
        let (number, unit) = log.split_once(' ').unwrap();
        let unit = if unit == "B" { 1e9 } else { 1e6 };
        let places = number.split_once('.').map_or(0, |(_, places)| places.len());
        let half_a_digit = (0..places).fold(0.5, |half, _| half / 10.0);
        let apart = (*built as f64 / unit - number.parse::<f64>().unwrap()).abs();
        assert!(apart <= half_a_digit * 1.001, "{name}: {built} and {log}");
    }
    assert!(weights.len() >= 25, "{}", weights.len());
}

#[test]
fn sizes_match_published_files() {
    let checks = checks();
    let sized: Vec<_> = checks.iter().filter(|check| !check.sizes.is_empty()).collect();
    let each = sized.iter().flat_map(|check| check.sizes.iter().map(|size| (&check.name, size)));
    let far: Vec<String> = each
        .filter(|(_, (_, error))| *error > 0.007)
        .map(|(name, (what, error))| format!("{name} {what}: {:.2} %", error * 100.0))
        .collect();
    assert!(far.is_empty(), "{far:#?}");
    assert!(sized.len() >= 105, "{}", sized.len());
}

/// What a file has besides tensors is its header, which is the same in each type: so sizes in bytes are compared to
/// within what the names of types and the headers of shards take.
#[test]
fn files_of_a_model_differ_by_their_tensors_alone() {
    const SHARDS: u64 = 16 << 10;
    let mut compared = 0;
    for facts in facts() {
        let entry = entry(&facts.name);
        let mut headers: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for file in facts.files.iter().filter(|file| file.unlike.is_none() && !file.repo.is_empty()) {
            let Some(bytes) = file.bytes else { continue };
            let tensors = model(entry, file.quant.parse().unwrap()).bytes.0;
            let header = (bytes as u64).checked_sub(tensors);
            headers
                .entry(&file.repo)
                .or_default()
                .push(header.unwrap_or_else(|| panic!("{} {}", facts.name, file.quant)));
        }
        for (repo, headers) in headers {
            let (least, most) = (headers.iter().min().unwrap(), headers.iter().max().unwrap());
            assert!(most - least <= SHARDS, "{repo}: {headers:?}");
            // no tokenizer takes more than 16 MiB
            assert!(*most <= 16 << 20, "{repo}: {headers:?}");
            compared += headers.len();
        }
    }
    assert!(compared >= 30, "{compared}");
}
