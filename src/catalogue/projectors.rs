//! The projectors that belong to models.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value as Json;

use super::header::value_spec;
use super::{CatalogueEntry, CatalogueError, PREFIX, all};
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{self, GgmlType, HeaderLimits, HeaderOnly};
use crate::model::{MissingProjector, Modalities, Projector};
use crate::units::Bytes;

/// A projector of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectorEntry {
    /// What [`ModelsOf`] has.
    #[serde(rename = "model")]
    _model: IgnoredAny,
    #[serde(default, rename = "also")]
    _also: IgnoredAny,
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

/// A line of the asset, and the projector built of it for one model.
#[derive(Debug)]
struct ProjectorOf {
    line: &'static str,
    built: OnceLock<Arc<Projector>>,
}

/// The models that a projector belongs to.
#[derive(Deserialize)]
struct ModelsOf {
    /// The first of them in the catalogue.
    model: String,
    /// The others.
    #[serde(default)]
    also: Vec<String>,
}

#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests build every projector")]
fn read<T: DeserializeOwned>(line: &str) -> T {
    serde_json::from_str(line).expect("assets/projectors.jsonl is well formed")
}

/// Every projector, by the names of its models. Of a line no more is read than these, which stand before its own name.
fn projectors() -> &'static BTreeMap<String, ProjectorOf> {
    static PROJECTORS: LazyLock<BTreeMap<String, ProjectorOf>> = LazyLock::new(|| {
        let models = |line: &'static str| {
            let models = line.split(",\"name\":").next().unwrap_or(line);
            let ModelsOf { model, also } = read(&format!("{models}}}"));
            let names = std::iter::once(model).chain(also);
            names.map(move |name| (name, ProjectorOf { line, built: OnceLock::new() }))
        };
        include_str!("../../assets/projectors.jsonl").lines().flat_map(models).collect()
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
        let built = || {
            read::<ProjectorEntry>(of.line).projector(&self.name).expect("assets/projectors.jsonl describes projectors")
        };
        Some(of.built.get_or_init(built))
    }

    /// Whether its projector's header was published, instead of made from the header of a relative or from sizes.
    pub fn projector_is_published(&self) -> bool {
        projectors().get(self.name.as_str()).is_some_and(|of| {
            let entry: ProjectorEntry = read(of.line);
            entry.like.is_none() && !entry.made
        })
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
        let like = self.like.as_ref().and_then(|name| projectors().get(name.as_str()));
        let like: Option<ProjectorEntry> = like.map(|of| read(of.line));
        let inherited = like.iter().flat_map(|like| &like.keys).filter(|(key, _)| !self.keys.contains_key(*key));
        for (key, value) in self.keys.iter().chain(inherited) {
            let value = value_spec(value).ok_or_else(|| CatalogueError::Key(key.clone()))?;
            let prefix = if key.starts_with("general.") { "" } else { "clip." };
            spec.metadata.push((format!("{prefix}{key}"), value));
        }
        spec.tensors = expanded(like.as_ref().map_or(&self.tensors, |like| &like.tensors))?;
        if like.is_some() {
            for own in expanded(&self.tensors)? {
                match spec.tensors.iter_mut().find(|(name, ..)| *name == own.0) {
                    Some(theirs) => *theirs = own,
                    None => spec.tensors.push(own),
                }
            }
        }
        let header = gguf::read(&mut HeaderOnly(&write(&spec, Encoding::default())), &HeaderLimits::default())?;
        let projector = Projector::new(format!("{PREFIX}{model}"), header);
        let inside = self.inside.clone().or_else(|| like?.inside);
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
