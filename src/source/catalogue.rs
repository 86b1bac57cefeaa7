//! The built-in catalogue: headers generated from hyperparameters, without a file or network.
//!
//! - `assets/catalogue.jsonl`: one model per line.
//! - `assets/architectures.txt`: the tensors of each architecture; parsed by `template`.
//! - `assets/projectors.jsonl`: the projectors that belong to models; read by `projectors`.
//! - `words`: the values of a template's words in one block of one model.
//!
//! A header is written as that of an F32 file, parsed, and quantised by llama.cpp's rules. Of the tokens only their
//! number is kept.

mod projectors;
mod template;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::Value as Json;

use crate::engine::PreparedModel;
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, FileType, GgmlType, GgufError, HeaderLimits, HeaderOnly, read};
use crate::model::quantise::QuantiseError;
use crate::model::{Model, ModelError, Projector};

/// Prefix of references to the catalogue.
pub const PREFIX: &str = "catalogue:";

/// The day on which the catalogue's models or projectors last changed.
pub const DATE: &str = "2026-11-25";

/// The catalogue with its day, for captions.
pub fn dated() -> String {
    format!("catalogue of {DATE}")
}

/// The default model.
pub const DEFAULT: &str = "llama3.1-8b";

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// Name in the catalogue: `qwen3-8b`.
    pub name: String,
    /// Official name: `Qwen3 8B`.
    pub title: String,
    /// Names in Ollama's library: `qwen3:8b`, and `qwen3` if that is its `latest` tag.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The entry with a newer conversion of the same model, if this is an older one.
    #[serde(default)]
    newer: Option<String>,
    /// `general.architecture`.
    pub architecture: String,
    /// Tokens in the vocabulary.
    vocab: u64,
    /// Optional properties of the architecture that it has: `tied`, `rope_freqs`.
    #[serde(default)]
    marks: Vec<String>,
    /// The usual quantisation.
    #[serde(default = "default_quantisation", deserialize_with = "file_type")]
    pub quantisation: FileType,
    /// Its hyperparameters; the keys lack the architecture's prefix.
    keys: BTreeMap<String, Json>,
}

fn default_quantisation() -> FileType {
    FileType::Q4KM
}

fn file_type<'de, D: serde::Deserializer<'de>>(from: D) -> Result<FileType, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// Why an entry cannot be turned into a model.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CatalogueError {
    #[error("the catalogue has no tensors for architecture '{0}'")]
    Architecture(String),
    #[error("key '{0}' of the catalogue has a type that a header cannot hold")]
    Key(String),
    #[error("tensor '{tensor}' of the catalogue: {what}")]
    Tensor { tensor: String, what: String },
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
}

/// Every entry, grouped by family.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
pub fn all() -> &'static [CatalogueEntry] {
    static ENTRIES: LazyLock<Vec<CatalogueEntry>> = LazyLock::new(|| {
        let lines = include_str!("../../assets/catalogue.jsonl").lines();
        lines.map(|line| serde_json::from_str(line).expect("assets/catalogue.jsonl is well formed")).collect()
    });
    &ENTRIES
}

/// The entry with this name in the catalogue or in Ollama's library. Letter case and punctuation do not matter.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    // names that differ in punctuation alone may mean two: deepseek-v2:lite is the file in Ollama's library
    let exactly = || all().iter().find(|entry| entry.names().any(|own| own.eq_ignore_ascii_case(name)));
    let wanted = plain(name);
    exactly().or_else(|| all().iter().find(|entry| entry.names().any(|name| plain(name) == wanted)))
}

/// The entry that a name of another place means, and the quantisation in it: `qwen3:8b-q8_0`, `hf://Qwen/Qwen3-8B-GGUF:Q8_0`,
/// `https://…/Qwen3-8B-Q8_0.gguf`.
pub fn described_by(reference: &str) -> Option<(&'static CatalogueEntry, Option<FileType>)> {
    let last = reference.rsplit('/').next()?;
    let last = last.strip_suffix(".gguf").unwrap_or(last);
    let without_format = |name: &str| find(name.strip_suffix("-GGUF").or(name.strip_suffix("-gguf")).unwrap_or(name));
    if let Some(entry) = without_format(last) {
        return Some((entry, None));
    }
    last.match_indices([':', '-', '.']).find_map(|(at, _)| {
        let quantisation = last.get(at + 1..)?.parse().ok()?;
        Some((without_format(last.get(..at)?)?, Some(quantisation)))
    })
}

