//! The built-in catalogue: headers generated from hyperparameters, without a file or network.
//!
//! - `assets/catalogue.jsonl`: one model per line.
//! - `assets/architectures.txt`: the tensors of each architecture; expanded by `template`.
//! - `assets/projectors.jsonl`: the projectors that belong to models, one per line: published headers, blocks that
//!   repeat written once, and what others have besides the header of a relative (`like`).
//! - `place`: where a model can be had in a quantisation.
//! - `names`: which entry a name of another place means; `search`: what else may have been meant.
//!
//! A header is written as that of an F32 file, parsed, and quantised by llama.cpp's rules. Of the tokens only their
//! number is kept.

mod header;
mod names;
mod place;
mod projectors;
mod search;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::gguf::{FileType, GgufError, Value};
use crate::model::mixture::{self, PublishedFile, Quantisation};
use crate::model::quantise::QuantiseError;
use crate::model::{Modalities, Model, ModelError, Projector};

pub use names::{named, quantisation_in};
pub use place::Place;
pub use search::{Nearest, nearest};

pub use crate::model::CATALOGUE as PREFIX;

/// The day on which the catalogue's models or projectors last changed.
pub const DATE: &str = include_str!("../assets/catalogue.day").split_at("2026-11-26".len()).0;

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
    /// The month in which it was published: `2025-04`; the year where the month is not known.
    #[serde(default)]
    pub released: Option<String>,
    /// What people use it for, the first thing first; never empty. It sees images if [`Use::Vision`] is among them, and
    /// hears sounds if [`Use::Audio`] is, whether or not its projector is known.
    #[serde(rename = "for")]
    pub uses: Vec<Use>,
    /// Mebibytes of its published projector, if the catalogue has no header of it.
    #[serde(default)]
    projector_mib: Option<u64>,
    /// Names in Ollama's library: `qwen3:8b`, and `qwen3` if that is its `latest` tag.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Repositories on Hugging Face that hold files with exactly its tensors: `unsloth/Qwen3.8-27B-GGUF`.
    #[serde(default)]
    pub hf: Vec<String>,
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

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Conversation and instructions.
    Chat,
    /// Writing programs.
    Code,
    /// Thinking before it answers.
    Reasoning,
    /// Looking at images.
    Vision,
    /// Vectors for search.
    Embedding,
    /// Ordering the results of a search.
    Reranking,
    /// From one language into another.
    Translation,
    /// Reading documents.
    Ocr,
    /// Listening to sounds.
    Audio,
}

impl Use {
    /// Every use, in the order in which they are listed.
    pub const ALL: [Self; 9] = [
        Self::Chat,
        Self::Code,
        Self::Reasoning,
        Self::Vision,
        Self::Embedding,
        Self::Reranking,
        Self::Translation,
        Self::Ocr,
        Self::Audio,
    ];

    /// Its name, as in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Code => "code",
            Self::Reasoning => "reasoning",
            Self::Vision => "vision",
            Self::Embedding => "embedding",
            Self::Reranking => "reranking",
            Self::Translation => "translation",
            Self::Ocr => "ocr",
            Self::Audio => "audio",
        }
    }
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

/// One entry per line.
const LINES: &str = include_str!("../assets/catalogue.jsonl");

/// Every entry, grouped by family.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
pub fn all() -> &'static [CatalogueEntry] {
    static ENTRIES: LazyLock<Vec<CatalogueEntry>> = LazyLock::new(|| LINES.lines().map(CatalogueEntry::read).collect());
    &ENTRIES
}

/// The entries in whose lines `text` stands; the others are not read.
fn with(text: &str) -> impl Iterator<Item = CatalogueEntry> {
    LINES.lines().filter(move |line| line.contains(text)).map(CatalogueEntry::read)
}

/// What Ollama takes for the tag of a name without one.
const LATEST: &str = ":latest";

/// The entry with this name in the catalogue or in Ollama's library. Letter case and punctuation do not matter.
pub fn find(name: &str) -> Option<CatalogueEntry> {
    let as_written = with(&format!("\"{name}\"")).find(|entry| entry.names().any(|own| own == name));
    // names that differ in punctuation alone may mean two: deepseek-v2:lite is the file in Ollama's library
    let exactly = || all().iter().find(|entry| entry.names().any(|own| own.eq_ignore_ascii_case(name)));
    let usual = || find(name.strip_suffix(LATEST)?);
    as_written.or_else(|| exactly().or_else(|| names::same(name)).cloned()).or_else(usual)
}

/// The entry that a name of another place means, and the quantisation in it: `qwen3:8b-q8_0`, `hf://Qwen/Qwen3-8B-GGUF:Q8_0`,
/// `https://…/Qwen3-8B-Q8_0.gguf`.
pub fn described_by(reference: &str) -> Option<(&'static CatalogueEntry, Option<Quantisation>)> {
    Some((names::meant(reference)?, names::quantisation_in(reference)))
}

