//! The limits of each knob and possible remedies, which the planner's screen requests after every key: the largest value that
//! meets a goal, the largest quantisation, and where plans change.

use schemars::JsonSchema;
use serde::Serialize;

use super::change::{ChangeKind, LEAST_ADVISED};
use super::search::{KnobRange, KnobSearch, Planned, Reversed, RulesInEffect, Search};
use super::{CacheTypeCost, Change, Goal};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::{Bounds, Knob, QUANTISATIONS};
use crate::settings::{CacheType, GpuLayers};
use crate::speed::{Speed, SpeedRange};
use crate::units::Bytes;

/// The largest value of each knob with which a goal is met, the other knobs held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnobMaxima {
    /// The largest context, in tokens.
    pub context: Option<u64>,
    /// The most parallel sequences.
    pub parallel: Option<u64>,
    /// The largest batch, in tokens.
    pub batch: Option<u64>,
    /// The largest physical batch, in tokens.
    pub ubatch: Option<u64>,
    /// The largest quantisation.
    pub quant: Option<FileType>,
    /// The fewest layers whose experts stay in RAM.
    pub cpu_moe: Option<u64>,
}

impl KnobMaxima {
    /// The limit of `knob`: its largest value, for [`Knob::CpuMoe`] its smallest, for [`Knob::Quant`] its stop.
    pub fn of(&self, knob: Knob) -> Option<u64> {
        match knob {
            Knob::Context => self.context,
            Knob::Parallel => self.parallel,
            Knob::Quant => QUANTISATIONS.iter().position(|&to| Some(to) == self.quant).map(|at| at as u64),
            Knob::Batch => self.batch,
            Knob::Ubatch => self.ubatch,
            Knob::CpuMoe => self.cpu_moe,
            Knob::CacheType
            | Knob::CacheTypeK
            | Knob::CacheTypeV
            | Knob::FlashAttn
            | Knob::KvUnified
            | Knob::MmprojDevice
            | Knob::Outputs
            | Knob::GpuLayers
            | Knob::ImageTokens
            | Knob::TensorSplit
            | Knob::Draft
            | Knob::DraftMax
            | Knob::LoadMode
            | Knob::CacheRam
            | Knob::PromptTokens
            | Knob::AnswerTokens
            | Knob::Cached => None,
        }
    }
}

/// Limits of the knobs, and what would help.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnobLimits {
    /// With all in VRAM.
    pub vram: KnobMaxima,
    /// With every layer assigned to a GPU, experts in RAM or not.
    pub all_layers: KnobMaxima,
    /// The largest context that fits in GPUs and RAM together; only without GPUs, or if the plan does not fit.
    pub context_in_all: Option<u64>,
    /// Other changes that meet the best goal that any of them meets, if the plan does not meet it.
    pub remedies: Vec<Change>,
    /// What the remedies bring.
    pub remedied: Option<Goal>,
    /// Where what a token needs is with the first of them.
    pub remedied_outcome: Option<Outcome>,
    /// The speed, at the start, that it brings.
    pub remedied_speed: Option<Speed>,
    /// What each type of the KV cache takes.
    pub cache_types: Vec<CacheTypeCost>,
}

impl KnobLimits {
    /// The knobs that have a limit, if the engine offers them.
    pub const ASKED: [Knob; 6] = [Knob::Context, Knob::Parallel, Knob::Quant, Knob::Batch, Knob::Ubatch, Knob::CpuMoe];

    /// What a type of the KV cache saves and costs against those in force.
    pub fn cache_type_against_in_force(&self, cache_type: CacheType) -> Option<String> {
        self.cache_types.iter().find(|cost| cost.cache_type == cache_type)?.against_in_force()
    }
}

