//! `plimsoll together`: several models loaded on one machine.

mod record;

use crate::answer::together::{LoadOutcome, LoadRequest, LoadedModels, ServedModels};
use crate::command::Router;
use crate::engine::{EngineId, PlanRequest};
use crate::machine::Machine;
use crate::page::{Hue, Page, Span, width};
use crate::plan::{Outcome, Plan};
use crate::question::Stepwise;
use crate::units::{Bytes, Tokens};

pub use record::{Named, TogetherAnswer, csv};

/// What is loaded on the machine and by the engine of the request that it is asked about.
#[derive(Clone, Debug)]
pub struct TogetherRequest {
    /// What starts and ends the servers.
    pub router: Router,
    /// Models and settings, in the order of loading; the rest of each request is ignored.
    pub models: Vec<PlanRequest>,
}

impl Stepwise for TogetherRequest {
    /// What stays loaded, or why one of them has no plan.
    type Part = Result<Box<ServedModels>, String>;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>> {
        std::iter::once_with(|| {
            let request = |model| {
                let PlanRequest { model, settings, .. }: &PlanRequest = model;
                LoadRequest { model, path: None, settings }
            };
            let requests: Vec<_> = self.models.iter().map(request).collect();
            let served = ServedModels::of(self.router.clone(), of.engine, &of.machine, &requests);
            Some(served.map(Box::new).map_err(|error| error.to_string()))
        })
    }
}

/// In which order Ollama unloads models.
const UNLOADING: &str = "all models are assumed idle. Ollama unloads the idle model whose file digest sorts first; \
                         where digests are not known, the one loaded first goes first";

/// Who ends servers that were started by hand.
const BY_HAND: &str = "no server is ended for another; each fits itself into what is free when it starts";
/// What a router goes by.
const BY_ROUTER: &str =
    "it ends idle servers without looking at memory; each fits itself into what is free when it starts";
/// In which order sets are loaded.
const IN_ORDER: &str = "models are loaded, and sets of them tried, in the order given";

/// Sets of models that are shown.
const SETS: usize = 12;

/// The outcome of each model, the memory that remains free, and the sets that stay loaded; `names` are labels with what
/// they are about.
pub fn page(names: &[(String, String)], machine: &Machine, served: &ServedModels, sign: &str) -> Page {
    let mut page = Page::default();
    let loaded = &served.loaded;
    let headline = Span::new(&format!("{sign}{}", loaded.headline()), Hue::of(loaded.outcome()).bold());
    page.spans("", vec![headline, format!(" {}", loaded.sentence()).into()]);
    page.blank();
    models(names, Some(loaded), &mut page);
    page.heading("Remaining free memory");
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let (free, in_ram) = loaded.left_on(index, machine);
        left(&format!("GPU{index}"), &gpu.name, [gpu.free, free, in_ram], &mut page);
        drivers(index, loaded, &mut page);
    }
    left("RAM", "", [machine.ram.free, loaded.left.ram.free, Bytes::ZERO], &mut page);
    if let Some(growth) = served.growth() {
        page.text(&growth, Hue::Text);
    }
    sets(names, served, &mut page);
    page
}

/// What drivers take on a GPU for the processes that stay.
fn drivers(index: usize, loaded: &LoadedModels, page: &mut Page) {
    let held = loaded.held_by_drivers().get(index).copied().unwrap_or_default();
    if held == Bytes::ZERO {
        return;
    }
    let on = |(_, plan): (usize, &Plan)| plan.gpus().get(index).filter(|gpu| !gpu.layers.is_empty())?.driver;
    let drivers: Vec<_> = loaded.loaded().filter_map(on).collect();
    let Some(first) = drivers.first() else { return };
    let processes = match drivers.len() {
        1 => "one process".to_owned(),
        count => format!("{count} processes"),
    };
    let (name, known) = (first.backend.name(), first.known_from());
    page.text_indented(&format!("after up to {held} that {name} takes for {processes} ({known})"), 6, Hue::Dim);
}

/// Adds the sets that stay loaded together, if that is not simply all of them.
fn sets(names: &[(String, String)], served: &ServedModels, page: &mut Page) {
    let Some(sets) = &served.sets else { return };
    let largest = sets.largest();
    if largest.first().is_some_and(|set| set.is_in_vram() && set.members.len() == names.len()) {
        return;
    }
    page.heading("Sets that stay loaded together");
    let label = |member: usize| names.get(member).map_or("", |(label, _)| label.as_str());
    for set in largest.iter().take(SETS) {
        let members = set.members.iter().zip(&set.contexts);
        let members: Vec<String> =
            members.map(|(&member, &context)| format!("{} at {}", label(member), Tokens(context))).collect();
        let sign = Span::new(set.outcome.headline(), Hue::of(set.outcome));
        page.spans("", vec![sign, format!(": {}", members.join(", ")).into()]);
    }
    let more = largest.len().saturating_sub(SETS);
    if more > 0 {
        page.text(&format!("and {more} more, which --json lists"), Hue::Dim);
    }
    let any = match sets.any() {
        0 => "Not each of them is all in VRAM even alone.".to_owned(),
        1 if names.len() == 2 => "Each is all in VRAM alone, the two together are not.".to_owned(),
        1 => "Each is all in VRAM alone, not every two are together.".to_owned(),
        any => format!("Any {any} of the {} are all in VRAM together.", names.len()),
    };
    page.text(&any, Hue::Text);
}

/// Adds each model with its outcome, if that is known.
pub fn models(names: &[(String, String)], loaded: Option<&LoadedModels>, page: &mut Page) {
    let widest = names.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    for (at, (label, about)) in names.iter().enumerate() {
        page.spans(&format!("{label:<widest$} "), vec![Span::new(about, Hue::Text.bold())]);
        let Some(outcome) = loaded.and_then(|loaded| loaded.outcomes.get(at)) else { continue };
        let name = |other: usize| names.get(other).map_or_else(String::new, |(label, _)| label.clone());
        let hue = match outcome {
            LoadOutcome::Loaded(plan) if plan.outcome() >= Outcome::FromDisk => Hue::Over,
            LoadOutcome::Loaded(_) | LoadOutcome::Shares(_) => Hue::Dim,
            LoadOutcome::Evicted { .. } | LoadOutcome::Refused(_) => Hue::Over,
        };
        page.text_indented(&outcome.sentence(&name), widest + 1, hue);
    }
}

/// Adds the source of the answer, who decides what is unloaded, and notes.
pub fn source(source: &str, served: &ServedModels, engine: EngineId, notes: &[String], page: &mut Page) {
    page.blank();
    page.text(source, Hue::Text);
    let unloads = served.loaded.outcomes.iter().any(|outcome| matches!(outcome, LoadOutcome::Evicted { .. }));
    match &served.router {
        Router::None if unloads => page.item(UNLOADING),
        Router::None if !engine.facts().evicts => page.item(BY_HAND),
        Router::None => {}
        router => page.item(&format!("{}: {BY_ROUTER}", router.name().unwrap_or_default())),
    }
    if served.sets.is_some() {
        page.item(IN_ORDER);
    }
    for note in notes {
        page.item(note);
    }
}

fn left(id: &str, name: &str, [before, after, in_ram]: [Bytes; 3], page: &mut Page) {
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let shared = match in_ram {
        Bytes::ZERO => String::new(),
        all if all == after => ", the same bytes as RAM's".to_owned(),
        part => format!(", {part} of it the same bytes as RAM's"),
    };
    page.spans(&format!("{id:<5} "), vec![format!("{name}{after} of {before} remain free{shared}").into()]);
}
