//! One row of a list of models: whether the model fits, its share on GPUs, and its largest context.

use serde::Serialize;

use super::Goal;
use crate::engine::PlanRequest;
use crate::plan::{FitStatus, Plan, Verdict};
use crate::settings::knob::Knob;
use crate::units::{Bytes, Ratio};

/// How well a model fits on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FitSummary {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Share of its memory that is on GPUs; zero if it needs none.
    pub on_gpu: Ratio,
    /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
    pub parts_in_ram: Bytes,
    /// The largest context that fits in GPUs and RAM together, in tokens.
    pub context_fits: Option<u64>,
    /// The largest context with every layer on GPUs, in tokens.
    pub context_on_gpu: Option<u64>,
}

impl FitSummary {
    /// The verdict, with parts in RAM taken into account.
    pub fn fit_status(&self) -> FitStatus {
        FitStatus::of(self.verdict, self.parts_in_ram)
    }
}

impl PlanRequest {
    /// Summarises `plan`, this request's plan, and finds the largest contexts with the other knobs held.
    pub fn fit_summary(&self, plan: &Plan) -> FitSummary {
        let most = |goal| self.largest(Knob::Context, goal).map(|most| most.value);
        let on_gpu = if self.machine.gpus.is_empty() { None } else { most(Goal::All) };
        // the training context is the upper end of the range: layers in RAM cannot extend it
        let all = on_gpu.filter(|_| on_gpu == plan.model.context_train);
        FitSummary {
            verdict: plan.verdict,
            on_gpu: plan.totals.gpu.share_of(plan.totals.all),
            parts_in_ram: plan.parts_in_ram(),
            context_fits: all.or_else(|| most(Goal::AtLeast(0))),
            context_on_gpu: on_gpu,
        }
    }
}
