//! `plimsoll max`, `why`, `sweep`, `matrix`, `best`, `place`, `together` and `export`.

use std::io::ErrorKind;
use std::path::Path;

use super::args::{
    BestArgs, ExportArgs, KnobArgs, MachineArgs, MatrixArgs, MaxArgs, NeedArgs, Output, PlaceArgs, PlanArgs, QueryArgs,
    SweepArgs, TogetherArgs, WhyArgs,
};
use super::command::names;
use super::error::{self, CliError};
use super::out::print;
use super::resolve::{self, ParsedArgs, ResolvedArgs};
use super::style::Style;
use super::value::KnobOrQuant;
use crate::answer::best::{BestRequest, DEFAULT_MARGIN, Objective};
use crate::answer::need::{BESIDE_CARDS, NeedRequest};
use crate::answer::sweep::Axis;
use crate::answer::together::{LoadRequest, ServedModels};
use crate::answer::{Goal, parts, verdict, why};
use crate::command::router::RouterKind;
use crate::command::{Router, Start};
use crate::engine::{EngineId, PlanRequest};
use crate::export::answers::{self as export_answers, Named};
use crate::export::llama_server;
use crate::export::several::NamedModel;
use crate::export::svg;
use crate::export::{AnswerSource, Caption, ExportFormat, ExportInput, ModelLocation, Scenario};
use crate::files;
use crate::gguf::FileType;
use crate::machine::visible::hides_gpus;
use crate::model::mixture::Quantisation;
use crate::page::answers::{self, OutOfReach, WhyAnswer};
use crate::plan::{Outcome, Plan};
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::source::{Package, roots};
use crate::speed::{Speeds, USABLE};
use crate::text::{exact, quoted};

/// The largest value of a knob that fits.
pub(super) fn max(args: &MaxArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let source = resolve::source(&opened, &args.asked.model);
    let goal = match args.layers {
        Some(layers) => Goal::AtLeast(usize::try_from(layers).unwrap_or(usize::MAX)),
        // without a GPU, what fits RAM is asked
        None if request.machine.gpus.is_empty() => Goal::AtLeast(0),
        None if args.allow_experts_in_ram => Goal::AllLayers,
        None => Goal::Vram,
    };
    within("--layers", args.layers, 1, plan.layers.len() as u64)?;
    let style = Style::of_stdout();
    let knob = match args.knob {
        KnobOrQuant::Knob(knob) => knob,
        KnobOrQuant::Quantisation => {
            let largest = request.largest_quantisation(goal);
            if args.json {
                return json(export_answers::max_quantisation_json((&plan, &source), &largest));
            }
            return Ok(style.page(&answers::max_quantisation(&plan, goal, &largest)));
        }
    };
    let largest = request.largest(knob, goal);
    let least = request.least(knob);
    let at_least = largest.is_none().then(|| planned(&request, knob, least)).flatten();
    let held = at_least.as_ref().and_then(why::what_holds);
    let in_room = |plan: &Plan| plan.outcome() <= Outcome::Tight && verdict::lack_of_room(plan).is_some();
    let lacks_room = at_least.as_ref().is_some_and(in_room);
    if args.json {
        let held = held.as_deref();
        return json(export_answers::max_json((&plan, &source), knob, largest.as_ref(), least, held));
    }
    let beyond = largest.as_ref().and_then(|largest| planned(&request, knob, largest.next?));
    let assigned = (goal == Goal::Vram && largest.is_none() && request.model.hyper.experts.is_some())
        .then(|| request.largest(knob, Goal::AllLayers))
        .flatten();
    let out_of_reach = OutOfReach { least, held, lacks_room, assigned };
    let largest = largest.as_ref().ok_or(&out_of_reach);
    Ok(style.page(&answers::max(&plan, knob, goal, largest, beyond.as_ref())))
}

