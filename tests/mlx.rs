//! Models of MLX: what mlx-lm's own classes hold, to the byte, and what is read of their files.
//!
//! `mlx/classes.jsonl.gz` has, for each model, its `config.json` (`t: model`), the arrays of its weights in each mode
//! (`t: weights`: module, layers, arrays) and those of its caches at many lengths (`t: cache`), as the classes of mlx-lm 0.32.2
//! made them without allocating anything. `mlx/ollama_types.jsonl.gz` has the type that Ollama's importer of August 2026 gives
//! each published tensor. `mlx/stores.jsonl.gz` has the files of stores and folders, headers without their data, and
//! `mlx/expected.jsonl` what a reader finds there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll::engine::mlx::caches::{self, Feed, Held};
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Machine;
use plimsoll::model::Model;
use plimsoll::model::config::ModelConfig;
use plimsoll::model::mlx::ollama_types::{self, Importer};
use plimsoll::model::mlx::{Allocator, Architecture, Array, Family, MlxModel, MlxWeights, Mode, Scheme, Width};
use plimsoll::plan::Plan;
use plimsoll::safetensors::Dtype;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::source::{Roots, SourceError, load, no_progress};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::llama_cpp::lines;
use crate::support;

/// A model of the classes, with what is said of it.
struct Class {
    name: String,
    config: ModelConfig,
    make_cache: bool,
    params: u64,
    rows: Vec<Value>,
}

fn read(file: &str) -> Vec<Value> {
    lines(&support::tests().join("mlx").join(file))
}

fn config_of(row: &Value) -> ModelConfig {
    ModelConfig::of(row["config"].as_object().unwrap().clone()).unwrap()
}

fn classes() -> Vec<Class> {
    let mut all: Vec<Class> = Vec::new();
    for row in read("classes.jsonl.gz") {
        if row["t"] == "model" {
            all.push(Class {
                name: row["name"].as_str().unwrap().to_owned(),
                config: config_of(&row),
                make_cache: row["make_cache"].as_bool().unwrap(),
                params: row["params"].as_u64().unwrap(),
                rows: Vec::new(),
            });
        } else {
            all.last_mut().unwrap().rows.push(row);
        }
    }
    all
}

/// `0-2,5` as numbers.
fn numbers(ranges: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse().unwrap()
    };
    ranges.split(',').flat_map(range).collect()
}

/// As the lines name types.
fn short(dtype: Dtype) -> String {
    dtype.name().to_ascii_lowercase()
}

fn shown(array: &Array) -> String {
    format!("{}{:?}", short(array.dtype), array.shape).replace(", ", ",")
}

fn mode(name: &str) -> Mode {
    match name {
        "as_published" => Mode::Experts(Width { scheme: Scheme::Float, bits: 4, group: 32 }),
        name => name.parse().unwrap(),
    }
}

/// The arrays of a line, by module and name.
fn told_weights(row: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut told = BTreeMap::new();
    for module in row["rows"].as_array().unwrap() {
        let path = module[0].as_str().unwrap();
        let array =
            |(name, array): (&String, &Value)| (name.clone(), format!("{}{}", array[0].as_str().unwrap(), array[1]));
        let arrays: BTreeMap<String, String> = module[2].as_object().unwrap().iter().map(array).collect();
        match module[1].as_str() {
            None => drop(told.insert(path.to_owned(), arrays)),
            Some(layers) => {
                told.extend(
                    numbers(layers).iter().map(|layer| (path.replace('*', &layer.to_string()), arrays.clone())),
                );
            }
        }
    }
    told
}

