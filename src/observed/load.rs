//! One load of a model as its program reported it, and what the text lacks.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::amount::{Buffers, Mib, Term};
use super::command::CommandLine;
use super::context::{ObservedContext, ObservedSettings};
use super::event::Event;
use super::fit::Fit;
use super::memory::{TablePhase, TableRow};
use super::model::{ObservedDevice, ObservedModel};
use super::ollama::OllamaEstimate;
use crate::machine::CpuInstructions;

/// One load of a model with its drafts and projector.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Number of its first line in the text, from 1.
    pub line: u64,
    /// Its writer, if several write one text: container, unit and process, router port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The program's version as printed: `0.32.13`; of LM Studio that of its engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// llama.cpp's build number as printed or as its folder says; small where a distributor counts its own builds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<u64>,
    /// A build that it must be older than, by the form of its lines.
    #[serde(skip)]
    pub older_than: Option<u64>,
    /// A build that it is not older than, likewise.
    #[serde(skip)]
    pub not_older_than: Option<u64>,
    /// llama.cpp's commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// Path or name by which the model was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The models: the target first, then drafts and further layers of the same file.
    pub models: Vec<ObservedModel>,
    /// The contexts: the target's first.
    pub contexts: Vec<ObservedContext>,
    /// Settings in effect: the context's, with gaps filled from the command.
    pub settings: ObservedSettings,
    /// The CPU's vector instructions, by the features that the program named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuInstructions>,
    /// Devices that the program named.
    pub devices: Vec<ObservedDevice>,
    /// Memory by device and term over all models and contexts, in MiB.
    pub observed: Buffers,
    /// Rows of the breakdown table, the last of each device; whole MiB, cut off.
    pub table: BTreeMap<String, TableRow>,
    /// What a fit's table said to be free, in MiB, also where that of the load took its place.
    #[serde(skip)]
    pub free_before: BTreeMap<String, i64>,
    /// When the table was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_phase: Option<TablePhase>,
    /// The output of `--fit`.
    pub fit: Fit,
    /// Estimate that Ollama printed before its own loads (to 0.12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<OllamaEstimate>,
    /// Size of the projector's tensors, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projector: Option<Mib>,
    /// Whether the buffer lines are a fit's trial, which allocates nothing: caches are 0 there.
    pub is_trial: bool,
    /// Whether the program reported that it was ready.
    pub is_ready: bool,
    /// Events, in order.
    pub events: Vec<Event>,
    /// Which lines report weights, caches and compute buffers of every GPU, if any do.
    pub complete: Option<Complete>,
    /// The lines that say something of it, if the reader keeps them ([`super::Reader::keeping_lines`]).
    #[serde(skip)]
    pub lines: Vec<String>,
}

impl Load {
    /// Whether weights were repacked for the CPU, by a buffer or a row of the table.
    pub fn repacks(&self) -> bool {
        let models = self.models.iter().flat_map(|model| model.observed.keys());
        models.chain(self.observed.keys()).chain(self.table.keys()).any(|name| is_repacked(name))
    }

    /// Whether it reports any memory.
    pub fn has_memory(&self) -> bool {
        !self.observed.is_empty() || !self.table.is_empty() || !self.fit.is_empty() || self.estimate.is_some()
    }

    /// Whether every buffer of weights has nothing in it: those of a trial, which allocates none.
    pub fn weighs_nothing(&self) -> bool {
        let mut weights = self.models.iter().flat_map(|model| model.observed.values()).flat_map(|of| of.values());
        weights.next().is_some_and(|first| first.0 == 0.0) && weights.all(|mib| mib.0 == 0.0)
    }

    /// Whether nothing is known but the machine.
    pub(super) fn is_bare(&self) -> bool {
        let parts = self.models.is_empty() && self.contexts.is_empty() && self.events.is_empty();
        let asked = self.command.is_some() || self.asked.is_some() || !self.settings.is_empty();
        parts && !asked && !self.has_memory() && self.projector.is_none()
    }

