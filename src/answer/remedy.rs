//! What would bring layers onto GPUs: single changes, and pairs of them.

use super::change::ChangeKind;
use super::limits::is_slower;
use super::{Change, Goal};
use crate::engine::PlanRequest;
use crate::plan::{Outcome, Plan};
use crate::settings::CacheType;
use crate::speed::{Speed, SpeedRange};

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
        also.as_ref().map_or_else(|| change.to_string(), |also| format!("{change} and {also}"))
    }

    /// The command line options that make it; none for a change of the machine.
    pub fn options(&self) -> Option<String> {
        let options = [Some(&self.change), self.also.as_ref()].into_iter().flatten().filter_map(Change::options);
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
        let now = self.speed_of(&plan);
        let mut known: Vec<Change> = Vec::new();
        steps.into_iter().map(move |(goal, kind)| {
            if experts && matches!(goal, Goal::Layer(_)) && !known.is_empty() {
                return Vec::new();
            }
            let mut changes = self.changes_of(kind, &plan, goal);
            changes.retain(|change| !known.contains(change));
            let found = changes.into_iter().filter_map(|change| self.remedy(&plan, change, goal));
            let found: Vec<Remedy> = found.filter(|remedy| !is_slower(remedy.speed, now)).collect();
            known.extend(found.iter().map(|remedy| remedy.change.clone()));
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
            for first in &firsts {
                let Some(once) = self.after(first).filter(|once| once.settings != self.settings) else { continue };
                let Ok(plan_once) = once.trial() else { continue };
                for kind in [ChangeKind::Context, ChangeKind::Quantisation] {
                    let seconds = once.changes_of(kind, &plan_once, goal).into_iter();
                    found.extend(seconds.filter_map(|second| {
                        let remedy = once.remedy(&plan_once, second, goal)?;
                        if is_slower(remedy.speed, self.speed_of(plan)) {
                            return None;
                        }
                        let costs = [first.cost((self, plan), (&once, &plan_once)), remedy.cost].into_iter().flatten();
                        let cost = costs.reduce(|one, other| format!("{one}, and {other}"));
                        Some(Remedy { change: first.clone(), also: Some(remedy.change.clone()), cost, ..remedy })
                    }));
                }
                if !found.is_empty() {
                    return found;
                }
            }
        }
        Vec::new()
    }

    /// All in VRAM with less kept free, where that brings it there; `plan` is this request's plan.
    pub fn remedy_by_margin(&self, plan: &Plan) -> Option<Remedy> {
        let lower = self.lower_margin(plan, Goal::Vram)?;
        self.remedy(plan, lower.change, Goal::Vram).filter(|remedy| !is_slower(remedy.speed, self.speed_of(plan)))
    }

    /// The speed of `plan`, this request's plan, at the start.
    pub(super) fn speed_of(&self, plan: &Plan) -> Option<SpeedRange> {
        Speed::of(&self.model, &self.machine, plan, 0).map(|speed| speed.range())
    }

    pub(super) fn remedy(&self, plan: &Plan, change: Change, goal: Goal) -> Option<Remedy> {
        let then = self.after(&change)?;
        let after = then.trial_meeting(goal)?;
        let speed = then.speed_of(&after);
        let cost = change.cost((self, plan), (&then, &after));
        let outcome = after.outcome();
        Some(Remedy { change, also: None, cost, goal, then, outcome, on_gpus: after.on_gpus(), speed })
    }
}
