//! Commands as others may see them: in answers, logs, reports, recordings and shared samples.
//!
//! A [`ShownCommand`] is made of a command's words alone, by what the rows of options let be seen
//! ([`crate::settings::seen`]); everything else is hidden. Nothing in it was private, so that it needs no care afterwards.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command::{self, PROGRAMS};
use super::hole;
use super::model::Folder;
use crate::settings::ServerOption;
use crate::settings::seen::{HIDDEN, assigned, or_hidden};
use crate::text::{is_printable, shell_word};

/// Maximum number of words of a command.
const WORDS: usize = 1024;
/// Maximum length of it.
const LONGEST: usize = 8 << 10;

/// Programs around a server, and what they are told to do.
const AROUND: [&str; 18] = [
    "ollama", "llama", "docker", "podman", "sudo", "nohup", "env", "exec", "nice", "time", "run", "serve", "runner",
    "start", "create", "up", "python", "python3",
];

/// The longest name of an option or a variable that is not known.
const LONGEST_NAME: usize = 48;

/// A command as others may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ShownCommand(String);

impl ShownCommand {
    /// Of the words of a command.
    pub fn of(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let (mut out, mut shown) = (String::new(), WordFilter::default());
        let mut hid = false;
        for word in words.into_iter().take(WORDS) {
            let word = shown.next(word.as_ref());
            // hidden words in a row are one
            let hides = word == Shown::Stray;
            if hides && hid {
                continue;
            }
            hid = hides;
            if !out.is_empty() {
                out.push(' ');
            }
            out += &word.text();
        }
        Self(hole::clip(&out, LONGEST))
    }

    /// Of a line as a shell takes it.
    pub fn read(line: &str) -> Self {
        Self::of(command::words(line))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShownCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for ShownCommand {
    fn from(line: String) -> Self {
        Self::read(&line)
    }
}

impl From<ShownCommand> for String {
    fn from(command: ShownCommand) -> Self {
        command.0
    }
}

/// What may be seen of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// An option, a variable or a program, with what may be seen of its value.
    Word(String),
    /// A value of the option before it; none if it is hidden.
    Value(Option<String>),
    /// A word that belongs to nothing known, and is hidden.
    Stray,
}

impl Shown {
    /// As a word of a shell.
    pub(super) fn text(&self) -> String {
        match self {
            // what is hidden stands without quotes, so that it is read as the same again
            Self::Word(text) | Self::Value(Some(text)) => match text.strip_suffix(HIDDEN) {
                Some(name) => format!("{name}{HIDDEN}"),
                None => shell_word(text),
            },
            Self::Value(None) | Self::Stray => HIDDEN.to_owned(),
        }
    }
}

/// Takes the words of a command one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct WordFilter {
    /// The option whose values follow, and how many.
    expects: Option<(ServerOption, usize)>,
}

impl WordFilter {
    /// What may be seen of the next word.
    pub(super) fn next(&mut self, word: &str) -> Shown {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(value)),
            _ => (word, None),
        };
        let option = if name.starts_with('-') { known(name) } else { None };
        let expects = self.expects.take();
        if let Some(option) = option {
            if attached.is_none() && option.values() > 0 {
                self.expects = Some((option, option.values()));
            }
            return Shown::Word(with_value(name, attached.map(|value| or_hidden(option.seen(value)))));
        }
        if let Some((option, left)) = expects {
            self.expects = (left > 1).then_some((option, left - 1));
            return Shown::Value(option.seen(word).map(Cow::into_owned));
        }
        if is_option(name) {
            return Shown::Word(with_value(name, attached.map(|_| HIDDEN.into())));
        }
        match variable(word).or_else(|| program(word)).or_else(|| image(word)) {
            Some(shown) => Shown::Word(shown),
            None => Shown::Stray,
        }
    }

    /// Whether the next word is a value of an option that is known.
    pub(super) const fn expects_value(&self) -> bool {
        self.expects.is_some()
    }
}

/// The option of this name, of llama.cpp's programs or of `KoboldCpp`.
fn known(name: &str) -> Option<ServerOption> {
    ServerOption::named(name).or_else(|| command::koboldcpp(name))
}

fn with_value(name: &str, value: Option<Cow<'_, str>>) -> String {
    value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"))
}

