//! The best settings, as a few named cards: each is the best of its name among all settings that were planned, with
//! everything that it changes and gives up.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;
use serde::Serialize;

use super::limits::Largest;
use super::quality::{self, TRAINED_IN};
use super::{Change, Goal};
use crate::answer::change::width;
use crate::answer::verdict::{COMFORTABLE, capitalised, headline, in_ram, margin};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::model::{Model, TensorGroup};
use crate::named::named;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::{CACHE_CHOICES, Knob};
use crate::settings::{CacheType, Context, FlashAttn, InEffect, Settings};
use crate::speed::prompt::{self, PromptSpeed};
use crate::speed::turn::Seconds;
use crate::speed::{Speed, SpeedRange, Speeds};
use crate::units::{Bytes, Difference, Tokens};

named! {
    /// What a card serves best, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Objective {
        /// What an expert would take: precise enough, with a margin, a useful context, fast enough.
        Balanced = "balanced",
        /// The most tokens per second, at the context that is wanted.
        Speed = "speed",
        /// The least loss by quantisation.
        Quality = "quality",
        /// The most tokens of a prompt per second.
        Prompts = "prompts",
        /// The longest context.
        Context = "context",
        /// Layers and experts where they are read fastest, rather than where the engine puts them.
        Placement = "placement",
        /// All in VRAM with the largest margin.
        Safe = "safe",
    }
}

/// The question: what may change, and what is good enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestRequest {
    /// Knobs that stay as they are.
    pub held: Vec<Knob>,
    /// What safe and balanced cards leave on every GPU besides what the engine keeps free.
    pub margin: Bytes,
    /// The narrowest types that are suggested.
    pub floors: Floors,
}

/// The narrowest types that are suggested; without one, none that lose much, unless nothing else runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    /// Of weights.
    pub quant: Option<FileType>,
    /// Of the KV cache.
    pub cache: Option<CacheType>,
}

/// Takes in what a driver or a desktop may do.
pub const DEFAULT_MARGIN: Bytes = Bytes::mib(512);

/// The narrowest quantisation that is good without a word.
const GOOD: FileType = FileType::Q4KM;
/// A wider one than this holds nothing that shows.
const WIDEST_USEFUL: FileType = FileType::Q8_0;
/// The narrowest KV cache that is good without a word.
const GOOD_CACHE: CacheType = CacheType::Q8_0;

/// A context that most uses are served by, in tokens.
const USEFUL: u64 = 32_768;
/// A shorter context than this is no compromise for better weights.
const SHORT: u64 = 8192;
/// A shorter context than this is not suggested, unless it is wanted.
const LEAST: u64 = 4096;

/// Tokens per second that are comfortable to read along with.
const FAST_ENOUGH: f64 = 10.0;
/// Tokens per second below which few would wait.
const USABLE: f64 = 5.0;

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

impl Floors {
    /// Whether weights of this type may be suggested.
    fn allow(self, to: FileType) -> bool {
        let loss = quality::of_weights(to);
        self.quant.map_or(!quality::is_last_resort(loss), |floor| loss <= quality::of_weights(floor))
    }

    /// Whether a cache of this type may be.
    fn allow_cache(self, ty: CacheType) -> bool {
        quality::of_caches(ty, ty) <= quality::of_caches(self.cache(), self.cache())
    }

    fn cache(self) -> CacheType {
        self.cache.unwrap_or(GOOD_CACHE)
    }
}

impl PlanRequest {
    /// The card of each objective; settings that serve several make one card. `plan` is this request's plan. An
    /// objective without a card cannot be served: no settings are safe, or no speed is known.
    pub fn best(&self, plan: &Plan, question: &BestRequest) -> Vec<Card> {
        let search = BestSearch { request: self, plan: Cow::Borrowed(plan), question };
        let (first, last): (Vec<Step>, Vec<Step>) = search.steps().into_iter().partition(Step::is_alone);
        let mut tried: Vec<Candidate> =
            first.into_par_iter().with_max_len(1).flat_map_iter(|step| step.take(&search, &[])).collect();
        for step in last {
            let found = step.take(&search, &tried);
            tried.extend(found);
        }
        search.cards(&tried)
    }

