//! The projectors of the catalogue's models that read images or sounds: published headers, blocks that repeat written
//! once (`assets/projectors.jsonl`, one per line).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::Value as Json;

use super::{CatalogueEntry, CatalogueError, PREFIX, value_spec};
use crate::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use crate::gguf::{GgmlType, HeaderLimits, HeaderOnly, read};
use crate::model::Projector;

/// A projector of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectorEntry {
    /// The model in the catalogue that it belongs to.
    model: String,
    /// `general.name`.
    name: String,
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

/// Every projector by the name of its model.
///
/// # Panics
/// Never: the asset is part of the program and a test reads all of it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests build every projector")]
fn all() -> &'static BTreeMap<String, Arc<Projector>> {
    static PROJECTORS: LazyLock<BTreeMap<String, Arc<Projector>>> = LazyLock::new(|| {
        let lines = include_str!("../../../assets/projectors.jsonl").lines();
        let built = lines.map(|line| {
            let entry: ProjectorEntry = serde_json::from_str(line).expect("assets/projectors.jsonl is well formed");
            let projector = entry.projector().expect("assets/projectors.jsonl describes projectors");
            (entry.model, projector)
        });
        built.collect()
    });
    &PROJECTORS
}

impl CatalogueEntry {
    /// Its projector, if it has one whose header was published.
    pub fn projector(&self) -> Option<&'static Arc<Projector>> {
        all().get(&self.name)
    }
}

impl ProjectorEntry {
    fn projector(&self) -> Result<Arc<Projector>, CatalogueError> {
        let text = |text: &str| ValueSpec::String(text.to_owned());
        let mut spec = HeaderSpec {
            metadata: vec![
                ("general.architecture".to_owned(), text("clip")),
                ("general.type".to_owned(), text("mmproj")),
                ("general.name".to_owned(), text(&self.name)),
            ],
            tensors: Vec::new(),
        };
        for (key, value) in &self.keys {
            let value = value_spec(value).ok_or_else(|| CatalogueError::Key(key.clone()))?;
            let prefix = if key.starts_with("general.") { "" } else { "clip." };
            spec.metadata.push((format!("{prefix}{key}"), value));
        }
        for line in &self.tensors {
            match line {
                TensorLine::One(tensor) => spec.tensors.push(tensor.named(tensor.0.clone())?),
                TensorLine::Repeated { repeat, blocks, tensors } => {
                    for block in 0..*blocks {
                        for tensor in tensors {
                            spec.tensors.push(tensor.named(format!("{repeat}.{block}.{}", tensor.0))?);
                        }
                    }
                }
            }
        }
        let header = read(&mut HeaderOnly(&write(&spec, Encoding::default())), &HeaderLimits::default())?;
        let projector = Projector::new(format!("{PREFIX}{}", self.model), header);
        Ok(Arc::new(Projector { inside: self.inside.clone(), ..Projector::clone(&projector) }))
    }
}

impl TensorEntry {
    fn named(&self, name: String) -> Result<(String, GgmlType, Vec<u64>), CatalogueError> {
        match self.1.parse() {
            Ok(ty) => Ok((name, ty, self.2.clone())),
            Err(what) => Err(CatalogueError::Tensor { tensor: name, what }),
        }
    }
}
