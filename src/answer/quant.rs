//! The largest quantisation of a model that still fits.

use super::Goal;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::Plan;
use crate::units::Bytes;

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

/// Quantisations that models are trained in, so that a larger one holds nothing more.
const TRAINED_IN: [FileType; 6] =
    [FileType::Mxfp4, FileType::Nvfp4, FileType::Tq1_0, FileType::Tq2_0, FileType::Q1_0, FileType::Q2_0];

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

    /// This request with the model in the largest common quantisation up to `Q8_0` with all in VRAM while every knob
    /// stays. For a model that was trained in its own quantisation nothing larger is tried.
    pub fn best_quantisation(&self) -> Option<Self> {
        let model = &self.model;
        let own: Option<FileType> = model.file_type.and_then(|name| name.parse().ok());
        let trained_for = own.filter(|own| TRAINED_IN.contains(own));
        let free: Bytes = self.machine.gpus.iter().map(|gpu| gpu.free).sum();
        let widest = model.quantised_bytes(FileType::Q8_0).ok()?;
        let most = if trained_for.is_some() { model.bytes } else { widest }.min(free);
        let size = |to: FileType| if Some(to) == own { Some(model.bytes) } else { model.quantised_bytes(to).ok() };
        let candidates = COMMON_QUANTISATIONS.into_iter().chain(trained_for);
        let mut sizes: Vec<(Bytes, FileType)> = candidates.filter_map(|to| Some((size(to)?, to))).collect();
        sizes.retain(|&(bytes, _)| bytes <= most);
        sizes.sort_unstable_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
        let request = |to: FileType| match own {
            Some(own) if own == to => Some(self.clone()),
            _ => Some(self.with_model(model.quantised(to).ok()?)),
        };
        sizes.into_iter().filter_map(|(_, to)| request(to)).find(|request| request.meets(Goal::Vram))
    }

    /// The plan of the model in another quantisation; `None` if it does not meet `goal`.
    fn plan_quantised(&self, to: FileType, goal: Goal) -> Option<Plan> {
        let request = self.with_model(self.model.quantised(to).ok()?);
        if request.meets(goal) { request.plan().ok() } else { None }
    }
}
