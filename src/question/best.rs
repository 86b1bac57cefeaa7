//! `plimsoll best`: the best settings with all layers on GPUs, a card for each objective.

#[cfg(feature = "cli")]
pub mod arguments;
mod record;

use super::{About, Question, Stepwise, source};
use crate::answer::best::{BestRequest, Card, Objective};
use crate::answer::verdict;
use crate::engine::PlanRequest;
use crate::page::{Block, Hue, Page, Span};
use crate::plan::Plan;
use crate::settings::{Context, Settings};
use crate::speed::USABLE;
use crate::units::Tokens;
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
    type Answer = Vec<Card>;
    type Record<'a> = BestAnswer<'a>;

    fn answer(&self, About { request, plan, .. }: About<'_>) -> Result<Vec<Card>, String> {
        let mut cards = request.best(plan, &self.search);
        cards.retain(|card| self.only.is_none_or(|only| card.objectives.contains(&only)));
        Ok(cards)
    }

    fn page(&self, About { request, plan, .. }: About<'_>, found: &Vec<Card>) -> Page {
        let mut page = Page::default();
        let Self { search, only } = self;
        let names: Vec<&str> = search.held.iter().map(|knob| knob.title()).collect();
        let held = if names.is_empty() { String::new() } else { format!(" Fixed as given: {}.", names.join(", ")) };
        if let Some(text) = not_as_asked(request, plan) {
            page.text(&text, Hue::Over);
        }
        page.text(
            &format!(
                "Each was planned. Speeds are with an empty cache, then with the context full. Safe leaves {} on every GPU, \
                 balanced where good weights allow it; best quality and longest context write {USABLE} tok/s or more where \
                 anything does.{held}",
                search.margin
            ),
            Hue::Text,
        );
        cards(found, &request.settings, &mut page);
        match only {
            Some(only) if found.is_empty() && *only != Objective::Safe => {
                page.text(&format!("{}: no settings were found.", only.title()), Hue::Text);
            }
            _ if found.is_empty() => nothing_runs(plan, &mut page),
            None | Some(Objective::Safe) => nothing_is_safe(search, found, &mut page),
            Some(_) => {}
        }
        source(plan, &mut page);
        page
    }

    fn record<'a>(&'a self, about: About<'a>, found: &'a Vec<Card>) -> BestAnswer<'a> {
        BestAnswer::of(about, &self.search, found)
    }

    fn csv(&self, about: About<'_>, cards: &Vec<Card>) -> Option<String> {
        Some(record::csv(&about.request.settings, cards))
    }
}

/// Where the engine plans less context than was given: a sentence, which comes first.
pub fn not_as_asked(request: &PlanRequest, plan: &Plan) -> Option<String> {
    let Context::Tokens(asked) = request.settings.ctx else { return None };
    let taken = plan.settings.ctx;
    let trained = plan.model.context_train == Some(plan.settings.ctx_per_sequence);
    let why = if trained { ", which is all that the model was trained for" } else { "" };
    (taken < asked).then(|| {
        format!(
            "Not the context that was given: {} plans {} tokens instead of {}{why}.",
            plan.engine_title(),
            Tokens(taken),
            Tokens(asked)
        )
    })
}

/// Adds a card for each objective; `asked` is what their options change.
pub fn cards(cards: &[Card], asked: &Settings, page: &mut Page) {
    for card in cards {
        page.choice(Block::Heading(Span::new(&card.title(), Hue::Text.bold())));
        page.item(&format!("{}; {}. {}", card.headline(), card.room_and_speed(), card.gives_up_text()));
        card.fastest_text().iter().for_each(|text| page.item(text));
        card.placement.iter().for_each(|placement| page.item(&placement.reason));
        card.changes_text().iter().for_each(|changes| page.item(changes));
        let options = card.options(asked);
        if !options.is_empty() {
            page.verbatim(&format!("    {options}"), Hue::Text);
        }
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