#[test]
fn weights_agree_to_the_byte() {
    let (mut agree, mut all) = (0, 0);
    for Class { name, config, make_cache, params, rows } in classes() {
        let model = Architecture::of(&config).unwrap();
        assert_eq!((model.parameters(), model.own_caches), (params, make_cache), "{name}");
        for row in rows.iter().filter(|row| row["t"] == "weights") {
            all += 1;
            let what = format!("{name} in {}", row["mode"]);
            let weights = MlxWeights::of(&model, &mode(row["mode"].as_str().unwrap()), Dtype::Bf16);
            if let Some(error) = row["error"].as_str() {
                assert!(weights.is_err(), "{what}: {error}");
                agree += 1;
                continue;
            }
            let weights = weights.unwrap();
            let mut made: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
            for module in &weights.modules {
                made.insert(
                    module.path.clone(),
                    module.arrays.iter().map(|(name, array)| (name.clone(), shown(array))).collect(),
                );
            }
            let told = told_weights(row);
            for (path, arrays) in &told {
                assert_eq!(made.get(path), Some(arrays), "{what}: {path}");
            }
            assert_eq!(made.len(), told.len(), "{what}");
            for (allocator, key) in [(Allocator::Data, "bytes"), (Allocator::Metal, "metal"), (Allocator::Cuda, "cuda")]
            {
                assert_eq!(Some(weights.bytes(allocator)), row[key].as_u64(), "{what}: {key}");
            }
            agree += 1;
        }
    }
    assert_eq!(agree, all);
    assert!(all > 1000, "{all}");
}

fn feed(row: &Value) -> Feed {
    let number = |key: &str| row[key].as_u64();
    let from_start = Feed::prompt(number("tokens").unwrap());
    Feed {
        chunk: if row["decode"] == true { None } else { number("chunk").or(from_start.chunk) },
        generated: number("extra").unwrap_or(0),
        kv_bits: number("kv"),
        quantised_from: number("start").unwrap_or(from_start.quantised_from),
        max_kv_size: number("max_kv_size"),
        ..from_start
    }
}

/// What is held, as the lines have it: layers of equal caches together.
fn grouped(held: &Held) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, cache) in held.layers.iter().flatten().enumerate() {
        let arrays: Vec<String> = cache.arrays.iter().map(shown).collect();
        let line = format!("{} {}", cache.class, arrays.join(" "));
        match groups.iter_mut().find(|(known, _)| *known == line) {
            Some((_, layers)) => layers.push(at),
            None => groups.push((line, vec![at])),
        }
    }
    groups
}