    /// Layers on GPUs and layers with the output's, of the target: `offloaded 20/49 layers to GPU`.
    pub fn layers_on_gpus(&self) -> Option<(u64, u64)> {
        let estimate = self.estimate.as_ref();
        let estimated = || estimate.and_then(|estimate| Some((estimate.layers_offload?, estimate.layers_model?)));
        self.models.first().and_then(|model| model.offloaded).or_else(estimated)
    }

    /// Whether flash attention was asked for as `auto` and then turned off, or the log says that it runs on the CPU.
    pub fn flash_attention_off(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            Event::FlashAttentionOff { reason } => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Figures that only the program has, with what they are of: no plan has the same.
    pub fn figures(&self) -> Vec<(&str, Mib)> {
        let of_event = |event| match event {
            &Event::OwnEstimate { model, context } => {
                vec![("its estimate of weights", model), ("of the context", context)]
            }
            Event::Figure { of, size } => vec![(of.as_str(), *size)],
            _ => Vec::new(),
        };
        self.events.iter().flat_map(of_event).collect()
    }

    /// Rank for choosing one of several loads; of equal ones the later is chosen.
    pub(super) fn standing(&self) -> u8 {
        let taken = self.table_phase == Some(TablePhase::Loaded) || self.has_all_buffers();
        match self.complete {
            Some(_) if taken => 3,
            Some(_) => 2,
            None => u8::from(self.has_memory()),
        }
    }

    /// Which lines report weights, caches and compute buffers of every GPU: the table first, as it holds a whole load;
    /// one without a GPU only if buffer lines are missing.
    pub(super) fn completeness(&self) -> Option<Complete> {
        if self.table.keys().any(|name| is_gpu(name)) {
            Some(Complete::Table)
        } else if self.has_all_buffers() {
            Some(Complete::Buffers)
        } else {
            (!self.table.is_empty()).then_some(Complete::Table)
        }
    }

    /// Whether buffer lines report weights, caches and compute buffers of every GPU, or of RAM without a GPU.
    pub fn has_all_buffers(&self) -> bool {
        let any_gpu = self.observed.keys().any(|name| is_gpu(name));
        let devices = || self.observed.iter().filter(|(name, _)| !any_gpu || is_gpu(name));
        let somewhere = |term| devices().any(|(_, terms)| terms.contains_key(&term));
        let cached = somewhere(Term::Kv) || somewhere(Term::Rs);
        // weights may lie in a buffer type of their own: `MTL0_Mapped`, `CUDA_Split`
        let computes = |name: &str| {
            let terms = self.observed.get(device_name(name));
            name.ends_with("_Split") || terms.is_some_and(|terms| terms.contains_key(&Term::Compute))
        };
        let all = !any_gpu || devices().all(|(name, _)| computes(name));
        somewhere(Term::Model) && cached && somewhere(Term::Compute) && all && !self.is_trial
    }
}

/// Whether a buffer's or table's name is that of a GPU's memory rather than of the computer's (`CPU…`, `AMX`, which is a
/// layout of the CPU's, `BLAS`, `Host`, `…_Host`).
pub fn is_gpu(name: &str) -> bool {
    let in_ram = ["AMX", "BLAS", "Host"].contains(&name) || name.starts_with("CPU") || name.ends_with("_Host");
    !in_ram
}

/// Whether a buffer's or table's name is that of weights in a layout of the CPU's own.
pub fn is_repacked(name: &str) -> bool {
    ["CPU_REPACK", "AMX"].contains(&name)
}

/// A device's name without the suffixes of kinds of memory on it.
pub fn device_name(name: &str) -> &str {
    let kinds = ["_Mapped", "_Private", "-REPACK"];
    kinds.into_iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(name)
}

/// What makes a load complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Complete {
    /// Lines of buffers, exact to 0.01 MiB.
    Buffers,
    /// A breakdown table, in whole MiB.
    Table,
}

/// A program whose output is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Program {
    LlamaCpp,
    IkLlamaCpp,
    Ollama,
    LmStudio,
    KoboldCpp,
    #[serde(rename = "localai")]
    LocalAi,
    /// antirez/ds4.
    Ds4,
}

