//! The knobs that an engine offers, which depend on model and machine.

use crate::machine::Machine;
use crate::model::Model;

/// When a knob is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobCondition {
    /// Always.
    Always,
    /// For a model with a KV cache.
    KvCache,
    /// For a model with experts.
    Experts,
    /// On several GPUs.
    SeveralGpus,
    /// If the engine makes no adjustments of its own.
    Raw,
}

/// What the conditions of knobs depend on.
#[derive(Clone, Copy, Debug)]
pub struct KnobContext<'a> {
    /// The model, if one is loaded.
    pub model: Option<&'a Model>,
    /// The machine.
    pub machine: &'a Machine,
    /// The engine makes no adjustments of its own.
    pub raw: bool,
}

impl KnobContext<'_> {
    pub(super) fn is(&self, when: KnobCondition) -> bool {
        match when {
            KnobCondition::Always => true,
            KnobCondition::KvCache => {
                self.model.is_none_or(|model| model.hyper.kv_heads.iter().any(|&heads| heads > 0))
            }
            KnobCondition::Experts => self.model.is_some_and(|model| model.hyper.experts.is_some()),
            KnobCondition::SeveralGpus => self.machine.gpus.len() > 1,
            KnobCondition::Raw => self.raw,
        }
    }
}
