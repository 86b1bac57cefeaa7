//! What runs on this computer and what it says: the output of llama-server and of Ollama, where it is readable.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// A text that a running program writes.
pub(super) struct Output {
    /// Where it is, for the user.
    pub name: String,
    /// The text from its start.
    pub text: Box<dyn Read>,
}

/// A llama-server of this user.
pub(super) struct ServerProcess {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The file that it writes its messages to, if that is one.
    pub log: Option<PathBuf>,
}

/// Texts to look for loads in, newest first; the journal last. Files that cannot be read are left out.
pub(super) fn outputs(servers: &[ServerProcess]) -> Vec<Output> {
    let own = servers.iter().filter_map(|server| server.log.clone());
    let mut files: Vec<(SystemTime, PathBuf)> =
        own.chain(ollama_logs()).filter_map(|path| Some((changed(&path)?, path))).collect();
    files.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    files.dedup_by(|a, b| a.1 == b.1);
    let texts = files.into_iter().filter_map(|(_, path)| {
        let file = File::open(&path).ok()?;
        Some(Output { name: path.display().to_string(), text: Box::new(file) })
    });
    texts.chain(journal()).collect()
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()
}

/// The files that Ollama's applications write (docs/troubleshooting, Ollama 0.33).
fn ollama_logs() -> Vec<PathBuf> {
    let home = directories::BaseDirs::new();
    let below = |folder: Option<&Path>, path: &str| folder.map(|folder| folder.join(path));
    let at_home = below(home.as_ref().map(directories::BaseDirs::home_dir), ".ollama/logs/server.log");
    let windows = below(home.as_ref().map(directories::BaseDirs::data_local_dir), "Ollama/server.log");
    at_home.into_iter().chain(windows).collect()
}

/// The journal of Ollama's service since the computer was started.
fn journal() -> Option<Output> {
    if !cfg!(target_os = "linux") || !Path::new("/run/systemd/journal").is_dir() {
        return None;
    }
    let mut command = Command::new("journalctl");
    command.args(["--unit=ollama", "--boot", "--no-pager", "--quiet", "--output=short"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let text = Box::new(child.stdout?);
    Some(Output { name: "the journal of Ollama's service".to_owned(), text })
}

/// The llama-server processes whose command line this user may read.
#[cfg(target_os = "linux")]
pub(super) fn servers() -> Vec<ServerProcess> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<ServerProcess> = processes
        .flatten()
        .filter_map(|process| {
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            let folder = process.path();
            let words = std::fs::read(folder.join("cmdline")).ok()?;
            let words: Vec<String> =
                words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            let program = words.first()?.rsplit('/').next()?;
            if program != "llama-server" {
                return None;
            }
            // only the user's own processes have readable files
            let target = |fd: &str| std::fs::read_link(folder.join("fd").join(fd)).ok();
            let log = ["2", "1"].into_iter().filter_map(target).find(|path| path.is_file());
            target("0").or_else(|| target("2"))?;
            Some(ServerProcess { pid, command: words.join(" ").trim_end().to_owned(), log })
        })
        .collect();
    found.sort_by_key(|server| server.pid);
    found
}

/// None: processes are found on Linux only.
#[cfg(not(target_os = "linux"))]
pub(super) fn servers() -> Vec<ServerProcess> {
    Vec::new()
}