impl Program {
    /// Its name as it writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llama.cpp",
            Self::IkLlamaCpp => "ik_llama.cpp",
            Self::Ollama => "Ollama",
            Self::LmStudio => "LM Studio",
            Self::KoboldCpp => "KoboldCpp",
            Self::LocalAi => "LocalAI",
            Self::Ds4 => "ds4",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that a text does not report of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing of a load at all.
    Load,
    /// llama-server was not verbose enough.
    Verbosity,
    /// The load failed.
    Failed,
    /// There are only figures of the program's own.
    OnlyOwn,
    /// There is only an estimate made before the load.
    OnlyEstimate,
    /// Whole MiB instead of hundredths.
    OnlyTable,
    /// Weights that were read: a trial reads none.
    Trial,
    /// Weights.
    Model,
    /// Caches.
    Cache,
    /// Compute buffers.
    Compute,
    /// The command and every setting.
    Settings,
    /// The model's name and path.
    Name,
}

impl Missing {
    /// What a load lacks, most important first.
    pub(super) fn of(load: Option<&Load>) -> Vec<Self> {
        let Some(load) = load else { return vec![Self::Load] };
        let mut missing = Vec::new();
        if load.events.iter().any(|event| matches!(event, Event::Failed(_) | Event::OutOfMemory { .. })) {
            missing.push(Self::Failed);
        }
        let has = |term| load.observed.values().any(|terms| terms.contains_key(&term));
        if load.observed.is_empty() && load.table.is_empty() {
            let quiet = load.is_ready || load.settings.n_ctx_seq.is_some() || load.settings.cache_ram.is_some();
            missing.push(match load.has_memory() {
                true => Self::OnlyEstimate,
                false if !load.figures().is_empty() => Self::OnlyOwn,
                false if quiet && load.program != Some(Program::Ollama) => Self::Verbosity,
                false => Self::Load,
            });
        } else if load.standing() == 2 {
            missing.push(Self::OnlyEstimate);
        } else if load.complete == Some(Complete::Table) {
            if !(has(Term::Model) && has(Term::Compute)) {
                missing.push(Self::OnlyTable);
            }
        } else if load.complete.is_none() {
            if load.weighs_nothing() {
                missing.push(Self::Trial);
            } else if !has(Term::Model) {
                missing.push(Self::Model);
            }
            let sized = load.contexts.iter().any(|context| !context.caches.is_empty());
            if !(has(Term::Kv) || has(Term::Rs) || sized) {
                missing.push(Self::Cache);
            }
            if !has(Term::Compute) {
                missing.push(Self::Compute);
            }
        }
        if load.command.is_none() && load.settings.n_ctx.is_none() && load.settings.n_ctx_seq.is_none() {
            missing.push(Self::Settings);
        }
        let named = |model: &ObservedModel| model.path.is_some() || model.name.is_some();
        if load.asked.is_none() && !load.models.iter().any(named) {
            missing.push(Self::Name);
        }
        missing
    }
}

/// One sentence, with what to do.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Load => {
                "nothing here says what a model took: give the program's output from its start until the model is loaded"
            }
            Self::Verbosity => {
                "llama-server prints its buffers since May 2026 only with -lv 4: start it once with that, or add --log-jsonl"
            }
            Self::Failed => "the load failed, so that later buffers are not there: compare what was taken until then",
            Self::OnlyOwn => {
                "these figures are the program's own, and no plan has the same: they are shown as they were read"
            }
            Self::OnlyEstimate => {
                "these figures are an estimate made before the load: give the lines until the model is loaded as well"
            }
            Self::OnlyTable => {
                "the table has whole MiB only: give the lines with `buffer size` as well, to compare to the hundredth"
            }
            Self::Trial => {
                "weights of 0.00 MiB are those of a measuring pass, which reads none: give the output until the model is \
                 loaded"
            }
            Self::Model => "the weights' lines are missing: give the output from `load_tensors` on",
            Self::Cache => "the caches' lines are missing: give the output from `llama_context` on",
            Self::Compute => "the compute buffers' lines are missing: give the output until the model is loaded",
            Self::Settings => "no command and no settings are here: give the command line, or choose the settings by hand",
            Self::Name => "the model is not named: give it with --model",
        })
    }
}
