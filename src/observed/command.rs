//! Command lines: quoted in a log, pasted above it, or of a router's instances.

use serde::Serialize;

use super::context::ObservedSettings;
use super::hole;
use super::shown::ShownCommand;
use crate::settings::{Flag, FlashAttn, GpuLayers, ListedKind, ServerOption};

/// A command line, parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandLine {
    /// The line, as others may see it.
    pub text: ShownCommand,
    /// Whether it names a path of Windows.
    #[serde(skip)]
    pub is_windows: bool,
    /// The program's name without its folder: `llama-server`.
    pub program: String,
    /// The model's file, repository or name.
    pub model: Option<String>,
    /// The settings in it.
    pub settings: ObservedSettings,
    /// Options with their values that no line of a log tells again.
    #[serde(skip)]
    pub untold: Vec<(Flag, String)>,
}

/// Programs whose arguments are llama.cpp's, and KoboldCpp, whose own differ.
pub const PROGRAMS: [&str; 12] = [
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

/// A command line among other text: a program or a container's image, then an option. One whose name is not known is
/// one if it names a model and sets something.
pub(super) fn typed(text: &str) -> Option<CommandLine> {
    let may_be = ["llama", "koboldcpp", ".gguf", "LLAMA_ARG_"].iter().any(|word| text.contains(word));
    if !may_be || !text.contains(" -") {
        return None;
    }
    let text = text.trim().trim_start_matches(['$', '%', '`', '#']).trim_start();
    let mut from = 0;
    for word in text.split(' ').take(64) {
        let (name, at) = (program(word), from);
        from += word.len() + 1;
        let options = text.get(at + word.len()..)?.trim_start();
        if !options.starts_with('-') || word.starts_with('-') {
            continue;
        }
        let is_known = PROGRAMS.contains(&name);
        if is_known || is_image(word) || name.contains("llama") || name.contains("server") {
            let mut command = of_words(variables(text.get(..at)?).chain(words(options)).take(WORDS));
            let loads = command.model.as_deref().is_some_and(is_model) && !command.settings.is_empty();
            if is_known || loads || is_image(word) {
                let own = text.get(at..)?;
                (command.text, command.is_windows) = (ShownCommand::read(own), is_windows(own));
                command.program = hole::clip(if is_image(word) { "llama-server" } else { name }, 64);
                return Some(command);
            }
        }
    }
    None
}

/// A container's image of llama.cpp: `ghcr.io/ggml-org/llama.cpp:server-cuda`.
pub(super) fn is_image(word: &str) -> bool {
    let image = word.rsplit('/').next().unwrap_or(word);
    image.split_once(':').is_some_and(|(name, tag)| {
        name.contains("llama") && ["server", "full"].iter().any(|kind| tag.contains(kind)) && !word.contains('\\')
    })
}

/// Whether a command's model is a file of a model, or a repository.
fn is_model(name: &str) -> bool {
    name.to_lowercase().ends_with(".gguf") || name.contains('/') && !name.contains(' ')
}

/// Options that variables in front of a command stand for: `-e LLAMA_ARG_CTX_SIZE=8192`.
fn variables(text: &str) -> impl Iterator<Item = String> {
    let options = words(text).take(WORDS).filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        let (option, value) = ServerOption::of_variable(name, value)?;
        let ServerOption::Sets(flag) = option else { return None };
        (value != "false").then_some(())?;
        Some([flag.row().argument?.to_owned(), value])
    });
    options.flatten()
}

