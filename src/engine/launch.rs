//! How llama-server is started.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::{Backend, Machine};
use crate::settings::Settings;
use crate::units::Bytes;

/// How llama-server is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its options, as settings of [`crate::settings::EngineId::LlamaCpp`].
    pub options: Settings,
    /// The GPUs visible to it, as indices in the machine.
    pub gpus: Vec<usize>,
    /// The complete command, where the engine is known to start it so.
    pub command: Option<ServerCommand>,
    /// The starts before it that run out of memory.
    pub failures: usize,
}

impl Launch {
    /// `machine` with only the GPUs visible to llama-server.
    pub fn machine(&self, machine: &Machine) -> Machine {
        let gpus = self.gpus.iter().filter_map(|&gpu| machine.gpus.get(gpu).cloned()).collect();
        Machine { gpus, ..machine.clone() }
    }
}

/// A complete command for llama-server.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ServerCommand {
    /// All arguments; `MODEL`, `PROJECTOR`, `DRAFT`, `ADAPTER` and `PORT` stand for names and the port.
    pub args: Vec<String>,
    /// The variables that it gets and reads.
    pub env: BTreeMap<String, String>,
    /// The GPUs that its backend lists, as indices in the machine.
    pub sees: Vec<usize>,
}

/// A start of llama-server with what Ollama decided before it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ServerStart {
    /// The command.
    #[serde(flatten)]
    pub command: ServerCommand,
    /// The GPUs that Ollama chose, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Bytes that it expects the model to need.
    pub predicted: u64,
    /// Bytes available on those GPUs.
    pub available: u64,
    /// What the fit keeps free on each GPU, where it is not llama-server's default.
    pub margin: Option<Bytes>,
    /// Tokens of context per sequence.
    pub num_ctx: u64,
    /// Sequences at once.
    pub parallel: u64,
    /// The batch before it is lowered to the context; 0 where none is sent.
    pub num_batch: u64,
    /// Whether Ollama chose the context.
    pub ctx_auto: bool,
    /// Whether Ollama chose the batch.
    pub batch_auto: bool,
    /// Whether Ollama chose not to map the file.
    pub mmap_auto_off: bool,
}

/// All starts of llama-server for one request, and what Ollama knew before.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStarts {
    /// The GPUs that count, in Ollama's order.
    pub devices: Vec<CountedDevice>,
    /// Their memory in bytes less the overhead on each; the sum wraps.
    pub total_vram: u64,
    /// The context that follows from it, in tokens.
    pub default_ctx: u64,
    /// The starts; the last one succeeds, or is given up.
    pub starts: Vec<ServerStart>,
    /// Whether the last one succeeds.
    pub loaded: bool,
}

/// A GPU that counts for Ollama.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountedDevice {
    /// Its index in the machine.
    pub gpu: usize,
    /// The backend that uses it.
    pub library: Backend,
    /// The folder of that backend.
    pub folder: Option<&'static str>,
    /// Whether it shares its memory with the CPU.
    pub integrated: bool,
    /// Total memory, in whole MiB.
    pub total: Bytes,
    /// Free memory, in whole MiB.
    pub free: Bytes,
}
