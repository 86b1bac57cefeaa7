//! Memory of cards and processes in the output of `nvidia-smi` (table and CSV) and `rocm-smi`.

use serde::Serialize;
use serde_json::Value;

use super::amount::{Mib, round};
use super::hole::{self, Hole};
use super::limits;
use super::pattern::Pattern;

/// Memory of a whole card, in MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CardMemory {
    /// Number of the card.
    pub index: Option<u64>,
    /// The driver's name for it: `NVIDIA GeForce RTX 3090`.
    pub name: Option<String>,
    /// Memory used by all processes.
    pub used: Option<Mib>,
    /// Memory free.
    pub free: Option<Mib>,
    /// All memory.
    pub total: Option<Mib>,
}

/// Memory of a process on a card, in MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessMemory {
    /// Number of the card, if printed.
    pub card: Option<u64>,
    /// Process ID.
    pub pid: u64,
    /// Path of its program.
    pub name: String,
    /// Memory that it uses; not reported on Windows.
    pub used: Option<Mib>,
}

/// The output of drivers' tools so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Driver {
    pub cards: Vec<CardMemory>,
    pub processes: Vec<ProcessMemory>,
    /// Number and name of the card whose figures the next row of the table has.
    card: Option<(u64, String)>,
    /// Names of CSV's columns.
    columns: Vec<String>,
}

impl Driver {
    /// Reads a line; false if it is of no driver's tool.
    pub fn read(&mut self, text: &str) -> bool {
        let may = text.contains('|') || ["MiB", "memory", "VRAM"].iter().any(|word| text.contains(word));
        if !may && self.columns.is_empty() {
            return false;
        }
        if text.contains("MiB") && !text.contains(',') {
            return self.usage(text) || self.process(text);
        }
        if text.contains(", ") && text.len() < 1024 {
            return self.csv(text);
        }
        self.rocm(text) || self.card_name(text) || text.contains("N/A") && self.process(text)
    }

    fn add_card(&mut self, card: CardMemory) {
        if self.cards.len() < limits::ROWS {
            self.cards.push(card);
        }
    }

    fn add_process(&mut self, process: ProcessMemory) {
        if self.processes.len() < limits::ROWS {
            self.processes.push(process);
        }
    }

    /// `0  NVIDIA GeForce RTX 3090        Off |   00000000:07:00.0  On |`
    fn card_name(&mut self, text: &str) -> bool {
        let Some((head, rest)) = text.split_once('|').filter(|(_, rest)| rest.contains(':')) else { return false };
        let Some((index, name)) = hole::count(head) else { return false };
        let name = name.trim().trim_end_matches("Off").trim_end_matches("On").trim();
        let is_bus = rest.split_whitespace().next().is_some_and(|bus| bus.matches(':').count() == 2);
        if !is_bus || name.is_empty() || index > 1024 {
            return false;
        }
        self.card = Some((index, hole::clip(name, 128)));
        true
    }

    /// `79%   66C    P2   144W /  420W |   15005MiB /  24576MiB |      0%      Default |`
    fn usage(&mut self, text: &str) -> bool {
        let figures = text.split('|').find_map(|cell| {
            let (used, total) = cell.split_once('/')?;
            Some((hole::mib(used)?, hole::mib(total)?)).filter(|((_, rest), _)| rest.trim().is_empty())
        });
        let Some(((used, _), (total, _))) = figures else { return false };
        let (index, name) = self.card.take().map_or((None, None), |(index, name)| (Some(index), Some(name)));
        self.add_card(CardMemory { index, name, used: Some(used), free: None, total: Some(total) });
        true
    }

