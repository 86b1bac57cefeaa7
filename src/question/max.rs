//! `plimsoll max`: the largest value of a knob, or the largest quantisation, with all layers on GPUs.

#[cfg(feature = "cli")]
pub mod arguments;

use schemars::JsonSchema;
use serde::Serialize;

use super::json_value::JsonValue;
use super::{About, Question, source, verdict_of};
use crate::answer::largest::{Largest, LargestQuantisation};
use crate::answer::sweep::AxisKind;
use crate::answer::{Goal, verdict, why};
use crate::engine::PlanRequest;
use crate::export::{PlanRecord, PlanSource};
use crate::gguf::FileType;
use crate::page::{Hue, Page, Span};
use crate::plan::{Outcome, Plan};
use crate::settings::knob::Knob;
use crate::units::Tokens;

/// Up to which value the goal is met.
#[derive(Clone, Copy, Debug)]
pub struct MaxRequest {
    /// What grows.
    pub of: AxisKind,
    /// What must hold.
    pub goal: Goal,
}

/// The largest value.
#[derive(Debug)]
pub enum MaxFound {
    /// Of a knob, or why there is none.
    Knob(Knob, Result<Largest, OutOfReach>),
    /// The largest quantisation.
    Quantisation(LargestQuantisation),
}

/// Why there is no largest value.
#[derive(Debug)]
pub struct OutOfReach {
    /// The smallest value, which fails already.
    least: u64,
    /// What keeps it from being all in VRAM.
    held: Option<String>,
    /// Whether all layers are on GPUs even so, with less left than must stay free.
    lacks_room: bool,
}

impl OutOfReach {
    fn of(request: &PlanRequest, knob: Knob) -> Self {
        let least = request.least(knob);
        let plan = planned(request, knob, least);
        let held = plan.as_ref().and_then(why::what_holds);
        let in_room = |plan: &Plan| plan.outcome() <= Outcome::Tight && verdict::lack_of_room(plan).is_some();
        Self { least, held, lacks_room: plan.as_ref().is_some_and(in_room) }
    }
}

fn planned(request: &PlanRequest, knob: Knob, value: u64) -> Option<Plan> {
    let mut settings = request.settings.clone();
    knob.set(&mut settings, value);
    request.with(settings).plan().ok()
}

impl Question for MaxRequest {
    const NAME: &'static str = "max";
    const PRINTS: &'static str = "the largest value of a knob";
    type Answer = MaxFound;
    type Record<'a> = MaxAnswer<'a>;

    fn answer(&self, about: About<'_>) -> Result<MaxFound, String> {
        let request = about.request;
        Ok(match self.of {
            AxisKind::Knob(knob) => {
                let largest = request.largest(knob, self.goal).ok_or_else(|| OutOfReach::of(request, knob));
                MaxFound::Knob(knob, largest)
            }
            AxisKind::Quantisation => MaxFound::Quantisation(request.largest_quantisation(self.goal)),
        })
    }

    fn page(&self, about: About<'_>, found: &MaxFound) -> Page {
        match found {
            MaxFound::Knob(knob, largest) => of_knob(about, *knob, self.goal, largest.as_ref()),
            MaxFound::Quantisation(largest) => of_quantisation(about.plan, self.goal, largest),
        }
    }

    fn record<'a>(&'a self, About { plan, source, .. }: About<'a>, found: &'a MaxFound) -> MaxAnswer<'a> {
        let head = PlanSource::of(plan, source);
        match found {
            MaxFound::Knob(knob, found) => {
                let (largest, out_of_reach) = (found.as_ref().ok(), found.as_ref().err());
                MaxAnswer {
                    head,
                    knob: knob.name(),
                    value: largest.map(|largest| JsonValue::Number(largest.value)),
                    next: largest
                        .and_then(|largest| largest.next)
                        .or(out_of_reach.map(|none| none.least))
                        .map(JsonValue::Number),
                    held: out_of_reach.and_then(|none| none.held.as_deref()),
                    plan: largest.map(|largest| PlanRecord::of(&largest.plan, source)),
                }
            }
            MaxFound::Quantisation(largest) => {
                let name = |file_type: FileType| JsonValue::Word(file_type.to_string());
                let found = largest.found.as_ref();
                MaxAnswer {
                    head,
                    knob: "quant",
                    value: found.map(|&(to, _)| name(to)),
                    next: largest.next.map(name),
                    held: None,
                    plan: found.map(|(_, plan)| PlanRecord::of(plan, source)),
                }
            }
        }
    }
}

/// The largest value of a knob with all layers on GPUs, or as many as were asked for.
#[derive(JsonSchema, Serialize)]
pub struct MaxAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The knob, or `quant`.
    knob: &'static str,
    /// The largest value that fits; null if none does.
    value: Option<JsonValue>,
    /// The first value that fails; null at the end of the range.
    next: Option<JsonValue>,
    /// What holds it, in a sentence, where no value fits; null where one does, or nothing holds it.
    held: Option<&'a str>,
    /// The plan at that value; null if none fits.
    plan: Option<PlanRecord<'a>>,
}

/// The largest value of `knob`, or why there is none.
fn of_knob(
    About { request, plan, .. }: About<'_>,
    knob: Knob,
    goal: Goal,
    largest: Result<&Largest, &OutOfReach>,
) -> Page {
    let mut page = Page::default();
    let (kept, lacks) = match goal {
        _ if knob == Knob::GpuLayers => ("all requested layers on GPU".to_owned(), "it does not fit".to_owned()),
        _ => kept_and_lacks(plan, goal),
    };
    match largest {
        Ok(largest) => {
            let beyond = largest.next.and_then(|next| planned(request, knob, next));
            let beyond = beyond.as_ref();
            let lack = beyond.filter(|beyond| goal != Goal::Vram || beyond.outcome() <= Outcome::Tight);
            let lack = lack.filter(|beyond| beyond.outcome() < Outcome::FromDisk).and_then(verdict::lack_of_room);
            let kept = if lack.is_some() { format!("{kept} and enough kept free") } else { kept };
            let most = format!("{} {}", knob.title(), Tokens(largest.value));
            let next = largest.next.map(|next| at_next(Tokens(next), lack.as_deref(), beyond, plan.layers.len()));
            let option = format!("--{} {}", knob.name(), largest.value);
            reached(&most, &kept, next.as_deref(), &largest.plan, &option, &mut page);
        }
        Err(OutOfReach { least, held, lacks_room }) => {
            let lacks = if *lacks_room { "not enough is kept free".to_owned() } else { lacks };
            out_of_reach(&format!("{} {}", knob.title(), Tokens(*least)), &lacks, &mut page);
            if let Some(held) = held {
                page.text(held, Hue::Text);
            }
            let has_experts = goal == Goal::Vram && request.model.hyper.experts.is_some();
            if let Some(assigned) = has_experts.then(|| request.largest(knob, Goal::AllLayers)).flatten() {
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
fn of_quantisation(plan: &Plan, goal: Goal, largest: &LargestQuantisation) -> Page {
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
