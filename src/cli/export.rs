//! `plimsoll export`: a plan in an export format.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::args::ExportArgs;
use super::error::CliError;
use super::{print, questions};
use crate::export::{ExportFormat, ExportInput, ModelLocation};
use crate::gguf::FileType;

pub(super) fn run(args: &ExportArgs) -> Result<(), CliError> {
    let (ready, opened) = questions::ready(&args.asked)?;
    let plan = ready.plan(&opened.model)?;
    let location =
        model_location(&args.asked.model, args.asked.knobs.settings.quant).of_opened(opened.reference.as_deref());
    let request = ready.request(&opened.model);
    let input = ExportInput { request: &request, plan: &plan, location: &location, minimal: args.minimal };
    let form =
        args.form.unwrap_or_else(|| ExportFormat::of(plan.engine).first().copied().unwrap_or(ExportFormat::Json));
    let text = form.write(&input).map_err(|sentence| CliError::flag("--as", &sentence))?;
    match &args.output {
        Some(path) => save(path, &text, args.force),
        None => print(&text),
    }
}

/// Where Ollama or llama-server finds the model `named`.
pub(super) fn model_location(named: &Path, quant: Option<FileType>) -> ModelLocation {
    if let Some(quant) = quant {
        // a file in this quantisation may not exist
        return ModelLocation::Unknown(format!("{} as {quant}", named.display()));
    }
    match named.to_str() {
        Some(text) if !named.is_file() => ModelLocation::by_reference(text),
        _ => ModelLocation::File(named.display().to_string()),
    }
}

fn save(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!force);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        CliError::Terminal(format!("'{}' cannot be written: {error}; use --force to overwrite a file", path.display()))
    })
}
