//! A change to apply, with the request after it.

use super::change::ChangeKind;
use super::{Change, Goal};
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::speed::{Speed, SpeedRange};

/// A single change that meets a goal, and its result.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// The change.
    pub change: Change,
    /// The goal that it meets.
    pub goal: Goal,
    /// The request after the change.
    pub then: PlanRequest,
    /// Layers on GPUs after the change.
    pub on_gpus: usize,
    /// How fast it then is at the start, where that can be known.
    pub speed: Option<SpeedRange>,
}

impl PlanRequest {
    /// The remedies of every goal, the best first: all in VRAM, all layers on GPUs with experts in RAM, and the one
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
            let found: Vec<Remedy> = changes.into_iter().filter_map(|change| self.remedy(change, goal)).collect();
            known.extend(found.iter().map(|remedy| remedy.change));
            found
        })
    }

    fn remedy(&self, change: Change, goal: Goal) -> Option<Remedy> {
        let then = self.after(&change)?;
        let after = then.plan().ok().filter(|after| goal.is_met_by(after))?;
        let speed = Speed::of(&then.model, &then.machine, &after, 0).map(|speed| speed.range());
        Some(Remedy { change, goal, then, on_gpus: after.on_gpus(), speed })
    }
}
