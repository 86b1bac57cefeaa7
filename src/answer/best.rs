//! The best settings, as a few named cards: what each serves, what it brings, and the one thing that it gives up.

use std::fmt;

use super::limits::Largest;
use super::{Change, Goal};
use crate::answer::change::width;
use crate::answer::verdict::{COMFORTABLE, capitalised, headline, in_ram, margin};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::named::named;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::{CACHE_CHOICES, Knob};
use crate::settings::{CacheType, Context, FlashAttn, Settings};
use crate::speed::{Speed, Speeds};
use crate::units::{Bytes, Tokens};

named! {
    /// What a card serves best, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Objective {
        /// All in VRAM with a margin.
        Safe = "safe",
        /// The longest context.
        Context = "context",
        /// The most tokens per second.
        Speed = "speed",
        /// The widest weights and KV cache.
        Quality = "quality",
    }
}

/// The question: what may change, and what is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestRequest {
    /// Knobs that stay as they are.
    pub held: Vec<Knob>,
    /// What the safe card leaves on every GPU besides what the engine keeps free.
    pub margin: Bytes,
}

/// Takes in what a driver or a desktop may do.
pub const DEFAULT_MARGIN: Bytes = Bytes::mib(512);

/// The narrowest quantisation that is suggested for speed: narrower ones lose more than they gain.
const FAST: FileType = FileType::Q4KM;

/// A shorter context than this is not suggested, unless it is wanted.
const USEFUL: u64 = 4096;

/// Each of these is only tried if none before it can be met.
const GOALS: [Goal; 3] = [Goal::Vram, Goal::AllLayers, Goal::AtLeast(0)];

impl BestRequest {
    /// For the user, if there is no safe card.
    pub fn nothing_is_safe(&self) -> String {
        format!("Safe: no settings were found that keep all in VRAM with {} left on every GPU.", self.margin)
    }

    /// Whether the knob stays as it is.
    fn holds(&self, knob: Knob) -> bool {
        // suggestions set K and V to one type, so holding either holds both
        let one_of_two = || self.held.iter().any(|held| matches!(held, Knob::CacheTypeK | Knob::CacheTypeV));
        self.held.contains(&knob) || (knob == Knob::CacheType && one_of_two())
    }
}

impl PlanRequest {
    /// The card of each objective; settings that serve several make one card. `plan` is this request's plan. An
    /// objective without a card cannot be served: no settings are safe, or no speed is known.
    pub fn best(&self, plan: &Plan, question: &BestRequest) -> Vec<Card> {
        let mut cards = Vec::new();
        for card in Objective::ALL.into_iter().filter_map(|objective| self.card(objective, plan, question)) {
            card.join(&mut cards);
        }
        cards
    }

    /// The card of one objective.
    pub fn card(&self, objective: Objective, plan: &Plan, question: &BestRequest) -> Option<Card> {
        let search = BestSearch { request: self, plan, question };
        let found = match objective {
            Objective::Safe => search.safe(),
            Objective::Context => search.longest(),
            Objective::Speed => search.fastest(),
            Objective::Quality => search.widest(),
        }?;
        Card::new(objective, found, plan)
    }
}

/// The search for cards around one plan.
struct BestSearch<'a> {
    request: &'a PlanRequest,
    plan: &'a Plan,
    question: &'a BestRequest,
}

