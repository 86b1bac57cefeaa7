//! Lines of a log for others to see: without folders, names of people and computers, addresses and keys.
//!
//! A command is shown as [`ShownCommand`] shows it; in other lines too, a value behind an option or a
//! variable is shown only if its row lets it be seen. The rest of a line is looked through word by word, once.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::load::Load;
use super::shown::{Shown, ShownCommand, WordFilter, build, is_option, is_variable};
use super::{Observation, command, prefix};
use crate::settings::seen::{HIDDEN, of_variable, or_hidden};

/// Lines as they can be shown to others. Of a path the last part stays, and parts that name a build; each name of a person
/// or a computer, and each address, becomes another one that is the same throughout.
///
/// `private` are names of this user and this computer.
pub fn anonymous(lines: &[String], private: &[String]) -> Vec<String> {
    let mut names = StandIns::default();
    for name in private {
        names.add(name, "name");
    }
    for line in lines {
        owners(line).for_each(|name| names.add(name, "name"));
    }
    let mut before = Before::default();
    lines.iter().map(|line| names.replace(line, &mut before)).collect()
}

/// Whether the lines of `load` without names tell the same figures.
pub fn reads_the_same(load: &Load, private: &[String]) -> bool {
    let seen = Observation::of(&anonymous(&load.lines, private).join("\n"));
    // a server's address is part of its device's name
    let figures = |load: &Load| -> Vec<_> { load.observed.values().cloned().collect() };
    let rows =
        |load: &Load| -> Vec<_> { load.table.values().map(|row| (row.model, row.context, row.compute)).collect() };
    seen.load().is_some_and(|again| {
        let mut both = [load, again].map(|load| (figures(load), rows(load), load.settings.n_ctx));
        for (_, rows, _) in &mut both {
            rows.sort_unstable();
        }
        let [before, after] = both;
        before == after
    })
}

/// The owners of the home folders in a line.
fn owners(line: &str) -> impl Iterator<Item = &str> {
    let parts = |line| str::split(line, ['/', '\\']);
    let named = parts(line).zip(parts(line).skip(1)).filter(|(folder, _)| ["home", "Users"].contains(folder));
    named.filter_map(|(_, owner)| owner.split(|c: char| c.is_whitespace() || "\"'`".contains(c)).next())
}

/// What the lines before say of a line.
#[derive(Default)]
struct Before {
    /// A command goes on.
    goes_on: bool,
    /// A router lists the words of a command, a line each.
    listed: WordFilter,
}

/// Names that stand for others.
#[derive(Default)]
struct StandIns {
    names: BTreeMap<String, String>,
}

impl StandIns {
    /// Names shorter than this are parts of too many words.
    const SHORTEST: usize = 3;
    /// More names than a log has, each of which every line is searched for.
    const MOST: usize = 256;
    /// Users that name nobody, some of whose names programs print.
    const NOBODY: [&str; 9] = ["root", "user", "admin", "ubuntu", "ollama", "llama", "server", "model", "models"];

    fn add(&mut self, name: &str, kind: &str) {
        let is_number = name.bytes().all(|b| b.is_ascii_digit());
        if name.chars().count() >= Self::SHORTEST && !is_number && !Self::NOBODY.contains(&name) {
            self.of(name, |number| format!("{kind}{number}"));
        }
    }

    /// The name that stands for `name`.
    fn of(&mut self, name: &str, make: impl FnOnce(usize) -> String) -> String {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let other = make(self.names.len() + 1);
        if self.names.len() < Self::MOST {
            self.names.insert(name.to_owned(), other.clone());
        }
        other
    }

    fn replace(&mut self, line: &str, before: &mut Before) -> String {
        // the clock of llama.cpp has the form of an address
        let rest = prefix::clock(line).map_or(line, |(_, rest)| rest);
        let (clock, text) = line.split_at(line.len() - rest.len());
        if let Some((head, word)) = listed(text) {
            return format!("{clock}{head}{}", before.listed.next(word).bare());
        }
        before.listed = WordFilter::default();
        // a command within a message stands in quotes
        let begins = !text.contains("msg=") && command::typed(text).is_some() || is_options(text);
        let is_command = before.goes_on || begins;
        before.goes_on = is_command && text.trim_end().ends_with(['\\', '^', '`']);
        let text = if is_command {
            let end = if before.goes_on { " \\" } else { "" };
            let indent = text.len() - text.trim_start().len();
            format!("{}{}{end}", &text[..indent], ShownCommand::read(text))
        } else {
            Words::of(text).cleaned(self)
        };
        let text = self.names.iter().fold(text, |text, (name, other)| as_word(&text, name, other));
        format!("{clock}{text}")
    }
}

