//! The built-in catalogue: headers generated from hyperparameters, without a file or network.
//!
//! - `assets/catalogue.jsonl`: one model per line.
//! - `assets/architectures.txt`: the tensors of each architecture; parsed by `template`.
//! - `assets/projectors.jsonl`: the projectors that belong to models, one per line: published headers, blocks that
//!   repeat written once, and what others have besides the header of a relative (`like`).
//! - `words`: the values of a template's words in one block of one model.
//!
//! A header is written as that of an F32 file, parsed, and quantised by llama.cpp's rules. Of the tokens only their
//! number is kept.

mod names;

use crate::engine::PreparedModel;
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{ElementType, FileType, GgmlType, GgufError, HeaderLimits, HeaderOnly, Value, read};
use crate::model::mixture::{self, PublishedFile, Quantisation};
use crate::model::quantise::QuantiseError;
use crate::model::{MissingProjector, Modalities, Model, ModelError, Projector};
use crate::text::LONGEST_NAME;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

pub use names::{named, quantisation_in};

pub use crate::model::CATALOGUE as PREFIX;

/// The day on which the catalogue's models or projectors last changed.
pub const DATE: &str = include_str!("../../assets/catalogue.day").split_at("2026-11-26".len()).0;

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
    exactly().or_else(|| names::same(name))
}

/// The entry that a name of another place means, and the quantisation in it: `qwen3:8b-q8_0`, `hf://Qwen/Qwen3-8B-GGUF:Q8_0`,
/// `https://…/Qwen3-8B-Q8_0.gguf`.
pub fn described_by(reference: &str) -> Option<(&'static CatalogueEntry, Option<Quantisation>)> {
    Some((names::meant(reference)?, names::quantisation_in(reference)))
}

/// A file that was published under this name of a model and of a quantisation, with the entry that has its tensors, if
/// that is not the one of this name: of Qwen3.6 27B most files lack the MTP block.
pub fn published(name: &str, quantisation: Quantisation) -> Option<(&'static CatalogueEntry, PublishedFile)> {
    let own = find(name).map_or(name, |entry| entry.name.as_str());
    quantisation.file_type().is_none().then_some(())?;
    let file = mixture::published_file(mixture::of_name(own), quantisation)?;
    let entry = find(file.edition.header)?;
    (entry.name != own).then_some((entry, file))
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

/// Suggestions for an unknown name.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// The entries, best first.
    pub entries: Vec<&'static CatalogueEntry>,
    /// The name has a size, and these are of others.
    pub of_other_sizes: bool,
}

/// Suggestions for an unknown name: entries whose names contain it, else those within edit distance 2, else those that
/// contain its longest word. Of these those of its size, if there are any.
pub fn nearest(name: &str) -> Nearest {
    let mut entries = similar(name);
    let size = names::size(name);
    let has_size = |entry: &&CatalogueEntry| entry.names().any(|name| names::size(name) == size);
    let of_other_sizes = size.is_some() && !entries.iter().any(has_size);
    if !of_other_sizes && size.is_some() {
        entries.retain(has_size);
    }
    Nearest { entries, of_other_sizes }
}

