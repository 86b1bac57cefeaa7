//! The answers as pages: what the command line prints, and what the planner's overlays show.

pub mod live;
mod place;

pub use place::place;

use super::layout::joined;
use super::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::answer::best::{BestRequest, Card, Objective};
use crate::answer::largest::{Largest, LargestQuantisation};
use crate::answer::parts::PartAnswer;
use crate::answer::place::Placed;
use crate::answer::sweep::Matrix;
use crate::answer::sweep::{PlanFigures, Sweep};
use crate::answer::together::{LoadOutcome, LoadedModels, ServedModels};
use crate::answer::why::{LayerAnswer, MemoryUser, nothing_to_move};
use crate::answer::{Goal, Remedy, verdict};
use crate::command::Router;
use crate::engine::EngineId;
use crate::machine::Machine;
use crate::plan::{LayerKind, Outcome, Plan, Why};
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::speed::Speeds;
use crate::units::{Bytes, Tokens, grouped};

/// Adds the model, the engine with its confidence, and the notes.
fn source(plan: &Plan, page: &mut Page) {
    source_line(plan, page);
    plan.notes.iter().for_each(|note| page.item(note));
}

/// Adds the model and the engine with its confidence.
fn source_line(plan: &Plan, page: &mut Page) {
    let parts = [
        plan.model.name.clone(),
        plan.source(),
        format!("context {}", Tokens(plan.settings.ctx)),
        format!("parallel {}", grouped(plan.settings.parallel, '\u{2009}')),
        format!("KV cache {}", plan.settings.cache_type_k),
    ];
    page.blank();
    page.text(&joined(parts), Hue::Text);
}

/// The verdict on a plan, its sign and headline in colour.
fn verdict_of(plan: &Plan, speeds: Option<&Speeds>, page: &mut Page) {
    page.text(&format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, None, speeds)), Hue::Text);
}

/// Adds a card for each objective; `asked` is what their options change.
pub fn cards(cards: &[Card], asked: &Settings, page: &mut Page) {
    for card in cards {
        page.choice(Block::Heading(Span::new(&card.title(), Hue::Text.bold())));
        page.item(&format!("{}; {}. {}", card.headline(), card.room_and_speed(), card.gives_up_text()));
        card.placement.iter().for_each(|placement| page.item(&placement.reason));
        card.changes_text().iter().for_each(|changes| page.item(changes));
        let options = card.options(asked);
        if !options.is_empty() {
            page.verbatim(&format!("    {options}"), Hue::Text);
        }
    }
}

/// The best settings: a card for each objective, or for `only` one, with what it brings and what it gives up.
pub fn best(plan: &Plan, asked: &Settings, question: &BestRequest, found: &[Card], only: Option<Objective>) -> Page {
    let mut page = Page::default();
    let names: Vec<&str> = question.held.iter().map(|knob| knob.title()).collect();
    let held = if names.is_empty() { String::new() } else { format!(" Fixed as given: {}.", names.join(", ")) };
    page.text(
        &format!(
            "Each was planned. Safe leaves {} on every GPU, balanced where good weights allow it.{held}",
            question.margin
        ),
        Hue::Text,
    );
    cards(found, asked, &mut page);
    if only.is_none_or(|only| only == Objective::Safe) {
        nothing_is_safe(question, found, &mut page);
    }
    source(plan, &mut page);
    page
}

/// Adds that no settings are safe, if none are.
pub fn nothing_is_safe(question: &BestRequest, cards: &[Card], page: &mut Page) {
    if !cards.iter().any(|card| card.objectives.contains(&Objective::Safe)) {
        page.blank();
        page.text(&question.nothing_is_safe(), Hue::Text);
    }
}

/// The answer to why layers are on their devices.
pub struct WhyAnswer<'a> {
    /// The layers that it is about.
    pub layers: &'a [LayerAnswer],
    /// Whether one layer was requested.
    pub one: bool,
    /// Changes that help.
    pub changes: &'a [Remedy],
    /// A placement that is faster, where something is in RAM.
    pub placed: Option<&'a Placed>,
    /// What uses memory on GPUs.
    pub memory_users: &'a [MemoryUser],
    /// What is loaded beside the model.
    pub beside: &'a [PartAnswer],
    /// The plan's speeds.
    pub speeds: Option<&'a Speeds>,
}

