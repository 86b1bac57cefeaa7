//! What bug reports need to know of the program and its environment, without secrets; the log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

use tracing::{Level, debug, info};

use super::error::{CliError, one_line, say};
use super::variables;
use crate::files;
use crate::observed::ShownCommand;
use crate::settings::ServerOption;
use crate::settings::seen::{HIDDEN, Seen, of_variable, or_hidden};
use crate::source::without_secrets;
use crate::text::shown as shown_text;

/// `plimsoll 0.2.0 on linux x86_64 (gnu), with cli, tui, net`
pub(super) fn version() -> String {
    let libc = if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        " (musl, static)"
    } else if cfg!(target_env = "musl") {
        " (musl)"
    } else if cfg!(target_env = "gnu") {
        " (gnu)"
    } else if cfg!(target_env = "msvc") {
        " (msvc)"
    } else {
        ""
    };
    let build = if cfg!(debug_assertions) { ", debug build" } else { "" };
    let net = if cfg!(feature = "net") { "" } else { ", without network" };
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    format!("plimsoll {version} on {os} {arch}{libc}{net}{build}")
}

/// The variables that are set and read, by name, with what may be seen of their values.
pub(super) fn variables() -> Vec<(String, String)> {
    let all = std::env::vars_os().map(|(name, value)| (one_line(&name.to_string_lossy()), value));
    let told = all.filter(|(name, _)| variables::is_told(name));
    let mut read: Vec<_> = told
        .map(|(name, value)| {
            let value = seen(&name, &value.to_string_lossy());
            (name, value)
        })
        .collect();
    read.sort_unstable();
    read
}

/// What may be seen of the value of a variable, or of an option of Ollama's requests.
fn seen(name: &str, value: &str) -> String {
    let is_option = name.starts_with(|c: char| c.is_ascii_lowercase());
    let seen = if is_option { Seen::Numbers.of(value) } else { of_variable(name, value) };
    one_line(&or_hidden(seen))
}

/// Prints `error` to stderr and writes it to the log; returns the exit status.
pub(super) fn report(error: &CliError) -> ExitCode {
    tracing::error!("exit status {}: {}", error.status(), without_values(error.sentence()));
    error.say();
    ExitCode::from(error.status())
}

/// A sentence without the values of variables that may not be seen.
pub(super) fn without_values(sentence: &str) -> String {
    // a value that is no text is in no sentence
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let hidden = all.filter(|(name, value)| variables::is_told(name) && seen(name, value) == HIDDEN);
    let hide = |text: String, (_, value): (String, String)| text.replace(&format!("'{value}'"), &format!("'{HIDDEN}'"));
    hidden.fold(without_secrets(sentence), hide)
}

/// What stands behind an option of this program.
#[derive(Clone, Copy)]
enum Follows {
    /// A command of a server.
    Command,
    /// `NAME=VALUE`.
    Pair,
    /// The value of an option of llama-server.
    Value(ServerOption),
}

impl Follows {
    fn behind(option: &str) -> Option<Self> {
        Some(match option {
            "--command" => Self::Command,
            "--server-env" | "--option" => Self::Pair,
            _ => Self::Value(ServerOption::named(option).filter(|option| option.takes_value())?),
        })
    }

    /// What may be seen of such a value.
    fn seen(self, value: &str) -> String {
        match self {
            Self::Command => ShownCommand::read(value).to_string(),
            Self::Pair => value
                .split_once('=')
                .map_or_else(|| HIDDEN.to_owned(), |(name, value)| format!("{}={}", one_line(name), seen(name, value))),
            Self::Value(option) => one_line(&or_hidden(option.seen(value))),
        }
    }
}

