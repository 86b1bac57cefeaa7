//! Lines of memory: buffers, caches, and the breakdown table.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::amount::{Buffers, Mib, Term};
use super::hole::{self, Hole, holes};
use super::kind::Kind;
use super::limits;
use super::pattern::Pattern;
use crate::settings::CacheType;

/// The text before the size of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BufferName<'a> {
    /// The function that prints it.
    pub function: &'a str,
    /// The device's buffer type: `CUDA0`, `CPU_Mapped`.
    pub device: &'a str,
    /// Its purpose.
    pub term: Term,
}

/// Words for the purpose of a buffer.
const TERMS: [(&str, Term); 7] = [
    ("model", Term::Model),
    ("KV", Term::Kv),
    ("RS", Term::Rs),
    ("compute", Term::Compute),
    ("output", Term::Output),
    ("LoRA", Term::Lora),
    ("state", Term::State),
];

impl<'a> BufferName<'a> {
    pub(super) fn kind(&self) -> Kind {
        match self.term {
            Term::Model => Kind::Weights,
            Term::Compute => Kind::Compute,
            _ => Kind::Memory,
        }
    }

    /// A cache that a fork gives a name of its own: `llama_kv_cache_kvarn: CUDA0 KVarN buffer size = 256.00 MiB`.
    fn of_fork(text: &'a str) -> Option<Self> {
        let (head, device) = last_word(last_word(text)?.0)?;
        let function = function(head)?;
        (function.contains("kv_cache") && is_device(device)).then_some(Self { function, device, term: Term::Kv })
    }
}

impl<'a> Hole<'a> for BufferName<'a> {
    fn read(text: &'a str) -> Option<Self> {
        if text.contains("kv_cache") && !text.ends_with(" KV") {
            return Self::of_fork(text);
        }
        let (mut head, word) = last_word(text)?;
        let term = TERMS.iter().find(|(name, _)| *name == word).map(|(_, term)| *term);
        if term == Some(Term::State) {
            // `DSV4 csa state`
            head = last_word(last_word(head)?.0)?.0;
        }
        let (head, device) = if term.is_some() { last_word(head)? } else { (head, word) };
        // the function may have been cut off
        let function = if head.trim().is_empty() && is_device(device) { "" } else { function(head)? };
        let term = match term {
            _ if ["alloc_compute_meta", "reserve_compute_meta"].contains(&function) => Term::ProjectorCompute,
            Some(term) => term,
            // of ik_llama.cpp
            None if function.ends_with("load_tensors") => Term::Model,
            None => return None,
        };
        (!device.is_empty() && device.len() <= 64).then_some(Self { function, device, term })
    }
}

/// The last word, and what stands before it.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let start = text.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let (head, word) = text.split_at_checked(start)?;
    (!word.is_empty()).then_some((head, word))
}

/// Whether a word looks like a backend's device: `CUDA0`, `RPC0[::1:50052]`, `CPU_Mapped`.
fn is_device(word: &str) -> bool {
    let name = word.split('[').next().unwrap_or(word);
    let upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    upper && (name == "CPU" || name.contains('_') || name.ends_with(|c: char| c.is_ascii_digit()))
}

/// The name of the function before a colon at the end; none for a destructor.
fn function(head: &str) -> Option<&str> {
    let head = head.trim_end().strip_suffix(':')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = head.get(head.trim_end_matches(is_name).len()..)?;
    let before = head.get(..head.len() - name.len())?;
    (!name.is_empty() && !before.ends_with('~')).then_some(name)
}

/// Adds to a term of a device; devices beyond the limit are ignored.
pub(super) fn add(buffers: &mut Buffers, device: &str, term: Term, mib: Mib) {
    if buffers.contains_key(device) || buffers.len() < limits::DEVICES {
        let terms = buffers.entry(device.to_owned()).or_default();
        let sum = terms.entry(term).or_default();
        *sum = sum.plus(mib);
    }
}