/// Why layers are on their devices, and what would bring them onto GPUs.
pub fn why(plan: &Plan, explained: &WhyAnswer<'_>) -> Page {
    let mut page = Page::default();
    verdict_of(plan, explained.speeds, &mut page);
    layers(plan, explained, &mut page);
    memory_users(explained.memory_users, &mut page);
    kept_free(plan, &mut page);
    beside(explained.beside, &mut page);
    if explained.changes.is_empty() {
        page.blank();
        page.text(
            nothing_to_move(plan).unwrap_or("No single change, and no two that were tried, move all layers to GPU."),
            Hue::Text,
        );
    } else {
        let single = explained.changes.iter().all(|remedy| remedy.also.is_none());
        page.heading(if single {
            "Single changes that help (each was tested)"
        } else {
            "Two changes that help together (each pair was tested); no single one does"
        });
    }
    remedies(plan, explained.changes, explained.speeds, &mut page);
    if let Some(placed) = explained.placed {
        page.heading("Another placement of the same (plimsoll place)");
        page.item(&format!("{} {}", placed.headline(), placed.reason));
    }
    source(plan, &mut page);
    page
}

/// Adds what uses the memory of GPUs.
pub fn memory_users(users: &[MemoryUser], page: &mut Page) {
    if users.is_empty() {
        return;
    }
    page.heading("What uses the GPU memory");
    let row = |user: &MemoryUser| {
        vec![Span::new(&user.device, Hue::Dim), user.bytes.to_string().into(), format!(" {}", user.name).into()]
    };
    let columns = vec![Column::left("", 5), Column::right("", 10), Column::left("", 0)];
    let rows = users.iter().map(row).collect();
    page.push(Block::Table(Table { columns, rows, gap: 1, narrow: Narrow::Cut(2) }));
}

/// Adds what the fit keeps free of each GPU, and for what.
pub fn kept_free(plan: &Plan, page: &mut Page) {
    plan.kept_free().iter().for_each(|sentence| page.text(sentence, Hue::Dim));
}

/// Adds single changes that help, with what each brings.
pub fn remedies(plan: &Plan, changes: &[Remedy], speeds: Option<&Speeds>, page: &mut Page) {
    for remedy in changes {
        let Remedy { also, cost, goal, speed, outcome, .. } = remedy;
        let brings = match goal {
            Goal::Vram | Goal::VramWith(_) if plan.outcome() <= Outcome::Tight => verdict::KEEPS.to_owned(),
            Goal::Vram | Goal::VramWith(_) => "brings all into VRAM".to_owned(),
            Goal::AllLayers => verdict::brings_layers(Some(*outcome)).to_owned(),
            Goal::Layer(index) => match plan.layer_kind(*index) {
                LayerKind::Output => "brings the output layer onto a GPU".to_owned(),
                _ => format!("brings {} onto a GPU", plan.layer_name(*index)),
            },
            Goal::AtLeast(_) => format!("brings {goal} onto a GPU"),
        };
        let options = remedy.options().map_or_else(String::new, |options| format!(" ({options})"));
        let brings = if also.is_some() { brings.replacen("brings", "bring", 1) } else { brings };
        let cost = cost.as_ref().map_or_else(String::new, |cost| format!("; {cost}"));
        let now = speeds.map(|speeds| speeds.start.range());
        let times = speed.and_then(|then| then.against(&now?)).map_or_else(String::new, |times| format!(", {times}"));
        let speed = speed.map_or_else(String::new, |speed| format!(": {speed} tok/s{times}"));
        let text = format!("{}{options} {brings}{speed}{cost}", remedy.says());
        page.choice(Block::Text { first: "- ".into(), spans: vec![text.into()] });
    }
}

/// Adds the projector and the draft, each with its reasons.
pub fn beside(parts: &[PartAnswer], page: &mut Page) {
    if !parts.is_empty() {
        page.heading("Loaded beside the model");
    }
    for part in parts {
        let file = part.file.as_ref().map_or_else(String::new, |file| format!(" ({file})"));
        page.text(&format!("{}{file}: {}", part.part.title(), part.amounts()), Hue::Text);
        part.reasons.iter().for_each(|reason| page.item(reason));
    }
}

