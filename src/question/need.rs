//! `plimsoll need`: which known cards and systems run a model.

#[cfg(feature = "cli")]
pub mod arguments;

use schemars::JsonSchema;
use serde::Serialize;

use super::{About, Question, Stepwise, not_as_asked, source_line};
use crate::answer::need::{NeedRequest, NeededContext, NeededMachine};
use crate::engine::PlanRequest;
use crate::export::{PlanSource, csv, record};
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::plan::{Outcome, Plan};
use crate::settings::Context;
use crate::speed::Speed;
use crate::units::{Bytes, Tokens, short};

impl Stepwise for NeedRequest {
    type Part = Vec<NeededMachine>;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>> {
        std::iter::once_with(|| Some(of.needed(self)))
    }
}

impl Question for NeedRequest {
    const NAME: &'static str = "need";
    const PRINTS: &'static str = "machines that run a model";
    type Answer = Vec<NeededMachine>;
    type Record<'a> = NeedAnswer<'a>;

    fn answer(&self, about: About<'_>) -> Result<Self::Answer, String> {
        Ok(about.request.needed(self))
    }

    fn page(&self, about: About<'_>, found: &Self::Answer) -> Page {
        page(self, about.request.needed_context(), found)
    }

    fn record<'a>(&'a self, about: About<'a>, found: &'a Self::Answer) -> NeedAnswer<'a> {
        let NeededContext { tokens, is_given } = about.request.needed_context();
        NeedAnswer {
            head: PlanSource::of(about.plan, about.source),
            ctx: tokens,
            ctx_given: is_given,
            speed: self.speed,
            ram: self.ram.free,
            machines: found.iter().map(MachineRecord::of).collect(),
        }
    }

    fn csv(&self, _: About<'_>, found: &Self::Answer) -> Option<String> {
        let row = |one: &NeededMachine| {
            let MachineRecord { name, preset, count, memory, ram, outcome, ctx, speed } = MachineRecord::of(one);
            let Speed { tokens_per_second, low, high, .. } = speed;
            let speeds = [tokens_per_second, low, high].map(|speed| format!("{speed:.2}"));
            let sizes = [count.to_string(), memory.0.to_string(), ram.0.to_string()];
            let facts = [outcome.name().to_owned(), ctx.to_string()];
            [name, preset.to_owned()].into_iter().chain(sizes).chain(facts).chain(speeds)
        };
        let columns =
            ["name", "preset", "count", "memory", "ram", "outcome", "ctx", "tokens_per_second", "low", "high"];
        Some(csv::table(columns, found.iter().map(row)))
    }
}

/// Most machines of a kind on the page.
const SHOWN: usize = 12;

/// The machines that do what is asked, by kind; those with the least memory first.
pub fn page(question: &NeedRequest, context: NeededContext, found: &[NeededMachine]) -> Page {
    let mut page = Page::default();
    let NeedRequest { ram, speed } = question;
    let NeededContext { tokens, is_given } = context;
    let assumed = if is_given { "" } else { " (taken, as none is given: --ctx)" };
    let asked = format!(
        "a context of {} tokens{assumed}, {speed} tokens a second or more when it is full, {} of RAM free beside cards",
        Tokens(tokens),
        ram.free
    );
    let planned = found.first().map_or(tokens, |one| one.plan.settings.ctx);
    let is_equal = found.iter().all(|one| one.plan.settings.ctx == planned);
    let full = if is_equal { format!("≈ tok/s at {}", short(planned)) } else { "≈ tok/s full".to_owned() };
    if found.is_empty() {
        page.text(&format!("No known card or system runs it: asked for were {asked}."), Hue::Text);
        return page;
    }
    let shorter = found.iter().find_map(|one| not_as_asked(Context::Tokens(tokens), &one.plan));
    if let Some(text) = shorter {
        page.text(&text, Hue::Over);
    }
    page.text(&format!("Asked for: {asked}. Those with the least memory come first."), Hue::Text);
    for title in ["One card", "Two cards", "Cards with RAM", "Systems"] {
        let of_kind: Vec<&NeededMachine> = found.iter().filter(|one| kind(one) == title).collect();
        if of_kind.is_empty() {
            continue;
        }
        page.heading(title);
        let columns =
            vec![Column::left("", 24), Column::right("memory", 8), Column::right(&full, 14), Column::left("where", 8)];
        let rows = of_kind.iter().take(SHOWN).map(|one| {
            let outcome = one.plan.outcome();
            let speed = one.speed.range().cell();
            let cells = [one.name(), one.memory.to_string(), speed];
            let cells = cells.iter().map(|cell| Span::from(cell.as_str()));
            cells.chain([Span::new(&place(&one.plan), Hue::of(outcome))]).collect()
        });
        page.table(columns, rows.collect(), Narrow::Cut(0));
        if of_kind.len() > SHOWN {
            page.text(
                &format!(
                    "{} more, with more memory: plimsoll need with --csv or --json lists them.",
                    of_kind.len() - SHOWN
                ),
                Hue::Dim,
            );
        }
    }
    if let Some(first) = found.first() {
        source_line(&first.plan, &mut page);
    }
    page
}

/// The title under which it is listed.
fn kind(one: &NeededMachine) -> &'static str {
    match one.count {
        _ if !one.is_card() => "Systems",
        _ if !one.is_in_vram() => "Cards with RAM",
        1 => "One card",
        _ => "Two cards",
    }
}

/// `all in VRAM`, `experts of 12.4 GiB in RAM`
fn place(plan: &Plan) -> String {
    match plan.outcome() {
        Outcome::Vram => "all in VRAM".to_owned(),
        Outcome::Cpu => "RAM".to_owned(),
        _ => {
            let in_ram: Bytes = plan.cpu().asked();
            format!("{}, {in_ram} of RAM", plan.in_ram_short())
        }
    }
}

/// The known cards and systems that run a model.
#[derive(JsonSchema, Serialize)]
pub struct NeedAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The context that machines are judged by; it is full when their speeds are asked for.
    ctx: u64,
    /// Whether it was given; otherwise one is taken that most uses are served by.
    ctx_given: bool,
    /// The least tokens per second that were asked for, with the context full.
    speed: f64,
    /// RAM that is free beside cards.
    ram: Bytes,
    machines: Vec<MachineRecord<'a>>,
}

record! {
    /// A machine that runs it.
    MachineRecord<'a>(one: &'a NeededMachine) {
        name: String = one.name(),
        /// The card's or the system's name.
        preset: &'a str = &one.preset.name,
        /// How many of it.
        count: usize = one.count,
        /// Memory of all its GPUs.
        memory: Bytes = one.memory,
        /// What the plan takes of RAM.
        ram: Bytes = one.plan.cpu().asked(),
        outcome: Outcome = one.plan.outcome(),
        ctx: u64 = one.plan.settings.ctx,
        speed: &'a Speed = &one.speed,
    }
}
