//! Quantising a model gives every tensor the type that llama.cpp's quantiser gives it.
//!
//! `vectors/quant/totals.jsonl.gz`: bytes, the number of tensors per type, and the types of some tensors.
//! `vectors/quant/tensors.jsonl.gz`: the quantiser's dry run, every tensor for every file type that it makes, in the
//! order of the header, as digits that index `formats`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use plimsoll::catalogue;
use plimsoll::gguf::{Endian, FileType, GgmlType, Header, Tensor, Value};
use plimsoll::model::Model;
use plimsoll::settings::knob::{Bounds, Knob, QUANTISATIONS};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fixtures::model;
use crate::support;
use crate::support::description;

#[derive(Deserialize)]
struct Totals {
    model: String,
    quant: String,
    tensor_bytes: u64,
    types: BTreeMap<String, usize>,
    some: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct DryRun {
    model: String,
    quant: String,
    #[serde(default)]
    refused: bool,
    #[serde(default)]
    importance: bool,
    #[serde(default)]
    formats: Vec<String>,
    #[serde(default)]
    tensors: String,
}

fn vectors<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = support::tests().join("vectors/quant").join(name);
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The models called `names`, each read once.
fn models<'n>(names: impl Iterator<Item = &'n str>) -> BTreeMap<&'n str, Model> {
    let mut models = BTreeMap::new();
    for name in names {
        models.entry(name).or_insert_with(|| Model::clone(&model(name)));
    }
    models
}

#[test]
fn totals_and_formats_agree() {
    let vectors: Vec<Totals> = vectors("totals.jsonl.gz");
    assert_eq!(vectors.len(), 14 * 18);
    let models = models(vectors.iter().map(|vector| vector.model.as_str()));
    for Totals { model: name, quant, tensor_bytes, types, some } in &vectors {
        let to = quant.parse().unwrap();
        let quantised = models[name.as_str()].quantised(to).unwrap();
        assert_eq!(quantised.bytes, Bytes(*tensor_bytes), "{name} {quant}");
        assert_eq!(models[name.as_str()].quantised_bytes(to), Ok(quantised.bytes), "{name} {quant}");
        let mut counts = BTreeMap::new();
        for tensor in &quantised.header.tensors {
            *counts.entry(tensor.ty.name().to_ascii_uppercase()).or_default() += 1;
        }
        assert_eq!(&counts, types, "{name} {quant}");
        for (tensor, format) in some {
            let ty = quantised.tensor(tensor).unwrap().ty;
            assert!(ty.name().eq_ignore_ascii_case(format), "{name} {quant} {tensor}: {ty}, not {format}");
        }
    }
}

#[test]
fn every_tensor_agrees_in_every_file_type() {
    let vectors: Vec<DryRun> = vectors("tensors.jsonl.gz");
    assert_eq!(vectors.len(), 36 * (FileType::ALL.len() - 1));
    compare(&vectors, &models(vectors.iter().map(|vector| vector.model.as_str())));
}

/// Architectures, expert counts, shapes and names with rules of their own that the real models do not have.
#[test]
fn every_tensor_of_rare_models_agrees() {
    let described: Vec<serde_json::Value> = vectors("rare_models.jsonl.gz");
    let models = described.iter().map(|model| {
        let name = model["model"].as_str().unwrap();
        let header = description::header(&model.to_string()).unwrap();
        (name, Model::from_header(header, name).unwrap())
    });
    let vectors: Vec<DryRun> = vectors("rare_tensors.jsonl.gz");
    assert_eq!(vectors.len(), described.len() * (FileType::ALL.len() - 1));
    compare(&vectors, &models.collect());
}

fn compare(vectors: &[DryRun], models: &BTreeMap<&str, Model>) {
    for DryRun { model: name, quant, refused, importance, formats, tensors } in vectors {
        let quantised = models[name.as_str()].quantised(quant.parse().unwrap());
        assert_eq!(quantised.is_err(), *refused, "{name} {quant}");
        let Ok(quantised) = quantised else { continue };
        let formats: Vec<GgmlType> = formats.iter().map(|format| format.parse().unwrap()).collect();
        assert_eq!(quantised.header.tensors.len(), tensors.len(), "{name} {quant}");
        for (tensor, digit) in quantised.header.tensors.iter().zip(tensors.chars()) {
            let expected = formats[digit.to_digit(10).unwrap() as usize];
            assert_eq!(tensor.ty, expected, "{name} {quant} {}", tensor.name);
        }
        let noted = quantised.header.notes.iter().any(|note| note.contains("importance matrix"));
        assert_eq!(noted, *importance, "{name} {quant}");
    }
}

