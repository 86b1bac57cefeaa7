//! `plimsoll export`: a plan, taken away.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::args::ExportArgs;
use super::fault::Fault;
use super::{print, questions};
use crate::export::{Format, Found, Subject};
use crate::gguf::FileType;

pub(super) fn run(args: &ExportArgs) -> Result<(), Fault> {
    let (ready, opened) = questions::ready(&args.asked)?;
    let plan = ready.plan(&opened.model)?;
    let found = found(&args.asked.model, args.asked.knobs.others.quant);
    let subject = Subject { request: &ready.request(&opened.model), plan: &plan, found: &found };
    let form = args.form.unwrap_or_else(|| Format::of(plan.engine).first().copied().unwrap_or(Format::Json));
    let text = form.write(&subject).map_err(|sentence| Fault::flag("--as", &sentence))?;
    match &args.output {
        Some(path) => save(path, &text, args.force),
        None => print(&text),
    }
}

/// Where the programs that run it find the model that was named so.
pub(super) fn found(named: &Path, quant: Option<FileType>) -> Found {
    if let Some(quant) = quant {
        // which nobody has made yet, as far as is known here
        return Found::Nowhere(format!("{} as {quant}", named.display()));
    }
    match named.to_str() {
        Some(text) if !named.is_file() => Found::by_reference(text),
        _ => Found::File(named.display().to_string()),
    }
}

fn save(path: &Path, text: &str, force: bool) -> Result<(), Fault> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!force);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Fault::Terminal(format!("'{}' cannot be written: {error}; use --force to overwrite a file", path.display()))
    })
}
