//! Follows the programs that serve models on this machine: what they hold, and what they say of themselves.
//!
//! A sample costs a few milliseconds at most: processes are looked for every few seconds only, and what the kernel has to
//! walk all pages for is read the more rarely the longer it takes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::asker::Asker;
use super::listening;
use super::ollama::RunningOllama;
use crate::hardware::watch::Sampler;
use crate::hardware::{DetectOptions, Detected, Process, processes};
use crate::machine::Machine;
use crate::observed::sample::{DeviceSample, Listed, OnGpu, ProgramSample, RAM, Sample, Served};
use crate::observed::{ShownCommand, words};
use crate::source::Roots;
use crate::text::{one_line, shell_word};
use crate::units::Bytes;

/// How often processes are looked for.
const LOOK: Duration = Duration::from_secs(5);
/// Time limit of a question to a program.
const ANSWER: Duration = Duration::from_millis(500);
/// Share of one core that reading a share of RAM may take.
const SHARE: u32 = 500;
/// Questions that a program does not answer are repeated this rarely.
const RETRY: Duration = Duration::from_secs(10);

/// Follows what runs.
pub struct Follower {
    sampler: Sampler,
    roots: Roots,
    asker: Asker,
    ollama: Option<RunningOllama>,
    known: Vec<Known>,
    looked: Option<Instant>,
    /// When Ollama is asked next.
    ask_ollama: Option<Instant>,
    listed: Vec<Listed>,
}

/// A program that is followed.
struct Known {
    pid: u32,
    program: String,
    command: String,
    /// Where it listens by its command line, if it may be asked.
    port: Option<u16>,
    served: Option<Served>,
    /// When it is asked next.
    ask: Option<Instant>,
    share: Option<Bytes>,
    share_again: Option<Instant>,
    has_metrics: bool,
}

impl Follower {
    /// Detects the devices; blocks until their drivers answer.
    pub fn start(options: &DetectOptions, roots: Roots) -> (Detected, Self) {
        let (detected, sampler) = Sampler::start(options);
        let (asker, ollama) = (Asker::new(&roots, ANSWER), RunningOllama::of(&roots));
        let follower = Self {
            sampler,
            roots,
            asker,
            ollama,
            known: Vec::new(),
            looked: None,
            ask_ollama: None,
            listed: Vec::new(),
        };
        (detected, follower)
    }

    /// Where models are looked for.
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// One sample, and the machine with what is free now.
    pub fn sample(&mut self) -> (Sample, Machine) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.look();
        }
        let pids: Vec<u32> = self.known.iter().map(|known| known.pid).collect();
        let (update, processes) = self.sampler.now(&pids);
        let mut unread = update.notes;
        let mut programs = Vec::new();
        for known in &mut self.known {
            let Some(mut ram) = processes::held_in_ram(known.pid) else {
                // it has ended, or is a zombie
                self.looked = None;
                continue;
            };
            ram.share = known.share();
            let here = processes.iter().filter(|process| process.pid == known.pid);
            let gpus: Vec<OnGpu> = here
                .filter_map(|process| Some(OnGpu { device: process.device.clone(), bytes: process.bytes? }))
                .collect();
            let unsized_on = processes.iter().filter(|process| process.pid == known.pid && process.bytes.is_none());
            unread.extend(unsized_on.map(|process| {
                format!(
                    "the driver does not tell what {} (process {}) holds on {}",
                    known.program, known.pid, process.device
                )
            }));
            known.ask(&self.asker);
            programs.push(ProgramSample {
                pid: Some(known.pid),
                name: known.program.clone(),
                command: Some(ShownCommand::read(&known.command)),
                whole_command: Some(known.command.clone()),
                gpus,
                ram: Some(ram),
                served: known.served,
                listed: Vec::new(),
            });
        }
        self.ask_ollama(&mut programs, &mut unread);
        let machine = update.machine;
        let cpu = Some(machine.cpu.instructions);
        let sample = Sample { time: now(), devices: devices(&machine, &processes, &pids), cpu, programs, unread };
        (sample, machine)
    }

    fn look(&mut self) {
        self.looked = Some(Instant::now());
        let mut before: BTreeMap<u32, Known> = self.known.drain(..).map(|known| (known.pid, known)).collect();
        for server in processes::serving() {
            let command = with_whole_paths(&server.command, server.folder.as_deref());
            let same = before.remove(&server.pid).filter(|known| known.command == command);
            // where the system says whose socket is whose, it also says whose may be asked
            let may_be_asked = server.is_own || cfg!(target_os = "linux");
            self.known.push(same.unwrap_or_else(|| Known::new(server.pid, server.program, command, may_be_asked)));
        }
    }

    /// What a running Ollama lists, which belongs to its server's process.
    fn ask_ollama(&mut self, programs: &mut Vec<ProgramSample>, unread: &mut Vec<String>) {
        let Some(ollama) = &self.ollama else { return };
        let serves = programs.iter().any(|program| program.name == "ollama");
        if !serves && !ollama.is_named {
            return;
        }
        if self.ask_ollama.is_none_or(|next| Instant::now() >= next) {
            let answer = ollama.loaded();
            let wait = if answer.is_ok() { Duration::ZERO } else { RETRY };
            self.ask_ollama = Some(Instant::now() + wait);
            match answer {
                Ok(rows) => self.listed = rows.iter().map(listed).collect(),
                Err(why) => {
                    self.listed.clear();
                    unread.push(why);
                }
            }
        }
        if self.listed.is_empty() {
            return;
        }
        match programs.iter_mut().find(|program| program.name == "ollama") {
            Some(server) => server.listed.clone_from(&self.listed),
            None => programs.push(ProgramSample {
                name: "ollama".to_owned(),
                listed: self.listed.clone(),
                ..ProgramSample::default()
            }),
        }
    }
}