/// A program's name without folder and `.exe`, and without the prompt of Windows' shell.
pub(crate) fn program(word: &str) -> &str {
    let name = word.trim_matches(['"', '\'']).rsplit(['/', '\\', '>']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Whether a path of Windows is in a text.
fn is_windows(text: &str) -> bool {
    text.contains(":\\")
}

/// Parses a command line.
pub(super) fn read(text: &str) -> CommandLine {
    let mut words = words(text).take(WORDS);
    let program = words.next().map(|word| hole::clip(program(&word), 64)).unwrap_or_default();
    CommandLine { text: ShownCommand::read(text), is_windows: is_windows(text), program, ..of_words(words) }
}

/// Parses a command from its words.
pub(super) fn of_list(words: Vec<String>) -> CommandLine {
    let (text, is_windows) = (ShownCommand::of(&words), words.iter().any(|word| is_windows(word)));
    let program = words.first().map(|word| hole::clip(program(word), 64)).unwrap_or_default();
    CommandLine { text, is_windows, program, ..of_words(words.into_iter()) }
}

/// Parses arguments without a program.
pub(super) fn arguments(text: &str) -> CommandLine {
    CommandLine { text: ShownCommand::read(text), is_windows: is_windows(text), ..of_words(words(text).take(WORDS)) }
}

/// The words of a text as a shell splits it, without variables. Lines may go on after `\\`, or `^` and the backtick of
/// Windows' shells.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    let mut characters = text.chars().peekable();
    std::iter::from_fn(move || {
        let mut word: Option<String> = None;
        let mut quote = None;
        while let Some(c) = characters.next() {
            let next = characters.peek().copied();
            match (c, quote) {
                ('\\' | '^' | '`', None) if matches!(next, Some('\n' | '\r') | None) => {}
                ('\\', Some('"') | None) if matches!(next, Some('"' | '\'' | '\\' | ' ')) => {
                    word.get_or_insert_default().extend(characters.next());
                }
                (c, Some(open)) if c == open => quote = None,
                ('"' | '\'', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                ('#', None) if word.is_none() => {
                    characters.by_ref().take_while(|c| *c != '\n').for_each(drop);
                }
                (c, None) if c.is_whitespace() => {
                    if word.is_some() {
                        break;
                    }
                }
                (c, _) => word.get_or_insert_default().push(c),
            }
        }
        word
    })
}

fn of_words(words: impl Iterator<Item = String>) -> CommandLine {
    let mut command = CommandLine::default();
    let mut words = words.skip_while(|word| !word.starts_with('-')).peekable();
    while let Some(word) = words.next() {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let option = ServerOption::named(name).or_else(|| koboldcpp(name));
        if switch(&mut command.settings, option) {
            continue;
        }
        // a value never looks like an option, but for negative numbers
        let is_value = |next: &String| {
            !next.starts_with('-') || next.get(1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let value = attached.or_else(|| words.next_if(is_value)).unwrap_or_default();
        match option {
            Some(ServerOption::Sets(flag)) if !set(&mut command.settings, flag, &value) => {
                command.untold.push((flag, hole::name(&value)));
            }
            Some(ServerOption::Listed(listed)) => set_file(&mut command, listed.kind, &value),
            _ => {}
        }
    }
    command
}

/// Options of KoboldCpp that are llama.cpp's under another name.
pub(super) fn koboldcpp(name: &str) -> Option<ServerOption> {
    let flag = match name {
        "--contextsize" => Flag::Context,
        "--batchsize" | "--blasbatchsize" => Flag::Batch,
        "--flashattention" => Flag::FlashAttn,
        "--gpulayers" => Flag::GpuLayers,
        "--moecpu" => Flag::NCpuMoe,
        "--kv-cache-type" => Flag::KvType,
        "--draftmodel" => Flag::ModelDraft,
        "--overridetensors" => Flag::OverrideTensor,
        _ => return None,
    };
    Some(ServerOption::Sets(flag))
}

/// Applies an option without a value; false if it is none.
fn switch(settings: &mut ObservedSettings, option: Option<ServerOption>) -> bool {
    let (flag, on) = match option {
        Some(ServerOption::Sets(flag)) => (flag, true),
        Some(ServerOption::TakesBack(flag)) => (flag, false),
        _ => return false,
    };
    match flag {
        Flag::KvUnified => settings.kv_unified = Some(on),
        Flag::SwaFull => settings.swa_full = Some(on),
        Flag::NoKvOffload => settings.no_kv_offload = Some(on),
        Flag::Embeddings => settings.embeddings = Some(on),
        Flag::Reranking => settings.reranking = Some(on),
        Flag::NoOpOffload => settings.no_op_offload = Some(on),
        Flag::NoHost => settings.no_host = Some(on),
        Flag::CpuMoe => settings.n_cpu_moe = Some(u64::MAX),
        Flag::NoMmap => settings.load_mode = Some("none".to_owned()),
        Flag::Mmap => settings.load_mode = Some("mmap".to_owned()),
        Flag::Mlock => settings.load_mode = Some("mmap+mlock".to_owned()),
        _ => return false,
    }
    true
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| hole::name(value))
}

/// Applies an option that logs tell again; false if it is none.
fn set(settings: &mut ObservedSettings, flag: Flag, value: &str) -> bool {
    let count = || value.parse::<u64>().ok();
    match flag {
        Flag::Context => settings.n_ctx = count(),
        Flag::Parallel => settings.n_seq_max = count(),
        Flag::Batch => settings.n_batch = count(),
        Flag::Ubatch => settings.n_ubatch = count(),
        Flag::FlashAttn => settings.flash_attn = FlashAttn::of(if value.is_empty() { "on" } else { value }),
        Flag::KvType => (settings.cache_type_k, settings.cache_type_v) = (value.parse().ok(), value.parse().ok()),
        Flag::CacheTypeK => settings.cache_type_k = value.parse().ok(),
        Flag::CacheTypeV => settings.cache_type_v = value.parse().ok(),
        Flag::GpuLayers => settings.gpu_layers = layers(value),
        Flag::TensorSplit => {
            let shares: Option<Vec<f64>> = value.split([',', '/']).map(|share| share.trim().parse().ok()).collect();
            settings.tensor_split = shares.filter(|shares| shares.iter().all(|share: &f64| share.is_finite()));
        }
        Flag::NCpuMoe => settings.n_cpu_moe = count(),
        Flag::FitTarget => settings.fit_target = value.split(',').map(|mib| mib.trim().parse().ok()).collect(),
        Flag::FitCtx => settings.fit_ctx = count(),
        Flag::LoadMode => settings.load_mode = text(value),
        Flag::Mmproj => settings.mmproj = text(value),
        Flag::ModelDraft => settings.model_draft = text(value),
        Flag::SpecType => settings.spec_type = text(value),
        Flag::SpecDraftNMax => settings.spec_draft_n_max = count(),
        Flag::Pooling => settings.pooling = value.parse().ok(),
        Flag::CacheRam => settings.cache_ram = value.parse().ok(),
        Flag::CtxCheckpoints => settings.ctx_checkpoints = count(),
        Flag::SplitMode => settings.split_mode = text(value),
        Flag::MainGpu => settings.main_gpu = value.parse().ok(),
        Flag::Device => settings.device = text(value),
        Flag::OverrideTensor => {
            let before = settings.override_tensor.take().map(|before| before + ",").unwrap_or_default();
            settings.override_tensor = Some(hole::name(&(before + value)));
        }
        Flag::NCpuFfn => settings.n_cpu_ffn = count(),
        Flag::Fit => settings.fit = FlashAttn::of(value).map(|on| on == FlashAttn::On),
        Flag::Lora => settings.lora = text(value),
        _ => return false,
    }
    true
}

/// Applies an option that names the model or other machines.
fn set_file(command: &mut CommandLine, kind: ListedKind, value: &str) {
    match kind {
        // of a repository's file the name says which quantisation it is
        ListedKind::Model | ListedKind::RepositoryFile => command.model = text(value),
        ListedKind::Repository => command.model = command.model.take().or(text(value)),
        ListedKind::OtherMachines => command.settings.rpc = text(value),
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

/// Maximum number of words of a command.
const WORDS: usize = 1024;

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
        let rest = hole::after(text, "spawning server instance with name=")?;
        let (name, port) = rest.rsplit_once(" on port ")?;
        let (number, _) = hole::count(port)?;
        Some(Self { name: hole::name(name), port: number.to_string(), words: Vec::new() })
    }

    /// A word of the command, in `srv          load:   --alias`; whether it was one.
    pub fn add(&mut self, text: &str) -> bool {
        let Some((_, word)) = text.split_once(" load: ").filter(|_| text.starts_with("srv ")) else { return false };
        let heading = word.contains("spawning server instance");
        let Some(word) = word.strip_prefix("  ").filter(|_| self.words.len() < WORDS) else { return heading };
        self.words.push(hole::name(word));
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
    use crate::settings::flag::tests::sample;

    #[test]
    fn words_are_those_of_a_shell() {
        let of = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(of("a 'b c'\td\"e\\\"f\" g\\ h ''"), ["a", "b c", "de\"f", "g h", ""]);
        assert_eq!(of("a \\\n -b ^\r\n`\n-c C:\\m.gguf \\"), ["a", "-b", "-c", "C:\\m.gguf"]);
        assert_eq!(of("a#b # c\n-d #"), ["a#b", "-d"]);
        assert_eq!(of("'blk\\.1=CPU' \"blk\\.2\""), ["blk\\.1=CPU", "blk\\.2"]);
    }

    #[test]
    fn every_option_of_llama_server_is_known() {
        for &flag in Flag::ALL {
            let (Some(argument), Some(value)) = (flag.row().argument, sample(flag)) else { continue };
            let command = read(&format!("llama-server {argument} {value}"));
            let is_untold = command.untold.iter().any(|(untold, _)| *untold == flag);
            assert_eq!(command.settings.is_empty(), is_untold, "{flag:?}");
        }
    }
}
