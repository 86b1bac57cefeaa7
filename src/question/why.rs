//! `plimsoll why`: why layers are on their devices, and what would bring them onto GPUs.

#[cfg(feature = "cli")]
pub mod arguments;
pub mod device;
mod record;

use super::{About, Question, Stepwise, source, verdict_of};
use crate::answer::parts::{self, PartAnswer};
use crate::answer::place::Placed;
use crate::answer::ram_remedy::is_short;
use crate::answer::why::{self, LayerAnswer, MemoryUser, nothing_to_move};
use crate::answer::{Goal, Remedy, verdict};
use crate::engine::{EngineVersion, PlanRequest};
use crate::export::csv;
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::plan::{LayerKind, Outcome, Plan, Why};
use crate::speed::Speeds;
use record::WhyAnswer;

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyRequest {
    /// All layers.
    Layers,
    /// One layer, by its index in the plan.
    Layer(usize),
    /// A device, by its index in the plan.
    Device(usize),
}

/// A part of the search for changes.
enum Step {
    /// Single ones that bring layers onto GPUs.
    Single(Vec<Remedy>),
    /// What helps where RAM is short.
    Ram,
    /// Two together, where nothing was found before.
    Two,
}

impl WhyRequest {
    /// Changes that bring the layer, or all layers, onto GPUs: single ones, or if there are none, two together.
    fn changes(self, of: &PlanRequest, plan: Plan) -> impl Iterator<Item = Option<Vec<Remedy>>> {
        let layer = match self {
            Self::Layer(layer) => Some(layer),
            Self::Layers | Self::Device(_) => why::closest_to_fitting(&plan),
        };
        let mut none_yet = true;
        let single = of.remedies(plan.clone(), layer).map(Step::Single);
        single.chain([Step::Ram, Step::Two]).map(move |step| {
            let remedies = match step {
                Step::Single(remedies) => remedies,
                Step::Ram => of.ram_remedies(&plan),
                Step::Two if none_yet => of.remedies_of_two(&plan),
                Step::Two => Vec::new(),
            };
            none_yet &= remedies.is_empty();
            Some(remedies).filter(|remedies| !remedies.is_empty())
        })
    }
}

impl Stepwise for WhyRequest {
    type Part = Vec<Remedy>;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>> {
        of.plan().ok().into_iter().flat_map(|plan| self.changes(of, plan))
    }
}

/// Why layers are on their devices.
#[derive(Debug)]
pub struct WhyFound {
    /// The layers that it is about.
    layers: Vec<LayerAnswer>,
    /// Changes that help.
    changes: Vec<Remedy>,
    /// A placement that is faster, where something is in RAM.
    placed: Option<Placed>,
    /// What uses memory on GPUs.
    memory_users: Vec<MemoryUser>,
    /// What is loaded beside the model.
    beside: Vec<PartAnswer>,
}

impl Question for WhyRequest {
    const NAME: &'static str = "why";
    const PRINTS: &'static str = "why layers are where they are";
    type Answer = WhyFound;
    type Record<'a> = WhyAnswer<'a>;

    fn answer(&self, About { request, plan, .. }: About<'_>) -> Result<WhyFound, String> {
        Ok(WhyFound {
            layers: match *self {
                Self::Layers => why::layers(plan),
                Self::Layer(layer) => why::layer(plan, layer).into_iter().collect(),
                Self::Device(device) => {
                    let here = plan.devices.get(device).map(|device| &device.id);
                    why::layers(plan).into_iter().filter(|layer| Some(&layer.device) == here).collect()
                }
            },
            changes: self.changes(request, plan.clone()).flatten().flatten().collect(),
            placed: (plan.outcome() > Outcome::Tight).then(|| request.placed(plan)).flatten(),
            memory_users: why::memory_users(plan),
            beside: parts::of(request, plan),
        })
    }

    fn page(&self, about: About<'_>, found: &WhyFound) -> Page {
        match *self {
            Self::Device(device) => of_device(device, about),
            Self::Layer(_) => of_layers(true, about, found),
            Self::Layers => of_layers(false, about, found),
        }
    }

    fn record<'a>(&'a self, about: About<'a>, found: &'a WhyFound) -> WhyAnswer<'a> {
        WhyAnswer::of(about, found)
    }

    fn csv(&self, _: About<'_>, found: &WhyFound) -> Option<String> {
        let row = |layer: &LayerAnswer| {
            let LayerAnswer { index, device, reason, needed, available, .. } = layer;
            let available = csv::cell(available.map(|bytes| bytes.0));
            [index.to_string(), device.clone(), needed.0.to_string(), available, reason.clone()]
        };
        Some(csv::table(["index", "device", "needed", "available", "reason"], found.layers.iter().map(row)))
    }
}

/// Why layers are on their devices, and what would bring them onto GPUs.
fn of_layers(one: bool, About { request, plan, .. }: About<'_>, explained: &WhyFound) -> Page {
    let mut page = Page::default();
    let speeds = Speeds::of(&request.model, &request.machine, plan, 0);
    verdict_of(plan, speeds.as_ref(), &mut page);
    layers(plan, one, &explained.layers, &mut page);
    memory_users(&explained.memory_users, &mut page);
    kept_free(plan, &mut page);
    beside(&explained.beside, &mut page);
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
    remedies(plan, &explained.changes, speeds.as_ref(), &mut page);
    if let Some(placed) = &explained.placed {
        page.heading("Another placement of the same (plimsoll place)");
        page.item(&format!("{} {}", placed.headline(), placed.reason));
    }
    source(plan, &mut page);
    page
}

/// What takes the memory of a device.
fn of_device(device: usize, About { request, plan, .. }: About<'_>) -> Page {
    let mut page = Page::default();
    let speeds = Speeds::of(&request.model, &request.machine, plan, 0);
    device::add(Some(request), plan, speeds.as_ref(), device, &mut page);
    device::confidence(EngineVersion::of(request.engine, &request.settings), plan, &mut page);
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
    page.push(Block::Table(Table { columns, rows, gap: 1, head: true, narrow: Narrow::Cut(2) }));
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
            Goal::AtLeast(0) if is_short(plan) => "makes it fit into RAM".to_owned(),
            Goal::AtLeast(0) => "leaves room in RAM for all that the server may take".to_owned(),
            Goal::AtLeast(_) => format!("brings {goal} onto a GPU"),
        };
        let options = remedy.options().map_or_else(String::new, |options| format!(" ({options})"));
        let brings =
            if also.is_some() { brings.replacen("brings", "bring", 1).replacen("makes", "make", 1) } else { brings };
        let cost = cost.as_ref().map_or_else(String::new, |cost| format!(". {}", verdict::capitalised(cost)));
        let now = speeds.map(|speeds| speeds.start.range());
        let times = speed.and_then(|then| then.against(&now?)).filter(|times| times.helps());
        let times = times.map_or_else(String::new, |times| format!(", about {times}"));
        let speed = speed.map_or_else(String::new, |speed| format!(": {speed}{times}"));
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
fn layers(plan: &Plan, one: bool, asked: &[LayerAnswer], page: &mut Page) {
    let cpu = &plan.cpu().id;
    let mut rest = asked.iter().rev().filter(|layer| one || layer.device == *cpu).peekable();
    if rest.peek().is_some() {
        page.heading(if one { "The layer" } else { "Layers in RAM" });
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
