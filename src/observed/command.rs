//! Command lines: quoted in a log, pasted above it, or of a router's instances.

use serde::Serialize;

use super::context::{ObservedSettings, flash_attn};
use super::pattern;
use crate::settings::GpuLayers;

/// A command line, parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandLine {
    /// The line as written, cut at 8 KiB.
    pub text: String,
    /// The program's name without its folder: `llama-server`.
    pub program: String,
    /// The model's file, repository or name.
    pub model: Option<String>,
    /// The settings in it.
    pub settings: ObservedSettings,
}

/// Programs whose arguments are llama.cpp's, and KoboldCpp, whose own differ.
const PROGRAMS: [&str; 12] = [
    "llama-server",
    "llama-cli",
    "llama-completion",
    "llama-fit-params",
    "llama-mtmd-cli",
    "llama-bench",
    "llama-perplexity",
    "llama-batched-bench",
    "llama-simple",
    "llama-run",
    "koboldcpp",
    "koboldcpp.py",
];

/// A command line among other text: a known program's name, then an option.
pub(super) fn typed(text: &str) -> Option<CommandLine> {
    if !(text.contains("llama-") || text.contains("koboldcpp")) || !text.contains(" -") {
        return None;
    }
    let text = text.trim().trim_start_matches(['$', '%', '`']).trim_start();
    let mut from = 0;
    for word in text.split(' ').take(24) {
        let name = program(word);
        let rest = text.get(from + word.len()..)?.trim_start();
        if PROGRAMS.contains(&name) && rest.starts_with('-') {
            return Some(read(text.get(from..)?));
        }
        from += word.len() + 1;
    }
    None
}

/// A program's name without folder and `.exe`.
fn program(word: &str) -> &str {
    let name = word.trim_matches(['"', '\'']).rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Parses a command line.
pub(super) fn read(text: &str) -> CommandLine {
    let mut words = split(text).into_iter();
    let program = words.next().map(|word| pattern::clip(program(&word), 64)).unwrap_or_default();
    CommandLine { text: pattern::clip(text, 8 << 10), program, ..of_words(words) }
}

/// Parses a command from its words.
pub(super) fn of_list(words: Vec<String>) -> CommandLine {
    let text = pattern::clip(&words.join(" "), 8 << 10);
    let program = words.first().map(|word| pattern::clip(program(word), 64)).unwrap_or_default();
    CommandLine { text, program, ..of_words(words.into_iter()) }
}

/// Parses arguments without a program.
pub(super) fn arguments(text: &str) -> CommandLine {
    CommandLine { text: pattern::clip(text, 8 << 10), ..of_words(split(text).into_iter()) }
}

/// Splits a text into words like a shell, without variables; 1,024 at most.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut begun) = (String::new(), false);
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', Some('"') | None) if matches!(characters.peek(), Some('"' | '\'' | '\\' | ' ')) => {
                word.extend(characters.next());
                begun = true;
            }
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => (quote, begun) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
                if words.len() == 1024 {
                    return words;
                }
            }
            (c, _) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

