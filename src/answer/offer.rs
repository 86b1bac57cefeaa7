//! A change to be taken up, with everything after it.

use super::{Change, Goal};
use crate::engine::PlanRequest;
use crate::plan::Plan;

/// A single change that achieves something, and what comes of it.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// What is changed.
    pub change: Change,
    /// What that achieves.
    pub goal: Goal,
    /// Everything after the change.
    pub then: PlanRequest,
    /// Layers that are on GPUs then.
    pub offloaded: usize,
}

impl PlanRequest {
    /// The smallest single change of each knob that makes `plan`, which is this situation's, meet `goal`; each was
    /// planned once more as it is offered.
    pub fn remedies(&self, plan: &Plan, goal: Goal) -> Vec<Remedy> {
        let offer = |change: Change| {
            let then = self.after(&change)?;
            let after = then.plan().ok().filter(|after| goal.is_met_by(after))?;
            Some(Remedy { change, goal, then, offloaded: after.offloaded })
        };
        self.changes(plan, goal).into_iter().filter_map(offer).collect()
    }
}
