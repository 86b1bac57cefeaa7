//! Suggestions for an unknown name.

use super::{CatalogueEntry, all, names};
use crate::text::LONGEST_NAME;

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
