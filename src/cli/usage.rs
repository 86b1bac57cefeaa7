//! What is wrong with a command line, in one sentence.

use std::ffi::OsString;
use std::path::Path;

use clap::CommandFactory;

use super::commands::Cli;
use super::error::CliError;
use crate::text;

/// What is wrong with `arguments`, in one sentence; the first word, parsed as a model, may be a mistyped command.
pub(super) fn usage_error(error: clap::Error, arguments: &[OsString]) -> CliError {
    use clap::error::ErrorKind::{ArgumentConflict, InvalidSubcommand, UnknownArgument};

    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    let is_command = |word: &&str| Cli::command().find_subcommand(word).is_some();
    let (first, second) = (word(1).filter(|first| !is_command(first)), word(2).filter(is_command));
    match (error.kind(), first, second, first.and_then(near_command)) {
        (ArgumentConflict, Some(first), Some(command), _) => {
            CliError::Arguments(format!("the command must come first: 'plimsoll {command} {first}'"))
        }
        (ArgumentConflict | InvalidSubcommand | UnknownArgument, Some(first), _, Some(near)) => {
            CliError::Arguments(format!("'{first}' is not a command: did you mean 'plimsoll {near}'?"))
        }
        (ArgumentConflict, Some(first), None, None) => CliError::Arguments(format!(
            "'{first}' is not a command: 'plimsoll --help' lists them, and 'plimsoll {first}' alone opens a model"
        )),
        _ => error.into(),
    }
}

/// The command nearest to `word`, with an edit distance of at most a third of its length.
fn near_command(word: &str) -> Option<String> {
    if word.len() > text::LONGEST_NAME {
        return None;
    }
    let commands = Cli::command();
    let distance = |name: &str| strsim::osa_distance(word, name);
    let near = commands.get_subcommands().map(clap::Command::get_name).filter(|name| distance(name) * 3 <= name.len());
    near.min_by_key(|name| distance(name)).map(str::to_owned)
}

/// Suggests a command if the name of a model that was not found resembles one.
pub(super) fn or_suggest_command(error: CliError, named: &Path) -> CliError {
    match (error, named.to_str().and_then(near_command)) {
        (CliError::Model(sentence), Some(command)) => {
            CliError::Model(format!("{sentence}; or did you mean the command 'plimsoll {command}'?"))
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_commands_are_recognised() {
        let command = |word| near_command(word);
        assert_eq!(command("devcies").as_deref(), Some("devices"));
        assert_eq!(command("lsit").as_deref(), Some("list"));
        assert_eq!((command("llama3.1:8b"), command("phi4"), command("")), (None, None, None));
    }
}