/// Why layers are on their devices, and what would bring them onto GPUs.
pub(super) fn why(args: &WhyArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let count = plan.layers.len() as u64;
    within("--layer", args.layer, 0, count - 1)?;
    let asked = args.layer.map(|layer| usize::try_from(layer).unwrap_or(usize::MAX));
    let layers = match asked {
        Some(layer) => why::layer(&plan, layer).into_iter().collect(),
        None => why::layers(&plan),
    };
    let one = asked.or_else(|| why::closest_to_fitting(&plan));
    let mut changes: Vec<_> = request.remedies(plan.clone(), one).flatten().collect();
    if changes.is_empty() {
        changes = request.remedies_of_two(&plan);
    }
    let memory_users = why::memory_users(&plan);
    let beside = parts::of(&request, &plan);
    let placed = (plan.outcome() > Outcome::Tight).then(|| request.placed(&plan)).flatten();
    if args.csv {
        return Ok(export_answers::why_csv(&layers));
    }
    if args.json {
        let about = (&plan, &resolve::source(&opened, &args.asked.model));
        let answer = export_answers::why_json(about, &layers, &changes, placed.as_ref(), &memory_users, &beside);
        return json(answer);
    }
    let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
    let explained = WhyAnswer {
        layers: &layers,
        one: asked.is_some(),
        changes: &changes,
        placed: placed.as_ref(),
        memory_users: &memory_users,
        beside: &beside,
        speeds: speeds.as_ref(),
    };
    Ok(Style::of_stdout().page(&answers::why(&plan, &explained)))
}

/// Plans along one knob.
pub(super) fn sweep(args: &SweepArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    // without a plan of what was asked for, there is no answer in any form
    let plan = ready.plan(&opened.model)?;
    let points = usize::try_from(args.points).unwrap_or(usize::MAX);
    let sweep = request.sweep(args.over, &values(&request, args.over, &args.values, points, "--values")?);
    match args.output {
        Output { json: true, .. } => {
            let source = resolve::source(&opened, &args.asked.model);
            json(export_answers::sweep_json((&plan, &source), &sweep))
        }
        Output { csv: true, .. } => Ok(export_answers::sweep_csv(&sweep)),
        Output { svg: true, .. } => Ok(svg::sweep(&plan, &request.with_edges(sweep), &Caption::of(&request, &plan))),
        _ => Ok(Style::of_stdout().page(&answers::sweep(&plan, &sweep))),
    }
}

/// Plans over two axes.
pub(super) fn matrix(args: &MatrixArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let rows = axis(&request, args.rows, &args.row_values, 12, "--row-values")?;
    let columns = axis(&request, args.columns, &args.column_values, 6, "--column-values")?;
    if rows.name() == columns.name() {
        let sentence = format!("--rows and --columns are both {}: choose two different knobs", rows.name());
        return Err(CliError::Arguments(sentence));
    }
    let matrix = request.matrix(rows, columns);
    match args.output {
        Output { json: true, .. } => {
            let source = resolve::source(&opened, &args.asked.model);
            json(export_answers::matrix_json((&plan, &source), &matrix))
        }
        Output { csv: true, .. } => Ok(export_answers::matrix_csv(&matrix)),
        Output { svg: true, .. } => Ok(svg::matrix(&plan, &matrix, &Caption::of(&request, &plan))),
        _ => Ok(Style::of_stdout().page(&answers::matrix(&plan, &matrix))),
    }
}

/// The best settings with the given knobs held.
pub(super) fn best(args: &BestArgs) -> Result<String, CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let margin = args.margin.or(ready.config.preferences.margin).unwrap_or(DEFAULT_MARGIN);
    let minimums = args.minimums.over(ready.config.preferences.minimums);
    let question = BestRequest { held: held(&args.asked.knobs), margin, minimums };
    if args.objective == Some(Objective::Context) && question.held.contains(&Knob::Context) {
        return Err(CliError::flag("--for", "--ctx is given and therefore fixed: leave it out to have it chosen"));
    }
    let mut cards = request.best(&plan, &question);
    if let Some(objective) = args.objective {
        cards.retain(|card| card.objectives.contains(&objective));
    }
    if args.json {
        let about = (&plan, &resolve::source(&opened, &args.asked.model));
        return json(export_answers::best_json(about, &request.settings, &question, &cards));
    }
    if args.csv {
        return Ok(export_answers::best_csv(&request.settings, &cards));
    }
    Ok(Style::of_stdout().page(&answers::best(&plan, &request.settings, &question, &cards, args.objective)))
}

