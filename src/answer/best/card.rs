//! A card: settings that serve an objective, what they bring, what they give up, and their command line options.

use std::fmt;

use super::Objective;
use crate::answer::change::width;
use crate::answer::verdict::{COMFORTABLE, capitalised, headline, in_ram, margin};
use crate::engine::PlanRequest;
use crate::plan::{Outcome, Plan};
use crate::settings::{CacheType, Context, Settings};
use crate::speed::Speeds;
use crate::units::{Bytes, Tokens};

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
    /// The main thing that it gives up.
    pub gives_up: Option<Loss>,
}

/// What a card gives up, the gravest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of a token's weights on GPUs.
    Vram(Outcome),
    /// Tokens of context.
    Context {
        /// Tokens in effect now.
        from: u64,
        /// Tokens suggested.
        to: u64,
    },
    /// Bits of the weights.
    Quantisation {
        /// The quantisation now.
        from: String,
        /// The one suggested.
        to: String,
    },
    /// Bits of the KV cache.
    CacheType {
        /// The type in effect now.
        from: CacheType,
        /// The type suggested.
        to: CacheType,
    },
    /// A comfortable margin: so much is left.
    Margin(Bytes),
}

impl Card {
    /// The card of `request` beside the plan `now`; none if it cannot be planned or does not fit.
    pub(super) fn new(objective: Objective, request: PlanRequest, now: &Plan) -> Option<Self> {
        let plan = request.plan().ok().filter(|plan| plan.outcome() < Outcome::FromDisk)?;
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        let gives_up = Loss::between(now, &plan);
        Some(Self { objectives: vec![objective], request, plan, speeds, gives_up })
    }

    /// Adds it to `cards`, or its objectives to the card with the same plan.
    pub fn join(self, cards: &mut Vec<Self>) {
        match cards.iter_mut().find(|other| other.plan == self.plan) {
            Some(same) => same.objectives.extend(self.objectives),
            None => cards.push(self),
        }
    }

    /// Its name: `Safe, fastest`.
    pub fn title(&self) -> String {
        let titles = self.objectives.iter().map(|objective| objective.title().to_lowercase());
        capitalised(&titles.collect::<Vec<_>>().join(", "))
    }

    /// `All in VRAM at 32 768 tokens, f16 KV, Q4_K_M`
    pub fn headline(&self) -> String {
        let quantisation = self.plan.model.file_type.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        format!("{}{quantisation}", headline(&self.plan))
    }

    /// `1.4 GiB above the 1 GiB kept free; 28–34 tok/s`
    pub fn room_and_speed(&self) -> String {
        let room = match self.plan.outcome() {
            Outcome::Vram | Outcome::Tight => margin(&self.plan),
            Outcome::PartsInRam | Outcome::ExpertsInRam => format!("{} run from RAM", in_ram(&self.plan)),
            _ => format!("{} of {} layers in RAM", self.plan.cpu().layers.len(), self.plan.layers.len()),
        };
        self.speeds.as_ref().map_or_else(|| room.clone(), |speeds| format!("{room}; {speeds}"))
    }

    /// `Gives up 16 384 tokens of context.`
    pub fn gives_up_text(&self) -> String {
        self.gives_up.as_ref().map_or_else(|| "Gives up nothing.".to_owned(), |loss| format!("Gives up {loss}."))
    }

    /// The command line options that turn `asked` into these settings.
    pub fn options(&self, asked: &Settings) -> String {
        let to = &self.request.settings;
        let mut options = Vec::new();
        if let Context::Tokens(tokens) = to.ctx
            && to.ctx != asked.ctx
        {
            options.push(format!("--ctx {tokens}"));
        }
        if (to.cache_type_k, to.cache_type_v) != (asked.cache_type_k, asked.cache_type_v) {
            options.extend(to.cache_type_k.map(|ty| format!("--kv-type {ty}")));
        }
        if to.flash_attn != asked.flash_attn {
            options.push(format!("--flash-attn {}", to.flash_attn));
        }
        if to.quant != asked.quant {
            options.extend(to.quant.map(|quant| format!("--quant {quant}")));
        }
        options.join(" ")
    }
}

impl Loss {
    /// The gravest loss of `then` against `now`.
    fn between(now: &Plan, then: &Plan) -> Option<Self> {
        let (before, after) = (&now.settings, &then.settings);
        let narrower = |from: CacheType, to: CacheType| width(to) < width(from);
        if then.outcome() > now.outcome() {
            return Some(Self::Vram(then.outcome()));
        }
        if after.ctx < before.ctx {
            return Some(Self::Context { from: before.ctx, to: after.ctx });
        }
        if then.model.bytes < now.model.bytes {
            let name = |plan: &Plan| plan.model.file_type.clone().unwrap_or_default();
            return Some(Self::Quantisation { from: name(now), to: name(then) });
        }
        let types = [(before.cache_type_k, after.cache_type_k), (before.cache_type_v, after.cache_type_v)];
        if let Some((from, to)) = types.into_iter().find(|&(from, to)| narrower(from, to)) {
            return Some(Self::CacheType { from, to });
        }
        let above = then.tightest_gpu().map(|(_, headroom)| headroom.above_kept().left())?;
        (then.outcome() <= Outcome::Tight && above < COMFORTABLE).then_some(Self::Margin(above))
    }

    /// Its name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Vram(_) => "vram",
            Self::Context { .. } => "ctx",
            Self::Quantisation { .. } => "quant",
            Self::CacheType { .. } => "kv-type",
            Self::Margin(_) => "margin",
        }
    }
}

/// After "gives up".
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vram(outcome) => write!(f, "speed: {}", outcome.headline().to_lowercase().replace("ram", "RAM")),
            Self::Context { from, to } => write!(f, "{} of {} tokens of context", Tokens(from - to), Tokens(*from)),
            Self::Quantisation { from, to } => write!(f, "precise weights: {to} instead of {from}"),
            Self::CacheType { from, to } => write!(f, "a precise KV cache: {to} instead of {from}"),
            Self::Margin(left) => write!(f, "the margin: {left} are left"),
        }
    }
}
