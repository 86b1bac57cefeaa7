use super::*;
use crate::gguf::{Endian, GgmlType, Metadata};

fn tensor(name: &str) -> Tensor {
    Tensor { name: name.into(), dims: vec![32, 2], ty: GgmlType::F32, bytes: Bytes(256), old_mxfp4: false }
}

fn header(keys: &[(&str, Value)], tensors: &[&str]) -> Header {
    let metadata: Metadata = keys.iter().map(|(key, value)| ((*key).into(), value.clone())).collect();
    Header {
        version: 3,
        endian: Endian::NATIVE,
        misplaced: None,
        metadata,
        tensors: tensors.iter().map(|name| tensor(name)).collect(),
        data_start: 0,
        notes: Vec::new(),
    }
}

const NAMES: [&str; 5] =
    ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight", "output_norm.weight", "v.blk.0.attn_q.weight"];

fn keys() -> Vec<(&'static str, Value)> {
    vec![("general.architecture", Value::String("toy".into())), ("toy.block_count", Value::U32(2))]
}

#[test]
fn missing_keys_are_named_in_the_error() {
    let error = Model::from_header(header(&[], &[]), "file").unwrap_err().to_string();
    assert!(error.contains("general.architecture"), "{error}");
    let error = Model::from_header(header(&keys()[..1], &[]), "file").unwrap_err().to_string();
    assert!(error.contains("toy.block_count"), "{error}");
    let mut absurd = keys();
    absurd[1].1 = Value::U32(u32::MAX);
    let error = Model::from_header(header(&absurd, &[]), "file").unwrap_err().to_string();
    assert!(error.contains("4294967295"), "{error}");
}

#[test]
fn weights_are_grouped_and_a_tied_output_is_recognised() {
    let tied = Model::from_header(header(&keys(), &NAMES), "file").unwrap();
    assert_eq!((tied.name.as_str(), tied.block_count(), tied.parameters, tied.bytes), ("file", 2, 320, Bytes(1280)));
    assert_eq!(tied.weights(TensorGroup::Block(1)), Bytes(256));
    assert_eq!(tied.weights(TensorGroup::Projector), Bytes(256));
    assert_eq!(tied.weights(TensorGroup::Block(7)), Bytes::ZERO);
    assert!(tied.is_output_tied());
    let names: Vec<_> = tied.output_tensors().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["output_norm.weight", "token_embd.weight"]);

    let own = Model::from_header(header(&keys(), &[&NAMES[..], &["output.weight"]].concat()), "file").unwrap();
    assert!(!own.is_output_tied());
    let names: Vec<_> = own.output_tensors().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["output_norm.weight", "output.weight"]);
}

#[test]
fn keys_are_looked_up_under_the_architecture() {
    let model = Model::from_header(header(&keys(), &NAMES), "file").unwrap();
    assert_eq!(model.value("block_count"), Some(&Value::U32(2)));
    assert_eq!(model.value("general.architecture"), Some(&Value::String("toy".into())));
    assert_eq!(model.value("toy.block_count"), None);
}
