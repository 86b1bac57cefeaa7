//! The settings that are tried around one plan, and which of them serve an objective.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;

use super::card::{Card, Placement, Poorer};
use super::loss::{margin_of, prompts_of};
use super::{BestRequest, Objective};
use crate::answer::change::width;
use crate::answer::quality;
use crate::answer::{Change, Goal};
use crate::catalogue;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::model::Model;
use crate::model::mixture::Quantisation;
use crate::model::quantise::Quantiser;
use crate::plan::{Outcome, Plan, used_gpus};
use crate::settings::knob::{CACHE_CHOICES, Knob};
use crate::settings::{CacheType, Context, FlashAttn};
use crate::speed::{FAST_ENOUGH, Speed, Speeds, USABLE};
use crate::units::{Bytes, Difference};

/// The narrowest quantisation that is good without a word.
const GOOD: FileType = FileType::Q4KM;
/// A wider one than this holds nothing that shows.
const WIDEST_USEFUL: FileType = FileType::Q8_0;
/// A context that most uses are served by, in tokens.
pub(super) const USEFUL: u64 = 32_768;
/// A shorter context than this is no compromise for better weights.
const SHORT: u64 = 8192;
/// A shorter context than this is not suggested, unless it is wanted.
const LEAST: u64 = 4096;

/// Contexts that are searched by their speed are multiples of this, in tokens.
const STEP: u64 = 256;

/// What the longest contexts are searched for, the best outcome first.
const GOALS: [Goal; 3] = [Goal::Vram, Goal::AllLayers, Goal::AtLeast(0)];

/// The search for cards around one plan.
pub(super) struct BestSearch<'a> {
    /// What cards are compared with: the settings as they are, and their plan.
    pub now: (&'a PlanRequest, Cow<'a, Plan>),
    /// What is searched from.
    request: Cow<'a, PlanRequest>,
    /// Its plan, where it is another one.
    own_plan: Option<Plan>,
    pub question: &'a BestRequest,
    /// That of the opened model.
    quantiser: Quantiser<'a>,
}

/// The model's weights as they are, or in a type.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Type {
    AsItIs,
    Quantised(Quantisation),
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
pub(super) enum Step {
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
    pub const fn is_alone(&self) -> bool {
        !matches!(self, Self::Ubatches | Self::Placements)
    }

    pub fn take(self, search: &BestSearch<'_>, tried: &[Candidate]) -> Vec<Candidate> {
        let of = |request: PlanRequest| Candidate::of(request, search.wanted());
        let planned = |request: PlanRequest, plan: Plan| Candidate::of_plan(request, plan, search.wanted());
        match self {
            Self::Placements => search.placements(tried),
            Self::Ubatches => search.larger_ubatches(tried),
            Self::Type(to) => {
                let request = search.in_type(to).map(|request| search.with_context(&request, search.wanted()));
                let types = request.map(|request| search.cache_types(&request)).unwrap_or_default();
                types.into_iter().filter_map(of).collect()
            }
            Self::Balanced => {
                let balanced = search.balanced().and_then(|found| match found {
                    (request, Some(plan)) => planned(request, plan),
                    (request, None) => of(request),
                });
                balanced.map(|found| Candidate { is_balanced: true, ..found }).into_iter().collect()
            }
            Self::Longest(to) => {
                let longest = search.in_type(to).map(|request| search.longest(&request)).unwrap_or_default();
                longest.into_iter().filter_map(of).collect()
            }
        }
    }
}

/// Settings that were found, with their trial where it is known.
pub(super) type Found = (PlanRequest, Option<Plan>);

/// Settings on the way to the balanced ones, planned at most once.
struct Tried {
    request: PlanRequest,
    /// Its plan with its speed, once that is asked for; none within if it cannot be planned.
    planned: OnceCell<Option<(Plan, Option<f64>)>>,
}