    /// As [`PlanRequest::best`], in steps, of which the last one gives the cards.
    pub fn best_in_steps<'a>(
        &'a self,
        plan: Plan,
        question: &'a BestRequest,
    ) -> impl Iterator<Item = Option<Vec<Card>>> + 'a {
        let search = BestSearch { request: self, plan: Cow::Owned(plan), question };
        let mut steps = search.steps().into_iter();
        let mut tried: Vec<Candidate> = Vec::new();
        let mut is_done = false;
        std::iter::from_fn(move || {
            if let Some(step) = steps.next() {
                let found = step.take(&search, &tried);
                tried.extend(found);
                return Some(None);
            }
            (!std::mem::replace(&mut is_done, true)).then(|| Some(search.cards(&tried)))
        })
    }

    /// What an expert would take: good weights and a good cache all in VRAM with the margin and a useful context; else
    /// experts in RAM, a shorter context, or layers in RAM, as far as that is fast enough; else narrower weights.
    pub fn balanced(&self, plan: &Plan, question: &BestRequest) -> Option<Self> {
        BestSearch { request: self, plan: Cow::Borrowed(plan), question }.balanced()
    }
}

/// The search for cards around one plan.
struct BestSearch<'a> {
    request: &'a PlanRequest,
    plan: Cow<'a, Plan>,
    question: &'a BestRequest,
}

/// The model's weights as they are, or in a type.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    AsItIs,
    Quantised(FileType),
}

/// Types of weights, the widest first.
#[derive(Default)]
struct Types {
    /// Good without a word.
    good: Vec<Type>,
    /// Narrower ones that may be suggested.
    narrower: Vec<Type>,
    /// Where nothing else runs.
    last_resorts: Vec<Type>,
}

/// A part of the search.
enum Step {
    /// The settings as they are.
    Now,
    /// Weights of this type with each type of the cache.
    Type(Type),
    /// The balanced settings.
    Balanced,
    /// The longest contexts with weights of this type.
    Longest(Type),
    /// Larger ubatches of what was found until now.
    Ubatches,
    /// Faster placements of what was found until now.
    Placements,
}

impl Step {
    /// Whether it needs nothing of what was found before.
    const fn is_alone(&self) -> bool {
        !matches!(self, Self::Ubatches | Self::Placements)
    }

    fn take(self, search: &BestSearch<'_>, tried: &[Candidate]) -> Vec<Candidate> {
        let of = |request: PlanRequest| Candidate::of(request, search.wanted());
        match self {
            Self::Placements => search.placements(tried),
            Self::Ubatches => search.larger_ubatches(tried).into_iter().filter_map(of).collect(),
            Self::Now => of(search.request.clone()).into_iter().collect(),
            Self::Type(to) => {
                let request = search.in_type(to).map(|request| search.with_context(&request, search.wanted()));
                let types = request.map(|request| search.cache_types(&request)).unwrap_or_default();
                types.into_iter().filter_map(of).collect()
            }
            Self::Balanced => {
                let balanced = search.balanced().and_then(of);
                balanced.map(|found| Candidate { is_balanced: true, ..found }).into_iter().collect()
            }
            Self::Longest(to) => {
                let longest = search.in_type(to).map(|request| search.longest(&request)).unwrap_or_default();
                longest.into_iter().filter_map(of).collect()
            }
        }
    }
}

/// Settings that were planned and run.
struct Candidate {
    request: PlanRequest,
    plan: Plan,
    speeds: Option<Speeds>,
    /// Tokens per second with the wanted context full, or with as much of it as there is.
    speed: Option<f64>,
    /// Tokens of a long prompt per second.
    prompts: Option<f64>,
    /// By weights and caches.
    loss: f64,
    /// Of the GPU that has least left.
    margin: Option<Difference>,
    is_balanced: bool,
    /// Why its placement is faster than the engine's, and the options that make it.
    placement: Option<Placement>,
}

/// A placement that is faster than the engine's.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Why, in one sentence.
    pub reason: String,
    /// The options that make it, by their names here.
    pub options: BTreeMap<&'static str, String>,
}

impl Candidate {
    /// None if it cannot be planned or does not fit.
    fn of(request: PlanRequest, wanted: u64) -> Option<Self> {
        let plan = request.plan().ok().filter(|plan| Goal::AtLeast(0).is_met_by(plan))?;
        let depth = wanted.min(plan.settings.ctx_per_sequence);
        let speed = Speed::of(&request.model, &request.machine, &plan, depth).map(|speed| speed.tokens_per_second);
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        let prompts = prompts_of(&request, &plan).map(|speed| speed.tokens_per_second);
        let loss = quality::of_plan(&request.model, &plan);
        let margin = margin_of(&plan);
        Some(Self { request, plan, speeds, speed, prompts, loss, margin, is_balanced: false, placement: None })
    }

    /// Whether it has the wanted context.
    fn reaches(&self, wanted: u64) -> bool {
        self.plan.settings.ctx >= wanted
    }