/// A file that was published under this name of a model and of a quantisation, with the entry that has its tensors, if
/// that is not the one of this name: of Qwen3.6 27B most files lack the MTP block.
pub fn published(name: &str, quantisation: Quantisation) -> Option<(CatalogueEntry, PublishedFile)> {
    quantisation.file_type().is_none().then_some(())?;
    let own = find(name).map_or_else(|| name.to_owned(), |entry| entry.name);
    let file = mixture::published_file(mixture::of_name(&own), quantisation)?;
    let entry = find(file.edition.header)?;
    (entry.name != own).then_some((entry, file))
}

/// The model with this name, in its usual quantisation.
pub fn model(name: &str) -> Option<Model> {
    usual(&find(name)?)
}

/// The same with its projector, if it has one.
pub fn model_and_projector(name: &str) -> Option<(Model, Option<Arc<Projector>>)> {
    let entry = find(name)?;
    Some((usual(&entry)?, entry.projector().cloned()))
}

fn usual(entry: &CatalogueEntry) -> Option<Model> {
    entry.model(entry.quantisation).ok()
}

impl CatalogueEntry {
    #[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
    fn read(line: &str) -> Self {
        serde_json::from_str(line).expect("assets/catalogue.jsonl is well formed")
    }

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
                times(self, &newer)
            ));
        }
        let older = with(&format!("\"newer\":\"{}\"", self.name)).next()?;
        Some(format!(
            "a newer conversion, which caches compressed attention: an older one{}, {PREFIX}{}, needs {} times more KV cache",
            library(&older),
            older.name,
            times(&older, self)
        ))
    }

    /// Values that the KV cache holds per token and block; compressed attention has no V of its own.
    fn cached_values(&self) -> u64 {
        let number = |key: &str| self.number(key, 0).unwrap_or(0);
        let value =
            if self.keys.contains_key("attention.key_length_mla") { 0 } else { number("attention.value_length") };
        number("attention.head_count_kv") * (number("attention.key_length") + value)
    }

    /// The model that llama.cpp's quantiser would produce, or that a packager publishes under this name.
    ///
    /// # Errors
    /// If the quantiser would refuse, or nothing is known of such files; the tests rule out invalid entries.
    pub fn model(&self, quantisation: impl Into<Quantisation>) -> Result<Model, CatalogueError> {
        Ok(self.unquantised()?.requantised(quantisation)?)
    }

    /// The model as a file that was published.
    ///
    /// # Errors
    /// As [`Self::model`].
    pub fn published(&self, quantisation: Quantisation, file: &PublishedFile) -> Result<Model, CatalogueError> {
        let own_name = file.edition.model_name();
        let (name, entry) = (own_name.replace('-', " "), Some(own_name.into()));
        let mut model = self.unquantised()?.from_catalogue(entry, None);
        model.name.clone_from(&name);
        model.header.metadata.set("general.name", Value::String(name.into()));
        Ok(model.as_published(quantisation, file)?)
    }

    /// The model before it is quantised.
    fn unquantised(&self) -> Result<Model, CatalogueError> {
        let mut header = self.header()?;
        header.notes.extend(self.conversion());
        let entry = Some(self.name.as_str().into());
        let mut model = Model::from_header(header, &self.title)?.from_catalogue(entry, None);
        model.missing_projector = self.missing_projector();
        model.dated = Some(dated().into());
        Ok(model)
    }

    /// What it reads besides text, with its projector.
    pub fn reads(&self) -> Modalities {
        Modalities { vision: self.uses.contains(&Use::Vision), audio: self.uses.contains(&Use::Audio) }
    }

    /// The hyperparameter `key` of `block`, which selects the element of a list. `true` is 1; fractions are truncated.
    fn number(&self, key: &str, block: u64) -> Option<u64> {
        let value = match self.keys.get(key)? {
            Json::Array(values) => values.get(usize::try_from(block).ok()?)?,
            value => value,
        };
        match value {
            Json::Bool(flag) => Some(u64::from(*flag)),
            value => value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)),
        }
    }

    /// The hyperparameter `key` as a list of numbers; empty if it is none.
    fn numbers(&self, key: &str) -> impl Iterator<Item = u64> {
        self.keys.get(key).and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_u64)
    }

    /// The hyperparameter `key` of its header, without the architecture, if it is one number for all blocks.
    pub fn value(&self, key: &str) -> Option<u64> {
        match key {
            "vocab_size" => Some(self.vocab),
            _ => self.keys.get(key)?.as_u64(),
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.number("block_count", 0).unwrap_or(0)
    }
}