impl Tried {
    /// The request if it meets `goal` and is as fast as asked; what runs in VRAM is fast where no speed is known.
    fn serves(&self, goal: Goal, least: Option<f64>) -> Option<Found> {
        let asks_for_vram = matches!(goal, Goal::Vram | Goal::VramWith(_));
        let request = &self.request;
        // whether all is in VRAM is often told without a plan, and where it is not, the layers need not be placed
        let met = if asks_for_vram && self.planned.get().is_none() { Some(request.trial_meeting(goal)?) } else { None };
        let planned = self.planned.get_or_init(|| Some(with_speed(request, met.or_else(|| request.trial().ok())?)));
        let (plan, speed) = planned.as_ref()?;
        let is_fast = |least: f64| speed.map_or(plan.outcome() <= Outcome::Tight, |speed| speed >= least);
        (goal.is_met_by(plan) && least.is_none_or(is_fast)).then(|| (self.request.clone(), Some(plan.clone())))
    }

    /// Whether a narrower cache cannot make it as fast as asked: that frees less than the cache takes for weights, and
    /// where twice as much runs from RAM it does not double the speed.
    fn is_slow_with_any_cache(&self, least: Option<f64>) -> bool {
        let planned = self.planned.get().and_then(Option::as_ref);
        let Some((least, (plan, Some(speed)))) = least.zip(planned) else { return false };
        let cache = plan.totals.cache;
        // RAM that is freed may spare the disk
        plan.outcome() < Outcome::FromDisk && plan.cpu().ram.run > cache + cache && 2.0 * speed < least
    }
}

/// A plan with its tokens per second at the start, as shown.
fn with_speed(request: &PlanRequest, plan: Plan) -> (Plan, Option<f64>) {
    let speed = Speed::of(&request.model, &request.machine, &plan, 0).map(|speed| speed.shown());
    (plan, speed)
}

/// Settings that were planned and run.
pub(super) struct Candidate {
    pub request: PlanRequest,
    pub plan: Plan,
    pub speeds: Option<Speeds>,
    /// Tokens per second with the wanted context full, or with as much of it as there is, as shown.
    pub speed: Option<f64>,
    /// Tokens of a long prompt per second, as shown.
    pub prompts: Option<f64>,
    /// By weights and caches.
    pub loss: f64,
    /// Of the GPU that has least left.
    pub margin: Option<Difference>,
    pub is_balanced: bool,
    /// Why its placement is faster than the engine's, and the options that make it.
    pub placement: Option<Placement>,
}

impl Candidate {
    /// None if it cannot be planned or does not run.
    fn of(request: PlanRequest, wanted: u64) -> Option<Self> {
        let plan = request.trial().ok()?;
        Self::of_plan(request, plan, wanted)
    }

    /// The same where the plan is known.
    fn of_plan(request: PlanRequest, plan: Plan, wanted: u64) -> Option<Self> {
        if !runs(&plan) {
            return None;
        }
        let depth = wanted.min(plan.settings.ctx_per_sequence);
        let speed = Speed::of(&request.model, &request.machine, &plan, depth).map(|speed| speed.shown());
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        let prompts = prompts_of(&request, &plan).map(|speed| speed.range().shown());
        let loss = quality::of_plan(&request.model, &plan);
        let margin = margin_of(&plan);
        Some(Self { request, plan, speeds, speed, prompts, loss, margin, is_balanced: false, placement: None })
    }

    /// As much of the wanted context as it has.
    fn reaches(&self, wanted: u64) -> u64 {
        self.plan.settings.ctx.min(wanted)
    }

    /// Whether few would find it too slow, as far as the wanted context is full; what runs in VRAM is fast where no speed is
    /// known.
    fn is_usable(&self) -> bool {
        self.speed.map_or(self.plan.outcome() <= Outcome::Tight, |speed| speed >= USABLE)
    }

