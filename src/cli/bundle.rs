//! `plimsoll report`: what an issue about a plan needs, as Markdown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::args::ReportArgs;
use super::error::{CliError, one_line};
use super::report::{self, Detail, Extent};
use super::resolve::{self, ParsedArgs, ResolvedArgs};
use super::style::Style;
use super::{config, machines, surroundings};
use crate::gguf::{Elements, Header, Value};
use crate::source::{OpenedModel, Package, no_progress, without_secrets};
use crate::units::Bytes;

/// Longest text of a key that is shown.
const MAX_TEXT: usize = 60;
/// Longest array that is shown element by element: one value per block.
const MAX_ELEMENTS: usize = 128;

/// The bundle. What fails is reported in its section, since a failure is what issues are about.
///
/// # Errors
/// If the arguments are wrong.
pub(super) fn run(args: &ReportArgs, arguments: &[OsString]) -> Result<String, CliError> {
    let variable = |name: &str| std::env::var(name).ok();
    let start = ParsedArgs::read(&args.knobs, &args.machine)?;
    let mut out =
        "<!-- Look through this before you post it: it names your devices, programs and model. -->\n".to_owned();
    let mut about = format!("{}\n{}\n", surroundings::version(), surroundings::arguments(arguments));
    about.extend(surroundings::variables().into_iter().map(|(name, value)| format!("{name}={value}\n")));
    section(&mut out, "Program", &about);
    section(&mut out, "Configuration", &config::text(&start.config, &variable, &Style::PLAIN));
    let detected = start.detect();
    section(&mut out, "Machine", &machines::devices_text(&detected, &Style::PLAIN));
    match &args.model {
        None => {
            let opened = resolve::default_model()?;
            section(&mut out, "Model", "the built-in one\n");
            section(&mut out, "Plan", &plan(&start.with(&opened).complete_on(detected), &opened));
        }
        Some(named) => match resolve::open(named) {
            Err(error) => section(&mut out, "Model", &failure(&error)),
            Ok(opened) => {
                section(&mut out, "Model", &model(named, &opened));
                let planned = opened.package(&mut no_progress).map_err(CliError::from);
                let planned = planned.and_then(|package| resolve::for_engine(package, &args.knobs));
                let planned = planned.and_then(|package| resolve::changed(package, &args.knobs.settings));
                let planned = planned.and_then(|package| resolve::with_draft(package, &args.knobs));
                let text = match planned {
                    Ok(package) => plan(&start.with(&package).complete_on(detected), &package),
                    Err(error) => failure(&error),
                };
                section(&mut out, "Plan", &text);
            }
        },
    }
    Ok(without_home(&out))
}

fn section(out: &mut String, title: &str, text: &str) {
    *out += &format!("\n### {title}\n\n```text\n{}\n```\n", text.trim_end().replace("```", "'''"));
}

fn failure(error: &CliError) -> String {
    format!("error: {}\n", surroundings::without_values(&one_line(error.sentence())))
}

/// The plan, or why there is none.
fn plan(ready: &ResolvedArgs, package: &Package) -> String {
    match ready.plan(&package.model) {
        Ok(plan) => {
            report::plan(&plan, None, None, &Extent { detail: Detail::Verbose, ram: &[], releases: &[] }, &Style::PLAIN)
        }
        Err(error) => failure(&error),
    }
}

/// What the model's header says.
fn model(named: &Path, opened: &OpenedModel) -> String {
    let Header { version, endian, metadata, tensors, data_start, misplaced: _, notes } = &opened.header;
    let mut out = format!("{}\n", without_secrets(&one_line(&named.display().to_string())));
    let file = if opened.paths.len() > 1 { format!("{} shards, ", opened.paths.len()) } else { String::new() };
    out += &format!("{file}GGUF version {version}, {endian}-endian, tensors from byte {data_start}\n");
    let mut types: BTreeMap<String, (usize, Bytes)> = BTreeMap::new();
    for tensor in tensors {
        let entry = types.entry(tensor.ty.to_string()).or_default();
        *entry = (entry.0 + 1, entry.1 + tensor.bytes);
    }
    let sum: Bytes = tensors.iter().map(|tensor| tensor.bytes).sum();
    out += &format!("{} tensors of {} bytes:", tensors.len(), sum.0);
    out.extend(types.iter().map(|(ty, (count, bytes))| format!(" {count} {ty} ({bytes})")));
    out.push('\n');
    for projector in opened.projector.iter().chain(&opened.beside) {
        out += &format!("projector: {}\n", one_line(&projector.display().to_string()));
    }
    if !opened.adapters.is_empty() {
        out += &format!("adapters: {}\n", opened.adapters.len());
    }
    out.extend(notes.iter().map(|note| format!("note: {}\n", one_line(note))));
    let is_fact = |key: &str| !key.starts_with("tokenizer.") || key == "tokenizer.ggml.model";
    for (key, value) in metadata.iter().filter(|(key, _)| is_fact(key)) {
        out += &format!("{} = {}\n", one_line(key), shown(value));
    }
    out
}

fn shown(value: &Value) -> String {
    let number = value.as_u64().map(|n| n.to_string());
    let number = number.or_else(|| value.as_i64().map(|n| n.to_string()));
    if let Some(number) = number.or_else(|| value.as_f64().map(|x| x.to_string())) {
        return number;
    }
    match value {
        Value::String(text) => {
            let text = one_line(text);
            let cut: String = text.chars().take(MAX_TEXT).collect();
            if cut.len() < text.len() { format!("{cut}…") } else { cut }
        }
        Value::LongString(range) => format!("a text of {} bytes", range.end - range.start),
        Value::Array(array) => match &array.elements {
            Elements::U32(all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            Elements::I32(all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            Elements::F32(all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            Elements::Bool(all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            Elements::Integers(_, all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            Elements::F64(all) if all.len() <= MAX_ELEMENTS => format!("{all:?}"),
            elements => format!("{} of {:?}", array.len, elements.kind()),
        },
        other => other.as_bool().map_or_else(|| format!("{:?}", other.kind()), |flag| flag.to_string()),
    }
}

/// `text` with the user's home folder as `~`.
fn without_home(text: &str) -> String {
    match directories::BaseDirs::new() {
        Some(dirs) if dirs.home_dir().parent().is_some() => text.replace(&dirs.home_dir().display().to_string(), "~"),
        _ => text.to_owned(),
    }
}