fn of_words(words: impl Iterator<Item = String>) -> CommandLine {
    let mut command = CommandLine::default();
    let mut words = words.skip_while(|word| !word.starts_with('-')).peekable();
    while let Some(word) = words.next() {
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        if switch(&mut command.settings, flag) {
            continue;
        }
        // a value never looks like an option, but for negative numbers
        let is_value = |next: &String| {
            !next.starts_with('-') || next.get(1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let value = attached.or_else(|| words.next_if(is_value)).unwrap_or_default();
        set(&mut command, flag, &value);
    }
    command
}

/// Applies an option without a value; false if it is none.
fn switch(settings: &mut ObservedSettings, flag: &str) -> bool {
    match flag {
        "--kv-unified" | "-kvu" => settings.kv_unified = Some(true),
        "--no-kv-unified" | "-no-kvu" => settings.kv_unified = Some(false),
        "--cpu-moe" | "-cmoe" => settings.n_cpu_moe = Some(u64::MAX),
        "--swa-full" => settings.swa_full = Some(true),
        "--no-kv-offload" | "-nkvo" => settings.no_kv_offload = Some(true),
        "--kv-offload" | "-kvo" => settings.no_kv_offload = Some(false),
        "--embedding" | "--embeddings" => settings.embeddings = Some(true),
        "--rerank" | "--reranking" => settings.reranking = Some(true),
        "--no-op-offload" => settings.no_op_offload = Some(true),
        "--no-mmap" => settings.load_mode = Some("none".to_owned()),
        "--mmap" => settings.load_mode = Some("mmap".to_owned()),
        "--mlock" => settings.load_mode = Some("mmap+mlock".to_owned()),
        _ => return false,
    }
    true
}

/// Applies an option with a value.
fn set(command: &mut CommandLine, flag: &str, value: &str) {
    let settings = &mut command.settings;
    let count = || value.parse::<u64>().ok();
    let text = || (!value.is_empty()).then(|| pattern::name(value));
    match flag {
        "--model" | "-m" => command.model = text(),
        "--hf-repo" | "-hf" | "-hfr" => command.model = command.model.take().or(text()),
        "--ctx-size" | "-c" | "--contextsize" => settings.n_ctx = count(),
        "--parallel" | "-np" => settings.n_seq_max = count(),
        "--batch-size" | "-b" | "--batchsize" | "--blasbatchsize" => settings.n_batch = count(),
        "--ubatch-size" | "-ub" => settings.n_ubatch = count(),
        "--flash-attn" | "-fa" | "--flashattention" => {
            settings.flash_attn = flash_attn(if value.is_empty() { "on" } else { value });
        }
        "--cache-type-k" | "-ctk" | "--kv-cache-type" => {
            settings.cache_type_k = value.parse().ok();
            if flag == "--kv-cache-type" {
                settings.cache_type_v = value.parse().ok();
            }
        }
        "--cache-type-v" | "-ctv" => settings.cache_type_v = value.parse().ok(),
        "--n-gpu-layers" | "--gpu-layers" | "-ngl" | "--gpulayers" => settings.gpu_layers = layers(value),
        "--tensor-split" | "-ts" | "--tensor_split" => {
            let shares: Option<Vec<f64>> = value.split([',', '/']).map(|share| share.trim().parse().ok()).collect();
            settings.tensor_split = shares.filter(|shares| shares.iter().all(|share: &f64| share.is_finite()));
        }
        "--split-mode" | "-sm" => settings.split_mode = text(),
        "--main-gpu" | "-mg" => settings.main_gpu = count(),
        "--device" | "-dev" => settings.device = text(),
        "--rpc" => settings.rpc = text(),
        "--n-cpu-moe" | "-ncmoe" | "--moecpu" => settings.n_cpu_moe = count(),
        "--override-tensor" | "-ot" | "--overridetensors" => {
            let before = settings.override_tensor.take().map(|before| before + ",").unwrap_or_default();
            settings.override_tensor = Some(pattern::name(&(before + value)));
        }
        "--fit" | "-fit" => settings.fit = flash_attn(value).map(|on| on == crate::settings::FlashAttn::On),
        "--fit-target" | "-fitt" => {
            settings.fit_target = value.split(',').map(|mib| mib.trim().parse().ok()).collect();
        }
        "--fit-ctx" | "-fitc" => settings.fit_ctx = count(),
        "--load-mode" | "-lm" => settings.load_mode = text(),
        "--mmproj" | "-mm" => settings.mmproj = text(),
        "--model-draft" | "-md" | "--spec-draft-model" | "--draftmodel" => settings.model_draft = text(),
        "--spec-type" => settings.spec_type = text(),
        "--spec-draft-n-max" | "--draft-max" | "--draft" | "--draft-n" => settings.spec_draft_n_max = count(),
        "--lora" => settings.lora = text(),
        "--pooling" => settings.pooling = value.parse().ok(),
        "--cache-ram" | "-cram" => settings.cache_ram = value.parse().ok(),
        "--ctx-checkpoints" | "-ctxcp" | "--swa-checkpoints" => settings.ctx_checkpoints = count(),
        _ => {}
    }
}

/// A number of layers, `auto` or `all`; below zero, -1 is auto and less is all.
fn layers(value: &str) -> Option<GpuLayers> {
    Some(match value {
        "auto" | "-1" => GpuLayers::Auto,
        "all" => GpuLayers::All,
        _ if value.starts_with('-') => GpuLayers::All,
        _ => GpuLayers::Count(value.parse().ok()?),
    })
}

/// Maximum number of words of an instance's command.
const WORDS: usize = 512;

/// An instance that a router is starting.
#[derive(Clone, Debug, Default)]
pub(super) struct Spawn {
    name: String,
    port: String,
    words: Vec<String>,
}

impl Spawn {
    /// `spawning server instance with name=gemma on port 41000`
    pub fn begin(text: &str) -> Option<Self> {
        let rest = pattern::after(text, "spawning server instance with name=")?;
        let (name, port) = rest.rsplit_once(" on port ")?;
        let (number, _) = pattern::count(port)?;
        Some(Self { name: pattern::name(name), port: number.to_string(), words: Vec::new() })
    }

    /// A word of the command, in `srv          load:   --alias`; whether it was one.
    pub fn add(&mut self, text: &str) -> bool {
        let Some((_, word)) = text.split_once(" load: ").filter(|_| text.starts_with("srv ")) else { return false };
        let heading = word.contains("spawning server instance");
        let Some(word) = word.strip_prefix("  ").filter(|_| self.words.len() < WORDS) else { return heading };
        self.words.push(pattern::name(word));
        true
    }

    /// The instance's port and command.
    pub fn end(self) -> (String, CommandLine) {
        let mut command = of_list(self.words);
        command.model = command.model.or(Some(self.name));
        (self.port, command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Flag;
    use crate::settings::flag::tests::sample;

    #[test]
    fn every_option_of_llama_server_is_known() {
        // they decide nothing that a log could be compared with
        let passed_over = [
            Flag::NoRepack,
            Flag::NoMmprojOffload,
            Flag::ImageMinTokens,
            Flag::ImageMaxTokens,
            Flag::GpuLayersDraft,
            Flag::CacheTypeKDraft,
            Flag::CacheTypeVDraft,
        ];
        for &flag in Flag::ALL {
            let (Some(argument), Some(value)) = (flag.row().argument, sample(flag)) else { continue };
            let is_read = !read(&format!("llama-server {argument} {value}")).settings.is_empty();
            assert_eq!(is_read, !passed_over.contains(&flag), "{flag:?}");
        }
    }
}
