//! What a request and a Modelfile ask of Ollama, in the order in which one overrides the next.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::args::KnobArgs;
use super::error::CliError;
use crate::settings::ollama::{DraftModel, apply_options, modelfile_parameters};
use crate::settings::{Flag, Settings, Source};
use crate::source;

/// Sets what `--modelfile` and `--option` set, except for what `knobs` has an option for; returns whether the context
/// and the layers on GPUs are set.
///
/// # Errors
/// If the file cannot be read, or Ollama refuses an option.
pub(super) fn apply(settings: &mut Settings, knobs: &KnobArgs) -> Result<(bool, bool), CliError> {
    let mut given = (false, false);
    if let Some(path) = &knobs.ollama.modelfile {
        let flag = |sentence: &str| CliError::flag("--modelfile", sentence);
        let text = std::fs::read_to_string(path)
            .map_err(|error| flag(&format!("'{}' cannot be read: {error}", path.display())))?;
        let parameters = modelfile_parameters(&text).map_err(|sentence| flag(&sentence))?;
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
                let file = modelfile.parent().unwrap_or(Path::new(".")).join(rest.trim());
                let header = source::open(&file, &mut source::no_progress)?.header;
                let architecture = header.metadata.get("general.architecture").and_then(|value| value.as_str());
                let dflash = architecture == Some("dflash");
                settings.ollama.draft = Some(if dflash { DraftModel::Dflash } else { DraftModel::Other });
            }
            _ => {}
        }
    }
    Ok(())
}
