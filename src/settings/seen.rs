//! What may be seen of values where others see a command: in answers, logs, reports, recordings and shared samples.
//!
//! The options are rows of [`super::flag`] and of `assets/llama-server-options.txt`, the variables rows of `VARIABLES`. What
//! no row lets be seen is hidden, and so is a value that is not of the kind that its row names.

use std::borrow::Cow;

use super::fields::Settings;
use super::flag::Flag;
use super::option::ServerOption;
use super::written::gpu_number;

/// What stands for a value that is not shown.
pub const HIDDEN: &str = "…";

/// What may be seen of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    #[default]
    Nothing,
    /// Numbers, sizes and durations, with commas between, and the words of `WORDS`: `32k`, `3,1`, `90%`, `auto`.
    Numbers,
    /// These words, a bar between, and those of `WORDS`; several may be given with commas between.
    Words(&'static str),
    /// What the option's own reader takes, which knows every value by its name.
    Read,
    /// Devices: `CUDA1,GPU0`, `none`.
    Devices,
    /// Patterns of tensors with their devices, of the parts of tensors' names alone: `blk\.[0-9]\.ffn_.*=CPU`.
    Tensors,
    /// The last part of a model's path or address.
    File,
    /// A repository with its quantisation: `owner/name:Q4_K_M`.
    Repository,
}

/// Words that stand for a number, or for whether something is on.
const WORDS: [&str; 14] =
    ["auto", "all", "max", "none", "on", "off", "true", "false", "True", "False", "enabled", "disabled", "yes", "no"];

/// Units behind a number.
const UNITS: [&str; 19] =
    ["", "k", "K", "m", "M", "g", "G", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "%", "h", "s", "ms", "T"];

/// A longer number is none.
const LONGEST_NUMBER: usize = 24;

/// What tensors' names are made of, besides numbers and single letters.
const TENSORS: &str = "|blk|ffn|up|down|gate|exp|exps|shexp|shexps|chexps|attn|qkv|kv|output|norm|weight|bias|token|embd|ssm|\
                       conv|dt|in|out|inp|per|layer|post|pre|mqa|latent|nextn|moe|rel|rope|freqs|factors|sinks|probs|types|";

/// Variables that are no option of llama-server, with what may be seen of them. A name that ends in `*` stands for all
/// that begin so, and one that begins with it for all that end so.
const VARIABLES: [(&str, Seen); 23] = [
    ("OLLAMA_IGPU_ENABLE", Seen::Numbers),
    ("OLLAMA_VULKAN", Seen::Numbers),
    ("OLLAMA_GO_TEMPLATE", Seen::Numbers),
    (
        "OLLAMA_LLM_LIBRARY",
        Seen::Words("cpu|cpu_avx|cpu_avx2|cuda_v11|cuda_v12|cuda_v13|cuda_jetpack5|cuda_jetpack6|rocm|vulkan"),
    ),
    ("OLLAMA_MAX_LOADED_MODELS", Seen::Numbers),
    ("OLLAMA_KEEP_ALIVE", Seen::Numbers),
    ("OLLAMA_DEBUG", Seen::Words("INFO|DEBUG|TRACE|1|0|2")),
    ("OLLAMA_LOAD_TIMEOUT", Seen::Numbers),
    ("OLLAMA_MAX_QUEUE", Seen::Numbers),
    ("OLLAMA_MULTIUSER_CACHE", Seen::Numbers),
    ("OLLAMA_NEW_ENGINE", Seen::Numbers),
    ("OLLAMA_NOHISTORY", Seen::Numbers),
    ("OLLAMA_NOPRUNE", Seen::Numbers),
    ("CUDA_DEVICE_ORDER", Seen::Words("FASTEST_FIRST|PCI_BUS_ID")),
    ("*_VISIBLE_DEVICES", Seen::Numbers),
    ("GGML_*", Seen::Numbers),
    ("PLIMSOLL_OFFLINE", Seen::Numbers),
    ("PLIMSOLL_THEME", Seen::Words("dark|light|mono")),
    ("PLIMSOLL_GLYPHS", Seen::Words("unicode|ascii")),
    ("PLIMSOLL_ENGINE", Seen::Words("ollama|llama.cpp|ollama-0.24|ollama-0.11|mlx")),
    ("PLIMSOLL_*", Seen::Numbers),
    ("COLORTERM", Seen::Words("truecolor|24bit")),
    (
        "TERM",
        Seen::Words(
            "dumb|linux|xterm|xterm-256color|screen|screen-256color|tmux|tmux-256color|alacritty|xterm-kitty|vt100",
        ),
    ),
];