    /// The same with its own context full.
    fn is_usable_when_full(&self) -> bool {
        let full = self.speeds.as_ref().map(|speeds| speeds.full.shown());
        full.map_or(self.plan.outcome() <= Outcome::Tight, |speed| speed >= USABLE)
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

    /// By `objective` first; among equals what is balanced, loses least, is fastest, and has the longest context and the
    /// largest margin: a speed that is shown alike is no reason to give up anything.
    fn compare(&self, other: &Self, objective: Objective) -> Ordering {
        let by = |objective| self.value(objective).total_cmp(&other.value(objective));
        let others = [
            Objective::Balanced,
            Objective::Quality,
            Objective::Speed,
            Objective::Context,
            Objective::Safe,
            Objective::Prompts,
        ];
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

/// Whether it runs without reading from disk, with what is kept of RAM for the system: a GPU may have less left than the
/// engine would keep, but what its driver takes.
fn runs(plan: &Plan) -> bool {
    let has_room = || used_gpus(&plan.devices).all(|(_, headroom)| !headroom.is_tight());
    let keeps_ram = || !plan.ram().above_kept().is_short();
    plan.refusal.is_none() && plan.outcome() < Outcome::FromDisk && has_room() && keeps_ram()
}

/// Whether weights of this type are good without a word.
fn is_good_type(to: Quantisation) -> bool {
    quality::of_weights(to) <= quality::of_weights(GOOD)
}

fn is_good(model: &Model) -> bool {
    quality::of_model(model) <= quality::of_weights(GOOD)
}

impl<'a> BestSearch<'a> {
    /// That around `plan`, which is the plan of `request`, from the settings as they are.
    pub fn around(request: &'a PlanRequest, plan: Cow<'a, Plan>, question: &'a BestRequest) -> Self {
        let quantiser = Quantiser::of(&request.opened);
        Self { now: (request, plan), request: Cow::Borrowed(request), own_plan: None, question, quantiser }
    }

    /// The same from the held settings alone: what is found does not depend on knobs that are free, so neither on which
    /// card was taken before.
    pub fn of_held(request: &'a PlanRequest, plan: Cow<'a, Plan>, question: &'a BestRequest) -> Self {
        let search = Self::around(request, plan, question);
        let freed = question.freed(request);
        match freed.trial() {
            Ok(plan) if freed != *request => Self { request: Cow::Owned(freed), own_plan: Some(plan), ..search },
            _ => search,
        }
    }
}

impl BestSearch<'_> {
    /// The plan that is searched from.
    fn plan(&self) -> &Plan {
        self.own_plan.as_ref().unwrap_or(&self.now.1)
    }

    /// The context that is wanted: as it is now, or a useful one where the engine chose it. Speeds are compared with so
    /// many tokens in the cache.
    pub fn wanted(&self) -> u64 {
        let now = self.plan().settings.ctx;
        match (self.request.settings.ctx, self.plan().model.context_train) {
            (Context::Auto, _) if self.question.holds(Knob::Context) => now,
            (Context::Auto, Some(trained)) if trained > 0 => USEFUL.min(trained),
            (Context::Auto, _) => USEFUL.min(now),
            _ => now,
        }
    }

    /// Everything that is tried, a part after the other.
    pub fn steps(&self) -> Vec<Step> {
        let types = self.types();
        let mut found: Vec<Type> = types.good.iter().chain(&types.narrower).copied().collect();
        found.extend(self.last_resorts(&types));
        if found.is_empty() {
            found.push(Type::AsItIs);
        }
        let mut steps: Vec<Step> = found.iter().copied().map(Step::Type).collect();
        steps.push(Step::Balanced);
        if !self.question.holds(Knob::Context) {
            let own = self.own_may_stay().then_some(Type::AsItIs);
            // the narrowest leaves most room for a cache
            let mut longest: Vec<Type> = own.into_iter().chain(types.good.last().copied()).collect();
            longest.extend(found.last());
            for (at, to) in longest.iter().enumerate() {
                if !longest[..at].contains(to) {
                    steps.push(Step::Longest(*to));
                }
            }
        }
        if ![Knob::Ubatch, Knob::Batch].iter().any(|knob| self.question.holds(*knob)) {
            steps.push(Step::Ubatches);
        }
        let placing = [Knob::GpuLayers, Knob::CpuMoe, Knob::TensorSplit];
        let context_stays = self.question.holds(Knob::Context) && self.now.0.settings.ctx == Context::Auto;
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
        let is_trained_in = quality::is_trained_in(&self.request.opened) && own == opened;
        if self.question.holds(Knob::Quant) || is_trained_in {
            return as_it_is;
        }
        let room = self.room();
        // no type takes more than four bytes a weight, and of what the quantiser makes one it makes all
        let most = Bytes(self.request.opened.parameters.saturating_mul(4));
        let ladder = quality::ladder_of(self.request.engine);
        let good = ladder.iter().rfind(|to| is_good_type(**to)).copied();
        let has_room = most <= room && good.is_some_and(|good| self.bytes(Type::Quantised(good)).is_some());
        let mut types = Types::default();
        for to in ladder {
            let of = if own == Some(to) { Type::AsItIs } else { Type::Quantised(to) };
            if !has_room && self.bytes(of).is_none_or(|bytes| bytes > room) {
                continue;
            }
            match (self.question.minimums.allow(to), is_good_type(to)) {
                (true, true) => types.good.push(of),
                (true, false) => types.narrower.push(of),
                (false, _) if self.question.minimums.quant.is_none() => types.last_resorts.push(of),
                (false, _) => {}
            }
        }
        if self.question.prefers_published {
            let entry = self.request.opened.entry.as_deref().and_then(catalogue::find);
            let quantisation = |of: &Type| match of {
                Type::AsItIs => own,
                Type::Quantised(to) => Some(*to),
            };
            let is_published = |of: &Type| {
                entry.as_ref().zip(quantisation(of)).is_some_and(|(entry, to)| entry.place(to.name()).is_some())
            };
            for some in [&mut types.good, &mut types.narrower, &mut types.last_resorts] {
                if some.iter().any(is_published) {
                    some.retain(is_published);
                }
            }
        }
        types
    }

    /// The types that are a last resort, if no other one runs.
    fn last_resorts<'t>(&self, types: &'t Types) -> &'t [Type] {
        let narrowest = types.narrower.last().or(types.good.last());
        let does_run = |to: &Type| {
            let request = self.in_type(*to);
            request
                .is_some_and(|request| request.meets(Goal::AtLeast(0)) || request.trial().is_ok_and(|plan| runs(&plan)))
        };
        if narrowest.is_some_and(does_run) { &[] } else { &types.last_resorts }
    }

