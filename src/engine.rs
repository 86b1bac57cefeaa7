//! Who decides where things go. An engine is a pure function of a model, a machine and settings:
//! no clock, no file, no environment, no terminal.

pub mod backend;
mod choice;
mod company;
pub mod ggml;
mod graph_size;
mod knobs;
pub mod kvcache;
mod layout;
pub mod llama_cpp;
mod ollama;
pub mod ollama_011;
pub mod ollama_024;
mod outlook;
mod request;
#[cfg(test)]
mod toy;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::machine::{Machine, joined};
use crate::model::Model;
use crate::plan::{Gist, Plan};
use crate::settings::knob::Knob;
use crate::settings::{Outputs, Settings};
use crate::units::Bytes;
use llama_cpp::fit::Gauge;

pub use choice::Choice;
pub use company::{Reception, receive};
pub use graph_size::formulas;
pub use knobs::Scene;
pub use llama_cpp::courses::Courses;
pub use llama_cpp::fit::sketch::{Basis, Extent, Graphs, Site, Sketch, Wanted};
pub use outlook::{Hope, Outlook};

/// The engines that this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EngineId {
    /// Ollama from 0.30, which starts llama-server.
    #[default]
    Ollama,
    /// Ollama up to 0.24, with its own estimator.
    Ollama024,
    /// Ollama up to 0.11, with the estimator before that.
    Ollama011,
    /// llama-server, with memory as llama.cpp allocates it.
    LlamaCpp,
}

impl EngineId {
    /// Every engine, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Ollama, Self::LlamaCpp, Self::Ollama024, Self::Ollama011];

    /// Its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::Ollama024 => "ollama-0.24",
            Self::Ollama011 => "ollama-0.11",
            Self::LlamaCpp => "llama.cpp",
        }
    }

    /// The options in `settings` that were given and that it has no use for, by their names on the command line.
    pub fn ignored(self, settings: &Settings) -> Vec<&'static str> {
        let Settings { ubatch, kv_unified, no_kv_offload, no_op_offload, swa_full, .. } = *settings;
        let given = match self {
            Self::Ollama => vec![
                ("--ubatch", ubatch.is_some()),
                ("--no-op-offload", no_op_offload),
                ("--outputs", settings.outputs != Outputs::default()),
                ("--fit-ctx", settings.fit_ctx.is_some()),
                ("--require-full", settings.require_full),
            ],
            Self::Ollama024 | Self::Ollama011 => vec![
                ("--ubatch", ubatch.is_some()),
                ("--kv-unified", kv_unified),
                ("--no-kv-offload", no_kv_offload),
                ("--no-op-offload", no_op_offload),
                ("--swa-full", swa_full),
                ("--tensor-split", !settings.tensor_split.is_empty()),
                ("--outputs", settings.outputs != Outputs::default()),
                ("--fit-target", settings.fit_target.is_some()),
                ("--fit-ctx", settings.fit_ctx.is_some()),
                ("--n-cpu-moe", settings.n_cpu_moe.is_some()),
                ("--release", settings.release.is_some()),
            ],
            Self::LlamaCpp => vec![
                ("--gpu-overhead", settings.gpu_overhead > Bytes::ZERO),
                ("--adapters", settings.adapters > Bytes::ZERO),
                ("--spread", settings.spread),
                ("--require-full", settings.require_full),
            ],
        };
        given.into_iter().filter_map(|(name, given)| given.then_some(name)).collect()
    }

    /// It counts what a separate projector file takes.
    pub const fn counts_projectors(self) -> bool {
        matches!(self, Self::Ollama | Self::Ollama011)
    }

    /// The smallest change of `knob` that it can tell apart, in the knob's own unit: its values between two multiples of
    /// this are planned alike.
    pub const fn grain(self, _knob: Knob, _settings: &Settings) -> u64 {
        match self {
            // caches grow in steps of 256 tokens, but Ollama's choices and small batches follow each token
            Self::Ollama | Self::LlamaCpp | Self::Ollama024 | Self::Ollama011 => 1,
        }
    }

    /// Values of `knob` after which its own rules ask for something else, so that the need may jump or fall there.
    pub fn edges(self, knob: Knob, settings: &Settings) -> Vec<u64> {
        match self {
            Self::Ollama => ollama::edges(knob, settings),
            Self::Ollama024 | Self::Ollama011 | Self::LlamaCpp => Vec::new(),
        }
    }

    /// Whether it places the output layer after the blocks; others begin with it.
    pub const fn places_output_last(self) -> bool {
        match self {
            Self::Ollama | Self::LlamaCpp | Self::Ollama024 => false,
            Self::Ollama011 => true,
        }
    }

    /// Whether it unloads a model that is idle to make room for another.
    pub const fn evicts(self) -> bool {
        match self {
            Self::Ollama | Self::Ollama024 | Self::Ollama011 => true,
            Self::LlamaCpp => false,
        }
    }

    /// The most models that it keeps loaded at once; none where there is no limit.
    /// Source: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
    pub fn most_loaded(self, machine: &Machine) -> Option<usize> {
        match self {
            Self::LlamaCpp => None,
            Self::Ollama | Self::Ollama024 | Self::Ollama011 => Some(3 * machine.gpus.len().max(1)),
        }
    }

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama ≥ 0.30",
            Self::Ollama024 => "Ollama ≤ 0.24",
            Self::Ollama011 => "Ollama ≤ 0.11",
            Self::LlamaCpp => "llama.cpp",
        }
    }
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

/// Why an engine makes no plan at all. (A layout that does not fit is a plan, with a verdict that says so.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model's header lacks what this engine needs; exit status 3.
    #[error("{0}")]
    Model(String),
    /// The engine refuses these settings; exit status 2.
    #[error("{0}")]
    Settings(String),
}

