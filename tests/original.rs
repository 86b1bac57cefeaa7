//! Headers that are made of original weights, beside those that llama.cpp's converter writes.
//!
//! `original/converted.jsonl.gz` has, for each model, its `config.json`, the names, types and shapes of its original tensors, and
//! the keys and tensors that `convert_hf_to_gguf.py` of llama.cpp (as llama-cpp-python 0.3.36 carries it, November 2026) wrote
//! of them, without `--outtype`: the script itself, with tensors that have a shape and no data. The 33 large models are those
//! of `mlx/classes.jsonl.gz`, by the names of their publishers (`published`), or of mlx-lm's classes with experts apart and
//! convolutions turned as published (`mlx`). Their `config.json` is what follows from a published GGUF header, with published
//! facts of rotation, windows and MTP blocks added; MTP blocks have the tensors of such blocks in their families. The others
//! (`small`) are of made-up sizes, by the names that their families' originals have. A size is
//! asked of no value: what the script multiplies or adds does not change it.
//!
//! Names: `@` is the first number, of these layers; `#` the second, below the count that follows.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::gguf::{Elements, FileType, Header, Value};
use plimsoll::machine::Machine;
use plimsoll::model::config::ModelConfig;
use plimsoll::model::mixture;
use plimsoll::model::mlx::MlxModel;
use plimsoll::model::{Model, original};
use plimsoll::safetensors::{self, Dtype, Stored};
use plimsoll::settings::{Context, Settings};
use serde_json::{Value as Json, json};

use crate::llama_cpp::lines;
use crate::support;

fn rows() -> Vec<Json> {
    lines(&support::tests().join("original/converted.jsonl.gz"))
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap()
}

fn sizes(value: &Json) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect()
}

/// `0-2,5` as numbers.
fn numbers(ranges: &str) -> impl Iterator<Item = u64> {
    ranges.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u64>().unwrap()..=last.parse().unwrap()
    })
}

/// Name, type and shape of a tensor.
type Named = (String, String, Vec<u64>);

/// The tensors of rows.
fn tensors(rows: &Json) -> Vec<Named> {
    let mut all = Vec::new();
    for row in rows.as_array().unwrap() {
        let (pattern, experts, ty) = (text(&row[0]), row[2].as_u64().unwrap(), text(&row[3]).to_owned());
        let mut add = |name: String| all.push((name, ty.clone(), sizes(&row[4])));
        match row[1].as_str() {
            None => add(pattern.to_owned()),
            Some(layers) => numbers(layers).for_each(|layer| {
                let name = pattern.replacen('@', &layer.to_string(), 1);
                match experts {
                    0 => add(name),
                    _ => (0..experts).for_each(|expert| add(name.replacen('#', &expert.to_string(), 1))),
                }
            }),
        }
    }
    all
}

/// The original weights of a row that are meant.
fn stored(row: &Json, is_meant: impl Fn(&str) -> bool) -> Stored {
    let mut header = safetensors::Header::default();
    for (name, dtype, shape) in tensors(&row["original"]).into_iter().filter(|(name, ..)| is_meant(name)) {
        let dtype = Dtype::named(&dtype).unwrap();
        let bytes = dtype.bytes(&shape).unwrap();
        header.tensors.push(safetensors::Tensor { name, dtype, shape, bytes });
    }
    let mut stored = Stored::default();
    stored.add(header).unwrap();
    stored
}

/// The original weights of a model by its name, as they are opened.
pub(crate) fn opened(name: &str) -> Model {
    let row = rows().into_iter().find(|row| row["name"] == name).unwrap();
    let config = row["config"].to_string();
    Model::of_safetensors(config.as_bytes(), Some(stored(&row, |_| true)), name).unwrap()
}

/// The files of a model's original weights, all zero.
pub(crate) struct Files {
    pub config: String,
    /// Each with its name, by layers.
    pub weights: Vec<(String, Vec<u8>)>,
    /// `model.safetensors.index.json`
    pub index: String,
}

