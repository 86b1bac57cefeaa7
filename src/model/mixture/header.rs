//! How large the header of a file is, where it was not read.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::Model;
use crate::units::Bytes;

use super::{of_model, published_file};

/// Bytes of a header for each token of the vocabulary, with the merges: what files of 57 repositories have, at the median.
/// `tests/mixtures.rs` compares.
pub const BYTES_PER_TOKEN: u64 = 45;

/// What the weights of a model would be exact after.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ExactAfter {
    /// The reference whose header says what they are; none if no place is known that has the file.
    pub reference: Option<String>,
    /// About as many bytes are fetched.
    pub header_bytes: Bytes,
}

impl Model {
    /// What its weights would be exact after, if they are not.
    pub fn exact_after(&self) -> Option<ExactAfter> {
        let mixture = self.mixture.as_ref().filter(|mixture| mixture.uncertainty().is_some())?;
        let file = published_file(of_model(self), mixture.quantisation);
        let reference = file.map(|file| format!("hf://{}:{}", file.edition.repository, file.name));
        Some(ExactAfter { reference, header_bytes: self.header_bytes()? })
    }

    /// About how many bytes the header of one of its files has: as published, else by its vocabulary.
    pub fn header_bytes(&self) -> Option<Bytes> {
        let published = of_model(self).map(|edition| edition.before_tensors.0).find(|bytes| *bytes > 0);
        let by_tokens = || Some(self.hyper.vocabulary?.saturating_mul(BYTES_PER_TOKEN));
        published.or_else(by_tokens).map(Bytes)
    }
}

impl std::fmt::Display for ExactAfter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "weights are exact after fetching the header: about {}", self.header_bytes)?;
        match &self.reference {
            Some(reference) => write!(f, ", by 'plimsoll plan {}'", crate::text::shell_word(reference)),
            None => Ok(()),
        }
    }
}