impl PlanRequest {
    /// The limits, and the remedies if not all is in VRAM now; `plan` is this request's plan.
    pub fn limits(&self, plan: &Plan) -> KnobLimits {
        let without_gpus = self.machine.gpus.is_empty();
        let context_in_all = (without_gpus || plan.outcome() == Outcome::DoesNotFit)
            .then(|| self.largest(Knob::Context, Goal::AtLeast(0)).map(|most| most.value))
            .flatten();
        let cache_types = self.cache_type_costs(plan);
        if without_gpus {
            return KnobLimits { context_in_all, cache_types, ..KnobLimits::default() };
        }
        let vram = self.maxima(Goal::Vram);
        // only experts can be in RAM while their layers are on GPUs
        let all_layers = if self.model.hyper.experts.is_some() { self.maxima(Goal::AllLayers) } else { vram.clone() };
        let advised = |maxima: &KnobMaxima| maxima.context.filter(|most| *most >= LEAST_ADVISED);
        let goals = [(Goal::Vram, advised(&vram)), (Goal::AllLayers, advised(&all_layers))].into_iter();
        let unmet = goals.take_while(|(goal, _)| !goal.is_met_by(plan));
        let mut remedies = unmet.map(|(goal, context)| (goal, context, self.simple_changes(plan, goal)));
        let (remedied, remedies) = remedies
            .find(|(_, context, changes)| context.is_some() || !changes.is_empty())
            .map_or((None, Vec::new()), |(goal, _, changes)| (Some(goal), changes));
        let in_vram = if remedied == Some(Goal::AllLayers) { &all_layers } else { &vram };
        let first = advised(in_vram).map(Change::Context).or(remedies.first().copied()).filter(|_| remedied.is_some());
        let then = first.and_then(|change| {
            let then = self.after(&change)?;
            let plan = then.plan().ok()?;
            Some((then, plan))
        });
        let remedied_outcome = then.as_ref().map(|(_, plan)| plan.outcome());
        let remedied_speed = then.and_then(|(then, plan)| Speed::of(&then.model, &then.machine, &plan, 0));
        KnobLimits {
            vram,
            all_layers,
            context_in_all,
            remedies,
            remedied,
            remedied_outcome,
            remedied_speed,
            cache_types,
        }
    }

    fn maxima(&self, goal: Goal) -> KnobMaxima {
        let offered = self.knobs();
        let most = |knob| self.largest(knob, goal).map(|largest| largest.value);
        let ask = |knob, answer: &dyn Fn(Knob) -> Option<u64>| offered.contains(&knob).then(|| answer(knob)).flatten();
        KnobMaxima {
            context: most(Knob::Context),
            parallel: most(Knob::Parallel),
            batch: most(Knob::Batch),
            quant: self.largest_quantisation(goal).found.map(|(to, _)| to),
            ubatch: ask(Knob::Ubatch, &most),
            cpu_moe: ask(Knob::CpuMoe, &|knob| self.smallest(knob, goal)),
        }
    }

    /// Changes of one knob other than the context that meet `goal`.
    fn simple_changes(&self, plan: &Plan, goal: Goal) -> Vec<Change> {
        let mut changes = self.other_cache_types(&plan.settings, goal);
        let one = Change::Parallel(1);
        changes.extend(Some(one).filter(|one| plan.settings.parallel > 1 && self.works(one, goal)));
        let auto = Change::GpuLayers(GpuLayers::Auto);
        let counted = matches!(self.settings.gpu_layers, GpuLayers::Count(_));
        if counted && self.works(&auto, goal) {
            changes.insert(0, auto);
        }
        changes
    }
}

/// Ranges with fewer values are searched value by value if plans are cheap.
const FEW: u64 = 256;

/// The largest value of a knob that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Largest {
    /// The knob.
    pub knob: Knob,
    /// Its largest value that fits.
    pub value: u64,
    /// The next value, which does not fit; `None` at the end of the range.
    pub next: Option<u64>,
    /// The plan at `value`.
    pub plan: Plan,
}

impl PlanRequest {
    /// The largest value of `knob` with which `goal` is met while the other knobs stay; for [`Knob::GpuLayers`] the
    /// largest number that is offloaded when requested, and fits. `None` if no value does, or if the knob takes words.
    ///
    /// Memory need not grow with the value: the range is searched from the top down, at the knob's stops and wherever
    /// the engine's rules change, and divided further where the rules in effect differ.
    pub fn largest(&self, knob: Knob, goal: Goal) -> Option<Largest> {
        let bounds = self.bounds();
        self.largest_on(knob, goal, KnobRange::of(knob, &bounds), &bounds)
    }