/// Entries with similar names, best first.
fn similar(name: &str) -> Vec<&'static CatalogueEntry> {
    const MAX_DISTANCE: usize = 2;
    if name.len() > LONGEST_NAME {
        return Vec::new();
    }
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

    /// The model that llama.cpp's quantiser would produce, or that a packager publishes under this name.
    ///
    /// # Errors
    /// If the quantiser would refuse, or nothing is known of such files; the tests rule out invalid entries.
    pub fn model(&self, quantisation: impl Into<Quantisation>) -> Result<Model, CatalogueError> {
        Ok(self.unquantised()?.in_quantisation(quantisation)?)
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
        let bytes = write(&self.header_spec()?, Encoding::default());
        let mut header = read(&mut HeaderOnly(&bytes), &HeaderLimits::default())?;
        header.notes.extend(self.conversion());
        let entry = Some(self.name.as_str().into());
        let mut model = Model::from_header(header, &self.title)?.from_catalogue(entry, None);
        model.missing_projector = self.missing_projector();
        Ok(model)
    }

    /// What it reads besides text, with its projector.
    pub fn reads(&self) -> Modalities {
        Modalities { vision: self.uses.contains(&Use::Vision), audio: self.uses.contains(&Use::Audio) }
    }

    /// Its projector, if it needs one that the catalogue lacks.
    pub fn missing_projector(&self) -> Option<MissingProjector> {
        let reads = self.reads();
        let lacks = reads != Modalities::default() && !projectors().contains_key(self.name.as_str());
        lacks.then(|| MissingProjector { reads, about: self.about_projector() })
    }

    /// The published size of its projector, or else that of the model with the same first word in its name that reads the
    /// same and whose embeddings are nearest in length.
    fn about_projector(&self) -> Option<Bytes> {
        let width = |entry: &Self| entry.number("embedding_length", 0).unwrap_or(0);
        let family = |entry: &Self| entry.name.split(|c: char| !c.is_alphabetic()).next().map(str::to_owned);
        let relatives = all().iter().filter(|entry| entry.reads() == self.reads() && family(entry) == family(self));
        let known = relatives.filter_map(|entry| Some((width(entry).abs_diff(width(self)), entry.projector_bytes()?)));
        self.projector_bytes().or_else(|| known.min_by_key(|(apart, _)| *apart).map(|(_, bytes)| bytes))
    }

    fn projector_bytes(&self) -> Option<Bytes> {
        let published = self.projector_mib.map(Bytes::mib);
        published.or_else(|| self.projector().map(|projector| projector.tensor_bytes))
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

/// The lines of every section, by its name.
type Sections = BTreeMap<&'static str, Vec<TemplateLine>>;

struct TemplateLine {
    what: TemplateAction,
    conditions: Vec<Condition>,
}

enum TemplateAction {
    /// Another section's lines.
    Use(&'static str),
    Tensor {
        /// Whether it occurs in every block.
        in_blocks: bool,
        name: &'static str,
        dims: Vec<Sum>,
    },
}

/// Requires that a word is greater than zero, or, with `holds` false, that it is zero or undefined.
struct Condition {
    word: Word,
    holds: bool,
}

/// `2*key+value`: products, each added or subtracted.
struct Sum(Vec<Product>);

struct Product {
    minus: bool,
    /// Evaluated from the left: each divides (true) or multiplies the result so far.
    factors: Vec<(bool, Word)>,
}

/// Names and dimensions of a model's tensors, those outside of blocks first.
fn tensors(entry: &CatalogueEntry) -> Result<Vec<(String, Vec<u64>)>, CatalogueError> {
    static SECTIONS: LazyLock<Sections> = LazyLock::new(|| sections(include_str!("../../assets/architectures.txt")));
    if !SECTIONS.contains_key(entry.architecture.as_str()) {
        return Err(CatalogueError::Architecture(entry.architecture.clone()));
    }
    let mut tensors = Vec::new();
    for block in std::iter::once(None).chain((0..entry.blocks()).map(Some)) {
        let values = TemplateValues::new(entry, block.unwrap_or(0));
        Expansion { sections: &SECTIONS, values, block, tensors: &mut tensors }.section(&entry.architecture)?;
    }
    Ok(tensors)
}

/// Expands the template for one block, or for the tensors outside of blocks.
struct Expansion<'e> {
    sections: &'e Sections,
    values: TemplateValues<'e>,
    block: Option<u64>,
    tensors: &'e mut Vec<(String, Vec<u64>)>,
}

impl Expansion<'_> {
    fn section(&mut self, name: &str) -> Result<(), CatalogueError> {
        let sections = self.sections;
        let lines = sections.get(name).ok_or_else(|| CatalogueError::Architecture(name.to_owned()))?;
        for line in lines {
            let holds = |it: &Condition| it.holds == self.values.of(it.word).is_some_and(|number| number > 0);
            if !line.conditions.iter().all(holds) {
                continue;
            }
            match &line.what {
                TemplateAction::Use(other) => self.section(other)?,
                TemplateAction::Tensor { in_blocks, name, dims } if *in_blocks == self.block.is_some() => {
                    let name = self.block.map_or_else(|| (*name).to_owned(), |block| format!("blk.{block}.{name}"));
                    let dims = dims.iter().map(|dim| self.number(dim, &name)).collect::<Result<_, _>>()?;
                    self.tensors.push((name, dims));
                }
                TemplateAction::Tensor { .. } => {}
            }
        }
        Ok(())
    }

    fn number(&self, sum: &Sum, tensor: &str) -> Result<u64, CatalogueError> {
        let error = |what: String| CatalogueError::Tensor { tensor: tensor.to_owned(), what };
        let mut total: u64 = 0;
        for Product { minus, factors } in &sum.0 {
            let mut product: u64 = 1;
            for &(divides, word) in factors {
                let factor = self.values.of(word).ok_or_else(|| error(format!("there is no {word:?}")))?;
                let next = if divides { product.checked_div(factor) } else { product.checked_mul(factor) };
                product = next.ok_or_else(|| error(format!("{word:?} is {factor}")))?;
            }
            let next = if *minus { total.checked_sub(product) } else { total.checked_add(product) };
            total = next.ok_or_else(|| error("its dimensions are not numbers".to_owned()))?;
        }
        Ok(total)
    }
}

