//! How names of cards are compared: by their letters and digits, without the words that identify no card.

/// Vendor words, which do not identify a card.
const VENDORS: [&str; 9] = ["nvidia", "geforce", "amd", "radeon", "instinct", "tesla", "apple", "intel", "gpu"];

/// Words of drivers' names that presets leave out.
const OF_DRIVERS: [&str; 14] = [
    "graphics",
    "series",
    "sxm2",
    "sxm3",
    "sxm4",
    "sxm5",
    "hbm3",
    "pcie",
    "workstation",
    "server",
    "edition",
    "generation",
    "with",
    "design",
];

/// Series, which are left out by those who name a card by its number.
const SERIES: [&str; 6] = ["rtx", "gtx", "rx", "arcpro", "arc", "pro"];

/// Words that make another card of one that is named before them.
const AFTER: [&str; 18] = [
    "ada", "d", "gre", "laptop", "le", "m", "max", "mobile", "pro", "s", "super", "ti", "ultra", "v2", "x", "x2", "xt",
    "xtx",
];

/// Words that make another card of one that is named behind them.
const BEFORE: [&str; 1] = ["pro"];

/// Words that make another card of one wherever they stand: a laptop's part, or a part of a card.
const ANYWHERE: [&str; 4] = ["laptop", "notebook", "mobile", "mig"];

/// Fewest letters and digits of a name that is looked for among other words; fewer are anybody's, such as `A2`.
const SHORTEST: usize = 4;

/// Most words that are looked through.
const MOST_WORDS: usize = 24;

/// Lower case letters and digits, without the vendors' names.
pub(super) fn compact(text: &str) -> String {
    without(text, |word, vendor| word == vendor)
}

/// The same, with a custom comparison of a word with a vendor's name.
pub(super) fn without(text: &str, is: impl Fn(&str, &str) -> bool) -> String {
    let lower = unmarked(text);
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !VENDORS.iter().any(|vendor| is(word, vendor)))
        .collect()
}

/// The same without the words that only drivers use.
pub(super) fn bare(text: &str) -> String {
    words(text).into_iter().filter(|word| !OF_DRIVERS.contains(&word.as_str())).collect()
}

/// A compact name without its series.
pub(super) fn without_series(name: &str) -> &str {
    SERIES.iter().find_map(|series| name.strip_prefix(series)).unwrap_or(name)
}

/// Words in lower case, without the vendors' names.
fn words(text: &str) -> Vec<String> {
    let lower = unmarked(text);
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty() && !VENDORS.contains(word)).map(str::to_owned).collect()
}

/// In lower case, without the signs of trade marks.
fn unmarked(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if lower.contains('(') { lower.replace("(r)", " ").replace("(tm)", " ") } else { lower }
}

/// A part of a longer name that may be a card's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// As names are compared.
    pub(super) name: String,
    /// How many words it is of.
    pub(super) words: usize,
}

/// The parts of a longer name that a card may be named by, such as a shop's: words one after another, the longest first, and
/// the size of memory in GiB that the name states besides. None where a word says that it is another card.
pub(super) fn parts(text: &str) -> (Vec<Part>, Option<u64>) {
    let words = words(text);
    let is = |words: &[&str], word: &String| words.contains(&word.as_str());
    if words.len() > MOST_WORDS {
        return (Vec::new(), None);
    }
    let size = words.iter().find_map(|word| {
        let digits = word.strip_suffix("gb").or_else(|| word.strip_suffix('g'))?;
        digits.parse().ok()
    });
    let mut parts = Vec::new();
    for length in (1..=words.len()).rev() {
        for (at, window) in words.windows(length).enumerate() {
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            let after = words.get(at + length..).unwrap_or_default();
            let others = words.get(..at).unwrap_or_default().iter().chain(after);
            let name = window.concat();
            let is_other = before.is_some_and(|word| is(&BEFORE, word))
                || after.first().is_some_and(|word| is(&AFTER, word))
                || others.into_iter().any(|word| is(&ANYWHERE, word));
            if name.len() >= SHORTEST && !is_other {
                parts.push(Part { name, words: length });
            }
        }
    }
    (parts, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_vendors_marks_and_words_of_drivers() {
        assert_eq!(compact("NVIDIA GeForce RTX 4090"), "rtx4090");
        assert_eq!(compact("Intel(R) Arc(TM) 140V GPU (16GB)"), "arc140v16gb");
        assert_eq!(bare("NVIDIA GeForce RTX 2070 with Max-Q Design"), "rtx2070maxq");
        assert_eq!((without_series("rtx4090"), without_series("arcprob60")), ("4090", "b60"));
    }

    #[test]
    fn parts_are_words_one_after_another_but_none_of_another_card() {
        let (found, size) = parts("MSI RTX 5070 Ti 16G OC");
        let names: Vec<_> = found.iter().map(|part| part.name.as_str()).collect();
        assert!(names.contains(&"rtx5070ti") && !names.contains(&"rtx5070"), "{names:?}");
        assert_eq!(size, Some(16));
        assert!(parts("laptop with RTX 4070").0.iter().all(|part| part.name.contains("laptop")));
        assert_eq!(parts(&"a ".repeat(MOST_WORDS + 1)), (Vec::new(), None));
    }
}