impl Seen {
    /// The kind by its name in the list of options: `number`, `file`, `repository`, or words with bars between.
    pub(super) fn named(name: &'static str) -> Self {
        match name {
            "" => Self::Nothing,
            "number" => Self::Numbers,
            "file" => Self::File,
            "repository" => Self::Repository,
            words => Self::Words(words),
        }
    }

    /// What may be seen of `value`; none if nothing.
    pub fn of(self, value: &str) -> Option<Cow<'_, str>> {
        let parts = |is: &dyn Fn(&str) -> bool| value.split([',', '/']).all(|part| is(part.trim()));
        let is_shown = match self {
            Self::Nothing | Self::Read => false,
            Self::Numbers => parts(&|part| is_number(part) || WORDS.contains(&part)),
            Self::Words(words) => parts(&|part| WORDS.contains(&part) || words.split('|').any(|word| word == part)),
            Self::Devices => parts(&|part| part == "none" || is_device(part)),
            Self::Tensors => value.split(',').all(is_placement),
            Self::File => return file(value).map(Cow::Borrowed),
            Self::Repository => is_repository(value),
        };
        is_shown.then_some(Cow::Borrowed(value))
    }
}

impl Flag {
    /// What may be seen of a value of it; none if nothing.
    pub fn seen(self, value: &str) -> Option<Cow<'_, str>> {
        match self.row().seen {
            Seen::Read => self.read(&mut Settings::default(), value).is_ok().then_some(Cow::Borrowed(value)),
            seen => seen.of(value),
        }
    }
}

impl ServerOption {
    /// What may be seen of a value of it; none if nothing.
    pub fn seen(self, value: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Sets(flag) => flag.seen(value),
            Self::TakesBack(_) => Seen::Words("").of(value),
            Self::Listed(option) => option.seen.of(value),
        }
    }
}

/// What may be seen of the value of a variable; none if nothing.
pub fn of_variable<'a>(name: &str, value: &'a str) -> Option<Cow<'a, str>> {
    let of_ollama = || Flag::ALL.iter().find(|flag| flag.row().ollama == Some(name)).copied().map(ServerOption::Sets);
    if let Some(option) = ServerOption::of_variable(name, value).map(|(option, _)| option).or_else(of_ollama) {
        // values of switches are no values of their options
        return option.seen(value).or_else(|| Seen::Words("1|0").of(value).filter(|_| option.is_switch()));
    }
    let is_named = |row: &str| match (row.strip_suffix('*'), row.strip_prefix('*')) {
        (Some(start), _) => name.starts_with(start),
        (_, Some(end)) => name.ends_with(end),
        _ => row == name,
    };
    VARIABLES.iter().find(|(row, _)| is_named(row)).and_then(|(_, seen)| seen.of(value))
}

/// What may be seen, or what stands for it where nothing may.
pub fn or_hidden(seen: Option<Cow<'_, str>>) -> Cow<'_, str> {
    seen.unwrap_or(Cow::Borrowed(HIDDEN))
}

/// `NAME=VALUE` with what may be seen of the value.
pub fn assigned(name: &str, value: &str) -> String {
    format!("{name}={}", or_hidden(of_variable(name, value)))
}

/// The variables with a row of their own, and those of Ollama's server that set what an option sets.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let own = VARIABLES.iter().map(|(name, _)| *name).filter(|name| !name.contains('*'));
    own.chain(Flag::ALL.iter().filter_map(|flag| flag.row().ollama))
}

/// What may be seen of what a command calls its model: a file's last part, a repository.
pub fn model(name: &str) -> Cow<'_, str> {
    or_hidden(Seen::File.of(name).or_else(|| Seen::Repository.of(name)))
}

/// `-1`, `0.5`, `32k`, `1e-5`, `1h30m`.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') || text.len() > LONGEST_NUMBER {
        return false;
    }
    if text.parse::<f64>().is_ok() {
        return true;
    }
    let mut rest = unsigned;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let next = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        if unit.len() == rest.len() || !UNITS.contains(&&unit[..next]) {
            return false;
        }
        rest = &unit[next..];
    }
    true
}

/// `CUDA0`, `GPU1`, `CPU`.
fn is_device(name: &str) -> bool {
    name.len() <= LONGEST_NUMBER && (name == "CPU" || is_number(name) || gpu_number(name).is_some())
}

/// `blk\.[0-9]\.ffn_.*=CPU`
fn is_placement(text: &str) -> bool {
    let Some((pattern, device)) = text.rsplit_once('=') else { return false };
    let is_known = |word: &str| word.len() <= 1 || TENSORS.contains(&format!("|{word}|"));
    let letters = pattern.split(|c: char| !c.is_alphabetic());
    // single letters in a row spell words, too
    let single = letters.clone().filter(|word| word.chars().count() == 1).count();
    pattern.is_ascii() && letters.into_iter().all(is_known) && single <= 6 && is_device(device.trim())
}

