//! Headers described in JSON, the format of the test models.
//!
//! ```json
//! { "kv": {"general.architecture": ["string", "llama"]}, "n_vocab": 128256,
//!   "tensors": [["output.weight", "q6_K", [4096, 128256]],
//!               {"blocks": 32, "tensors": [["attn_v.weight", "q4_K", [4096, 1024], {"q6_K": [0, 1, 31]}]]}] }
//! ```
//!
//! Of the tokens only their number is kept: they are written as empty strings. Tensors of a `blocks` entry are repeated
//! for every block with the prefix `blk.N.`; a fourth member lists blocks in which a tensor has another type.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, GgmlType, GgufError, Header, HeaderLimits, HeaderOnly, read};

/// Why a description is invalid.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DescriptionError {
    #[error("the description is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("key '{key}' of the description has a value that is not of type {kind}")]
    Key { key: String, kind: String },
    #[error("tensor '{tensor}' of the description: {what}")]
    Tensor { tensor: String, what: String },
    #[error("the described header is invalid: {0}")]
    Gguf(#[from] GgufError),
}

#[derive(Deserialize)]
struct Description {
    kv: BTreeMap<String, (String, Json)>,
    n_vocab: usize,
    tensors: Vec<TensorEntry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TensorEntry {
    One(String, String, Vec<u64>),
    Blocks { blocks: u64, tensors: Vec<InBlock> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum InBlock {
    Same(String, String, Vec<u64>),
    Mixed(String, String, Vec<u64>, BTreeMap<String, Vec<u64>>),
}

/// The header that `json` describes, written to memory and parsed like any other.
///
/// # Errors
/// If the description is invalid, or the parser refuses the header.
pub fn header(json: &str) -> Result<Header, DescriptionError> {
    Ok(read(&mut HeaderOnly(&bytes(json, Encoding::default())?), &HeaderLimits::default())?)
}

/// The bytes of the header that `json` describes.
///
/// # Errors
/// If the description is invalid.
pub fn bytes(json: &str, encoding: Encoding) -> Result<Vec<u8>, DescriptionError> {
    Ok(write(&header_spec(json)?, encoding))
}

/// The header that `json` describes, before it is written.
///
/// # Errors
/// If the description is invalid.
pub fn header_spec(json: &str) -> Result<HeaderSpec, DescriptionError> {
    let description: Description = serde_json::from_str(json)?;
    let mut spec = HeaderSpec::default();
    for (key, (kind, value)) in description.kv {
        let value = value_spec(&kind, &value).ok_or_else(|| DescriptionError::Key { key: key.clone(), kind })?;
        spec.metadata.push((key, value));
    }
    let tokens = vec![ValueSpec::String(String::new()); description.n_vocab];
    spec.metadata.push(("tokenizer.ggml.tokens".to_owned(), ValueSpec::Array(ElementType::String, tokens)));
    for entry in description.tensors {
        match entry {
            TensorEntry::One(name, ty, dims) => spec.tensors.push(tensor(name, &ty, dims)?),
            TensorEntry::Blocks { blocks, tensors } => {
                for block in 0..blocks {
                    for in_block in &tensors {
                        spec.tensors.push(in_block.of(block)?);
                    }
                }
            }
        }
    }
    Ok(spec)
}

impl InBlock {
    fn of(&self, block: u64) -> Result<(String, GgmlType, Vec<u64>), DescriptionError> {
        let (name, usual, dims, others) = match self {
            Self::Same(name, ty, dims) => (name, ty, dims, None),
            Self::Mixed(name, ty, dims, others) => (name, ty, dims, Some(others)),
        };
        let other = others.and_then(|others| others.iter().find(|(_, blocks)| blocks.contains(&block)));
        tensor(format!("blk.{block}.{name}"), other.map_or(usual, |(ty, _)| ty), dims.clone())
    }
}

fn tensor(name: String, ty: &str, dims: Vec<u64>) -> Result<(String, GgmlType, Vec<u64>), DescriptionError> {
    match ty.parse() {
        Ok(ty) => Ok((name, ty, dims)),
        Err(what) => Err(DescriptionError::Tensor { tensor: name, what }),
    }
}

/// A value of the type named `kind`; none if it is not of that type.
pub fn value_spec(kind: &str, value: &Json) -> Option<ValueSpec> {
    if let Some(kind) = kind.strip_prefix("array:") {
        let of = ElementType::ALL.into_iter().find(|of| of.to_string() == kind)?;
        let values = value.as_array()?.iter().map(|value| value_spec(kind, value)).collect::<Option<_>>()?;
        return Some(ValueSpec::Array(of, values));
    }
    Some(match kind {
        "u8" => ValueSpec::U8(value.as_u64()?.try_into().ok()?),
        "i8" => ValueSpec::I8(value.as_i64()?.try_into().ok()?),
        "u16" => ValueSpec::U16(value.as_u64()?.try_into().ok()?),
        "i16" => ValueSpec::I16(value.as_i64()?.try_into().ok()?),
        "u32" => ValueSpec::U32(value.as_u64()?.try_into().ok()?),
        "i32" => ValueSpec::I32(value.as_i64()?.try_into().ok()?),
        "u64" => ValueSpec::U64(value.as_u64()?),
        "i64" => ValueSpec::I64(value.as_i64()?),
        "f32" => ValueSpec::F32(value.as_f64()? as f32),
        "f64" => ValueSpec::F64(value.as_f64()?),
        "bool" => ValueSpec::Bool(value.as_bool()?),
        "string" => ValueSpec::String(value.as_str()?.to_owned()),
        _ => return None,
    })
}
