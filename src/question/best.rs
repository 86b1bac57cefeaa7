//! `plimsoll best`: the best settings with all layers on GPUs, a card for each objective.

#[cfg(feature = "cli")]
pub mod arguments;
mod record;

use super::{About, Question, Stepwise, not_as_asked, source};
use crate::answer::best::{BestRequest, Card, Loss, Objective, Side};
use crate::answer::{Figures, Remedy, verdict};
use crate::engine::PlanRequest;
use crate::page::{Block, Column, Hue, Ink, Narrow, Page, Span, Table, width};
use crate::plan::{Outcome, Plan};
use crate::settings::Settings;
use crate::speed::{SpeedRange, Speeds};
use crate::units::{Tokens, short};
use record::BestAnswer;

/// What is searched for.
#[derive(Clone, Debug)]
pub struct Best {
    /// What settings must do.
    pub search: BestRequest,
    /// Only the cards of this objective are shown.
    pub only: Option<Objective>,
}

impl Stepwise for Best {
    /// The cards.
    type Part = Vec<Card>;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>> {
        let mut search = of.plan().ok().map(|plan| of.best_in_steps(plan, &self.search));
        std::iter::from_fn(move || search.as_mut()?.next())
    }
}

impl Question for Best {
    const NAME: &'static str = "best";
    const PRINTS: &'static str = "the best settings";
    type Answer = BestFound;
    type Record<'a> = BestAnswer<'a>;

    fn answer(&self, About { request, plan, .. }: About<'_>) -> Result<BestFound, String> {
        let mut cards = request.best(plan, &self.search);
        cards.retain(|card| self.only.is_none_or(|only| card.objectives.contains(&only)));
        let sides = request.sides(&self.search);
        Ok(BestFound { cards, less_kept: request.remedy_by_margin(plan), sides })
    }

    fn page(&self, About { request, plan, .. }: About<'_>, found: &BestFound) -> Page {
        let BestFound { cards: found, less_kept, sides } = found;
        let mut page = Page::default();
        let Self { search, only } = self;
        let names: Vec<&str> = search.held.iter().map(|knob| knob.title()).collect();
        let held = if names.is_empty() { String::new() } else { format!(" Fixed as given: {}.", names.join(", ")) };
        if let Some(text) = not_as_asked(request.settings.ctx, plan) {
            page.text(&text, Hue::Over);
        }
        let margin = search.margin;
        page.text(&format!("Each was planned; bold is what differs from now. Safe leaves {margin}.{held}"), Hue::Text);
        if let [first, ..] = found.as_slice() {
            page.blank();
            let speeds = Speeds::of(&request.model, &request.machine, plan, 0);
            table((plan, speeds.as_ref()), found, &mut page);
            options(found, &request.settings, &mut page);
            card(first, &request.settings, &mut page);
        }
        if let Some(remedy) = less_kept {
            page.blank();
            page.text(&less_kept_text(remedy), Hue::Text);
        }
        match only {
            Some(only) if found.is_empty() && *only != Objective::Safe => {
                page.text(&format!("{}: no settings were found.", only.title()), Hue::Text);
            }
            _ if found.is_empty() => nothing_runs(plan, &mut page),
            None | Some(Objective::Safe) => nothing_is_safe(search, found, &mut page),
            Some(_) => {}
        }
        if let Some(sides) = sides {
            beside(sides, &mut page);
        }
        source(plan, &mut page);
        page
    }

    fn record<'a>(&'a self, about: About<'a>, found: &'a BestFound) -> BestAnswer<'a> {
        BestAnswer::of(about, &self.search, found)
    }

    fn csv(&self, about: About<'_>, found: &BestFound) -> Option<String> {
        Some(record::csv(&about.request.settings, &found.cards))
    }
}