/// The models are already quantised, gpt-oss to MXFP4 and the others to `Q4_K_M`.
#[test]
fn requantising_to_the_same_type_changes_nothing() {
    let vectors: Vec<DryRun> = vectors("tensors.jsonl.gz");
    let mut seen = BTreeMap::new();
    for (name, model) in models(vectors.iter().map(|vector| vector.model.as_str())) {
        let to = model.header.metadata.get("general.file_type").and_then(Value::as_u64);
        let to = to.and_then(FileType::from_number).unwrap();
        assert_eq!(model.quantised(to).unwrap().header.tensors, model.header.tensors, "{name} {to}");
        *seen.entry(to).or_insert(0) += 1;
    }
    assert_eq!(seen, BTreeMap::from([(FileType::Q4KM, 35), (FileType::Mxfp4, 1)]));
}

#[test]
fn the_slider_covers_small_to_large() {
    for name in ["llama3.1-8b", "gpt-oss-20b", "qwen2.5-0.5b"] {
        let model = model(name);
        let passed = model.quantisations();
        assert!(passed.len() >= 30, "{name}");
        assert!(passed.is_sorted_by_key(|&(_, bytes)| bytes), "{name}");
        assert!(passed.iter().all(|&(to, bytes)| model.requantised(to).unwrap().bytes == bytes), "{name}");
        assert_eq!(passed.iter().any(|&(to, _)| to == FileType::Mxfp4), model.hyper.experts.is_some(), "{name}");
        assert_eq!(passed.last().map(|&(to, _)| to), Some(FileType::F32), "{name}");
    }
}

#[test]
fn the_header_names_the_new_quantisation() {
    let model = model("mixtral-8x7b");
    assert!(model.is_quantised());
    let quantised = model.quantised(FileType::F16).unwrap();
    assert!(!quantised.is_quantised());
    assert_eq!(quantised.file_type, Some("F16"));
    assert_eq!(quantised.header.metadata.get("general.file_type"), Some(&Value::U32(1)));
    assert_eq!(Model::from_header(quantised.header.clone(), "").unwrap(), quantised);
}

#[test]
fn refused_quantisations_have_a_reason() {
    let mut model = Model::clone(&model("mixtral-8x7b"));
    let refused = |model: &Model, to| model.quantised(to).unwrap_err().to_string();
    assert!(refused(&model, FileType::Nvfp4).contains("NVFP4"));
    let stray = Tensor {
        name: "v.blk.0.ffn_up.weight".into(),
        dims: vec![100, 8],
        ty: GgmlType::F16,
        bytes: Bytes(1600),
        old_mxfp4: false,
    };
    model.header.tensors.push(stray);
    assert!(refused(&model, FileType::Q4KM).contains("v.blk.0.ffn_up.weight"));
    assert!(model.quantised(FileType::F16).is_ok());
    let Some(stray) = model.header.tensors.last_mut() else { unreachable!() };
    stray.name = "blk.31.ffn_up.weight".into();
    assert!(refused(&model, FileType::Q1_0).contains("rows of 100 weights"));
}

fn file_type() -> impl Strategy<Value = FileType> {
    prop::sample::select(FileType::ALL)
}

