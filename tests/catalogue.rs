//! The built-in catalogue: every entry builds a complete header, and the headers match published files.

mod names;
mod projectors;
pub mod published;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::catalogue::{self, CatalogueEntry, Use};
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::gguf::{FileType, GgmlType, Tensor, Value};
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::source::{self, Roots, SourceError};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::{fixtures, support};

pub fn entry(name: &str) -> &'static CatalogueEntry {
    let found = catalogue::find(name).unwrap_or_else(|| panic!("the catalogue has no {name}"));
    catalogue::all().iter().find(|entry| **entry == found).unwrap()
}

pub fn model(entry: &CatalogueEntry, quantisation: FileType) -> Model {
    entry.model(quantisation).unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

/// Captions name the day of the catalogue. `PLIMSOLL_REGENERATE=1 cargo test catalogue` makes it today if an entry has
/// changed.
#[test]
fn the_catalogue_is_as_old_as_it_says() {
    let assets = [include_bytes!("../assets/catalogue.jsonl").as_slice(), include_bytes!("../assets/projectors.jsonl")];
    // FNV-1a
    let hash = assets
        .concat()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let path = support::root().join("assets/catalogue.day");
    let known = std::fs::read_to_string(&path).unwrap();
    if known.trim_end().ends_with(&format!("{hash:#018x}")) {
        return;
    }
    assert!(
        std::env::var_os("PLIMSOLL_REGENERATE").is_some(),
        "the catalogue has changed: PLIMSOLL_REGENERATE=1 cargo test catalogue notes the day"
    );
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    std::fs::write(path, format!("{} {hash:#018x}\n", day(since.as_secs() / 86_400))).unwrap();
}

/// The date of a day after 1970-01-01, as `2026-11-26`.
fn day(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[test]
fn days_have_dates() {
    for (days, date) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_783, "2026-11-26")] {
        assert_eq!(day(days), date);
    }
}

#[test]
fn every_entry_builds_a_complete_model() {
    assert!(catalogue::all().len() >= 60);
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
    let machine = Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: Vec::new(),
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    for entry in catalogue::all() {
        let model = model(entry, entry.quantisation);
        let names: BTreeSet<_> = model.header.tensors.iter().map(|tensor| &tensor.name).collect();
        assert_eq!(names.len(), model.header.tensors.len(), "{}: a name stands twice", entry.name);
        assert_eq!(model.file_type, Some(entry.quantisation.name()), "{}", entry.name);
        assert!(model.hyper.context_train.is_some() && model.hyper.vocabulary.is_some(), "{}", entry.name);
        for block in 0..model.block_count() {
            assert!(names.iter().any(|name| name.starts_with(&format!("blk.{block}."))), "{}: {block}", entry.name);
        }
        let model = PreparedModel::from(model);
        for engine in [EngineId::Ollama, EngineId::LlamaCpp] {
            engine::plan(engine, &model, &machine, &Settings::default())
                .unwrap_or_else(|error| panic!("{} by {engine}: {error}", entry.name));
        }
    }
}

#[test]
fn every_architecture_is_planned_by_every_engine() {
    let gpu = Gpu { free: Bytes::gib(23), ..fixtures::card(Backend::Cuda, Bytes::gib(24)) };
    let ram = Ram { total: Bytes::gib(512), free: Bytes::gib(500), swap_free: Bytes::ZERO, bandwidth: None };
    let machine = Machine { os: Os::Linux, ram, ..fixtures::machine(vec![gpu]) };
    let settings = Settings { ctx: Context::Tokens(2048), gpu_layers: GpuLayers::Count(2), ..Settings::default() };
    let mut seen = BTreeSet::new();
    for entry in catalogue::all() {
        let model = PreparedModel::from(model(entry, entry.quantisation));
        if !seen.insert(model.architecture.clone()) {
            continue;
        }
        for engine in [EngineId::LlamaCpp, EngineId::Ollama] {
            let plan = engine::plan(engine, &model, &machine, &settings)
                .unwrap_or_else(|error| panic!("{} by {engine}: {error}", entry.name));
            assert!(plan.totals.weights >= Bytes(model.bytes.0 / 10 * 9), "{}", entry.name);
            assert!(plan.totals.graph > Bytes::ZERO, "{}", entry.name);
        }
    }
}

