//! A card: settings that serve an objective, with what they bring and what they change.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::candidates::{BestSearch, Candidate, USEFUL};
use super::{Loss, Objective};
use crate::answer::glance::uncapitalised;
use crate::answer::quality;
use crate::answer::verdict::{capitalised, headline, in_ram, margin};
use crate::catalogue::{self, Place};
use crate::engine::PlanRequest;
use crate::model::mixture::Quantisation;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::Knob;
use crate::settings::{Context, FlashAttn, InEffect, Settings};
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::Seconds;
use crate::speed::{Speed, SpeedRange, Speeds};
use crate::text::shell_word;
use crate::units::Tokens;

/// Settings that serve an objective.
#[derive(Clone, Debug)]
pub struct Card {
    /// What they serve better than other settings.
    pub objectives: Vec<Objective>,
    /// The request with these settings, in their quantisation.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Plan,
    /// How fast it is, where that is known.
    pub speeds: Option<Speeds>,
    /// When the first token of an answer comes, where that is known.
    pub first_token: Option<FirstToken>,
    /// Its placement, where it is not the engine's.
    pub placement: Option<Placement>,
    /// Of a model of the catalogue, where it can be had so; none of others, and if no such place is known.
    pub place: Option<Place>,
    /// Of the fastest: tokens in the cache with which it is.
    pub fill: Option<u64>,
    /// Of the fastest: a poorer quantisation than may be suggested, where that would be fast enough, or all in VRAM.
    pub poorer: Option<Poorer>,
    /// What weights and caches lose, in nats per token.
    pub loss: f64,
    /// What it gives up against the plan now, the gravest first.
    pub gives_up: Vec<Loss>,
    /// The knobs that it changes: their names with the values now and then.
    pub changes: Vec<KnobChange>,
}

/// A quantisation below what may be suggested, and what it would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poorer {
    /// The quantisation.
    pub quant: Quantisation,
    /// Where what a token needs would be.
    pub outcome: Outcome,
    /// How fast it would be, with as much in the cache as the card that says so.
    pub speed: SpeedRange,
}

/// When the first token of an answer comes, after a prompt of a useful context or all that there is.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FirstToken {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// If all of it is read.
    pub whole: Seconds,
    /// If only its last 1024 are, and the server still has the others; none of a shorter prompt.
    pub cached: Option<Seconds>,
}

/// What is new in a turn of a long conversation, in tokens.
pub const NEW_TOKENS: u64 = 1024;

impl FirstToken {
    fn of(request: &PlanRequest, plan: &Plan) -> Option<Self> {
        let prompt = USEFUL.min(plan.settings.ctx_per_sequence);
        let after = |depth: u64, tokens: u64| {
            let speed = PromptSpeed::of(&request.model, &request.machine, plan, depth, tokens).ok()?;
            Some(Seconds::of(tokens, speed.range()))
        };
        let cached = if prompt > 2 * NEW_TOKENS { after(prompt - NEW_TOKENS, NEW_TOKENS) } else { None };
        Some(Self { prompt, whole: after(0, prompt)?, cached })
    }
}

/// `first token after 30–52 s at 32 768 tokens, 1.1–2.0 s where all but 1 024 are cached`
impl fmt::Display for FirstToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first token after {} at {} tokens", self.whole, Tokens(self.prompt))?;
        match self.cached {
            Some(cached) => write!(f, ", {cached} where all but {} are cached", Tokens(NEW_TOKENS)),
            None => Ok(()),
        }
    }
}

/// A knob that a card changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobChange {
    /// The knob.
    pub knob: Knob,
    /// Its value in effect now.
    pub from: String,
    /// The value suggested.
    pub to: String,
    /// Whether the user had set it.
    pub was_set: bool,
}

/// A placement that is faster than the engine's.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Why, in one sentence.
    pub reason: String,
    /// The options that make it, by their names here.
    pub options: BTreeMap<&'static str, String>,
}

impl Card {
    pub(super) fn new(objective: Objective, found: &Candidate, search: &BestSearch<'_>) -> Self {
        let Candidate { request, plan, speeds, loss, .. } = found;
        Self {
            objectives: vec![objective],
            request: request.clone(),
            plan: plan.clone(),
            speeds: speeds.clone(),
            first_token: FirstToken::of(request, plan),
            placement: found.placement.clone(),
            place: place(request, plan),
            fill: None,
            poorer: None,
            loss: *loss,
            gives_up: Loss::between((search.now.0, &search.now.1), (request, plan)),
            changes: changes((search.now.0, &search.now.1), (request, plan)),
        }
    }

