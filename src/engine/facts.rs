//! What is true of an engine whatever the model, for those who would else have to know its name.

use super::knobs::{KnobCondition, KnobContext};
use crate::machine::Machine;
use crate::settings::knob::Knob;
use crate::settings::{Flag, Release, Settings};

/// Facts about an engine.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct EngineFacts {
    /// The releases of llama.cpp that it can run, the newest first; none for an engine with an estimator of its own.
    pub releases: &'static [Release],
    /// The knobs that it offers, in the order of the screen, and when.
    pub offered_knobs: &'static [(Knob, KnobCondition)],
    /// The flags that it has no use for.
    pub ignores: &'static [Flag],
    /// How a person has it keep memory free on every GPU.
    pub reserve_setting: ReserveSetting,
    /// It is an Ollama: it reads Modelfiles, the options of a request and `OLLAMA_…` variables.
    pub is_ollama: bool,
    /// It starts a llama-server, which reads the `LLAMA_ARG_…` variables of its environment.
    pub starts_llama_server: bool,
    /// Graphs and caches are estimated by formulas; else they are measured.
    pub estimates: bool,
    /// Its context is that of all sequences together (`-c`); else that of one (`num_ctx`).
    pub ctx_is_total: bool,
    /// It counts what a separate projector file takes.
    pub counts_projectors: bool,
    /// It places the output layer after the blocks; others begin with it.
    pub places_output_last: bool,
    /// It uses the GPUs of other computers that joined.
    pub uses_other_computers: bool,
    /// It unloads a model that is idle to make room for another.
    pub evicts: bool,
    /// The most models that it keeps loaded for each GPU; none where there is no limit.
    pub max_loaded_per_gpu: Option<usize>,
}

/// The setting by which memory is kept free on every GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveSetting {
    /// `OLLAMA_GPU_OVERHEAD`
    Overhead,
    /// `--fit-target`
    FitTarget,
}

impl EngineFacts {
    /// The flags in `settings` that were given and that it has no use for.
    pub fn ignored(&self, settings: &Settings) -> Vec<&'static str> {
        self.ignores.iter().filter(|flag| flag.is_given(settings)).map(|flag| flag.name()).collect()
    }

    /// The knobs that it offers in `scene`, in the order of the screen.
    pub fn knobs(&self, scene: &KnobContext<'_>) -> Vec<Knob> {
        self.offered_knobs.iter().filter(|(_, when)| scene.is(*when)).map(|(knob, _)| *knob).collect()
    }

    /// K and V are kept in one type.
    pub fn has_one_cache_type(&self) -> bool {
        self.offered_knobs.iter().any(|(knob, _)| *knob == Knob::CacheType)
    }

    /// The most models that it keeps loaded at once on `machine`; none where there is no limit.
    pub fn max_loaded_models(&self, machine: &Machine) -> Option<usize> {
        self.max_loaded_per_gpu.map(|most| most * machine.gpus.len().max(1))
    }
}
