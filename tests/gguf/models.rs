//! The models used by other tests, and the built-in one.

use plimsoll::gguf::{Elements, Tensor, Value};

use rstest::rstest;

use crate::support::{self, description};

#[test]
fn every_model_reads() {
    let names = support::model_names();
    assert!(names.len() >= 76, "{names:?}");
    for name in names {
        let header = support::model(&name);
        let arch = header.metadata.get("general.architecture").and_then(Value::as_str);
        assert!(arch.is_some(), "{name}");
        assert!(!header.tensors.is_empty(), "{name}");
        let tokens = header.metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array).unwrap();
        assert!(matches!(tokens.elements, Elements::Unread(_)) && tokens.len > 0, "{name}");
    }
}

#[test]
fn the_built_in_model_is_llama_3_1_8b() {
    let built_in = plimsoll::source::default_header().unwrap();
    assert_eq!(built_in.notes, Vec::<String>::new());
    let described = support::model("llama3.1-8b");
    let sorted_keys = |header: &plimsoll::gguf::Header| {
        // the tokens' position depends on what precedes them
        let mut keys: Vec<_> = header
            .metadata
            .iter()
            .filter(|(_, value)| value.as_array().is_none())
            .map(|(k, v)| (k.to_owned(), v.clone()))
            .collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        keys
    };
    assert_eq!(sorted_keys(&built_in), sorted_keys(&described));
    let tokens = |header: &plimsoll::gguf::Header| {
        header.metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array).map(|a| a.len)
    };
    assert_eq!(tokens(&built_in), tokens(&described));
    let sorted = |mut tensors: Vec<Tensor>| {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    };
    assert_eq!(sorted(built_in.tensors), sorted(described.tensors));
}

#[rstest]
#[case("", "not valid JSON")]
#[case(r#"{"kv": {}, "tensors": []}"#, "missing field `n_vocab`")]
#[case(
    r#"{"kv": {"k": ["u8", 256]}, "n_vocab": 1, "tensors": []}"#,
    "key 'k' of the description has a value that is not of type u8"
)]
#[case(r#"{"kv": {"k": ["array:bool", [1]]}, "n_vocab": 1, "tensors": []}"#, "not of type array:bool")]
#[case(r#"{"kv": {"k": ["word", 1]}, "n_vocab": 1, "tensors": []}"#, "not of type word")]
#[case(
    r#"{"kv": {}, "n_vocab": 1, "tensors": [["t", "q9_K", [256]]]}"#,
    "tensor 't' of the description: 'q9_K' is not"
)]
#[case(r#"{"kv": {}, "n_vocab": 1, "tensors": [["t", "q4_K", [255]]]}"#, "the described header is invalid: tensor 't'")]
fn malformed_descriptions_are_refused(#[case] json: &str, #[case] reason: &str) {
    let said = description::header(json).unwrap_err().to_string();
    assert!(said.contains(reason), "{said}");
}

#[test]
fn blocks_are_described_once() {
    let json = r#"{"kv": {}, "n_vocab": 0, "tensors": [["a", "f32", [2]], {"blocks": 3, "tensors": [
        ["b", "q8_0", [32]], ["c", "q4_K", [256, 2], {"q6_K": [0, 2]}]]}]}"#;
    let header = description::header(json).unwrap();
    let shown: Vec<_> = header.tensors.iter().map(|tensor| format!("{} {}", tensor.name, tensor.ty)).collect();
    assert_eq!(
        shown,
        ["a f32", "blk.0.b q8_0", "blk.0.c q6_K", "blk.1.b q8_0", "blk.1.c q4_K", "blk.2.b q8_0", "blk.2.c q6_K"]
    );
}
