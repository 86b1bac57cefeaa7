//! Commands about a plan: all questions, several models together, and `plimsoll export`.

use std::io::ErrorKind;
use std::path::Path;

use super::args::{AboutPlan, Ask, ExportArgs, KnobArgs, MachineArgs, PlanArgs, QueryArgs, TogetherArgs};
use super::error::{self, CliError};
use super::out::print;
use super::resolve::{self, ParsedArgs, ResolvedArgs};
use super::status_line::Working;
use super::style::Style;
use crate::answer::together::{LoadRequest, ServedModels};
use crate::command::router::RouterKind;
use crate::command::{Router, Start, names};
use crate::engine::{EngineId, PlanRequest};
use crate::export::several::NamedModel;
use crate::export::{AnswerSource, ExportFormat, ExportInput, ModelLocation, Scenario};
use crate::files;
use crate::gguf::write::{Encoding, HeaderSpec, write};
use crate::machine::visible::hides_gpus;
use crate::model::Model;
use crate::model::mixture::Quantisation;
use crate::question::arguments::{Arguments, AskedWith, Form};
use crate::question::together::{self, Named, TogetherAnswer};
use crate::question::{About, Question};
use crate::settings::knob::Knob;
use crate::settings::{Flag, Settings};
use crate::source::{Package, roots};
use crate::text;

impl<A: Arguments> AboutPlan for Ask<A> {
    fn asked(&mut self) -> &mut QueryArgs {
        &mut self.asked
    }

    fn run(&mut self) -> Result<(), CliError> {
        print(&answer(self)?)
    }
}

/// The answer to a question, in the form that was asked for.
fn answer<A: Arguments>(Ask { asked, own }: &mut Ask<A>) -> Result<String, CliError> {
    own.before(&mut asked.knobs.engine, &asked.machine.of_gpus()).map_err(CliError::Arguments)?;
    let (ready, opened) = ready(asked)?;
    let request = ready.request(&opened.model);
    // without a plan of what was asked for, there is no answer in any form
    let plan = ready.plan(&opened.model)?;
    let about = About { request: &request, plan: &plan, source: &resolve::source(&opened, &asked.model) };
    let preferences = &ready.config.preferences;
    let asked_with = AskedWith {
        knobs: held(&asked.knobs),
        ram: asked.machine.ram.is_some(),
        margin: preferences.margin,
        minimums: preferences.minimums,
        location: location_of(&opened, &asked.model, asked.knobs.settings.quant),
        notes: ready.notes.clone(),
    };
    let question = own.question(about, &asked_with).map_err(CliError::Arguments)?;
    let searching = Working::on_stderr("searching", None);
    let answer = question.answer(about).map_err(CliError::Arguments)?;
    drop(searching);
    let written = match own.form() {
        Form::Json => return json(text::json(&question.record(about, &answer))),
        Form::Csv => question.csv(about, &answer),
        Form::Svg => question.svg(about, &answer),
        Form::Page => None,
    };
    Ok(written.unwrap_or_else(|| Style::of_stdout().page(&question.page(about, &answer))))
}

impl AboutPlan for ExportArgs {
    fn asked(&mut self) -> &mut QueryArgs {
        &mut self.asked
    }

    fn run(&mut self) -> Result<(), CliError> {
        export(self)
    }
}

/// The knobs given as options, in the order of the screen.
fn held(knobs: &KnobArgs) -> Vec<Knob> {
    // --cpu-moe is the same knob, for all layers
    let is_of = |flag: Flag, knob: Knob| flag.name() == knob.name() || (flag, knob) == (Flag::CpuMoe, Knob::CpuMoe);
    let is_given = |knob: &Knob| knobs.settings.given_options().any(|flag| is_of(flag, *knob));
    Knob::ALL.into_iter().filter(|knob| knob.moves_plans() && is_given(knob)).collect()
}

