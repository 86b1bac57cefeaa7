//! llama-server's command line: its options among plimsoll's own, and a whole command that was pasted.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Read;

use clap::CommandFactory;

use super::args::{Cli, KnobArgs, PlanArgs};
use super::error::CliError;
use crate::engine::EngineId;
use crate::observed::{program, words};
use crate::settings::flag::{Takes, is_on};
use crate::settings::{Flag, GivenOption, ListedKind, LlamaProgram, ServerOption};

/// The arguments as clap takes them.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) arguments: Vec<OsString>,
    /// What is to be said of options that a plan has no setting for.
    pub(super) remarks: Vec<String>,
}

/// The arguments with llama.cpp's names replaced by plimsoll's, up to `--`, and without the options that set nothing.
pub(super) fn expand(arguments: impl Iterator<Item = OsString>) -> Expanded {
    let mut arguments: Vec<OsString> = arguments.collect();
    log_behind_command(&mut arguments);
    let all = Cli::command();
    let named = arguments.get(1).and_then(|word| word.to_str()).and_then(|word| all.find_subcommand(word));
    let command = named.unwrap_or(&all);
    if !command.get_arguments().any(|arg| arg.get_id() == Flag::Context.name()) {
        return Expanded { arguments, remarks: Vec::new() };
    }
    let is_own = |word: &OsString| {
        let name = word.to_str().map(|word| word.split('=').next().unwrap_or(word));
        let long = name.and_then(|name| name.strip_prefix("--"));
        long.is_some_and(|long| {
            Flag::named(long).is_none() && command.get_arguments().any(|arg| arg.get_long() == Some(long))
        })
    };
    let mut words = VecDeque::from(arguments);
    let mut out: Vec<OsString> = words.pop_front().into_iter().collect();
    let mut unset = Unset::default();
    while let Some(word) = words.front().filter(|word| *word != "--").cloned() {
        let given = if is_own(&word) { None } else { GivenOption::take(&mut words) };
        let set = match given {
            Some(GivenOption { option: ServerOption::Sets(flag), value, .. }) => Some((flag, value)),
            Some(GivenOption { option: ServerOption::TakesBack(flag), .. }) => {
                out.retain(|word| word != long(flag).as_str());
                None
            }
            Some(GivenOption { option: ServerOption::Listed(listed), .. }) if listed.kind == ListedKind::Ends => {
                out.push(word);
                None
            }
            Some(GivenOption { option: ServerOption::Listed(listed), name, value }) => {
                unset.take(listed.kind, name, value)
            }
            None => {
                out.extend(words.pop_front());
                None
            }
        };
        if let Some((flag, value)) = set {
            push(&mut out, flag, value);
        }
    }
    if let Some(model) = unset.model() {
        let is_positional = command.get_positionals().any(|arg| arg.get_id() == "model");
        out.extend((!is_positional).then(|| "--model".into()));
        out.push(model);
    }
    let has_context = out.iter().any(|word| word == "--ctx");
    out.extend(words);
    Expanded { arguments: out, remarks: unset.remarks(has_context, true) }
}

fn long(flag: Flag) -> String {
    format!("--{}", flag.name())
}

/// Adds the option as clap takes it.
fn push(out: &mut Vec<OsString>, flag: Flag, value: Option<OsString>) {
    let mut name = OsString::from(long(flag));
    match value {
        Some(value) if flag.row().takes == Takes::Nothing && is_on(&value.to_string_lossy()) => out.push(name),
        Some(_) if flag.row().takes == Takes::Nothing => out.retain(|word| *word != name),
        Some(value) if matches!(flag.row().takes, Takes::Truth(_)) || value.to_string_lossy().starts_with('-') => {
            name.push("=");
            name.push(value);
            out.push(name);
        }
        Some(value) => out.extend([name, value]),
        None => out.push(name),
    }
}

/// Moves `--log FILE` in front of the command behind it, where every command takes it.
fn log_behind_command(arguments: &mut [OsString]) {
    let length = match arguments.get(1).and_then(|first| first.to_str()) {
        Some("--log") => 2,
        Some(first) if first.starts_with("--log=") => 1,
        _ => return,
    };
    let command = arguments.get(1 + length).and_then(|word| word.to_str());
    if command.is_some_and(|word| !word.starts_with('-')) {
        arguments[1..=1 + length].rotate_right(1);
    }
}

/// What options say that are no settings of a plan.
#[derive(Debug, Default)]
struct Unset {
    file: Option<OsString>,
    repository: Option<String>,
    repository_file: Option<String>,
    no_effect: Vec<String>,
    context: Vec<String>,
    other_machines: Vec<String>,
    removed: Vec<String>,
}