#[test]
fn every_entry_says_what_it_is_for() {
    for entry in catalogue::all() {
        let uses: BTreeSet<_> = entry.uses.iter().collect();
        assert!(!uses.is_empty() && uses.len() == entry.uses.len(), "{}: {:?}", entry.name, entry.uses);
        let is_month = |text: &String| {
            // the year alone where the month is not known
            let (year, month) = text.split_once('-').unwrap_or((text, "1"));
            year.len() == 4 && year.parse::<u32>().is_ok() && matches!(month.parse(), Ok(1..=12))
        };
        assert!(entry.released.as_ref().is_none_or(is_month), "{}: {:?}", entry.name, entry.released);
        let kind = |wanted: &str| entry.name.contains(wanted);
        assert_eq!(uses.contains(&Use::Reranking), kind("reranker"), "{}", entry.name);
        assert!(uses.contains(&Use::Embedding) || !(kind("embed") || kind("bert")), "{}", entry.name);
        assert!(uses.contains(&Use::Code) || !(kind("coder") || kind("code")), "{}", entry.name);
        assert!(uses.contains(&Use::Vision) || !(kind("-vl-") || kind("vl-")), "{}", entry.name);
    }
    assert!(catalogue::all().iter().all(|entry| entry.released.is_some()));
    for used in Use::ALL {
        assert!(catalogue::all().iter().any(|entry| entry.uses.contains(&used)), "{}", used.name());
        assert_eq!(serde_json::to_value(used).unwrap(), used.name());
    }
}

#[test]
fn no_name_means_two_models() {
    let mut named: BTreeMap<String, &str> = BTreeMap::new();
    for entry in catalogue::all() {
        assert_eq!(catalogue::find(&entry.name).as_ref(), Some(entry));
        for name in entry.names() {
            for name in [name.to_owned(), name.to_uppercase()] {
                assert_eq!(catalogue::find(&name).as_ref(), Some(entry), "{name}");
            }
            let other = named.insert(name.to_lowercase(), &entry.name);
            assert!(other.is_none_or(|other| other == entry.name), "{name}: {} and {other:?}", entry.name);
        }
    }
}

/// Tensors that headers in `tests/models` have and published files lack: optional ones that llama.cpp accepts, and fused
/// ones. The catalogue follows the files.
const OPTIONAL: [(&str, &[&str]); 6] = [
    // made from one in F32; published files were made from one in BF16, which what is never quantised stays in
    ("gemma-4-e2b", &["per_layer_model_proj"]),
    // the type that a quantiser of 2024 gave it
    ("deepseek-v2-lite-2024", &["attn_kv_b."]),
    ("glm-4.5-air", &["attn_q_norm.weight", "attn_k_norm.weight", "blk.0."]),
    ("nemotron-3-nano-30b-a3b", &["ffn_latent", "attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"]),
    ("deepseek-v2-lite", &["ffn_gate_up_exps"]),
    ("stablelm2-1.6b", &[]),
];

/// Tensors that the catalogue has and those headers lack.
const PUBLISHED: [(&str, &[&str]); 5] = [
    ("gemma-4-e2b", &["per_layer_model_proj"]),
    ("deepseek-v2-lite-2024", &["attn_kv_b."]),
    ("glm-4.5-air", &["nextn.", "blk.0."]),
    ("deepseek-v2-lite", &["ffn_gate_exps", "ffn_up_exps"]),
    ("stablelm2-1.6b", &["ffn_norm.bias"]),
];

