//! Which entry of the catalogue a name means: the name of a file, of a repository or of a tag, or what a log prints.
//!
//! A name is read as words, and words as letters and numbers, so that `gemma-4-26B-A4B-it` holds `gemma4-26b-a4b`. Two names
//! are compared by these, never by their characters: `SmolLM2-135M` holds no `smollm2-1.7b`, and `Qwen3.5` no `qwen3`.
//! Quantisations and dates are no part of what a model is; sizes and versions always are.

use std::ops::Range;
use std::sync::LazyLock;

use super::{CatalogueEntry, all};
use crate::gguf::FileType;
use crate::model::mixture::Quantisation;

/// Words that make another model of one with the same name and size, unless its own names have them.
const OTHER_KINDS: [&str; 34] = [
    "air",
    "asr",
    "assistant",
    "audio",
    "coder",
    "colbert",
    "dflash",
    "draft",
    "eagle",
    "eagle3",
    "embed",
    "embedding",
    "flash",
    "guard",
    "large",
    "lite",
    "math",
    "max",
    "medium",
    "mini",
    "moe",
    "multimodal",
    "nano",
    "next",
    "omni",
    "pro",
    "reranker",
    "small",
    "super",
    "tiny",
    "tts",
    "ultra",
    "vision",
    "vl",
];

/// Words that say nothing of another model: how it was trained on, by whom it was packaged.
const SAY_LITTLE: [&str; 22] = [
    "ai21", "base", "c4ai", "chat", "exp", "google", "gguf", "hf", "i1", "inst", "instruct", "it", "latest", "meta",
    "nvidia", "org", "preview", "pt", "think", "thinking", "ud", "zai",
];

/// Words about the block that predicts further tokens, which some packagers leave out of a file.
const ABOUT_MTP: [&str; 2] = ["mtp", "nomtp"];

/// A run of letters or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    is_number: bool,
    /// The word that it is part of.
    word: usize,
}

/// A name taken apart.
#[derive(Clone, Debug, Default)]
struct Name {
    tokens: Vec<Token>,
}

/// The size in a name, as it is written there: `27b`, `30ba3b`.
pub(super) fn size(name: &str) -> Option<String> {
    let name = Name::read(name);
    let size: String =
        name.words().into_iter().filter(|word| name.is_size(word.clone())).map(|word| name.text(word)).collect();
    Some(size).filter(|size| !size.is_empty())
}

impl Name {
    fn read(name: &str) -> Self {
        let characters: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
        let at = |index: usize| characters.get(index).copied().unwrap_or(' ');
        let mut tokens: Vec<Token> = Vec::new();
        let (mut word, mut is_open) = (0, false);
        for (index, &c) in characters.iter().enumerate() {
            // Llama-3_3 means 3.3, but Qwen3_8B is of 8 B
            let ends_in_letters = || {
                let mut rest = (index + 1..).map(at).skip_while(char::is_ascii_digit);
                rest.next().is_some_and(char::is_alphabetic)
            };
            let is_point = matches!(c, '.' | '_')
                && index.checked_sub(1).is_some_and(|before| at(before).is_ascii_digit())
                && at(index + 1).is_ascii_digit()
                && !(c == '_' && ends_in_letters());
            if !c.is_alphanumeric() && !is_point {
                word += usize::from(is_open);
                is_open = false;
                continue;
            }
            let is_number = c.is_ascii_digit() || is_point;
            let c = if is_point { '.' } else { c };
            match tokens.last_mut().filter(|last| is_open && last.is_number == is_number) {
                Some(last) => last.text.push(c),
                None => tokens.push(Token { text: c.to_string(), is_number, word }),
            }
            is_open = true;
        }
        Self { tokens }
    }