/// The command on one line, whatever the program's folder; of the values of options that llama-server has too, and of
/// variables, what may be seen.
pub(super) fn arguments(arguments: &[OsString]) -> String {
    let mut follows = None;
    let words = arguments.iter().skip(1).map(|word| {
        let word = one_line(&word.to_string_lossy());
        let option = word.split('=').next().unwrap_or(&word).to_owned();
        let next = if word.starts_with('-') { Follows::behind(&option) } else { None };
        match (follows.take(), next, word.split_once('=')) {
            (_, Some(next), Some((name, value))) => format!("{name}={}", next.seen(value)),
            (_, Some(next), None) => {
                follows = Some(next);
                word
            }
            (Some(before), None, _) => before.seen(&word),
            (None, None, _) => without_secrets(&word),
        }
    });
    let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once("plimsoll".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Why the log ends before the program, if it does.
static LOG_ENDS: OnceLock<String> = OnceLock::new();

/// Says so, once: when the planner's screen is closed and the answer printed.
pub(super) fn end() {
    if let Some(why) = LOG_ENDS.get() {
        say(&format!("note: {why}"));
    }
}

/// Writes what is printable of each event, until that fails.
struct Printable {
    file: File,
    path: PathBuf,
}

impl Write for Printable {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // what engines and sources say may have values of variables in it
        let text = without_values(&String::from_utf8_lossy(event));
        let written =
            LOG_ENDS.get().map_or_else(|| self.file.write_all(shown_text(&text, false).as_bytes()), |_| Ok(()));
        if let Err(error) = written {
            LOG_ENDS.get_or_init(|| format!("the log '{}' is not complete: {error}", self.path.display()));
        }
        // whoever logs prints an error of each event
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether opening it would wait for a reader.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        path.metadata().is_ok_and(|about| about.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Starts the log in the file that the option or else `PLIMSOLL_LOG` names, behind what is in it; without either there
/// is none.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn start(option: Option<&Path>, arguments: &[OsString]) -> Result<(), CliError> {
    let variable = std::env::var_os("PLIMSOLL_LOG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (who, path) = match (option, &variable) {
        (Some(path), _) => ("--log", path),
        (None, Some(path)) => ("PLIMSOLL_LOG", path.as_path()),
        (None, None) => return Ok(()),
    };
    let cannot = |why: String| {
        CliError::flag(who, &format!("'{}' cannot be written: {why}; name a file in a folder of yours", path.display()))
    };
    if is_pipe(path) {
        return Err(cannot("it is a pipe".to_owned()));
    }
    let file = files::create_private(path, true).map_err(|error| cannot(error.to_string()))?;
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false);
    let subscriber = subscriber.with_writer(Mutex::new(Printable { file, path: path.to_owned() })).finish();
    tracing::subscriber::set_global_default(subscriber).map_err(|error| cannot(error.to_string()))?;
    info!("{}", version());
    info!("arguments: {}", self::arguments(arguments));
    for (name, value) in variables() {
        debug!("{name}={value}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_seen_is_told() {
        assert_eq!(seen("HF_TOKEN", "hf_abc"), "…");
        assert_eq!(seen("OLLAMA_HOST", "http://me:pass@host:1"), "…");
        assert_eq!(seen("LLAMA_ARG_CACHE_TYPE_K", "q8_0"), "q8_0");
        assert_eq!(seen("num_ctx", "8192"), "8192");
        let words = [
            "/opt/bin/plimsoll",
            "--server-env",
            "OLLAMA_API_KEY=abc",
            "https://u:p@h/m.gguf?sig=1",
            "--gpu",
            "RTX 3090",
            "--ctx=4096",
            "--alias",
            "me",
            "--command",
            "llama-server --api-key abc -c 8",
        ];
        let shown = arguments(&words.map(OsString::from));
        let expected = "plimsoll --server-env OLLAMA_API_KEY=… https://h/m.gguf --gpu 'RTX 3090' --ctx=4096 --alias … \
                        --command 'llama-server --api-key … -c 8'";
        assert_eq!(shown, expected);
        let joined = arguments(&["plimsoll", "--server-env=OLLAMA_API_KEY=abc"].map(OsString::from));
        assert_eq!(joined, "plimsoll --server-env=OLLAMA_API_KEY=…");
    }
}
