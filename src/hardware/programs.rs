//! Programs that run models on this computer, and what they say: the output of llama-server and of Ollama, where it is
//! readable.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use sysinfo::{Process, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// A text that a running program writes.
pub struct Output {
    /// Where it is, for the user.
    pub name: String,
    /// The text from its start.
    pub text: Box<dyn Read>,
}

/// A llama-server of this user.
pub struct ServerProcess {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The file that it writes its messages to, if that is one.
    pub log: Option<PathBuf>,
}

/// Texts to look for loads in, newest first; the journal last. Files that cannot be read are left out.
pub fn outputs(servers: &[ServerProcess]) -> Vec<Output> {
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

/// The llama-server processes of this user, by number.
pub fn servers() -> Vec<ServerProcess> {
    let Ok(mut system) = System::new() else { return Vec::new() };
    let kind = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always).with_user(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    let own = sysinfo::get_current_pid().ok().and_then(|pid| system.process(pid)).and_then(Process::user_id);
    let mut found: Vec<ServerProcess> = system
        .processes()
        .values()
        // threads have no command line of their own on some systems, and the same one on others
        .filter(|process| process.thread_kind().is_none() && (own.is_none() || process.user_id() == own))
        .filter_map(|process| {
            let words: Vec<String> = process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let program = words.first()?.rsplit(['/', '\\']).next()?;
            if program.trim_end_matches(".exe") != "llama-server" {
                return None;
            }
            let pid = process.pid().as_u32();
            let command = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
            Some(ServerProcess { pid, command, log: log(pid) })
        })
        .collect();
    found.sort_by_key(|server| server.pid);
    found
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    if word.contains([' ', '"']) { format!("'{word}'") } else { word.to_owned() }
}

/// The file that standard error or output of a process is, where the system tells it.
fn log(pid: u32) -> Option<PathBuf> {
    let target = |fd: u32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok();
    [2, 1].into_iter().filter_map(target).find(|path| path.is_file())
}
