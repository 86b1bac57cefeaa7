//! The knobs that an engine offers, which depend on model and machine.

use super::llama_cpp::PreparedModel;
use super::llama_cpp::projector;
use crate::machine::Machine;
use crate::settings::Settings;

/// When a knob is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobCondition {
    /// Always.
    Always,
    /// Never.
    Never,
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
    /// With a projector whose images have as many tokens as an option says.
    ImageTokens,
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
            KnobCondition::Never => false,
            KnobCondition::KvCache => kv_cache(),
            KnobCondition::OneCacheType => kv_cache() && !two_types(),
            KnobCondition::TwoCacheTypes => kv_cache() && two_types(),
            KnobCondition::Experts => self.model.is_some_and(|model| model.hyper.experts.is_some()),
            KnobCondition::Generates => self.model.is_none_or(PreparedModel::generates),
            KnobCondition::Projector => self.settings.projector.is_some(),
            KnobCondition::ImageTokens => self.settings.projector.as_deref().is_some_and(|projector| {
                let asked = self.settings.mmproj.image_max_tokens.is_some();
                projector.header.as_ref().is_some_and(|header| projector::limits_tokens(header, asked))
            }),
            KnobCondition::Draft => self.model.is_some_and(|model| model.drafts_by().is_some()),
            KnobCondition::SeveralGpus => self.machine.gpus.len() > 1,
            KnobCondition::Raw => self.settings.raw,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::engine::{EngineId, PlanRequest, fixtures};
    use crate::settings::knob::Knob;

    /// The knob is offered where a plan has a number of tokens that it changes, and nowhere else.
    #[test]
    fn image_tokens_are_offered_where_they_change_a_plan() {
        let mut offered = Vec::new();
        for entry in catalogue::all().iter().filter(|entry| entry.projector().is_some()) {
            let (model, projector) = catalogue::model_and_projector(&entry.name).unwrap();
            let settings = Settings { projector, ..Settings::default() };
            let request = PlanRequest::new(EngineId::LlamaCpp, model, fixtures::card(), settings);
            let tokens = |most| {
                let asked = request.changed(|settings| settings.mmproj.image_max_tokens = most);
                asked.plan().unwrap().settings.image_max_tokens
            };
            let is_offered = request.knobs().contains(&Knob::ImageTokens);
            let own = tokens(None);
            assert_eq!(is_offered, own.is_some() && tokens(Some(200)) == Some(200), "{}: {own:?}", entry.name);
            if is_offered {
                assert_eq!(Some(Knob::ImageTokens.in_effect(&request.plan().unwrap())), own, "{}", entry.name);
                offered.push(entry.name.as_str());
            }
        }
        assert!(offered.contains(&"qwen2.5vl-7b") && !offered.contains(&"gemma3-4b"), "{offered:?}");
    }
}