    /// What weights take in a type.
    fn bytes(&self, to: Type) -> Option<Bytes> {
        match to {
            Type::AsItIs => Some(self.request.model.bytes),
            Type::Quantised(to) => self.quantiser.bytes_in(to).ok(),
        }
    }

    /// The request with the model's weights in a type.
    fn in_type(&self, to: Type) -> Option<PlanRequest> {
        match to {
            Type::AsItIs => Some(PlanRequest::clone(&self.request)),
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
        let is_trained_in = quality::is_trained_in(&self.request.model);
        let may = own.is_none_or(|own| is_trained_in || self.question.minimums.allow(own));
        may && is_good(&self.request.model) || self.question.holds(Knob::Quant)
    }

    /// See [`PlanRequest::balanced`].
    pub fn balanced(&self) -> Option<Found> {
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
        let (fast, usable, any) = (Some(FAST_ENOUGH), Some(USABLE), Goal::AtLeast(0));
        let mut known = Vec::new();
        let mut first = |types: &[Type], goal: Goal, least: Option<f64>| self.first(&mut known, types, goal, least);
        let mut found = first(&useful, in_vram, fast).or_else(|| first(of_experts, Goal::AllLayers, fast));
        found = found.or_else(|| self.shorter(&narrowest, in_vram, SHORT));
        found = found.or_else(|| first(&narrowest, any, fast)).or_else(|| first(&useful, in_vram, None));
        found = found.or_else(|| first(&narrower, in_vram, fast));
        found = found.or_else(|| self.shorter(&narrower, in_vram, LEAST));
        found = found.or_else(|| first(&narrowest, any, usable));
        // where the narrowest is too slow, wider ones are
        let last = narrower.last().map(std::slice::from_ref).unwrap_or_default();
        let is_slow = found.is_none() && first(last, any, usable).is_none();
        let usable_ones: &[Type] = if is_slow { &[] } else { &narrower };
        found = found.or_else(|| {
            // narrower types are taken to be at least as fast: the widest is found by bisection
            let (mut low, mut high, mut widest) = (0, usable_ones.len(), None);
            while low < high {
                let middle = low.midpoint(high);
                match first(&usable_ones[middle..=middle], any, usable) {
                    Some(one) => (high, widest) = (middle, Some(one)),
                    None => low = middle + 1,
                }
            }
            widest
        });
        found = found.or_else(|| first(&narrowest, any, None)).or_else(|| first(&narrower, any, None));
        found = found.or_else(|| self.shorter(&narrowest, any, 1));
        // where no margin can be kept, such as beside a projector, less than it is
        found = found.or_else(|| self.first_that_runs(narrowest.first().into_iter().chain(&narrower)));
        found = found.or_else(|| first(&last_resorts, in_vram, None)).or_else(|| first(&last_resorts, any, None));
        found.or_else(|| self.request.meets(any).then(|| (PlanRequest::clone(&self.request), None)))
    }

    /// The first of `types` that meets `goal` with the wanted context and one of the types of the cache, the widest
    /// first, and is as fast as asked. What was planned stays in `known`.
    fn first(
        &self,
        known: &mut Vec<(Type, Vec<Tried>)>,
        types: &[Type],
        goal: Goal,
        least: Option<f64>,
    ) -> Option<Found> {
        for &to in types.iter().filter(|to| self.has_room(**to, goal)) {
            let at = known.iter().position(|(known, _)| *known == to).unwrap_or_else(|| {
                let request = self.in_type(to).map(|request| self.with_context(&request, self.wanted()));
                let requests = request.map(|request| self.cache_types(&request)).unwrap_or_default();
                known.push((to, requests.into_iter().map(|request| self.tried(request)).collect()));
                known.len() - 1
            });
            for tried in &known[at].1 {
                if let Some(found) = tried.serves(goal, least) {
                    return Some(found);
                }
                if tried.is_slow_with_any_cache(least) {
                    break;
                }
            }
        }
        None
    }

    /// The first of `types`, the widest first, that runs fast enough to be used with the wanted context; none if the
    /// narrowest does not.
    fn first_that_runs<'t>(&self, types: impl DoubleEndedIterator<Item = &'t Type> + Clone) -> Option<Found> {
        let of_type = |to: &Type| {
            let request = self.with_context(&self.in_type(*to)?, self.wanted());
            self.cache_types(&request).into_iter().find_map(|one| {
                let (plan, speed) = with_speed(&one, one.trial().ok()?);
                (runs(&plan) && speed.is_none_or(|speed| speed >= USABLE)).then_some((one, Some(plan)))
            })
        };
        let narrowest = of_type(types.clone().next_back()?)?;
        Some(types.into_iter().find_map(of_type).unwrap_or(narrowest))
    }

