//! llama-server as a child: started with a plan's command, its output kept in a file, its health asked.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::asker::Asker;
use super::ollama::cut;
use crate::observed::Observation;
use crate::source::Roots;

/// The port that is taken if it is free.
const PORT: u16 = 8080;
/// Time limit of a question about health.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a server may take to end by itself.
const TO_END: Duration = Duration::from_secs(10);
/// The end of a log that is shown.
const TAIL: u64 = 16 << 10;
/// The longest log: one that grows beyond keeps its head, where the load is, and its end.
const LONGEST: u64 = 16 << 20;
const HEAD: u64 = 8 << 20;
const END: u64 = 1 << 20;
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The process of the server that was started last and not kept, 0 if it has ended: for [`end_started`].
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A llama-server that was started here. It ends with this value, unless it is kept.
#[derive(Debug)]
pub struct ServerChild {
    child: Option<Child>,
    /// Ends with this value: the thread that keeps the log short.
    watch: Option<Sender<()>>,
    /// The file with its output. It is removed when the server ends with this value, unless it is to stay.
    pub log: PathBuf,
    /// Its address.
    pub address: String,
    /// Its process ID.
    pub pid: u32,
    log_stays: bool,
}

/// What a server says of its health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The model is loaded.
    Ready,
    /// It is loading, or does not answer yet.
    Loading,
    /// It has ended.
    Ended(String),
}

impl ServerChild {
    /// Starts `program` with `arguments`, on this computer only, printing its buffers.
    ///
    /// # Errors
    /// One sentence, if it cannot be started.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Self, String> {
        let cannot = |why: &str| format!("'{}' cannot be started: {why}", program.display());
        // only what is appended stays behind the rest when the file is cut
        let log = tempfile::Builder::new().prefix("llama-server-").suffix(".log").append(true).tempfile();
        let log = log.map_err(|error| format!("no file for its log can be made: {error}"))?;
        let copies = (log.as_file().try_clone(), log.as_file().try_clone());
        let (Ok(copy), Ok(watched)) = copies else { return Err(cannot("its log has no second handle")) };
        let port = free_port().map_err(|error| cannot(&error.to_string()))?;
        let mut command = Command::new(program);
        command.args(arguments).args(with_port(arguments, port));
        let (file, log) = log.keep().map_err(|error| format!("no file for its log can be made: {error}"))?;
        command.stdin(Stdio::null()).stdout(Stdio::from(file)).stderr(Stdio::from(copy));
        apart(&mut command);
        let child = command.spawn().map_err(|error| {
            drop(std::fs::remove_file(&log));
            match error.kind() {
                std::io::ErrorKind::NotFound => {
                    format!("'{}' was not found: name llama-server's path with --server", program.display())
                }
                _ => cannot(&error.to_string()),
            }
        })?;
        let address = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        STARTED.store(child.id(), Ordering::SeqCst);
        let watch = Some(keep_short(watched, log.clone()));
        Ok(Self { pid: child.id(), child: Some(child), watch, log, address, log_stays: false })
    }

    /// The path of its log, which is named to somebody and so stays.
    pub fn kept_log(&mut self) -> &Path {
        self.log_stays = true;
        &self.log
    }

    /// Its health now.
    pub fn health(&mut self, roots: &Roots) -> Health {
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Health::Ended(status.to_string()),
                Err(error) => return Health::Ended(error.to_string()),
            }
        }
        let reply = Asker::new(roots, ANSWER).ask(&self.address, "health", None);
        if reply.is_ok_and(|reply| reply.status == 200) { Health::Ready } else { Health::Loading }
    }

    /// What its log tells.
    ///
    /// # Errors
    /// One sentence, if the log cannot be read.
    pub fn observation(&self) -> Result<Observation, String> {
        let read = File::open(&self.log).and_then(|mut file| Observation::read(&mut file));
        read.map_err(|error| format!("its log '{}' cannot be read: {error}", self.log.display()))
    }

    /// The length of its log.
    pub fn printed(&self) -> u64 {
        self.log.metadata().map_or(0, |about| about.len())
    }

    /// The last lines of its log that are not empty, at most `count`, without their time stamps.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        let tail = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            file.take(TAIL).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = tail().unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.iter().skip(lines.len().saturating_sub(count)).map(|line| cut(untimed(line))).collect()
    }

    /// The lines that say what went wrong, else the last ones.
    pub fn errors(&self) -> Vec<String> {
        let last = self.last_lines(40);
        let words = ["error", "failed", "unable", "cannot", "invalid"];
        let is_error = |line: &&String| line.starts_with("E ") || words.iter().any(|word| line.contains(word));
        let errors: Vec<String> = last.iter().filter(is_error).cloned().collect();
        if errors.is_empty() { self.last_lines(3) } else { errors.into_iter().take(4).collect() }
    }

    /// Leaves it running.
    pub fn keep(mut self) {
        STARTED.store(0, Ordering::SeqCst);
        self.log_stays = true;
        drop(self.child.take());
    }

    /// Ends it: asks it to, and after a while ends it by force.
    pub fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        ask_to_end(&mut child);
        let since = Instant::now();
        while since.elapsed() < TO_END && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        if matches!(child.try_wait(), Ok(None)) {
            // nothing else can be done where this fails
            drop(child.kill());
            drop(child.wait());
        }
        STARTED.store(0, Ordering::SeqCst);
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        self.end();
        drop(self.watch.take());
        if !self.log_stays {
            // what cannot be removed is short, and in the folder for such files
            drop(std::fs::remove_file(&self.log));
        }
    }
}

