//! A plan beside what a program said that it took: term by term, with the reason of each difference where one is known.
//!
//! [`check()`] derives settings, machine and engine from a load in a log, plans the same, and compares. A reason is
//! found by trying: the same request in another release, with another placement, without flash attention, …, until the
//! plan agrees with the log.

mod asked;
mod comparison;
pub mod context_fit;
pub mod estimate;
mod evidence;
mod log;
mod reason;
mod rows;
pub mod running;
mod search;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::llama_cpp::Reservation;
use crate::engine::{EngineError, EngineId, PlanRequest, PreparedModel};
use crate::machine::spec::MachineSpec;
use crate::model::Projector;
use crate::model::mixture::Quantisation;
use crate::observed::{Load, Mib};
use crate::settings::{Release, Settings};

pub use asked::beside;
pub use log::override_kv;
pub use reason::Reason;
pub use rows::{ALL, CPU, SplitCheck};

/// What a load is compared with, besides what its text tells.
pub struct CheckRequest<'a> {
    /// The model.
    pub model: Arc<PreparedModel>,
    /// The projector that was found with it; it is planned where the log shows one.
    pub projector: Option<Arc<Projector>>,
    /// Whether the model is read from the file that was loaded, rather than found by its name.
    pub is_same_file: bool,
    /// Parts of the machine that the user described; they stand over the log.
    pub machine: &'a MachineSpec,
    /// The engine, where the user names one.
    pub engine: Option<EngineId>,
    /// The release, where the user names one.
    pub release: Option<Release>,
    /// Knobs that the user gave, which stand over the log.
    pub knobs: &'a dyn Fn(&mut Settings),
}

/// A load beside its plan.
#[derive(Clone, Debug)]
pub struct Check {
    /// The request that was planned.
    pub request: PlanRequest,
    /// The GPUs of its machine as the log names them.
    pub names: Vec<String>,
    /// Which release was planned, and why; none for an engine that runs no llama.cpp.
    pub release: Option<ReleaseChoice>,
    /// The quantisation that was planned instead of the model's own, as its weights are those in the log.
    pub quantisation: Option<Quantisation>,
    /// Every figure of either side.
    pub rows: Vec<Compared>,
    /// Layers on GPUs, where the log tells them.
    pub split: Option<SplitCheck>,
    /// Settings that the log does not tell, so that the engine's defaults are planned.
    pub assumed: Vec<&'static str>,
    /// Settings that the log does not tell, as its figures show them: the plan is one with these.
    pub inferred: Vec<Reason>,
    /// The context that an estimate was planned for, if it was taken from the size of its cache.
    pub inferred_context: Option<u64>,
}

/// The release that was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseChoice {
    /// The release.
    pub release: Release,
    /// Why it.
    pub why: WhyRelease,
}

/// Why a release was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyRelease {
    /// The user chose it.
    Given,
    /// It is the nearest to this build or version, which the log names.
    Nearest(String),
    /// It agrees best, as nothing is known of this version's llama.cpp, or the log names none.
    Agrees(Option<String>),
}

/// What memory is for, as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckedTerm {
    /// Weights.
    Model,
    /// Weights in a layout of the CPU's own.
    Repacked,
    /// KV cache.
    Kv,
    /// Recurrent state.
    Rs,
    /// KV cache and recurrent state together, of a breakdown table.
    Context,
    /// Compute buffer.
    Compute,
    /// Logits.
    Output,
    /// Compressor state (`DSV4`).
    State,
    /// LoRA adapters.
    Lora,
    /// Weights of all blocks, of an estimate.
    RepeatingWeights,
    /// Weights of the output layer, of an estimate.
    OutputWeights,
    /// All weights, of an estimate.
    AllWeights,
    /// The KV cache of all layers, of an estimate.
    AllKv,
    /// The graph with all layers on GPUs, of an estimate.
    GraphFull,
    /// The graph with some layers on GPUs, of an estimate.
    GraphPartial,
    /// All memory, of an estimate.
    RequiredFull,
    /// Memory on GPUs, of an estimate.
    RequiredPartial,
    /// Memory on one GPU, of an estimate.
    Allocation,
}