/// Tensors with names that the rules look for, and with other names.
fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let part = prop::sample::select(vec![
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_qkv",
        "attn_output",
        "ffn_up_exps",
        "ffn_gate",
        "ffn_down",
        "ffn_down_shexp",
        "ffn_norm",
        "ffn_gate_inp",
        "ssm_conv1d",
        "output",
        "token_embd",
        "x",
    ]);
    let name = (prop::sample::select(vec!["blk", "v.blk", ""]), 0..12u64, part, prop::bool::weighted(0.9));
    let name = name.prop_map(|(before, block, part, weight)| {
        let block = if before.is_empty() { String::new() } else { format!("{before}.{block}.") };
        format!("{block}{part}.{}", if weight { "weight" } else { "bias" })
    });
    let dim = prop_oneof![1..600u64, (1..9u64).prop_map(|n| n * 256)];
    let tensor = (name, prop::collection::vec(dim, 1..4)).prop_map(|(name, dims)| {
        let bytes = Bytes(2 * dims.iter().product::<u64>());
        Tensor { name: name.into(), dims, ty: GgmlType::F16, bytes, old_mxfp4: false }
    });
    prop::collection::vec(tensor, 0..40)
}

fn mixture(tensors: Vec<Tensor>, architecture: &str, experts: u32, kv_heads: u32) -> Model {
    let keys = [
        ("block_count", 10),
        ("attention.head_count", 8),
        ("attention.head_count_kv", kv_heads),
        ("expert_count", experts),
    ];
    let keys = keys.map(|(key, n)| (format!("{architecture}.{key}").into_boxed_str(), Value::U32(n)));
    let metadata = [("general.architecture".into(), Value::String(architecture.into()))].into_iter().chain(keys);
    let header = Header {
        version: 3,
        endian: Endian::NATIVE,
        metadata: metadata.collect(),
        tensors,
        data_start: 0,
        misplaced: None,
        notes: Vec::new(),
    };
    Model::from_header(header, "drawn").unwrap()
}

proptest! {
    /// For any names and shapes: rows are whole blocks, bytes add up, only types and sizes change,
    /// and neither the order of the tensors nor their previous types matter.
    #[test]
    fn laws(
        tensors in tensors(), to in file_type(), before in file_type(),
        architecture in prop::sample::select(vec!["llama", "falcon", "glm5-next", "bailingmoe3"]),
        experts in prop::sample::select(vec![0, 1, 4, 8, 64]), kv_heads in 0..9u32,
    ) {
        let model = mixture(tensors, architecture, experts, kv_heads);
        let quantised = model.quantised(to);
        prop_assert_eq!(quantised.as_ref().map(|quantised| quantised.bytes).ok(), model.quantised_bytes(to).ok());
        let Ok(quantised) = quantised else { return Ok(()) };
        for (tensor, was) in quantised.header.tensors.iter().zip(&model.header.tensors) {
            prop_assert_eq!((&tensor.name, &tensor.dims), (&was.name, &was.dims));
            prop_assert!(tensor.dims[0].is_multiple_of(tensor.ty.block()), "{} {}", tensor.name, tensor.ty);
            prop_assert_eq!(Some(tensor.bytes.0), tensor.ty.bytes(tensor.dims.iter().product()));
        }
        if let Ok(before) = model.quantised(before) {
            prop_assert_eq!(&before.quantised(to).unwrap().header.tensors, &quantised.header.tensors);
        }
        // the order matters only for duplicate names, which no file has
        let names: std::collections::HashSet<_> = model.header.tensors.iter().map(|tensor| &tensor.name).collect();
        if names.len() == model.header.tensors.len() {
            let mut reversed = model.clone();
            reversed.header.tensors.reverse();
            let mut again = reversed.quantised(to).unwrap().header.tensors;
            again.reverse();
            prop_assert_eq!(again, quantised.header.tensors);
        }
    }
}

#[rstest::rstest]
#[case("llama3.1-8b", false)]
#[case("qwen3-30b-a3b", true)]
fn the_slider_goes_from_the_smallest_to_the_largest(#[case] name: &str, #[case] experts: bool) {
    let model = catalogue::find(name).unwrap().model(FileType::F16).unwrap();
    let stops = Knob::Quant.stops(&Bounds { experts, ..Bounds::default() });
    let slider: Vec<FileType> = stops.as_slice().iter().map(|&at| QUANTISATIONS[at as usize]).collect();
    let sizes: Vec<Bytes> = slider.iter().map(|&to| model.quantised_bytes(to).unwrap()).collect();
    assert!(sizes.is_sorted(), "{slider:?} {sizes:?}");
    assert!(model.quantisations().iter().all(|(to, _)| slider.contains(to)));
    assert_eq!(model.quantisations().len(), slider.len());
}