    /// The largest context with which `goal` is met while the other knobs stay, in tokens: [`PlanRequest::largest`] for
    /// callers that ask many models at once, and so plan nothing ahead.
    pub(super) fn largest_context(&self, goal: Goal) -> Option<u64> {
        if !self.has_room(self.model.bytes, goal) {
            return None;
        }
        let bounds = self.bounds();
        let range = KnobRange::of(Knob::Context, &bounds);
        let mut search = KnobSearch::for_goal(self.clone(), Knob::Context, goal, range).without_look_ahead();
        let place = search.last_met(&range.samples(self, Knob::Context, &bounds))?;
        let in_effect = search.at(place).settings.as_ref().map(|settings| settings.ctx);
        // the engine may lower what the end of the range asks for
        Some(in_effect.filter(|_| place == range.last()).unwrap_or(u64::MAX).min(range.value(place)))
    }

    /// The smallest value of `knob` with which `goal` is met while the other knobs stay: for [`Knob::CpuMoe`], which
    /// frees GPU memory as it grows. At 0 the engine may choose the value, so the search starts at 1 and tries 0 last.
    pub fn smallest(&self, knob: Knob, goal: Goal) -> Option<u64> {
        let range = KnobRange::new(1, knob.stops(&self.bounds()).last().max(1));
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, range);
        let place = Reversed { search: &mut search, last: range.last() }.last_met(&[0, range.last()])?;
        let smallest = range.value(range.last() - place);
        let zero_suffices =
            || self.plan_with(|settings| knob.set(settings, 0)).is_some_and(|plan| goal.is_met_by(&plan));
        Some(if smallest == 1 && zero_suffices() { 0 } else { smallest })
    }

    /// The smallest meaningful value of `knob`, where its range begins.
    pub fn least(&self, knob: Knob) -> u64 {
        KnobRange::of(knob, &self.bounds()).value(0)
    }

    /// [`PlanRequest::largest`], but below `value`.
    pub(super) fn largest_below(&self, knob: Knob, goal: Goal, value: u64) -> Option<Largest> {
        let bounds = self.bounds();
        let range = KnobRange::of(knob, &bounds).up_to(value.checked_sub(1)?)?;
        self.largest_on(knob, goal, range, &bounds)
    }

    fn largest_on(&self, knob: Knob, goal: Goal, range: KnobRange, bounds: &Bounds) -> Option<Largest> {
        if knob.words().is_some() {
            return None;
        }
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, range);
        // few values and cheap plans: try each value
        let each = range.last() < FEW && search.has_no_preflight();
        let samples = if each { (0..=range.last()).collect() } else { range.samples(self, knob, bounds) };
        let place = search.last_met(&samples)?;
        let value = range.value(place);
        let plan = self.plan_with(|settings| knob.set(settings, value))?;
        if place < range.last() {
            return Some(Largest { knob, value, next: Some(range.value(place + 1)), plan });
        }
        // if the engine lowers the value, report the value in effect
        let effect = knob.in_effect(&plan);
        if effect < value && effect >= knob.least() && knob != Knob::GpuLayers {
            let same =
                self.plan_with(|settings| knob.set(settings, effect)).filter(|same| same.settings == plan.settings);
            if let Some(plan) = same {
                return Some(Largest { knob, value: effect, next: None, plan });
            }
        }
        Some(Largest { knob, value, next: None, plan })
    }
}

/// Quantisations, the most common first.
pub(super) const COMMON_QUANTISATIONS: [FileType; 12] = [
    FileType::Q4KM,
    FileType::Q8_0,
    FileType::Q6K,
    FileType::Q5KM,
    FileType::Q3KM,
    FileType::F16,
    FileType::Iq4Xs,
    FileType::Q2K,
    FileType::Q5KS,
    FileType::Q4KS,
    FileType::Iq3Xs,
    FileType::Iq2Xs,
];

