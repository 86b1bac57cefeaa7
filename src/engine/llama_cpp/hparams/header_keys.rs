//! The header keys of an architecture.

use super::super::error::LoadError;
use super::super::release::ReleaseTraits;
use crate::gguf::{Header, Value};

/// A header's keys of one architecture.
pub struct HeaderKeys<'a> {
    header: &'a Header,
    architecture: &'a str,
    /// The release that reads them.
    pub release: &'static ReleaseTraits,
}

impl<'a> HeaderKeys<'a> {
    pub fn of(header: &'a Header, release: &'static ReleaseTraits) -> Self {
        let architecture = header.metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        Self { header, architecture, release }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.header.metadata.get(&format!("{}.{name}", self.architecture))
    }

    /// A number; of a list, which llama.cpp does not take for one, the first.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Array(list) => list.elements.integers()?.first().and_then(|first| u64::try_from(*first).ok()),
            value => value.as_u64(),
        }
    }

    /// A number of items in memory, limited to `usize`.
    pub fn count(&self, name: &str) -> Option<usize> {
        self.number(name).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// Whether a number is there and not 0.
    pub fn is_given(&self, name: &str) -> bool {
        self.float(name).unwrap_or(0.0) != 0.0
    }

    /// Whether the file has a tensor of this name.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.header.tensors.iter().any(|tensor| *tensor.name == *name)
    }

    /// Tokens of the vocabulary; 0 if unknown.
    pub fn vocabulary(&self) -> u64 {
        let tokens = self.header.metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array);
        tokens.map(|tokens| tokens.len).or_else(|| self.number("vocab_size")).unwrap_or(0)
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    pub fn need(&self, name: &str) -> Result<u64, LoadError> {
        self.number(name).ok_or_else(|| {
            LoadError::model(format!(
                "the header has no numeric key {}.{name}: convert the model again",
                self.architecture
            ))
        })
    }

    /// The elements of a list of numbers or flags.
    pub fn list(&self, name: &str) -> Option<Vec<i64>> {
        self.get(name)?.as_array()?.elements.integers()
    }

    /// One number per block: from a list of them, or the same for all; empty if there is none.
    pub fn floats(&self, name: &str, count: usize) -> Vec<f64> {
        if let Some(number) = self.float(name) {
            return vec![number; count];
        }
        self.get(name).and_then(Value::as_array).and_then(|list| list.elements.floats()).unwrap_or_default()
    }

    /// One number per block: from a list, or the same for all.
    pub fn each(&self, name: &str, count: usize) -> Result<Option<Vec<u64>>, LoadError> {
        let Some(list) = self.list(name) else { return Ok(self.number(name).map(|number| vec![number; count])) };
        if list.len() < count {
            let architecture = self.architecture;
            return Err(LoadError::model(format!(
                "{architecture}.{name} has {} elements for {count} blocks: convert the model again",
                list.len()
            )));
        }
        Ok(Some(list.iter().take(count).map(|n| u64::try_from(*n).unwrap_or(0)).collect()))
    }
}
