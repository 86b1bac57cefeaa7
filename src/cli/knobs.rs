//! Settings from options; options that the engine ignores are reported.

use super::args::KnobArgs;
use super::environment::{self, Variables};
use crate::engine::EngineId;
use crate::settings::{Flag, Settings};

/// The settings from `knobs` and, for knobs not given, Ollama's variables; with notes.
pub(super) fn settings(knobs: &KnobArgs, engine: EngineId, variables: &Variables) -> (Settings, Vec<String>) {
    let mut settings = knobs.settings.clone();
    let given = &knobs.ollama;
    settings.ollama.version = given.ollama.unwrap_or_default();
    settings.ollama.endpoint = given.endpoint.unwrap_or_default();
    (settings.ollama.shift, settings.ollama.go_template) = (given.shift, given.go_template);
    let mut notes = Vec::new();
    if !settings.raw {
        notes.extend(environment::fill(&mut settings, knobs, engine, variables));
    }
    // engines report settings that they ignore; the projector's file is none
    if knobs.is_given(Flag::Mmproj) && !engine.facts().counts_projectors {
        notes.push(format!("--mmproj is ignored: {engine} does not plan projectors"));
    }
    (settings, notes)
}

#[cfg(test)]
mod tests {
    use super::super::args::OllamaArgs;
    use super::*;
    use crate::settings::CacheType;

    fn knobs(given: &[(Flag, &str)]) -> KnobArgs {
        let mut knobs = KnobArgs::default();
        given.iter().for_each(|(flag, text)| knobs.give(*flag, text).unwrap());
        knobs
    }

    #[test]
    fn raw_settings_ignore_the_environment() {
        let args = |given: &[(Flag, &str)]| KnobArgs {
            ollama: OllamaArgs {
                server_env: vec![("OLLAMA_NUM_PARALLEL".to_owned(), "4".to_owned())],
                ..OllamaArgs::default()
            },
            ..knobs(given)
        };
        let parallel = |knobs: &KnobArgs| settings(knobs, EngineId::Ollama, &Variables::of(knobs, true)).0.parallel;
        assert_eq!((parallel(&args(&[(Flag::RawSettings, "true")])), parallel(&args(&[]))), (None, Some(4)));
    }

    #[test]
    fn k_and_v_cache_types_can_differ() {
        let (settings, notes) =
            settings(&knobs(&[(Flag::CacheTypeK, "q8_0")]), EngineId::Ollama, &Variables::default());
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), None));
        assert!(notes.is_empty());
    }

    #[test]
    fn a_projector_is_ignored_by_engines_without() {
        let given = knobs(&[(Flag::Mmproj, "")]);
        assert_eq!(settings(&given, EngineId::Ollama024, &Variables::default()).1.len(), 1);
        assert!(settings(&given, EngineId::LlamaCpp, &Variables::default()).1.is_empty());
    }
}