/// Whether a word is the name of an option that is not known: `--any-name`, `-abc`.
pub(super) fn is_option(word: &str) -> bool {
    let is_name = |name: &str, longest: usize, is: fn(u8) -> bool| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= longest && name.bytes().all(is)
    };
    match word.strip_prefix("--") {
        Some(name) => {
            is_name(name, LONGEST_NAME, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        }
        // a value may follow a single letter without a blank
        None => word.strip_prefix('-').is_some_and(|name| is_name(name, 5, |b| b.is_ascii_lowercase())),
    }
}

/// `NAME=value`, with what may be seen of the value.
pub(super) fn variable(word: &str) -> Option<String> {
    let (name, value) = word.split_once('=')?;
    is_variable(name).then(|| assigned(name, value))
}

/// Whether this is the name of a variable as programs have them: `HF_TOKEN`.
pub(super) fn is_variable(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.len() > 1
        && name.len() <= LONGEST_NAME
        && name.bytes().all(plain)
        && name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// A program's name, behind the folders that name a build.
fn program(word: &str) -> Option<String> {
    let name = command::program(word);
    let known = PROGRAMS.iter().chain(&AROUND).find(|known| **known == name);
    // `llama-server-cuda`
    let within = || PROGRAMS.iter().find(|known| name.contains(**known));
    let name = known.or_else(within).filter(|_| word.chars().all(is_printable))?;
    let (folders, _) = word.rsplit_once(['/', '\\']).unwrap_or_default();
    let builds: Vec<String> = folders.split(['/', '\\']).filter_map(build).collect();
    Some(if builds.is_empty() { (*name).to_owned() } else { format!("/{}/{name}", builds.join("/")) })
}

/// The name of a build in that of a folder, without what else is in it.
pub(super) fn build(folder: &str) -> Option<String> {
    Some(match Folder::named(folder)? {
        Folder::Engine(version) => format!("llama.cpp-engine-{version}"),
        Folder::Build(build) => format!("b{build}"),
    })
}

/// An image of llama.cpp's own, without its registry.
fn image(word: &str) -> Option<String> {
    let (_, tag) = word.rsplit('/').next()?.strip_prefix("llama.cpp").and_then(|rest| rest.split_once(':'))?;
    let known = ["server", "full", "cuda", "cuda12", "cuda13", "rocm", "vulkan", "intel", "musa", "openvino"];
    let is_part =
        |part: &str| known.contains(&part) || part.strip_prefix('b').is_some_and(|n| n.parse::<u32>().is_ok());
    (command::is_image(word) && tag.split('-').all(is_part)).then(|| format!("llama.cpp:{tag}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("llama-server -m /home/ada/m/x.gguf -c 4096 -fa on", "llama-server -m x.gguf -c 4096 -fa on")]
    #[case(
        "llama-server --api-key K --api-key=K --api-key \"K K\" -c 1",
        "llama-server --api-key … --api-key=… --api-key … -c 1"
    )]
    #[case("llama-server --api-key -c 1", "llama-server --api-key -c 1")]
    #[case("llama-server --no-such K K -c 1", "llama-server --no-such … -c 1")]
    #[case("llama-server --no-such=K -pK -Kk", "llama-server --no-such=… …")]
    #[case(
        "ada@box:~/m$ HF_TOKEN=K LLAMA_ARG_CTX_SIZE=8 /opt/llama-b9694-ada/llama-server",
        "… HF_TOKEN=… LLAMA_ARG_CTX_SIZE=8 /b9694/llama-server"
    )]
    #[case(
        "docker run -v /home/ada/m:/m -e LLAMA_API_KEY=K ghcr.io/ggml-org/llama.cpp:server-cuda -m /m/x.gguf",
        "docker run -v … -e LLAMA_API_KEY=… llama.cpp:server-cuda -m x.gguf"
    )]
    #[case(r"llama-server.exe -m \\box\ada\x.gguf -ngl -1 > C:\ada\log", "llama-server -m x.gguf -ngl -1 …")]
    #[case(
        "llama-server -hf ada/m:Q4_K_M --temp 0.7 -ts 3,1 -p 'tell me'",
        "llama-server -hf ada/m:Q4_K_M --temp 0.7 -ts 3,1 -p …"
    )]
    #[case(
        "ollama runner --model /r/blobs/sha256-0123456789012345678901234567890123456789012345678901234567890123",
        "ollama runner --model sha256-0123456789012345678901234567890123456789012345678901234567890123"
    )]
    #[case("", "")]
    fn only_what_rows_allow_is_shown(#[case] line: &str, #[case] shown: &str) {
        let command = ShownCommand::read(line);
        assert_eq!(command.as_str(), shown);
        assert_eq!(ShownCommand::read(shown), command, "it is shown as it is");
    }
}