    /// The first of `types` that meets `goal` with a shorter context, of `least` at least: the longest.
    fn shorter(&self, types: &[Type], goal: Goal, least: u64) -> Option<Found> {
        if self.question.holds(Knob::Context) {
            return None;
        }
        types.iter().filter(|to| self.has_room(**to, goal)).find_map(|to| {
            let of_types = self.cache_types(&self.in_type(*to)?);
            let reached = of_types.into_iter().filter_map(|one| self.shorten(&one, goal, self.wanted()));
            let longest = reached.max_by_key(context_of);
            let request = longest.filter(|request| context_of(request) >= least.min(self.wanted()))?;
            Some((request, None))
        })
    }

    /// Whether weights of a type alone leave a goal open; most that cannot meet it are told without a plan.
    fn has_room(&self, to: Type, goal: Goal) -> bool {
        self.request.has_room(self.bytes(to).unwrap_or_default(), goal)
    }

    /// Settings to try, with the plan where they are those that the search began with.
    fn tried(&self, request: PlanRequest) -> Tried {
        let known = (request == *self.request).then(|| Some(with_speed(&request, self.plan().clone())));
        Tried { request, planned: known.map_or_else(OnceCell::new, OnceCell::from) }
    }

    fn with_context(&self, request: &PlanRequest, tokens: u64) -> PlanRequest {
        if self.question.holds(Knob::Context) || request.settings.ctx == Context::Tokens(tokens) {
            return request.clone();
        }
        request.changed(|settings| settings.ctx = Context::Tokens(tokens))
    }

    /// The balanced settings placed faster, and all that may be the fastest then.
    fn placements(&self, tried: &[Candidate]) -> Vec<Candidate> {
        let with_bound = |one| {
            let Candidate { request, plan, speed, .. }: &Candidate = one;
            Some(((*speed)? * request.may_gain(plan)?, one))
        };
        let eligible = self.eligible(Objective::Speed, tried);
        let mut bounded: Vec<(f64, &Candidate)> = eligible.iter().copied().filter_map(with_bound).collect();
        bounded.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let speeds = bounded.iter().filter_map(|(_, one)| one.speed);
        let mut fastest = speeds.fold(0.0, f64::max);
        let mut found = Vec::new();
        for (bound, one) in bounded {
            if bound <= fastest && !one.is_balanced {
                continue;
            }
            let placed = self.placed(one);
            fastest = placed.iter().filter_map(|placed| placed.speed).fold(fastest, f64::max);
            found.extend(placed);
        }
        // a context that is shorter than wanted has no part in what is fastest
        let balanced = tried.iter().find(|one| one.is_balanced);
        let is_known = |one: &&Candidate| eligible.iter().any(|known| std::ptr::eq(*known, *one));
        found.extend(balanced.filter(|one| !is_known(one)).and_then(|one| self.placed(one)));
        found
    }