fn listed(row: &crate::observed::PsRow) -> Listed {
    Listed {
        name: one_line(&row.name).into_owned(),
        size: Bytes(row.size_bytes.unwrap_or_default()),
        vram: Bytes(row.vram_bytes.unwrap_or_default()),
        context: row.context,
    }
}

/// Devices with what is free, and what programs hold that serve no models.
fn devices(machine: &Machine, processes: &[Process], followed: &[u32]) -> Vec<DeviceSample> {
    let gpus = machine.gpus.iter().enumerate().map(|(index, gpu)| {
        let id = format!("GPU{index}");
        let others = processes.iter().filter(|process| process.device == id && !followed.contains(&process.pid));
        let others: Option<Bytes> = others.map(|process| process.bytes).sum::<Option<Bytes>>();
        DeviceSample {
            name: gpu.name.clone(),
            total: gpu.total,
            free: gpu.free,
            others: others.filter(|bytes| *bytes > Bytes::ZERO),
            id,
        }
    });
    let ram = machine.ram;
    let ram = DeviceSample { id: RAM.to_owned(), name: RAM.to_owned(), total: ram.total, free: ram.free, others: None };
    gpus.chain([ram]).collect()
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // milliseconds are enough
    (since.as_secs_f64() * 1000.0).round() / 1000.0
}

/// A command line in which files that it names in its working folder have their whole path.
fn with_whole_paths(command: &str, folder: Option<&Path>) -> String {
    words(command).map(|word| shell_word(&whole(&word, folder))).collect::<Vec<_>>().join(" ")
}

/// The whole path of a file that is named in `folder`.
fn whole(word: &str, folder: Option<&Path>) -> String {
    let path = folder.filter(|_| Path::new(word).is_relative()).map(|folder| folder.join(word));
    let is_model = Path::new(word).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    path.filter(|path| is_model && path.is_file()).map_or_else(|| word.to_owned(), |path| path.display().to_string())
}

/// The port that a llama-server listens on, by its command line (`common/arg.cpp`, 0.1.161); none if that names none.
fn port(command: &str) -> Option<u16> {
    let given: Vec<String> = words(command).collect();
    match given.iter().rposition(|word| word == "--port") {
        Some(at) => given.get(at + 1)?.parse().ok(),
        None => Some(8080),
    }
}

impl Known {
    fn new(pid: u32, program: String, command: String, may_be_asked: bool) -> Self {
        let port =
            Some(&command).filter(|_| may_be_asked && program == "llama-server").and_then(|command| port(command));
        let has_metrics = words(&command).any(|word| word == "--metrics");
        Self { pid, program, command, port, served: None, ask: None, share: None, share_again: None, has_metrics }
    }

