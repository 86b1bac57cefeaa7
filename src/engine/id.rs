//! Names, errors and small types of engines, which other modules may use without the engines themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::machine::{Backend, Machine};
use crate::settings::Settings;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

/// Defines the engines, one line each in the order offered: variant, name on the command line and in JSON, and title.
macro_rules! engines {
    ($($(#[$meta:meta])* $id:ident: $name:literal, $title:literal;)+) => {
        /// The engines that this version knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum EngineId {
            $($(#[$meta])* $id,)+
        }

        impl EngineId {
            /// All engines, in the order offered.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$id),+];

            /// Name on the command line and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }

            /// Name on the screen.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$id => $title,)+ }
            }
        }
    };
}

engines! {
    /// Ollama from 0.30, which starts llama-server.
    #[default]
    Ollama: "ollama", "Ollama ≥ 0.30";
    /// llama-server, with memory as llama.cpp allocates it.
    LlamaCpp: "llama.cpp", "llama.cpp";
    /// Ollama up to 0.24, with its own estimator.
    Ollama024: "ollama-0.24", "Ollama ≤ 0.24";
    /// Ollama up to 0.11, with the estimator before that.
    Ollama011: "ollama-0.11", "Ollama ≤ 0.11";
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EngineId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|engine| engine.name()).collect();
            format!("unknown engine '{text}': use {}", names.join(" or "))
        })
    }
}

/// Why an engine cannot make a plan. (A model that does not fit has a plan, whose verdict reports that.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model's header lacks what this engine needs; exit status 3.
    #[error("{0}")]
    Model(String),
    /// The engine refuses these settings; exit status 2.
    #[error("{0}")]
    Settings(String),
}

/// What the caller of a summary is interested in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitGoal {
    /// As many layers on GPUs as possible.
    Most,
    /// All layers on GPUs or nothing: if not all fit, the engine may stop before it has placed as many as possible.
    AllLayers,
    /// All in VRAM or nothing, likewise.
    Vram,
}

/// How llama-server is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its options, as settings of [`EngineId::LlamaCpp`].
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