/// Several models loaded on one machine.
pub(super) fn several(args: &TogetherArgs) -> Result<String, CliError> {
    let asked: Vec<ModelAndKnobs<'_>> =
        args.models.iter().map(|text| model_and_knobs(text)).collect::<Result<_, _>>()?;
    // a file that is named several times is opened once
    let mut opened: Vec<(&str, Package)> = Vec::new();
    for (model, _) in &asked {
        if !opened.iter().any(|(known, _)| known == model) {
            let package = resolve::package(Path::new(model), &args.knobs)?;
            opened.push((model, package));
        }
    }
    let mut ready = ParsedArgs::read(&args.knobs, &args.machine)?.complete();
    let mut loads = Vec::with_capacity(asked.len());
    for (model, knobs) in &asked {
        let Some((_, package)) = opened.iter().find(|(known, _)| known == model) else { continue };
        let (settings, notes) = ready.settings_for(package, knobs)?;
        ready.notes.extend(notes.into_iter().map(|note| format!("{model}: {note}")));
        loads.push((package, settings));
    }
    let requests: Vec<LoadRequest<'_>> = loads
        .iter()
        .map(|(package, settings)| LoadRequest { model: &package.model, path: package.blob(), settings })
        .collect();
    let kind = args.router.or(args.models_max.map(|_| RouterKind::LlamaServer));
    let router = with_most(Router::of(kind, requests.len()), args.models_max)?;
    if router != Router::None && ready.engine != EngineId::LlamaCpp {
        let sentence = "a router starts servers of llama.cpp: use --engine llama.cpp, or leave --router out";
        return Err(CliError::flag("--router", sentence));
    }
    let planning = Working::on_stderr("planning", None);
    let served = ServedModels::of(router, ready.engine, &ready.machine, &requests)?;
    drop(planning);
    if let Some(form) = args.form {
        if args.pin && !form.can_be_pinned() {
            return Err(CliError::flag("--pin", &format!("{form} has no such options")));
        }
        let model = |((name, _), (package, settings)): (&ModelAndKnobs<'_>, &(&Package, Settings))| NamedModel {
            name: (*name).to_owned(),
            request: PlanRequest::new(ready.engine, package.model.clone(), ready.machine.clone(), settings.clone()),
            location: location_of(package, Path::new(name), settings.quant),
        };
        let models: Vec<NamedModel> = asked.iter().zip(&loads).map(model).collect();
        let text = form.write(&models, &served, args.pin).map_err(|sentence| CliError::flag("--as", &sentence))?;
        return match &args.output {
            Some(path) => save(path, &text, args.force).map(|()| String::new()),
            None => Ok(text),
        };
    }
    let source = AnswerSource::of_engine(ready.engine, &ready.settings, served.loaded.confidence());
    let each = asked.iter().zip(&loads).zip(&args.models);
    let named: Vec<Named> = each
        .map(|(((model, _), (package, _)), name)| Named {
            name: name.clone(),
            source: resolve::source(package, Path::new(model)),
        })
        .collect();
    if args.json {
        return json(text::json(&TogetherAnswer::of(source, &named, &ready.machine, &served)));
    }
    if args.csv {
        return Ok(together::csv(&named, &served));
    }
    let names = args.models.iter().enumerate().map(|(at, name)| ((at + 1).to_string(), name.clone()));
    let mut page = together::page(&names.collect::<Vec<_>>(), &ready.machine, &served, "");
    together::source(&source.to_string(), &served, ready.engine, &ready.notes, &mut page);
    Ok(Style::of_stdout().page(&page))
}

/// The router with the limit that was given.
fn with_most(router: Router, most: Option<usize>) -> Result<Router, CliError> {
    match (router, most) {
        (router, None) => Ok(router),
        (Router::LlamaServer(_), Some(most)) => Ok(Router::LlamaServer(most)),
        _ => Err(CliError::flag("--models-max", "only llama-server's router has this limit")),
    }
}

