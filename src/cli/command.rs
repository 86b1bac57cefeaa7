//! llama-server's command line: its options among plimsoll's own, and a whole command that was pasted.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{CheckArgs, CommandArgs, KnobArgs, MachineArgs, PlanArgs, QueryArgs};
use super::error::CliError;
use crate::command::{self, OtherOptions, Router, Start, names};
use crate::files::{self, Within};
use crate::settings::flag::Takes;
use crate::settings::written::is_on;
use crate::settings::{Flag, GivenOption, ListedKind, ServerOption, Source};

/// The arguments as clap takes them.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) arguments: Vec<OsString>,
    /// What is to be said of options that a plan has no setting for.
    pub(super) remarks: Vec<String>,
    /// Switches that are turned off.
    pub(super) declined: Vec<Flag>,
}

/// The arguments with llama.cpp's names replaced by those of `all`, up to `--`, and without the options that set nothing.
pub(super) fn expand(arguments: impl Iterator<Item = OsString>, all: &clap::Command) -> Expanded {
    let mut arguments: Vec<OsString> = arguments.collect();
    globals_behind_command(&mut arguments, all);
    let named = arguments.get(1).and_then(|word| word.to_str()).and_then(|word| all.find_subcommand(word));
    let command = named.unwrap_or(all);
    if !command.get_arguments().any(|arg| arg.get_id() == Flag::Context.name()) {
        return Expanded { arguments, ..Expanded::default() };
    }
    let is_own = |word: &OsString| {
        let name = word.to_str().map(|word| word.split('=').next().unwrap_or(word));
        let long = name.and_then(|name| name.strip_prefix("--"));
        long.is_some_and(|long| {
            let is_of_command = command.get_arguments().any(|arg| arg.get_long() == Some(long));
            Flag::named(long).is_none() && is_of_command || global(all, long).is_some()
        })
    };
    let mut words = VecDeque::from(arguments);
    let mut out: Vec<OsString> = words.pop_front().into_iter().collect();
    let mut unset = OtherOptions::default();
    let mut declined = Vec::new();
    while let Some(word) = words.front().filter(|word| *word != "--").cloned() {
        let given = if is_own(&word) { None } else { GivenOption::take(&mut words) };
        let set = match given {
            Some(GivenOption { option: ServerOption::Sets(flag), value, .. }) => Some((flag, value)),
            Some(GivenOption { option: ServerOption::TakesBack(flag), .. }) => {
                out.retain(|word| word != long(flag).as_str());
                declined.push(flag);
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
            let is_off = flag.row().takes == Takes::Nothing
                && value.as_ref().is_some_and(|value| !is_on(&value.to_string_lossy()));
            // the last word counts
            declined.retain(|other| *other != flag);
            declined.extend(is_off.then_some(flag));
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
    Expanded { arguments: out, remarks: unset.remarks(has_context, true), declined }
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

/// The option that every command takes, by its name.
fn global<'c>(all: &'c clap::Command, long: &str) -> Option<&'c clap::Arg> {
    all.get_arguments().find(|arg| arg.is_global_set() && arg.get_long() == Some(long))
}

/// Moves options such as `--log FILE` that stand in front of the command behind it, where every command takes them.
fn globals_behind_command(arguments: &mut [OsString], all: &clap::Command) {
    let mut length = 0;
    while let Some(word) = arguments.get(1 + length).and_then(|word| word.to_str()) {
        let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
        let Some(option) = name.strip_prefix("--").and_then(|long| global(all, long)) else { break };
        length += if option.get_action().takes_values() && !has_value { 2 } else { 1 };
    }
    let command = arguments.get(1 + length).and_then(|word| word.to_str());
    if command.is_some_and(|word| !word.starts_with('-')) {
        arguments[1..=1 + length].rotate_right(1);
    }
}

/// What is wrong with a command that was pasted.
fn wrong(sentence: &str) -> CliError {
    CliError::flag("--command", sentence)
}

impl CommandArgs {
    /// The servers that the command starts, and its text; none without a command.
    ///
    /// # Errors
    /// If it starts no server, or not the one that is picked.
    fn starts(&mut self) -> Result<Option<(Vec<Start>, String)>, CliError> {
        let Some(given) = self.command.take() else { return Ok(None) };
        let text = text(given).map_err(|sentence| wrong(&sentence))?;
        let mut all = command::read(&text).map_err(|sentence| wrong(&sentence))?;
        if let Some(name) = &self.pick {
            let found = all.iter().position(|start| start.name == *name);
            let found =
                found.ok_or_else(|| CliError::flag("--pick", &format!("'{name}' is none of {}", names(&all))))?;
            all = vec![all.swap_remove(found)];
        }
        Ok(Some((all, text)))
    }

    /// The only server that the command starts.
    ///
    /// # Errors
    /// As [`Self::starts`], and if it starts several.
    fn start(&mut self) -> Result<Option<Start>, CliError> {
        let Some((mut all, _)) = self.starts()? else { return Ok(None) };
        if all.len() > 1 {
            return Err(wrong(&format!("it starts several servers: choose one with --pick, of {}", names(&all))));
        }
        Ok(all.pop())
    }
}

/// Takes in what `start` sets, and its model where none is given.
///
/// # Errors
/// One sentence if there is none, or a value is not accepted.
fn take(
    start: Start,
    model: &mut Option<PathBuf>,
    names_model: &mut bool,
    (knobs, machine): (&mut KnobArgs, &mut MachineArgs),
) -> Result<(), String> {
    if start.model.is_none() && model.is_none() {
        return Err(format!("{}: give MODEL besides", start.without_model()));
    }
    knobs.take(&start)?;
    *names_model = model.is_none();
    *model = model.take().or(start.model.map(Into::into));
    (machine.variables, machine.ram_limit) = (start.variables, start.ram_limit);
    Ok(())
}

impl PlanArgs {
    /// Takes in the command that was pasted, if any: what is given besides stands over it. Returns the others where
    /// several are started and none is picked, and what starts and ends them.
    ///
    /// # Errors
    /// If it starts no server, or names no model.
    pub(super) fn take_command(&mut self) -> Result<(Vec<Start>, Router), CliError> {
        let Some((mut all, text)) = self.command.starts()? else { return Ok((Vec::new(), Router::None)) };
        let one = if all.len() == 1 { all.pop() } else { None };
        let Some(one) = one else {
            let router = command::router(&text, &all).map_err(|sentence| wrong(&sentence))?;
            return Ok((all, router));
        };
        let Self { model, command, knobs, machine, .. } = self;
        take(one, model, &mut command.names_model, (knobs, machine)).map_err(|sentence| wrong(&sentence))?;
        Ok((Vec::new(), Router::None))
    }
}

impl QueryArgs {
    /// Takes in the command that was pasted, if any: what is given besides stands over it.
    ///
    /// # Errors
    /// If it does not start one server, or names no model.
    pub(super) fn take_command(&mut self) -> Result<(), CliError> {
        let Self { model, command, knobs, machine } = self;
        let Some(start) = command.start()? else {
            let is_named = !model.as_os_str().is_empty();
            return if is_named { Ok(()) } else { Err(CliError::Arguments("MODEL is empty: name one".to_owned())) };
        };
        let mut given = Some(std::mem::take(model)).filter(|model| !model.as_os_str().is_empty());
        let taken = take(start, &mut given, &mut command.names_model, (knobs, machine));
        *model = given.unwrap_or_default();
        taken.map_err(|sentence| wrong(&sentence))
    }
}

impl CheckArgs {
    /// Takes in the command that was pasted, if any, over what the log shows. The model of the log is its own unless the
    /// command's is here.
    ///
    /// # Errors
    /// If it does not start one server.
    pub(super) fn take_command(&mut self) -> Result<(), CliError> {
        let Some(start) = self.command.start()? else { return Ok(()) };
        self.knobs.take(&start).map_err(|sentence| wrong(&sentence))?;
        let here = start.model.map(PathBuf::from).filter(|model| model.is_file());
        self.model = self.model.take().or(here);
        (self.machine.variables, self.machine.ram_limit) = (start.variables, start.ram_limit);
        Ok(())
    }
}

/// What is given as a command: itself, a file with some, or standard input.
fn text(given: String) -> Result<String, String> {
    if given == "-" {
        let text = files::text_of(Within::new(std::io::stdin().lock(), files::TEXT));
        return text.map_err(|why| format!("standard input cannot be read: {why}"));
    }
    let path = Path::new(&given);
    if !given.contains(['\n']) && !command::is_program(&given) && path.exists() {
        return files::text(path, files::TEXT)?.ok_or_else(|| format!("'{given}' does not exist"));
    }
    Ok(given)
}

/// Whether every file of a list can be read, or needs none.
fn is_here(files: &str) -> bool {
    files.split(',').all(|file| {
        file.contains("://") || file.starts_with("catalogue:") || file.starts_with("rank=") || Path::new(file).is_file()
    })
}

impl KnobArgs {
    /// Takes in what `start` sets, for what is not given.
    pub(super) fn take(&mut self, start: &Start) -> Result<(), String> {
        let mut projector_is_elsewhere = false;
        for (flag, text) in start.options() {
            if matches!(flag, Flag::Mmproj | Flag::Lora) && !is_here(&text) && !self.settings.is_given(flag) {
                let what =
                    if flag == Flag::Mmproj { "the model's own is planned, if it is known" } else { "not planned" };
                self.remarks.push(format!("'{text}' is not here: {what}"));
                projector_is_elsewhere |= flag == Flag::Mmproj;
                continue;
            }
            self.give(flag, &text, Source::Command).map_err(|sentence| format!("--{}: {sentence}", flag.name()))?;
        }
        if start.has_no_projector && !projector_is_elsewhere && !self.settings.is_given(Flag::Mmproj) {
            self.give(Flag::NoMmproj, "true", Source::Command)?;
        }
        self.engine = Some(start.engine);
        self.defaults = self.defaults.or(start.defaults);
        start.declined.iter().for_each(|flag| self.settings.turn_off(*flag, Source::Command));
        if self.ollama.server_env.is_empty() {
            self.ollama.server_env.clone_from(&start.server_env);
        }
        self.remarks.extend(start.remarks(self.settings.is_given(Flag::Context)));
        Ok(())
    }
}
