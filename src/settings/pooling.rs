//! How an embedding is made of the hidden states of a text.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The kind of pooling (`--pooling`, `llama_pooling_type` in `llama.h`, 0.1.161).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// None: an embedding for each token.
    None,
    /// The mean over all tokens.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// A score by a classifier, for reranking.
    Rank,
}

impl Pooling {
    /// All kinds, in the order of llama.cpp's numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Mean, Self::Cls, Self::Last, Self::Rank];

    /// As llama-server's option has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Last => "last",
            Self::Rank => "rank",
        }
    }

    /// The kind that a header's number (`pooling_type`) stands for.
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pooling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|pooling| pooling.name() == text.trim());
        found.ok_or_else(|| format!("'{text}' is not a kind of pooling: use none, mean, cls, last or rank"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_llama_cpp_does() {
        assert_eq!(Pooling::of_number(0), Some(Pooling::None));
        assert_eq!(Pooling::of_number(3), Some(Pooling::Last));
        assert_eq!(Pooling::of_number(5), None);
        assert!(Pooling::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)) && "max".parse::<Pooling>().is_err());
    }
}
