//! Reads the memory that programs report in logs and status output. It adds up the lines of one load, and does no other
//! arithmetic; it makes no plans and opens no files.
//!
//! [`Reader`] takes a text in pieces of any size and gives an [`Observation`]: every [`Load`] of a model in it, what
//! `ollama ps` listed, and what drivers said. It knows what llama.cpp prints since mid-2025 (buffer lines, breakdown
//! tables, the fit's lines, `--log-jsonl`), what forks and the programs around it print (Ollama since 2024, LM Studio,
//! KoboldCpp, routers, containers, journald), `nvidia-smi` and `rocm-smi`. What a line says is a row of a table;
//! `observed/rows.rs` says how to add one.
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

mod amount;
mod command;
mod context;
mod context_fit;
mod driver;
mod event;
mod fit;
mod hole;
mod kind;
pub mod limits;
mod load;
mod load_builder;
mod memory;
mod model;
mod ollama;
mod pattern;
mod prefix;
mod reader;
mod row;
mod rows;
pub mod sample;
pub mod share;
mod shown;

use std::io;

use serde::Serialize;

pub use amount::{Buffers, Mib, Term, Terms};
pub(crate) use command::program;
#[cfg(feature = "running")]
pub(crate) use command::words;
pub use command::{CommandLine, PROGRAMS};
pub use context::{ObservedContext, ObservedSettings};
pub use context_fit::ObservedFit;
pub use driver::{CardMemory, ProcessMemory};
pub use event::Event;
pub use fit::{Fit, FitDevice, FitLayers, FitProjection, FitResult};
pub use load::{Complete, Load, Missing, Program, device_name, is_gpu, is_repacked};
pub use memory::{CacheSize, TablePhase, TableRow};
pub use model::{ObservedDevice, ObservedModel};
pub use ollama::{OllamaEstimate, PsRow, gpu_percent, ollama_ps};
pub use reader::Reader;
pub use shown::ShownCommand;

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
    /// What LM Studio's engine of MLX says of the contexts that it takes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<ObservedFit>,
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
