//! What help and manual pages say of every command besides its options: exit statuses, variables and files, each a table.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::args::ManArgs;
use super::commands::Cli;
use super::error::{CliError, written};
use super::variables::{UNTOLD, told};
use super::{config, lessons, scenario, schema};
use crate::files;
use crate::hardware::remembered::{Remembered, SavedMachines};
use crate::source::Roots;

/// The program without a command.
const PLANNER: &str = "plimsoll";
/// Commands that read a model, besides the questions.
const MODEL: [&str; 7] = [PLANNER, "plan", "together", "export", "explain", "list", "apply"];

/// An exit status, what it means, and the commands that end with it; without any, all that no other row of it names.
type StatusRow = (u8, &'static str, &'static [&'static str]);

/// The exit statuses.
const STATUSES: [StatusRow; 16] = [
    (0, "a plan was made; with --fits, it fits so", &["plan"]),
    (0, "the plan agrees", &["check"]),
    (0, "loaded as planned", &["apply"]),
    (0, "done", &[]),
    (1, "it differs, or the answer could not be written", &["check"]),
    (1, "loaded otherwise, or the answer could not be written", &["apply"]),
    (1, "the terminal cannot be used, or is gone", &[PLANNER]),
    (1, "the answer could not be written", &[]),
    (2, "the arguments or the configuration are wrong, or it cannot be applied here", &["apply"]),
    (2, "the arguments or the configuration are wrong, or the engine refuses the settings", &MODEL),
    (2, "the arguments or the configuration are wrong", &[]),
    (3, "the log or the model could not be read", &["check"]),
    (3, "the recording could not be read", &["watch"]),
    (3, "the model could not be read", &MODEL),
    (4, "it did not load", &["apply"]),
    (5, "it does not fit as --fits asks", &["plan"]),
];
/// Statuses of a program that is ended.
const ENDED: StatusRow = (130, "ended by Ctrl-C; 128 and its number for another signal", &[PLANNER, "apply", "watch"]);

/// The statuses of `command`, with what each means.
fn statuses(command: &str) -> Vec<(u8, &'static str)> {
    let mut rows: Vec<(u8, &'static str)> = Vec::new();
    for (status, what, commands) in STATUSES.into_iter().chain([ENDED]) {
        let is_question = commands == MODEL && schema::is_question(command);
        let is_of_it = commands.is_empty() || commands.contains(&command) || is_question;
        if is_of_it && rows.last().is_none_or(|(last, _)| *last != status) {
            rows.push((status, what));
        }
    }
    rows
}

/// A file or folder of this program: where it is, if the operating system knows a home, and what it is for.
type FileRow = (fn() -> Option<PathBuf>, &'static str);

/// The files.
const FILES: [FileRow; 7] = [
    (config::path, "the configuration: 'plimsoll config' shows it"),
    (lessons::folder, "a teacher's own lessons, in files that end in .toml"),
    (
        || SavedMachines::here().ok().map(SavedMachines::into_folder),
        "saved machines: 'plimsoll machine list' lists them",
    ),
    (
        || Remembered::here().ok().map(Remembered::into_path),
        "what was measured on this machine: 'plimsoll machine forget' removes it",
    ),
    (|| scenario::last_file().ok(), "the plan that the planner was left with, for --last"),
    (|| Roots::of_this_machine().recent, "the models that were opened last"),
    (cache, "headers of models on servers: 'plimsoll cache' lists them"),
];

#[cfg(feature = "net")]
fn cache() -> Option<PathBuf> {
    Roots::of_this_machine().network?.cache
}

#[cfg(not(feature = "net"))]
const fn cache() -> Option<PathBuf> {
    None
}

/// The files with their paths, below `~` where that is the home folder.
fn listed() -> Vec<(String, &'static str)> {
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
    let shown = |path: PathBuf| match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    };
    FILES.into_iter().filter_map(|(path, what)| Some((shown(path()?), what))).collect()
}

/// The command line, whose help ends in exit statuses, and for the whole program in its own variables.
pub(super) fn command() -> Command {
    let all = Cli::command();
    let all = all.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        with_help(command, &name)
    });
    let own = told().filter(|(names, _)| names[0].starts_with("PLIMSOLL_") || names[0] == "OLLAMA_*");
    let rows: Vec<(String, &str)> = own.map(|(names, what)| (names.join(", "), what)).collect();
    let variables = paragraph("Environment (the manual page has the rest, 'plimsoll config' the configuration)", &rows);
    let help = all.get_after_help().map(ToString::to_string).unwrap_or_default();
    with_help(all.after_long_help(format!("{help}\n\n{variables}")), PLANNER)
}

/// Options that a short help shows besides a command's own.
const USUAL: [&str; 8] = ["engine", "ctx", "kv-type", "quant", "parallel", "gpu", "ram", "machine"];
/// Headings of options that many commands share; see [`is_shared`].
const SHARED: [&str; 4] = ["Knobs", "Machine", "Network", "Log"];

/// Whether many commands have the options below this heading.
fn is_shared(heading: &str) -> bool {
    SHARED.contains(&heading) || heading.starts_with("llama.cpp") || heading.starts_with("Ollama")
}

/// A command whose long help has all, and whose short one its own options, the usual ones and the examples.
fn with_help(command: Command, name: &str) -> Command {
    let rows: Vec<(String, &str)> =
        statuses(name).into_iter().map(|(status, what)| (status.to_string(), what)).collect();
    let statuses = paragraph("Exit status", &rows);
    let help = |text: Option<&StyledStr>| text.map(|help| format!("{help}\n\n")).unwrap_or_default();
    let short = help(command.get_after_help());
    let long = command.get_after_long_help().map_or_else(|| short.clone(), |long| help(Some(long)));
    let is_hidden = |arg: &Arg| {
        arg.get_help_heading().is_some_and(is_shared) && !arg.get_long().is_some_and(|long| USUAL.contains(&long))
    };
    let more = if command.get_arguments().any(is_hidden) { "More options: --help" } else { "More: --help" };
    let command = command.after_help(format!("{short}{more}")).after_long_help(format!("{long}{statuses}"));
    let command = command.mut_args(|arg| {
        let is_hidden = is_hidden(&arg);
        arg.hide_short_help(is_hidden)
    });
    if name == PLANNER { command } else { command.mut_subcommands(|inner| with_help(inner, name)) }
}

fn paragraph(heading: &str, rows: &[(String, &str)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let rows: Vec<String> = rows.iter().map(|(name, what)| format!("  {name:<width$}  {what}")).collect();
    format!("{heading}:\n{}", rows.join("\n"))
}

/// Prints the page of the program, or writes it and one page per command into a folder.
pub(super) fn run(args: &ManArgs) -> Result<(), CliError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.folder else {
        return written(page(&command, PLANNER).and_then(|(_, page)| io::stdout().lock().write_all(page.as_bytes())));
    };
    let write_all = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        pages(&command, PLANNER)?.iter().try_for_each(|(name, page)| files::write(&folder.join(name), page, true))
    };
    write_all().map_err(|error| CliError::Terminal(format!("'{}' cannot be written: {error}", folder.display())))
}