/// The best settings, and what the present ones would be with less kept free.
#[derive(Debug)]
pub struct BestFound {
    /// A card for each objective, or for several.
    pub cards: Vec<Card>,
    /// All in VRAM with the settings as they are but for what is kept free, where that brings it there.
    pub less_kept: Option<Remedy>,
    /// The model as a GGUF file and with MLX, on a Mac.
    pub sides: Option<[Side; 2]>,
}

/// Adds a row for the model as a GGUF file and one with MLX.
fn beside(sides: &[Side; 2], page: &mut Page) {
    page.heading("As a GGUF file and with MLX");
    let columns = vec![
        Column::left("", 20),
        Column::left("weights", 8),
        Column::right("size", 9),
        Column::right("VRAM ctx", 9),
        Column::right("≈ tok/s", 12),
    ];
    let row = |side: &Side| {
        let Side { plan, fit } = side;
        let dash = || "–".to_owned();
        let cells = [
            plan.engine.title().to_owned(),
            plan.model.file_type.clone().unwrap_or_default(),
            plan.model.bytes.to_string(),
            fit.context().map_or_else(dash, short),
            fit.speed.as_ref().map_or_else(dash, |speed| speed.range().cell()),
        ];
        cells.iter().map(|cell| Span::from(cell.as_str())).collect()
    };
    page.table(columns, sides.iter().map(row).collect(), Narrow::Cut(0));
    page.text(
        "Each is what would be taken of it; llama.cpp reserves its context, and MLX grows with the tokens in use.",
        Hue::Dim,
    );
}

/// `With less kept free the settings as they are run from VRAM alone (--fit-target 384): ≈ 34 tok/s (22–42). Then 454 MiB …`
fn less_kept_text(remedy: &Remedy) -> String {
    let speed = remedy.speed.map_or_else(String::new, |speed| format!(": {speed}"));
    let stays = remedy.cost.as_ref().map_or_else(String::new, |stays| format!(" Then {stays}."));
    let options = remedy.options().unwrap_or_default();
    format!("With less kept free the settings as they are run from VRAM alone ({options}){speed}.{stays}")
}

/// Adds a row for each card below one for the settings as they are; what differs from those is bold.
pub fn table((plan, speeds): (&Plan, Option<&Speeds>), cards: &[Card], page: &mut Page) {
    let titles = [
        Column::left("", 0),
        Column::left("weights", 0),
        Column::left("KV", 0),
        Column::right("context", 0),
        Column::right("≈ tok/s", 0),
        Column::right("full", 0),
        Column::right("headroom", 0),
        Column::left("in RAM", 0),
        Column::left("first token", 0),
        Column::left("gives up", 0),
    ];
    let now = cells(plan, speeds);
    let row = |name: &str, plan: &Plan, speeds: Option<&Speeds>, first: String, gives_up: String| {
        let cells = cells(plan, speeds);
        let ink = |(cell, now): (&String, &String)| {
            Span::new(cell, if cell == now { Ink::from(Hue::Text) } else { Hue::Text.bold() })
        };
        let name = Span::new(name, Hue::of(plan.outcome()).bold());
        let last = [Span::from(first), Span::new(&gives_up, Hue::Dim)];
        std::iter::once(name).chain(cells.iter().zip(&now).map(ink)).chain(last).collect::<Vec<_>>()
    };
    let of_card = |card: &Card| {
        let leaves_vram = card.gives_up.iter().any(|loss| matches!(loss, Loss::Vram(_)));
        let losses = card.gives_up.iter().filter(|loss| !(leaves_vram && matches!(loss, Loss::Layers { .. })));
        let losses: Vec<&str> = losses.map(Loss::word).collect();
        let first = card.first_token.map_or_else(String::new, |first| first.whole.to_string());
        let losses = if losses.is_empty() { "nothing".to_owned() } else { losses.join(", ") };
        row(&card.title(), &card.plan, card.speeds.as_ref(), first, losses)
    };
    let rows = std::iter::once(row("Now", plan, speeds, String::new(), String::new()));
    let rows = rows.chain(cards.iter().map(of_card)).collect();
    let table = Table { columns: titles.into(), rows, gap: 2, head: true, narrow: Narrow::Below(7) };
    let (head, mut rows) = table.in_rows();
    if let Some(head) = head {
        page.push(head);
    }
    let cards = rows.split_off(1);
    for now in rows {
        page.push(now);
    }
    for card in cards {
        page.choice(card);
    }
}