/// The largest quantisation that fits, with the knobs held.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestQuantisation {
    /// The largest one that fits, with its plan; `None` if even the smallest does not.
    pub found: Option<(FileType, Plan)>,
    /// The next larger one, which does not fit; `None` if the largest of all fits.
    pub next: Option<FileType>,
}

impl PlanRequest {
    /// The largest quantisation, by its bytes, with which `goal` is met while every knob stays. Tried from the largest
    /// down.
    pub fn largest_quantisation(&self, goal: Goal) -> LargestQuantisation {
        self.largest_quantisation_below(goal, Bytes(u64::MAX))
    }

    /// [`PlanRequest::largest_quantisation`] among those smaller than `bytes`.
    pub(super) fn largest_quantisation_below(&self, goal: Goal, bytes: Bytes) -> LargestQuantisation {
        let mut next = None;
        let sizes = self.model.quantisations();
        for &(file_type, _) in sizes.iter().rev().filter(|&&(_, size)| size < bytes) {
            match self.plan_quantised(file_type, goal) {
                Some(plan) => return LargestQuantisation { found: Some((file_type, plan)), next },
                None => next = Some(file_type),
            }
        }
        LargestQuantisation { found: None, next }
    }

    /// The plan of the model in another quantisation; `None` if it does not meet `goal`.
    fn plan_quantised(&self, to: FileType, goal: Goal) -> Option<Plan> {
        let request = self.with_model(self.model.quantised(to).ok()?);
        if request.meets(goal) { request.plan().ok() } else { None }
    }
}

/// Two neighbouring values of a knob with different outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cliff {
    /// The last value before the change.
    pub last: u64,
    /// The first value after the change.
    pub first: u64,
    /// The outcome at `last`.
    pub before: CliffSide,
    /// The outcome at `first`.
    pub after: CliffSide,
    /// Other knobs that the engine changed: `batch 512 → 1024`.
    pub jumps: Vec<String>,
}

/// The outcome on one side of a cliff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CliffSide {
    /// Layers on GPUs.
    pub offloaded: usize,
    /// GPUs in use.
    pub gpus: usize,
    /// Where what a token needs is; none if the engine returns an error.
    pub outcome: Option<Outcome>,
}

impl Cliff {
    /// Whether `last` is the last value with all in VRAM.
    pub fn is_vram_limit(&self) -> bool {
        self.before.outcome == Some(Outcome::Vram) && self.after.outcome != Some(Outcome::Vram)
    }

    /// Whether more layers are on GPUs after it, or as many and now they fit.
    pub fn is_gain(&self) -> bool {
        let (before, after) = (self.before, self.after);
        let fits = |side: CliffSide| side.outcome.is_some_and(|outcome| outcome != Outcome::DoesNotFit);
        after.offloaded > before.offloaded || (fits(after) && !fits(before) && after.offloaded == before.offloaded)
    }

    /// What changes: `24 576 → 24 577: 33 → 32 layers on GPU`.
    pub fn description(&self, knob: Knob) -> String {
        let (before, after) = (self.before, self.after);
        let mut parts = Vec::new();
        if before.offloaded != after.offloaded {
            parts.push(format!("{} → {} layers on GPU", before.offloaded, after.offloaded));
        }
        if before.gpus != after.gpus {
            parts.push(format!("{} → {} GPUs in use", before.gpus, after.gpus));
        }
        if before.outcome != after.outcome {
            let word = |outcome: Option<Outcome>| outcome.map_or("refused", Outcome::headline);
            parts.push(format!("{} → {}", word(before.outcome), word(after.outcome)));
        }
        parts.extend(self.jumps.iter().cloned());
        format!("{} → {}: {}", knob.show(self.last), knob.show(self.first), parts.join(", "))
    }
}

impl PlanRequest {
    /// The changes along `knob` while the other knobs stay, in ascending order. [`Knob::GpuLayers`] is expected to move
    /// layers, so there only a new verdict or a request that is not met counts.
    pub fn cliffs(&self, knob: Knob) -> Vec<Cliff> {
        self.cliffs_by_segment(knob).flatten().collect()
    }