/// A router's line with a word of a command: what stands before the word, and the word.
fn listed(text: &str) -> Option<(&str, &str)> {
    let at = text.find(" load:   ").filter(|_| text.starts_with("srv "))? + " load:   ".len();
    text.split_at_checked(at)
}

/// Whether a line begins with an option: it goes on with a command, or lists its words.
fn is_options(text: &str) -> bool {
    let text = text.trim_start();
    let word = text.split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
    word.starts_with('-')
        && (crate::settings::ServerOption::named(word).is_some() || word.starts_with("--") && is_option(word))
}

impl Shown {
    /// Without a shell's quotes.
    fn bare(self) -> String {
        match self {
            Self::Word(text) | Self::Value(Some(text)) => text,
            Self::Value(None) | Self::Stray => HIDDEN.to_owned(),
        }
    }
}

/// What stands between words, besides blanks.
const BETWEEN: &str = "\"'`<>()[]{}|,;";
/// How the names of files end that stand in logs.
const FILES: [&str; 16] = [
    ".gguf",
    ".exe",
    ".dll",
    ".so",
    ".dylib",
    ".bin",
    ".log",
    ".ini",
    ".json",
    ".jsonl",
    ".yaml",
    ".yml",
    ".jinja",
    ".safetensors",
    ".metallib",
    ".txt",
];
/// How the names of computers of one's own network end, and of many others.
const HOSTS: [&str; 16] = [
    ".lan",
    ".local",
    ".localdomain",
    ".home",
    ".internal",
    ".intranet",
    ".corp",
    ".arpa",
    ".com",
    ".net",
    ".org",
    ".io",
    ".dev",
    ".ai",
    ".eu",
    ".de",
];