    /// With its whole plan in place of what was tried, which may be a trial.
    pub(super) fn explained(self) -> Self {
        let plan = self.request.plan().unwrap_or(self.plan);
        Self { plan, ..self }
    }

    /// Adds it to `cards`, or its objectives to the card with the same plan.
    pub(super) fn join(self, cards: &mut Vec<Self>) {
        // notes, and who set a value, may differ
        let effect = |plan: &Plan| InEffect { sources: BTreeMap::new(), ..plan.settings.clone() };
        let is_same = |one: &Plan, other: &Plan| {
            (&one.model, effect(one), &one.devices, &one.layers)
                == (&other.model, effect(other), &other.devices, &other.layers)
        };
        match cards.iter_mut().find(|other| is_same(&other.plan, &self.plan)) {
            Some(same) => {
                same.objectives.extend(self.objectives);
                (same.fill, same.poorer) = (self.fill.or(same.fill), self.poorer.or(same.poorer));
            }
            None => cards.push(self),
        }
    }

    /// `Fastest with 32 768 tokens in the cache: ≈ 27 tok/s (18–34).`, and what a poorer quantisation would give; none of other
    /// cards.
    pub fn fastest_text(&self) -> Option<String> {
        let fill = self.fill?;
        let speed = Speed::of(&self.request.model, &self.request.machine, &self.plan, fill)?;
        let poorer = self.poorer.map_or_else(String::new, |Poorer { quant, outcome, speed }| {
            let place = uncapitalised(outcome.headline());
            format!(" A poorer quantisation than --min-quant allows would give more: {quant} {speed}, {place}.")
        });
        Some(format!("Fastest with {} tokens in the cache: {speed}.{poorer}", Tokens(fill)))
    }

    /// Its name: `Fastest, safe`.
    pub fn title(&self) -> String {
        let titles = self.objectives.iter().map(|objective| objective.title().to_lowercase());
        capitalised(&titles.collect::<Vec<_>>().join(", "))
    }

    /// `All in VRAM at 32 768 tokens, f16 KV, Q4_K_M`
    pub fn headline(&self) -> String {
        let quantisation = self.plan.model.file_type.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        let last_resort = if quality::is_last_resort(self.loss) { ", a last resort" } else { "" };
        format!("{}{quantisation}{last_resort}", headline(&self.plan))
    }

    /// `GPU0 has 1.4 GiB above the 1.0 GiB kept free. It writes ≈ 30 tok/s (28–34)`
    pub fn room_and_speed(&self) -> String {
        let room = match self.plan.outcome() {
            Outcome::Vram | Outcome::Tight => margin(&self.plan),
            Outcome::PartsInRam | Outcome::ExpertsInRam => format!("{} run from RAM", in_ram(&self.plan)),
            _ => format!("{} of {} layers in RAM", self.plan.cpu().layers.len(), self.plan.layers.len()),
        };
        let speeds = self.speeds.as_ref().map(|speeds| format!(". It writes {speeds}")).unwrap_or_default();
        let first = self.first_token.map(|first| format!(". {}", capitalised(&first.to_string()))).unwrap_or_default();
        format!("{room}{speeds}{first}")
    }

    /// `Gives up 16 384 of 32 768 tokens of context and precise weights: Q4_K_M instead of Q8_0.`
    pub fn gives_up_text(&self) -> String {
        let losses: Vec<String> = self.gives_up.iter().map(ToString::to_string).collect();
        match losses.as_slice() {
            [] => "Gives up nothing.".to_owned(),
            [one] => format!("Gives up {one}."),
            [all @ .., last] => format!("Gives up {}; and {last}.", all.join("; ")),
        }
    }