    /// `0   N/A  N/A   1234      C   /usr/bin/llama-server   12110MiB |`
    fn process(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "|").take(64).collect();
        let Some(kind) = words.iter().position(|word| matches!(*word, "C" | "G" | "C+G" | "M+C")) else { return false };
        let pid = kind.checked_sub(1).and_then(|at| words.get(at)?.parse().ok());
        let (Some(pid), Some(memory)) = (pid, words.last()) else { return false };
        let used = hole::mib(memory).map(|(mib, _)| mib);
        let Some(name) = words.get(kind + 1..words.len() - 1).filter(|name| !name.is_empty()) else { return false };
        if used.is_none() && *memory != "N/A" {
            return false;
        }
        let card = words.first().and_then(|word| word.parse().ok());
        self.add_process(ProcessMemory { card, pid, name: hole::name(&name.join(" ")), used });
        true
    }

    /// Rows under a heading, or without one: a process with its memory, or used and free memory of a card.
    fn csv(&mut self, text: &str) -> bool {
        const OF_CARDS: [&str; 3] = ["memory.used", "memory.free", "memory.total"];
        const OF_PROCESSES: [&str; 2] = ["used_gpu_memory", "used_memory"];
        let fields: Vec<&str> = text.split(", ").map(str::trim).take(32).collect();
        let names = fields.iter().map(|field| field.split(" [").next().unwrap_or(field));
        if names.clone().any(|name| OF_CARDS.contains(&name) || OF_PROCESSES.contains(&name)) {
            self.columns = names.map(str::to_owned).collect();
            return true;
        }
        if self.columns.len() != fields.len() {
            self.columns.clear();
        }
        let memory = |field: &str| hole::mib(field).filter(|(_, rest)| rest.is_empty()).map(|(mib, _)| mib);
        let columns: Vec<&str> = match fields.as_slice() {
            _ if !self.columns.is_empty() => self.columns.iter().map(String::as_str).collect(),
            [used, other] if memory(used).is_some() && memory(other).is_some() => vec!["memory.used", ""],
            [pid, _, used] if pid.parse::<u64>().is_ok() && memory(used).is_some() => {
                vec!["pid", "process_name", "used_memory"]
            }
            _ => return false,
        };
        let field = |names: &[&str]| {
            let at = columns.iter().position(|name| names.contains(name))?;
            fields.get(at).copied()
        };
        let figure = |names: &[&str]| {
            let field = field(names)?;
            memory(field).or_else(|| field.parse().ok().filter(|mib: &f64| mib.is_finite()).map(Mib))
        };
        if let Some(pid) = field(&["pid"]) {
            let Ok(pid) = pid.parse() else { return false };
            let name = hole::name(field(&["process_name", "name"]).unwrap_or_default());
            let used = figure(&OF_PROCESSES);
            self.add_process(ProcessMemory { card: None, pid, name, used });
            return true;
        }
        let [used, free, total] = OF_CARDS.map(|column| figure(&[column]));
        let index = field(&["index"]).and_then(|index| index.parse().ok());
        let name = field(&["name"]).map(|name| hole::clip(name, 128));
        let says = used.is_some() || free.is_some() || total.is_some();
        if says {
            self.add_card(CardMemory { index, name, used, free, total });
        }
        says
    }

    /// `GPU[0] : VRAM Total Used Memory (B): 1234`
    fn rocm(&mut self, text: &str) -> bool {
        const CARD: Pattern = Pattern::new("GPU[{}]{}VRAM Total {}(B):{}");
        let holes = CARD.holes(text).unwrap_or_default();
        let [index, _, kind, bytes] = holes[..] else { return false };
        let (Some(index), Some(bytes)) = (u64::read(index), u64::read(bytes)) else { return false };
        self.rocm_card(index, kind.contains("Used"), bytes);
        true
    }

    fn rocm_card(&mut self, index: u64, is_used: bool, bytes: u64) {
        let mib = Some(Mib(round(bytes as f64 / 1_048_576.0)));
        let open =
            |card: &CardMemory| card.index == Some(index) && (if is_used { card.used } else { card.total }).is_none();
        if !self.cards.last().is_some_and(open) {
            self.add_card(CardMemory { index: Some(index), ..CardMemory::default() });
        }
        if let Some(card) = self.cards.last_mut().filter(|card| open(card)) {
            *(if is_used { &mut card.used } else { &mut card.total }) = mib;
        }
    }

    /// Reads `rocm-smi --json`, an object per card; false if there is none.
    pub fn rocm_json(&mut self, document: &Value) -> bool {
        let Some(cards) = document.as_object() else { return false };
        let mut any = false;
        for (name, card) in cards {
            let Some(index) = name.strip_prefix("card").and_then(|index| index.parse().ok()) else { continue };
            for (key, is_used) in [("VRAM Total Memory (B)", false), ("VRAM Total Used Memory (B)", true)] {
                let bytes = card.get(key).and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
                if let Some(bytes) = bytes {
                    self.rocm_card(index, is_used, bytes);
                    any = true;
                }
            }
        }
        any
    }
}
