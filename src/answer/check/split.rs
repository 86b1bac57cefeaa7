//! Layers on GPUs: those in a log beside those that the program would choose by the rules that are known.

use super::planned::Planned;
use crate::answer::why;
use crate::engine::PlanRequest;
use crate::observed::Load;

/// Layers on GPUs, the output's included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitCheck {
    /// On GPUs in the log.
    pub observed: u64,
    /// Of so many.
    pub of: u64,
    /// On GPUs if the program decides as planned; none if the log does not tell what it decides by.
    pub planned: Option<u64>,
    /// The inequality that decides for the first layer in RAM, as one sentence.
    pub inequality: Option<String>,
}

impl SplitCheck {
    /// Compares the layers in `load` with a plan of `own`, the request without the log's placement, else with `placed`.
    pub fn of(load: &Load, own: Option<&PlanRequest>, placed: &Planned) -> Option<Self> {
        let (observed, of) = load.layers_on_gpus()?;
        let plan = own.and_then(|own| own.plan().ok());
        let planned = plan.as_ref().map(|plan| plan.offloaded as u64);
        let inequality = own.and_then(Self::inequality);
        // further blocks, as for a draft, may be counted by one side only
        let same_count = of == placed.layers.1 as u64;
        let planned = planned.map(|count| if !same_count && count == placed.layers.1 as u64 { of } else { count });
        Some(Self { observed, of, planned, inequality })
    }

    /// The inequality that decides for the first layer in RAM.
    pub fn inequality(own: &PlanRequest) -> Option<String> {
        let plan = own.plan().ok()?;
        let spilled = plan.layers.iter().filter(|layer| layer.device + 1 == plan.devices.len());
        let last = spilled.map(|layer| layer.index).max()?;
        let answer = why::layer(&plan, last)?;
        answer.inequality.map(|inequality| inequality.to_string())
    }

    /// Whether the same number is on GPUs.
    pub fn agrees(&self) -> bool {
        self.planned.is_none_or(|planned| planned == self.observed)
    }
}
