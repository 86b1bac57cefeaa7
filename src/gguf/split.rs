//! Split files: several shards of one model, `NAME-00001-of-00003.gguf` and so on.
//!
//! Keys and names are those of llama.cpp's gguf-split (`LLM_KV_SPLIT_*` in src/llama-arch.cpp, `llama_split_path` in
//! src/llama.cpp, llama-cpp-sys-2 0.1.161).

use std::collections::HashSet;

use super::error::{GgufError, QuotedName};
use super::limits::HeaderLimits;
use super::{Header, Metadata};

/// The `split.*` keys of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Counted from zero.
    pub index: u64,
    /// Number of shards; two or more.
    pub count: u64,
    /// Number of tensors over all shards, if stated.
    pub tensors: Option<u64>,
}

impl Shard {
    /// Reads the `split.*` keys; none if the file is not split.
    ///
    /// # Errors
    /// If the keys are not counts, contradict each other, or exceed `limits`.
    pub fn of(metadata: &Metadata, limits: &HeaderLimits) -> Result<Option<Self>, GgufError> {
        let Some(count) = number(metadata, "split.count")?.filter(|count| *count > 1) else { return Ok(None) };
        let index = number(metadata, "split.no")?.unwrap_or(0);
        if count > limits.shards {
            return Err(GgufError::Split(format!(
                "key 'split.count' says {count} shards, more than the limit of {}: the header is damaged or forged",
                limits.shards
            )));
        }
        if index >= count {
            return Err(GgufError::Split(format!(
                "key 'split.no' says that this is shard {} of {count}: the file was split incorrectly; split it again",
                index.saturating_add(1)
            )));
        }
        Ok(Some(Self { index, count, tensors: number(metadata, "split.tensors.count")? }))
    }
}

fn number(metadata: &Metadata, key: &'static str) -> Result<Option<u64>, GgufError> {
    metadata
        .get(key)
        .map(|value| {
            value.as_u64().ok_or_else(|| GgufError::SplitKey {
                field: format!("key '{key}'"),
                found: value.as_i64().map_or_else(|| format!("of type {}", value.kind()), |n| n.to_string()),
            })
        })
        .transpose()
}

/// The name of a shard's file: `stem-00001-of-00003.gguf`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardName {
    /// The part before the numbers.
    pub stem: String,
    /// Counted from zero.
    pub index: u64,
    /// Number of shards.
    pub count: u64,
}

impl ShardName {
    /// Parses a file name; none if it is not that of a shard.
    pub fn parse(name: &str) -> Option<Self> {
        let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| (text.len() >= 5).then(|| text.parse::<u64>().ok()).flatten();
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then(|| Self { stem: stem.to_owned(), index: number - 1, count })
    }

    /// The name of the shard with another index.
    pub fn sibling(&self, index: u64) -> String {
        format!("{}-{:05}-of-{:05}.gguf", self.stem, index.saturating_add(1), self.count)
    }
}

/// Merges the headers of all shards, in order. The metadata is that of the first shard, without its `split.*` keys.
///
/// # Errors
/// If the shards do not belong to one model.
pub fn join(shards: Vec<Header>, limits: &HeaderLimits) -> Result<Header, GgufError> {
    let count = shards.len() as u64;
    let mut joined: Option<Header> = None;
    let mut claimed = None;
    for (index, shard) in (0..).zip(shards) {
        let place = Shard::of(&shard.metadata, limits)?;
        let Some(place) = place.filter(|place| place.index == index && place.count == count) else {
            let found = place.map_or_else(|| "whole".to_owned(), |p| format!("shard {} of {}", p.index + 1, p.count));
            return Err(GgufError::Split(format!(
                "shard {} of {count} says that it is {found}: the files belong to different models; download all \
                 shards again",
                index + 1
            )));
        };
        if index > 0 && place.tensors.is_some() && claimed != place.tensors {
            return Err(GgufError::Split(format!(
                "shard {} of {count} states {} tensors in total, unlike the first shard: the files belong to \
                 different models; download all shards again",
                index + 1,
                place.tensors.unwrap_or_default()
            )));
        }
        match &mut joined {
            None => {
                claimed = place.tensors;
                joined = Some(shard);
            }
            Some(whole) => {
                whole.tensors.extend(shard.tensors);
                whole
                    .notes
                    .extend(shard.notes.into_iter().map(|note| format!("Shard {} of {count}: {note}", index + 1)));
            }
        }
    }
    let mut whole = joined.ok_or_else(|| GgufError::Split("a model without shards: name a file".to_owned()))?;
    let tensors = whole.tensors.len() as u64;
    if let Some(claimed) = claimed.filter(|claimed| *claimed != tensors) {
        return Err(GgufError::Split(format!(
            "the {count} shards hold {tensors} tensors, but key 'split.tensors.count' says {claimed}: download all \
             shards again"
        )));
    }
    if tensors > limits.tensors {
        return Err(GgufError::Split(format!(
            "the {count} shards hold {tensors} tensors, more than the limit of {}: the headers are damaged or forged",
            limits.tensors
        )));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = whole.tensors.iter().find(|tensor| !seen.insert(&*tensor.name)) {
        return Err(GgufError::Split(format!(
            "tensor '{}' is in two shards: the files belong to different models; download all shards again",
            QuotedName(&twice.name)
        )));
    }
    whole.metadata = whole.metadata.without("split.");
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::ShardName;

    #[test]
    fn shard_names_are_parsed() {
        let name = ShardName::parse("a-b-00002-of-00003.gguf").unwrap();
        assert_eq!((name.stem.as_str(), name.index, name.count), ("a-b", 1, 3));
        assert_eq!(name.sibling(0), "a-b-00001-of-00003.gguf");
        for none in
            ["a.gguf", "a-00004-of-00003.gguf", "a-00000-of-00003.gguf", "a-2-of-3.gguf", "a-00001-of-00003.bin", ""]
        {
            assert_eq!(ShardName::parse(none), None, "{none}");
        }
    }
}