fn sections(text: &'static str) -> Sections {
    let mut sections = Sections::new();
    let mut current = "";
    for line in
        text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
    {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => current = name,
            None => sections.entry(current).or_default().push(TemplateLine::read(line)),
        }
    }
    sections
}

impl TemplateLine {
    fn read(line: &'static str) -> Self {
        let (what, conditions) = line.split_once(" if ").unwrap_or((line, ""));
        let condition = |text: &'static str| match text.strip_prefix('!') {
            Some(word) => Condition { word: Word::read(word), holds: false },
            None => Condition { word: Word::read(text), holds: true },
        };
        let conditions = conditions.split_whitespace().map(condition).collect();
        if let Some(section) = what.strip_prefix("use ") {
            return Self { what: TemplateAction::Use(section.trim()), conditions };
        }
        let (name, dims) = what.split_once(' ').unwrap_or((what, ""));
        let dims = dims.split_whitespace().map(Sum::read).collect();
        let (in_blocks, name) = name.strip_prefix("*.").map_or((false, name), |name| (true, name));
        Self { what: TemplateAction::Tensor { in_blocks, name, dims }, conditions }
    }
}

impl Sum {
    fn read(text: &'static str) -> Self {
        let terms = pieces(text, ['+', '-']);
        Self(terms.map(|(sign, term)| Product { minus: sign == Some('-'), factors: factors(term) }).collect())
    }
}

fn factors(term: &'static str) -> Vec<(bool, Word)> {
    pieces(term, ['*', '/']).map(|(sign, word)| (sign == Some('/'), Word::read(word))).collect()
}

/// Splits `text` at `signs`; each piece comes with the sign before it.
fn pieces(text: &'static str, signs: [char; 2]) -> impl Iterator<Item = (Option<char>, &'static str)> {
    let mut before = None;
    text.split_inclusive(signs).map(move |piece| {
        let word = piece.trim_end_matches(signs);
        let sign = before;
        before = piece.chars().last().filter(|last| signs.contains(last));
        (sign, word)
    })
}

/// Tokens per compressed position where neighbouring windows overlap (`models/deepseek4.cpp`, 0.1.161).
const OVERLAPPING: u64 = 4;

/// What the rows of the table of n-grams are padded to a multiple of (`configuration_qwen4_exp.py` of transformers).
const NGRAM_ROWS: u64 = 128;

/// The predefined words, in the order of [`TemplateValues`].
const SHORT: [&str; 23] = [
    "embd",
    "vocab",
    "ff",
    "heads",
    "kv_heads",
    "key",
    "value",
    "key_mla",
    "value_mla",
    "rope",
    "expert_ff",
    "shared_ff",
    "moe",
    "dense",
    "slides",
    "nextn",
    "recurrent",
    "attends",
    "overlaps",
    "hashed",
    "ngrams",
    "ngram_rows",
    "block",
];

/// A word of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// A literal.
    Number(u64),
    /// An index into [`SHORT`].
    Short(usize),
    /// A metadata key, or a mark of the model.
    Named(&'static str),
}

impl Word {
    fn read(text: &'static str) -> Self {
        match (text.parse(), SHORT.iter().position(|&short| short == text)) {
            (Ok(number), _) => Self::Number(number),
            (_, Some(index)) => Self::Short(index),
            _ => Self::Named(text),
        }
    }
}

/// The values of [`SHORT`] in one block; outside of blocks, those of the first block.
struct TemplateValues<'e> {
    entry: &'e CatalogueEntry,
    short: [Option<u64>; SHORT.len()],
}

