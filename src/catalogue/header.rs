//! The header of an entry, before it is quantised.

use serde_json::Value as Json;

use super::template::tensors;
use super::{CatalogueEntry, CatalogueError};
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, GgmlType, Header, HeaderLimits, HeaderOnly, Value, read};

/// The key of the tokens.
const TOKENS: &str = "tokenizer.ggml.tokens";

/// Bytes of a token without text, which is only its length.
const EMPTY_TOKEN: u64 = 8;

/// So many such tokens move what follows them by a multiple of what tensors are padded to.
const TOKENS_APART: u64 = 32 / EMPTY_TOKEN;

impl CatalogueEntry {
    /// Its header with all tokens, of which none but those that padding depends on are written and read.
    pub(super) fn header(&self) -> Result<Header, CatalogueError> {
        let few = self.vocab % TOKENS_APART;
        let bytes = write(&self.header_spec(few)?, Encoding::default());
        let mut header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())?;
        let further = (self.vocab - few) * EMPTY_TOKEN;
        if let Some(Value::Array(tokens)) = header.metadata.get_mut(TOKENS) {
            tokens.len = self.vocab;
            tokens.range.end += further;
        }
        header.data_start += further;
        Ok(header)
    }

    /// Its header with so many tokens, the last key.
    fn header_spec(&self, tokens: u64) -> Result<HeaderSpec, CatalogueError> {
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
        metadata.push((TOKENS.to_owned(), ValueSpec::EmptyStrings(tokens)));
        let tensors = tensors(self)?;
        Ok(HeaderSpec {
            metadata,
            tensors: tensors
                .into_iter()
                .map(|(name, dims)| {
                    let ty = format_of(&name);
                    (name, ty, dims)
                })
                .collect(),
        })
    }
}

/// The type of a tensor before it is quantised: the experts of every token are numbers.
fn format_of(name: &str) -> GgmlType {
    if name.ends_with(".ffn_gate_tid2eid.weight") { GgmlType::I32 } else { GgmlType::F32 }
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

    #[test]
    fn a_header_is_as_if_every_token_were_written() {
        for entry in all() {
            let bytes = write(&entry.header_spec(entry.vocab).unwrap(), Encoding::default());
            let written = read(&mut HeaderOnly(&bytes), &HeaderLimits::default()).unwrap();
            assert_eq!(entry.header().unwrap(), written, "{}", entry.name);
        }
    }
}