/// The files of a small model by its name, with so many layers in so many files.
pub(crate) fn files(name: &str, layers: u64, count: usize) -> Files {
    let mut row = rows().into_iter().find(|row| row["name"] == name).unwrap();
    row["config"]["num_hidden_layers"] = layers.into();
    for tensor in row["original"].as_array_mut().unwrap() {
        if tensor[1].is_string() {
            tensor[1] = format!("0-{}", layers - 1).into();
        }
    }
    let mut all = tensors(&row["original"]);
    let layer = |name: &str| name.split('.').find_map(|part| part.parse::<u64>().ok());
    all.sort_by_key(|(name, ..)| (if name.contains("embed") { 0 } else { layer(name).unwrap_or(layers) }, layer(name)));
    let (mut map, mut total) = (serde_json::Map::new(), 0);
    let mut file = |(at, tensors): (usize, &[Named])| {
        let named = format!("model-{:05}-of-{count:05}.safetensors", at + 1);
        let (mut text, mut end) = (serde_json::Map::new(), 0);
        for (name, dtype, shape) in tensors {
            let start = end;
            end += Dtype::named(dtype).unwrap().bytes(shape).unwrap();
            text.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] }));
            map.insert(name.clone(), named.clone().into());
        }
        total += end;
        let text = Json::from(text).to_string();
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + usize::try_from(end).unwrap(), 0);
        (named, bytes)
    };
    let weights = all.chunks(all.len().div_ceil(count)).enumerate().map(&mut file).collect();
    let index = json!({ "metadata": { "total_size": total }, "weight_map": map }).to_string();
    Files { config: row["config"].to_string(), weights, index }
}

fn config(row: &Json) -> ModelConfig {
    ModelConfig::of(row["config"].as_object().unwrap().clone()).unwrap()
}

/// The same of a model whose MTP blocks are left out.
fn config_without_mtp(row: &Json) -> ModelConfig {
    let mut config = row["config"].clone();
    if let Some(inner) = config["text_config"].as_object_mut() {
        inner.remove("mtp_num_hidden_layers");
    }
    ModelConfig::of(config.as_object().unwrap().clone()).unwrap()
}

/// The keys of a header that are not of its tokens, as texts.
fn keys(header: &Header) -> BTreeMap<String, String> {
    let ours = |key: &str| !key.starts_with("tokenizer.") && !key.starts_with("general.");
    header.metadata.iter().filter(|(key, _)| ours(key)).map(|(key, value)| (key.to_owned(), shown(value))).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::F32(number) => format!("{number:e}"),
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(array) => match &array.elements {
            Elements::Bool(flags) => format!("{flags:?}"),
            elements => format!("{:?}", elements.integers().unwrap_or_default()),
        },
        value => value.as_u64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
    }
}