/// Layers with the same reason are grouped.
fn layers(plan: &Plan, explained: &WhyAnswer<'_>, page: &mut Page) {
    let cpu = &plan.cpu().id;
    let mut rest = explained.layers.iter().rev().filter(|layer| explained.one || layer.device == *cpu).peekable();
    if rest.peek().is_some() {
        page.heading(if explained.one { "The layer" } else { "Layers in RAM" });
    }
    while let Some(layer) = rest.next() {
        let same_reason = |other: &&LayerAnswer| {
            let decided = |layer: &LayerAnswer| layer.inequality.is_some();
            decided(other) == decided(layer)
                && (decided(layer) || other.reason == layer.reason || given_up(plan, other) && given_up(plan, layer))
                && plan.layer_kind(other.index) == plan.layer_kind(layer.index)
        };
        let mut group = vec![layer];
        while let Some(other) = rest.next_if(same_reason) {
            group.push(other);
        }
        let name = |group: &[&LayerAnswer]| match group {
            [one] => plan.layer_name(one.index),
            [last, .., first] if plan.layer_kind(last.index) == LayerKind::Nextn => {
                format!("NextN (MTP) layers {} to {}", first.index, last.index)
            }
            [last, .., first] => format!("layers {} to {}", first.index, last.index),
            [] => String::new(),
        };
        let reason = &layer.reason;
        if given_up(plan, layer) && group.len() > 1 {
            let (first, others) = (reason.split("; ").next().unwrap_or(reason), range_of_own(plan, &group));
            page.item(&format!("{}: {first}; each of these would have needed {others}.", name(&group)));
            continue;
        }
        page.item(&format!("{}: {reason}", name(&group[..1])));
        if group.len() > 1 {
            let reason = if layer.inequality.is_some() {
                "no space was left, because layers are placed from last to first"
            } else {
                "same reason"
            };
            page.item(&format!("{}: {reason}.", name(&group[1..])));
        }
    }
}

/// Whether the engine had stopped before it came to this layer.
fn given_up(plan: &Plan, layer: &LayerAnswer) -> bool {
    plan.layers.get(layer.index).is_some_and(|layer| matches!(layer.why, Why::GivenUp { .. }))
}