impl Unset {
    /// Takes an option in; returns the setting that it stands for, if any.
    fn take(&mut self, kind: ListedKind, name: String, value: Option<OsString>) -> Option<(Flag, Option<OsString>)> {
        let text = || value.as_ref().map(|value| value.to_string_lossy().into_owned());
        let address = |scheme: &str| text().map(|rest| format!("{scheme}://{rest}"));
        match kind {
            ListedKind::NoEffect | ListedKind::Ends => self.no_effect.push(name),
            ListedKind::Context => self.context.push(name),
            ListedKind::OtherMachines => self.other_machines.push(name),
            ListedKind::Removed => self.removed.push(name),
            ListedKind::StandsFor => {}
            ListedKind::Model => self.file = value,
            ListedKind::UnreadModel => self.file = address("docker").map(OsString::from),
            ListedKind::Repository => self.repository = address("hf"),
            ListedKind::RepositoryFile => self.repository_file = text(),
            ListedKind::DraftRepository => return Some((Flag::ModelDraft, address("hf").map(OsString::from))),
            ListedKind::Projector => return Some((Flag::Mmproj, value)),
        }
        None
    }

    /// The model that they name.
    fn model(&self) -> Option<OsString> {
        let repository = self.repository.as_ref().map(|repository| match &self.repository_file {
            // the file stands over a quantisation
            Some(file) => match repository.rsplit_once(':') {
                Some((plain, quantisation)) if !quantisation.starts_with("//") => format!("{plain}/{file}"),
                _ => format!("{repository}/{file}"),
            },
            None => repository.clone(),
        });
        self.file.clone().or(repository.map(OsString::from))
    }

    /// A sentence for each kind; what has no effect is named if `all`.
    fn remarks(mut self, has_context: bool, all: bool) -> Vec<String> {
        if has_context {
            self.no_effect.append(&mut self.context);
        }
        let no_effect = if all { self.no_effect } else { Vec::new() };
        let kinds = [
            (no_effect, ["has", "have"], "no effect on memory"),
            (
                self.context,
                ["may", "may"],
                "raise the context that llama.cpp takes by itself, which is not planned: give one with --ctx",
            ),
            (self.other_machines, ["is", "are"], "not planned: --join adds the GPUs of other machines"),
            (self.removed, ["is", "are"], "no longer known to llama.cpp, and not planned"),
        ];
        let sentence = |(names, [one, more], rest): (Vec<String>, [&str; 2], &str)| match &names[..] {
            [] => None,
            [name] => Some(format!("{name} {one} {rest}")),
            [names @ .., last] => Some(format!("{} and {last} {more} {rest}", names.join(", "))),
        };
        kinds.into_iter().filter_map(sentence).collect()
    }
}

/// A command of llama-server or of another program of llama.cpp.
#[derive(Debug, Default)]
struct Pasted {
    program: LlamaProgram,
    set: Vec<(Flag, String)>,
    unset: Unset,
    /// Variables that are not options.
    variables: Vec<(String, String)>,
}

impl Pasted {
    /// Reads a command, with variables in front of it.
    ///
    /// # Errors
    /// One sentence if it is none, or if an option is unknown.
    fn read(text: &str) -> Result<Self, String> {
        let words: Vec<String> = words(text).collect();
        let (start, program) = program_in(&words)?;
        let mut pasted = Self { program, ..Self::default() };
        for word in &words[..start] {
            pasted.variable(word)?;
        }
        let mut words: VecDeque<OsString> = words[start..].iter().map(OsString::from).collect();
        while let Some(given) = Self::next(&mut words)? {
            pasted.option(given)?;
        }
        Ok(pasted)
    }

    /// The next option; none at the end of the command.
    fn next(words: &mut VecDeque<OsString>) -> Result<Option<GivenOption>, String> {
        if let Some(given) = GivenOption::take(words) {
            let name = &given.name;
            return if given.lacks_value() { Err(format!("no value follows '{name}'")) } else { Ok(Some(given)) };
        }
        let Some(word) = words.pop_front() else { return Ok(None) };
        let word = word.to_string_lossy();
        let ends = |word: &str| word.starts_with(['|', '&', ';', '>', '<']) || word.starts_with("2>");
        if ends(&word) {
            return Ok(None);
        }
        if !word.starts_with('-') {
            return Err(format!("'{word}' is neither an option nor the value of one"));
        }
        let name = word.split('=').next().unwrap_or(&word);
        let near = ServerOption::nearest(name).map_or_else(String::new, |near| format!(": did you mean '{near}'?"));
        Err(format!("'{name}' is not a known option of llama-server{near}"))
    }

