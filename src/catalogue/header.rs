//! The header of an entry, before it is quantised.

use serde_json::Value as Json;

use super::template::tensors;
use super::{CatalogueEntry, CatalogueError};
use crate::gguf::write::{HeaderSpec, ValueSpec};
use crate::gguf::{ElementType, GgmlType, Header};
use crate::model::{original, quantise};

impl CatalogueEntry {
    /// Its header with all tokens, of which none but those that padding depends on are written and read.
    pub(super) fn header(&self) -> Result<Header, CatalogueError> {
        Ok(self.header_spec()?.with_tokens(self.vocab)?)
    }

    /// Its header without tokens.
    fn header_spec(&self) -> Result<HeaderSpec, CatalogueError> {
        let text = |text: &str| ValueSpec::String(text.to_owned());
        let mut metadata = vec![
            ("general.architecture".to_owned(), text(&self.architecture)),
            ("general.name".to_owned(), text(&self.title)),
            ("general.type".to_owned(), text("model")),
        ];
        for (key, value) in &self.keys {
            let value = value_spec(value).ok_or_else(|| CatalogueError::Key(key.clone()))?;
            let prefix = if key.starts_with("tokenizer.") { "" } else { &format!("{}.", self.architecture) };
            metadata.push((format!("{prefix}{key}"), value));
        }
        // no vocabulary has 2^32 tokens
        metadata.push((format!("{}.vocab_size", self.architecture), ValueSpec::U32(self.vocab as u32)));
        metadata.push(("tokenizer.ggml.model".to_owned(), text("none")));
        let tensors = tensors(self)?;
        let mut keeps = quantise::keeps(&self.architecture);
        let type_of = move |(name, dims)| format_of(&mut keeps, name, Vec::len(dims));
        let types: Vec<GgmlType> = tensors.iter().map(|(name, dims)| (name.as_str(), dims)).map(type_of).collect();
        let tensors = tensors.into_iter().zip(types).map(|((name, dims), ty)| (name, ty, dims)).collect();
        Ok(HeaderSpec { metadata, tensors })
    }
}

/// The type of a tensor before it is quantised: the experts of every token are numbers, and a matrix that is never
/// quantised stays as the converter writes it.
fn format_of<'n>(keeps: &mut impl FnMut(&'n str) -> bool, name: &'n str, dims: usize) -> GgmlType {
    if name.ends_with(".ffn_gate_tid2eid.weight") {
        GgmlType::I32
    } else if dims > 1 && keeps(name) && !original::is_float32(name) {
        GgmlType::Bf16
    } else {
        GgmlType::F32
    }
}

/// A hyperparameter with the type that llama.cpp's converters use.
pub(super) fn value_spec(value: &Json) -> Option<ValueSpec> {
    Some(match value {
        Json::Bool(flag) => ValueSpec::Bool(*flag),
        Json::String(text) => ValueSpec::String(text.clone()),
        Json::Number(number) => match number.as_u64() {
            Some(whole) => ValueSpec::U32(u32::try_from(whole).ok()?),
            None => ValueSpec::F32(number.as_f64()? as f32),
        },
        Json::Array(values) => {
            let values = values.iter().map(element).collect::<Option<Vec<_>>>()?;
            let kind = match values.first()? {
                ValueSpec::Bool(_) => ElementType::Bool,
                ValueSpec::F32(_) => ElementType::F32,
                _ => ElementType::I32,
            };
            ValueSpec::Array(kind, values)
        }
        Json::Null | Json::Object(_) => return None,
    })
}

fn element(value: &Json) -> Option<ValueSpec> {
    Some(match value_spec(value)? {
        ValueSpec::U32(number) => ValueSpec::I32(i32::try_from(number).ok()?),
        value @ (ValueSpec::Bool(_) | ValueSpec::F32(_)) => value,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;
    use crate::gguf::write::{Encoding, write};
    use crate::gguf::{HeaderLimits, HeaderOnly, read};

    #[test]
    fn a_header_is_as_if_every_token_were_written() {
        for entry in all() {
            let mut spec = entry.header_spec().unwrap();
            spec.metadata.push(("tokenizer.ggml.tokens".to_owned(), ValueSpec::EmptyStrings(entry.vocab)));
            let bytes = write(&spec, Encoding::default());
            let written = read(&mut HeaderOnly(&bytes), &HeaderLimits::default()).unwrap();
            assert_eq!(entry.header().unwrap(), written, "{}", entry.name);
        }
    }
}
