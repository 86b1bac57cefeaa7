//! Models that need no file and no network: their hyperparameters are built in, and the header follows from them.
//!
//! - `assets/catalogue.jsonl`: one model a line.
//! - `assets/architectures.txt`: which tensors a model of each architecture has; read by `template`.
//! - `words`: what a template's words stand for in one block of one model.
//!
//! A header is written as the bytes of an F32 file and read by the one parser; llama.cpp's own rules of mixing then give
//! every tensor its format. The tokens are not kept, only their number.

mod template;
mod words;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, FileType, GgmlType, GgufError, HeaderLimits, HeaderOnly, read};
use crate::model::quantise::QuantiseError;
use crate::model::{Model, ModelError};

/// The model that the planner opens on when none is named.
pub const DEFAULT: &str = "llama3.1-8b";

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// What it is called here: `qwen3-8b`.
    pub name: String,
    /// What its makers call it: `Qwen3 8B`.
    pub title: String,
    /// What Ollama's library calls it: `qwen3:8b`, and `qwen3` where that is the tag that one gets.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `general.architecture`.
    pub architecture: String,
    /// Tokens in the vocabulary.
    vocab: u64,
    /// What it has of the things that models of its architecture may have: `tied`, `rope_freqs`.
    #[serde(default)]
    marks: Vec<String>,
    /// The quantisation that people mostly run it in.
    #[serde(default = "usual", deserialize_with = "file_type")]
    pub quantisation: FileType,
    /// Its hyperparameters, without the architecture before the key.
    keys: BTreeMap<String, Json>,
}

fn usual() -> FileType {
    FileType::Q4KM
}

fn file_type<'de, D: serde::Deserializer<'de>>(from: D) -> Result<FileType, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// Why an entry makes no model.
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

/// Every entry, families together.
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

/// The entry that goes by `name`: here, or in Ollama's library. Letter case and the marks between letters do not count.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    let wanted = plain(name);
    all().iter().find(|entry| entry.names().any(|name| plain(name) == wanted))
}

/// The model that goes by `name`, in the quantisation that people mostly run it in.
pub fn model(name: &str) -> Option<Model> {
    let entry = find(name)?;
    entry.model(entry.quantisation).ok()
}

/// The entries nearest to `name`, which none goes by, best first: those that its letters stand in, else those that it
/// becomes with two letters changed, else those that its longest word stands in.
pub fn nearest(name: &str) -> Vec<&'static CatalogueEntry> {
    /// Letters that may be put in, taken out or changed.
    const SLIPS: usize = 2;
    let wanted = plain(name);
    let holding = |part: &str| -> Vec<_> {
        let held = |entry: &&CatalogueEntry| entry.names().any(|name| plain(name).contains(part));
        all().iter().filter(|_| !part.is_empty()).filter(held).collect()
    };
    let slipped = || -> Vec<_> {
        let slips = |entry: &CatalogueEntry| entry.names().map(|name| strsim::levenshtein(&plain(name), &wanted)).min();
        let few = |&(slips, _): &(usize, _)| slips <= SLIPS && wanted.chars().count() > 2 * SLIPS;
        let mut near: Vec<_> = all().iter().filter_map(|entry| Some((slips(entry)?, entry))).filter(few).collect();
        near.sort_by_key(|&(slips, _)| slips);
        near.into_iter().map(|(_, entry)| entry).collect()
    };
    // a size alone, such as 70b, names nothing, nor does a letter
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| word.len() > 2 && word.starts_with(char::is_alphabetic));
    let word = words.max_by_key(|word| word.len()).map(plain).unwrap_or_default();
    let found = [holding(&wanted), slipped()].into_iter().find(|near| !near.is_empty());
    found.unwrap_or_else(|| holding(&word))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl CatalogueEntry {
    /// All that it is called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.tags.iter().map(String::as_str))
    }

    /// The model as llama.cpp's quantiser would make it.
    ///
    /// # Errors
    /// When the quantiser would refuse; that an entry describes no model, the tests rule out.
    pub fn model(&self, quantisation: FileType) -> Result<Model, CatalogueError> {
        let bytes = write(&self.draft()?, Encoding::default());
        let header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())?;
        Ok(Model::from_header(header, &self.title)?.quantised(quantisation)?)
    }

    fn draft(&self) -> Result<HeaderSpec, CatalogueError> {
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
        // a header holds no more than 2^32 tokens: they are counted in memory
        metadata.push((format!("{}.vocab_size", self.architecture), ValueSpec::U32(self.vocab as u32)));
        metadata.push(("tokenizer.ggml.model".to_owned(), text("none")));
        metadata.push(("tokenizer.ggml.tokens".to_owned(), ValueSpec::EmptyStrings(self.vocab)));
        let tensors = template::tensors(self)?;
        Ok(HeaderSpec {
            metadata,
            tensors: tensors.into_iter().map(|(name, dims)| (name, GgmlType::F32, dims)).collect(),
        })
    }
}

/// A hyperparameter in the type that llama.cpp's converters give it.
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
