//! What a list of models says of each: does it fit, how much of it is on GPUs, how far its context can go.

use serde::Serialize;

use super::Goal;
use crate::engine::PlanRequest;
use crate::plan::{FitStatus, Plan, Verdict};
use crate::settings::knob::Knob;
use crate::units::{Bytes, Ratio};

/// A model on a machine, at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FitSummary {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// The share of what it takes that is on GPUs; zero where it is asked for nothing.
    pub on_gpu: Ratio,
    /// Weights of layers that count as on GPUs and run from RAM, where no layer is there as a whole.
    pub parts_in_ram: Bytes,
    /// The largest context that fits, GPUs and RAM together; none where no context does.
    pub context_fits: Option<u64>,
    /// The largest context with every layer on GPUs.
    pub context_on_gpu: Option<u64>,
}

impl FitSummary {
    /// How the model stands, as people should read it.
    pub fn fit_status(&self) -> FitStatus {
        FitStatus::of(self.verdict, self.parts_in_ram)
    }
}

impl PlanRequest {
    /// What a list says of the model: its plan with the knobs as they are, and how far the context alone could go.
    pub fn glance(&self, plan: &Plan) -> FitSummary {
        let most = |goal| self.largest(Knob::Context, goal).map(|most| most.value);
        let on_gpu = if self.machine.gpus.is_empty() { None } else { most(Goal::All) };
        // a context that the model was trained for cannot be outgrown with layers in RAM
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
