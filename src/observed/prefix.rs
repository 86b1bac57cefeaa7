//! Prefixes of lines: colours, marks of pasted text, those of container and service managers, of wrappers, a router's
//! port, llama.cpp's clock; and JSON around lines: `--log-jsonl`, container and service managers, and documents over
//! several lines.

use std::borrow::Cow;

use serde_json::Value;

use super::limits;
use super::memory::{self, TableRow};
use super::ollama::{self, PsRow};
use crate::text::is_printable;

/// A line without its prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line<'a> {
    /// Its writer, if several write one text.
    pub source: Source<'a>,
    /// llama.cpp's clock: microseconds since the program's start.
    pub clock: Option<u64>,
    /// Whether LM Studio wrote its date and level before it.
    pub lm_studio: bool,
    /// The program's own words.
    pub text: &'a str,
}

impl Line<'_> {
    /// The line as the program itself prints it.
    pub(super) fn plain(&self) -> String {
        let Some(clock) = self.clock else { return self.text.to_owned() };
        let (seconds, millis, micros) = (clock / 1_000_000, clock / 1000 % 1000, clock % 1000);
        format!("{}.{:02}.{millis:03}.{micros:03} I {}", seconds / 60, seconds % 60, self.text)
    }
}

/// Names of a writer among several in one text; empty where the line has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source<'a> {
    /// Service of a container manager: `llama-1`.
    pub service: &'a str,
    /// Unit and process of journald: `ollama[1617]`.
    pub process: &'a str,
    /// Port of a router's instance: `57651`.
    pub port: &'a str,
}

/// `line` without terminal colours (also those whose escape byte was lost in a paste) and what is not printable.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    let clean = |c: char| is_printable(c) || c == '\t';
    // `^[` and a backslash may begin an escape byte that was written out
    let plain = |byte: u8| (byte >= b' ' || byte == b'\t') && !matches!(byte, b'[' | b'\\') && byte < 0x7f;
    if line.bytes().all(plain) {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(end) = colour(rest) {
            rest = rest.get(end..).unwrap_or_default();
            continue;
        }
        if first.is_whitespace() && !first.is_ascii() {
            text.push(' ');
        } else if clean(first) {
            text.push(first);
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(text)
}

/// The escape byte of terminals, itself or spelt out.
const ESCAPES: [&str; 6] = ["\u{1b}", "^[", "\u{241b}", "\\x1b", "\\u001b", "\\033"];

/// The length of a terminal's escape sequence at the start; a colour counts without its escape byte.
fn colour(text: &str) -> Option<usize> {
    let escape = ESCAPES.iter().find(|escape| text.starts_with(**escape)).map_or(0, |escape| escape.len());
    let escaped = escape > 0;
    if text.as_bytes().get(escape) != Some(&b'[') {
        return None;
    }
    let start = escape + 1;
    let parameters = text.bytes().skip(start).take(16).take_while(|b| b.is_ascii_digit() || *b == b';').count();
    let end = start + parameters;
    match text.as_bytes().get(end) {
        Some(b'm') if escaped || parameters > 0 => Some(end + 1),
        Some(b'K' | b'J' | b'H' | b'A'..=b'D' | b'G') if escaped => Some(end + 1),
        _ => None,
    }
}

/// Removes all prefixes, from the outermost to the innermost.
pub(super) fn strip(line: &str) -> Line<'_> {
    let mut found = Line { text: line.trim_start_matches(['\u{feff}', ' ', '\t']), ..Line::default() };
    for _ in 0..8 {
        let Some(rest) = mark(found.text) else { break };
        found.text = rest.trim_start();
    }
    if let Some((service, rest)) = compose(found.text).or_else(|| grpc(found.text)) {
        (found.source.service, found.text) = (service, rest);
    }
    // a document, whose own text may have prefixes
    if found.text.starts_with('{') {
        return found;
    }
    if let Some((process, rest)) = journald(found.text) {
        (found.source.process, found.text) = (process, rest);
    }
    if let Some((rest, lm_studio)) = dated(found.text) {
        (found.text, found.lm_studio) = (rest, lm_studio);
    }
    for _ in 0..6 {
        let Some((tag, rest)) = tag(found.text) else { break };
        if is_instance(tag) {
            found.source.service = tag;
        }
        found.text = rest;
    }
    if let Some((port, rest)) = router(found.text) {
        (found.source.port, found.text) = (port, rest);
    }
    if let Some((clock, rest)) = clock(found.text) {
        (found.clock, found.text) = (Some(clock), rest);
    }
    found
}