impl<'e> TemplateValues<'e> {
    fn new(entry: &'e CatalogueEntry, block: u64) -> Self {
        let number = |key: &str| entry.number(key, block);
        let or_one = |key: &str| number(key).unwrap_or(1);
        let or_none = |key: &str| number(key).unwrap_or(0);

        let (embd, ff, heads) =
            (number("embedding_length"), number("feed_forward_length"), number("attention.head_count"));
        let kv_heads = number("attention.head_count_kv").or(heads);
        let slides = number("attention.sliding_window_pattern").unwrap_or(0);
        let head = |key: &str| {
            let sliding = number(&format!("{key}_swa")).filter(|_| slides > 0);
            let even = || embd?.checked_div(heads.filter(|&heads| heads > 0)?);
            sliding.or_else(|| number(key)).or_else(even)
        };
        let (key, value) = (head("attention.key_length"), head("attention.value_length"));
        let expert_ff = number("expert_feed_forward_length").or(ff);
        let shared = expert_ff.map(|ff| ff.saturating_mul(or_none("expert_shared_count").max(1)));

        let last = or_none("block_count") - or_none("nextn_predict_layers").min(or_none("block_count"));
        let nextn = block >= last;
        let moe = or_none("expert_count") > 0
            && block >= or_none("leading_dense_block_count")
            && (block + 1).is_multiple_of(or_one("interleave_moe_layer_step"))
            && number("moe_every_n_layers").is_none_or(|every| block % every.max(1) == 1);
        // interval of attention blocks, by default 4 (src/models/qwen3next.cpp)
        let interval = number("full_attention_interval").unwrap_or(4);
        let recurrent = !nextn && !(block + 1).is_multiple_of(interval);

        let flag = |flag: bool| Some(u64::from(flag));
        let short = [
            embd,
            Some(entry.vocab),
            ff,
            heads,
            kv_heads,
            key,
            value,
            number("attention.key_length_mla").or(key),
            number("attention.value_length_mla").or(value),
            number("rope.dimension_count").or(key),
            expert_ff,
            number("expert_shared_feed_forward_length").or(shared),
            flag(moe),
            flag(!moe),
            Some(slides),
            flag(nextn),
            flag(recurrent),
            flag(!recurrent),
            flag(number("attention.compress_ratios") == Some(OVERLAPPING)),
            flag(block < or_none("hash_layer_count")),
            flag(entry.numbers("ple.layers").any(|layer| layer == block)),
            Some(entry.numbers("ple.head_vocab_sizes").sum::<u64>().next_multiple_of(NGRAM_ROWS)),
            Some(block),
        ];
        Self { entry, short }
    }

    /// The value of `word`; none if undefined. Marks of the model are 1.
    fn of(&self, word: Word) -> Option<u64> {
        match word {
            Word::Number(number) => Some(number),
            Word::Short(index) => self.short.get(index).copied().flatten(),
            Word::Named(name) if self.entry.marks.iter().any(|mark| mark == name) => Some(1),
            Word::Named(name) => self.entry.number(name, self.short.last().copied().flatten().unwrap_or(0)),
        }
    }
}

impl CatalogueEntry {
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

/// A projector of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectorEntry {
    /// The model in the catalogue that it belongs to.
    model: String,
    /// Other models that it belongs to.
    #[serde(default)]
    also: Vec<String>,
    /// `general.name`.
    name: String,
    /// The model whose projector it equals but for the keys and tensors given here.
    #[serde(default)]
    like: Option<String>,
    /// Whether its header follows from published sizes and configurations, instead of a published header.
    #[serde(default)]
    made: bool,
    /// The architecture that Ollama's converter gives the model, which it writes into one file with what reads images;
    /// none where Ollama's library has the projector as a file of its own, made by llama.cpp's converter.
    #[serde(default)]
    inside: Option<String>,
    /// Its other keys; those without `general.` lack the prefix `clip.`.
    keys: BTreeMap<String, Json>,
    tensors: Vec<TensorLine>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TensorLine {
    One(TensorEntry),
    /// The tensors of every block, whose names lack the prefix, such as `v.blk`, and the number of the block.
    Repeated {
        repeat: String,
        blocks: u64,
        tensors: Vec<TensorEntry>,
    },
}

/// Name, data type and elements per dimension.
#[derive(Debug, Deserialize)]
struct TensorEntry(String, String, Vec<u64>);

/// A projector, and the same built for one model.
#[derive(Debug)]
struct ProjectorOf {
    entry: &'static ProjectorEntry,
    built: OnceLock<Arc<Projector>>,
}

/// Every projector, by the names of its models.
fn projectors() -> &'static BTreeMap<&'static str, ProjectorOf> {
    static ENTRIES: LazyLock<Vec<ProjectorEntry>> = LazyLock::new(|| {
        let lines = include_str!("../../assets/projectors.jsonl").lines();
        #[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests build every projector")]
        lines.map(|line| serde_json::from_str(line).expect("assets/projectors.jsonl is well formed")).collect()
    });
    static PROJECTORS: LazyLock<BTreeMap<&'static str, ProjectorOf>> = LazyLock::new(|| {
        let models = |entry: &'static ProjectorEntry| {
            let names = std::iter::once(&entry.model).chain(&entry.also);
            names.map(move |name| (name.as_str(), ProjectorOf { entry, built: OnceLock::new() }))
        };
        ENTRIES.iter().flat_map(models).collect()
    });
    &PROJECTORS
}

