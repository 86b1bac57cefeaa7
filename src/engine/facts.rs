//! Facts about an engine that do not depend on the model, so that no caller has to compare engine names.

use super::knobs::KnobCondition::{
    Always, Draft, Experts, Generates, ImageTokens, KvCache, Never, OneCacheType, Projector, Raw, SeveralGpus,
    TwoCacheTypes,
};
use super::knobs::{KnobCondition, KnobContext};
use crate::machine::Machine;
use crate::model::Model;
use crate::settings::knob::Knob;
use crate::settings::{EngineId, Flag, Release, Settings};

/// Facts about an engine.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct EngineFacts {
    /// The releases of llama.cpp that it can run, newest first; none for an engine with its own estimator.
    pub releases: &'static [Release],
    /// Its column in the table of knobs.
    column: KnobColumn,
    /// The setting that keeps memory free on every GPU.
    pub reserve_setting: ReserveSetting,
    /// An Ollama: reads Modelfiles, request options and `OLLAMA_…` variables.
    pub is_ollama: bool,
    /// Starts a llama-server, which reads the `LLAMA_ARG_…` variables of its environment.
    pub starts_llama_server: bool,
    /// Runs models whose weights are safetensors.
    pub runs_safetensors: bool,
    /// Runs GGUF files.
    pub runs_gguf: bool,
    /// Its context is the total of all sequences (`-c`) rather than that of one (`num_ctx`).
    pub ctx_is_total: bool,
    /// Counts the memory of a separate projector file.
    pub counts_projectors: bool,
    /// Places the output layer after the blocks; other engines place it first.
    pub places_output_last: bool,
    /// Uses GPUs of other computers over RPC.
    pub uses_other_computers: bool,
    /// Unloads idle models to make room for another.
    pub evicts: bool,
    /// Maximum number of loaded models per GPU; none if unlimited.
    pub max_loaded_per_gpu: Option<usize>,
}

/// The setting that keeps memory free on every GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveSetting {
    /// `OLLAMA_GPU_OVERHEAD`
    Overhead,
    /// `--fit-target`
    FitTarget,
}

impl EngineFacts {
    /// The knobs that it offers in `context`, in screen order.
    pub fn knobs(&self, context: &KnobContext<'_>) -> Vec<Knob> {
        let column = self.column as usize;
        KNOBS.iter().filter(|(_, when)| context.is(when[column])).map(|(knob, _)| *knob).collect()
    }

    /// Whether it offers a knob for some model.
    pub fn offers(&self, knob: Knob) -> bool {
        KNOBS.iter().any(|(known, when)| *known == knob && when[self.column as usize] != Never)
    }

    /// Whether K and V share one cache type.
    pub fn has_one_cache_type(&self) -> bool {
        !self.offers(Knob::CacheTypeK)
    }

    /// Maximum number of models loaded at once on `machine`; none if unlimited.
    pub fn max_loaded_models(&self, machine: &Machine) -> Option<usize> {
        self.max_loaded_per_gpu.map(|count| count * machine.gpus.len().max(1))
    }
}

/// A column of [`KNOBS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnobColumn {
    LlamaCpp,
    Ollama,
    Estimator,
    Mlx,
}