    /// Whether few would find it too slow; what runs in VRAM is fast where no speed is known.
    fn is_usable(&self) -> bool {
        self.speed.map_or(self.plan.outcome() <= Outcome::Tight, |speed| speed >= USABLE)
    }

    /// How well it serves `objective`; the greater the better.
    fn value(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Balanced => f64::from(u8::from(self.is_balanced)),
            Objective::Placement => self.speed.filter(|_| self.placement.is_some()).unwrap_or(0.0),
            Objective::Speed => self.speed.unwrap_or(0.0),
            Objective::Quality => -self.loss,
            Objective::Prompts => self.prompts.unwrap_or(0.0),
            Objective::Context => self.plan.settings.ctx as f64,
            Objective::Safe => self.margin.map_or(f64::NEG_INFINITY, |margin| margin.0 as f64),
        }
    }

    /// By `objective` first; among equals what loses least, is fastest, and has the longest context and the largest
    /// margin.
    fn compare(&self, other: &Self, objective: Objective) -> Ordering {
        let by = |objective| self.value(objective).total_cmp(&other.value(objective));
        let others = [Objective::Quality, Objective::Speed, Objective::Context, Objective::Safe, Objective::Prompts];
        others.into_iter().fold(by(objective), |order, next| order.then_with(|| by(next)))
    }

    /// Whether it is as good as `other` in everything, and better in something.
    fn beats(&self, other: &Self) -> bool {
        let served = [Objective::Speed, Objective::Quality, Objective::Prompts, Objective::Context, Objective::Safe];
        served.iter().all(|objective| self.value(*objective) >= other.value(*objective))
            && served.iter().any(|objective| self.value(*objective) > other.value(*objective))
            && self.plan.outcome() <= other.plan.outcome()
    }
}

/// Whether weights of this type are good without a word.
fn is_good_type(to: FileType) -> bool {
    quality::of_weights(to) <= quality::of_weights(GOOD)
}

fn is_good(model: &Model) -> bool {
    quality::of_model(model) <= quality::of_weights(GOOD)
}

/// How fast a long prompt is read, or one of the whole context.
fn prompts_of(request: &PlanRequest, plan: &Plan) -> Option<PromptSpeed> {
    let tokens = prompt::LONG.min(plan.settings.ctx_per_sequence);
    PromptSpeed::of(&request.model, &request.machine, plan, 0, tokens).ok()
}

/// What the fullest GPU has left above what must stay free.
fn margin_of(plan: &Plan) -> Option<Difference> {
    plan.tightest_gpu().map(|(_, headroom)| headroom.above())
}

