//! How a line of a log is read: rows of a pattern and what it sets, grouped by subject in the files beside this one.
//!
//! **To add a pattern**, write a row in the `ROWS` of its subject (weights and devices: `model.rs`; buffers, caches and
//! tables: `memory.rs`; `fit.rs`; contexts and slots: `context.rs`; what else happens: `event.rs`; `ollama.rs`):
//!
//! ```text
//! /// load_tensors: offloaded 20/49 layers to GPU
//! "offloaded {}/{} layers to GPU" (on: u64, all: u64) => Kind::Model, |now| now.model().offloaded = Some((on, all));
//! ```
//!
//! The comment is a line as a program prints it: a test parses it with the row, and reports a row without one. The
//! words of a pattern are searched one after another, each at its first place, or its last one after `{..}`. The text
//! between them, trimmed, is parsed by the types of the holes ([`Hole`]; `_: &str` ignores it). A pattern matches
//! anywhere in a line, or with `^` at its start. The first row that can parse a line determines its kind, by which
//! loads begin and end ([`Kind`]), and what it sets in the load under way. A row may have several patterns with the
//! same holes, and `|now, line|` gets the whole line.
//!
//! Most rows are ruled out by the pairs of bytes in a line ([`Pairs`]).

use super::under_way::LoadUnderWay;
use super::{Mib, Program, TablePhase, command, context, event, fit, memory, model, ollama};

/// Rows, tried in order.
struct Subject {
    /// Words of which only lines of this subject have one; without any, its rows are tried on every line.
    words: &'static [&'static str],
    rows: &'static [Row],
}

static SUBJECTS: [Subject; 10] = [
    Subject { words: &[], rows: memory::ROWS },
    Subject { words: &["breakdown"], rows: memory::TABLE },
    Subject { words: &[], rows: memory::CUT_TABLE },
    Subject { words: &["fit_params", "params_fit"], rows: fit::ROWS },
    Subject { words: &["msg="], rows: ollama::ROWS },
    Subject { words: &[], rows: model::ROWS },
    Subject { words: &[], rows: context::ROWS },
    Subject { words: &["Flash Attention", "flash attention", "flash_attn"], rows: event::FLASH_ATTENTION },
    Subject { words: &[], rows: event::ROWS },
    Subject { words: &[], rows: fit::PRINTED },
];

/// Parses a line; none if no row is for it.
pub(super) fn read(text: &str) -> Option<Parsed<'_>> {
    find(text).map(|(_, parsed)| parsed).or_else(|| {
        let command = command::typed(text)?;
        let program = command.program.starts_with("koboldcpp").then_some(Program::KoboldCpp);
        Some(Parsed::new(Kind::Command, move |now| now.start(program, command)))
    })
}

fn find(text: &str) -> Option<(&'static Row, Parsed<'_>)> {
    let pairs = Pairs::of(text);
    for Subject { words, rows } in &SUBJECTS {
        let own = words.iter().any(|word| pairs.may_have(word) && text.contains(word));
        if own || words.is_empty() {
            let found = rows.iter().find_map(|row| Some((row, row.read(text, &pairs)?)));
            if own || found.is_some() {
                return found;
            }
        }
    }
    None
}

/// The kind of a line, by which loads begin and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A program or its model is named: another load, if one is begun.
    Start,
    /// A command line: another load, if one is begun or has a command.
    Command,
    /// A device, or what is asked for: another load, if one is over.
    Loading,
    /// The fit at work: likewise.
    Fit,
    /// A model is opened or its layers are placed: likewise.
    Model,
    /// A buffer of weights: likewise.
    Weights,
    /// A compute buffer.
    Compute,
    /// Another buffer, or the size of a cache.
    Memory,
    /// A row of a breakdown table.
    Table(Option<TablePhase>),
    /// A property of the model or the context at hand.
    Part,
    /// Anything else.
    Other,
}

impl Kind {
    /// Whether such a line has a figure of memory.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Weights | Self::Compute | Self::Memory | Self::Table(_))
    }
}

/// A parsed line.
pub(super) struct Parsed<'a> {
    pub kind: Kind,
    pub sets: Box<dyn FnOnce(&mut LoadUnderWay) + 'a>,
}

impl<'a> Parsed<'a> {
    pub fn new(kind: Kind, sets: impl FnOnce(&mut LoadUnderWay) + 'a) -> Self {
        Self { kind, sets: Box::new(sets) }
    }
}

/// Lines that say the same thing.
pub(super) struct Row {
    pub patterns: &'static [Pattern],
    #[cfg_attr(not(test), allow(dead_code, reason = "for people and for the test"))]
    pub examples: &'static [&'static str],
    pub read: for<'a> fn(&'a str, Holes<'a>) -> Option<Parsed<'a>>,
}

impl Row {
    fn read<'a>(&self, line: &'a str, pairs: &Pairs) -> Option<Parsed<'a>> {
        let mut patterns = self.patterns.iter().filter(|pattern| pairs.may_have(pattern.mark));
        patterns.find_map(|pattern| (self.read)(line, pattern.holes(line)?))
    }
}

