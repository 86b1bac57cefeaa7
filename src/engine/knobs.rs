//! Which knobs an engine offers: those that mean something to it, for this model on this machine.

use super::EngineId;
use crate::machine::Machine;
use crate::model::Model;
use crate::settings::knob::Knob;

/// When a knob means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Always.
    Always,
    /// For a model with a KV cache.
    KvCache,
    /// For a model with experts.
    Experts,
    /// On several GPUs.
    SeveralGpus,
    /// Where the engine leaves the knobs as they are given.
    Raw,
}

/// What decides whether a knob means something.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The model, if there is one yet.
    pub model: Option<&'a Model>,
    /// The machine.
    pub machine: &'a Machine,
    /// The engine makes no adjustments of its own.
    pub raw: bool,
}

impl Scene<'_> {
    fn is(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::KvCache => self.model.is_none_or(|model| model.hyper.kv_heads.iter().any(|&heads| heads > 0)),
            When::Experts => self.model.is_some_and(|model| model.hyper.experts.is_some()),
            When::SeveralGpus => self.machine.gpus.len() > 1,
            When::Raw => self.raw,
        }
    }
}

/// The Ollamas with estimators of their own.
const ESTIMATORS: &[(Knob, When)] = &[
    (Knob::Context, When::Always),
    (Knob::Parallel, When::Always),
    (Knob::Quant, When::Always),
    (Knob::CacheType, When::Always),
    (Knob::FlashAttn, When::Always),
    (Knob::Batch, When::Always),
    (Knob::GpuLayers, When::Always),
];

/// The Ollama that starts llama-server: its batch is llama-server's ubatch too, and it has no option for outputs. The rest
/// reaches llama-server through the environment.
const OLLAMA: &[(Knob, When)] = &[
    (Knob::Context, When::Always),
    (Knob::Parallel, When::Always),
    (Knob::Quant, When::Always),
    (Knob::KvUnified, When::KvCache),
    (Knob::CacheTypeK, When::KvCache),
    (Knob::CacheTypeV, When::KvCache),
    (Knob::FlashAttn, When::KvCache),
    (Knob::Batch, When::Always),
    (Knob::Ubatch, When::Raw),
    (Knob::Outputs, When::Raw),
    (Knob::GpuLayers, When::Always),
    (Knob::CpuMoe, When::Experts),
    (Knob::TensorSplit, When::SeveralGpus),
];

const LLAMA_CPP: &[(Knob, When)] = &[
    (Knob::Context, When::Always),
    (Knob::Parallel, When::Always),
    (Knob::Quant, When::Always),
    (Knob::KvUnified, When::KvCache),
    (Knob::CacheTypeK, When::KvCache),
    (Knob::CacheTypeV, When::KvCache),
    (Knob::FlashAttn, When::KvCache),
    (Knob::Batch, When::Always),
    (Knob::Ubatch, When::Always),
    (Knob::Outputs, When::Always),
    (Knob::GpuLayers, When::Always),
    (Knob::CpuMoe, When::Experts),
    (Knob::TensorSplit, When::SeveralGpus),
];

impl EngineId {
    /// The knobs that it offers in `scene`, in the order of the screen.
    pub fn knobs(self, scene: &Scene<'_>) -> Vec<Knob> {
        let offers = match self {
            Self::Ollama => OLLAMA,
            Self::LlamaCpp => LLAMA_CPP,
            Self::Ollama024 | Self::Ollama011 => ESTIMATORS,
        };
        offers.iter().filter(|(_, when)| scene.is(*when)).map(|(knob, _)| *knob).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_in_the_order_of_the_screen() {
        for offers in [ESTIMATORS, OLLAMA, LLAMA_CPP] {
            let place = |knob: Knob| Knob::ALL.iter().position(|&other| other == knob);
            assert!(offers.is_sorted_by_key(|(knob, _)| place(*knob)));
        }
    }
}
