//! Files that llama.cpp refuses, and those that it loads: `refused.jsonl.gz` says what its library answered to the test
//! models and to variants of them (build 11413, asked without weights). A variant differs from its base by keys that are
//! set or dropped, and by tensors that are added, removed or have another shape.

use std::collections::BTreeMap;

use plimsoll::catalogue;
use plimsoll::engine::llama_cpp::LoadedModel;
use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, Endian, GgmlType, GgufError, Header, HeaderLimits, HeaderOnly, read};
use plimsoll::model::Model;
use plimsoll::plan::Confidence;
use plimsoll::settings::{Context, Release, Settings};
use rstest::rstest;
use serde::Deserialize;
use serde_json::Value;

use super::lines;
use crate::fixtures::cards;
use crate::support::description::{header_spec, value_spec};
use crate::support::{self, model_json, names_in};

/// A line of the file.
#[derive(Debug, Deserialize)]
struct Answer {
    base: String,
    change: Change,
    /// `loads`, or why not.
    says: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Change {
    set: BTreeMap<String, (String, Value)>,
    drop: Vec<String>,
    shape: BTreeMap<String, Vec<u64>>,
    remove: Vec<String>,
    add: Vec<(String, String, Vec<u64>)>,
}

impl Change {
    fn apply(&self, spec: &HeaderSpec) -> HeaderSpec {
        let mut spec = spec.clone();
        spec.metadata.retain(|(key, _)| !self.drop.contains(key) && !self.set.contains_key(key));
        let set = self.set.iter().map(|(key, (kind, value))| (key.clone(), value_spec(kind, value).unwrap()));
        spec.metadata.extend(set);
        spec.tensors.retain(|(name, ..)| !self.remove.contains(name));
        for (name, ty, dims) in &mut spec.tensors {
            if let Some(shape) = self.shape.get(name) {
                dims.clone_from(shape);
                if !shape[0].is_multiple_of(ty.block()) {
                    *ty = GgmlType::F16;
                }
            }
        }
        spec.tensors.extend(self.add.iter().map(|(name, _, dims)| (name.clone(), GgmlType::F32, dims.clone())));
        spec
    }
}

fn header(spec: &HeaderSpec) -> Header {
    try_header(spec).unwrap()
}

fn try_header(spec: &HeaderSpec) -> Result<Header, GgufError> {
    read(&mut HeaderOnly(&write(spec, Encoding::default())), &HeaderLimits::default())
}

/// Why a file with this header is refused; none if it is not.
fn refusal(header: &Header) -> Option<String> {
    match LoadedModel::new(header, Release::default()) {
        Ok(loaded) => loaded.refusal(header),
        Err(error) => Some(error.to_string()),
    }
}

/// The files that were asked have no tokens where their number is a key.
fn as_asked(mut spec: HeaderSpec) -> HeaderSpec {
    if spec.metadata.iter().any(|(key, _)| key.ends_with(".vocab_size")) {
        spec.metadata.retain(|(key, _)| key != "tokenizer.ggml.tokens");
    }
    spec
}

fn answers() -> Vec<Answer> {
    let own = support::tests().join("llama_cpp/refused.jsonl.gz");
    let path = std::env::var_os("PLIMSOLL_REFUSED").map_or(own, Into::into);
    lines(&path).into_iter().map(|line| serde_json::from_value(line).unwrap()).collect()
}

/// A model of an architecture some of whose tensors the table does not list, so that what is missing is not found.
const NOT_LISTED: &str = "qwen4exp-mini";

#[test]
fn files_are_refused_exactly_where_llama_cpp_refuses_them() {
    let mut specs: BTreeMap<String, HeaderSpec> = BTreeMap::new();
    let (mut wrong, mut all, mut missed) = (Vec::new(), 0, 0);
    for Answer { base, change, says } in answers() {
        let spec = specs.entry(base.clone()).or_insert_with(|| as_asked(header_spec(&model_json(&base)).unwrap()));
        let ours =
            try_header(&change.apply(spec)).map_or_else(|error| Some(error.to_string()), |header| refusal(&header));
        all += 1;
        if base == NOT_LISTED && ours.is_none() && says != "loads" {
            missed += 1;
        } else if ours.is_some() != (says != "loads") {
            wrong.push(format!("{base} with {change:?}\n  llama.cpp: {says}\n  here: {}", ours.unwrap_or_default()));
        }
    }
    assert!(all > 60 && wrong.is_empty(), "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(missed, 5, "of an architecture whose tensors are not all listed");
}

#[test]
fn no_published_file_is_called_refused() {
    let answers = answers();
    let known = |name: &str| answers.iter().any(|answer| answer.base == name && answer.change.is_none());
    let mut wrong = Vec::new();
    for name in names_in(&["models", "models/synthetic", "models/architectures", "models/variations", "models/spec"]) {
        if known(&name) {
            continue;
        }
        // a draft is no model without the other
        let header = support::model(&name);
        if let Ok(loaded) = LoadedModel::new(&header, Release::default()) {
            wrong.extend(loaded.refusal(&header).map(|why| format!("{name}: {why}")));
        }
    }
    for entry in catalogue::all() {
        let model = entry.model(plimsoll::gguf::FileType::F16).unwrap();
        match LoadedModel::new(&model.header, Release::default()) {
            Ok(loaded) => wrong.extend(loaded.refusal(&model.header).map(|why| format!("{}: {why}", entry.name))),
            Err(error) => wrong.push(format!("{}: {error}", entry.name)),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

impl Change {
    fn is_none(&self) -> bool {
        let Self { set, drop, shape, remove, add } = self;
        set.is_empty() && drop.is_empty() && shape.is_empty() && remove.is_empty() && add.is_empty()
    }
}

/// A small file that llama.cpp loads.
fn plain() -> HeaderSpec {
    let mut metadata = vec![("general.architecture".to_owned(), ValueSpec::String("llama".to_owned()))];
    for (key, value) in [
        ("block_count", 4),
        ("context_length", 4096),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("rope.dimension_count", 64),
        ("vocab_size", 256),
    ] {
        metadata.push((format!("llama.{key}"), ValueSpec::U32(value)));
    }
    metadata.push(("llama.attention.layer_norm_rms_epsilon".to_owned(), ValueSpec::F32(1e-5)));
    metadata.push(("tokenizer.ggml.tokens".to_owned(), ValueSpec::EmptyStrings(256)));
    let mut tensors = Vec::new();
    let mut add = |name: &str, dims: &[u64]| {
        let ty = if dims.len() == 1 { GgmlType::F32 } else { GgmlType::F16 };
        tensors.push((format!("{name}.weight"), ty, dims.to_vec()));
    };
    add("token_embd", &[256, 256]);
    add("output_norm", &[256]);
    add("output", &[256, 256]);
    for block in 0..4 {
        for (name, dims) in [
            ("attn_norm", &[256][..]),
            ("ffn_norm", &[256]),
            ("attn_q", &[256, 256]),
            ("attn_k", &[256, 128]),
            ("attn_v", &[256, 128]),
            ("attn_output", &[256, 256]),
            ("ffn_gate", &[256, 512]),
            ("ffn_up", &[256, 512]),
            ("ffn_down", &[512, 256]),
        ] {
            add(&format!("blk.{block}.{name}"), dims);
        }
    }
    HeaderSpec { metadata, tensors }
}

fn array(kind: ElementType, values: impl IntoIterator<Item = ValueSpec>) -> ValueSpec {
    ValueSpec::Array(kind, values.into_iter().collect())
}

/// Files as other tools write them: the plan is made, is not exact, and says why.
#[rstest]
#[case::a_context_of_64_bits("llama.context_length", ValueSpec::U64(4096), "llama.context_length is u64, not u32")]
#[case::signed_blocks("llama.block_count", ValueSpec::I32(4), "llama.block_count is i32, not u32")]
#[case::short_heads("llama.attention.head_count", ValueSpec::U16(4), "llama.attention.head_count is u16, not u32")]
#[case::a_double(
    "llama.attention.layer_norm_rms_epsilon",
    ValueSpec::F64(1e-5),
    "llama.attention.layer_norm_rms_epsilon is f64, not f32"
)]
#[case::a_double_base("llama.rope.freq_base", ValueSpec::F64(1e4), "llama.rope.freq_base is f64, not f32")]
#[case::a_number_as_name("general.name", ValueSpec::I32(5), "general.name is i32, not string")]
#[case::a_list_of_lists(
    "x.grid",
    array(ElementType::Array, [array(ElementType::U32, [ValueSpec::U32(1)])]),
    "x.grid is a list of lists"
)]
#[case::a_list_of_64_bits(
    "llama.attention.head_count_kv",
    array(ElementType::U64, [2, 2, 2, 2].map(ValueSpec::U64)),
    "llama.attention.head_count_kv is a list of u64, not a list of u32"
)]
#[case::a_long_list(
    "llama.attention.head_count_kv",
    array(ElementType::U32, [2; 6].map(ValueSpec::U32)),
    "llama.attention.head_count_kv lists 6 values, not 4"
)]
#[case::a_list_for_a_number(
    "llama.attention.key_length",
    array(ElementType::U32, [64; 4].map(ValueSpec::U32)),
    "llama.attention.key_length is a list of u32, not u32"
)]
#[case::fewer_blocks(
    "llama.block_count",
    ValueSpec::U32(3),
    "it does not ask for the tensor blk.3.attn_norm.weight and 8 more"
)]
#[case::half_as_wide(
    "llama.embedding_length",
    ValueSpec::U32(128),
    "llama.rope.dimension_count is 64 and llama.attention.key_length is 32, which must be equal"
)]
#[case::longer_keys(
    "llama.attention.key_length",
    ValueSpec::U32(128),
    "llama.rope.dimension_count is 64 and llama.attention.key_length is 128, which must be equal"
)]
#[case::one_kv_head(
    "llama.attention.head_count_kv",
    ValueSpec::U32(1),
    "the tensor blk.0.attn_k.weight is 256 × 128, and by the header's keys it must be 256 × 64"
)]
fn what_llama_cpp_refuses_is_planned_and_said(#[case] key: &str, #[case] value: ValueSpec, #[case] why: &str) {
    let mut spec = plain();
    assert_eq!(refusal(&header(&spec)), None);
    spec.metadata.retain(|(known, _)| known != key);
    spec.metadata.push((key.to_owned(), value));
    says(&header(&spec), why);
}