/// The last part of a path or an address that ends as models do, or names a file by its digest.
fn file(value: &str) -> Option<&str> {
    let path = if value.contains("://") { value.split(['?', '#']).next()? } else { value };
    let name = path.rsplit(['/', '\\']).next()?;
    let stem = name.get(..name.len().checked_sub(".gguf".len())?)?;
    let is_model = !stem.is_empty() && name[stem.len()..].eq_ignore_ascii_case(".gguf");
    let digest = name.strip_prefix("sha256-").or_else(|| name.strip_prefix("sha256:"));
    let is_digest = digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
    // what stands before an `@` names a user
    (is_model && !name.contains('@') || is_digest).then_some(name)
}

fn is_repository(value: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part.len() <= 96
            && !part.starts_with('.')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    let Some((owner, name)) = value.split_once('/') else { return false };
    let (name, quantisation) = name.split_once(':').unwrap_or((name, "none"));
    plain(owner) && plain(name) && plain(quantisation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Seen::Numbers, "32768", Some("32768"))]
    #[case(Seen::Numbers, "3,1.5", Some("3,1.5"))]
    #[case(Seen::Numbers, "-1", Some("-1"))]
    #[case(Seen::Numbers, "1h30m", Some("1h30m"))]
    #[case(Seen::Numbers, "1e-5", Some("1e-5"))]
    #[case(Seen::Numbers, "auto", Some("auto"))]
    #[case(Seen::Numbers, "inf", None)]
    #[case(Seen::Numbers, "12secret", None)]
    #[case(Seen::Numbers, "1234567890123456789012345", None)]
    #[case(Seen::Words("linear|yarn"), "yarn", Some("yarn"))]
    #[case(Seen::Words("linear|yarn"), "linear|yarn", None)]
    #[case(Seen::Devices, "CUDA1,GPU0", Some("CUDA1,GPU0"))]
    #[case(Seen::Devices, "none", Some("none"))]
    #[case(Seen::Devices, "secret0", None)]
    #[case(
        Seen::Tensors,
        r"blk\.[0-9]\.ffn_.*_exps=CPU,output=CUDA0",
        Some(r"blk\.[0-9]\.ffn_.*_exps=CPU,output=CUDA0")
    )]
    #[case(Seen::Tensors, "secret=CPU", None)]
    #[case(Seen::Tensors, "blk=secret", None)]
    #[case(Seen::Tensors, "s.e.c.r.e.t.s=CPU", None)]
    #[case(Seen::File, "/home/ada/m/x.GGUF", Some("x.GGUF"))]
    #[case(Seen::File, r"C:\Users\Ada L\x y.gguf", Some("x y.gguf"))]
    #[case(Seen::File, "https://me:pw@host/a/x.gguf?sig=1#2", Some("x.gguf"))]
    #[case(Seen::File, "https://me:pw@x.gguf", None)]
    #[case(Seen::File, "/home/ada/secret", None)]
    #[case(Seen::File, "é", None)]
    #[case(Seen::Repository, "unsloth/Qwen3-8B-GGUF:Q4_K_M", Some("unsloth/Qwen3-8B-GGUF:Q4_K_M"))]
    #[case(Seen::Repository, "/home/ada", None)]
    #[case(Seen::Repository, "secret", None)]
    #[case(Seen::Nothing, "1", None)]
    fn only_what_is_of_its_kind_is_seen(#[case] seen: Seen, #[case] value: &str, #[case] shown: Option<&str>) {
        assert_eq!(seen.of(value).as_deref(), shown);
    }

    #[rstest]
    #[case("LLAMA_ARG_CTX_SIZE", "8192", true)]
    #[case("LLAMA_ARG_KV_UNIFIED", "1", true)]
    #[case("LLAMA_API_KEY", "1", false)]
    #[case("HF_TOKEN", "hf_x", false)]
    #[case("OLLAMA_FLASH_ATTENTION", "1", true)]
    #[case("OLLAMA_KV_CACHE_TYPE", "q8_0", true)]
    #[case("OLLAMA_KV_CACHE_TYPE", "secret", false)]
    #[case("OLLAMA_HOST", "1", false)]
    #[case("OLLAMA_KEEP_ALIVE", "5m", true)]
    #[case("CUDA_VISIBLE_DEVICES", "0,1", true)]
    #[case("CUDA_VISIBLE_DEVICES", "GPU-6c0823ca", false)]
    #[case("ANY", "1", false)]
    fn variables_are_seen_by_their_rows(#[case] name: &str, #[case] value: &str, #[case] shown: bool) {
        assert_eq!(of_variable(name, value).is_some(), shown);
    }
}