#[test]
fn known_headers_are_rebuilt_tensor_for_tensor() {
    let mut checked = 0;
    for name in support::model_names() {
        // names of synthetic models are those of architectures
        let real = support::tests().join(format!("models/{name}.json.gz")).exists();
        let Some(entry) = catalogue::find(&name).filter(|_| real) else { continue };
        let known = support::model(&name);
        let file_type = known.metadata.get("general.file_type").and_then(Value::as_u64).unwrap();
        let built = model(&entry, FileType::from_number(file_type).unwrap());
        assert_eq!(Some(built.architecture.as_str()), known.metadata.get("general.architecture").unwrap().as_str());

        let without = |tensors: &[Tensor], lists: &[(&str, &[&str])]| -> BTreeMap<_, _> {
            let excused = lists.iter().find(|(model, _)| *model == name).map_or(&[][..], |(_, parts)| parts);
            let counts = |tensor: &&Tensor| !excused.iter().any(|part| tensor.name.contains(part));
            tensors.iter().filter(counts).map(|tensor| (tensor.name.clone(), tensor.clone())).collect()
        };
        let (known, built) = (without(&known.tensors, &OPTIONAL), without(&built.header.tensors, &PUBLISHED));
        for (tensor, known) in &known {
            assert_eq!(built.get(tensor), Some(known), "{name}");
        }
        assert_eq!(built.len(), known.len(), "{name}");
        checked += 1;
    }
    assert!(checked >= 36, "{checked}");
}

/// The templates rebuild the headers that llama.cpp measured, miniatures and whole models, from their hyperparameters
/// alone.
#[test]
fn described_headers_are_rebuilt_tensor_for_tensor() {
    // Gemma 3n's has no key for its streams, Step's MTP block is a dense one, which published files lack; Nomic's has Q, K
    // and V apart
    const OTHERS: [&str; 3] = ["gemma3n-mini", "step35-mini", "nomic-embed"];
    // optional ones that llama.cpp accepts and published files lack
    const OPTIONAL: [(&str, &str); 4] =
        [("lfm2-", "dense_2."), ("qwen3-vl-", "cls.output"), ("embeddinggemma", "attn_"), ("embeddinggemma", ".bias")];
    let mut checked = BTreeSet::new();
    for name in support::names_in(&["models/architectures"]) {
        let known = support::model(&name);
        let architecture = known.metadata.get("general.architecture").unwrap().as_str().unwrap().to_owned();
        if OTHERS.contains(&&*name) || !catalogue::all().iter().any(|entry| entry.architecture == architecture) {
            continue;
        }
        let excused = |tensor: &str| {
            let mut parts = OPTIONAL.iter().filter(|(model, _)| name.starts_with(model)).peekable();
            parts.peek().is_some() && parts.all(|(_, part)| tensor.contains(part))
        };
        // a last dimension of one says nothing
        let trimmed = |dims: &[u64]| dims[..dims.iter().rposition(|&dim| dim != 1).map_or(1, |at| at + 1)].to_vec();
        let mut wanted = BTreeMap::new();
        for Tensor { name, dims, .. } in known.tensors.iter().filter(|tensor| !excused(&tensor.name)) {
            // files may have the two fused
            match name.strip_suffix("ffn_gate_up_exps.weight") {
                Some(block) => {
                    let half = vec![dims[0], dims[1] / 2, dims[2]];
                    wanted.insert(format!("{block}ffn_gate_exps.weight"), half.clone());
                    wanted.insert(format!("{block}ffn_up_exps.weight"), half);
                }
                None => drop(wanted.insert(name.to_string(), trimmed(dims))),
            }
        }
        let built = model(&entry_like(&support::model_json(&name), &architecture, &wanted), FileType::F16);
        let built: BTreeMap<_, _> =
            built.header.tensors.iter().map(|tensor| (tensor.name.to_string(), trimmed(&tensor.dims))).collect();
        for (tensor, dims) in &wanted {
            assert_eq!(built.get(tensor), Some(dims), "{name}: {tensor}");
        }
        assert_eq!(built.len(), wanted.len(), "{name}");
        checked.insert(name);
    }
    assert!(checked.len() >= 80, "{}", checked.len());
}

