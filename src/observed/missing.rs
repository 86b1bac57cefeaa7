//! What a text lacks, and what to do about it.

use std::fmt;

use super::{Complete, Event, Load, Program, Term};

/// Something that a text does not tell of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Nothing of a load at all.
    Load,
    /// llama-server keeps its lines to itself.
    Verbosity,
    /// The load failed.
    Failed,
    /// Only the fit's or another estimate, of before the load.
    OnlyEstimate,
    /// Whole MiB instead of hundredths.
    OnlyTable,
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
            if !has(Term::Model) {
                missing.push(Self::Model);
            }
            if !(has(Term::Kv) || has(Term::Rs)) {
                missing.push(Self::Cache);
            }
            if !has(Term::Compute) {
                missing.push(Self::Compute);
            }
        }
        if load.command.is_none() && load.settings.n_ctx.is_none() && load.settings.n_ctx_seq.is_none() {
            missing.push(Self::Settings);
        }
        let named = |model: &super::ObservedModel| model.path.is_some() || model.name.is_some();
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
            Self::OnlyEstimate => {
                "these figures are an estimate made before the load: give the lines until the model is loaded as well"
            }
            Self::OnlyTable => {
                "the table has whole MiB only: give the lines with `buffer size` as well, to compare to the hundredth"
            }
            Self::Model => "the weights' lines are missing: give the output from `load_tensors` on",
            Self::Cache => "the caches' lines are missing: give the output from `llama_context` on",
            Self::Compute => "the compute buffers' lines are missing: give the output until the model is loaded",
            Self::Settings => "no command and no settings are here: give the command line, or choose the settings by hand",
            Self::Name => "the model is not named: give it with --model",
        })
    }
}