    /// The range of tokens of each word.
    fn words(&self) -> Vec<Range<usize>> {
        let mut words: Vec<Range<usize>> = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            match words.last_mut().filter(|word| self.tokens.get(word.start).is_some_and(|it| it.word == token.word)) {
                Some(word) => word.end = at + 1,
                None => words.push(at..at + 1),
            }
        }
        words
    }

    fn texts(&self, word: Range<usize>) -> Vec<&str> {
        self.tokens.get(word).into_iter().flatten().map(|token| token.text.as_str()).collect()
    }

    fn text(&self, word: Range<usize>) -> String {
        self.texts(word).concat()
    }

    /// Without the words for which `leave_out` holds.
    fn without(&self, leave_out: impl Fn(&Self, Range<usize>) -> bool) -> Self {
        let kept = self.words().into_iter().filter(|word| !leave_out(self, word.clone()));
        Self { tokens: kept.flat_map(|word| self.tokens.get(word).unwrap_or_default().to_vec()).collect() }
    }

    /// `27b`, `0.6b`, `135m`, `8x7b`, `a3b`, `e4b`, `16e`.
    fn is_size(&self, word: Range<usize>) -> bool {
        let is_number = |at: usize| self.tokens.get(at).is_some_and(|token| token.is_number);
        let start = word.start;
        match self.texts(word).as_slice() {
            [_, unit] => is_number(start) && matches!(*unit, "b" | "m" | "t" | "e"),
            ["a" | "e", _, unit] => is_number(start + 1) && matches!(*unit, "b" | "m"),
            [_, "x", _, unit] => is_number(start) && matches!(*unit, "b" | "m"),
            _ => false,
        }
    }

    /// A year, or a year and a month: `2024`, `2507`.
    fn is_date(&self, word: Range<usize>) -> bool {
        let text = self.text(word);
        text.len() == 4 && text.starts_with('2') && text.chars().all(|c| c.is_ascii_digit())
    }

    /// Without all that may be a date: a year, a month before one, a month with its day or year: `08-2024`, `0528`, `1124`.
    fn without_dates(&self) -> Self {
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let is_month = |text: &str| text.len() <= 2 && number(text).is_some_and(|month| (1..=12).contains(&month));
        let is_day = |text: &str| number(text).is_some_and(|day| (1..=31).contains(&day));
        let is_year = |word: Option<Range<usize>>| word.is_some_and(|word| self.is_date(word));
        let words = self.words();
        self.without(|_, word| {
            let text = self.text(word.clone());
            let next = words.iter().find(|next| next.start == word.end).cloned();
            let halves = text.split_at_checked(2).filter(|_| text.len() == 4);
            is_year(Some(word))
                || is_month(&text) && is_year(next)
                || halves.is_some_and(|(month, rest)| is_month(month) && is_day(rest))
        })
    }

    fn has_size(&self) -> bool {
        self.words().into_iter().any(|word| self.is_size(word))
    }

    /// `v0.3`
    fn is_version(&self, word: Range<usize>) -> bool {
        matches!(self.texts(word).as_slice(), ["v", _])
    }

    /// Versions that are words of their own: `v0.3`.
    fn versions(&self) -> impl Iterator<Item = String> {
        self.words().into_iter().filter(|word| self.is_version(word.clone())).map(|word| self.text(word))
    }

    /// Where the tokens of `other` stand in this name, from the beginning of a word to the end of one.
    fn position(&self, other: &Self) -> Option<Range<usize>> {
        let length = other.tokens.len();
        let same = |window: &[Token]| {
            window.iter().zip(&other.tokens).all(|(one, two)| one.is_number == two.is_number && one.text == two.text)
        };
        let word_at = |at: usize| self.tokens.get(at).map(|token| token.word);
        let whole = |at: usize| {
            at.checked_sub(1).is_none_or(|before| word_at(before) != word_at(at))
                && word_at(at + length - 1) != word_at(at + length)
        };
        if length == 0 {
            return None;
        }
        let at = self.tokens.windows(length).enumerate().find(|(at, window)| same(window) && whole(*at))?.0;
        Some(at..at + length)
    }
}

/// How well an entry fits a name; the larger the better: tokens in common, and nothing left out of its own name.
type Fit = (usize, bool);

/// An entry with its names taken apart.
struct Known {
    entry: &'static CatalogueEntry,
    /// Its names, and whether nothing was left out of them.
    names: Vec<(bool, Name)>,
    /// The same without sizes, for names that have none.
    stems: Vec<Name>,
    /// Its name without what is said about its MTP block.
    plain: Vec<Token>,
    words: Vec<String>,
    versions: Vec<String>,
}

