//! The largest quantisation of a model that still fits.

use super::Goal;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::Plan;
use crate::units::Bytes;

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