    fn placed(&self, one: &Candidate) -> Option<Candidate> {
        let placed = one.request.placed(&one.plan)?;
        let placement = Placement { options: placed.options(), reason: placed.reason };
        let candidate = Candidate::of_plan(placed.request, placed.plan, self.wanted())?;
        Some(Candidate { placement: Some(placement), ..candidate })
    }

    /// The balanced settings, and those with the fastest prompts until now, with a larger ubatch where that pays.
    fn larger_ubatches(&self, tried: &[Candidate]) -> Vec<Candidate> {
        let fastest =
            self.eligible(Objective::Prompts, tried).into_iter().max_by(|a, b| a.compare(b, Objective::Prompts));
        let balanced = tried.iter().find(|one| one.is_balanced);
        let larger = fastest.into_iter().chain(balanced).filter_map(|one| one.request.larger_ubatch(&one.plan));
        larger.filter_map(|larger| Candidate::of_plan(larger.request, larger.plan, self.wanted())).collect()
    }

    /// The longest contexts for each type of the cache and each outcome, up to what the model was trained for; and the
    /// longest with which it is usable, where the longest of all is not.
    fn longest(&self, request: &PlanRequest) -> Vec<PlanRequest> {
        let limit =
            self.plan().model.context_train.filter(|trained| *trained > 0).unwrap_or(u64::MAX).max(self.wanted());
        let mut found = Vec::new();
        let types = self.cache_types(request);
        for goal in GOALS {
            found.extend(types.iter().filter_map(|one| self.shorten(one, goal, limit)));
            if found.iter().any(|longest| context_of(longest) >= limit) {
                break;
            }
        }
        // the narrowest cache reaches farthest
        found.extend(types.last().and_then(|one| self.longest_usable(one, &found)));
        found
    }

    /// The longest context with which `request` is fast enough when it is full, between those of `found` that are and are
    /// not, to the nearest part in 64.
    fn longest_usable(&self, request: &PlanRequest, found: &[PlanRequest]) -> Option<PlanRequest> {
        let with = |tokens| Candidate::of(self.with_context(request, tokens), self.wanted());
        let is_usable = |tokens: u64| with(tokens).is_some_and(|one| one.is_usable_when_full());
        let mut contexts: Vec<u64> = found.iter().map(context_of).collect();
        contexts.sort_unstable();
        let (mut low, mut high) = (LEAST, *contexts.last()?);
        if is_usable(high) || !is_usable(low) {
            return None;
        }
        while high - low > (low / 64).max(STEP) {
            let middle = low.midpoint(high) / STEP * STEP;
            if is_usable(middle) { low = middle } else { high = middle }
        }
        Some(self.with_context(request, low))
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
        let value = request.largest_below(Knob::Context, goal, tokens)?;
        (value >= LEAST.min(self.wanted())).then(|| self.with_context(request, value))
    }