/// What the least and the most of these layers would have needed.
fn range_of_own(plan: &Plan, group: &[&LayerAnswer]) -> String {
    let own = group.iter().filter_map(|layer| match plan.layers.get(layer.index)?.why {
        Why::GivenUp { own, .. } => Some(own),
        _ => None,
    });
    match (own.clone().min(), own.max()) {
        (Some(least), Some(most)) if least.to_string() != most.to_string() => format!("{least} to {most}"),
        (_, most) => most.unwrap_or_default().to_string(),
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
pub fn together(names: &[(String, String)], machine: &Machine, served: &ServedModels, sign: &str) -> Page {
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
    let widest = names.iter().map(|(label, _)| super::width(label)).max().unwrap_or(0);
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
pub fn together_source(source: &str, served: &ServedModels, engine: EngineId, notes: &[String], page: &mut Page) {
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

/// Why there is no largest value.
pub struct OutOfReach {
    /// The smallest value, which fails already.
    pub least: u64,
    /// What keeps it from being all in VRAM.
    pub held: Option<String>,
    /// Whether all layers are on GPUs even so, with less left than must stay free.
    pub lacks_room: bool,
    /// The largest value with experts in RAM.
    pub assigned: Option<Largest>,
}

/// The largest value of `knob`, or why there is none; `beyond` is the plan at the next value.
pub fn max(plan: &Plan, knob: Knob, goal: Goal, largest: Result<&Largest, &OutOfReach>, beyond: Option<&Plan>) -> Page {
    let mut page = Page::default();
    let (kept, lacks) = match goal {
        _ if knob == Knob::GpuLayers => ("all requested layers on GPU".to_owned(), "it does not fit".to_owned()),
        _ => kept_and_lacks(plan, goal),
    };
    match largest {
        Ok(largest) => {
            let lack = beyond.filter(|beyond| goal != Goal::Vram || beyond.outcome() <= Outcome::Tight);
            let lack = lack.filter(|beyond| beyond.outcome() < Outcome::FromDisk).and_then(verdict::lack_of_room);
            let kept = if lack.is_some() { format!("{kept} and the margin kept free") } else { kept };
            let most = format!("{} {}", knob.title(), Tokens(largest.value));
            let next = largest.next.map(|next| at_next(Tokens(next), lack.as_deref(), beyond, plan.layers.len()));
            let option = format!("--{} {}", knob.name(), largest.value);
            reached(&most, &kept, next.as_deref(), &largest.plan, &option, &mut page);
        }
        Err(OutOfReach { least, held, lacks_room, assigned }) => {
            let lacks = if *lacks_room { "the margin is not kept free".to_owned() } else { lacks };
            out_of_reach(&format!("{} {}", knob.title(), Tokens(*least)), &lacks, &mut page);
            if let Some(held) = held {
                page.text(held, Hue::Text);
            }
            if let Some(assigned) = assigned {
                let value = Tokens(assigned.value);
                let sentence = format!("With experts in RAM, {} {value} keeps all layers on GPU:", knob.title());
                page.text(&sentence, Hue::Text);
                option(&format!("--{} {} (--allow-experts-in-ram)", knob.name(), assigned.value), &mut page);
            }
        }
    }
    source(largest.map_or(plan, |largest| &largest.plan), &mut page);
    page
}

/// What is no longer so at the next value.
fn at_next(next: Tokens, lack: Option<&str>, beyond: Option<&Plan>, layers: usize) -> String {
    if let Some(lack) = lack {
        return format!("At {next}, {lack}.");
    }
    match beyond.map(|beyond| (beyond, beyond.outcome())) {
        Some((_, Outcome::DoesNotFit)) | None => format!("At {next}, it does not fit."),
        Some((_, Outcome::FromDisk)) => format!("At {next}, weights are read from disk for every token."),
        Some((beyond, Outcome::PartsInRam | Outcome::ExpertsInRam)) => {
            format!("At {next}, {} of the weights run from RAM.", beyond.parts_in_ram())
        }
        Some((beyond, _)) => format!("At {next}, {} of {layers} layers are on GPU.", beyond.on_gpus()),
    }
}

/// The largest quantisation.
pub fn max_quantisation(plan: &Plan, goal: Goal, largest: &LargestQuantisation) -> Page {
    let mut page = Page::default();
    let (kept, lacks) = kept_and_lacks(plan, goal);
    match (&largest.found, largest.next) {
        (Some((to, found)), next) => {
            let most = format!("{to} ({})", found.model.bytes);
            let next = next.map(|next| format!("With {next}, {lacks}."));
            reached(&most, &kept, next.as_deref(), found, &format!("--quant {to}"), &mut page);
        }
        (None, Some(least)) => out_of_reach(least.name(), &lacks, &mut page),
        (None, None) => page.text("llama.cpp's quantiser has no other quantisation for this model.", Hue::Text),
    }
    source(largest.found.as_ref().map_or(plan, |(_, found)| found), &mut page);
    page
}

/// Phrases for what holds up to the largest value and what fails beyond it.
fn kept_and_lacks(plan: &Plan, goal: Goal) -> (String, String) {
    let all = plan.layers.len();
    match goal {
        Goal::Vram | Goal::VramWith(_) => ("all in VRAM".to_owned(), "not all is in VRAM".to_owned()),
        Goal::AllLayers => ("all layers on GPU".to_owned(), "not all layers are on GPU".to_owned()),
        Goal::AtLeast(0) => ("all in RAM".to_owned(), "RAM does not hold it".to_owned()),
        Goal::AtLeast(layers) => (
            format!("at least {layers} of {all} layers on GPU"),
            format!("fewer than {layers} of {all} layers are on GPU"),
        ),
        Goal::Layer(layer) => (format!("layer {layer} on GPU"), format!("layer {layer} is in RAM")),
    }
}

fn reached(most: &str, kept: &str, next: Option<&str>, found: &Plan, with: &str, page: &mut Page) {
    let rest = format!(" is the largest value with {kept}.");
    page.spans("", vec![Span::new(most, Hue::Text.bold()), rest.into()]);
    page.text(next.unwrap_or("That is the end of the range."), Hue::Text);
    verdict_of(found, None, page);
    option(with, page);
}

/// Adds an option to copy.
fn option(option: &str, page: &mut Page) {
    page.blank();
    page.verbatim(&format!("  {option}"), Hue::Text);
}

fn out_of_reach(least: &str, lacks: &str, page: &mut Page) {
    page.text(&format!("Even with {least}, {lacks}: 'plimsoll why' explains why."), Hue::Text);
}

/// Plans along a knob, with the thresholds.
pub fn sweep(plan: &Plan, sweep: &Sweep) -> Page {
    let mut page = Page::default();
    let knob = sweep.knob;
    let amounts = ["weights", "cache", "graph", "RAM", "tok/s"];
    let columns = [Column::right(knob.title(), 11), Column::left(" verdict", 9), Column::right("on GPU", 8)];
    let columns = columns.into_iter().chain(amounts.map(|title| Column::right(title, 9))).collect();
    let row = |value: u64, figures: &Result<PlanFigures, String>| {
        let value = Span::from(knob.show(value));
        let figures = match figures {
            Ok(figures) => figures,
            Err(error) => return vec![value, error.as_str().into()],
        };
        let totals = &figures.totals;
        let mut row = vec![value, outcome(figures.outcome, &format!(" {}", figures.outcome.short()))];
        row.push(format!("{}/{}", figures.on_gpus(), figures.layer_count).into());
        row.extend([totals.weights, totals.cache, totals.graph, totals.cpu].map(|bytes| bytes.to_string().into()));
        row.push(figures.speed_at_full_context.map_or_else(|| "–".to_owned(), |range| range.to_string()).into());
        row
    };
    let rows = sweep.points.iter().map(|point| row(point.value, &point.figures)).collect();
    page.push(Block::Table(Table { columns, rows, gap: 1, narrow: Narrow::Below(3) }));
    if !sweep.thresholds.is_empty() {
        page.heading("Thresholds");
        sweep.thresholds.iter().for_each(|threshold| page.item(&threshold.description(knob)));
    }
    source(plan, &mut page);
    page
}

/// `word` in the colour of `outcome`.
fn outcome(outcome: Outcome, word: &str) -> Span {
    Span::new(word, Hue::of(outcome))
}

/// Plans over two axes as a table of verdicts and shares.
pub fn matrix(plan: &Plan, matrix: &Matrix) -> Page {
    let mut page = Page::default();
    let (names, values) = (matrix.rows.shown(), matrix.columns.shown());
    let head = Column::right(matrix.rows.title(), 13);
    let columns = std::iter::once(head).chain(values.iter().map(|value| Column::right(value, 9))).collect();
    let cell = |row: usize, column: usize| match matrix.cell(row, column) {
        Some(Ok(figures)) => outcome(figures.outcome, &share(figures)),
        _ => Span::new("refused", Hue::Over),
    };
    let row = |(row, name): (usize, &String)| {
        let cells = (0..values.len()).map(|column| cell(row, column));
        std::iter::once(Span::from(name.as_str())).chain(cells).collect()
    };
    let rows = names.iter().enumerate().map(row).collect();
    page.push(Block::Table(Table { columns, rows, gap: 2, narrow: Narrow::Split }));
    let has = |outcome| matrix.cells.iter().flatten().any(|figures| figures.outcome == outcome);
    let of = |outcome, text| if has(outcome) { text } else { "" };
    let parts = of(Outcome::PartsInRam, " parts: layers on GPU, parts of them in RAM;");
    let experts = of(Outcome::ExpertsInRam, " experts: layers on GPU, experts in RAM;");
    let tight = of(Outcome::Tight, " tight: the same, with little room for the driver;");
    let disk = of(Outcome::FromDisk, " disk: read from the file for every token;");
    let legend = format!(
        "VRAM: all in VRAM;{tight}{parts}{experts} %: share of the memory on GPU; RAM: nothing on GPU;{disk} over: does not fit"
    );
    page.blank();
    page.text(&format!("{} by {}. {legend}.", matrix.rows.title(), matrix.columns.title()), Hue::Text);
    source(plan, &mut page);
    page
}

fn share(figures: &PlanFigures) -> String {
    // never rounded to 0 or 100
    let share = || format!("{:.0} %", (figures.on_gpu.0 * 100.0).clamp(1.0, 99.0));
    match figures.outcome {
        Outcome::PartsInRam | Outcome::ExpertsInRam => format!("{} {}", figures.outcome.short(), share()),
        Outcome::LayersInRam => share(),
        other => other.short().to_owned(),
    }
}