fn says(header: &Header, why: &str) {
    let model = PreparedModel::from(Model::from_header(header.clone(), "file.gguf").unwrap());
    let settings = Settings { ctx: Context::Tokens(1024), ..Settings::default() };
    let plan = PlanRequest::new(EngineId::LlamaCpp, model, cards(&[24]), settings).plan().unwrap();
    let expected = format!("llama.cpp refuses this file: {why}");
    assert_ne!(plan.confidence, Confidence::Exact);
    assert_eq!(plan.uncertainties.first().map(|first| first.reason.as_str()), Some(expected.as_str()));
    assert!(plan.notes.contains(&expected), "{:?}", plan.notes);
}

#[test]
fn lists_of_64_bits_are_read() {
    let mut spec = plain();
    let key = "llama.attention.head_count_kv";
    spec.metadata.retain(|(known, _)| known != key);
    spec.metadata.push((key.to_owned(), array(ElementType::U64, [2, 2, 2, 2].map(ValueSpec::U64))));
    let loaded = LoadedModel::new(&header(&spec), Release::default()).unwrap();
    assert_eq!(loaded.hparams.n_head_kv, [2, 2, 2, 2]);
}

#[test]
fn tensors_that_nothing_asks_for_are_said() {
    let mut spec = plain();
    spec.tensors.push(("my.statistics".to_owned(), GgmlType::F32, vec![16]));
    says(&header(&spec), "it does not ask for the tensor my.statistics");
    let mut spec = plain();
    spec.tensors.retain(|(name, ..)| name != "blk.2.ffn_norm.weight");
    let why = refusal(&header(&spec));
    assert_eq!(why.as_deref(), Some("the tensor blk.2.ffn_norm.weight is missing"));
}