    /// Takes in `NAME=VALUE`, also as Docker has it; other words in front are passed over.
    fn variable(&mut self, word: &str) -> Result<(), String> {
        let Some((name, value)) = word.strip_prefix("--env=").unwrap_or(word).split_once('=') else { return Ok(()) };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
            return Ok(());
        }
        if let Some((option, value)) = ServerOption::of_variable(name, value) {
            return self.option(GivenOption { option, name: name.to_owned(), value: Some(value.into()) });
        }
        self.variables.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    fn option(&mut self, given: GivenOption) -> Result<(), String> {
        let GivenOption { option, name, value } = given;
        let set = match option {
            ServerOption::Sets(flag) => Some((flag, value)),
            ServerOption::TakesBack(flag) => {
                self.set.retain(|(other, _)| *other != flag);
                None
            }
            ServerOption::Listed(listed) => self.unset.take(listed.kind, name.clone(), value),
        };
        let Some((flag, value)) = set else { return Ok(()) };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let value = match (flag.row().takes, value) {
            (_, None) => "true".to_owned(),
            // the default of llama.cpp, or for all layers
            (Takes::Number(_), Some(text)) if text == "-1" && flag != Flag::CacheRam => {
                self.set.retain(|(other, _)| *other != flag);
                return Ok(());
            }
            (Takes::Number(_), Some(text)) if flag == Flag::GpuLayers && text.starts_with('-') => "all".to_owned(),
            (Takes::Number(_), Some(text)) if text.ends_with(['k', 'K']) => {
                return Err(format!(
                    "llama-server reads {name} '{text}' without its last letter: write the whole number"
                ));
            }
            // each adds to those before it
            (Takes::List(_), Some(text)) => match self.set.iter().find(|(other, _)| *other == flag) {
                Some((_, before)) => format!("{before},{text}"),
                None => text,
            },
            (_, Some(text)) => text,
        };
        self.set.retain(|(other, _)| *other != flag);
        self.set.push((flag, value));
        Ok(())
    }
}

/// The program that a command starts, and the place of its first argument; arguments alone are llama-server's.
fn program_in(words: &[String]) -> Result<(usize, LlamaProgram), String> {
    for (at, word) in words.iter().enumerate() {
        let (before, next) = (at.checked_sub(1).and_then(|at| words.get(at)), words.get(at + 1));
        // the name of a container
        if before.is_some_and(|before| before == "--name") {
            continue;
        }
        match program(word) {
            "llama" if next.is_some_and(|next| next == "serve") => return Ok((at + 2, LlamaProgram::Server)),
            "llama-bench" => return Err("llama-bench has options of its own, which are not read".to_owned()),
            "server" => return Ok((at + 1, LlamaProgram::Server)),
            // an image of Docker's
            image if image.starts_with("llama.cpp:server") => return Ok((at + 1, LlamaProgram::Server)),
            name if name.starts_with("llama-") => {
                if let Ok(program) = name.parse() {
                    return Ok((at + 1, program));
                }
            }
            _ => {}
        }
    }
    if words.first().is_some_and(|word| word.starts_with('-')) {
        return Ok((0, LlamaProgram::Server));
    }
    Err("no program of llama.cpp that is known here is in it: begin with llama-server".to_owned())
}

impl PlanArgs {
    /// Takes in the command that was pasted, if any: what is given besides stands over it.
    ///
    /// # Errors
    /// If it is no command of llama-server, or names no model.
    pub(super) fn take_command(&mut self) -> Result<(), CliError> {
        let Some(mut text) = self.command.take() else { return Ok(()) };
        let wrong = |sentence: &str| CliError::flag("--command", sentence);
        if text == "-" {
            text.clear();
            let read = std::io::stdin().lock().take(MAX_COMMAND).read_to_string(&mut text);
            read.map_err(|error| wrong(&format!("standard input cannot be read: {error}")))?;
        }
        let Pasted { program, set, unset, variables } = Pasted::read(&text).map_err(|sentence| wrong(&sentence))?;
        let (named, is_file) = (unset.model(), unset.file.is_some());
        if named.is_none() && self.model.is_none() {
            return Err(wrong("it names no model by -m or -hf: give MODEL besides"));
        }
        // without a repository, llama-server looks for no projector
        let no_projector = is_file || unset.repository.is_none();
        let program = (Flag::Program, program.name().to_owned());
        for (flag, text) in std::iter::once(program).chain(set) {
            self.knobs
                .give_unless_given(flag, &text)
                .map_err(|sentence| wrong(&format!("--{}: {sentence}", flag.name())))?;
        }
        if no_projector && !self.knobs.is_given(Flag::Mmproj) {
            self.knobs.give_unless_given(Flag::NoMmproj, "true").map_err(|sentence| wrong(&sentence))?;
        }
        self.knobs.engine = Some(EngineId::LlamaCpp);
        self.model = self.model.take().or(named.map(Into::into));
        self.knobs.remarks.extend(unset.remarks(self.knobs.is_given(Flag::Context), false));
        self.machine.variables = variables;
        Ok(())
    }
}

/// Bytes of a command on standard input.
const MAX_COMMAND: u64 = 1 << 20;

impl KnobArgs {
    /// Gives `flag` the value `text`, unless it is given or cannot be given besides one that is.
    pub(super) fn give_unless_given(&mut self, flag: Flag, text: &str) -> Result<(), String> {
        let excludes = |other: &Flag| {
            let (flag, other) = (flag.row(), other.row());
            flag.conflicts.contains(&other.names[0]) || other.conflicts.contains(&flag.names[0])
        };
        if self.is_given(flag) || self.given.iter().any(excludes) {
            return Ok(());
        }
        match flag {
            Flag::Mmproj => self.mmproj = Some(text.into()),
            Flag::ModelDraft => self.model_draft = Some(text.into()),
            _ => {}
        }
        self.give(flag, text)
    }
}