impl BestSearch<'_> {
    /// The context that is wanted: as it is now.
    const fn wanted(&self) -> u64 {
        self.plan.settings.ctx
    }

    /// The wanted context, or as much of it as there is room for with the margin; with a narrower quantisation only if
    /// there is none with this one.
    fn safe(&self) -> Option<PlanRequest> {
        let goal = Goal::VramWith(self.question.margin);
        let narrower = || {
            let smaller = self.request.largest_quantisation_below(goal, self.request.model.bytes).found;
            self.reach(&self.quantised(self.request, smaller?.0)?, goal, self.wanted())
        };
        self.reach(self.request, goal, self.wanted()).or_else(narrower)
    }

    /// The longest context with the best outcome that there is.
    fn longest(&self) -> Option<PlanRequest> {
        GOALS.into_iter().find_map(|goal| self.reach(self.request, goal, u64::MAX))
    }

    /// The fastest with a cache as long as all candidates have, among the types of the cache and a narrower
    /// quantisation. What gives up more must be a twentieth faster.
    fn fastest(&self) -> Option<PlanRequest> {
        let mut candidates = self.cache_types(self.request);
        candidates.extend(self.with_room(self.request));
        let bytes = self.request.model.quantised_bytes(FAST).ok().filter(|bytes| *bytes < self.request.model.bytes);
        if let Some(fast) = bytes.and_then(|_| self.quantised(self.request, FAST)) {
            candidates.extend(self.with_room(&fast));
        }
        let planned = candidates.into_iter().filter_map(|one| Some((one.plan().ok()?, one)));
        let planned: Vec<_> = planned.filter(|(plan, _)| Goal::AtLeast(0).is_met_by(plan)).collect();
        let depth = planned.iter().map(|(plan, _)| plan.settings.ctx_per_sequence).min()?;
        let mut best: Option<(f64, PlanRequest)> = None;
        for (plan, request) in planned {
            let Some(speed) = Speed::of(&request.model, &request.machine, &plan, depth) else { continue };
            if best.as_ref().is_none_or(|(before, _)| speed.tokens_per_second > before * 1.05) {
                best = Some((speed.tokens_per_second, request));
            }
        }
        best.map(|(_, request)| request)
    }

    /// The wanted context, or less of it, with the best outcome that there is.
    fn with_room(&self, request: &PlanRequest) -> Option<PlanRequest> {
        GOALS.into_iter().find_map(|goal| self.reach(request, goal, self.wanted()))
    }

    /// The widest quantisation with the wanted context, and the widest KV cache with which there is room for it. If no
    /// quantisation is all in VRAM, or it may not change, the widest cache with which there is room at all.
    fn widest(&self) -> Option<PlanRequest> {
        let types = self.cache_types(self.request);
        let mut widest: Option<PlanRequest> = None;
        for request in types.iter().filter(|_| !self.question.holds(Knob::Quant)) {
            let Some(wider) = request.best_quantisation() else { continue };
            if widest.as_ref().is_none_or(|before| before.model.bytes < wider.model.bytes) {
                widest = Some(match wider.model.file_type.and_then(|name| name.parse().ok()) {
                    Some(to) => self.quantised(request, to)?,
                    None => request.clone(),
                });
            }
        }
        let shorter = |goal: Goal| types.iter().find_map(|request| self.shorten(request, goal, self.wanted()));
        widest.or_else(|| GOALS.into_iter().find_map(shorter))
    }

    /// `request` with the first type of the cache that has room for `tokens`; if none has, with the type that has
    /// room for most, where a narrower type must have room for a quarter more.
    fn reach(&self, request: &PlanRequest, goal: Goal, tokens: u64) -> Option<PlanRequest> {
        let mut longest: Option<(u64, PlanRequest)> = None;
        for candidate in self.cache_types(request) {
            let Some(shorter) = self.shorten(&candidate, goal, tokens) else { continue };
            let context = shorter.plan().ok()?.settings.ctx;
            if context >= tokens {
                return Some(shorter);
            }
            if longest.as_ref().is_none_or(|(before, _)| context > before + before / 4) {
                longest = Some((context, shorter));
            }
        }
        longest.map(|(_, request)| request)
    }

    /// `request` with `tokens` of context, or the most below that meets `goal`.
    fn shorten(&self, request: &PlanRequest, goal: Goal, tokens: u64) -> Option<PlanRequest> {
        if tokens == self.wanted() && request.meets(goal) {
            return Some(request.clone());
        }
        if self.question.holds(Knob::Context) {
            return None;
        }
        // more than these tokens may meet the goal where they do not
        let Largest { value, .. } = match tokens.checked_add(1) {
            Some(beyond) => request.largest_below(Knob::Context, goal, beyond),
            None => request.largest(Knob::Context, goal),
        }?;
        (value >= USEFUL.min(self.wanted())).then(|| request.changed(|settings| settings.ctx = Context::Tokens(value)))
    }

    /// `request` with each type of the cache, the widest first; as it is if the type is held.
    fn cache_types(&self, request: &PlanRequest) -> Vec<PlanRequest> {
        if self.question.holds(Knob::CacheType) || self.plan.totals.cache == Bytes::ZERO {
            return vec![request.clone()];
        }
        let effect = &self.plan.settings;
        let flash = effect.flash_attn != FlashAttn::On && !self.question.holds(Knob::FlashAttn);
        let with = |ty: CacheType| {
            let as_is = (effect.cache_type_k, effect.cache_type_v) == (ty, ty);
            if as_is {
                return Some(request.clone());
            }
            let change = if flash && width(ty) < 16 { Change::CacheWithFlash(ty) } else { Change::Cache(ty) };
            let (mut settings, mut machine) = (request.settings.clone(), Machine::clone(&request.machine));
            change.apply(&mut settings, &mut machine);
            let changed = request.with(settings);
            let taken = changed.plan().ok()?.settings;
            ((taken.cache_type_k, taken.cache_type_v) == (ty, ty)).then_some(changed)
        };
        CACHE_CHOICES.into_iter().filter_map(with).collect()
    }

    /// `request` with the model in `to`, which may be its own quantisation; `None` if that may not change.
    fn quantised(&self, request: &PlanRequest, to: FileType) -> Option<PlanRequest> {
        let own = self.request.model.file_type.and_then(|name| name.parse().ok());
        if own == Some(to) {
            return Some(request.clone());
        }
        if self.question.holds(Knob::Quant) { None } else { request.quantised(to) }
    }
}

impl Objective {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Safe => "Safe",
            Self::Context => "Longest context",
            Self::Speed => "Fastest",
            Self::Quality => "Best quality",
        }
    }
}

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
    fn new(objective: Objective, request: PlanRequest, now: &Plan) -> Option<Self> {
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