    /// [`PlanRequest::cliffs`] by segment of the knob's range, each computed when the iterator reaches it.
    pub fn cliffs_by_segment(&self, knob: Knob) -> impl Iterator<Item = Vec<Cliff>> + use<> {
        let bounds = self.bounds();
        // from the first stop on: nobody runs with fewer, and a batch of 28 because of a context of 28 is no threshold
        let stops = knob.stops(&bounds);
        let range = KnobRange::new(stops.first().max(knob.least()), stops.last());
        let mut search = KnobSearch::for_everything(self.clone(), knob, range);
        let samples = range.samples(self, knob, &bounds);
        (1..samples.len()).map(move |next| {
            let mut cliffs = Vec::new();
            if let Some(&[low, high]) = samples.get(next - 1..=next) {
                search.cliffs(knob, low, high, &mut cliffs);
            }
            cliffs
        })
    }
}

impl KnobSearch {
    fn cliffs(&mut self, knob: Knob, low: u64, high: u64, found: &mut Vec<Cliff>) {
        self.look_ahead(&[low, high]);
        let (before, after) = (self.at(low).clone(), self.at(high).clone());
        let (last, first) = (self.range.value(low), self.range.value(high));
        if outcome(knob, last, &before) == outcome(knob, first, &after) {
            return;
        }
        if high - low > 1 {
            let middle = low + (high - low) / 2;
            self.cliffs(knob, low, middle, found);
            self.cliffs(knob, middle, high, found);
            return;
        }
        let jumps = jumps(knob, &before, &after);
        // a knob that merely follows the moved one does not count as a change
        if side(&before) != side(&after) || !jumps.is_empty() {
            found.push(Cliff { last, first, before: side(&before), after: side(&after), jumps });
        }
    }
}

/// Other knobs whose value in effect differs between `low` and `high`.
fn jumps(knob: Knob, low: &Planned, high: &Planned) -> Vec<String> {
    let (Some(from), Some(to)) = (&low.settings, &high.settings) else { return Vec::new() };
    let mut jumps = Vec::new();
    let mut note = |name: &str, from: String, to: String| {
        if from != to {
            jumps.push(format!("{name} {from} → {to}"));
        }
    };
    let follows = from.batch == from.ctx && to.batch == to.ctx;
    if knob != Knob::Batch && !follows {
        note("batch", from.batch.to_string(), to.batch.to_string());
    }
    if knob != Knob::Parallel {
        note("parallel", from.parallel.to_string(), to.parallel.to_string());
    }
    if !matches!(knob, Knob::CacheType | Knob::CacheTypeK) {
        note("K cache", from.cache_type_k.to_string(), to.cache_type_k.to_string());
    }
    if !matches!(knob, Knob::CacheType | Knob::CacheTypeV) {
        note("V cache", from.cache_type_v.to_string(), to.cache_type_v.to_string());
    }
    if knob != Knob::FlashAttn {
        note("flash attention", from.flash_attn.to_string(), to.flash_attn.to_string());
    }
    jumps
}

fn outcome(knob: Knob, value: u64, planned: &Planned) -> (u64, Option<Outcome>, Option<RulesInEffect>) {
    let layers = match knob {
        Knob::GpuLayers => value.saturating_sub(planned.offloaded as u64),
        _ => planned.offloaded as u64,
    };
    (layers, planned.outcome, planned.rules.clone())
}

fn side(planned: &Planned) -> CliffSide {
    CliffSide { offloaded: planned.offloaded, gpus: planned.gpus_in_use(), outcome: planned.outcome }
}

/// A change that meets a goal, and its result.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// The change.
    pub change: Change,
    /// A second one that it needs, where no single one suffices.
    pub also: Option<Change>,
    /// What it costs the user, in words; none where it costs nothing but what its speed says.
    pub cost: Option<String>,
    /// The goal that it meets.
    pub goal: Goal,
    /// The request after the change.
    pub then: PlanRequest,
    /// Where what a token needs is then.
    pub outcome: Outcome,
    /// Layers on GPUs after the change.
    pub on_gpus: usize,
    /// How fast it then is at the start, where that can be known.
    pub speed: Option<SpeedRange>,
}

