//! The largest quantisation of a model that still fits.

use super::Goal;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::Plan;
use crate::units::Bytes;

/// How far the quantisation can go, the knobs held.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestQuantisation {
    /// The largest one that fits, and the plan with it; none where even the smallest is too much.
    pub found: Option<(FileType, Plan)>,
    /// The next larger one, which does not fit; none at the end of the range.
    pub next: Option<FileType>,
}

impl PlanRequest {
    /// The largest quantisation, by its bytes, with which `goal` is met while every knob stays; one after the other from
    /// the largest down. Where two take the same bytes, they fit or fail alike.
    pub fn largest_quantisation(&self, goal: Goal) -> LargestQuantisation {
        self.largest_quantisation_below(goal, Bytes(u64::MAX))
    }

    /// The same, of those that take less than `bytes`.
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

    /// The plan of the model in another quantisation; `None` where there is none that meets `goal`.
    fn plan_quantised(&self, to: FileType, goal: Goal) -> Option<Plan> {
        let request = self.with_model(self.model.quantised(to).ok()?);
        if request.meets(goal) { request.plan().ok() } else { None }
    }
}