/// The pages of a command and of those in it, by the names of their files; `name` is the command that has statuses.
fn pages(command: &Command, name: &str) -> io::Result<Vec<(String, String)>> {
    let mut all = vec![page(command, name)?];
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let name = if name == PLANNER { inner.get_name() } else { name };
        all.extend(pages(inner, name)?);
    }
    Ok(all)
}

/// The page of a command, behind the name of its file.
fn page(command: &Command, name: &str) -> io::Result<(String, String)> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut roff = Roff::default();
    let mut section = |title: &str, rows: &[(String, &str)]| {
        roff.control("SH", [title]);
        for (name, what) in rows {
            roff.control("TP", []);
            roff.text([bold(name.as_str())]);
            roff.text([roman(*what)]);
        }
    };
    let rows: Vec<_> = statuses(name).into_iter().map(|(status, what)| (status.to_string(), what)).collect();
    section("EXIT STATUS", &rows);
    let untold = UNTOLD.into_iter().map(|(names, what)| (names.to_vec(), what));
    let rows: Vec<_> = told().chain(untold).map(|(names, what)| (names.join(", "), what)).collect();
    section("ENVIRONMENT", &rows);
    section("FILES", &listed());
    roff.to_writer(&mut page)?;
    Ok((man.get_filename(), String::from_utf8_lossy(&page).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::variables::is_told;
    use super::*;

    /// The files of `folder`.
    fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, all) } else { all.push(path) }
        }
    }

    #[test]
    fn every_variable_that_is_read_is_listed() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut read = BTreeSet::new();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
            let text = fs::read_to_string(file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            // what looks one up: a function of a name
            for part in code.split(['(', ' ']).filter(|part| part.starts_with('"')) {
                let name = part[1..].split('"').next().unwrap();
                let is_name = name.len() > 3
                    && !name.ends_with('_')
                    && name.bytes().all(|c| c.is_ascii_uppercase() || c == b'_' || c.is_ascii_digit());
                let starts =
                    ["PLIMSOLL_", "OLLAMA_", "LLAMA_", "HF_", "HUGGING", "CUDA_", "ROCR_", "HIP_", "GGML_", "XDG_"];
                if is_name
                    && (starts.iter().any(|start| name.starts_with(start))
                        || ["var", "var_os", "variable", "get"]
                            .iter()
                            .any(|call| code.contains(&format!("{call}(\"{name}\""))))
                {
                    read.insert(name.to_owned());
                }
            }
        }
        assert!(read.contains("OLLAMA_HOST") && read.len() > 30, "{read:?}");
        let untold = |name: &str| UNTOLD.iter().any(|(names, _)| names.contains(&name));
        // read by a test only
        let unlisted: Vec<_> =
            read.iter().filter(|name| !is_told(name) && !untold(name) && !name.starts_with("PLIMSOLL_TEST_")).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
    }

    #[test]
    fn every_command_has_its_statuses_once_and_in_order() {
        for command in Cli::command().get_subcommands() {
            let all: Vec<u8> = statuses(command.get_name()).into_iter().map(|(status, _)| status).collect();
            assert!(all.starts_with(&[0, 1, 2]) && all.is_sorted(), "{}: {all:?}", command.get_name());
        }
        let named = STATUSES.iter().chain([&ENDED]).flat_map(|(.., commands)| *commands);
        let unknown: Vec<_> =
            named.filter(|name| **name != PLANNER && Cli::command().find_subcommand(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