/// All servers that a file starts, together.
pub(super) fn started(args: &PlanArgs, all: &[Start], router: Router) -> Result<String, CliError> {
    let mut detected = None;
    let mut loads: Vec<(ResolvedArgs, Package)> = Vec::new();
    for start in all {
        let wrong = |sentence: &str| CliError::flag("--command", &format!("{}: {sentence}", start.name));
        let mut knobs = args.knobs.clone();
        knobs.take(start).map_err(|sentence| wrong(&sentence))?;
        let limit = start.ram_limit.as_ref().map(|limit| format!("{} is not planned with others", limit.stated));
        knobs.remarks.extend(limit);
        let named = start.model.as_deref().ok_or_else(|| wrong(&start.without_model()))?;
        // one machine is planned for, whose GPUs all of them see
        let of_all = |variable: &&(String, String)| all.iter().all(|other| other.variables.contains(variable));
        let (variables, own): (Vec<_>, Vec<_>) = start.variables.iter().partition(of_all);
        let own = own.into_iter().filter(|(name, _)| hides_gpus(name));
        knobs.remarks.extend(own.map(|(name, value)| format!("{name}={value} is not planned with others")));
        let machine = MachineArgs { variables: variables.into_iter().cloned().collect(), ..args.machine.clone() };
        let parsed = ParsedArgs::read(&knobs, &machine)?;
        let package = resolve::package_or_namesake(Path::new(named), &knobs)?;
        let detected = detected.get_or_insert_with(|| parsed.detect()).clone();
        loads.push((parsed.with(&package).complete_on(detected), package));
    }
    let Some((first, _)) = loads.first() else { return Ok(String::new()) };
    if loads.iter().any(|(other, _)| other.engine != first.engine) {
        let sentence = format!("it starts servers of several engines: choose one with --pick, of {}", names(all));
        return Err(CliError::flag("--command", &sentence));
    }
    let requests: Vec<LoadRequest<'_>> = loads
        .iter()
        .map(|(ready, package)| LoadRequest { model: &package.model, path: package.blob(), settings: &ready.settings })
        .collect();
    let served = ServedModels::of(with_most(router, args.models_max)?, first.engine, &first.machine, &requests)?;
    let source = AnswerSource::of_engine(first.engine, &first.settings, served.loaded.confidence());
    if args.json {
        let named = all.iter().zip(&loads).map(|(start, (_, package))| Named {
            name: start.name.clone(),
            source: resolve::source(package, Path::new(start.model.as_deref().unwrap_or_default())),
        });
        let named: Vec<Named> = named.collect();
        return json(text::json(&TogetherAnswer::of(source, &named, &first.machine, &served)));
    }
    let labels = all.iter().enumerate().map(|(at, start)| ((at + 1).to_string(), start.name.clone()));
    let mut page = together::page(&labels.collect::<Vec<_>>(), &first.machine, &served, "");
    let mut notes: Vec<String> = Vec::new();
    for note in loads.iter().zip(all).flat_map(|((ready, _), start)| ready.notes.iter().map(move |note| (start, note)))
    {
        // what holds for all is said once
        let (start, note) = note;
        let of_all = loads.iter().all(|(ready, _)| ready.notes.contains(note));
        let note = if of_all { note.clone() } else { format!("{}: {note}", start.name) };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.push(format!("--pick plans one of them alone: {}", names(all)));
    together::source(&source.to_string(), &served, first.engine, &notes, &mut page);
    Ok(Style::of_stdout().page(&page))
}

/// A model's name, and its knobs with their values.
type ModelAndKnobs<'a> = (&'a str, Vec<(Knob, &'a str)>);

/// Parses a model with its own knobs: `llama3.1:8b,ctx=32k,kv-type=q8_0`.
fn model_and_knobs(text: &str) -> Result<ModelAndKnobs<'_>, CliError> {
    let (mut model, mut knobs) = (text, Vec::new());
    while let Some((rest, (name, value))) =
        model.rsplit_once(',').and_then(|(rest, last)| Some((rest, last.split_once('=')?)))
    {
        let several = |knob: &&Knob| matches!(knob, Knob::TensorSplit | Knob::Quant);
        let known = Knob::ALL.iter().filter(|knob| !several(knob));
        let Some(&knob) = known.clone().find(|knob| knob.name() == name.trim()) else {
            let names: Vec<_> = known.map(|knob| knob.name()).collect();
            let sentence = format!("'{name}' in '{text}' is not a knob of a model: use one of {}", names.join(", "));
            return Err(CliError::Arguments(sentence));
        };
        knobs.insert(0, (knob, value));
        model = rest;
    }
    Ok((model, knobs))
}

/// A plan in an export format.
fn export(args: &ExportArgs) -> Result<(), CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let plan = ready.plan(&opened.model)?;
    let location = location_of(&opened, &args.asked.model, args.asked.knobs.settings.quant);
    let request = ready.request(&opened.model);
    let form =
        args.form.unwrap_or_else(|| ExportFormat::of(plan.engine).first().copied().unwrap_or(ExportFormat::Json));
    if form == ExportFormat::GgufHeader {
        return gguf_header(&opened.model, args);
    }
    if args.pin && !form.can_be_pinned() {
        return Err(CliError::flag("--pin", &format!("{form} has no such options: use it with --as llama-server")));
    }
    let ExportArgs { minimal, pin: pinned, .. } = *args;
    let named = args.asked.model.to_string_lossy();
    let reference = opened.reference.clone().unwrap_or_else(|| roots::reference(&named));
    let scenario = Scenario::of(&request, Some(&reference));
    let input =
        ExportInput { request: &request, plan: &plan, location: &location, minimal, pinned, scenario: Some(&scenario) };
    let text = form.write(&input).map_err(|sentence| CliError::flag("--as", &sentence))?;
    match &args.output {
        Some(path) => save(path, &text, args.force),
        None => print(&text),
    }
}