/// An entry with the hyperparameters of a model's description, and the properties that its tensors show.
fn entry_like(json: &str, architecture: &str, tensors: &BTreeMap<String, Vec<u64>>) -> CatalogueEntry {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let own = |(key, value): (&String, &serde_json::Value)| {
        let own = key.strip_prefix(&format!("{architecture}."));
        Some((
            own.or(Some(key).filter(|key| key.contains("token_type")).map(|key| &**key))?.to_owned(),
            value[1].clone(),
        ))
    };
    let mut keys: serde_json::Map<_, _> = json["kv"].as_object().unwrap().iter().filter_map(own).collect();
    keys.remove("vocab_size");
    let blocks = 0..tensors.len();
    let dense = blocks.take_while(|block| tensors.contains_key(&format!("blk.{block}.ffn_gate.weight"))).count();
    keys.entry("leading_dense_block_count").or_insert(dense.into());
    let holds = |part: &str| tensors.keys().any(|name| name.contains(part));
    let marks = [
        ("tied", !tensors.contains_key("output.weight")),
        ("qk_norms", holds("attn_q_norm")),
        ("rope_freqs", holds("rope_freqs")),
        ("exp_probs", holds("exp_probs_b")),
        ("rope_factors", holds("rope_factors")),
        ("two_norms", holds("attn_norm_2")),
        ("qkv_biases", holds("attn_q.bias")),
        ("classifier", holds("cls.weight")),
    ];
    let marks: Vec<_> = marks.into_iter().filter(|(_, has)| *has).map(|(mark, _)| mark).collect();
    let vocab = tensors["token_embd.weight"][1];
    serde_json::from_value(serde_json::json!({
        "name": architecture, "title": architecture, "for": ["chat"], "architecture": architecture,
        "vocab": vocab, "marks": marks, "keys": keys,
    }))
    .unwrap()
}

/// A name of Ollama's means the file that its library has; both conversions say which they are.
#[rstest]
#[case("deepseek-v2:16b", "deepseek-v2-lite-2024", 8)]
#[case("deepseek-coder-v2", "deepseek-coder-v2-16b-2024", 8)]
#[case("deepseek-v3", "deepseek-v3-2025-01", 71)]
#[case("deepseek-r1:671b", "deepseek-r1-671b", 71)]
fn an_older_conversion_in_ollamas_library_is_an_entry_of_its_own(
    #[case] tag: &str,
    #[case] name: &str,
    #[case] times: u64,
) {
    let older = entry(tag);
    assert_eq!(older.name, name);
    let said = older.conversion().unwrap();
    assert!(said.starts_with("an older conversion, the one in Ollama's library"), "{said}");
    let newer = said.split("catalogue:").nth(1).unwrap().split(',').next().unwrap();
    let newer = entry(newer);
    assert!(newer.tags.is_empty(), "{:?}", newer.tags);
    let other = newer.conversion().unwrap();
    assert!(other.contains(&format!("catalogue:{name}, needs {times} times more KV cache")), "{other}");

    let caches = [older, newer].map(|entry| {
        let model = PreparedModel::from(model(entry, FileType::F16));
        let whole = model.header.tensors.iter().filter(|tensor| tensor.name.contains("attn_kv_b.")).count();
        assert_eq!(whole, if entry.tags.is_empty() { 0 } else { model.block_count() });
        let settings = Settings { ctx: Context::Tokens(2048), parallel: Some(1), ..Settings::default() };
        let plan = engine::plan(EngineId::LlamaCpp, &model, &crate::fixtures::cards(&[]), &settings).unwrap();
        assert!(plan.notes.iter().any(|note| note.contains("conversion")), "{:?}", plan.notes);
        plan.totals.cache.0
    });
    assert_eq!(caches[0] / caches[1], times);
}

fn open(reference: &str) -> Result<source::OpenedModel, SourceError> {
    source::load(reference, &Roots::default(), &mut source::no_progress)
}

