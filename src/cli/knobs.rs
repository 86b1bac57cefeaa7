//! Settings from options, from Ollama's variables and from Modelfiles, in the order in which one stands over the next; options
//! that the engine ignores are reported.

use std::path::{Path, PathBuf};

use serde_json::Map;
use serde_json::Value as Json;

use super::args::KnobArgs;
use super::error::CliError;
use crate::engine::EngineId;
use crate::files;
use crate::settings::ollama::{DraftModel, apply_options, apply_variables, is_inherited, modelfile_parameters};
use crate::settings::program_defaults::written;
use crate::settings::{Flag, Settings, Source};
use crate::source;

/// The settings from `knobs` and, for knobs not given, Ollama's variables; with notes.
pub(super) fn settings(knobs: &KnobArgs, engine: EngineId, variables: &Variables) -> (Settings, Vec<String>) {
    let mut settings = knobs.settings.clone();
    let given = &knobs.ollama;
    settings.ollama.version = given.ollama.unwrap_or_default();
    settings.ollama.endpoint = given.endpoint.unwrap_or_default();
    (settings.ollama.shift, settings.ollama.go_template) = (given.shift, given.go_template);
    let mut notes = Vec::new();
    if !settings.raw && engine == EngineId::LlamaCpp {
        notes.extend(of_program(&mut settings, knobs));
    }
    if !settings.raw {
        notes.extend(fill(&mut settings, knobs, engine, variables));
    }
    // engines report settings that they ignore; the projector's file is none
    if knobs.is_given(Flag::Mmproj) && !engine.facts().counts_projectors {
        notes.push(format!("--mmproj is ignored: {engine} does not plan projectors"));
    }
    (settings, notes)
}

/// Sets what the program sets by itself, where `knobs` has no option; returns a note on it.
fn of_program(settings: &mut Settings, knobs: &KnobArgs) -> Option<String> {
    let defaults = knobs.defaults.filter(|_| !knobs.is_complete)?;
    let mut set: Vec<(Flag, &str)> = defaults.options().to_vec();
    set.retain(|(flag, value)| !knobs.is_told(*flag) && flag.read(settings, value).is_ok());
    let (program, source) = (defaults.program(), defaults.source());
    (!set.is_empty()).then(|| format!("what is not given is as {program} sets it: {} ({source})", written(&set)))
}

/// The variables of Ollama's server.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(Vec<(String, String)>);

impl Variables {
    /// Those of `--server-env`, or else of this process. Detected GPUs are those that this process sees, so variables
    /// that hide GPUs are only read for a described machine.
    pub(super) fn of(knobs: &KnobArgs, machine_is_described: bool) -> Self {
        let given = &knobs.ollama.server_env;
        if !given.is_empty() || knobs.is_complete {
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
        let mut variables = flag.row().variables.iter().filter(|variable| !variable.means.is_alone());
        flag.row().ollama == Some(name) || variables.any(|variable| variable.name == name)
    };
    Flag::ALL.iter().filter(|flag| is_of(flag)).any(|flag| {
        let ollama = flag.row().ollama;
        let same = |given: &Flag| given == flag || ollama.is_some() && given.row().ollama == ollama;
        knobs.given.iter().any(same)
    })
}

/// Sets what `--modelfile` and `--option` set, except for what `knobs` has an option for; returns whether the context
/// and the layers on GPUs are set.
///
/// # Errors
/// If the file cannot be read, or Ollama refuses an option.
pub(super) fn apply(settings: &mut Settings, knobs: &KnobArgs) -> Result<(bool, bool), CliError> {
    let mut given = (false, false);
    if let Some(path) = &knobs.ollama.modelfile {
        let text = read_modelfile(path)?;
        let parameters = modelfile_parameters(&text).map_err(|sentence| CliError::flag("--modelfile", &sentence))?;
        set(settings, knobs, parameters, Source::Modelfile, &mut given, "--modelfile")?;
        files(settings, &text, path)?;
    }
    let mut options = Map::new();
    for (name, value) in &knobs.ollama.option {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Json::String(value.clone()));
        options.insert(name.clone(), value);
    }
    set(settings, knobs, options, Source::Request, &mut given, "--option")?;
    Ok(given)
}

fn set(
    settings: &mut Settings,
    knobs: &KnobArgs,
    mut options: Map<String, Json>,
    source: Source,
    given: &mut (bool, bool),
    option: &str,
) -> Result<(), CliError> {
    for (name, flag) in [("num_ctx", Flag::Context), ("num_batch", Flag::Batch), ("num_gpu", Flag::GpuLayers)] {
        if knobs.is_given(flag) {
            options.remove(name);
        }
    }
    given.0 |= options.contains_key("num_ctx");
    given.1 |= options.contains_key("num_gpu");
    apply_options(settings, &options, source).map_err(|sentence| CliError::flag(option, &sentence))
}

/// Adapters are counted; of a draft model the architecture matters.
fn files(settings: &mut Settings, text: &str, modelfile: &Path) -> Result<(), CliError> {
    for line in text.lines() {
        let Some((word, rest)) = line.trim().split_once(char::is_whitespace) else { continue };
        match word.to_ascii_uppercase().as_str() {
            "ADAPTER" => settings.ollama.adapters += 1,
            "DRAFT" => {
                let header = source::open(&beside(modelfile, rest), &mut source::no_progress)?.header;
                let architecture = header.metadata.get("general.architecture").and_then(|value| value.as_str());
                settings.ollama.draft = Some(DraftModel::of(architecture.unwrap_or_default()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_modelfile(path: &Path) -> Result<String, CliError> {
    let flag = |sentence: &str| CliError::flag("--modelfile", sentence);
    let text = files::text(path, files::TEXT).map_err(|why| flag(&why))?;
    text.ok_or_else(|| flag(&format!("'{}' does not exist: name a Modelfile", path.display())))
}

/// The file that a Modelfile names.
fn beside(modelfile: &Path, named: &str) -> PathBuf {
    modelfile.parent().unwrap_or(Path::new(".")).join(named.trim())
}

/// The draft model that is loaded with the model: as asked for, or else that of the Modelfile.
pub(super) fn draft(knobs: &KnobArgs) -> Result<Option<PathBuf>, CliError> {
    let Some(modelfile) = knobs.ollama.modelfile.as_deref().filter(|_| knobs.model_draft.is_none()) else {
        return Ok(knobs.model_draft.clone());
    };
    let text = read_modelfile(modelfile)?;
    let named = text.lines().find_map(|line| {
        let (word, rest) = line.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("DRAFT").then(|| beside(modelfile, rest))
    });
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::super::args::OllamaArgs;
    use super::*;
    use crate::settings::CacheType;

    fn knobs(given: &[(Flag, &str)]) -> KnobArgs {
        let mut knobs = KnobArgs::default();
        for (flag, text) in given {
            knobs.give(*flag, text).unwrap();
        }
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

#[cfg(test)]
mod environment_tests {
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