impl Known {
    fn new(entry: &'static CatalogueEntry) -> Self {
        let name = Name::read(&entry.name);
        let stem = name.without(Name::is_size).tokens.len();
        // the short name of a family's usual size, such as qwen3, is no name of a file
        let tags = entry.tags.iter().filter(|tag| tag.contains(':') || Name::read(tag).tokens.len() > stem);
        let whole = std::iter::once(&entry.name).chain(tags).map(|name| (true, Name::read(name)));
        let title = entry.title.split(['(', ',']).next().unwrap_or_default();
        let title = (title.len() == entry.title.len(), Name::read(title));
        let (mut names, mut stems) = (Vec::new(), Vec::new());
        for (whole, name) in whole.chain([title]) {
            let undated = name.without(Name::is_date);
            let without_mtp = undated.without(is_about_mtp);
            stems.push(without_mtp.without(Name::is_size));
            names.extend([(whole, name), (whole, undated), (false, without_mtp)]);
        }
        let all: Vec<Name> = entry.names().chain([entry.title.as_str()]).map(Name::read).collect();
        let words = |name: &Name| name.words().into_iter().map(|word| name.text(word)).collect::<Vec<_>>();
        Self {
            entry,
            names,
            stems,
            plain: tokens_alone(name.without(is_about_mtp)),
            words: all.iter().flat_map(words).collect(),
            versions: all.iter().flat_map(Name::versions).collect(),
        }
    }

    fn all() -> &'static [Self] {
        static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| all().iter().map(Known::new).collect());
        &KNOWN
    }

    fn fit(&self, asked: &Name) -> Option<(Fit, Range<usize>)> {
        let stems = self.stems.iter().filter(|_| !asked.has_size()).map(|stem| (false, stem));
        let names = self.names.iter().map(|(whole, name)| (*whole, name)).chain(stems);
        let fits = names.filter_map(|(whole, name)| {
            let at = asked.position(name)?;
            self.may_have(asked, &at).then_some(((at.len(), whole), at))
        });
        fits.max_by_key(|(fit, _)| *fit)
    }

    /// Whether the words of `asked` besides the name, which stands `at`, say little, as its first words do that name a
    /// publisher.
    fn is_all_of(&self, asked: &Name, at: &Range<usize>, publisher: usize) -> bool {
        let words = asked.words().into_iter().skip(publisher);
        let mut rest = words.filter(|word| word.end <= at.start || word.start >= at.end);
        rest.all(|word| {
            let text = asked.text(word.clone());
            let counts = asked.is_size(word.clone()) || text.chars().all(|c| c.is_ascii_digit());
            counts || asked.is_version(word) || SAY_LITTLE.contains(&text.as_str()) || self.words.contains(&text)
        })
    }

    /// Whether what `asked` has besides the name of the entry, which stands `at`, may be said of it.
    fn may_have(&self, asked: &Name, at: &Range<usize>) -> bool {
        let words = asked.words();
        let rest = words.iter().filter(|word| word.end <= at.start || word.start >= at.end);
        for word in rest.cloned() {
            let text = asked.text(word.clone());
            if self.words.contains(&text) {
                continue;
            }
            let other_size = asked.is_size(word.clone()) && !is_size_of(&asked.texts(word), self.entry);
            if other_size || OTHER_KINDS.contains(&text.as_str()) {
                return false;
            }
        }
        let next = words.iter().find(|word| word.start == at.end).map(|word| asked.texts(word.clone()));
        let is_version = |texts: &Vec<&str>| match texts.as_slice() {
            [number] => number.split('.').next().is_some_and(|whole| whole.len() <= 2 && whole.parse::<u32>().is_ok()),
            _ => false,
        };
        if next.is_some_and(|texts| is_version(&texts)) {
            return false;
        }
        let versions: Vec<String> = asked.versions().collect();
        versions.is_empty() || self.versions.is_empty() || self.versions.iter().any(|own| versions.contains(own))
    }
}

/// Bytes of a name with its repository and file, at most; longer ones mean no entry.
const LONGEST: usize = 2 * crate::text::LONGEST_NAME;