#[rstest]
#[case("catalogue:qwen3-8b", "Q4_K_M")]
#[case("catalogue:qwen3-8b@q4_K_M", "Q4_K_M")]
#[case("catalogue:qwen3:8b@Q8_0", "Q8_0")]
#[case("catalogue:QWEN3-8B@iq4_xs", "IQ4_XS")]
#[case("qwen3-8b@fp16", "F16")]
#[case("qwen3:8b", "Q4_K_M")]
#[case("qwen3", "Q4_K_M")]
fn references_name_entries(#[case] reference: &str, #[case] quantisation: &str) {
    let opened = open(reference).unwrap();
    assert_eq!(opened.name, "Qwen3 8B");
    // a plain name that is resolved by the catalogue gets a note
    assert_eq!(opened.header.notes.is_empty(), reference.starts_with("catalogue:"), "{:?}", opened.header.notes);
    let model = Model::from_header(opened.header, "").unwrap();
    assert_eq!((model.file_type, model.block_count()), (Some(quantisation), 36));
}

/// Opened again it is the same entry, so that no list shows it twice.
#[rstest]
#[case("qwen3", "catalogue:qwen3-8b")]
#[case("catalogue:Qwen3:8b@Q4_K_M", "catalogue:qwen3-8b")]
#[case("qwen3-8b@fp16", "catalogue:qwen3-8b@F16")]
fn an_entry_is_opened_again_by_its_own_name(#[case] reference: &str, #[case] lasting: &str) {
    let opened = open(reference).unwrap();
    assert_eq!(opened.reference.as_deref(), Some(lasting));
    assert_eq!(open(lasting).unwrap().header.tensors, opened.header.tensors);
}

#[rstest]
#[case("catalogue:zebra-8b", "the catalogue has no model 'zebra-8b': run 'plimsoll list' to see its models")]
#[case("catalogue:qwen9-8b", "the catalogue has no model 'qwen9-8b': similar models are qwen3-8b")]
#[case(
    "catalogue:command-r-99b",
    "the catalogue has no model 'command-r-99b': similar models of other sizes are command-r-35b"
)]
#[case("catalogue:qwen3-8b@q4_K_Z", "'q4_K_Z' is not a llama.cpp quantisation")]
#[case("catalogue:", "the catalogue has no model ''")]
#[case("qwen9-8b", "'qwen9-8b' is neither a file nor an Ollama model")]
#[case("qwen33-8b", "to see the models; in the catalogue, which needs no network, similar models are qwen3-8b")]
#[case("lama3.1-70b", "in the catalogue, which needs no network, similar models are llama3.1-70b")]
#[case("mistral:999b", "in the catalogue, which needs no network, similar models of other sizes are mistral-7b-v0.3, ")]
#[case(
    "catalogue:llam",
    "the catalogue has no model 'llam': similar models are llama3.1-8b, llama3.1-70b, llama3.1-405b, llama3.2-1b, llama3.2-3b and "
)]
#[case("catalogue:m:70b", "the catalogue has no model 'm:70b': run 'plimsoll list' to see its models")]
#[case("qwen3-8b.gguf", "'qwen3-8b.gguf' does not exist")]
fn unknown_references_are_refused(#[case] reference: &str, #[case] sentence: &str) {
    let said = open(reference).unwrap_err().to_string();
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn most_weights_of_a_gpt_oss_file_are_mxfp4() {
    let model = model(entry("gpt-oss-20b"), entry("gpt-oss-20b").quantisation);
    let count = |ty: GgmlType| model.header.tensors.iter().filter(|tensor| tensor.ty == ty).count();
    assert_eq!((count(GgmlType::Mxfp4), count(GgmlType::Q8_0), count(GgmlType::F32)), (72, 98, 289));
}

#[test]
fn names_of_other_places_mean_entries() {
    let found =
        |reference| catalogue::described_by(reference).map(|(entry, quantisation)| (entry.name.as_str(), quantisation));
    for reference in ["qwen3:8b-q8_0", "hf://Qwen/Qwen3-8B-GGUF:Q8_0", "https://here/Qwen3-8B-Q8_0.gguf"] {
        assert_eq!(found(reference), Some(("qwen3-8b", Some(FileType::Q8_0.into()))), "{reference}");
    }
    assert_eq!(found("hf.co/Qwen/Qwen3-8B-GGUF"), Some(("qwen3-8b", None)));
    assert_eq!(found("hf://me/nothing-GGUF:Q8_0"), None);
}