impl BestSearch<'_> {
    /// The context that is wanted: as it is now, or a useful one where the engine chose it.
    fn wanted(&self) -> u64 {
        let now = self.plan.settings.ctx;
        match (self.request.settings.ctx, self.plan.model.context_train) {
            (Context::Auto, _) if self.question.holds(Knob::Context) => now,
            (Context::Auto, Some(trained)) if trained > 0 => USEFUL.min(trained),
            (Context::Auto, _) => USEFUL.min(now),
            _ => now,
        }
    }

    /// Everything that is tried, a part after the other.
    fn steps(&self) -> Vec<Step> {
        let types = self.types();
        let mut steps = vec![Step::Now];
        let found = types.good.iter().chain(&types.narrower);
        steps.extend(found.chain(self.last_resorts(&types)).copied().map(Step::Type));
        steps.push(Step::Balanced);
        if !self.question.holds(Knob::Context) {
            let own = self.own_may_stay().then_some(Type::AsItIs);
            let narrowest = types.good.last().copied();
            let is_narrower = |to: &Type| own.is_none() || self.bytes(*to) < Some(self.request.model.bytes);
            steps.extend(own.into_iter().chain(narrowest.filter(is_narrower)).map(Step::Longest));
        }
        if ![Knob::Ubatch, Knob::Batch].iter().any(|knob| self.question.holds(*knob)) {
            steps.push(Step::Ubatches);
        }
        let placing = [Knob::GpuLayers, Knob::CpuMoe, Knob::TensorSplit];
        let context_stays = self.question.holds(Knob::Context) && self.request.settings.ctx == Context::Auto;
        if !context_stays && !placing.iter().any(|knob| self.question.holds(*knob)) {
            steps.push(Step::Placements);
        }
        steps
    }

    /// The types of weights that may be suggested, the widest first.
    fn types(&self) -> Types {
        let as_it_is = Types { good: vec![Type::AsItIs], ..Types::default() };
        let own = quality::own_type(&self.request.model);
        let opened = quality::own_type(&self.request.opened);
        // nothing is gained by other types for a model that was trained in its own
        let is_trained_in = opened.is_some_and(|opened| TRAINED_IN.contains(&opened)) && own == opened;
        if self.question.holds(Knob::Quant) || is_trained_in {
            return as_it_is;
        }
        let room = self.room();
        let mut types = Types::default();
        for to in quality::ladder() {
            let of = if own == Some(to) { Type::AsItIs } else { Type::Quantised(to) };
            if self.bytes(of).is_none_or(|bytes| bytes > room) {
                continue;
            }
            match (self.question.floors.allow(to), is_good_type(to)) {
                (true, true) => types.good.push(of),
                (true, false) => types.narrower.push(of),
                (false, _) if self.question.floors.quant.is_none() => types.last_resorts.push(of),
                (false, _) => {}
            }
        }
        types
    }

    /// The types that are a last resort, if no other one runs.
    fn last_resorts<'t>(&self, types: &'t Types) -> &'t [Type] {
        let narrowest = types.narrower.last().or(types.good.last());
        let runs = |to: &Type| self.in_type(*to).is_some_and(|request| request.meets(Goal::AtLeast(0)));
        if narrowest.is_some_and(runs) { &[] } else { &types.last_resorts }
    }

    /// What weights take in a type.
    fn bytes(&self, to: Type) -> Option<Bytes> {
        match to {
            Type::AsItIs => Some(self.request.model.bytes),
            Type::Quantised(to) => self.request.opened.quantised_bytes(to).ok(),
        }
    }

    /// The request with the model's weights in a type.
    fn in_type(&self, to: Type) -> Option<PlanRequest> {
        match to {
            Type::AsItIs => Some(self.request.clone()),
            Type::Quantised(to) => self.request.quantised(to),
        }
    }

    /// Memory for weights, on all devices.
    fn room(&self) -> Bytes {
        let Machine { gpus, ram, .. } = &*self.request.machine;
        gpus.iter().map(|gpu| gpu.free).sum::<Bytes>() + ram.free
    }

    /// Whether the model's own weights are good, and no floor is above them.
    fn own_may_stay(&self) -> bool {
        let own = quality::own_type(&self.request.model);
        let may = own.is_none_or(|own| TRAINED_IN.contains(&own) || self.question.floors.allow(own));
        may && is_good(&self.request.model) || self.question.holds(Knob::Quant)
    }

    /// See [`PlanRequest::balanced`].
    fn balanced(&self) -> Option<PlanRequest> {
        let Types { good, narrower, last_resorts } = self.types();
        let is_useful = |to: &Type| match to {
            Type::AsItIs => {
                good.len() == 1 || quality::of_model(&self.request.model) >= quality::of_weights(WIDEST_USEFUL)
            }
            Type::Quantised(to) => quality::of_weights(*to) >= quality::of_weights(WIDEST_USEFUL),
        };
        let useful: Vec<Type> = good.iter().copied().filter(is_useful).collect();
        let narrowest: Vec<Type> = useful.last().copied().into_iter().collect();
        let in_vram = Goal::VramWith(self.question.margin);
        let of_experts: &[Type] = if self.request.model.hyper.experts.is_some() { &narrowest } else { &[] };
        let (fast, usable) = (Some(FAST_ENOUGH), Some(USABLE));
        self.first(&useful, in_vram, fast)
            .or_else(|| self.first(of_experts, Goal::AllLayers, fast))
            .or_else(|| self.shorter(&narrowest, in_vram, SHORT))
            .or_else(|| self.first(&narrowest, Goal::AtLeast(0), fast))
            .or_else(|| self.first(&useful, in_vram, None))
            .or_else(|| self.first(&narrower, in_vram, fast))
            .or_else(|| self.shorter(&narrower, in_vram, LEAST))
            .or_else(|| self.first(&narrowest, Goal::AtLeast(0), usable))
            .or_else(|| self.first(&narrower, Goal::AtLeast(0), usable))
            .or_else(|| self.first(&narrowest, Goal::AtLeast(0), None))
            .or_else(|| self.first(&narrower, Goal::AtLeast(0), None))
            .or_else(|| self.shorter(&narrowest, Goal::AtLeast(0), 1))
            .or_else(|| self.first(&last_resorts, in_vram, None))
            .or_else(|| self.first(&last_resorts, Goal::AtLeast(0), None))
            .or_else(|| self.request.meets(Goal::AtLeast(0)).then(|| self.request.clone()))
    }

    /// The first of `types` that meets `goal` with the wanted context and one of the types of the cache, the widest
    /// first, and is as fast as asked.
    fn first(&self, types: &[Type], goal: Goal, least: Option<f64>) -> Option<PlanRequest> {
        let is_fast = |request: &PlanRequest| {
            let Some(least) = least else { return true };
            let Ok(plan) = request.plan() else { return false };
            let speed = Speed::of(&request.model, &request.machine, &plan, 0);
            speed.map_or(plan.outcome() <= Outcome::Tight, |speed| speed.tokens_per_second >= least)
        };
        types.iter().filter(|to| self.has_room(**to, goal)).find_map(|to| {
            let request = self.with_context(&self.in_type(*to)?, self.wanted());
            self.cache_types(&request).into_iter().find(|request| request.meets(goal) && is_fast(request))
        })
    }

    /// The first of `types` that meets `goal` with a shorter context, of `least` at least: the longest.
    fn shorter(&self, types: &[Type], goal: Goal, least: u64) -> Option<PlanRequest> {
        if self.question.holds(Knob::Context) {
            return None;
        }
        types.iter().filter(|to| self.has_room(**to, goal)).find_map(|to| {
            let of_types = self.cache_types(&self.in_type(*to)?);
            let reached = of_types.into_iter().filter_map(|one| self.shorten(&one, goal, self.wanted()));
            reached.max_by_key(context_of).filter(|request| context_of(request) >= least.min(self.wanted()))
        })
    }

    /// Whether weights of a type alone leave a goal open; most that cannot meet it are told without a plan.
    fn has_room(&self, to: Type, goal: Goal) -> bool {
        let vram: Bytes = self.request.machine.gpus.iter().map(|gpu| gpu.free).sum();
        let bytes = self.bytes(to).unwrap_or_default();
        // what looks rows up, and a part that is split off, may be in RAM
        let embeddings: Bytes = self.request.model.tensors(TensorGroup::Input).map(|tensor| tensor.bytes).sum();
        match goal {
            Goal::Vram | Goal::VramWith(_) => bytes - embeddings <= vram,
            _ => true,
        }
    }

    fn with_context(&self, request: &PlanRequest, tokens: u64) -> PlanRequest {
        if self.question.holds(Knob::Context) || request.settings.ctx == Context::Tokens(tokens) {
            return request.clone();
        }
        request.changed(|settings| settings.ctx = Context::Tokens(tokens))
    }

    /// The settings as they are, and the balanced ones, placed faster where that can be.
    fn placements(&self, tried: &[Candidate]) -> Vec<Candidate> {
        let balanced = tried.iter().find(|one| one.is_balanced);
        let now = tried.iter().find(|one| one.request == *self.request);
        let placed = now.into_iter().chain(balanced).filter_map(|one| {
            let placed = one.request.placed(&one.plan)?;
            let placement = Placement { options: placed.options(), reason: placed.reason };
            Some(Candidate { placement: Some(placement), ..Candidate::of(placed.request, self.wanted())? })
        });
        placed.collect()
    }

    /// The balanced settings, and those with the fastest prompts until now, with a larger ubatch where that pays.
    fn larger_ubatches(&self, tried: &[Candidate]) -> Vec<PlanRequest> {
        let fastest =
            self.eligible(Objective::Prompts, tried).into_iter().max_by(|a, b| a.compare(b, Objective::Prompts));
        let balanced = tried.iter().find(|one| one.is_balanced);
        let larger = fastest.into_iter().chain(balanced).filter_map(|one| one.request.larger_ubatch(&one.plan));
        larger.map(|larger| larger.request).collect()
    }

    /// The longest contexts for each type of the cache and each outcome, up to what the model was trained for.
    fn longest(&self, request: &PlanRequest) -> Vec<PlanRequest> {
        let limit = self.plan.model.context_train.filter(|trained| *trained > 0).unwrap_or(u64::MAX).max(self.wanted());
        let mut found = Vec::new();
        let types = self.cache_types(request);
        for goal in GOALS {
            found.extend(types.iter().filter_map(|one| self.shorten(one, goal, limit)));
            if found.iter().any(|longest| context_of(longest) >= limit) {
                break;
            }
        }
        found
    }

    /// `request` with `tokens` of context, or the most below that meets `goal`.
    fn shorten(&self, request: &PlanRequest, goal: Goal, tokens: u64) -> Option<PlanRequest> {
        let whole = self.with_context(request, tokens);
        if tokens < u64::MAX && whole.meets(goal) {
            return Some(whole);
        }
        if self.question.holds(Knob::Context) {
            return None;
        }
        let Largest { value, .. } = request.largest_below(Knob::Context, goal, tokens)?;
        (value >= LEAST.min(self.wanted())).then(|| self.with_context(request, value))
    }

    /// `request` with each type of the cache that may be suggested, the widest first; as it is if the type is held.
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
            let taken = changed.preflight().ok().flatten().map(|known| known.settings);
            let taken = taken.or_else(|| Some(changed.plan().ok()?.settings))?;
            ((taken.cache_type_k, taken.cache_type_v) == (ty, ty)).then_some(changed)
        };
        let allowed = |ty: &CacheType| self.question.floors.allow_cache(*ty);
        let found: Vec<_> = CACHE_CHOICES.into_iter().filter(allowed).filter_map(with).collect();
        if found.is_empty() { vec![request.clone()] } else { found }
    }

    /// The best of `tried` for each objective, without those that another one beats in everything.
    fn cards(&self, tried: &[Candidate]) -> Vec<Card> {
        let mut chosen: Vec<(Objective, &Candidate)> = Vec::new();
        for objective in Objective::ALL {
            let best = self.eligible(objective, tried).into_iter().max_by(|a, b| a.compare(b, objective));
            chosen.extend(best.map(|one| (objective, one)));
        }
        // a card that another one beats in what it is named for gives its name to that one
        let shown: Vec<&Candidate> = chosen.iter().map(|(_, one)| *one).collect();
        for (objective, one) in &mut chosen {
            let better = |other: &&&Candidate| match objective {
                Objective::Balanced => other.beats(one),
                Objective::Placement => other.placement.is_some() && other.compare(one, *objective).is_gt(),
                Objective::Safe => self.is_safe(other) && other.compare(one, *objective).is_gt(),
                _ => other.compare(one, *objective).is_gt(),
            };
            if let Some(better) = shown.iter().filter(better).max_by(|a, b| a.compare(b, *objective)) {
                *one = better;
            }
        }
        let mut cards: Vec<Card> = Vec::new();
        for (objective, one) in chosen {
            Card::new(objective, one, self).join(&mut cards);
        }
        cards
    }

    /// What may serve `objective`.
    fn eligible<'t>(&self, objective: Objective, tried: &'t [Candidate]) -> Vec<&'t Candidate> {
        let must = |one: &&Candidate| match objective {
            Objective::Balanced => one.is_balanced,
            Objective::Placement => one.placement.is_some(),
            Objective::Speed => one.speed.is_some(),
            Objective::Prompts => one.prompts.is_some(),
            Objective::Quality => true,
            Objective::Context => !self.question.holds(Knob::Context),
            Objective::Safe => self.is_safe(one),
        };
        let mut left: Vec<&Candidate> = tried.iter().filter(must).collect();
        // each of these only if any has it
        let mut prefer = |wish: &dyn Fn(&Candidate) -> bool| {
            if left.iter().any(|one| wish(one)) {
                left.retain(|one| wish(one));
            }
        };
        let fastest = |left: &[&Candidate]| left.iter().filter_map(|one| one.speed).fold(0.0, f64::max);
        match objective {
            Objective::Balanced => {}
            Objective::Placement => prefer(&|one| one.reaches(self.wanted())),
            Objective::Context => prefer(&Candidate::is_usable),
            Objective::Quality => {
                prefer(&|one| one.reaches(self.wanted()));
                prefer(&Candidate::is_usable);
            }
            Objective::Speed | Objective::Safe | Objective::Prompts => {
                prefer(&|one| one.reaches(self.wanted()));
                prefer(&|one| is_good(&one.request.model));
            }
        }
        if objective == Objective::Speed {
            // a speed that is the same is no reason to give up anything
            let least = fastest(&left) * AS_FAST;
            left.retain(|one| one.speed.is_some_and(|speed| speed >= least));
            left.sort_by(|a, b| a.compare(b, Objective::Quality));
            left.drain(..left.len().saturating_sub(1));
        }
        left
    }

    fn is_safe(&self, one: &Candidate) -> bool {
        let weights = quality::of_model(&one.request.model);
        !quality::is_last_resort(weights) && Goal::VramWith(self.question.margin).is_met_by(&one.plan)
    }
}

