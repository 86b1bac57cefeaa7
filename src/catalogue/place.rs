//! Where the files of models can be had.

use schemars::JsonSchema;
use serde::Serialize;

use super::CatalogueEntry;
use crate::model::mixture;

/// A place that has a file of a model in one quantisation.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// Ollama's library.
    Ollama {
        /// The tag: `qwen3:8b`.
        tag: String,
    },
    /// A repository on Hugging Face.
    HuggingFace {
        /// `unsloth/Qwen3.6-27B-GGUF`
        repository: String,
        /// The file's name among the repository's quantisations: `UD-Q4_K_XL`.
        file: String,
    },
}

impl Place {
    /// What to type to have it.
    pub fn command(&self) -> String {
        match self {
            Self::Ollama { tag } => format!("ollama pull {tag}"),
            Self::HuggingFace { repository, file } => format!("llama-server -hf {repository}:{file}"),
        }
    }
}

impl CatalogueEntry {
    /// A place that has it in this quantisation; none if no such place is known.
    pub fn place(&self, quantisation: &str) -> Option<Place> {
        let is_usual = quantisation == self.quantisation.name();
        let tag = self.tags.first().filter(|_| is_usual);
        let in_library = tag.map(|tag| Place::Ollama { tag: tag.clone() });
        in_library.or_else(|| {
            let mut editions = mixture::of_name(&self.name).filter(|edition| edition.header == self.name);
            let file = editions.find_map(|edition| edition.file(quantisation))?;
            let repository = file.edition.repository.to_owned();
            Some(Place::HuggingFace { repository, file: file.name.to_owned() })
        })
    }
}
