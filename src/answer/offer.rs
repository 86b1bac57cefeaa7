//! A change to apply, with the request after it.

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
    pub offloaded: usize,
    /// How fast it then is at the start, where that can be known.
    pub speed: Option<SpeedRange>,
}

impl PlanRequest {
    /// [`PlanRequest::changes`], each planned once more as it would be applied.
    pub fn remedies(&self, plan: &Plan, goal: Goal) -> Vec<Remedy> {
        let offer = |change: Change| {
            let then = self.after(&change)?;
            let after = then.plan().ok().filter(|after| goal.is_met_by(after))?;
            let speed = Speed::of(&then.model, &then.machine, &after, 0).map(|speed| speed.range());
            Some(Remedy { change, goal, then, offloaded: after.offloaded, speed })
        };
        self.changes(plan, goal).into_iter().filter_map(offer).collect()
    }
}