/// Weights, cache, context, both speeds, headroom, and what is in RAM.
fn cells(plan: &Plan, speeds: Option<&Speeds>) -> [String; 7] {
    let effect = &plan.settings;
    let kv = match (effect.cache_type_k, effect.cache_type_v) {
        (k, v) if k == v => k.to_string(),
        (k, v) => format!("{k}/{v}"),
    };
    let figures = Figures::of(plan, None, speeds);
    let speed = |range: Option<SpeedRange>| range.map_or_else(|| "–".to_owned(), |range| range.short());
    [
        plan.model.file_type.clone().unwrap_or_default(),
        kv,
        Tokens(effect.ctx).to_string(),
        speed(figures.start),
        speed(figures.full),
        figures.headroom.map_or_else(|| "–".to_owned(), |left| left.to_string()),
        in_ram(plan),
    ]
}

/// `3 layers`, `12.4 GiB`; nothing where all is in VRAM.
fn in_ram(plan: &Plan) -> String {
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight => String::new(),
        Outcome::PartsInRam | Outcome::ExpertsInRam => plan.parts_in_ram().to_string(),
        _ => match plan.layers.len() - plan.on_gpus() {
            1 => "1 layer".to_owned(),
            layers => format!("{layers} layers"),
        },
    }
}

/// Adds what there is to say of one card: what it brings, why, what it changes and gives up, its options, and where its file can be
/// had. `asked` is what its options change.
pub fn card(card: &Card, asked: &Settings, page: &mut Page) {
    page.push(Block::Heading(Span::new(&card.title(), Hue::Text.bold())));
    page.item(&format!("{}. {}.", card.headline(), card.room_and_speed()));
    page.item(&card.gives_up_text());
    card.fastest_text().iter().for_each(|text| page.item(text));
    card.placement.iter().for_each(|placement| page.item(&placement.reason));
    card.changes_text().iter().for_each(|changes| page.item(changes));
    card.place_text().iter().for_each(|place| page.item(place));
    let options = card.options(asked);
    if !options.is_empty() {
        page.verbatim(&format!("    {options}"), Hue::Text);
    }
}

/// Adds the options of every card.
fn options(cards: &[Card], asked: &Settings, page: &mut Page) {
    let rows = cards.iter().filter_map(|card| {
        let options = card.options(asked);
        (!options.is_empty()).then(|| (card.title(), options))
    });
    let rows: Vec<(String, String)> = rows.collect();
    let names = rows.iter().map(|(title, _)| width(title)).max().unwrap_or(0);
    if !rows.is_empty() {
        page.blank();
    }
    for (title, options) in rows {
        page.verbatim(&format!("{title:<names$}  {options}"), Hue::Text);
    }
}

/// Adds why there is no card: what `plan` lacks, in its own words.
pub fn nothing_runs(plan: &Plan, page: &mut Page) {
    page.blank();
    let said = verdict::sentence(plan, None, None);
    page.text(&format!("No settings were found that fit. {}: {said}", verdict::headline(plan)), Hue::Text);
    page.text("plimsoll why lists what would help.", Hue::Dim);
}

/// Adds that no settings are safe, if none are.
pub fn nothing_is_safe(question: &BestRequest, cards: &[Card], page: &mut Page) {
    if !cards.iter().any(|card| card.objectives.contains(&Objective::Safe)) {
        page.blank();
        page.text(&question.nothing_is_safe(), Hue::Text);
    }
}
