//! Defaults from Ollama's variables for knobs without an option, each with a note.

use super::args::KnobArgs;
use crate::engine::EngineId;
use crate::settings::ollama::{apply_variables, is_inherited};
use crate::settings::{Flag, Settings};

/// The variables of Ollama's server.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(Vec<(String, String)>);

impl Variables {
    /// Those of `--server-env`, or else of this process. Detected GPUs are those that this process sees, so variables
    /// that hide GPUs are only read for a described machine.
    pub(super) fn of(knobs: &KnobArgs, machine_is_described: bool) -> Self {
        let given = &knobs.ollama.server_env;
        if !given.is_empty() {
            return Self(given.clone());
        }
        let here = std::env::vars_os();
        let here =
            here.filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
        let hides = |name: &str| name.ends_with("_VISIBLE_DEVICES");
        Self(here.filter(|(name, _)| machine_is_described || !hides(name)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

/// Sets `settings` from variables where `knobs` has no option; returns a note for each.
pub(super) fn fill(settings: &mut Settings, knobs: &KnobArgs, engine: EngineId, variables: &Variables) -> Vec<String> {
    if engine.facts().starts_llama_server {
        let inherited = variables.0.iter().filter(|(name, _)| is_inherited(name) && !is_given(name, knobs));
        settings.ollama.server.inherited = inherited.cloned().collect();
    }
    let notes = apply_variables(settings, &|name| variables.get(name).filter(|_| !is_given(name, knobs)));
    if engine.facts().starts_llama_server {
        return notes;
    }
    // earlier releases take what they do not know for f16
    settings.ollama.server.unknown_cache_type = None;
    notes.into_iter().map(|note| note.replace("is passed on as it is, and refused", "is ignored")).collect()
}

/// Whether an option stands for the variable: its own, or of those that Ollama has one variable for, any.
fn is_given(name: &str, knobs: &KnobArgs) -> bool {
    let is_of = |flag: &Flag| {
        flag.row().ollama == Some(name) || flag.row().variables.iter().any(|variable| variable.name == name)
    };
    Flag::ALL.iter().filter(|flag| is_of(flag)).any(|flag| {
        let ollama = flag.row().ollama;
        let same = |given: &Flag| given == flag || ollama.is_some() && given.row().ollama == ollama;
        knobs.given.iter().any(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{CacheType, Context, FlashAttn};
    use crate::units::Bytes;

    fn filled(knobs: &KnobArgs, variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        filled_for(EngineId::Ollama, knobs, variables)
    }

    fn filled_for(engine: EngineId, knobs: &KnobArgs, variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let mut settings = Settings::default();
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let notes = fill(&mut settings, knobs, engine, &Variables(variables.iter().map(owned).collect()));
        (settings, notes)
    }

    #[test]
    fn each_variable_sets_its_knob_with_a_note() {
        let (settings, notes) = filled(
            &KnobArgs::default(),
            &[
                ("OLLAMA_CONTEXT_LENGTH", " 16384 "),
                ("OLLAMA_NUM_PARALLEL", "4"),
                ("OLLAMA_KV_CACHE_TYPE", "\"Q8_0\""),
                ("OLLAMA_FLASH_ATTENTION", "1"),
                ("OLLAMA_GPU_OVERHEAD", "536870912"),
                ("OLLAMA_SCHED_SPREAD", "true"),
            ],
        );
        let expected = Settings {
            ctx: Context::Tokens(16_384),
            parallel: Some(4),
            cache_type_k: Some(CacheType::Q8_0),
            cache_type_v: Some(CacheType::Q8_0),
            flash_attn: FlashAttn::On,
            gpu_overhead: Bytes::mib(512),
            spread: true,
            ..Settings::default()
        };
        assert_eq!((settings, notes.len()), (expected, 6));
    }

    #[test]
    fn options_override_variables() {
        let mut knobs = KnobArgs::default();
        for (flag, text) in [(Flag::Parallel, "2"), (Flag::CacheTypeK, "f16"), (Flag::FlashAttn, "auto")] {
            knobs.give(flag, text).unwrap();
        }
        let variables =
            [("OLLAMA_NUM_PARALLEL", "4"), ("OLLAMA_KV_CACHE_TYPE", "q4_0"), ("OLLAMA_FLASH_ATTENTION", "0")];
        assert_eq!(filled(&knobs, &variables), (Settings::default(), Vec::new()));
    }

    #[test]
    fn what_ollama_ignores_is_ignored_and_said() {
        let variables =
            [("OLLAMA_CONTEXT_LENGTH", "lots"), ("OLLAMA_KV_CACHE_TYPE", "q3"), ("OLLAMA_SCHED_SPREAD", "0")];
        let (settings, notes) = filled_for(EngineId::Ollama024, &KnobArgs::default(), &variables);
        assert_eq!((settings, notes.len()), (Settings::default(), 2));
        let unknown = filled(&KnobArgs::default(), &variables).0.ollama.server.unknown_cache_type;
        assert_eq!(unknown.as_deref(), Some("q3"));
        let zeros = [("OLLAMA_CONTEXT_LENGTH", "0"), ("OLLAMA_NUM_PARALLEL", ""), ("OLLAMA_GPU_OVERHEAD", "0")];
        assert_eq!(filled(&KnobArgs::default(), &zeros), (Settings::default(), Vec::new()));
    }

    #[test]
    fn flash_attention_can_be_forbidden() {
        let (settings, _) = filled(&KnobArgs::default(), &[("OLLAMA_FLASH_ATTENTION", "false")]);
        assert_eq!(settings.flash_attn, FlashAttn::Off);
    }
}
