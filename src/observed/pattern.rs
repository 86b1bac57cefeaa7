//! Patterns: words with holes between them, and what rules most of them out.

use super::hole::after;

/// Words with holes between them.
pub(super) struct Pattern {
    pub text: &'static str,
    /// The longest words in it.
    pub mark: &'static str,
}

/// The texts in the holes of a pattern.
pub(super) type Holes<'a> = Vec<&'a str>;

impl Pattern {
    pub const fn new(text: &'static str) -> Self {
        Self { text, mark: longest_words(text) }
    }

    /// The texts in the holes, if `line` has the words.
    pub fn holes<'a>(&self, line: &'a str) -> Option<Holes<'a>> {
        let (first, mut pattern) = self.text.split_once('{').map_or((self.text, None), |(a, b)| (a, Some(b)));
        let mut rest = match first.strip_prefix('^') {
            Some(words) => line.strip_prefix(words)?,
            None => after(line, first)?,
        };
        let mut holes = Holes::new();
        while let Some((hole, words)) = pattern.and_then(|pattern| pattern.split_once('}')) {
            let (words, further) = words.split_once('{').map_or((words, None), |(a, b)| (a, Some(b)));
            let text = if words.is_empty() {
                std::mem::take(&mut rest)
            } else {
                let (text, behind) = if hole == ".." { rest.rsplit_once(words)? } else { rest.split_once(words)? };
                rest = behind;
                text
            };
            holes.push(text.trim());
            pattern = further;
        }
        Some(holes)
    }
}

/// The longest words of a pattern; every line that it matches has them.
const fn longest_words(text: &'static str) -> &'static str {
    let bytes = text.as_bytes();
    let (mut at, mut start, mut most) = (0, 0, (0, 0));
    while at <= bytes.len() {
        if at == bytes.len() || bytes[at] == b'{' {
            if at - start > most.1 - most.0 {
                most = (start, at);
            }
            while at < bytes.len() && bytes[at] != b'}' {
                at += 1;
            }
            start = at + 1;
        } else if at == 0 && bytes[at] == b'^' {
            start = 1;
        }
        at += 1;
    }
    text.split_at(most.1).0.split_at(most.0).1
}

/// The pairs of adjacent bytes in a line, collected in one pass: they rule out most words that are not in it.
pub(super) struct Pairs([u64; 16]);

impl Pairs {
    pub fn of(line: &str) -> Self {
        let mut pairs = [0_u64; 16];
        let mut last = 0;
        for byte in line.bytes() {
            if let Some(bits) = pairs.get_mut(place(last, byte) / 64) {
                *bits |= 1 << (place(last, byte) % 64);
            }
            last = byte;
        }
        Self(pairs)
    }

    /// False only if the line does not have these words.
    pub fn may_have(&self, words: &str) -> bool {
        words.as_bytes().windows(2).all(|pair| match *pair {
            [a, b] => self.0.get(place(a, b) / 64).is_some_and(|bits| bits >> (place(a, b) % 64) & 1 == 1),
            _ => true,
        })
    }
}

/// The bit of a pair of bytes, of 1,024.
const fn place(a: u8, b: u8) -> usize {
    ((a as usize) << 5 ^ b as usize) & 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_its_words_one_after_another() {
        let holes = |pattern: &'static str, line: &'static str| Pattern::new(pattern).holes(line);
        assert_eq!(holes("to {} of {}", "up to  4 of 5 of 6"), Some(vec!["4", "5 of 6"]));
        assert_eq!(holes("to {..} of {}", "up to 4 of 5 of 6"), Some(vec!["4 of 5", "6"]));
        assert_eq!(holes("^{}: {}", "a: b: c "), Some(vec!["a", "b: c"]));
        assert_eq!(holes("^to {}", "up to 4"), None);
        assert_eq!(holes("done", "all is done"), Some(Vec::new()));
        assert_eq!((longest_words("^a {} longer {..}b"), longest_words("{}")), (" longer ", ""));
    }
}