/// How llama-server is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its options, as settings of [`EngineId::LlamaCpp`].
    pub options: Settings,
    /// The machine's GPUs that it is shown, by their places.
    pub gpus: Vec<usize>,
}

/// How `engine` would start llama-server for this plan; none for engines that do not.
///
/// # Errors
/// As [`plan`].
pub fn launch(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<Option<Launch>, EngineError> {
    match engine {
        EngineId::Ollama => ollama::launch(model, &one_computer(machine), settings).map(Some),
        EngineId::LlamaCpp => Ok(Some(Launch { options: settings.clone(), gpus: llama_cpp::visible(machine) })),
        EngineId::Ollama024 | EngineId::Ollama011 => Ok(None),
    }
}

/// Plans `model` on `machine` as `engine` would.
///
/// # Errors
/// When the header lacks a key that the engine cannot do without, or the engine refuses the settings.
pub fn plan(engine: EngineId, model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    match engine {
        EngineId::Ollama => of_one_computer(ollama::plan, model, machine, settings),
        EngineId::Ollama024 => of_one_computer(ollama_024::plan, model, machine, settings),
        EngineId::Ollama011 => of_one_computer(ollama_011::plan, model, machine, settings),
        EngineId::LlamaCpp => llama_cpp::plan(model, machine, settings),
    }
}

/// The same by graphs that were measured for this very plan; none from an engine that is as quick to plan.
///
/// # Errors
/// As [`plan`].
pub fn plan_by(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    sketch: &Sketch<'_>,
) -> Result<Option<Plan>, EngineError> {
    let gauge = Gauge::Sketch(sketch);
    let by_ollama =
        |model: &Model, machine: &Machine, settings: &Settings| ollama::plan_gauged(gauge, model, machine, settings);
    match engine {
        EngineId::Ollama => of_one_computer(by_ollama, model, machine, settings).map(Some),
        EngineId::LlamaCpp => llama_cpp::plan_gauged(gauge, model, machine, settings).map(Some),
        EngineId::Ollama024 | EngineId::Ollama011 => Ok(None),
    }
}

/// As an engine plans that uses the GPUs of one computer.
fn of_one_computer(
    of_one_computer: impl Fn(&Model, &Machine, &Settings) -> Result<Plan, EngineError>,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    let Some(alone) = machine.alone() else { return of_one_computer(model, machine, settings) };
    let mut plan = of_one_computer(model, &alone, settings)?;
    let others = joined::names(&machine.gpus).join(", ");
    plan.notes.push(format!("Ollama uses the GPUs of one machine only: those of {others} are not used"));
    Ok(plan)
}

/// What a plan is wanted for, by those who read its [`Gist`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// As much on GPUs as fits.
    Most,
    /// Every layer on GPUs, or nothing: where that cannot be had, the engine may stop before it has placed as many layers
    /// as it could.
    EveryLayer,
}

/// What the plan of `engine` comes to, without the explanations that make a plan.
///
/// # Errors
/// As [`plan`].
pub fn gist(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    aim: Aim,
) -> Result<Gist, EngineError> {
    let quick = || plan(engine, model, machine, settings).map(|plan| Gist::of(&plan));
    gauged(Gauge::Graph, engine, model, machine, settings, aim)?.map_or_else(quick, Ok)
}

/// The same by graphs of other plans, to be looked at exactly before anybody relies on it; none from an engine that is as
/// quick to plan.
///
/// # Errors
/// As [`plan`].
pub fn sketch(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    aim: Aim,
    sketch: &Sketch<'_>,
) -> Result<Option<Gist>, EngineError> {
    gauged(Gauge::Sketch(sketch), engine, model, machine, settings, aim)
}

/// What a plan comes to by this gauge; none from an engine without graphs.
fn gauged(
    gauge: Gauge<'_>,
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    aim: Aim,
) -> Result<Option<Gist>, EngineError> {
    match engine {
        EngineId::Ollama => ollama::gist(model, &one_computer(machine), settings, aim, gauge).map(Some),
        EngineId::LlamaCpp => llama_cpp::gist(model, machine, settings, aim, gauge).map(Some),
        EngineId::Ollama024 | EngineId::Ollama011 => Ok(None),
    }
}

/// The machine without other computers, whose GPUs Ollama does not use.
fn one_computer(machine: &Machine) -> Cow<'_, Machine> {
    machine.alone().map_or(Cow::Borrowed(machine), Cow::Owned)
}

/// What is certain of the plan of `engine` before it is made; none from an engine that is as quick to plan.
///
/// # Errors
/// As [`plan`].
pub fn outlook(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    courses: &Courses,
) -> Result<Option<Outlook>, EngineError> {
    match engine {
        EngineId::Ollama => ollama::outlook(model, &one_computer(machine), settings, courses).map(Some),
        EngineId::LlamaCpp => llama_cpp::outlook(model, machine, settings, courses).map(Some),
        EngineId::Ollama024 | EngineId::Ollama011 => Ok(None),
    }
}

/// What `engine` asks of llama.cpp, which builds the graph and reserves its buffers; none for an engine that estimates.
///
/// # Errors
/// As [`plan`].
pub fn settled(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<Option<llama_cpp::settled::Settled>, EngineError> {
    match engine {
        EngineId::Ollama => ollama::settled(model, &one_computer(machine), settings).map(Some),
        EngineId::LlamaCpp => llama_cpp::settled(model, machine, settings).map(Some),
        EngineId::Ollama024 | EngineId::Ollama011 => Ok(None),
    }
}