/// The context of a request that has one set.
fn context_of(request: &PlanRequest) -> u64 {
    match request.settings.ctx {
        Context::Tokens(tokens) => tokens,
        _ => request.plan().map_or(0, |plan| plan.settings.ctx),
    }
}

impl Objective {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Balanced => "Balanced",
            Self::Safe => "Safe",
            Self::Placement => "Faster placement",
            Self::Context => "Longest context",
            Self::Speed => "Fastest",
            Self::Prompts => "Fastest prompts",
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
    /// When the first token of an answer comes, where that is known.
    pub first_token: Option<FirstToken>,
    /// Its placement, where it is not the engine's.
    pub placement: Option<Placement>,
    /// What weights and caches lose, in nats per token.
    pub loss: f64,
    /// What it gives up against the plan now, the gravest first.
    pub gives_up: Vec<Loss>,
    /// The knobs that it changes: their names with the values now and then.
    pub changes: Vec<KnobChange>,
}

/// When the first token of an answer comes, after a prompt of a useful context or all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FirstToken {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// If all of it is read.
    pub whole: Seconds,
    /// If only its last [`NEW_TOKENS`] are, and the server still has the others.
    pub cached: Option<Seconds>,
}

/// What is new in a turn of a long conversation, in tokens.
pub const NEW_TOKENS: u64 = 1024;