/// Makes rows; the file's head says how they are written.
macro_rules! patterns {
    ($($(#[doc = $example:literal])* $($pattern:literal)|+ $(($($hole:tt: $type:ty),+))? =>
        $kind:expr, |$now:ident $(, $line:ident)?| $sets:expr;)+) => {
        &[$($crate::observed::pattern::Row {
            patterns: &[$($crate::observed::pattern::Pattern::new($pattern)),+],
            examples: &[$($example),*],
            read: {
                #[allow(unused_variables, unused_mut, reason = "not every row has holes or wants the line")]
                fn read<'a>(
                    line: &'a str,
                    holes: $crate::observed::pattern::Holes<'a>,
                ) -> Option<$crate::observed::pattern::Parsed<'a>> {
                    let mut holes = holes.into_iter();
                    $($(let $hole = <$type as $crate::observed::pattern::Hole<'_>>::read(holes.next()?)?;)+)?
                    $(let $line = line;)?
                    Some($crate::observed::pattern::Parsed::new($kind, move |$now| { $sets; }))
                }
                read
            },
        }),+]
    };
}
pub(super) use patterns;

/// Words with holes between them.
pub(super) struct Pattern {
    text: &'static str,
    /// The longest words in it.
    mark: &'static str,
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
    fn may_have(&self, words: &str) -> bool {
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

/// A type that is parsed from the hole of a pattern.
pub(super) trait Hole<'a>: Sized {
    /// Parses the text of a hole; none if it does not fit, so that the line belongs to another row.
    fn read(text: &'a str) -> Option<Self>;
}

/// Implements [`Hole`] by an expression for each type.
macro_rules! holes {
    ($($type:ty: |$text:ident| $read:expr;)+) => {
        $(impl<'a> Hole<'a> for $type {
            fn read($text: &'a str) -> Option<Self> {
                $read
            }
        })+
    };
}
pub(super) use holes;

/// A size in any unit, perhaps in quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size(pub Mib);

/// A device's name, without an RPC server's address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceName<'a>(pub &'a str);

holes! {
    &'a str: |text| Some(text);
    String: |text| Some(name(text));
    bool: |text| text.trim_end_matches(|c: char| !c.is_alphanumeric()).parse().ok();
    // figures may have something behind them
    u64: |text| count(text).map(|(count, _)| count);
    i64: |text| integer(text).map(|(number, _)| number);
    Mib: |text| mib(text).map(|(mib, _)| mib);
    Size: |text| size(text.strip_prefix('"').unwrap_or(text)).map(Size);
    DeviceName<'a>: |text| {
        // the dash of a list
        let name = text.strip_prefix("- ").unwrap_or(text).trim();
        let name = if name.ends_with(']') { name.split('[').next()? } else { name };
        (!name.is_empty() && name.len() <= 64 && !name.contains(char::is_whitespace)).then_some(Self(name))
    };
}

/// The text after the first `mark`.
pub(super) fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

/// The text between the first `from` and the next `to`.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    after(text, from)?.split_once(to).map(|(inner, _)| inner)
}

/// A whole number at the start, behind blanks, and the rest.
pub(super) fn integer(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let signed = usize::from(text.starts_with('-'));
    let digits = text.bytes().skip(signed).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(signed + digits)?;
    Some((number.parse().ok()?, rest))
}

/// As [`integer`], for counts.
pub(super) fn count(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = integer(text)?;
    Some((u64::try_from(number).ok()?, rest))
}

/// A number with a decimal point or comma at the start, behind blanks, and the rest. Twenty characters at most, so that
/// it is always finite.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) {
        end += 1;
    }
    if end > 0 && matches!(bytes.get(end), Some(b'.' | b',')) && is_digit(end + 1) {
        end += 1;
        while is_digit(end) {
            end += 1;
        }
    }
    let (number, rest) = text.split_at_checked(end)?;
    if number.is_empty() || number.len() > 20 {
        return None;
    }
    Some((number.replace(',', ".").parse().ok()?, rest))
}

/// A number of MiB at the start, with its unit.
pub(super) fn mib(text: &str) -> Option<(Mib, &str)> {
    let (number, rest) = number(text)?;
    let rest = rest.trim_start().strip_prefix("MiB")?;
    Some((Mib(number), rest))
}

/// A size with any of the units that logs use, at the start: `608.0 MiB`, `3.6 GiB`, `4.0 GB`, `0 B`.
pub(super) fn size(text: &str) -> Option<Mib> {
    let (number, rest) = number(text)?;
    let rest = rest.trim_start();
    let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
    let bytes: f64 = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    Some(Mib(round(number * (bytes / 1_048_576.0))))
}

/// To hundredths, as logs print MiB.
pub(super) fn round(mib: f64) -> f64 {
    (mib * 100.0).round() / 100.0
}

/// The value of `key=` in a line of Go's `slog`, without its quotes; escapes stay.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(key).map(|at| at + from) {
        from = at + key.len();
        let starts = at == 0 || text.as_bytes().get(at - 1) == Some(&b' ');
        let Some(rest) = text.get(from..)?.strip_prefix('=').filter(|_| starts) else { continue };
        return Some(match rest.strip_prefix('"') {
            Some(quoted) => quoted.get(..closing(quoted)).unwrap_or(quoted),
            None => rest.split(' ').next().unwrap_or(rest),
        });
    }
    None
}

/// Index of the closing quote, or of the end.
fn closing(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// `text` without blanks around it, cut at a character's end to at most `most` bytes.
pub(super) fn clip(text: &str, most: usize) -> String {
    let text = text.trim();
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

/// A name or path, cut at 512 bytes.
pub(super) fn name(text: &str) -> String {
    clip(text, 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_line_and_reads_it() {
        for row in SUBJECTS.iter().flat_map(|subject| subject.rows) {
            let name = row.patterns[0].text;
            assert!(!row.examples.is_empty(), "the row `{name}` has no line above it");
            for line in row.examples.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)) {
                let found = find(line).map(|(row, _)| row);
                let other = found.map(|row| row.patterns[0].text);
                assert!(found.is_some_and(|found| std::ptr::eq(found, row)), "`{line}` of `{name}` is of `{other:?}`");
            }
            for pattern in row.patterns {
                let is_read = |line: &&str| pattern.holes(line.trim_start()).is_some();
                assert!(row.examples.iter().any(is_read), "no line is for `{}`", pattern.text);
            }
        }
    }

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
