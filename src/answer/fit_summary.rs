//! One row of a list of models: whether the model fits, its share on GPUs, and its largest context.

use serde::Serialize;

use super::Goal;
use crate::engine::PlanRequest;
use crate::plan::{Outcome, Plan, Verdict};
use crate::settings::knob::Knob;
use crate::speed::Speed;
use crate::units::{Bytes, Ratio};

/// How well a model fits on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitSummary {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Where what a token needs is.
    pub outcome: Outcome,
    /// Share of its memory that is on GPUs; zero if it needs none.
    pub on_gpu: Ratio,
    /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
    pub parts_in_ram: Bytes,
    /// The largest context that fits in GPUs and RAM together, in tokens.
    pub context_fits: Option<u64>,
    /// The largest context with all in VRAM, in tokens.
    pub context_in_vram: Option<u64>,
    /// The largest context with every layer assigned to a GPU, experts in RAM or not, in tokens.
    pub context_on_gpu: Option<u64>,
    /// How fast it generates with an empty cache, where that can be known.
    pub speed: Option<Box<Speed>>,
}

impl PlanRequest {
    /// Summarises `plan`, this request's plan, and finds the largest contexts with the other knobs held.
    pub fn fit_summary(&self, plan: &Plan) -> FitSummary {
        let most = |goal| self.largest(Knob::Context, goal).map(|most| most.value);
        let gpus = !self.machine.gpus.is_empty();
        let in_vram = if gpus { most(Goal::Vram) } else { None };
        let experts = gpus && self.model.hyper.experts.is_some() && in_vram < plan.model.context_train;
        let on_gpu = if experts { most(Goal::AllLayers) } else { in_vram };
        // the training context is the upper end of the range: layers in RAM cannot extend it
        let all = on_gpu.filter(|_| on_gpu >= plan.model.context_train);
        FitSummary {
            verdict: plan.verdict,
            outcome: plan.outcome(),
            on_gpu: plan.totals.gpu.share_of(plan.totals.all),
            parts_in_ram: plan.parts_in_ram(),
            context_fits: all.or_else(|| most(Goal::AtLeast(0))),
            context_in_vram: in_vram,
            context_on_gpu: on_gpu,
            speed: Speed::of(&self.model, &self.machine, plan, 0).map(Box::new),
        }
    }
}