    /// `Changes context 8 192 → 32 768.`; none if it is the plan now.
    pub fn changes_text(&self) -> Option<String> {
        let each = self.changes.iter().map(|KnobChange { knob, from, to, was_set }| {
            let set = if *was_set { ", which was set" } else { "" };
            format!("{} {from} → {to}{set}", knob.title())
        });
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("Changes {}.", each.join("; ")))
    }

    /// Whether it is of the catalogue and no place is known that has it so, or of original weights.
    pub fn is_to_be_made(&self) -> bool {
        self.request.model.made_of_original || self.request.opened.entry.is_some() && self.place.is_none()
    }

    /// `To have it: ollama pull qwen3:8b.`, or that no file is known; none of other models.
    pub fn place_text(&self) -> Option<String> {
        if self.is_to_be_made() {
            let quantisation = self.plan.model.file_type.as_deref().unwrap_or("this quantisation");
            if self.request.model.made_of_original {
                return Some(format!(
                    "To be made: no file in {quantisation} is there. Convert the model and quantise it."
                ));
            }
            return Some(format!(
                "No file in {quantisation} is known here: look on Hugging Face, or convert the model and quantise it."
            ));
        }
        self.place.as_ref().map(|place| format!("To have it: {}.", place.command()))
    }

    /// The command line options that turn `asked` into these settings.
    pub fn options(&self, asked: &Settings) -> String {
        let to = &self.request.settings;
        let placing = self.placement.iter().flat_map(|placement| &placement.options);
        let mut options: Vec<String> = placing.map(|(name, value)| option(name, value)).collect();
        if let Context::Tokens(tokens) = to.ctx
            && to.ctx != asked.ctx
            && self.placement.is_none()
        {
            options.push(format!("--ctx {tokens}"));
        }
        if (to.cache_type_k, to.cache_type_v) != (asked.cache_type_k, asked.cache_type_v) {
            options.push(format!("--kv-type {}", self.plan.settings.cache_type_k));
        }
        if to.flash_attn != asked.flash_attn {
            options.push(format!("--flash-attn {}", to.flash_attn));
        }
        for (flag, from, to) in [("--batch", asked.batch, to.batch), ("--ubatch", asked.ubatch, to.ubatch)] {
            options.extend(to.filter(|_| from != to).map(|tokens| format!("{flag} {tokens}")));
        }
        if to.quant != asked.quant {
            options.extend(to.quant.map(|quant| format!("--quant {quant}")));
        }
        options.join(" ")
    }
}

fn place(request: &PlanRequest, plan: &Plan) -> Option<Place> {
    catalogue::find(request.opened.entry.as_deref()?)?.place(plan.model.file_type.as_deref()?)
}

/// An option as it is typed.
fn option(name: &str, value: &str) -> String {
    match value {
        "" => format!("--{name}"),
        value => format!("--{name} {}", shell_word(value)),
    }
}

/// Every knob that differs between two plans of requests, of those that cards move.
fn changes(now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Vec<KnobChange> {
    let (before, after) = (&now.1.settings, &then.1.settings);
    let caches = |effect: &InEffect| match (effect.cache_type_k, effect.cache_type_v) {
        (k, v) if k == v => k.to_string(),
        (k, v) => format!("{k}/{v}"),
    };
    let quantisation = |plan: &Plan| plan.model.file_type.clone().unwrap_or_default();
    // what merely follows a short context is no change
    let sets_batch = |request: &PlanRequest| request.settings.batch.is_some() || request.settings.ubatch.is_some();
    let is_set = sets_batch(now.0) || sets_batch(then.0);
    let layers = |request: &PlanRequest| match request.settings.gpu_layers.word() {
        Ok(count) => count.to_string(),
        Err(word) => word.to_owned(),
    };
    let moe = |request: &PlanRequest| {
        request.settings.n_cpu_moe.map_or_else(|| "auto".to_owned(), |layers| layers.to_string())
    };
    let batch = |tokens: u64| if is_set { Tokens(tokens).to_string() } else { String::new() };
    let rows = [
        (Knob::Context, Tokens(before.ctx).to_string(), Tokens(after.ctx).to_string()),
        (Knob::Quant, quantisation(now.1), quantisation(then.1)),
        (Knob::CacheType, caches(before), caches(after)),
        (Knob::FlashAttn, now.0.settings.flash_attn.to_string(), then.0.settings.flash_attn.to_string()),
        (Knob::Batch, batch(before.batch), batch(after.batch)),
        (Knob::Ubatch, batch(before.ubatch), batch(after.ubatch)),
        (Knob::GpuLayers, layers(now.0), layers(then.0)),
        (Knob::CpuMoe, moe(now.0), moe(then.0)),
    ];
    let bounds = now.0.bounds();
    let set = |knob: Knob| match knob {
        Knob::FlashAttn => now.0.settings.flash_attn != FlashAttn::Auto,
        knob => knob.chosen(&now.0.settings, &bounds).is_some(),
    };
    let differ = rows.into_iter().filter(|(_, from, to)| from != to);
    differ.map(|(knob, from, to)| KnobChange { knob, from, to, was_set: set(knob) }).collect()
}
