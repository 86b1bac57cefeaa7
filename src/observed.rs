//! Reads the memory that programs report in logs and status output. It adds up the lines of one load, and does no other
//! arithmetic; it makes no plans and opens no files.
//!
//! [`Reader`] takes a text in pieces of any size and gives an [`Observation`]: every [`Load`] of a model in it, what
//! `ollama ps` listed, and what drivers said. It knows what llama.cpp prints since mid-2025 (buffer lines, breakdown
//! tables, the fit's lines, `--log-jsonl`), what forks and the programs around it print (Ollama since 2024, LM Studio,
//! KoboldCpp, routers, containers, journald), `nvidia-smi` and `rocm-smi`. What a line says is a row of a table;
//! `observed/pattern.rs` says how to add one.
//!
//! Any text is safe. Memory stays bounded whatever the length: a line is cut at 64 KiB, the last 128 loads are kept, 32
//! writers that mix their lines are told apart, and each list within a load has an end of its own ([`limits`]).
//!
//! ```
//! use plimsoll::observed::Observation;
//!
//! let log = "load_tensors:        CUDA0 model buffer size =  4403.49 MiB\n\
//!            llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB\n";
//! let seen = Observation::of(log);
//! let load = seen.load().ok_or("no load in it")?;
//! assert!(load.has_memory());
//! # Ok::<(), &str>(())
//! ```

mod command;
mod context;
mod driver;
mod event;
mod fit;
mod load;
mod memory;
mod model;
mod ollama;
mod pattern;
mod prefix;
mod reader;
pub mod sample;
pub mod share;
mod shown;
mod under_way;

use std::collections::BTreeMap;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::Serialize;

use crate::units::Bytes;

pub(crate) use command::program;
#[cfg(feature = "running")]
pub(crate) use command::words;
pub use command::{CommandLine, PROGRAMS};
pub use context::{ObservedContext, ObservedSettings};
pub use driver::{CardMemory, ProcessMemory};
pub use event::Event;
pub use fit::{Fit, FitDevice, FitLayers, FitProjection, FitResult};
pub use load::{Complete, Load, Missing, Program, device_name, is_gpu, is_repacked};
pub use memory::{CacheSize, TablePhase, TableRow};
pub use model::{ObservedDevice, ObservedModel};
pub use ollama::{OllamaEstimate, PsRow, gpu_percent, ollama_ps};
pub use reader::Reader;
pub use shown::ShownCommand;

/// What is kept at most of a text of any length.
pub mod limits {
    /// Bytes of a line; the rest of a longer one is passed over.
    pub const LINE: usize = 64 << 10;
    /// Loads; of more, the last ones are kept.
    pub const LOADS: usize = 128;
    /// Writers whose lines are mixed in one text; of more, the ones that were silent longest are closed.
    pub const WRITERS: usize = 32;
    /// Devices of a load, and buffers of one kind in a context.
    pub const DEVICES: usize = 64;
    /// Models of a load (with drafts), and contexts.
    pub const PARTS: usize = 16;
    /// Events of a load.
    pub const EVENTS: usize = 64;
    /// Rows of `ollama ps`, cards and processes.
    pub const ROWS: usize = 1024;
    /// Lines that a load keeps, where they are kept.
    pub const KEPT: usize = 1000;
    /// Bytes of a JSON document over several lines.
    pub const JSON: usize = 256 << 10;
}

/// Mebibytes (2^20 bytes), with the decimals that a program printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Mib(pub f64);

impl Mib {
    /// `bytes` in MiB.
    pub fn of(bytes: Bytes) -> Self {
        Self(bytes.0 as f64 / f64::from(1 << 20))
    }

    /// In bytes; zero if it is negative.
    pub fn bytes(self) -> Bytes {
        Bytes((self.0.max(0.0) * f64::from(1 << 20)).round() as u64)
    }

    /// The sum, rounded to the two decimals that lines have.
    fn plus(self, other: Self) -> Self {
        Self(pattern::round(self.0 + other.0))
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} MiB", self.0))
    }
}

/// The purpose of memory on a device, as programs divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Weights.
    Model,
    /// KV cache.
    Kv,
    /// Recurrent state.
    Rs,
    /// Compute buffer of the context's graphs.
    Compute,
    /// Logits and embeddings.
    Output,
    /// Compute buffer of a projector.
    ProjectorCompute,
    /// Compressor state (`DSV4`).
    State,
    /// LoRA adapters.
    Lora,
}

impl Term {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "weights",
            Self::Kv => "KV cache",
            Self::Rs => "recurrent state",
            Self::Compute => "compute",
            Self::Output => "output",
            Self::ProjectorCompute => "projector's compute",
            Self::State => "compressor state",
            Self::Lora => "LoRA",
        }
    }
}

/// Memory of one device by term, in MiB.
pub type Terms = BTreeMap<Term, Mib>;

/// Memory by device and term, in MiB; a device is named as in the log, without an RPC server's address.
pub type Buffers = BTreeMap<String, Terms>;

/// Everything that a text reports about memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observation {
    /// The loads in it, in the order in which they begin.
    pub loads: Vec<Load>,
    /// Index of the load to look at: the last complete one, else the last of which a trial is complete, else the last
    /// that says anything of memory.
    pub chosen: Option<usize>,
    /// Loads before these that were left out.
    pub loads_left_out: u64,
    /// Rows of `ollama ps` or `/api/ps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ps: Vec<PsRow>,
    /// Memory of whole cards by `nvidia-smi` or `rocm-smi`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardMemory>,
    /// Memory of processes by `nvidia-smi`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessMemory>,
    /// What the chosen load lacks.
    #[serde(skip)]
    pub missing: Vec<Missing>,
}

impl Observation {
    /// Reads a whole text.
    pub fn of(text: &str) -> Self {
        let mut reader = Reader::default();
        reader.feed(text.as_bytes());
        reader.finish()
    }

    /// Reads a text in pieces, however long it is.
    ///
    /// # Errors
    /// Those of `text`.
    pub fn read(text: &mut dyn io::Read) -> io::Result<Self> {
        Self::read_by(Reader::default(), text)
    }

    /// Reads a text by `reader`.
    ///
    /// # Errors
    /// Those of `text`.
    pub fn read_by(mut reader: Reader, text: &mut dyn io::Read) -> io::Result<Self> {
        let mut piece = vec![0; 1 << 16];
        loop {
            match text.read(&mut piece) {
                Ok(0) => return Ok(reader.finish()),
                Ok(read) => reader.feed(piece.get(..read).unwrap_or_default()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// The load to look at.
    pub fn load(&self) -> Option<&Load> {
        self.loads.get(self.chosen?)
    }
}