/// A line of a log, read from its start to its end.
struct Words<'a> {
    rest: &'a str,
    /// What stands directly before.
    last: &'a str,
    /// The character before.
    between: char,
    /// How long the rest is behind the text in which no file's name ends.
    without_files: usize,
    options: WordFilter,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        Self { rest: line, last: "", between: ' ', without_files: usize::MAX, options: WordFilter::default() }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn cleaned(mut self, names: &mut StandIns) -> String {
        let mut out = String::with_capacity(self.rest.len());
        while let Some(c) = self.rest.chars().next() {
            if self.options.expects_value() && !c.is_whitespace() {
                let word = self.value();
                out += &self.options.next(&word).text();
            } else if c.is_whitespace() || BETWEEN.contains(c) {
                out += self.take(c.len_utf8());
                self.between = c;
            } else {
                out += &self.word(names);
                self.between = ' ';
            }
        }
        out
    }

    /// A value with its name, if that is before it: what stands in quotes, also where these are written out, or up to a blank
    /// or a quote that ends more than the value.
    fn value(&mut self) -> String {
        let plain = |text: &str| text.find(|c: char| c.is_whitespace() || "\"'".contains(c)).unwrap_or(text.len());
        let name = self.take(plain(self.rest));
        let name = name.strip_suffix('\\').unwrap_or(name);
        let Some(quote) = self.rest.chars().next().filter(|c| !c.is_whitespace()) else { return name.to_owned() };
        if !(name.is_empty() || name.ends_with('=')) {
            return name.to_owned();
        }
        self.take(quote.len_utf8());
        let inner = self.take(self.rest.find(quote).unwrap_or(self.rest.len()));
        self.take(quote.len_utf8().min(self.rest.len()));
        // what follows without a blank belongs to it
        self.take(plain(self.rest));
        format!("{name}{}", inner.trim_end_matches('\\'))
    }

    /// The length of a path at the start of the rest: up to a quote that was opened before it; else over blanks as far as a
    /// file's name ends, with nothing before that ends a path.
    fn path(&mut self) -> usize {
        if matches!(self.between, '"' | '\'' | '`')
            && let Some(end) = self.rest.find(self.between)
        {
            return end;
        }
        let is_end = |c: char| c.is_whitespace() || STOPS.contains(c);
        let first = self.rest.find(is_end).unwrap_or(self.rest.len());
        // what was looked through for a path before
        if self.rest.len() > self.without_files {
            return first;
        }
        let mut at = 0;
        for word in self.rest.split_inclusive(is_end) {
            let last = word.chars().next_back().filter(|c| is_end(*c));
            let name = &word[..word.len() - last.map_or(0, char::len_utf8)];
            let name = name.trim_end_matches(['.', ':']);
            if is_file(name) {
                return at + name.len();
            }
            // parentheses stand in names of Windows' folders
            let stops = last.is_some_and(|c| !c.is_whitespace() && !"()".contains(c));
            if stops || word.starts_with('-') && at > 0 {
                break;
            }
            at += word.len();
        }
        self.without_files = self.rest.len() - at;
        first
    }

    /// The next word, as it may be shown.
    fn word(&mut self, names: &mut StandIns) -> String {
        let is_end = |c: char| c.is_whitespace() || BETWEEN.contains(c);
        let word = self.rest.split(is_end).next().unwrap_or(self.rest);
        let before = std::mem::replace(&mut self.last, word);
        if before.eq_ignore_ascii_case("bearer") {
            self.value();
            return HIDDEN.to_owned();
        }
        // an option, whose values follow, and a variable with its own
        let name = word.split(['=', ':']).next().unwrap_or(word);
        let is_set = word.len() > name.len();
        if word.starts_with('-') && self.between == ' ' && (!is_set || word[name.len()..].starts_with('=')) {
            if is_set {
                let whole = self.value();
                return self.options.next(&whole).text();
            }
            if let Shown::Word(shown) = self.options.next(word) {
                self.take(word.len());
                return shown;
            }
        }
        if is_set && is_variable(name) && (name.contains('_') || word[name.len()..].starts_with('=')) {
            let sign = self.take(name.len() + 1);
            // Ollama lists its variables in brackets, with colons
            let value = if sign.ends_with('=') { self.value() } else { self.take(word.len() - sign.len()).to_owned() };
            if value.is_empty() {
                return sign.to_owned();
            }
            return format!("{sign}{}", or_hidden(of_variable(name, &value)));
        }
        if let Some((scheme, _)) = word.split_once("://") {
            let scheme = scheme.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next().unwrap_or(scheme);
            let at = word.find("://").unwrap_or_default() - scheme.len();
            let head = self.take(at);
            return format!("{head}{}", link(self.take(word.len() - at)));
        }
        if let Some(at) = path_at(word) {
            let head = self.take(at);
            let length = self.path();
            return format!("{head}{}", tail(self.take(length)));
        }
        self.take(word.len());
        one(word, before, self.between, names)
    }
}

/// Where a path begins in a word: at a root, a home folder, a drive or a share, or a folder that is named from here.
fn path_at(word: &str) -> Option<usize> {
    let starts = |text: &str| {
        let drive = text.get(1..3).is_some_and(|sign| sign == ":\\" || sign == ":/");
        let is_drive = drive && text.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_root = text.starts_with('/') && text.get(1..).is_some_and(|rest| rest.contains('/'));
        is_drive || is_root || ["~/", "./", "../", "\\\\", "~\\", ".\\"].iter().any(|start| text.starts_with(start))
    };
    if starts(word) {
        return Some(0);
    }
    // behind a sign: `path=/a/b`, `-v=/a:/b`
    let behind = word.find(['=', ':', '@']).map(|at| at + 1).filter(|at| word.get(*at..).is_some_and(starts));
    let plain = word.trim_end_matches(['.', ':', ',']);
    let names_file = || is_file(plain) && plain.contains(['/', '\\']);
    let is_deep = || plain.matches('/').count() > 1 && !plain.contains("//") && plain.contains(char::is_alphabetic);
    behind.or_else(|| (names_file() || is_deep()).then_some(0))
}

/// What ends a path that is not in quotes, where no file's name has ended before.
const STOPS: &str = "\"'<>|*?,;()";

/// Whether a word ends as the name of a file.
fn is_file(word: &str) -> bool {
    let ends = |end: &str| {
        let start = word.len().checked_sub(end.len()).filter(|start| *start > 0);
        start.and_then(|start| word.get(start..)).is_some_and(|own| own.eq_ignore_ascii_case(end))
    };
    FILES.iter().any(|end| ends(end))
}

