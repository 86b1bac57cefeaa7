//! The knobs that an engine offers, which depend on model and machine.

use super::prepared::PreparedModel;
use crate::machine::Machine;
use crate::settings::Settings;

/// When a knob is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobCondition {
    /// Always.
    Always,
    /// For a model with a KV cache.
    KvCache,
    /// For a model with a KV cache whose K and V have one type.
    OneCacheType,
    /// For a model with a KV cache whose K and V have a type each.
    TwoCacheTypes,
    /// For a model with experts.
    Experts,
    /// For a model that generates text.
    Generates,
    /// With a projector.
    Projector,
    /// For a model with MTP blocks, or with a draft beside it.
    Draft,
    /// On several GPUs.
    SeveralGpus,
    /// If the engine makes no adjustments of its own.
    Raw,
}

/// What the conditions of knobs depend on.
#[derive(Clone, Copy, Debug)]
pub struct KnobContext<'a> {
    /// The model, if one is loaded.
    pub model: Option<&'a PreparedModel>,
    /// The machine.
    pub machine: &'a Machine,
    /// The settings.
    pub settings: &'a Settings,
    /// K and V get a type each; if their types differ, they have one each anyway.
    pub two_cache_types: bool,
}

impl KnobContext<'_> {
    pub(super) fn is(&self, when: KnobCondition) -> bool {
        let kv_cache = || self.model.is_none_or(|model| model.hyper.kv_heads.iter().any(|&heads| heads > 0));
        let two_types = || self.two_cache_types || self.settings.has_two_cache_types();
        match when {
            KnobCondition::Always => true,
            KnobCondition::KvCache => kv_cache(),
            KnobCondition::OneCacheType => kv_cache() && !two_types(),
            KnobCondition::TwoCacheTypes => kv_cache() && two_types(),
            KnobCondition::Experts => self.model.is_some_and(|model| model.hyper.experts.is_some()),
            KnobCondition::Generates => self.model.is_none_or(PreparedModel::generates),
            KnobCondition::Projector => self.settings.projector.is_some(),
            KnobCondition::Draft => self.model.is_some_and(|model| model.drafts_by().is_some()),
            KnobCondition::SeveralGpus => self.machine.gpus.len() > 1,
            KnobCondition::Raw => self.settings.raw,
        }
    }
}