/// A value that the converter wrote, likewise.
fn written(value: &Json) -> String {
    match value {
        Json::Number(number) if number.is_f64() => format!("{:e}", number.as_f64().unwrap() as f32),
        Json::String(text) => text.clone(),
        Json::Array(values) => {
            format!("[{}]", values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Without the last sizes of one, which a header may leave out.
fn dims(dims: &[u64]) -> &[u64] {
    let end = dims.iter().rposition(|&size| size != 1).map_or(1, |last| last + 1);
    &dims[..end]
}

/// What no plan reads, and is not made.
const UNREAD: [&str; 1] = ["gemma3n.activation_sparsity_scale"];

#[test]
fn headers_are_those_that_the_converter_writes() {
    let (mut whole, mut all, mut equal, mut of) = (0, 0, [0, 0], [0, 0]);
    let mut different = Vec::new();
    for row in rows() {
        let name = text(&row["name"]);
        let made = match original::header(&config(&row), &stored(&row, |_| true), name) {
            Ok(made) => made,
            Err(error) => {
                all += 1;
                different.push(format!("{name}: {error}"));
                continue;
            }
        };
        let before = different.len();
        let expected: BTreeMap<String, (String, Vec<u64>)> =
            tensors(&row["tensors"]).into_iter().map(|(name, ty, dims)| (name, (ty, dims))).collect();
        let found: BTreeMap<String, (String, Vec<u64>)> = made
            .tensors
            .iter()
            .map(|tensor| (tensor.name.to_string(), (tensor.ty.name().to_ascii_lowercase(), tensor.dims.clone())))
            .collect();
        for tensor in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (expected, found) = (expected.get(tensor), found.get(tensor));
            of[0] += 1;
            equal[0] += usize::from(expected == found);
            if expected != found {
                different.push(format!("{name}: {tensor}: {found:?}, not {expected:?}"));
            }
        }
        let architecture = text(&row["architecture"]);
        let ours = |(key, value): (&String, &Json)| {
            (key.starts_with(architecture) && !UNREAD.contains(&key.as_str())).then(|| (key.clone(), written(value)))
        };
        let expected: BTreeMap<String, String> = row["keys"].as_object().unwrap().iter().filter_map(ours).collect();
        let found = keys(&made);
        for key in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (expected, found) = (expected.get(key), found.get(key));
            of[1] += 1;
            equal[1] += usize::from(expected == found);
            if expected != found {
                different.push(format!("{name}: {key}: {found:?}, not {expected:?}"));
            }
        }
        let file_type = made.metadata.get("general.file_type").and_then(Value::as_u64);
        if file_type != row["keys"]["general.file_type"].as_u64() {
            different.push(format!("{name}: file type {file_type:?}"));
        }
        all += 1;
        whole += usize::from(different.len() == before);
    }
    let sum = format!("{whole} of {all} models whole, tensors {}/{}, keys {}/{}", equal[0], of[0], equal[1], of[1]);
    assert!(different.is_empty(), "{sum}\n{}", different.iter().take(80).cloned().collect::<Vec<_>>().join("\n"));
    assert_eq!((whole, all), (97, 97), "{sum}");
}

/// Where the header of a model differs from that in `tests/models`: part of the key's or the tensor's name, and why.
const APART: [(&str, &str, &str); 11] = [
    ("deepseek-v2-lite", "_exps.weight", "made with --fuse-gate-up-exps"),
    ("gemma-4-e2b", "attention.head_count_kv", "the same number for each layer"),
    ("glm-4.5-air", "blk.0.", "the test model has experts in the first block too"),
    ("glm-4.5-air", "blk.46.nextn.", "the test model's last block is one like the others"),
    ("gpt-oss-20b", "rope.dimension_count", "the script does not write it, and it is the length of a head"),
    ("llama4-scout", "attention.chunk_size", "the script does not write it, and llama.cpp takes 8192"),
    ("mamba-2.8b", "attention.head_count_kv", "the script does not write it, and llama.cpp takes 0"),
    ("nemotron-3-nano-30b-a3b", "_latent_", "the test model has tensors of larger ones"),
    ("nemotron-3-nano-30b-a3b", "attn_", "the test model has biases"),
    ("phi-4-mini", "rope.scaling.attn_factor", "the last digit"),
    ("nemotron-3-nano-30b-a3b", "context_length", "the script writes 2^20 where nothing is rotated"),
];

#[test]
fn headers_are_those_of_the_test_models() {
    let names: BTreeSet<String> = support::model_names().into_iter().collect();
    let (mut whole, mut all) = (0, 0);
    let mut different = Vec::new();
    for row in rows().iter().filter(|row| row["note"] != "small") {
        let name = text(&row["name"]);
        if !names.contains(name) {
            continue;
        }
        // the test models were made before MTP blocks of Qwen were
        let made =
            original::header(&config_without_mtp(row), &stored(row, |name| !name.starts_with("mtp.")), name).unwrap();
        let model = support::model(name);
        let before = different.len();
        let is_apart = |part: &str| APART.iter().any(|(model, inside, _)| *model == name && part.contains(inside));
        let of = |header: &Header| -> BTreeMap<String, Vec<u64>> {
            header.tensors.iter().map(|tensor| (tensor.name.to_string(), dims(&tensor.dims).to_vec())).collect()
        };
        let (expected, found) = (of(&model), of(&made));
        for tensor in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (expected, found) = (expected.get(tensor), found.get(tensor));
            if expected != found && !is_apart(tensor) {
                different.push(format!("{name}: {tensor}: {found:?}, not {expected:?}"));
            }
        }
        let (expected, found) = (keys(&model), keys(&made));
        // the test models name the size of their vocabulary, for they have no tokens
        for (key, expected) in expected.iter().filter(|(key, _)| !key.ends_with(".vocab_size")) {
            if found.get(key) != Some(expected) && !is_apart(key) {
                different.push(format!("{name}: {key}: {:?}, not {expected:?}", found.get(key)));
            }
        }
        all += 1;
        whole += usize::from(different.len() == before);
    }
    assert!(
        different.is_empty(),
        "{whole} of {all}\n{}",
        different.iter().take(80).cloned().collect::<Vec<_>>().join("\n")
    );
    assert_eq!((whole, all), (32, 32));
}

#[test]
fn plans_of_original_weights_are_those_of_the_files() {
    let names: BTreeSet<String> = support::model_names().into_iter().collect();
    // with other tensors, or with one in float32 that the script writes as the others and no quantiser changes
    let others = ["deepseek-v2-lite", "gemma-4-e2b", "glm-4.5-air", "nemotron-3-nano-30b-a3b"];
    let machine = Machine::described(&["24GiB", "12GiB"], "64GiB").unwrap();
    let mut planned = 0;
    for row in rows().iter().filter(|row| row["note"] != "small" && names.contains(text(&row["name"]))) {
        let name = text(&row["name"]);
        // MTP blocks are in one of both, or a tensor
        if others.contains(&name) || row["config"].to_string().contains("mtp_") || name == "qwen3-coder-next" {
            continue;
        }
        let made = MlxModel::new(config(row), Some(stored(row, |_| true))).converted(name).unwrap();
        let file = Model::from_header(support::model(name), name).unwrap();
        for engine in [EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024] {
            let plan = |model: &Model| {
                let model = model.requantised(FileType::Q4KM).unwrap();
                let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
                PlanRequest::new(engine, model, machine.clone(), settings).plan().unwrap()
            };
            let (made, file) = (plan(&made), plan(&file));
            assert_eq!(made.devices, file.devices, "{name}, {engine}");
            assert_eq!(made.layers, file.layers, "{name}, {engine}");
        }
        planned += 1;
    }
    assert_eq!(planned, 25);
}

/// Models whose files are published in types of which the recipe is known: how many files, and the largest error of their sizes
/// in thousandths of a percent, from the original weights and from the catalogue.
const PUBLISHED: [(&str, usize, u64, u64); 14] = [
    ("gemma4-31b", 29, 0, 0),
    ("gemma4-e2b", 10, 1140, 1140),
    ("glm-4.5-air", 1, 165, 166),
    ("gpt-oss-20b", 13, 256, 256),
    ("llama3.1-70b", 18, 0, 0),
    ("llama4-scout", 12, 0, 0),
    ("ministral-3-3b", 12, 0, 0),
    ("nemotron-3-nano-30b-a3b", 9, 0, 0),
    ("phi-4-mini", 6, 3053, 3053),
    ("qwen3-0.6b", 14, 0, 0),
    ("qwen3-30b-a3b", 5, 0, 0),
    ("qwen3-coder-next", 12, 171, 171),
    ("qwen3.5-35b-a3b", 29, 2105, 2105),
    ("qwen3.5-9b", 11, 0, 0),
];

#[test]
fn sizes_of_published_files_are_as_near_as_the_catalogues() {
    let rows = rows();
    let mut found: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
    for edition in mixture::editions() {
        let of_it = |row: &&Json| row["note"] != "small" && same(text(&row["name"]), edition.header);
        let Some(row) = rows.iter().find(of_it) else { continue };
        let Some(base) = catalogue::find(edition.header).and_then(|entry| entry.model(FileType::F32).ok()) else {
            continue;
        };
        // the catalogue has their MTP blocks under another name
        let made = MlxModel::new(config_without_mtp(row), Some(stored(row, |name| !name.starts_with("mtp."))));
        let made = made.converted("x").unwrap();
        for file in edition.files().filter(|file| edition.recipe.knows(file.quantisation().unwrap())) {
            let to = file.quantisation().unwrap();
            let error = |model: &Model| {
                let bytes = edition.recipe.tensor_bytes(to, model).unwrap();
                (bytes as f64 / file.tensor_bytes() as f64 - 1.0).abs() * 100.0
            };
            let of_model = found.entry(edition.header.to_owned()).or_default();
            of_model.0 += 1;
            (of_model.1, of_model.2) = (of_model.1.max(error(&made)), of_model.2.max(error(&base)));
        }
    }
    let thousandths = |error: f64| (error * 1000.0).round() as u64;
    let found: Vec<_> = found
        .iter()
        .map(|(name, (files, made, base))| (name.as_str(), *files, thousandths(*made), thousandths(*base)))
        .collect();
    assert!(found.iter().all(|(.., made, base)| made <= base), "{found:?}");
    assert_eq!(found, PUBLISHED);
}

/// Whether a model of these rows is one of the catalogue.
fn same(name: &str, entry: &str) -> bool {
    name == entry || name.replacen("gemma-4", "gemma4", 1) == entry
}

/// Models of made-up sizes that no real one of their kind has, and a loader refuses.
const SIZED_OTHERWISE: [&str; 3] = ["gemma3n", "olmoe", "ernie 4.5 moe"];

#[test]
fn what_the_converter_writes_is_loaded() {
    let machine = Machine::described(&["24GiB"], "64GiB").unwrap();
    let mut refused = Vec::new();
    for row in rows().iter().filter(|row| !SIZED_OTHERWISE.contains(&text(&row["name"]))) {
        let name = text(&row["name"]);
        let model = MlxModel::new(config(row), Some(stored(row, |_| true))).converted(name).unwrap();
        let settings = Settings { ctx: Context::Tokens(2048), ..Settings::default() };
        match PlanRequest::new(EngineId::LlamaCpp, model, machine.clone(), settings).plan() {
            Ok(plan) => {
                let why = plan.uncertainties.iter().filter(|why| why.is_refusal());
                refused.extend(why.map(|why| format!("{name}: {}", why.reason)));
            }
            Err(error) => refused.push(format!("{name}: {error}")),
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn what_is_not_known_is_a_sentence() {
    let row = rows().into_iter().find(|row| row["name"] == "llama yarn").unwrap();
    let said = |config: ModelConfig, stored: &Stored| original::header(&config, stored, "x").unwrap_err().to_string();
    let all = stored(&row, |_| true);
    let with = |key: &str, value: Json| {
        let mut config = row["config"].as_object().unwrap().clone();
        config.remove("architectures");
        config.insert(key.to_owned(), value);
        ModelConfig::of(config).unwrap()
    };
    assert!(said(with("model_type", "novel".into()), &all).contains("models of type 'novel' is not known"));
    assert!(said(with("num_hidden_layers", 0.into()), &all).contains("config.json says 0 layers"));
    let awq = json!({ "quant_method": "awq", "bits": 4 });
    assert!(said(with("quantization_config", awq), &all).contains("its weights are stored as awq"));
    let mut other = all.clone();
    let tensor = |name: &str, shape: &[u64]| safetensors::Tensor {
        name: name.to_owned(),
        dtype: Dtype::Bf16,
        shape: shape.to_vec(),
        bytes: shape.iter().product::<u64>() * 2,
    };
    let odd = tensor("model.layers.0.self_attn.w.weight", &[4, 4]);
    other.add(safetensors::Header { tensors: vec![odd], ..safetensors::Header::default() }).unwrap();
    let refused = said(with("vocab_size", 128.into()), &other);
    assert!(refused.contains("nothing is known of tensor 'model.layers.0.self_attn.w.weight'"), "{refused}");
}