/// Adds every term of every device.
pub(super) fn sum(into: &mut Buffers, from: &Buffers) {
    for (device, terms) in from {
        for (&term, &mib) in terms {
            add(into, device, term, mib);
        }
    }
}

/// A cache's own line: `llama_kv_cache: size = 2176.00 MiB (131072 cells, 8 layers, 1/1 seqs), K (q8_0): …`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheSize {
    /// KV cache or recurrent state.
    pub term: Term,
    /// Its size over all devices.
    pub size: Mib,
    /// Tokens, or recurrent states.
    pub cells: u64,
    /// Layers with an own cache.
    pub layers: u64,
    /// Sequences, where the line has them.
    pub sequences: Option<u64>,
    /// Further states of each sequence, where the line has them.
    pub saved_states: Option<u64>,
    /// Type of K (`q8_0`) or of R, and its part of the size.
    pub first: Option<(String, Mib)>,
    /// Type of V or of S, and its part of the size.
    pub second: Option<(String, Mib)>,
}

impl CacheSize {
    /// With what stands behind the layers: `, 1/1 seqs), K (q8_0): 1088.00 MiB, V (q8_0): 1088.00 MiB`.
    pub(super) fn of(term: Term, size: Mib, cells: u64, layers: u64, rest: &str) -> Self {
        let (sequences, behind) = rest.strip_prefix(',').and_then(hole::count).unzip();
        let saved = behind.and_then(|behind| hole::count(hole::after(behind, "seqs")?));
        let saved_states = saved.filter(|(_, rest)| rest.trim_start().starts_with("rs_seq")).map(|(count, _)| count);
        let part = |text: &str| {
            let (name, rest) = text.split_once("):")?;
            Some((hole::clip(name, 16), Mib::read(rest)?))
        };
        let mut parts = rest.split(" (").skip(1).filter_map(part);
        Self { term, size, cells, layers, sequences, saved_states, first: parts.next(), second: parts.next() }
    }

    /// Types of K and V, of a KV cache.
    pub fn types(&self) -> (Option<CacheType>, Option<CacheType>) {
        let of = |part: &Option<(String, Mib)>| part.as_ref().and_then(|(name, _)| name.parse().ok());
        match self.term {
            Term::Kv => (of(&self.first), of(&self.second)),
            _ => (None, None),
        }
    }
}

holes! {
    // of a cache, by the function that prints its size
    Term: |function| match function {
        _ if function.ends_with("llama_memory_recurrent") => Some(Term::Rs),
        _ if function.contains("llama_kv_cache") => Some(Term::Kv),
        _ => None,
    };
}

/// 2^64 bytes in MiB, which was added to what is below zero until about April 2026.
const WRAP: i64 = 1 << 44;

/// One row of the breakdown table: whole MiB, cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TableRow {
    /// Memory of the load: `model + context + compute`.
    #[serde(rename = "self")]
    pub own: i64,
    /// Weights.
    pub model: i64,
    /// KV caches, recurrent state and outputs.
    pub context: i64,
    /// Compute buffers.
    pub compute: i64,
    /// The device's memory; none for the host and further buffer types.
    pub total: Option<i64>,
    /// Free memory by the driver when the table is printed.
    pub free: Option<i64>,
    /// Memory neither free nor of the load.
    pub unaccounted: Option<i64>,
    /// The device's name without its vendor's, or an RPC server's address.
    pub described: Option<String>,
}

/// When a table was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TablePhase {
    /// For a trial of the fit: free memory is that before the load, and unaccounted memory means nothing.
    Fit,
    /// With the model loaded, mostly at the program's end: unaccounted memory is that of the driver and other programs.
    Loaded,
}

impl TableRow {
    /// Whether this was printed before the memory was taken; none for a row without that.
    pub(super) fn phase(&self) -> Option<TablePhase> {
        let unaccounted = self.unaccounted?;
        let before = self.own > 0 && unaccounted < 0 && unaccounted.saturating_add(self.own / 2) < 0;
        Some(if before { TablePhase::Fit } else { TablePhase::Loaded })
    }
}