/// The model's header as a file of the model's size, of whose tensors nothing is written.
fn gguf_header(model: &Model, args: &ExportArgs) -> Result<(), CliError> {
    let refused = |sentence: &str| CliError::flag("--as", sentence);
    let path =
        args.output.as_deref().ok_or_else(|| refused("gguf-header is no text: name a new file with --output"))?;
    if model.mlx.is_some() {
        let sentence =
            "its weights are safetensors: use --engine llama.cpp, or a type of GGUF files such as --quant Q4_K_M";
        return Err(refused(sentence));
    }
    let bytes = write(&HeaderSpec::of(&model.header), Encoding::default());
    let weights = model.file_bytes.0.saturating_sub(model.header.data_start);
    files::write_sparse(path, &bytes, weights.saturating_add(bytes.len() as u64), args.force)
        .map_err(|error| cannot_write(path, &error, ", or use --force to overwrite this one"))
}

/// Where Ollama or llama-server finds the opened model, which the user `named`.
pub(super) fn location_of(opened: &Package, named: &Path, quant: Option<Quantisation>) -> ModelLocation {
    if opened.model.made_of_original {
        return ModelLocation::Unknown(opened.model.name.clone());
    }
    model_location(named, quant).of_opened(opened.reference.as_deref())
}

/// Where Ollama or llama-server finds the model `named`.
fn model_location(named: &Path, quant: Option<Quantisation>) -> ModelLocation {
    if let Some(quant) = quant {
        // a file in this quantisation may not exist
        return ModelLocation::Unknown(format!("{} as {quant}", named.display()));
    }
    match named.to_str() {
        Some(text) if !named.is_file() => ModelLocation::by_reference(text),
        _ => ModelLocation::File(named.display().to_string()),
    }
}

/// Writes `text` into a file, which is only overwritten by `force`.
pub(super) fn save(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    files::write(path, text, force)
        .map_err(|error| cannot_write(path, &error, ", or use --force to overwrite this one"))
}

/// Writes a new file that this user alone may read.
pub(super) fn save_private(path: &Path, text: &str) -> Result<(), CliError> {
    files::write_private(path, text, false).map_err(|error| cannot_write(path, &error, ""))
}

fn cannot_write(path: &Path, error: &std::io::Error, overwrite: &str) -> CliError {
    let why = match error.kind() {
        ErrorKind::AlreadyExists => format!("it exists: name another file{overwrite}"),
        _ => format!("{error}: name a file in a folder of yours"),
    };
    CliError::Terminal(format!("'{}' cannot be written: {why}", path.display()))
}

/// What every question starts with.
pub(super) fn ready(asked: &QueryArgs) -> Result<(ResolvedArgs, Package), CliError> {
    let start = ParsedArgs::read(&asked.knobs, &asked.machine)?;
    let opened = if asked.command.names_model {
        resolve::package_or_namesake(&asked.model, &asked.knobs)?
    } else {
        resolve::package(&asked.model, &asked.knobs)?
    };
    Ok((start.with(&opened).complete(), opened))
}

pub(super) fn json(answer: serde_json::Result<String>) -> Result<String, CliError> {
    error::json("answer", answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_follow_the_model() {
        assert_eq!(model_and_knobs("llama3.1:8b").unwrap(), ("llama3.1:8b", Vec::new()));
        let knobs = vec![(Knob::Context, "32k"), (Knob::CacheType, "q8_0")];
        assert_eq!(model_and_knobs("a,b.gguf,ctx=32k,kv-type=q8_0").unwrap(), ("a,b.gguf", knobs));
        assert!(matches!(model_and_knobs("m,size=3"), Err(CliError::Arguments(error)) if error.contains("'size'")));
    }
}
