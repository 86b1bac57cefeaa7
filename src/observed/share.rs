//! Lines of a log for others to see: without folders, names of people and computers, addresses and keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regress::{Match, Regex};

use super::model::Folder;
use super::{Load, Observation, prefix};

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
        USERS.of(line).for_each(|name| names.add(name, "name"));
        SERVERS.of(line).flat_map(|servers| servers.split(',')).for_each(|server| {
            let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
            // addresses are found as such
            if host.starts_with(|c: char| c.is_alphabetic()) && host != "localhost" {
                names.add(host, "host");
            }
        });
    }
    lines.iter().map(|line| names.replace(line)).collect()
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

/// What is looked for in a line.
struct Rule(LazyLock<Regex>);

impl Rule {
    /// The texts of the first group of each match.
    fn of<'a>(&'a self, line: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.find_iter(line).filter_map(|found| line.get(found.group(1)?))
    }
}

/// Declares rules.
macro_rules! rules {
    ($($(#[$about:meta])* $name:ident = $pattern:literal;)+) => {
        $($(#[$about])* #[allow(clippy::expect_used, reason = "the patterns are constants, and a test uses each")]
        static $name: Rule = Rule(LazyLock::new(|| Regex::new($pattern).expect("the pattern is well formed")));)+

        #[cfg(test)]
        static RULES: &[&Rule] = &[$(&$name),+];
    };
}

rules! {
    /// A home folder's owner.
    USERS = r#"[/\\](?:home|Users)[/\\]([^/\\\s"']+)"#;
    /// Servers of RPC: of an option, a comma between them, or as a device.
    SERVERS = r#"(?:--rpc[= ]|\bRPC\d*\[)([^\s\]"']+)"#;
    /// The value of an option or a variable that opens something, or a token by its form.
    KEYS = r#"(?:(?<=--(?:api-key|hf-token|password)[= ])|(?<=\b\w*(?:TOKEN|SECRET|PASSWORD|API_KEY)=)|(?<=[Bb]earer ))[^\s"']+|\b(?:hf_|sk-)\w{12,}"#;
    /// An address with a scheme.
    LINKS = r#"\b[a-z][a-z0-9+.-]*://[^\s"'<>]+"#;
    /// A path of Windows, up to its file's name, a quote or an option.
    DRIVES = r#"(?<![\w/\\])[A-Za-z]:[\\/](?:[^"'<>|*?]*?\.(?:gguf|exe|dll|bin|log|ini|json)\b|[^"'<>|*?]*?(?=["'<>|*?]| -|$))"#;
    /// A path of at least two parts from the root or the home folder.
    PATHS = r#"(?<![\w.~/\\])(?:(?:~|\.{1,2})(?:/[^\s"'`,;:()\[\]]+)+|(?:/[^\s"'`,;:()\[\]/]+){2,})"#;
    /// An address of a computer that is not this one.
    ADDRESSES = r"(?<![\w.])(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.])";
    /// The number of one card.
    CARDS = r"\b(?:GPU|MIG)-[0-9a-fA-F]{8}-[0-9a-fA-F-]+";
}

/// Names that stand for others.
#[derive(Default)]
struct StandIns {
    names: BTreeMap<String, String>,
}

impl StandIns {
    /// Names shorter than this are parts of too many words.
    const SHORTEST: usize = 3;
    /// Users that name nobody, some of whose names programs print.
    const NOBODY: [&str; 9] = ["root", "user", "admin", "ubuntu", "ollama", "llama", "server", "model", "models"];

    fn add(&mut self, name: &str, kind: &str) {
        let is_number = name.bytes().all(|b| b.is_ascii_digit());
        if name.chars().count() >= Self::SHORTEST && !is_number && !Self::NOBODY.contains(&name) {
            let next = self.names.len() + 1;
            self.names.entry(name.to_owned()).or_insert_with(|| format!("{kind}{next}"));
        }
    }

    fn replace(&mut self, line: &str) -> String {
        // the clock of llama.cpp has the form of an address
        let rest = prefix::clock(line).map_or(line, |(_, rest)| rest);
        let (clock, text) = line.split_at(line.len() - rest.len());
        let mut text = KEYS.0.replace_all(text, "…");
        text = each(&LINKS, &text, link);
        text = each(&DRIVES, &text, tail);
        text = each(&PATHS, &text, tail);
        text = CARDS.0.replace_all(&text, "GPU-…");
        text = each(&ADDRESSES, &text, |address| {
            // addresses for documentation, RFC 5737
            let next = self.names.len() % 254 + 1;
            self.names.entry(address.to_owned()).or_insert_with(|| format!("192.0.2.{next}")).clone()
        });
        for (name, other) in &self.names {
            text = as_word(&text, name, other);
        }
        format!("{clock}{text}")
    }
}

fn each(rule: &Rule, text: &str, mut with: impl FnMut(&str) -> String) -> String {
    let (mut out, mut from) = (String::new(), 0);
    let found: Vec<Match> = rule.0.find_iter(text).collect();
    for range in found.iter().map(Match::range) {
        out += text.get(from..range.start).unwrap_or_default();
        out += &with(text.get(range.clone()).unwrap_or_default());
        from = range.end;
    }
    out + text.get(from..).unwrap_or_default()
}

/// The scheme and the last part of an address.
fn link(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    // names of models keep their owners
    if scheme == "hf" || scheme == "ollama" {
        return format!("{scheme}://{path}");
    }
    let last = path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    format!("{scheme}://…/{last}")
}

/// The last part of a path, after the parts that name a build.
fn tail(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let Some((last, folders)) = parts.split_last() else { return path.to_owned() };
    let builds = folders.iter().filter(|folder| Folder::named(folder).is_some());
    let kept: Vec<&str> = builds.chain([last]).copied().collect();
    format!("/{}", kept.join("/"))
}

/// `text` with `name` as `other` wherever it is a word.
fn as_word(text: &str, name: &str, other: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
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
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("llama-server -m /home/ada/models/x-Q4_K_M.gguf -c 4096", "llama-server -m /x-Q4_K_M.gguf -c 4096")]
    #[case(r#"--model "C:\Users\Ada L\my models\x.gguf" -c 8"#, r#"--model "/x.gguf" -c 8"#)]
    #[case(r"--lora D:\ada\adapters -c 8", "--lora /adapters -c 8")]
    #[case(
        "~/llama-b9694-bin/llama-server -hf unsloth/Qwen3-8B-GGUF",
        "/llama-b9694-bin/llama-server -hf unsloth/Qwen3-8B-GGUF"
    )]
    #[case("-v /home/ada/m:/models --api-key s3cret", "-v /m:/models --api-key …")]
    #[case("HF_TOKEN=hf_abcdefghijklmnop x", "HF_TOKEN=… x")]
    #[case(
        "0.00.405.825 I load_tensors: offloaded 20/49 layers to GPU",
        "0.00.405.825 I load_tensors: offloaded 20/49 layers to GPU"
    )]
    #[case("listening on http://10.0.0.7:8080/v1?key=9", "listening on http://…/v1")]
    #[case("RPC0[box.lan:50052] model buffer size = 1.00 MiB", "RPC0[host1:50052] model buffer size = 1.00 MiB")]
    #[case("RPC0[10.0.0.7:50052] and 127.0.0.1:50053", "RPC0[192.0.2.1:50052] and 127.0.0.1:50053")]
    #[case("CUDA0: GPU-6c0823ca-cb8a-24c9-b94e-8969d22f7125", "CUDA0: GPU-…")]
    fn lines_lose_what_is_private(#[case] line: &str, #[case] shown: &str) {
        let lines = anonymous(&[line.to_owned()], &[]);
        assert_eq!(lines, [shown]);
    }

    #[test]
    fn a_name_is_the_same_throughout() {
        let lines = ["-m /home/ada/x.gguf".to_owned(), "ada's llama on turing, not adage".to_owned()];
        let shown = anonymous(&lines, &["turing".to_owned()]);
        assert_eq!(shown, ["-m /x.gguf", "name2's llama on name1, not adage"]);
    }

    #[test]
    fn patterns_are_well_formed() {
        assert!(RULES.iter().all(|rule| rule.0.find("").is_none()));
    }
}