/// The line after a mark that was added when it was pasted: of a comment, a quote, a table, a list (`- `, `3. `), code
/// or bold type.
fn mark(text: &str) -> Option<&str> {
    // code and bold type of the whole line; in prose they are of a part of it
    if let Some(rest) = ["`", "**"].iter().find_map(|mark| text.strip_suffix(mark)?.strip_prefix(mark)) {
        return Some(rest);
    }
    let marks = ["# ", "> ", "| ", "^C", "* ", "\u{2022} ", "&gt; ", ">> ", "\u{fffd}"];
    if let Some(rest) = marks.iter().find_map(|mark| text.strip_prefix(mark)) {
        return Some(rest);
    }
    // the dash of a table's row or of a list of devices is one of llama.cpp's own
    if let Some(rest) = text.strip_prefix("- ") {
        return rest.split_once(": ").filter(|(name, _)| name.contains('_')).map(|_| rest);
    }
    let (number, rest) = text.split_once(". ")?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(rest)
}

/// `3:44PM DBG GRPC(model.gguf-127.0.0.1:36827): stderr `, as `LocalAI` has it: the process and the rest.
fn grpc(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once("): std")?;
    let (_, process) = head.split_once(" GRPC(")?;
    let rest = rest.strip_prefix("err ").or_else(|| rest.strip_prefix("out "))?;
    (process.len() <= 160).then_some((process, rest))
}

/// `[INFO] `, `[llama Debug]: `, `[09:18:10][llamacpp] `: a wrapper's tag, which is neither a router's port nor one that
/// is part of a message.
fn tag(text: &str) -> Option<(&str, &str)> {
    let (tag, rest) = text.strip_prefix('[')?.split_once(']')?;
    let own = ["mtmd", "spec", "GIN", "MiB"].contains(&tag) || tag.trim().bytes().all(|b| b.is_ascii_digit());
    let fits = (1..=64).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii() && !b"|{}\"=".contains(&b));
    let rest = rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' ')).or(rest.starts_with('[').then_some(rest))?;
    (fits && !own).then_some((tag, rest.trim_start()))
}

/// Whether a tag names one of several programs: `qwen_llm-1`, `pod/ollama-0/ollama`.
fn is_instance(tag: &str) -> bool {
    let numbered = tag.rsplit_once('-').is_some_and(|(name, number)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    });
    !tag.contains([' ', ':']) && (numbered || tag.starts_with("pod/"))
}

/// `llama-1  | `
fn compose(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(' ')?;
    let rest = rest.trim_start().strip_prefix("| ")?;
    let is_name = name.len() <= 64
        && name.bytes().any(|b| b.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'|'));
    is_name.then_some((name, rest))
}

/// `Aug 08 23:02:37 host ollama[1617]: `, the months in any language or left out.
fn journald(text: &str) -> Option<(&str, &str)> {
    let at = text.find("]: ").filter(|&at| at <= 160)?;
    let (head, rest) = (text.get(..at)?, text.get(at + 3..)?);
    let open = head.rfind('[')?;
    let pid = head.get(open + 1..)?;
    if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let unit = head.get(..open)?.rfind(' ').map_or(0, |blank| blank + 1);
    let before = head.get(..unit)?;
    let has_time = before.split([' ', 'T']).any(|word| word.len() >= 8 && is_time(word));
    has_time.then_some((text.get(unit..=at)?, rest))
}

/// Whether a word starts like `23:02:37`.
fn is_time(word: &str) -> bool {
    let digit = |at: usize| word.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let colon = |at: usize| word.as_bytes().get(at) == Some(&b':');
    digit(0) && digit(1) && colon(2) && digit(3) && digit(4) && colon(5) && digit(6) && digit(7)
}

