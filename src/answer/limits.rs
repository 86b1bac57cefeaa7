//! The limits of each knob and possible remedies, which the planner's screen requests after every key: the largest value that
//! meets a goal, the largest quantisation, and where plans change.

use super::change::is_context_advised;
use super::{CacheTypeCost, Change, Goal};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::{Knob, QUANTISATIONS};
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
            _ => None,
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
    /// Changes that meet the best goal that any of them meets, if the plan does not meet it; none that is slower. A lower
    /// margin is the first.
    pub remedies: Vec<Way>,
    /// What stays free with the first of them, where that is a lower margin, as a clause.
    pub stays_free: Option<String>,
    /// What the remedies bring, those that are slower too.
    pub remedied: Option<Goal>,
    /// What each type of the KV cache takes.
    pub cache_types: Vec<CacheTypeCost>,
}

/// A change that meets a goal, and what it brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The change.
    pub change: Change,
    /// Where what a token needs is then.
    pub outcome: Outcome,
    /// The speed, at the start, that it brings; none where it cannot be known.
    pub speed: Option<SpeedRange>,
}

/// Changes beside another context that are proposed at most.
const MOST_WAYS: usize = 2;

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
            .then(|| self.largest_value(Knob::Context, Goal::AtLeast(0)))
            .flatten();
        let cache_types = self.cache_type_costs(plan);
        if without_gpus {
            return KnobLimits { context_in_all, cache_types, ..KnobLimits::default() };
        }
        let vram = self.maxima(Goal::Vram);
        // only experts can be in RAM while their layers are on GPUs
        let all_layers = if self.model.hyper.experts.is_some() { self.maxima(Goal::AllLayers) } else { vram.clone() };
        let advised = |maxima: &KnobMaxima| maxima.context.filter(|most| is_context_advised(*most, &plan.settings));
        let goals = [(Goal::Vram, advised(&vram)), (Goal::AllLayers, advised(&all_layers))].into_iter();
        let unmet = goals.take_while(|(goal, _)| !goal.is_met_by(plan));
        let mut remedies = unmet.map(|(goal, context)| {
            let (margin, stays_free) = self.lower_margin(plan, goal).map(|lower| (lower.change, lower.stays)).unzip();
            let most = MOST_WAYS - usize::from(margin.is_some());
            let others = self.simple_changes(plan, goal).into_iter().take(most);
            let changes: Vec<Change> = margin.into_iter().chain(context.map(Change::Context)).chain(others).collect();
            (goal, stays_free.flatten(), changes)
        });
        let (remedied, stays_free, changes) = remedies
            .find(|(.., changes)| !changes.is_empty())
            .map_or((None, None, Vec::new()), |(goal, stays, changes)| (Some(goal), stays, changes));
        let now = Speed::of(&self.model, &self.machine, plan, 0).map(|speed| speed.range());
        let ways = changes.into_iter().filter_map(|change| self.way(change));
        let remedies: Vec<Way> = ways.filter(|way| !is_slower(way.speed, now)).collect();
        let is_margin = |way: &Way| matches!(way.change, Change::FitTarget(_));
        let stays_free = stays_free.filter(|_| remedies.first().is_some_and(is_margin));
        KnobLimits { vram, all_layers, context_in_all, remedies, stays_free, remedied, cache_types }
    }

    fn way(&self, change: Change) -> Option<Way> {
        let then = self.after(&change)?;
        let plan = then.trial().ok()?;
        let speed = Speed::of(&then.model, &then.machine, &plan, 0).map(|speed| speed.range());
        Some(Way { change, outcome: plan.outcome(), speed })
    }

    fn maxima(&self, goal: Goal) -> KnobMaxima {
        let offered = self.knobs();
        let most = |knob| self.largest_value(knob, goal);
        let ask = |knob, answer: &dyn Fn(Knob) -> Option<u64>| offered.contains(&knob).then(|| answer(knob)).flatten();
        KnobMaxima {
            context: most(Knob::Context),
            parallel: most(Knob::Parallel),
            batch: most(Knob::Batch),
            quant: self.largest_quantisation_below(goal, Bytes(u64::MAX)).found.map(|(to, _)| to),
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

/// Whether it shows as slower than now, which is no help.
pub(super) fn is_slower(then: Option<SpeedRange>, now: Option<SpeedRange>) -> bool {
    then.zip(now).and_then(|(then, now)| then.against(&now)).is_some_and(|times| !times.helps())
}