impl CheckedTerm {
    /// The terms of programs' own buffers, in the order of a report.
    pub const BUFFERS: [Self; 9] = [
        Self::Model,
        Self::Repacked,
        Self::Kv,
        Self::Rs,
        Self::Context,
        Self::Compute,
        Self::Output,
        Self::State,
        Self::Lora,
    ];

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "weights",
            Self::Repacked => "repacked weights",
            Self::Kv => "KV cache",
            Self::Rs => "recurrent state",
            Self::Context => "caches",
            Self::Compute => "compute",
            Self::Output => "output",
            Self::State => "compressor state",
            Self::Lora => "LoRA",
            Self::RepeatingWeights => "weights of the blocks",
            Self::OutputWeights => "weights of the output",
            Self::AllWeights => "all weights",
            Self::AllKv => "all KV caches",
            Self::GraphFull => "graph, full",
            Self::GraphPartial => "graph, partial",
            Self::RequiredFull => "required in all",
            Self::RequiredPartial => "required on GPUs",
            Self::Allocation => "allocation",
        }
    }
}

/// What a figure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Part {
    Model,
    Projector,
    Draft,
}

/// Why a row does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// The figure is the span of a mapped file, at least as long as the weights in it.
    Mapped,
    /// The plan is one of the target alone.
    NotPlanned,
}

/// How a program prints a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// MiB of two decimals.
    #[default]
    Hundredths,
    /// Whole MiB, cut off.
    Whole,
    /// One decimal of KiB, MiB or GiB.
    Decimal,
}

/// One figure, planned and observed, in MiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The log's name of the device, or [`CPU`]; empty where the log does not tell one.
    pub device: String,
    /// What it belongs to.
    pub part: Part,
    /// What it is for.
    pub term: CheckedTerm,
    /// Whether the log's figure is of the load, or of what the fit measured.
    pub of: Reservation,
    /// The plan's figure.
    pub planned: Option<Mib>,
    /// The log's figure.
    pub observed: Option<Mib>,
    /// How far the log's figure may be off, as it is rounded.
    pub tolerance: Mib,
    /// How the log's figure is printed.
    pub precision: Precision,
    /// Whether the log's figure is that of a mapped file.
    pub is_mapped: bool,
    /// Why a difference does not count.
    pub uncounted: Option<Uncounted>,
    /// Why they differ, where a reason is known.
    pub reason: Option<Reason>,
}

impl Compared {
    /// Observed less planned; what one side lacks counts as zero.
    pub fn difference(&self) -> Mib {
        Mib(self.observed.unwrap_or_default().0 - self.planned.unwrap_or_default().0)
    }

    /// Whether both sides have it and are the same to the printed digit.
    pub fn is_same(&self) -> bool {
        self.planned.is_some() && self.observed.is_some() && self.is_within(self.difference())
    }

    /// Whether they are the same to 0.01 MiB per line, or 1 MiB per row of a table of whole MiB.
    pub fn is_exact(&self) -> bool {
        self.is_same() && self.precision != Precision::Decimal
    }

    /// The difference as text: `exact`, `same` as far as the log's rounding tells, `+1.25`.
    pub fn difference_text(&self) -> String {
        match (self.is_exact(), self.is_same()) {
            (true, _) => "exact".to_owned(),
            (_, true) => "same".to_owned(),
            _ => format!("{:+.2}", self.difference().0),
        }
    }

    /// Whether `difference` is what rounding may leave.
    fn is_within(&self, difference: Mib) -> bool {
        // half a unit of binary rounding
        difference.0.abs() <= self.tolerance.0 + 1e-9
    }

    /// Whether the row agrees or does not count.
    pub fn agrees(&self) -> bool {
        let spans = self.uncounted == Some(Uncounted::Mapped) && self.difference().0 >= 0.0;
        self.is_same() || spans || self.uncounted == Some(Uncounted::NotPlanned)
    }
}

impl Check {
    /// Whether everything that both sides should have is the same.
    pub fn agrees(&self) -> bool {
        self.compared() > 0
            && self.rows.iter().all(Compared::agrees)
            && self.split.as_ref().is_none_or(SplitCheck::agrees)
    }

    /// Rows that both sides have.
    pub fn compared(&self) -> usize {
        self.rows.iter().filter(|row| row.planned.is_some() && row.observed.is_some()).count()
    }

    /// Rows that are the same, as far as the log's rounding tells.
    pub fn same(&self) -> usize {
        self.rows.iter().filter(|row| row.is_same()).count()
    }
}

/// Plans what `load` shows and compares.
///
/// # Errors
/// When the engine cannot plan this model with these settings.
pub fn check(load: &Load, request: &CheckRequest<'_>) -> Result<Check, EngineError> {
    comparison::Comparison::new(load, request).check()
}

impl fmt::Display for CheckedTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}