/// The scheme and the last part of an address.
fn link(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    // names of models keep their owners
    if (scheme == "hf" || scheme == "ollama") && !path.contains('@') {
        return format!("{scheme}://{path}");
    }
    let last = path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    format!("{scheme}://…/{}", if last.contains('@') { "" } else { last })
}

/// The last part of a path, after the parts that name a build.
fn tail(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let Some((last, folders)) = parts.split_last() else { return path.to_owned() };
    let builds = folders.iter().filter_map(|folder| build(folder));
    let kept: Vec<String> = builds.chain([(*last).to_owned()]).collect();
    format!("/{}", kept.join("/"))
}

/// A word that is no option, address or path.
fn one(word: &str, before: &str, between: char, names: &mut StandIns) -> String {
    let trimmed = word.trim_end_matches(['.', ':', '!', '?']);
    let end = &word[trimmed.len()..];
    let is_server = before.starts_with("RPC") && between == '[' || before.ends_with("rpc") && between == ' ';
    let card = ["GPU-", "MIG-"].iter().any(|start| trimmed.strip_prefix(start).is_some_and(is_uuid));
    let is_token = ["hf_", "sk-", "ghp_"]
        .iter()
        .any(|start| trimmed.strip_prefix(start).is_some_and(|rest| rest.len() >= 12 && rest.bytes().all(is_plain)));
    let shown = if card {
        "GPU-…".to_owned()
    } else if is_token || is_of_a_person(trimmed) {
        HIDDEN.to_owned()
    } else if let Some(shown) = address(trimmed, names) {
        shown
    } else {
        let (host, port) = trimmed.split_once(':').unwrap_or((trimmed, ""));
        let is_name = host.starts_with(|c: char| c.is_ascii_alphabetic()) && host != "localhost";
        let is_host = is_name && HOSTS.iter().any(|end| host.len() > end.len() && host.ends_with(end));
        if !(is_host || is_server && is_name) {
            return word.to_owned();
        }
        let port = if port.is_empty() { String::new() } else { format!(":{port}") };
        format!("{}{port}", names.of(host, |number| format!("host{number}")))
    };
    shown + end
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

fn is_uuid(text: &str) -> bool {
    text.len() >= 13
        && text.as_bytes().get(8) == Some(&b'-')
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// `ada@box`, `ada@example.org`, `ada@box:~/models$`; but no quantisation behind a name of the catalogue.
fn is_of_a_person(word: &str) -> bool {
    word.split_once('@').is_some_and(|(who, place)| {
        who.ends_with(|c: char| c.is_alphanumeric())
            && place.starts_with(|c: char| c.is_alphanumeric())
            && !who.starts_with(crate::model::CATALOGUE)
    })
}

/// An address of a computer that is not this one, with what stands behind it, as one for documentation (RFC 5737, 3849).
fn address(word: &str, names: &mut StandIns) -> Option<String> {
    let (host, port) = word.split_once([':', '/']).unwrap_or((word, ""));
    if let Ok(four) = host.parse::<Ipv4Addr>() {
        if four.is_loopback() || four.is_unspecified() {
            return None;
        }
        let other = names.of(host, |number| format!("192.0.2.{}", (number - 1) % 254 + 1));
        let sign = word.get(host.len()..host.len() + 1).unwrap_or_default();
        return Some(format!("{other}{sign}{port}"));
    }
    let plain = word.split(['%', '/']).next().unwrap_or(word);
    let six = plain.parse::<Ipv6Addr>().ok().filter(|six| !six.is_loopback() && !six.is_unspecified())?;
    Some(names.of(&six.to_string(), |number| format!("2001:db8::{number:x}")))
}

/// `text` with `name` as `other` wherever it is a word.
fn as_word(text: &str, name: &str, other: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(name) {
        let (before, found) = rest.split_at(at);
        let after = found.get(name.len()..).unwrap_or_default();
        let is_inner = before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        out += before;
        out += if is_inner { name } else { other };
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("llama-server -m /home/ada/models/x-Q4_K_M.gguf -c 4096", "llama-server -m x-Q4_K_M.gguf -c 4096")]
    #[case(r#"  --model "C:\Users\Ada L\my models\x.gguf" -c 8"#, "  --model x.gguf -c 8")]
    #[case(r"--lora D:\ada\adapters -c 8", "--lora … -c 8")]
    #[case(
        "~/llama-b9694-bin/llama-server -hf unsloth/Qwen3-8B-GGUF -c 8",
        "/b9694/llama-server -hf unsloth/Qwen3-8B-GGUF -c 8"
    )]
    #[case("-v /home/ada/m:/models --api-key s3cret", "-v … --api-key …")]
    #[case("HF_TOKEN=hf_abcdefghijklmnop x", "HF_TOKEN=… x")]
    #[case("LLAMA_API_KEY=\"my key\" and Authorization: Bearer abc", "LLAMA_API_KEY=… and Authorization: Bearer …")]
    #[case("ada@box:~/models$ ls", "… ls")]
    #[case("failed: use --api-key 'my key' or --fit off", "failed: use --api-key … or --fit off")]
    #[case(
        "0.00.405.825 I load_tensors: offloaded 20/49 layers to GPU",
        "0.00.405.825 I load_tensors: offloaded 20/49 layers to GPU"
    )]
    #[case("listening on http://10.0.0.7:8080/v1?key=9", "listening on http://…/v1")]
    #[case("RPC0[box.lan:50052] model buffer size = 1.00 MiB", "RPC0[host1:50052] model buffer size = 1.00 MiB")]
    #[case("RPC0[10.0.0.7:50052] and 127.0.0.1:50053", "RPC0[192.0.2.1:50052] and 127.0.0.1:50053")]
    #[case("from fe80::1%eth0 and [2001:db8:1::7]:8080 on ::1", "from 2001:db8::1 and [2001:db8::2]:8080 on ::1")]
    #[case("CUDA0: GPU-6c0823ca-cb8a-24c9-b94e-8969d22f7125", "CUDA0: GPU-…")]
    #[case(r"from \\server\share\ada\x.gguf (version 3)", "from /x.gguf (version 3)")]
    #[case(
        "loaded meta data from /home/ada lovelace/m/x y.gguf (version GGUF V3 (latest))",
        "loaded meta data from /x y.gguf (version GGUF V3 (latest))"
    )]
    #[case("loading 'private/ada/x.gguf' of ada@example.org", "loading '/x.gguf' of …")]
    #[case(
        "env=\"map[OLLAMA_HOST:http://10.0.0.7:1 OLLAMA_NUM_PARALLEL:4 HF_TOKEN:x OLLAMA_MODELS:/home/ada/m]\"",
        "env=\"map[OLLAMA_HOST:… OLLAMA_NUM_PARALLEL:4 HF_TOKEN:… OLLAMA_MODELS:…]\""
    )]
    fn lines_lose_what_is_private(#[case] line: &str, #[case] shown: &str) {
        let lines = anonymous(&[line.to_owned()], &[]);
        assert_eq!(lines, [shown]);
    }

    #[test]
    fn a_command_over_several_lines_is_one() {
        let lines = ["llama-server -m /a/x.gguf \\", "  my secret \\", "  --api-key K", "my log"].map(str::to_owned);
        let shown = anonymous(&lines, &[]);
        assert_eq!(shown, ["llama-server -m x.gguf \\", "  … \\", "  --api-key …", "my log"]);
        let listed =
            ["srv          load:   --api-key", "srv          load:   K", "srv          load:   -c"].map(str::to_owned);
        assert_eq!(anonymous(&listed, &[])[1], "srv          load:   …");
    }

    #[test]
    fn a_name_is_the_same_throughout() {
        let lines = ["from /home/ada/x.gguf".to_owned(), "ada's llama on turing, not adage".to_owned()];
        let shown = anonymous(&lines, &["turing".to_owned()]);
        assert_eq!(shown, ["from /x.gguf", "name2's llama on name1, not adage"]);
    }

    #[test]
    fn long_lines_take_no_longer_by_the_byte() {
        let words =
            ["a.a.a.a", "://", "/a/b ", "\"", "--api-key=", "A_B=", "a@", "x.gguf", "C:\\", "1.1.1.1 ", "::", "-"];
        for word in words {
            let line = word.repeat((64 << 10) / word.len());
            let since = Instant::now();
            anonymous(&[line.clone() + "://", line], &[]);
            assert!(since.elapsed() < Duration::from_secs(2), "{word}: {:?}", since.elapsed());
        }
    }
}
