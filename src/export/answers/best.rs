//! The best settings as JSON.

use serde::Serialize;

use super::AnswerSource;
use crate::answer::best::{BestRequest, Card};
use crate::answer::sweep::PlanFigures;
use crate::plan::{Outcome, Plan};
use crate::settings::Settings;
use crate::text;
use crate::units::{Bytes, Difference};

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    source: AnswerSource,
    held: Vec<&'static str>,
    margin: Bytes,
    cards: Vec<CardRecord<'a>>,
}

#[derive(Serialize)]
struct CardRecord<'a> {
    names: Vec<&'static str>,
    outcome: Outcome,
    ctx: u64,
    cache_type_k: String,
    cache_type_v: String,
    quant: Option<&'a str>,
    margin: Option<Difference>,
    gives_up: Option<LossRecord>,
    options: String,
    plan: PlanFigures,
}

#[derive(Serialize)]
struct LossRecord {
    what: &'static str,
    says: String,
}

impl<'a> CardRecord<'a> {
    fn of(card: &'a Card, asked: &Settings) -> Self {
        let Card { objectives, plan, speeds, gives_up, .. } = card;
        Self {
            names: objectives.iter().map(|objective| objective.name()).collect(),
            outcome: plan.outcome(),
            ctx: plan.settings.ctx,
            cache_type_k: plan.settings.cache_type_k.to_string(),
            cache_type_v: plan.settings.cache_type_v.to_string(),
            quant: plan.model.file_type.as_deref(),
            margin: plan.tightest_gpu().map(|(_, headroom)| headroom.above_kept()),
            gives_up: gives_up.as_ref().map(|loss| LossRecord { what: loss.name(), says: loss.to_string() }),
            options: card.options(asked),
            plan: PlanFigures::of(plan, speeds.as_ref()),
        }
    }
}

/// `{…,"held":["ctx"],"margin":N,"cards":[{"names":["safe"],"outcome","ctx","cache_type_k","cache_type_v","quant",
/// "margin","gives_up":{"what","says"},"options","plan"}]}`; `margin` is what the
/// fullest GPU has left, `options` are the command line options that turn `asked` into the card's settings.
///
/// # Errors
/// None that an answer can cause.
pub fn json(plan: &Plan, asked: &Settings, question: &BestRequest, cards: &[Card]) -> serde_json::Result<String> {
    text::json(&Object {
        source: AnswerSource::of(plan),
        held: question.held.iter().map(|knob| knob.name()).collect(),
        margin: question.margin,
        cards: cards.iter().map(|card| CardRecord::of(card, asked)).collect(),
    })
}
