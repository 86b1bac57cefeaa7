//! The best settings as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::BestFound;
use crate::answer::Remedy;
use crate::answer::best::{BestRequest, Card, FirstToken, KnobChange, Loss, Poorer, Side};
use crate::answer::sweep::PlanFigures;
use crate::catalogue::Place;
use crate::export::{PlanSource, csv, record};
use crate::plan::Outcome;
use crate::question::About;
use crate::settings::Settings;
use crate::speed::SpeedRange;
use crate::units::{Bytes, Difference};

/// The best settings.
#[derive(JsonSchema, Serialize)]
pub struct BestAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// Knobs that stay as they are.
    held: Vec<&'static str>,
    /// What the safe card leaves on every GPU besides what the engine keeps free.
    margin: Bytes,
    cards: Vec<CardRecord<'a>>,
    /// All in VRAM with the settings as they are and less kept free; null where that is so already, or no margin brings it
    /// there.
    less_kept_free: Option<LessKeptRecord<'a>>,
    /// On a Mac the model as a GGUF file, and with MLX; null elsewhere, and of a model of which not both are known.
    gguf_and_mlx: Option<[SideRecord<'a>; 2]>,
}

record! {
    /// All in VRAM with less kept free on GPUs.
    LessKeptRecord<'a>(remedy: &'a Remedy) {
        /// The option that keeps less free.
        options: Option<String> = remedy.options(),
        /// What stays free then, and beside what.
        stays_free: Option<&'a str> = remedy.cost.as_deref(),
        /// How fast it generates then with an empty cache; null where that cannot be known.
        speed: Option<SpeedRange> = remedy.speed,
    }
}

record! {
    /// What would be taken of one of both.
    SideRecord<'a>(side: &'a Side) {
        engine: &'static str = side.plan.engine.name(),
        quant: Option<&'a str> = side.plan.model.file_type.as_deref(),
        bytes: Bytes = side.plan.model.bytes,
        ctx: u64 = side.plan.settings.ctx,
        outcome: Outcome = side.plan.outcome(),
        /// The largest context with all in VRAM.
        context_in_vram: Option<u64> = side.fit.context_in_vram,
        /// With an empty cache; null where that cannot be known.
        speed: Option<SpeedRange> = side.fit.speed.as_ref().map(|speed| speed.range()),
    }
}

impl<'a> BestAnswer<'a> {
    pub(super) fn of(about: About<'a>, search: &BestRequest, found: &'a BestFound) -> Self {
        let BestFound { cards, less_kept, sides } = found;
        Self {
            head: PlanSource::of(about.plan, about.source),
            held: search.held.iter().map(|knob| knob.name()).collect(),
            margin: search.margin,
            cards: cards.iter().map(|card| CardRecord::of(card, &about.request.settings)).collect(),
            less_kept_free: less_kept.as_ref().map(LessKeptRecord::of),
            gguf_and_mlx: sides.as_ref().map(|sides| sides.each_ref().map(SideRecord::of)),
        }
    }
}

/// A line for each card.
pub(super) fn csv(asked: &Settings, cards: &[Card]) -> String {
    let row = |card: &Card| {
        let CardRecord {
            names,
            outcome,
            ctx,
            cache_type_k,
            cache_type_v,
            quant,
            margin,
            loss,
            options,
            plan,
            place,
            ..
        } = CardRecord::of(card, asked);
        let speed = plan.speed.map(|speed| format!("{:.2}", speed.tokens_per_second));
        [
            names.join(" "),
            outcome.name().to_owned(),
            ctx.to_string(),
            cache_type_k.to_owned(),
            cache_type_v.to_owned(),
            csv::cell(quant),
            csv::cell(margin.map(|margin| margin.0)),
            csv::cell(speed),
            format!("{loss:.4}"),
            options,
            csv::cell(place.map(Place::command)),
        ]
    };
    let columns = [
        "names",
        "outcome",
        "ctx",
        "cache_type_k",
        "cache_type_v",
        "quant",
        "margin",
        "tokens_per_second",
        "loss",
        "options",
        "pull",
    ];
    csv::table(columns, cards.iter().map(row))
}

record! {
    /// Settings, and what they bring.
    CardRecord<'a>(card: &'a Card, asked: &Settings) {
        /// What it is best for: `safe`, `quality`.
        names: Vec<&'static str> = card.objectives.iter().map(|objective| objective.name()).collect(),
        outcome: Outcome = card.plan.outcome(),
        ctx: u64 = card.plan.settings.ctx,
        cache_type_k: &'static str = card.plan.settings.cache_type_k.name(),
        cache_type_v: &'static str = card.plan.settings.cache_type_v.name(),
        quant: Option<&'a str> = card.plan.model.file_type.as_deref(),
        /// What the fullest GPU has left; null without one.
        margin: Option<Difference> = card.plan.tightest_gpu().map(|(_, headroom)| headroom.above()),
        /// Of a model of the catalogue, the tag in Ollama's library, or the repository on Hugging Face with the file's
        /// quantisation there, that has it so; null if none is known, and of other models.
        place: Option<&'a Place> = card.place.as_ref(),
        /// Whether it is of the catalogue and no place is known that has it so, or of original weights: it is converted and
        /// quantised first.
        to_be_made: bool = card.is_to_be_made(),
        /// When the first token of an answer comes; null where that cannot be known.
        first_token: Option<FirstToken> = card.first_token,
        /// Why its placement is faster than the engine's; null where the engine decides.
        placement: Option<&'a str> = card.placement.as_ref().map(|placement| placement.reason.as_str()),
        /// Of the fastest: tokens in the cache with which it is; null of others.
        fill: Option<u64> = card.fill,
        /// Of the fastest: a poorer quantisation than may be suggested that would be fast enough, or all in VRAM, where it is
        /// not; null where none would.
        poorer: Option<PoorerRecord<'a>> = card.poorer.as_ref().map(PoorerRecord::of),
        /// What quantised weights and caches lose, in nats per token.
        loss: f64 = card.loss,
        changes: Vec<ChangeRecord<'a>> = card.changes.iter().map(ChangeRecord::of).collect(),
        gives_up: Vec<LossRecord<'a>> = card.gives_up.iter().map(LossRecord::of).collect(),
        /// The options that turn the settings asked for into these.
        options: String = card.options(asked),
        plan: PlanFigures = PlanFigures::of(&card.plan, card.speeds.as_ref()),
    }
}

record! {
    /// A quantisation below what may be suggested, and how fast it would be.
    PoorerRecord<'a>(poorer: &'a Poorer) {
        quant: String = poorer.quant.to_string(),
        outcome: Outcome = poorer.outcome,
        speed: &'a SpeedRange = &poorer.speed,
    }
}

record! {
    /// A knob that a card changes.
    ChangeRecord<'a>(change: &'a KnobChange) {
        knob: &'static str = change.knob.name(),
        from: &'a str = &change.from,
        to: &'a str = &change.to,
        /// Whether it had been given.
        was_set: bool = change.was_set,
    }
}

record! {
    /// What a card gives up.
    LossRecord<'a>(loss: &'a Loss) {
        what: &'a str = loss.name(),
        says: String = loss.to_string(),
    }
}