#[test]
fn files_of_the_other_byte_order_are_said() {
    let endian = if Endian::NATIVE == Endian::Little { Endian::Big } else { Endian::Little };
    let bytes = write(&plain(), Encoding { version: 3, endian });
    let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default()).unwrap();
    says(&header, &format!("its numbers are {endian}-endian, and this computer's are not"));
}

/// The Python package gguf 0.19.0 writes blocks of 40 bytes.
#[test]
fn tensors_that_do_not_follow_one_another_are_said() {
    let mut spec = plain();
    let first = spec.tensors.iter().position(|(name, ..)| name == "blk.0.attn_q.weight").unwrap();
    spec.tensors[first].1 = GgmlType::Q8_1;
    let mut bytes = write(&spec, Encoding::default());
    let name = b"blk.0.attn_k.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4 + 2 * 8 + 4;
    let offset = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&(offset + 256 * 256 / 32 * 4).to_le_bytes());
    let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default()).unwrap();
    let why = refusal(&header).unwrap();
    assert!(why.starts_with("the tensor blk.0.attn_k.weight begins at byte"), "{why}");
    assert!(
        why.ends_with("as blk.0.attn_q.weight before it has blocks of 40 bytes, where those of Q8_1 have 36"),
        "{why}"
    );
}

#[test]
fn a_value_that_is_set_has_the_type_that_is_asked_for() {
    let model = PreparedModel::from(Model::from_header(header(&plain()), "file.gguf").unwrap());
    let keys = ["llama.context_length=int:8192", "llama.rope.freq_base=float:500000"];
    let keys: Vec<_> = keys.iter().map(|key| key.parse().unwrap()).collect();
    let changed = model.with_keys(&keys).unwrap();
    assert_eq!(refusal(&changed.header), None);
}