/// Cuts the log at `path` as often as it is too long, on a thread, until what is returned is dropped.
fn keep_short(file: File, path: PathBuf) -> Sender<()> {
    let (ends, end) = channel();
    thread::spawn(move || {
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if file.metadata().is_ok_and(|about| about.len() > LONGEST) {
                // where it cannot be cut, it is tried again
                drop(cut_middle(&file, &path));
            }
        }
    });
    ends
}

/// Cuts a log to its head and its end; what is printed meanwhile may be lost with the middle.
fn cut_middle(mut file: &File, path: &Path) -> std::io::Result<()> {
    let mut read = File::open(path)?;
    let length = read.metadata()?.len();
    read.seek(SeekFrom::Start(length.saturating_sub(END)))?;
    let mut end = Vec::new();
    read.take(END).read_to_end(&mut end)?;
    file.set_len(HEAD)?;
    file.write_all(b"\n(lines were left out here)\n")?;
    file.write_all(&end)
}

/// The program that the user names, else `name` in the folders of PATH.
pub fn program(named: Option<&Path>, name: &str) -> PathBuf {
    if let Some(named) = named {
        return named.to_owned();
    }
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join(&file)).find(|path| path.is_file());
    found.unwrap_or_else(|| PathBuf::from(file))
}

/// Host, port and verbosity, as far as they are not given.
fn with_port(arguments: &[String], port: u16) -> Vec<String> {
    let is_given = |names: &[&str]| arguments.iter().any(|word| names.contains(&word.as_str()));
    let wanted: [(&[&str], String); 3] = [
        (&["--host"], Ipv4Addr::LOCALHOST.to_string()),
        (&["--port"], port.to_string()),
        // buffers are printed from this level on
        (&["-lv", "--verbosity", "--log-verbosity", "-v", "--verbose"], "4".to_owned()),
    ];
    let missing = wanted.into_iter().filter(|(names, _)| !is_given(names));
    missing.filter_map(|(names, value)| Some([(*names.first()?).to_owned(), value])).flatten().collect()
}

/// llama-server's usual port, or any that is free.
fn free_port() -> std::io::Result<u16> {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr();
    free(PORT).or_else(|_| free(0)).map(|address| address.port())
}

/// A line of a log without its time: `0.08.512.155 I srv …`.
fn untimed(line: &str) -> &str {
    let is_time = |word: &str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_once(' ').filter(|(first, _)| is_time(first)).map_or(line, |(_, rest)| rest)
}

/// In a group of its own, so that Ctrl-C reaches this program alone.
#[cfg(unix)]
fn apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
fn apart(_: &mut Command) {}

/// Ends the server that was started and not kept by force, for a program that ends without [`ServerChild::end`].
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub fn end_started() {
    use rustix::process::{Signal, kill_process};
    if let Some(pid) = pid(STARTED.swap(0, Ordering::SeqCst)) {
        // it may have ended
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Nothing: on other systems signals end the program at once.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub const fn end_started() {}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn pid(id: u32) -> Option<rustix::process::Pid> {
    i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn ask_to_end(child: &mut Child) {
    use rustix::process::{Signal, kill_process};
    if pid(child.id()).is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
        drop(child.kill());
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn ask_to_end(child: &mut Child) {
    drop(child.kill());
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A shell in place of a server, once it has printed `last`.
    fn printed(script: &str) -> ServerChild {
        let arguments = ["-c".to_owned(), script.to_owned()];
        let child = ServerChild::start(Path::new("/bin/sh"), &arguments).unwrap();
        let since = Instant::now();
        while child.last_lines(1) != ["last"] || child.printed() > LONGEST {
            assert!(since.elapsed() < Duration::from_mins(1), "{:?}", child.last_lines(1));
            thread::sleep(LOOK);
        }
        child
    }

    #[test]
    fn a_loud_servers_log_keeps_its_head_and_its_end() {
        let lines = "head -c 40000000 /dev/zero | tr '\\0' a | fold -w 100";
        let child = printed(&format!("echo first; {lines}; sleep 1; echo; echo last; exec sleep 1000"));
        let log = std::fs::read_to_string(&child.log).unwrap();
        assert!(log.starts_with("first\naaa") && log.ends_with("aaa\nlast\n"));
        assert!(log.contains("\n(lines were left out here)\n") && log.len() as u64 <= LONGEST, "{}", log.len());
    }

    #[test]
    fn a_log_goes_with_its_server_unless_it_was_named() {
        let child = printed("echo last; exec sleep 1000");
        let log = child.log.clone();
        drop(child);
        assert!(!log.exists());
        let mut child = printed("echo last; exec sleep 1000");
        let log = child.kept_log().to_owned();
        drop(child);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "last\n");
        std::fs::remove_file(log).unwrap();
    }
}