impl Remedy {
    /// `a context of 8 192`, `a q8_0 cache and a context of 8 192`
    pub fn says(&self) -> String {
        let Self { change, also, .. } = self;
        also.map_or_else(|| change.to_string(), |also| format!("{change} and {also}"))
    }

    /// The command line options that make it; none for a change of the machine.
    pub fn options(&self) -> Option<String> {
        let options = [Some(self.change), self.also].into_iter().flatten().filter_map(|change| change.options());
        options.reduce(|one, other| format!("{one} {other}"))
    }
}

impl PlanRequest {
    /// The remedies of every goal, the best first, and of one goal those that cost least first: all in VRAM, all layers on GPUs with experts in RAM, and the one
    /// `layer`; each was planned as it would be applied. In steps, some of them empty, so that the caller can stop in
    /// between; `plan` is this request's plan. With experts, which make every fit long, the layer is only asked for
    /// where nothing brings all of them.
    pub fn remedies(&self, plan: Plan, layer: Option<usize>) -> impl Iterator<Item = Vec<Remedy>> + '_ {
        let experts = self.model.hyper.experts.is_some();
        let goals =
            [Some(Goal::Vram), experts.then_some(Goal::AllLayers), layer.map(Goal::Layer)].into_iter().flatten();
        let steps: Vec<(Goal, ChangeKind)> =
            goals.flat_map(|goal| self.kinds_of_changes(&plan, goal).iter().map(move |kind| (goal, *kind))).collect();
        let mut known: Vec<Change> = Vec::new();
        steps.into_iter().map(move |(goal, kind)| {
            if experts && matches!(goal, Goal::Layer(_)) && !known.is_empty() {
                return Vec::new();
            }
            let mut changes = self.changes_of(kind, &plan, goal);
            changes.retain(|change| !known.contains(change));
            let found: Vec<Remedy> =
                changes.into_iter().filter_map(|change| self.remedy(&plan, change, goal)).collect();
            known.extend(found.iter().map(|remedy| remedy.change));
            found
        })
    }

    /// Two changes together for the best goal that any two meet; for where no single one helps.
    pub fn remedies_of_two(&self, plan: &Plan) -> Vec<Remedy> {
        let experts = self.model.hyper.experts.is_some();
        let firsts = [
            Change::ProjectorInRam,
            Change::Cache(CacheType::Q8_0),
            Change::CacheWithFlash(CacheType::Q8_0),
            Change::Parallel(1),
        ];
        for goal in [Some(Goal::Vram), experts.then_some(Goal::AllLayers)].into_iter().flatten() {
            if goal.is_met_by(plan) || self.machine.gpus.is_empty() {
                return Vec::new();
            }
            let mut found: Vec<Remedy> = Vec::new();
            for first in firsts {
                let Some(once) = self.after(&first).filter(|once| once.settings != self.settings) else { continue };
                let Ok(plan_once) = once.plan() else { continue };
                for kind in [ChangeKind::Context, ChangeKind::Quantisation] {
                    let seconds = once.changes_of(kind, &plan_once, goal).into_iter();
                    found.extend(seconds.filter_map(|second| {
                        let remedy = once.remedy(&plan_once, second, goal)?;
                        let costs = [first.cost((self, plan), (&once, &plan_once)), remedy.cost].into_iter().flatten();
                        let cost = costs.reduce(|one, other| format!("{one}, and {other}"));
                        Some(Remedy { change: first, also: Some(second), cost, ..remedy })
                    }));
                }
                if !found.is_empty() {
                    return found;
                }
            }
        }
        Vec::new()
    }

    fn remedy(&self, plan: &Plan, change: Change, goal: Goal) -> Option<Remedy> {
        let then = self.after(&change)?;
        let after = then.plan().ok().filter(|after| goal.is_met_by(after))?;
        let speed = Speed::of(&then.model, &then.machine, &after, 0).map(|speed| speed.range());
        let cost = change.cost((self, plan), (&then, &after));
        let outcome = after.outcome();
        Some(Remedy { change, also: None, cost, goal, then, outcome, on_gpus: after.on_gpus(), speed })
    }
}