/// The entries that a name of another place may mean, the best first, and how well they fit. Different sizes, versions and
/// kinds of a model are never among them.
fn fitting(name: &str) -> Vec<Fitting> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let asked = Name::read(name);
    let undated = [asked.without(Name::is_date), asked.without_dates()];
    let publisher = publisher(name);
    let fits = |known: &'static Known| {
        let asked = std::iter::once(&asked).chain(&undated);
        let fits = asked.filter_map(|asked| Some((asked, known.fit(asked)?)));
        let (asked, (fit, at)) = fits.max_by_key(|(_, (fit, _))| *fit)?;
        Some(Fitting { fit, known, is_all: known.is_all_of(asked, &at, publisher) })
    };
    let mut found: Vec<_> = Known::all().iter().filter_map(fits).collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.fit));
    found
}

/// How many words at the beginning of a file's name are its publisher's, as some packagers write it: `Qwen_Qwen3.6-27B`.
fn publisher(name: &str) -> usize {
    let first =
        name.split_once('_').map(|(first, _)| first).filter(|first| !first.contains(|c: char| c.is_ascii_digit()));
    first.map_or(0, |first| Name::read(first).words().len())
}

struct Fitting {
    fit: Fit,
    known: &'static Known,
    /// Whether the name says nothing else.
    is_all: bool,
}

/// The entries that a name of another place may mean, the best first: one model in one size, and its files with and without
/// a block that predicts further tokens. What was trained on from a model is taken for it. Empty if the name could mean two
/// models.
pub fn named(name: &str) -> Vec<&'static CatalogueEntry> {
    search(name).map(|(entries, _)| entries).unwrap_or_default()
}

/// The entry that a name of another place means, if it names nothing else.
pub(super) fn meant(name: &str) -> Option<&'static CatalogueEntry> {
    search(name).filter(|(_, is_all)| *is_all)?.0.first().copied()
}

/// The entries, and whether the name says nothing else.
fn search(name: &str) -> Option<(Vec<&'static CatalogueEntry>, bool)> {
    if let Some(entry) = all().iter().find(|entry| entry.hf.iter().any(|own| in_repository(name, own))) {
        return Some((vec![entry], true));
    }
    let last = last_part(name);
    let (base, _) = split_quantisation(last);
    let found = fitting(base);
    let best = found.first().map(|found| found.fit);
    let mut of_best = found.iter().filter(|found| Some(found.fit) == best);
    // some tags of Ollama's have a quantisation in them
    let tagged = all().iter().find(|entry| entry.names().any(|own| own.eq_ignore_ascii_case(last)));
    let (entry, is_all) = match (tagged.or_else(|| same(base)), of_best.next(), of_best.next()) {
        (Some(entry), ..) => (entry, true),
        (None, Some(found), None) => (found.known.entry, found.is_all),
        _ => return None,
    };
    let plain = Known::all().iter().find(|known| known.entry.name == entry.name).map(|known| &known.plain);
    let known = found.iter().map(|found| found.known);
    let others = known.filter(|known| known.entry.name != entry.name && Some(&known.plain) == plain);
    Some((std::iter::once(entry).chain(others.map(|known| known.entry)).collect(), is_all))
}

fn is_about_mtp(name: &Name, word: Range<usize>) -> bool {
    ABOUT_MTP.contains(&name.text(word).as_str())
}

/// Tokens without the words that they are parts of: `gptoss` is `gpt-oss`.
fn tokens_alone(name: Name) -> Vec<Token> {
    let mut alone: Vec<Token> = Vec::new();
    for token in name.tokens {
        match alone.last_mut().filter(|last| !last.is_number && !token.is_number) {
            Some(last) => last.text.push_str(&token.text),
            None => alone.push(Token { word: 0, ..token }),
        }
    }
    alone
}

/// The entry one of whose names is `name` but for letter case and punctuation.
pub(super) fn same(name: &str) -> Option<&'static CatalogueEntry> {
    let asked = tokens_alone(Name::read(name));
    all().iter().find(|entry| entry.names().any(|own| tokens_alone(Name::read(own)) == asked))
}