/// A faster placement for llama-server.
pub(super) fn place(args: &mut PlaceArgs) -> Result<String, CliError> {
    let knobs = &mut args.asked.knobs;
    if *knobs.engine.get_or_insert(EngineId::LlamaCpp) != EngineId::LlamaCpp {
        let sentence = "only llama-server can be told a placement: leave --engine out, or use --engine llama.cpp";
        return Err(CliError::flag("--engine", sentence));
    }
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let location =
        model_location(&args.asked.model, args.asked.knobs.settings.quant).of_opened(opened.reference.as_deref());
    let placed = request.placed(&plan);
    // the answer is worth something without the command
    let location = match &location {
        ModelLocation::File(path) if exact(path).is_err() => ModelLocation::Unknown(quoted(path).into_owned()),
        _ => location,
    };
    let command = placed.as_ref().map(|placed| llama_server::of_placement(placed, &location)).transpose();
    let mut command = command.map_err(CliError::Arguments)?;
    if let Some((_, remarks)) = &mut command {
        remarks.extend(ready.notes.iter().cloned());
    }
    let placed = placed.as_ref().zip(command.as_ref()).map(|(placed, (line, remarks))| (placed, &**line, &**remarks));
    let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
    if args.json {
        let source = resolve::source(&opened, &args.asked.model);
        return json(export_answers::place_json((&plan, &source), speeds.as_ref(), placed));
    }
    Ok(Style::of_stdout().page(&answers::place(&plan, speeds.as_ref(), placed)))
}

/// The machines that run a model.
pub(super) fn need(args: &NeedArgs) -> Result<String, CliError> {
    let MachineArgs { gpu, machine, join, .. } = &args.asked.machine;
    let given = [("--gpu", !gpu.is_empty()), ("--machine", machine.is_some()), ("--join", !join.is_empty())];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::flag(flag, "every known card is tried: leave it out"));
    }
    let (ready, opened) = ready(&args.asked)?;
    let request = ready.request(&opened.model);
    let plan = ready.plan(&opened.model)?;
    let ram = if args.asked.machine.ram.is_some() { ready.machine.ram } else { BESIDE_CARDS };
    let question = NeedRequest { ram, speed: args.speed.unwrap_or(USABLE) };
    let found = request.needed(&question);
    if args.json {
        let source = resolve::source(&opened, &args.asked.model);
        return json(export_answers::need_json((&plan, &source), &question, &found));
    }
    if args.csv {
        return Ok(export_answers::need_csv(&found));
    }
    Ok(Style::of_stdout().page(&answers::need(&question, &found)))
}

/// The knobs given as options, in the order of the screen.
fn held(knobs: &KnobArgs) -> Vec<Knob> {
    let is_given = |knob: &Knob| knobs.settings.given_options().any(|flag| flag.name() == knob.name());
    Knob::ALL.into_iter().filter(|knob| knob.moves_plans() && is_given(knob)).collect()
}