    /// `request` with each type of the cache that may be suggested, the widest first; as it is if the type is held.
    fn cache_types(&self, request: &PlanRequest) -> Vec<PlanRequest> {
        if self.question.holds(Knob::CacheType) || self.plan().totals.cache == Bytes::ZERO {
            return vec![request.clone()];
        }
        let effect = &self.plan().settings;
        let has_flash = self.request.engine.facts().offers(Knob::FlashAttn);
        let flash = has_flash && effect.flash_attn != FlashAttn::On && !self.question.holds(Knob::FlashAttn);
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
            let taken = taken.or_else(|| Some(changed.trial().ok()?.settings))?;
            ((taken.cache_type_k, taken.cache_type_v) == (ty, ty)).then_some(changed)
        };
        let allowed = |ty: &CacheType| self.question.minimums.allow_cache(*ty);
        // a type that is the engine's own choice alone
        let own = Some(effect.cache_type_k).filter(|own| !CACHE_CHOICES.contains(own) && effect.cache_type_v == *own);
        let found: Vec<_> = own.into_iter().chain(CACHE_CHOICES).filter(allowed).filter_map(with).collect();
        if found.is_empty() { vec![request.clone()] } else { found }
    }

    /// The best of `tried` for each objective. Where another one is as good as the balanced settings in everything, and better
    /// in something, it has their name.
    pub fn cards(&self, tried: &[Candidate]) -> Vec<Card> {
        let mut cards: Vec<Card> = Vec::new();
        for objective in Objective::ALL {
            let by = |a: &&Candidate, b: &&Candidate| a.compare(b, objective);
            let Some(best) = self.eligible(objective, tried).into_iter().max_by(by) else { continue };
            let better = tried.iter().filter(|other| objective == Objective::Balanced && other.beats(best)).max_by(by);
            let best = better.unwrap_or(best);
            let mut card = Card::new(objective, best, self);
            if objective == Objective::Speed {
                card.fill = Some(best.reaches(self.wanted()));
                card.poorer = self.poorer(best);
            }
            card.join(&mut cards);
        }
        cards.into_iter().map(Card::explained).collect()
    }

    /// The mildest quantisation below the floor that is fast enough where the fastest is not: to be used, or to be read
    /// along with; where it is, the mildest that brings all into VRAM.
    fn poorer(&self, fastest: &Candidate) -> Option<Poorer> {
        let is_trained_in = quality::is_trained_in(&self.request.opened);
        if fastest.plan.outcome() <= Outcome::Tight || self.question.holds(Knob::Quant) || is_trained_in {
            return None;
        }
        let least = [USABLE, FAST_ENOUGH].into_iter().find(|least| fastest.speed < Some(*least));
        let ladder = quality::ladder_of(self.request.engine).into_iter();
        let below = ladder.filter(|to| !self.question.minimums.allow(*to)).map(Type::Quantised);
        let below = below.filter(|to| self.bytes(*to) < Some(fastest.request.model.bytes));
        // the narrowest cache leaves most room for weights
        let request = |to| self.cache_types(&self.with_context(&self.in_type(to)?, self.wanted())).pop();
        let found = below.filter_map(request).filter_map(|request| Candidate::of(request, self.wanted()));
        let is_enough = |one: &Candidate| match least {
            Some(least) => one.speed >= Some(least),
            None => one.plan.outcome() <= Outcome::Vram && one.speed > fastest.speed,
        };
        let one = found.into_iter().find(is_enough)?;
        let depth = one.reaches(self.wanted());
        let speed = Speed::of(&one.request.model, &one.request.machine, &one.plan, depth)?.range();
        Some(Poorer { quant: one.request.settings.quant?, outcome: one.plan.outcome(), speed })
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
            Objective::Safe => {
                let weights = quality::of_model(&one.request.model);
                !quality::is_last_resort(weights) && Goal::VramWith(self.question.margin).is_met_by(&one.plan)
            }
        };
        let mut left: Vec<&Candidate> = tried.iter().filter(must).collect();
        if !matches!(objective, Objective::Balanced | Objective::Context) {
            // speeds and margins are of one context, and as much of what is wanted as any has
            let most = left.iter().map(|one| one.reaches(self.wanted())).max();
            left.retain(|one| Some(one.reaches(self.wanted())) == most);
            let least = left.iter().map(|one| one.plan.settings.ctx).min();
            left.retain(|one| Some(one.plan.settings.ctx) == least);
        }
        // this only if any is
        let usable: Option<fn(&Candidate) -> bool> = match objective {
            Objective::Context => Some(Candidate::is_usable_when_full),
            Objective::Quality => Some(Candidate::is_usable),
            _ => None,
        };
        if let Some(is_usable) = usable.filter(|is_usable| left.iter().any(|one| is_usable(one))) {
            left.retain(|one| is_usable(one));
        }
        left
    }
}

/// The context of a request that has one set.
fn context_of(request: &PlanRequest) -> u64 {
    match request.settings.ctx {
        Context::Tokens(tokens) => tokens,
        _ => request.trial().map_or(0, |plan| plan.settings.ctx),
    }
}