fn told_caches(moment: &Value) -> Vec<(String, Vec<usize>)> {
    let one = |cache: &Value| {
        let array = |array: &Value| format!("{}{}", array[0].as_str().unwrap(), array[1]);
        let arrays: Vec<String> = cache[2].as_array().unwrap().iter().map(array).collect();
        (format!("{} {}", cache[0].as_str().unwrap(), arrays.join(" ")), numbers(cache[1].as_str().unwrap()))
    };
    moment["caches"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn caches_agree_to_the_byte() {
    let mut all = 0;
    for Class { name, config, rows, .. } in classes() {
        let model = Architecture::of(&config).unwrap();
        for row in rows.iter().filter(|row| row["t"] == "cache") {
            all += 1;
            let feed = feed(row);
            let what = format!("{name}: {feed:?}");
            match (caches::held(&model, &feed, Dtype::Bf16), row["error"].as_str()) {
                (Ok(held), None) => {
                    for (made, key) in [(&held.after_prompt, "after_prompt"), (&held.after, "after")] {
                        if !row[key].is_null() {
                            assert_eq!(grouped(made), told_caches(&row[key]), "{what}: {key}");
                            assert_eq!(Some(made.bytes()), row[key]["bytes"].as_u64(), "{what}: {key}");
                        }
                    }
                }
                (Err(said), Some(error)) => {
                    // heads that no group divides are refused by MLX itself, in its own words
                    let is_same = error.contains(&said) || error.contains("divisible by the quantization group size");
                    assert!(is_same, "{what}: {said}, not {error}");
                }
                (made, told) => panic!("{what}: {:?}, not {told:?}", made.map(|_| ())),
            }
        }
    }
    assert!(all > 2000, "{all}");
}

fn a_mac() -> Machine {
    Machine::described(&["M4 Max 128GB"], "128GiB").unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "written where it is asked")]
fn plan_of(config: &ModelConfig, settings: Settings) -> Plan {
    let model = Model::of_mlx(MlxModel::new(config.clone(), None), "a model").unwrap();
    let request = PlanRequest::new(EngineId::Mlx, model, a_mac(), Settings { quant: None, ..settings.clone() });
    let request = settings.quant.map_or(request.clone(), |quant| request.quantised(quant).unwrap());
    request.plan().unwrap()
}

#[test]
fn plans_have_these_figures() {
    for Class { name, config, rows, .. } in classes() {
        let weights = rows.iter().find(|row| row["mode"] == "q4g64").unwrap();
        for row in rows.iter().filter(|row| row["t"] == "cache" && row["tokens"] == 4096 && row["after"].is_object()) {
            if ["decode", "max_kv_size", "start"].iter().any(|key| !row[key].is_null()) {
                continue;
            }
            let quantised = row["kv"].as_u64().map(|bits| if bits == 8 { CacheType::Q8_0 } else { CacheType::Q4_0 });
            let settings = Settings {
                ctx: Context::Tokens(4096),
                quant: Some("4bit".parse().unwrap()),
                cache_type_k: quantised,
                cache_type_v: quantised,
                ..Settings::default()
            };
            let plan = plan_of(&config, settings);
            let gpu = &plan.devices[0];
            assert_eq!(Some(gpu.weights.0), weights["metal"].as_u64(), "{name}");
            assert_eq!(Some(gpu.cache.0), row["after"]["bytes"].as_u64(), "{name}");
            assert_eq!(gpu.after_prompt.map(|bytes| bytes.0), row["after_prompt"]["bytes"].as_u64(), "{name}");
            let layers: Bytes = plan.layers.iter().map(|layer| layer.weights + layer.cache).sum();
            assert_eq!(layers, gpu.weights + gpu.cache, "{name}: parts sum to the whole");
            assert_eq!(plan.offloaded, plan.layers.len(), "{name}");
        }
    }
}

/// One copy of the scores, as seen in jundot/omlx, issue 3381: 18,560 MiB at heads of 256.
#[test]
fn scores_are_stored_where_no_kernel_serves() {
    let config = json!({"model_type": "qwen3_5", "text_config": {
        "hidden_size": 4096, "num_hidden_layers": 8, "intermediate_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 256, "vocab_size": 1024, "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "max_position_embeddings": 262_144}});
    let config = ModelConfig::of(config.as_object().unwrap().clone()).unwrap();
    let scores = |plan: &Plan| {
        plan.graph.full.terms().iter().find(|term| term.name == "attention scores").map(|term| term.bytes)
    };
    let at = |tokens: u64| plan_of(&config, Settings { ctx: Context::Tokens(tokens), ..Settings::default() });
    // 74,240 tokens in chunks of 2048 are 36 and a rest of 512: the last whole chunk has the most
    assert_eq!(scores(&at(73_729)), Some(Bytes(64 * 2048 * 73_728 * 2)));
    assert_eq!(scores(&at(74_240 + 2048 - 512 + 1)), Some(Bytes(64 * 2048 * 75_776 * 2)));
    let fused = classes().into_iter().find(|class| class.name == "qwen3-8b").unwrap();
    assert_eq!(scores(&plan_of(&fused.config, Settings::default())), None);
}

#[test]
fn ollama_types_agree() {
    let mut config: Option<ModelConfig> = None;
    let (mut sums, mut told): (BTreeMap<String, u64>, BTreeMap<String, u64>) = (BTreeMap::new(), BTreeMap::new());
    let mut all = 0;
    for row in read("ollama_types.jsonl.gz") {
        if row["t"] == "ollama" {
            assert_eq!(sums, told);
            sums.clear();
            config = Some(config_of(&row));
            told = row["bytes"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(to, bytes)| (to.clone(), bytes.as_u64().unwrap()))
                .collect();
            continue;
        }
        let config = config.as_ref().unwrap();
        let layers = row["layers"].as_str().map_or_else(|| vec![0], numbers);
        let shape: Vec<u64> = row["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect();
        for (asked, told) in row["types"].as_object().unwrap() {
            let importer = Importer::new(config, asked.parse().unwrap());
            for layer in &layers {
                let name = row["name"].as_str().unwrap().replace('*', &layer.to_string());
                let made = importer.type_of(&name, &shape);
                assert_eq!(
                    made.map(|made| made.to_string()).unwrap_or_default(),
                    told.as_str().unwrap(),
                    "{name} as {asked}"
                );
                let arrays = ollama_types::arrays(&name, &shape, Dtype::Bf16, made);
                *sums.entry(asked.clone()).or_default() += arrays.iter().map(Array::bytes).sum::<u64>();
                all += 1;
            }
        }
    }
    assert_eq!(sums, told);
    assert!(all > 5000, "{all}");
}

/// Writes the stores and folders below `root`; blobs whose data is not there end behind their headers.
pub(crate) fn stores(root: &Path) {
    for row in read("stores.jsonl.gz") {
        let path = root.join(row["path"].as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match row["header"].as_str() {
            None => fs::write(path, row["text"].as_str().unwrap()).unwrap(),
            Some(header) => {
                let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
                fs::write(&path, bytes).unwrap();
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(row["size"].as_u64().unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn stores_and_folders_are_read() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    let expected = fs::read_to_string(support::tests().join("mlx/expected.jsonl")).unwrap();
    for row in expected.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let (store, name) = (row["store"].as_str().unwrap(), row["name"].as_str().unwrap());
        let root = folder.path().join(store);
        let (reference, roots) = if store == "hf" {
            (root.join(name).display().to_string(), Roots::default())
        } else {
            (name.to_owned(), Roots { ollama: vec![root], ..Roots::default() })
        };
        let opened = load(&reference, &roots, &mut no_progress).unwrap();
        let stored = opened.model.as_ref().unwrap().mlx.as_ref().unwrap().stored.clone().unwrap();
        let data: u64 = stored.tensors.iter().map(|tensor| tensor.bytes).sum();
        if let Some(layers) = &stored.manifest {
            assert_eq!(Some(layers.layers as u64), row["tensor_layers"].as_u64(), "{name}");
            assert_eq!(Some(layers.bytes), row["tensor_bytes"].as_u64(), "{name}");
            assert_eq!(Some(layers.file_type.as_str()), row["file_type"].as_str(), "{name}");
            assert_eq!(layers.draft, name == "with-draft:nvfp4");
            assert!(data < layers.bytes, "{name}: headers count too");
        } else {
            assert_eq!(Some(stored.tensors.len() as u64), row["tensors"].as_u64(), "{name}");
            assert_eq!(Some(data), row["tensor_bytes"].as_u64(), "{name}");
            let package = opened.package(&mut no_progress).unwrap();
            assert_eq!(Some(package.model.parameters), row["parameters"].as_u64(), "{name}");
            assert_eq!((package.model.bytes.0, package.model.file_type), (data, Some("4bit")), "{name}");
        }
    }
}

fn ollama_plan(root: &Path, name: &str, gpu: &str) -> Plan {
    let roots = Roots { ollama: vec![root.to_owned()], ..Roots::default() };
    let package = load(name, &roots, &mut no_progress).unwrap().package(&mut no_progress).unwrap();
    let machine = Machine::described(&[gpu], "64GiB").unwrap();
    let settings = Settings { ctx: Context::Tokens(4096), ..Settings::default() };
    PlanRequest::new(EngineId::Ollama, package.model, machine, settings).plan().unwrap()
}

#[test]
fn ollama_checks_the_files_and_not_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    let root = folder.path().join("headers");
    let name = "qwen3.5:9b-four-layers-nvfp4";
    let fits = ollama_plan(&root, name, "name=M,backend=Metal,total=8GiB,free=8GiB");
    assert_eq!((fits.refusal.as_deref(), fits.devices[0].reserved()), (None, Bytes::mib(512)));
    assert_eq!(fits.load_check, Some(Bytes(3_833_726_713)));
    // the MTP head has a cache like that of a layer with full attention
    let full = fits.layers.iter().map(|layer| layer.per_token).max().unwrap();
    assert_eq!(fits.layers.last().unwrap().cache, Bytes(full.0 * 4096));
    let short = ollama_plan(&root, name, "name=M,backend=Metal,total=4GiB,free=4GiB");
    assert_eq!(
        short.refusal.as_deref(),
        Some("model requires 3.6 GiB but only 3.5 GiB are available (after 512.0 MiB overhead)")
    );
    // vision is not kept, the draft is
    let drafted = ollama_plan(&root, "with-draft:nvfp4", "name=M,backend=Metal,total=8GiB,free=8GiB");
    let lost = 5_114_331_978 - drafted.devices[0].weights.0;
    assert!((768 * 768 * 2..768 * 768 * 2 + 4096).contains(&lost), "{lost}");
    assert!(fits.decided.iter().any(|note| note.contains("num_ctx limits nothing")), "{:?}", fits.decided);
}

/// A folder with one small model, changed by `change`.
fn small(change: impl FnOnce(&Path)) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    stores(folder.path());
    let root = folder.path().join("hf/qwen3-30b-a3b-two-layers-4bit");
    change(&root);
    let opened = load(&root.display().to_string(), &Roots::default(), &mut no_progress);
    opened.map(|opened| opened.name).map_err(|error: SourceError| error.to_string())
}

#[test]
fn damaged_folders_say_where() {
    let shard = "model-00002-of-00002.safetensors";
    let cut = |size: u64| {
        small(|root| fs::OpenOptions::new().write(true).open(root.join(shard)).unwrap().set_len(size).unwrap())
    };
    let whole = small(|_| {}).unwrap();
    assert_eq!(whole, "qwen3-30b-a3b-two-layers-4bit");
    for (made, words) in [
        (cut(0), "is empty"),
        (cut(5), "ends inside the length of its header: 8 bytes are needed from byte 0, but only 5 are left"),
        (cut(100), "ends inside its header"),
        (cut(10_000), "ends inside the data of tensor"),
        (cut(1 << 40), "bytes after the data of its last tensor"),
        (small(|root| fs::remove_file(root.join(shard)).unwrap()), "shard 2 of 2, is missing"),
        (
            small(|root| fs::write(root.join("config.json"), "{\"model_type\": \"qwen3_moe\",").unwrap()),
            "not JSON at line 1",
        ),
        (
            small(|root| {
                fs::write(root.join("model.safetensors.index.json"), "{\"weight_map\": {\"a\": \"../b\"}}").unwrap();
            }),
            "no file beside it",
        ),
        (
            small(|root| {
                let index = format!("{{\"weight_map\": {{\"no\\u001bsuch\": \"{shard}\"}}}}");
                fs::write(root.join("model.safetensors.index.json"), index).unwrap();
            }),
            "has tensor 'no\\u{1b}such', but it has not",
        ),
    ] {
        let said = made.unwrap_err();
        assert!(said.contains(words), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let said = load(&folder.path().display().to_string(), &Roots::default(), &mut no_progress).unwrap_err().to_string();
    assert!(said.contains("a folder without config.json"), "{said}");
}

#[test]
fn other_engines_and_modes_say_what_to_use() {
    let class = classes().into_iter().find(|class| class.name == "qwen3-8b").unwrap();
    let model = Model::of_mlx(MlxModel::new(class.config, None), "a model").unwrap();
    let request = PlanRequest::new(EngineId::LlamaCpp, model, a_mac(), Settings::default());
    let said = request.plan().unwrap_err().to_string();
    assert!(said.contains("safetensors"), "{said}");
    assert!(request.quantised("Q4_K_M".parse::<plimsoll::model::mixture::Quantisation>().unwrap()).is_none());
    let gguf = plimsoll::catalogue::model("qwen3-8b").unwrap();
    let said = PlanRequest::new(EngineId::Mlx, gguf, a_mac(), Settings::default()).plan().unwrap_err().to_string();
    assert!(said.contains("GGUF"), "{said}");
}

/// Models of the catalogue, and the class whose `config.json` theirs must amount to.
const IN_CATALOGUE: [(&str, &str); 21] = [
    ("llama3.1-8b", "llama3.1-8b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("ministral-3-3b", "ministral-3-3b"),
    ("qwen2.5-7b", "qwen2.5-7b"),
    ("qwen3-8b", "qwen3-8b"),
    ("qwen3-30b-a3b", "qwen3-30b-a3b"),
    ("qwen3.5-9b", "qwen3.5-9b"),
    ("qwen3.5-35b-a3b", "qwen3.5-35b-a3b"),
    ("gemma2-9b", "gemma2-9b"),
    ("gemma3-4b", "gemma3-4b"),
    ("gemma4-e2b", "gemma-4-e2b"),
    ("gemma4-31b", "gemma-4-31b"),
    ("gpt-oss-20b", "gpt-oss-20b"),
    ("glm4-9b", "glm4-9b"),
    ("granite3-8b", "granite3-8b"),
    ("llama4-scout", "llama4-scout"),
    ("mamba-2.8b", "mamba-2.8b"),
    ("nemotron-3-nano-30b-a3b", "nemotron-3-nano-30b-a3b"),
    ("smollm3-3b", "smollm3-3b"),
    ("deepseek-v2-lite", "deepseek-v2-lite"),
    ("command-r-35b", "command-r-35b"),
];

#[test]
fn models_of_the_catalogue_are_planned_as_their_originals() {
    let classes = classes();
    for (name, class) in IN_CATALOGUE {
        let class = classes.iter().find(|known| known.name == class).unwrap();
        for quant in ["4bit", "nvfp4", "mixed_3_6"] {
            let settings =
                Settings { ctx: Context::Tokens(5000), quant: Some(quant.parse().unwrap()), ..Settings::default() };
            let model = plimsoll::catalogue::model(name).unwrap();
            let request = PlanRequest::new(EngineId::Mlx, model, a_mac(), Settings { quant: None, ..settings.clone() });
            let Some(request) = request.quantised(settings.quant.unwrap()) else { panic!("{name} as {quant}") };
            if name == "mamba-2.8b" && quant == "mixed_3_6" {
                assert!(request.plan().unwrap_err().to_string().contains("down_proj"));
                continue;
            }
            let (made, told) = (request.plan().unwrap(), plan_of(&class.config, settings));
            let figures = |plan: &Plan| (plan.devices[0].weights, plan.devices[0].cache, plan.graph.full.bytes);
            assert_eq!(figures(&made), figures(&told), "{name} as {quant}");
        }
    }
}

fn any_family() -> impl Strategy<Value = ModelConfig> {
    select(classes().into_iter().map(|class| class.config).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn more_tokens_never_hold_less(config in any_family(), tokens in 1_u64..40_000, more in 0_u64..5000) {
        let model = Architecture::of(&config).unwrap();
        let held = |tokens| caches::held(&model, &Feed::prompt(tokens), Dtype::Bf16).unwrap().after.bytes();
        prop_assert!(held(tokens) <= held(tokens + more));
    }

    #[test]
    fn fewer_bits_never_hold_more(config in any_family(), low in 2_u64..=8, high in 2_u64..=8) {
        let model = Architecture::of(&config).unwrap();
        let bytes = |bits| MlxWeights::of(&model, &Mode::Uniform(Width::affine(bits, 64)), Dtype::Bf16).unwrap().bytes(Allocator::Metal);
        prop_assert!(bytes(low.min(high)) <= bytes(low.max(high)));
    }

    #[test]
    fn no_config_panics(kind in select(Family::types().collect::<Vec<_>>()), numbers in prop::collection::vec(-2_i64..1 << 50, 12)) {
        let keys = ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
            "intermediate_size", "num_experts", "moe_intermediate_size", "sliding_window", "kv_lora_rank", "full_attention_interval"];
        let mut config: serde_json::Map<String, Value> =
            keys.iter().zip(&numbers).map(|(key, number)| ((*key).to_owned(), json!(number % 70_000))).collect();
        config.insert("num_hidden_layers".to_owned(), json!(numbers[1] % 20_000));
        config.insert("model_type".to_owned(), json!(kind));
        let config = ModelConfig::of(config).unwrap();
        if numbers[1] % 20_000 < 200 && let Ok(model) = Architecture::of(&config) {
            let _ = caches::held(&model, &Feed::prompt(100_000), Dtype::F16).map(|held| held.after.bytes());
            let _ = MlxWeights::of(&model, &"mixed_3_6".parse().unwrap(), Dtype::F16).map(|weights| weights.bytes(Allocator::Cuda));
        }
    }
}