/// Several models loaded on one machine.
pub(super) fn together(args: &TogetherArgs) -> Result<String, CliError> {
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
    let served = ServedModels::of(router, ready.engine, &ready.machine, &requests)?;
    if let Some(form) = args.form {
        if args.pin && !form.can_be_pinned() {
            return Err(CliError::flag("--pin", &format!("{form} has no such options")));
        }
        let model = |((name, _), (package, settings)): (&ModelAndKnobs<'_>, &(&Package, Settings))| NamedModel {
            name: (*name).to_owned(),
            request: PlanRequest::new(ready.engine, package.model.clone(), ready.machine.clone(), settings.clone()),
            location: model_location(Path::new(name), settings.quant).of_opened(package.reference.as_deref()),
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
        return json(export_answers::together_json(source, &named, &ready.machine, &served));
    }
    if args.csv {
        return Ok(export_answers::together_csv(&named, &served));
    }
    let names = args.models.iter().enumerate().map(|(at, name)| ((at + 1).to_string(), name.clone()));
    let mut page = answers::together(&names.collect::<Vec<_>>(), &ready.machine, &served, "");
    answers::together_source(&source.to_string(), &served, ready.engine, &ready.notes, &mut page);
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
    let request = |(ready, package): &'_ (ResolvedArgs, Package)| (ready.settings.clone(), package.clone());
    let asked: Vec<_> = loads.iter().map(request).collect();
    let requests: Vec<LoadRequest<'_>> = asked
        .iter()
        .map(|(settings, package)| LoadRequest { model: &package.model, path: package.blob(), settings })
        .collect();
    let served = ServedModels::of(with_most(router, args.models_max)?, first.engine, &first.machine, &requests)?;
    let source = AnswerSource::of_engine(first.engine, &first.settings, served.loaded.confidence());
    if args.json {
        let named = all.iter().zip(&loads).map(|(start, (_, package))| Named {
            name: start.name.clone(),
            source: resolve::source(package, Path::new(start.model.as_deref().unwrap_or_default())),
        });
        let named: Vec<Named> = named.collect();
        return json(export_answers::together_json(source, &named, &first.machine, &served));
    }
    let labels = all.iter().enumerate().map(|(at, start)| ((at + 1).to_string(), start.name.clone()));
    let mut page = answers::together(&labels.collect::<Vec<_>>(), &first.machine, &served, "");
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
    answers::together_source(&source.to_string(), &served, first.engine, &notes, &mut page);
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
pub(super) fn export(args: &ExportArgs) -> Result<(), CliError> {
    let (ready, opened) = ready(&args.asked)?;
    let plan = ready.plan(&opened.model)?;
    let location =
        model_location(&args.asked.model, args.asked.knobs.settings.quant).of_opened(opened.reference.as_deref());
    let request = ready.request(&opened.model);
    let form =
        args.form.unwrap_or_else(|| ExportFormat::of(plan.engine).first().copied().unwrap_or(ExportFormat::Json));
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

/// Where Ollama or llama-server finds the model `named`.
pub(super) fn model_location(named: &Path, quant: Option<Quantisation>) -> ModelLocation {
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

fn within(flag: &str, value: Option<u64>, least: u64, most: u64) -> Result<(), CliError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(CliError::flag(flag, &format!("the model has no layer {value}: use a number from {least} to {most}")))
        }
        _ => Ok(()),
    }
}

fn planned(request: &PlanRequest, knob: Knob, value: u64) -> Option<Plan> {
    let mut settings = request.settings.clone();
    knob.set(&mut settings, value);
    request.with(settings).plan().ok()
}

/// One axis of a matrix.
fn axis(
    request: &PlanRequest,
    wanted: KnobOrQuant,
    given: &[String],
    count: usize,
    flag: &str,
) -> Result<Axis, CliError> {
    match wanted {
        KnobOrQuant::Knob(knob) => Ok(Axis::Knob(knob, values(request, knob, given, count, flag)?)),
        KnobOrQuant::Quantisation if given.is_empty() => Ok(Axis::quantisations(request, count)),
        KnobOrQuant::Quantisation => {
            let named =
                |text: &String| text.parse::<FileType>().map_err(|error| CliError::flag(flag, &error.to_string()));
            given.iter().map(named).collect::<Result<_, _>>().map(Axis::Quantisation)
        }
    }
}

/// The given values, or up to `count` of the knob's stops.
fn values(request: &PlanRequest, knob: Knob, given: &[String], count: usize, flag: &str) -> Result<Vec<u64>, CliError> {
    if given.is_empty() {
        return Ok(knob.spread(&request.bounds(), count));
    }
    let bounds = request.bounds();
    let value = |text: &String| {
        let mut settings = Settings::default();
        knob.read(text, &mut settings, &bounds).map_err(|sentence| CliError::flag(flag, &sentence))?;
        let missing = || CliError::flag(flag, &format!("'{text}' cannot be used as a value here: use numbers"));
        knob.chosen(&settings, &bounds).ok_or_else(missing)
    };
    given.iter().map(value).collect()
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