/// A wrapper's date and time, with level and process: the rest, and whether LM Studio wrote it.
fn dated(text: &str) -> Option<(&str, bool)> {
    let bracketed = text.starts_with('[');
    let body = text.strip_prefix('[').unwrap_or(text);
    let is_date = |at: usize, byte: &u8| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() };
    if body.len() < 19 || !body.bytes().take(10).enumerate().all(|(at, byte)| is_date(at, &byte)) {
        return None;
    }
    let time = body.get(11..)?;
    if !is_time(time) {
        return None;
    }
    let end = time.find([' ', ']'])?;
    let mut rest = time.get(end..)?;
    rest = if bracketed { rest.strip_prefix(']')? } else { rest.trim_start() };
    rest = rest.strip_prefix("| ").unwrap_or(rest);
    // a container's stream, whole lines and parts of them
    let streams = ["stdout F ", "stderr F ", "stdout P ", "stderr P "];
    rest = streams.iter().find_map(|stream| rest.strip_prefix(stream)).unwrap_or(rest);
    let level = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'));
    let Some((level, after)) = level.filter(|(level, _)| is_level(level)) else { return Some((rest, false)) };
    let mut after = after;
    // LM Studio names the model next
    if let Some((_, behind)) = after.strip_prefix('[').and_then(|inner| inner.split_once(']')).filter(|_| bracketed) {
        after = behind;
    }
    let lm_studio = level.bytes().all(|b| b.is_ascii_uppercase()) && (bracketed || after.trim().is_empty());
    after = after.trim_start();
    if let Some((_, behind)) = after.strip_prefix('(').and_then(|inner| inner.split_once(") ")) {
        after = behind;
    }
    Some((after, lm_studio))
}

fn is_level(word: &str) -> bool {
    ["debug", "info", "warn", "warning", "error", "trace"].iter().any(|level| word.eq_ignore_ascii_case(level))
}

/// `[ 4623] `
fn router(text: &str) -> Option<(&str, &str)> {
    let (port, rest) = text.strip_prefix('[')?.split_once("] ")?;
    let port = port.trim_start();
    ((1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit())).then_some((port, rest))
}

/// `M.SS.mmm.uuu L `: microseconds, and the rest.
pub(super) fn clock(text: &str) -> Option<(u64, &str)> {
    let (stamp, rest) = text.split_once(' ')?;
    let mut parts = stamp.split('.');
    let mut part = |digits: Option<usize>| {
        let part = parts.next()?;
        let fits = digits.map_or((1..=6).contains(&part.len()), |digits| part.len() == digits);
        part.parse::<u64>().ok().filter(|_| fits)
    };
    let (minutes, seconds, millis, micros) = (part(None)?, part(Some(2))?, part(Some(3))?, part(Some(3))?);
    if parts.next().is_some() {
        return None;
    }
    let rest =
        rest.strip_prefix(['I', 'W', 'E', 'D', 'T']).map_or(rest, |behind| behind.strip_prefix(' ').unwrap_or(rest));
    Some((((minutes * 60 + seconds) * 1000 + millis) * 1000 + micros, rest))
}

/// The content of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Document {
    /// Lines of a log.
    Text(String),
    /// A breakdown table.
    Table(Vec<(String, TableRow)>),
    /// The models of `/api/ps`.
    Ps(Vec<PsRow>),
    /// Anything else.
    Other(Value),
}

/// A document in one line.
pub(super) fn document_of(text: &str) -> Option<Document> {
    if !(text.starts_with('{') && text.trim_end().ends_with('}')) {
        return None;
    }
    Some(document(serde_json::from_str(text).ok()?))
}

fn document(value: Value) -> Document {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if text("type") == Some("fit_memory_breakdown")
        && let Some(data) = value.get("data")
    {
        return Document::Table(memory::json_rows(data).collect());
    }
    // llama.cpp's own, Docker's, journald's, and those of collectors
    let message = ["msg", "log", "MESSAGE", "message", "text", "line"].into_iter().find_map(text);
    if let Some(message) = message {
        return Document::Text(message.to_owned());
    }
    match value.get("models").and_then(Value::as_array) {
        Some(models) => Document::Ps(ollama::json_rows(models)),
        None => Document::Other(value),
    }
}

/// Collects a document over several lines, until it is complete or too long.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    text: String,
    depth: u32,
    quoted: bool,
    escaped: bool,
}

impl Collector {
    /// A line; the document if it ends here. Starts at a line with a brace alone or with the first key of `/api/ps`.
    pub fn feed(&mut self, line: &str) -> Option<Document> {
        if self.text.is_empty() && !(line.trim_end() == "{" || line.starts_with("{\"models\"")) {
            return None;
        }
        if self.text.len() + line.len() > limits::JSON {
            *self = Self::default();
            return None;
        }
        for byte in line.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.quoted => self.escaped = true,
                b'"' => self.quoted = !self.quoted,
                b'{' | b'[' if !self.quoted => self.depth += 1,
                b'}' | b']' if !self.quoted => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.text.push_str(line);
        self.text.push('\n');
        if self.depth > 0 {
            return None;
        }
        let whole = std::mem::take(self);
        serde_json::from_str(&whole.text).ok().map(document)
    }
}