/// The model with this name, in its usual quantisation.
pub fn model(name: &str) -> Option<Model> {
    let entry = find(name)?;
    entry.model(entry.quantisation).ok()
}

/// The same prepared for engines, with its projector if it has one.
pub fn model_and_projector(name: &str) -> Option<(PreparedModel, Option<Arc<Projector>>)> {
    Some((PreparedModel::from(model(name)?).with_date(&dated()), find(name)?.projector().cloned()))
}

/// Suggestions for an unknown name, best first: entries whose names contain it, else those within edit distance 2, else
/// those that contain its longest word.
pub fn nearest(name: &str) -> Vec<&'static CatalogueEntry> {
    const MAX_DISTANCE: usize = 2;
    let wanted = plain(name);
    let containing = |part: &str| -> Vec<_> {
        let matches = |entry: &&CatalogueEntry| entry.names().any(|name| plain(name).contains(part));
        all().iter().filter(|_| !part.is_empty()).filter(matches).collect()
    };
    let misspelt = || -> Vec<_> {
        let distance =
            |entry: &CatalogueEntry| entry.names().map(|name| strsim::levenshtein(&plain(name), &wanted)).min();
        let close = |&(distance, _): &(usize, _)| distance <= MAX_DISTANCE && wanted.chars().count() > 2 * MAX_DISTANCE;
        let mut near: Vec<_> = all().iter().filter_map(|entry| Some((distance(entry)?, entry))).filter(close).collect();
        near.sort_by_key(|&(distance, _)| distance);
        near.into_iter().map(|(_, entry)| entry).collect()
    };
    // sizes such as 70b and single letters match too much
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| word.len() > 2 && word.starts_with(char::is_alphabetic));
    let word = words.max_by_key(|word| word.len()).map(plain).unwrap_or_default();
    let found = [containing(&wanted), misspelt()].into_iter().find(|near| !near.is_empty());
    found.unwrap_or_else(|| containing(&word))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl CatalogueEntry {
    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.tags.iter().map(String::as_str))
    }

    /// Whether it is the older of two conversions.
    pub const fn is_older_conversion(&self) -> bool {
        self.newer.is_some()
    }

    /// Of a model that is listed in two conversions, which one this is, as one sentence.
    pub fn conversion(&self) -> Option<String> {
        let library = |entry: &Self| if entry.tags.is_empty() { "" } else { ", the one in Ollama's library" };
        let times = |older: &Self, newer: &Self| older.cached_values() / newer.cached_values().max(1);
        if let Some(newer) = self.newer.as_ref().and_then(|name| find(name)) {
            return Some(format!(
                "an older conversion{}, which caches whole heads: a newer one, {PREFIX}{}, needs {} times less KV cache",
                library(self),
                newer.name,
                times(self, newer)
            ));
        }
        let older = all().iter().find(|entry| entry.newer.as_ref() == Some(&self.name))?;
        Some(format!(
            "a newer conversion, which caches compressed attention: an older one{}, {PREFIX}{}, needs {} times more KV cache",
            library(older),
            older.name,
            times(older, self)
        ))
    }

    /// Values that the KV cache holds per token and block; compressed attention has no V of its own.
    fn cached_values(&self) -> u64 {
        let number = |key: &str| self.number(key, 0).unwrap_or(0);
        let value =
            if self.keys.contains_key("attention.key_length_mla") { 0 } else { number("attention.value_length") };
        number("attention.head_count_kv") * (number("attention.key_length") + value)
    }

    /// The model that llama.cpp's quantiser would produce.
    ///
    /// # Errors
    /// If the quantiser would refuse; the tests rule out invalid entries.
    pub fn model(&self, quantisation: FileType) -> Result<Model, CatalogueError> {
        let bytes = write(&self.header_spec()?, Encoding::default());
        let mut header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())?;
        header.notes.extend(self.conversion());
        Ok(Model::from_header(header, &self.title)?.quantised(quantisation)?)
    }

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
        metadata.push(("tokenizer.ggml.tokens".to_owned(), ValueSpec::EmptyStrings(self.vocab)));
        let tensors = template::tensors(self)?;
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
fn value_spec(value: &Json) -> Option<ValueSpec> {
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