impl CatalogueEntry {
    /// Its projector, if it has one whose header was published or follows from published facts.
    ///
    /// # Panics
    /// Never: the asset is part of the program and a test reads all of it.
    #[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests build every projector")]
    pub fn projector(&self) -> Option<&'static Arc<Projector>> {
        let of = projectors().get(self.name.as_str())?;
        let built = || of.entry.projector(&self.name).expect("assets/projectors.jsonl describes projectors");
        Some(of.built.get_or_init(built))
    }

    /// Whether its projector's header was published, instead of made from the header of a relative or from sizes.
    pub fn projector_is_published(&self) -> bool {
        projectors().get(self.name.as_str()).is_some_and(|of| of.entry.like.is_none() && !of.entry.made)
    }
}

impl ProjectorEntry {
    fn projector(&self, model: &str) -> Result<Arc<Projector>, CatalogueError> {
        let text = |text: &str| ValueSpec::String(text.to_owned());
        let mut spec = HeaderSpec {
            metadata: vec![
                ("general.architecture".to_owned(), text("clip")),
                ("general.type".to_owned(), text("mmproj")),
                ("general.name".to_owned(), text(&self.name)),
            ],
            tensors: Vec::new(),
        };
        let like = self.like.as_ref().and_then(|name| projectors().get(name.as_str())).map(|of| of.entry);
        let inherited = like.into_iter().flat_map(|like| &like.keys).filter(|(key, _)| !self.keys.contains_key(*key));
        for (key, value) in self.keys.iter().chain(inherited) {
            let value = value_spec(value).ok_or_else(|| CatalogueError::Key(key.clone()))?;
            let prefix = if key.starts_with("general.") { "" } else { "clip." };
            spec.metadata.push((format!("{prefix}{key}"), value));
        }
        spec.tensors = expanded(like.map_or(&self.tensors, |like| &like.tensors))?;
        if like.is_some() {
            for own in expanded(&self.tensors)? {
                match spec.tensors.iter_mut().find(|(name, ..)| *name == own.0) {
                    Some(theirs) => *theirs = own,
                    None => spec.tensors.push(own),
                }
            }
        }
        let header = read(&mut HeaderOnly(&write(&spec, Encoding::default())), &HeaderLimits::default())?;
        let projector = Projector::new(format!("{PREFIX}{model}"), header);
        let inside = self.inside.clone().or_else(|| like?.inside.clone());
        Ok(Arc::new(Projector { inside, ..Projector::clone(&projector) }))
    }
}

/// Each tensor of `lines`, those of blocks by block.
fn expanded(lines: &[TensorLine]) -> Result<Vec<(String, GgmlType, Vec<u64>)>, CatalogueError> {
    let mut tensors = Vec::new();
    for line in lines {
        match line {
            TensorLine::One(tensor) => tensors.push(tensor.named(tensor.0.clone())?),
            TensorLine::Repeated { repeat, blocks, tensors: each } => {
                for block in 0..*blocks {
                    for tensor in each {
                        tensors.push(tensor.named(format!("{repeat}.{block}.{}", tensor.0))?);
                    }
                }
            }
        }
    }
    Ok(tensors)
}

impl TensorEntry {
    fn named(&self, name: String) -> Result<(String, GgmlType, Vec<u64>), CatalogueError> {
        match self.1.parse() {
            Ok(ty) => Ok((name, ty, self.2.clone())),
            Err(what) => Err(CatalogueError::Tensor { tensor: name, what }),
        }
    }
}