    /// Its share of RAM, read again once that has cost little for long enough.
    fn share(&mut self) -> Option<Bytes> {
        let since = Instant::now();
        if self.share_again.is_none_or(|again| since >= again) {
            self.share = processes::share_of_ram(self.pid);
            self.share_again = Some(since + since.elapsed().max(Duration::from_millis(10)) * SHARE);
        }
        self.share
    }

    /// Asks what it says of itself. One that is not ready, or does not answer, is asked again later.
    fn ask(&mut self, asker: &Asker) {
        let Some(port) = self.port.filter(|_| self.ask.is_none_or(|next| Instant::now() >= next)) else { return };
        let socket = listening::socket(self.pid, port);
        let address = socket.map(|socket| format!("http://{socket}"));
        let health = address.as_deref().and_then(|address| Some((address, asker.ask(address, "health", None).ok()?)));
        let Some((address, health)) = health else {
            self.ask = Some(Instant::now() + RETRY);
            self.served = None;
            return;
        };
        let mut served = Served { ready: health.status == 200, ..Served::default() };
        if served.ready {
            if let Some(slots) = asker.ask(address, "slots", None).ok().and_then(|reply| reply.json()) {
                served.add_slots(&slots);
            }
            if self.has_metrics
                && let Ok(metrics) = asker.ask(address, "metrics", None)
            {
                served.add_metrics(&metrics.text);
            }
        }
        self.served = Some(served);
    }
}

impl Served {
    /// What `/slots` tells: a slot that has worked names its last task. Its prompts are not looked at.
    fn add_slots(&mut self, slots: &Value) {
        let Some(slots) = slots.as_array() else { return };
        let is = |slot: &&Value, key: &str| slot.get(key).and_then(Value::as_bool) == Some(true);
        self.slots = Some(slots.len() as u64);
        self.busy = Some(slots.iter().filter(|slot| is(slot, "is_processing")).count() as u64);
        self.context = slots.first().and_then(|slot| slot.get("n_ctx")?.as_u64());
        let has_worked = |slot: &Value| slot.get("id_task").and_then(Value::as_i64).is_some_and(|task| task >= 0);
        self.prompted = Some(slots.iter().any(has_worked));
    }

    /// What `/metrics` tells.
    fn add_metrics(&mut self, text: &str) {
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<f64>().ok().filter(|value| *value >= 0.0).map(|value| value as u64)
        };
        self.prompt_tokens = of("llamacpp:prompt_tokens_total");
        self.prompted = self.prompt_tokens.map(|tokens| tokens > 0).or(self.prompted);
        self.busy = self.busy.or_else(|| of("llamacpp:requests_processing"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_its_prompts() {
        let mut served = Served { ready: true, ..Served::default() };
        served.add_slots(&serde_json::json!([{"id": 0, "n_ctx": 4096, "is_processing": false}]));
        assert_eq!((served.slots, served.context, served.prompted), (Some(1), Some(4096), Some(false)));
        served.add_slots(&serde_json::json!([{"id": 0, "is_processing": true, "id_task": 2}]));
        assert_eq!((served.busy, served.prompted), (Some(1), Some(true)));
        served.add_metrics("# HELP llamacpp:prompt_tokens_total x\nllamacpp:prompt_tokens_total 300\n");
        assert_eq!(served.prompt_tokens, Some(300));
        served.add_slots(&serde_json::json!({"error": {"message": "no"}}));
        served.add_metrics("<html>");
        assert!(served.ready);
    }

    #[test]
    fn a_server_is_asked_where_it_listens() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.gguf"), "").unwrap();
        let command = with_whole_paths("llama-server -m m.gguf --host 0.0.0.0 --port 9", Some(folder.path()));
        assert!(command.contains(&folder.path().join("m.gguf").display().to_string()), "{command}");
        assert_eq!(port(&command), Some(9));
        assert_eq!(port("llama-server -m a"), Some(8080));
        assert_eq!(port("llama-server --port 1 --port 2"), Some(2), "the last one stands");
        for wrong in ["18199/secret/path", "1@example.org:80", "65536", "-1", ""] {
            assert_eq!(port(&format!("llama-server --host example.org --port '{wrong}'")), None, "{wrong}");
        }
    }
}