/// The knobs in screen order, and when llama.cpp, an Ollama that starts llama-server, one that estimates and MLX offer them.
/// Ollama's batch is also llama-server's ubatch, and it has no option for outputs; llama-server reads the others from its
/// environment.
const KNOBS: [(Knob, [KnobCondition; 4]); Knob::ALL.len()] = [
    (Knob::Context, [Always, Always, Always, Always]),
    (Knob::Parallel, [Always, Always, Always, Always]),
    (Knob::Quant, [Always, Always, Always, Never]),
    (Knob::KvUnified, [KvCache, KvCache, Never, Never]),
    (Knob::CacheType, [OneCacheType, OneCacheType, Always, KvCache]),
    (Knob::CacheTypeK, [TwoCacheTypes, TwoCacheTypes, Never, Never]),
    (Knob::CacheTypeV, [TwoCacheTypes, TwoCacheTypes, Never, Never]),
    (Knob::FlashAttn, [KvCache, KvCache, Always, Never]),
    (Knob::Batch, [Always, Always, Always, Always]),
    (Knob::Ubatch, [Always, Raw, Never, Never]),
    (Knob::Outputs, [Always, Raw, Never, Never]),
    (Knob::GpuLayers, [Always, Always, Always, Never]),
    (Knob::CpuMoe, [Experts, Experts, Never, Never]),
    (Knob::MmprojDevice, [Projector, Never, Never, Never]),
    (Knob::ImageTokens, [ImageTokens, Never, Never, Never]),
    (Knob::TensorSplit, [SeveralGpus, SeveralGpus, Never, Never]),
    (Knob::Draft, [Draft, Never, Never, Never]),
    (Knob::DraftMax, [Draft, Never, Never, Never]),
    (Knob::LoadMode, [Always, Always, Never, Never]),
    (Knob::CacheRam, [Generates, Generates, Never, Never]),
    (Knob::PromptTokens, [Generates, Generates, Generates, Never]),
    (Knob::AnswerTokens, [Generates, Generates, Generates, Never]),
    (Knob::Cached, [Generates, Generates, Generates, Never]),
];

/// llama-server.
const LLAMA_CPP: EngineFacts = EngineFacts {
    releases: &Release::ALL,
    column: KnobColumn::LlamaCpp,
    reserve_setting: ReserveSetting::FitTarget,
    is_ollama: false,
    starts_llama_server: false,
    runs_safetensors: false,
    runs_gguf: true,
    ctx_is_total: true,
    counts_projectors: true,
    places_output_last: false,
    uses_other_computers: true,
    evicts: false,
    max_loaded_per_gpu: None,
};

/// Ollama from 0.30. Maximum number of loaded models: `server/sched.go`, `defaultModelsPerGPU`, Ollama, May 2026.
const OLLAMA: EngineFacts = EngineFacts {
    // the first version that runs llama-server has b9452
    releases: Release::ALL.split_at(Release::May2026 as usize + 1).0,
    column: KnobColumn::Ollama,
    reserve_setting: ReserveSetting::Overhead,
    is_ollama: true,
    starts_llama_server: true,
    runs_safetensors: true,
    ctx_is_total: false,
    uses_other_computers: false,
    evicts: true,
    max_loaded_per_gpu: Some(3),
    ..LLAMA_CPP
};

/// mlx-lm.
const MLX: EngineFacts = EngineFacts {
    releases: &[],
    column: KnobColumn::Mlx,
    starts_llama_server: false,
    runs_safetensors: true,
    runs_gguf: false,
    ctx_is_total: false,
    counts_projectors: false,
    uses_other_computers: false,
    ..LLAMA_CPP
};

/// Ollama up to 0.24.
const OLLAMA_024: EngineFacts = EngineFacts {
    releases: &[],
    column: KnobColumn::Estimator,
    starts_llama_server: false,
    runs_safetensors: false,
    counts_projectors: false,
    ..OLLAMA
};

/// Ollama up to 0.11.
const OLLAMA_011: EngineFacts = EngineFacts { counts_projectors: true, places_output_last: true, ..OLLAMA_024 };

impl EngineId {
    /// The flags given in `settings` that it ignores.
    pub fn ignored(self, settings: &Settings) -> Vec<String> {
        let ignored = Flag::ALL.iter().filter(|flag| !flag.is_read_by(self) && flag.is_given(settings));
        ignored.map(|flag| flag.ignored_as()).collect()
    }

    /// Whether it runs what `model` is stored as.
    pub fn runs(self, model: &Model) -> bool {
        let facts = self.facts();
        if model.mlx.is_some() { facts.runs_safetensors } else { facts.runs_gguf }
    }

    /// The engine's facts, which do not depend on the model.
    pub const fn facts(self) -> &'static EngineFacts {
        match self {
            Self::Ollama => &OLLAMA,
            Self::LlamaCpp => &LLAMA_CPP,
            Self::Mlx => &MLX,
            Self::Ollama024 => &OLLAMA_024,
            Self::Ollama011 => &OLLAMA_011,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_in_the_order_of_the_screen() {
        assert!(KNOBS.is_sorted_by_key(|(knob, _)| Knob::ALL.iter().position(|other| other == knob)));
    }
}
