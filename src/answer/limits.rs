//! The limits of each knob and possible remedies, which the planner's screen requests after every key: the largest value that
//! meets a goal, the largest quantisation, and where plans change.

use super::change::is_context_advised;
use super::{CacheTypeCost, Change, Goal};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::{Knob, QUANTISATIONS};
use crate::settings::{CacheType, GpuLayers};
use crate::speed::Speed;
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
    /// Other changes that meet the best goal that any of them meets, if the plan does not meet it.
    pub remedies: Vec<Change>,
    /// What stays free with the first of them, where that is a lower margin, as a clause.
    pub stays_free: Option<String>,
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
        let mut remedies = unmet
            .map(|(goal, context)| (goal, context, self.lower_margin(plan, goal), self.simple_changes(plan, goal)));
        let (remedied, lower, mut remedies) = remedies
            .find(|(_, context, lower, changes)| context.is_some() || lower.is_some() || !changes.is_empty())
            .map_or((None, None, Vec::new()), |(goal, _, lower, changes)| (Some(goal), lower, changes));
        let in_vram = if remedied == Some(Goal::AllLayers) { &all_layers } else { &vram };
        let (margin, stays_free) = lower.map_or((None, None), |lower| (Some(lower.change), lower.stays));
        let context = advised(in_vram).map(Change::Context);
        let first = margin.clone().or(context).or_else(|| remedies.first().cloned()).filter(|_| remedied.is_some());
        remedies.splice(0..0, margin);
        let then = first.and_then(|change| {
            let then = self.after(&change)?;
            let plan = then.trial().ok()?;
            Some((then, plan))
        });
        let remedied_outcome = then.as_ref().map(|(_, plan)| plan.outcome());
        let remedied_speed = then.and_then(|(then, plan)| Speed::of(&then.model, &then.machine, &plan, 0));
        KnobLimits {
            vram,
            all_layers,
            context_in_all,
            remedies,
            stays_free,
            remedied,
            remedied_outcome,
            remedied_speed,
            cache_types,
        }
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
        // what meets the goal and is slower is no help
        changes.retain(|change| {
            let then = self.after(change).and_then(|then| Some((then.trial().ok()?, then)));
            let speed = then.and_then(|(plan, then)| Speed::of(&then.model, &then.machine, &plan, 0));
            speed.is_none_or(|speed| !self.is_slowed(plan, &speed))
        });
        changes
    }
}
