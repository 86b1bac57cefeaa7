//! The programs that serve models on this machine, their output, and what they hold.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use sysinfo::{Process, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use crate::observed::sample::InRam;
use crate::text::shell_word;
use crate::units::Bytes;

/// The output of a running program.
pub struct Output {
    /// Its place, for messages.
    pub name: String,
    /// The text from its start.
    pub text: Box<dyn Read>,
}

/// A program that serves models.
pub struct ServerProcess {
    /// Process ID.
    pub pid: u32,
    /// Its name without its folder: `llama-server`, `ollama`.
    pub program: String,
    /// Its command line.
    pub command: String,
    /// Whether it is one of this user's, as far as the system tells.
    pub is_own: bool,
    /// Its working folder, where the system tells.
    pub folder: Option<PathBuf>,
    /// The file that its output is redirected to, if any.
    pub log: Option<PathBuf>,
}

/// Outputs to look for loads in, the newest first, the journal last. Files that cannot be read are left out.
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
    texts.chain(journal("--boot")).collect()
}

/// The newest output of an Ollama on this machine, if it was written to within the last `age`.
pub fn output_of_ollama(age: Duration) -> Option<Output> {
    let own = serving().into_iter().filter(|server| server.program == "ollama").filter_map(|server| server.log);
    let is_new = |path: &PathBuf| changed(path)?.elapsed().ok().filter(|since| *since <= age);
    let newest = own.chain(ollama_logs()).filter_map(|path| Some((is_new(&path)?, path))).min();
    let file = newest.and_then(|(_, path)| {
        let file = File::open(&path).ok()?;
        Some(Output { name: path.display().to_string(), text: Box::new(file) })
    });
    file.or_else(|| journal(&format!("--since=-{}s", age.as_secs())))
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

/// The journal of Ollama's service, as far back as `since` says.
fn journal(since: &str) -> Option<Output> {
    if !cfg!(target_os = "linux") || !Path::new("/run/systemd/journal").is_dir() {
        return None;
    }
    let mut command = Command::new("journalctl");
    command.args(["--unit=ollama", since, "--no-pager", "--quiet", "--output=short"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let text = Box::new(child.stdout?);
    Some(Output { name: "the journal of Ollama's service".to_owned(), text })
}

/// The llama-server processes of this user, by process ID.
pub fn servers() -> Vec<ServerProcess> {
    processes(&["llama-server"], true)
}

/// The programs of any user that serve models, by process ID; threads and others that only ask are left out.
pub fn serving() -> Vec<ServerProcess> {
    let mut found = processes(&["llama-server", "ollama"], false);
    found.retain(|server| {
        server.program != "ollama" || server.command.split_whitespace().nth(1).is_some_and(is_serving)
    });
    found
}

/// Whether `ollama` with this first argument holds models or serves them.
fn is_serving(argument: &str) -> bool {
    ["serve", "runner"].contains(&argument)
}

fn processes(programs: &[&str], only_own: bool) -> Vec<ServerProcess> {
    let Ok(mut system) = System::new() else { return Vec::new() };
    let kind = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always).with_user(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    let own = sysinfo::get_current_pid().ok().and_then(|pid| system.process(pid)).and_then(Process::user_id);
    let mut found: Vec<ServerProcess> = system
        .processes()
        .values()
        // threads have no command line of their own on some systems, and the same one on others
        .filter(|process| process.thread_kind().is_none())
        .filter_map(|process| {
            let is_own = own.is_none() || process.user_id() == own;
            if only_own && !is_own {
                return None;
            }
            let words: Vec<String> = process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let program = words.first()?.rsplit(['/', '\\']).next()?.trim_end_matches(".exe").to_owned();
            if !programs.contains(&program.as_str()) {
                return None;
            }
            let pid = process.pid().as_u32();
            let command = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
            Some(ServerProcess {
                pid,
                program,
                command,
                is_own,
                folder: std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
                log: log(pid),
            })
        })
        .collect();
    found.sort_by_key(|server| server.pid);
    found
}

/// What a process holds in RAM, as far as the system tells.
pub fn held_in_ram(pid: u32) -> Option<InRam> {
    if let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
        let of = |key: &str| kilobytes(&status, key);
        let (own, shared) = (of("RssAnon")?, of("RssShmem").unwrap_or_default());
        return Some(InRam {
            resident: of("VmRSS")?,
            // memory that a driver maps into the program counts as shared
            own: Some(own + shared),
            mapped: of("RssFile"),
            swapped: of("VmSwap").filter(|swapped| *swapped > Bytes::ZERO),
            share: None,
        });
    }
    let mut system = System::new().ok()?;
    let (pid, kind) = (sysinfo::Pid::from_u32(pid), ProcessRefreshKind::nothing().with_memory());
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    let resident = Bytes(system.process(pid)?.memory());
    Some(InRam { resident, ..InRam::default() })
}

/// A process's share of RAM, where pages that several programs have are divided among them. The kernel walks all of its
/// pages for this: a millisecond for each few GiB.
pub fn share_of_ram(pid: u32) -> Option<Bytes> {
    kilobytes(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss")
}

/// `RssAnon:\t  701336 kB`
fn kilobytes(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(number.saturating_mul(1 << 10)))
}

/// The file that standard error or output of a process is redirected to, where the system reports it.
fn log(pid: u32) -> Option<PathBuf> {
    let target = |fd: u32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok();
    [2, 1].into_iter().filter_map(target).find(|path| path.is_file())
}
