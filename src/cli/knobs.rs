//! Settings by all that gives options but a model's tag: the command line, a program's own, variables, the configuration, a
//! Modelfile and a request. Which stands over which is [`Source`]'s to say; what the engine ignores is reported.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::args::KnobArgs;
use super::config::Config;
use super::error::CliError;
use crate::engine::EngineId;
use crate::files;
use crate::settings::ollama::{DraftModel, apply_options, apply_variables, modelfile_parameters};
use crate::settings::program_defaults::written;
use crate::settings::{Flag, Settings, Source};
use crate::source;

/// The settings by all that gives options but a model's tag, with notes; `machine_note` is one on the machine.
///
/// # Errors
/// If the Modelfile cannot be read, or Ollama refuses an option.
pub(super) fn settings(
    knobs: &KnobArgs,
    engine: EngineId,
    variables: &[(String, String)],
    config: &Config,
    machine_note: Option<String>,
) -> Result<(Settings, Vec<String>), CliError> {
    let mut settings = knobs.settings.clone();
    let ollama = &knobs.ollama;
    if let Some(version) = ollama.ollama {
        settings.give_version(version);
    }
    settings.ollama.endpoint = ollama.endpoint.unwrap_or_default();
    (settings.ollama.shift, settings.ollama.go_template) = (ollama.shift, ollama.go_template);
    let mut notes = Vec::new();
    if !settings.raw && engine == EngineId::LlamaCpp {
        notes.extend(of_program(&mut settings, knobs));
    }
    if !settings.raw {
        notes.extend(apply_variables(&mut settings, variables, engine.facts().starts_llama_server));
    }
    // engines report settings that they ignore; the projector's file is none
    if settings.is_given(Flag::Mmproj) && !engine.facts().counts_projectors {
        notes.push(format!("--mmproj is ignored: {engine} does not plan projectors"));
    }
    notes.extend(knobs.remarks.iter().cloned());
    notes.extend(machine_note);
    if !settings.raw && !knobs.is_complete {
        notes.extend(config.apply(&mut settings, engine));
    }
    if let Some(path) = &ollama.modelfile {
        let text = read_modelfile(path)?;
        let refused = |sentence: String| CliError::flag("--modelfile", &sentence);
        let parameters = modelfile_parameters(&text).map_err(refused)?;
        apply_options(&mut settings, &parameters, Source::Modelfile).map_err(refused)?;
        files(&mut settings, &text, path)?;
    }
    let options = ollama.option.iter().map(|(name, value)| {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Json::String(value.clone()));
        (name.clone(), value)
    });
    apply_options(&mut settings, &options.collect(), Source::Request)
        .map_err(|sentence| CliError::flag("--option", &sentence))?;
    Ok((settings, notes))
}

/// Sets what the program sets by itself; returns a note on it.
fn of_program(settings: &mut Settings, knobs: &KnobArgs) -> Option<String> {
    let defaults = knobs.defaults.filter(|_| !knobs.is_complete)?;
    let mut set: Vec<(Flag, &str)> = defaults.options().to_vec();
    set.retain(|(flag, value)| settings.give(*flag, value, Source::Program) == Ok(true));
    let (program, source) = (defaults.program(), defaults.source());
    (!set.is_empty()).then(|| format!("what is not given is as {program} sets it: {} ({source})", written(&set)))
}

/// The variables of Ollama's server: those of `--server-env`, or else of this process. Detected GPUs are those that this
/// process sees, so variables that hide GPUs are only read for a described machine.
pub(super) fn variables(knobs: &KnobArgs, machine_is_described: bool) -> Vec<(String, String)> {
    let given = &knobs.ollama.server_env;
    if !given.is_empty() || knobs.is_complete {
        return given.clone();
    }
    let here = std::env::vars_os();
    let here = here.filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let hides = |name: &str| name.ends_with("_VISIBLE_DEVICES");
    here.filter(|(name, _)| machine_is_described || !hides(name)).collect()
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
    use crate::settings::{CacheType, Context, GpuLayers};

    fn knobs(given: &[(Flag, &str)]) -> KnobArgs {
        let mut knobs = KnobArgs::default();
        for (flag, text) in given {
            knobs.give(*flag, text, Source::CommandLine).unwrap();
        }
        knobs
    }

    fn of(knobs: &KnobArgs, engine: EngineId) -> (Settings, Vec<String>) {
        settings(knobs, engine, &knobs.ollama.server_env, &Config::default(), None).unwrap()
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
        let parallel = |knobs: &KnobArgs| of(knobs, EngineId::Ollama).0.parallel;
        assert_eq!((parallel(&args(&[(Flag::RawSettings, "true")])), parallel(&args(&[]))), (None, Some(4)));
    }

    #[test]
    fn options_stand_over_a_request() {
        let option = [("num_ctx", "\"wrong\""), ("num_gpu", "7")];
        let option = option.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let args =
            KnobArgs { ollama: OllamaArgs { option, ..OllamaArgs::default() }, ..knobs(&[(Flag::Context, "4096")]) };
        let settings = of(&args, EngineId::Ollama).0;
        assert_eq!((settings.ctx, settings.gpu_layers), (Context::Tokens(4096), GpuLayers::Count(7)));
    }

    #[test]
    fn k_and_v_cache_types_can_differ() {
        let (settings, notes) = of(&knobs(&[(Flag::CacheTypeK, "q8_0")]), EngineId::Ollama);
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), None));
        assert!(notes.is_empty());
    }

    #[test]
    fn a_projector_is_ignored_by_engines_without() {
        let given = knobs(&[(Flag::Mmproj, "")]);
        assert_eq!(of(&given, EngineId::Ollama024).1.len(), 1);
        assert!(of(&given, EngineId::LlamaCpp).1.is_empty());
    }
}
