//! Answers as text.

use super::super::style::{Hue, Style};
use super::{one_line, sanitize, source};
use crate::answer::largest::Largest;
use crate::answer::matrix::Matrix;
use crate::answer::parts::PartAnswer;
use crate::answer::quant::LargestQuantisation;
use crate::answer::sweep::{PlanFigures, Sweep};
use crate::answer::why::{LayerAnswer, MemoryUser, nothing_to_move};
use crate::answer::{Goal, Remedy, verdict};
use crate::plan::{LayerKind, Outcome, Plan, Why};
use crate::settings::knob::Knob;
use crate::speed::Speeds;
use crate::units::Tokens;

/// The answer of `plimsoll why`.
pub(in super::super) struct WhyAnswer<'a> {
    pub layers: &'a [LayerAnswer],
    /// Whether one layer was requested.
    pub one: bool,
    pub changes: &'a [Remedy],
    pub memory_users: &'a [MemoryUser],
    /// What is loaded beside the model.
    pub beside: &'a [PartAnswer],
    pub speeds: Option<&'a Speeds>,
}

/// Why there is no largest value.
pub(in super::super) struct OutOfReach {
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
pub(in super::super) fn max(
    plan: &Plan,
    knob: Knob,
    goal: Goal,
    largest: Result<&Largest, &OutOfReach>,
    beyond: Option<&Plan>,
    style: &Style,
) -> String {
    let plan = &sanitize(plan.clone());
    let (kept, lacks) = match goal {
        _ if knob == Knob::GpuLayers => ("all requested layers on GPU".to_owned(), "it does not fit".to_owned()),
        _ => kept_and_lacks(plan, goal),
    };
    let mut out = match largest {
        Ok(largest) => {
            let lack = beyond.filter(|beyond| goal != Goal::Vram || beyond.outcome() <= Outcome::Tight);
            let lack = lack.filter(|beyond| beyond.outcome() < Outcome::FromDisk).and_then(verdict::lack_of_room);
            let kept = if lack.is_some() { format!("{kept} and the margin kept free") } else { kept };
            let most = format!("{} {}", knob.title(), Tokens(largest.value));
            let next = largest.next.map(|next| {
                let next = Tokens(next);
                if let Some(lack) = &lack {
                    return format!("At {next}, {lack}.");
                }
                match beyond.map(|beyond| (beyond, beyond.outcome())) {
                    Some((_, Outcome::DoesNotFit)) | None => format!("At {next}, it does not fit."),
                    Some((_, Outcome::FromDisk)) => format!("At {next}, weights are read from disk for every token."),
                    Some((beyond, Outcome::PartsInRam | Outcome::ExpertsInRam)) => {
                        format!("At {next}, {} of the weights run from RAM.", beyond.parts_in_ram())
                    }
                    Some((beyond, _)) => {
                        format!("At {next}, {} of {} layers are on GPU.", beyond.on_gpus(), plan.layers.len())
                    }
                }
            });
            let option = format!("--{} {}", knob.name(), largest.value);
            reached(&most, &kept, next.as_deref(), &largest.plan, &option, style)
        }
        Err(OutOfReach { least, held, lacks_room, assigned }) => {
            let lacks = if *lacks_room { "the margin is not kept free".to_owned() } else { lacks };
            let mut out = out_of_reach(&format!("{} {}", knob.title(), Tokens(*least)), &lacks, style);
            out += &held.as_ref().map_or_else(String::new, |held| style.wrap("", &one_line(held)));
            if let Some(assigned) = assigned {
                let value = Tokens(assigned.value);
                out +=
                    &style.wrap("", &format!("With experts in RAM, {} {value} keeps all layers on GPU:", knob.title()));
                out += &format!("\n  --{} {} (--allow-experts-in-ram)\n", knob.name(), assigned.value);
            }
            out
        }
    };
    out.push('\n');
    let about = largest.map_or_else(|_| plan.clone(), |largest| sanitize(largest.plan.clone()));
    out += &source(&about, style);
    out
}

/// The largest quantisation.
pub(in super::super) fn max_quantisation(
    plan: &Plan,
    goal: Goal,
    largest: &LargestQuantisation,
    style: &Style,
) -> String {
    let plan = &sanitize(plan.clone());
    let (kept, lacks) = kept_and_lacks(plan, goal);
    let mut out = match (&largest.found, largest.next) {
        (Some((to, found)), next) => {
            let most = format!("{to} ({})", found.model.bytes);
            let next = next.map(|next| format!("With {next}, {lacks}."));
            reached(&most, &kept, next.as_deref(), found, &format!("--quant {to}"), style)
        }
        (None, Some(least)) => out_of_reach(least.name(), &lacks, style),
        (None, None) => style.wrap("", "llama.cpp's quantiser has no other quantisation for this model."),
    };
    out.push('\n');
    let about = largest.found.as_ref().map_or_else(|| plan.clone(), |(_, found)| sanitize(found.clone()));
    out += &source(&about, style);
    out
}

/// Phrases for what holds up to the largest value and what fails beyond it.
fn kept_and_lacks(plan: &Plan, goal: Goal) -> (String, String) {
    let all = plan.layers.len();
    match goal {
        Goal::Vram | Goal::VramWith(_) => ("all in VRAM".to_owned(), "not all is in VRAM".to_owned()),
        Goal::AllLayers => ("all layers on GPU".to_owned(), "not all layers are on GPU".to_owned()),
        Goal::AtLeast(layers) => (
            format!("at least {layers} of {all} layers on GPU"),
            format!("fewer than {layers} of {all} layers are on GPU"),
        ),
        Goal::Layer(layer) => (format!("layer {layer} on GPU"), format!("layer {layer} is in RAM")),
    }
}

fn reached(most: &str, kept: &str, next: Option<&str>, found: &Plan, option: &str, style: &Style) -> String {
    let found = &sanitize(found.clone());
    let said = style.wrap("", &format!("{most} is the largest value with {kept}."));
    let mut out = match said.strip_prefix(most) {
        Some(rest) => style.strong(most) + rest,
        None => said,
    };
    out += &style.wrap("", next.unwrap_or("That is the end of the range."));
    out += &style.wrap("", &format!("{}: {}", verdict::headline(found), verdict::sentence(found, None, None)));
    out += &format!("\n  {option}\n");
    out
}

fn out_of_reach(least: &str, lacks: &str, style: &Style) -> String {
    style.wrap("", &format!("Even with {least}, {lacks}: 'plimsoll why' explains why."))
}

/// Why layers are on their devices.
pub(in super::super) fn why(plan: &Plan, explained: &WhyAnswer<'_>, style: &Style) -> String {
    let plan = &sanitize(plan.clone());
    let sentence = verdict::sentence(plan, None, explained.speeds);
    let mut out = style.wrap("", &format!("{}: {sentence}", verdict::headline(plan)));
    out += &layers(plan, explained, style);
    if !explained.memory_users.is_empty() {
        out += &format!("\n{}\n", style.strong("What uses the GPU memory"));
    }
    for user in explained.memory_users {
        out += &format!("{:<6}{:>10}  {}\n", user.device, user.bytes.to_string(), user.name);
    }
    out += &beside(explained.beside, style);
    if explained.changes.is_empty() {
        let none = nothing_to_move(plan).unwrap_or("No single change moves all layers to GPU.");
        out += "\n";
        out += &style.wrap("", none);
    } else {
        out += &format!("\n{}\n", style.strong("Single changes that help (each was tested)"));
    }
    for Remedy { change, goal, speed, .. } in explained.changes {
        let brings = match goal {
            Goal::Vram | Goal::VramWith(_) if plan.outcome() <= Outcome::Tight => verdict::KEEPS.to_owned(),
            Goal::Vram | Goal::VramWith(_) => "brings all into VRAM".to_owned(),
            Goal::AllLayers => "brings all layers onto GPUs, with experts in RAM".to_owned(),
            Goal::Layer(index) => match plan.layer_kind(*index) {
                LayerKind::Output => "brings the output layer onto a GPU".to_owned(),
                _ => format!("brings {} onto a GPU", plan.layer_name(*index)),
            },
            Goal::AtLeast(_) => format!("brings {goal} onto a GPU"),
        };
        let options = change.options().map_or_else(String::new, |options| format!(" ({options})"));
        let now = explained.speeds.map(|speeds| speeds.start.range());
        let times = speed.and_then(|then| then.against(&now?)).map_or_else(String::new, |times| format!(", {times}"));
        let speed = speed.map_or_else(String::new, |speed| format!(": {speed} tok/s{times}"));
        out += &style.wrap("- ", &format!("{change}{options} {brings}{speed}"));
    }
    out.push('\n');
    out += &source(plan, style);
    out
}

/// The projector and the draft, each with its reasons.
fn beside(parts: &[PartAnswer], style: &Style) -> String {
    let mut out = String::new();
    if !parts.is_empty() {
        out += &format!("\n{}\n", style.strong("Loaded beside the model"));
    }
    for part in parts {
        let file = part.file.as_ref().map_or_else(String::new, |file| format!(" ({})", one_line(file)));
        out += &style.wrap("", &format!("{}{file}: {}", part.part.title(), part.amounts()));
        out.extend(part.reasons.iter().map(|reason| style.wrap("- ", &one_line(reason))));
    }
    out
}

/// Layers with the same reason are grouped.
fn layers(plan: &Plan, explained: &WhyAnswer<'_>, style: &Style) -> String {
    let cpu = &plan.cpu().id;
    let mut out = String::new();
    let mut rest = explained.layers.iter().rev().filter(|layer| explained.one || layer.device == *cpu).peekable();
    if rest.peek().is_some() {
        out += &format!("\n{}\n", style.strong(if explained.one { "The layer" } else { "Layers in RAM" }));
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
        let reason = one_line(&layer.reason);
        if given_up(plan, layer) && group.len() > 1 {
            let (first, others) = (reason.split("; ").next().unwrap_or(&reason), range_of_own(plan, &group));
            out += &style.wrap("- ", &format!("{}: {first}; each of these would have needed {others}.", name(&group)));
            continue;
        }
        out += &style.wrap("- ", &format!("{}: {reason}", name(&group[..1])));
        if group.len() > 1 {
            let reason = if layer.inequality.is_some() {
                "no space was left, because layers are placed from last to first"
            } else {
                "same reason"
            };
            out += &style.wrap("- ", &format!("{}: {reason}.", name(&group[1..])));
        }
    }
    out
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

/// Widths of the value column and of an amount.
const VALUE: usize = 11;
const AMOUNT: usize = 10;
/// Width of a speed with the context full.
const SPEED: usize = 10;
/// Columns with byte amounts.
const AMOUNTS: [&str; 4] = ["weights", "cache", "graph", "RAM"];

/// Plans along a knob as a table, with the cliffs.
pub(in super::super) fn sweep(plan: &Plan, sweep: &Sweep, style: &Style) -> String {
    let plan = &sanitize(plan.clone());
    let knob = sweep.knob;
    // the words of a table where there is no room for headlines
    let words = if style.lines < 92 { 8 } else { 14 };
    let mut head = format!("{:>VALUE$}  {:<words$}{:>9}", knob.title(), "verdict", "on GPU");
    if !style.is_narrow() {
        head.extend(AMOUNTS.map(|name| format!("{name:>AMOUNT$}")));
        head += &format!("{:>SPEED$}", "tok/s");
    }
    let word = |outcome: Outcome| if words == 8 { outcome.short() } else { outcome.headline() };
    let mut out = format!("{}\n", style.strong(&head));
    for point in &sweep.points {
        let value = knob.show(point.value);
        match &point.figures {
            Ok(figures) => {
                let totals = &figures.totals;
                let word = style.paint(Hue::of(figures.outcome), &format!("{:<words$}", word(figures.outcome)));
                let layers = format!("{}/{}", figures.on_gpus(), figures.layer_count);
                out += &format!("{value:>VALUE$}  {word}{layers:>9}");
                let speed = figures.speed_at_full_context;
                let amounts = [totals.weights, totals.cache, totals.graph, totals.cpu];
                if style.is_narrow() {
                    out.push('\n');
                    let mut facts: Vec<_> =
                        AMOUNTS.iter().zip(amounts).map(|(name, bytes)| format!("{name} {bytes}")).collect();
                    facts.extend(speed.map(|range| format!("{range} tok/s")));
                    out += &style.below(VALUE + 2, &facts);
                } else {
                    out.extend(amounts.map(|bytes| format!("{:>AMOUNT$}", bytes.to_string())));
                    out += &format!("{:>SPEED$}", speed.map_or_else(|| "–".to_owned(), |range| range.to_string()));
                    out.push('\n');
                }
            }
            Err(error) => out += &style.wrap(&format!("{value:>VALUE$}  "), &one_line(error)),
        }
    }
    if !sweep.cliffs.is_empty() {
        out += &format!("\n{}\n", style.strong("Thresholds"));
        out.extend(sweep.cliffs.iter().map(|cliff| style.wrap("- ", &cliff.description(knob))));
    }
    out.push('\n');
    out += &source(plan, style);
    out
}

/// Plans over two axes as a table of verdicts and shares.
pub(in super::super) fn matrix(plan: &Plan, matrix: &Matrix, style: &Style) -> String {
    const HEAD: usize = 13;
    const CELL: usize = 11;
    let plan = &sanitize(plan.clone());
    let (rows, columns) = (matrix.rows.shown(), matrix.columns.shown());
    let mut out = String::new();
    // split into several tables if the columns do not fit side by side
    let side_by_side = (style.lines.saturating_sub(HEAD) / CELL).max(1);
    for from in (0..columns.len()).step_by(side_by_side) {
        let part = columns.iter().enumerate().skip(from).take(side_by_side);
        let mut head = format!("{:>HEAD$}", matrix.rows.title());
        part.clone().for_each(|(_, value)| head += &format!("{value:>CELL$}"));
        if from > 0 {
            out.push('\n');
        }
        out += &format!("{}\n", style.strong(&head));
        for (row, value) in rows.iter().enumerate() {
            out += &format!("{value:>HEAD$}");
            for (column, _) in part.clone() {
                out += &match matrix.cell(row, column) {
                    Some(Ok(figures)) => style.paint(Hue::of(figures.outcome), &format!("{:>CELL$}", share(figures))),
                    _ => style.paint(Hue::Over, &format!("{:>CELL$}", "refused")),
                };
            }
            out.push('\n');
        }
    }
    let has = |outcome| matrix.cells.iter().flatten().any(|figures| figures.outcome == outcome);
    let of = |outcome, text| if has(outcome) { text } else { "" };
    let parts = of(Outcome::PartsInRam, " parts: layers on GPU, parts of them in RAM;");
    let experts = of(Outcome::ExpertsInRam, " experts: layers on GPU, experts in RAM;");
    let tight = of(Outcome::Tight, " tight: the same, with little room for the driver;");
    let disk = of(Outcome::FromDisk, " disk: read from the file for every token;");
    let legend = format!(
        "VRAM: all in VRAM;{tight}{parts}{experts} %: share of the memory on GPU; RAM: nothing on GPU;{disk} over: does not fit"
    );
    out += &format!(
        "\n{}\n",
        style.wrap("", &format!("{} by {}. {legend}.", matrix.rows.title(), matrix.columns.title()))
    );
    out += &source(plan, style);
    out
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