impl FirstToken {
    fn of(request: &PlanRequest, plan: &Plan) -> Option<Self> {
        let prompt = USEFUL.min(plan.settings.ctx_per_sequence);
        let after = |depth: u64, tokens: u64| {
            let speed = PromptSpeed::of(&request.model, &request.machine, plan, depth, tokens).ok()?;
            let over = |per_second: f64| tokens as f64 / per_second;
            Some(Seconds { seconds: over(speed.tokens_per_second), low: over(speed.high), high: over(speed.low) })
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

/// What a card gives up.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// All of a token's weights on GPUs.
    Vram(Outcome),
    /// Layers on GPUs.
    Layers {
        /// On GPUs now.
        from: usize,
        /// On GPUs then.
        to: usize,
    },
    /// Tokens per second.
    Speed {
        /// Now.
        from: SpeedRange,
        /// Then.
        to: SpeedRange,
        /// Tokens in the cache.
        depth: u64,
    },
    /// Tokens of a prompt per second.
    Prompts {
        /// Now.
        from: SpeedRange,
        /// Then.
        to: SpeedRange,
    },
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
    Margin {
        /// Left now.
        from: Difference,
        /// Left then.
        to: Difference,
    },
}

impl Card {
    fn new(objective: Objective, found: &Candidate, search: &BestSearch<'_>) -> Self {
        let Candidate { request, plan, speeds, loss, .. } = found;
        Self {
            objectives: vec![objective],
            request: request.clone(),
            plan: plan.clone(),
            speeds: speeds.clone(),
            first_token: FirstToken::of(request, plan),
            placement: found.placement.clone(),
            loss: *loss,
            gives_up: Loss::between((search.request, &search.plan), (request, plan)),
            changes: changes((search.request, &search.plan), (request, plan)),
        }
    }

    /// Adds it to `cards`, or its objectives to the card with the same plan.
    fn join(self, cards: &mut Vec<Self>) {
        match cards.iter_mut().find(|other| other.plan == self.plan) {
            Some(same) => same.objectives.extend(self.objectives),
            None => cards.push(self),
        }
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

    /// `1.4 GiB above the 1 GiB kept free; 28–34 tok/s`
    pub fn room_and_speed(&self) -> String {
        let room = match self.plan.outcome() {
            Outcome::Vram | Outcome::Tight => margin(&self.plan),
            Outcome::PartsInRam | Outcome::ExpertsInRam => format!("{} run from RAM", in_ram(&self.plan)),
            _ => format!("{} of {} layers in RAM", self.plan.cpu().layers.len(), self.plan.layers.len()),
        };
        let speeds = self.speeds.as_ref().map(|speeds| format!("; {speeds}")).unwrap_or_default();
        let first = self.first_token.map(|first| format!("; {first}")).unwrap_or_default();
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
            options.extend(to.cache_type_k.map(|ty| format!("--kv-type {ty}")));
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

/// An option as it is typed.
fn option(name: &str, value: &str) -> String {
    match value {
        "" => format!("--{name}"),
        value if value.contains(['|', '(', '\\', '*', ' ']) => format!("--{name} '{value}'"),
        value => format!("--{name} {value}"),
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
    let batch = |of: (&PlanRequest, &Plan), tokens: fn(&InEffect) -> u64| {
        let is_set = of.0.settings.batch.is_some() || of.0.settings.ubatch.is_some();
        let is_set = is_set || now.0.settings.batch.is_some() || now.0.settings.ubatch.is_some();
        if is_set || now.0.settings.ubatch != then.0.settings.ubatch {
            Tokens(tokens(&of.1.settings)).to_string()
        } else {
            String::new()
        }
    };
    let rows = [
        (Knob::Context, Tokens(before.ctx).to_string(), Tokens(after.ctx).to_string()),
        (Knob::Quant, quantisation(now.1), quantisation(then.1)),
        (Knob::CacheType, caches(before), caches(after)),
        (Knob::FlashAttn, now.0.settings.flash_attn.to_string(), then.0.settings.flash_attn.to_string()),
        (Knob::Batch, batch(now, |effect| effect.batch), batch(then, |effect| effect.batch)),
        (Knob::Ubatch, batch(now, |effect| effect.ubatch), batch(then, |effect| effect.ubatch)),
    ];
    let bounds = now.0.bounds();
    let set = |knob: Knob| match knob {
        Knob::FlashAttn => now.0.settings.flash_attn != FlashAttn::Auto,
        knob => knob.chosen(&now.0.settings, &bounds).is_some(),
    };
    let differ = rows.into_iter().filter(|(_, from, to)| from != to);
    differ.map(|(knob, from, to)| KnobChange { knob, from, to, was_set: set(knob) }).collect()
}

/// A margin that shrinks by less is as large as before.
const NOTABLE: Bytes = Bytes::mib(32);

/// A slower speed than this share of the other is a loss.
const AS_FAST: f64 = 0.97;

impl Loss {
    /// All losses of `then` against `now`, the gravest first.
    fn between(now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Vec<Self> {
        let ((request_now, now), (request_then, then)) = (now, then);
        let (before, after) = (&now.settings, &then.settings);
        let mut losses = Vec::new();
        if then.outcome() > now.outcome() {
            losses.push(Self::Vram(then.outcome()));
        }
        if then.on_gpus() < now.on_gpus() {
            losses.push(Self::Layers { from: now.on_gpus(), to: then.on_gpus() });
        }
        let both = before.ctx_per_sequence.min(after.ctx_per_sequence);
        for depth in [0, both] {
            let of = |request: &PlanRequest, plan: &Plan| Speed::of(&request.model, &request.machine, plan, depth);
            let Some((from, to)) = of(request_now, now).zip(of(request_then, then)) else { continue };
            let is_slower = to.tokens_per_second < from.tokens_per_second * AS_FAST;
            if is_slower && !losses.iter().any(|loss| matches!(loss, Self::Speed { .. })) {
                losses.push(Self::Speed { from: from.range(), to: to.range(), depth });
            }
        }
        if let (Some(from), Some(to)) = (prompts_of(request_now, now), prompts_of(request_then, then))
            && to.tokens_per_second < from.tokens_per_second * AS_FAST
        {
            losses.push(Self::Prompts { from: from.range(), to: to.range() });
        }
        if after.ctx < before.ctx {
            losses.push(Self::Context { from: before.ctx, to: after.ctx });
        }
        if quality::of_model(&request_then.model) > quality::of_model(&request_now.model) {
            let name = |plan: &Plan| plan.model.file_type.clone().unwrap_or_default();
            losses.push(Self::Quantisation { from: name(now), to: name(then) });
        }
        let types = [(before.cache_type_k, after.cache_type_k), (before.cache_type_v, after.cache_type_v)];
        let narrower =
            |&(from, to): &(CacheType, CacheType)| quality::of_caches(to, to) > quality::of_caches(from, from);
        losses.extend(types.into_iter().find(narrower).map(|(from, to)| Self::CacheType { from, to }));
        if let (Some(from), Some(to)) = (margin_of(now), margin_of(then))
            && from.left() - to.left() >= NOTABLE
            && to.left() < COMFORTABLE
        {
            losses.push(Self::Margin { from, to });
        }
        losses
    }

    /// Its name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Vram(_) => "vram",
            Self::Layers { .. } => "layers",
            Self::Speed { .. } => "speed",
            Self::Prompts { .. } => "prompts",
            Self::Context { .. } => "ctx",
            Self::Quantisation { .. } => "quant",
            Self::CacheType { .. } => "kv-type",
            Self::Margin { .. } => "margin",
        }
    }
}

/// After "gives up".
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vram(outcome) => {
                write!(f, "running from VRAM alone: {}", outcome.headline().to_lowercase().replace("ram", "RAM"))
            }
            Self::Layers { from, to } => write!(f, "layers on GPU: {to} instead of {from}"),
            Self::Speed { from, to, depth: 0 } => write!(f, "speed: {to} instead of {from} tok/s"),
            Self::Speed { from, to, depth } => {
                write!(f, "speed at {} tokens: {to} instead of {from} tok/s", Tokens(*depth))
            }
            Self::Prompts { from, to } => write!(f, "speed of prompts: {to} instead of {from} tok/s"),
            Self::Context { from, to } => write!(f, "{} of {} tokens of context", Tokens(from - to), Tokens(*from)),
            Self::Quantisation { from, to } => write!(f, "precise weights: {to} instead of {from}"),
            Self::CacheType { from, to } => write!(f, "a precise KV cache: {to} instead of {from}"),
            Self::Margin { from, to } => write!(f, "margin: {to} instead of {from} left"),
        }
    }
}