/// Whether `texts`, such as 671 and b, is about the number of weights of `entry`.
fn is_size_of(texts: &[&str], entry: &CatalogueEntry) -> bool {
    /// Names round: a model of 30.5 billion weights is a 30B, and one of 671 with its MTP block has 685.
    const APART: f64 = 0.15;
    /// Which weights a token needs is counted in more ways than one.
    const ACTIVE_APART: f64 = 0.35;
    let (number, unit, is_active) = match texts {
        [number, unit] => (number, unit, false),
        ["a", number, unit] => (number, unit, true),
        _ => return false,
    };
    let scale = match *unit {
        "t" => 1e12,
        "b" => 1e9,
        "m" => 1e6,
        _ => return false,
    };
    let (Ok(number), Ok(model)) = (number.parse::<f64>(), entry.model(FileType::F16)) else { return false };
    let (weights, apart) = if is_active { (model.active_parameters, ACTIVE_APART) } else { (model.parameters, APART) };
    (number * scale - weights as f64).abs() <= weights as f64 * apart
}

/// Whether `name` is of a file in the repository `own`.
fn in_repository(name: &str, own: &str) -> bool {
    let (name, own) = (name.to_lowercase(), own.to_lowercase());
    let mut found = name.match_indices(&own);
    found.any(|(at, _)| {
        let (before, after) = (name.get(..at).unwrap_or_default(), name.get(at + own.len()..).unwrap_or_default());
        (before.is_empty() || before.ends_with('/')) && (after.is_empty() || after.starts_with(['/', ':', '@']))
    })
}

/// The last part of a path of any system, or of a reference.
fn last_part(name: &str) -> &str {
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let last = last.strip_suffix(".gguf").unwrap_or(last);
    last.strip_suffix("-GGUF").or(last.strip_suffix("-gguf")).unwrap_or(last)
}

/// The quantisation in a name: `UD-Q6_K_XL` in `Devstral-Small-2507-UD-Q6_K_XL.gguf`. Hyphens may stand for underscores.
pub fn quantisation_in(name: &str) -> Option<Quantisation> {
    let last = last_part(name);
    Quantisation::own_name_in(last).or_else(|| split_quantisation(last).1.map(Quantisation::from))
}

/// A name without its quantisation and what follows that, and the quantisation.
fn split_quantisation(name: &str) -> (&str, Option<FileType>) {
    let separators = ['-', '_', '.', ':', '@', ' '];
    let starts: Vec<usize> = name.match_indices(separators).map(|(at, _)| at).collect();
    for &at in starts.iter().rev() {
        let Some(rest) = name.get(at + 1..) else { continue };
        let words: Vec<String> = rest.split(separators).map(str::to_uppercase).collect();
        let longest = (1..=words.len().min(MOST_WORDS)).rev().find_map(|count| file_type(words.get(..count)?));
        let Some(file_type) = longest else { continue };
        let before = name.get(..at).unwrap_or_default();
        let marks = ["-UD", "-ud", ".i1", "-i1", "-GGUF", "-gguf"];
        let before = marks.into_iter().find_map(|mark| before.strip_suffix(mark)).unwrap_or(before);
        return (before, Some(file_type));
    }
    (name, None)
}

/// `Q4_K_M`.
const MOST_WORDS: usize = 3;

/// Whether a type may begin with this word.
fn file_type_starts(word: &str) -> bool {
    let word = word.strip_prefix('I').unwrap_or(word);
    word.strip_prefix('Q').is_some_and(|digits| digits.len() == 1 && digits.chars().all(|c| c.is_ascii_digit()))
}

/// The type that these words name. An `XL`, and an `L` that llama.cpp lacks, is a packager's own, nearest to the `M` of the
/// same bits.
fn file_type(words: &[String]) -> Option<FileType> {
    let first = words.first()?;
    let is_known =
        file_type_starts(first) || matches!(first.as_str(), "F16" | "FP16" | "BF16" | "F32" | "MXFP4" | "TQ1" | "TQ2");
    if !is_known {
        return None;
    }
    let name = words.join("_");
    let of = |name: &str| name.parse().ok();
    of(&name).or_else(|| {
        let plain = name.strip_suffix("_XL").or(name.strip_suffix("_L"))?;
        of(&format!("{plain}_M")).or_else(|| of(plain)).or_else(|| of(&plain.replace("_K", "_0")))
    })
}