/// `CUDA0 (RTX 5090) | 32606 = 30330 + (21832 = 16386 + 4950 + 495) + -19555 |`
pub(super) struct NamedRow {
    pub name: String,
    pub row: TableRow,
}

impl NamedRow {
    pub(super) fn kind(&self) -> Kind {
        Kind::Table(self.row.phase())
    }
}

impl Hole<'_> for NamedRow {
    fn read(text: &str) -> Option<Self> {
        // total and free stand before what a device holds
        const DEVICE: Pattern = Pattern::new("^{}={}+{}({}={}+{}+{}){}");
        const HOST: Pattern = Pattern::new("^{}={}+{}+{}");
        let (name, figures) = text.split_at_checked(end_of_name(text)?)?;
        let figures = figures.trim_start_matches(['|', ':', ' ']).split('|').next()?;
        let (name, described) = match name.trim().split_once(" (") {
            Some((name, described)) => (name, Some(described.strip_suffix(')').unwrap_or(described))),
            // who pasted it may have cut the description
            None => (name.split_whitespace().next().unwrap_or_default(), None),
        };
        let described = described.map(|text| hole::clip(text, 128));
        let number = |text: &str| i64::read(text.trim_start_matches(['+', ' '])).filter(|_| !text.contains('='));
        let numbers = |pattern: Pattern| -> Vec<Option<i64>> {
            pattern.holes(figures).into_iter().flatten().map(number).collect()
        };
        let row = match (numbers(DEVICE).as_slice(), numbers(HOST).as_slice()) {
            (&[total, Some(free), None, Some(own), Some(model), Some(context), Some(compute), unaccounted], _) => {
                let (free, unaccounted) = (Some(unwrapped(free)), unaccounted.map(unwrapped));
                TableRow { own, model, context, compute, total: Some(total?), free, unaccounted, described }
            }
            (_, &[Some(first), Some(model), Some(context), Some(compute)]) => {
                // the computer's memory, of the first form
                let own = hole::integer(figures).and_then(|(_, rest)| i64::read(rest));
                let (total, own) = own.map_or((None, first), |own| (Some(first), own));
                TableRow { own, model, context, compute, total, described, ..TableRow::default() }
            }
            _ => return None,
        };
        is_name(name).then(|| Self { name: name.to_owned(), row })
    }
}

/// Where a row's name ends: before the last bar or colon, or behind the last bracket, that stands before the figures.
fn end_of_name(row: &str) -> Option<usize> {
    let head = row.get(..row.find('=')?)?;
    let end = head.rfind(['|', ')', ':']).map(|at| at + usize::from(head.as_bytes().get(at) == Some(&b')')));
    end.or_else(|| head.find(' '))
}

const fn unwrapped(mib: i64) -> i64 {
    if mib > WRAP / 2 && mib <= WRAP { mib - WRAP } else { mib }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64
}

/// Rows of a table that is printed as JSON (`--log-jsonl`).
pub(super) fn json_rows(data: &Value) -> impl Iterator<Item = (String, TableRow)> {
    let rows = data.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter().filter_map(|row| {
        let name = row.get("name")?.as_str().filter(|name| is_name(name))?;
        let figure = |key: &str| {
            let value = row.get(key)?;
            // unsigned differences wrap here as well
            value
                .as_i64()
                .or_else(|| value.as_f64().filter(|mib| mib.abs() < 1e15).map(|mib| mib as i64))
                .map(unwrapped)
        };
        let described = row.get("description").and_then(Value::as_str).map(|text| hole::clip(text, 128));
        let of_load = |key: &str| figure(key).unwrap_or_default();
        Some((
            name.to_owned(),
            TableRow {
                own: figure("self")?,
                model: of_load("model"),
                context: of_load("context"),
                compute: of_load("compute"),
                total: figure("total"),
                free: figure("free"),
                unaccounted: figure("unaccounted"),
                described,
            },
        ))
    })
}
