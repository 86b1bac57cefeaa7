//! Questions put to an engine: how far a knob can go, why a layer spilled, what would bring it back, where things
//! change along a knob, the best settings while some are held, how plans differ, and whether several models can live together.
//!
//! Every answer comes from plans that the engine made; nothing here does arithmetic of its own on what a model needs.

pub mod best;
pub mod change;
pub mod cliffs;
pub mod compare;
mod fit_summary;
pub mod largest;
pub mod limits;
pub mod machines;
pub mod matrix;
pub mod offer;
pub mod quant;
mod search;
pub mod sweep;
pub mod together;
pub mod verdict;
pub mod why;

use std::fmt;
use std::sync::Arc;

use crate::engine::PlanRequest;
use crate::engine::{FitGoal, UpperBound};
use crate::machine::Machine;
use crate::plan::{DevicePlan, Plan, PlanSummary, Verdict};
use crate::settings::Settings;

pub use change::Change;
pub use fit_summary::FitSummary;
pub use limits::KnobLimits;
pub use offer::Remedy;

impl PlanRequest {
    /// The plan with other settings; `None` where the engine makes none.
    fn plan_with(&self, change: impl FnOnce(&mut Settings)) -> Option<Plan> {
        self.changed(change).plan().ok()
    }

    /// Whether `goal` is met.
    fn meets(&self, goal: Goal) -> bool {
        self.summary(goal.fit_goal()).is_ok_and(|summary| goal.is_met_in(&summary))
    }

    /// The plan after `change`; `None` where the engine makes none.
    pub fn plan_after(&self, change: &Change) -> Option<Plan> {
        self.after_in_short(change)?.plan().ok()
    }

    /// The same after `change`; `None` where the model cannot be had in the quantisation that it asks for.
    pub fn after(&self, change: &Change) -> Option<Self> {
        match *change {
            Change::Quantisation(to) => self.quantised(to),
            _ => self.after_in_short(change),
        }
    }

    /// [`PlanRequest::after`] for those who show nothing of it: nothing is said of a quantisation.
    fn after_in_short(&self, change: &Change) -> Option<Self> {
        if let Change::Quantisation(to) = *change {
            return Some(self.with_model(self.model.quantised(to).ok()?));
        }
        let (mut settings, mut machine) = (self.settings.clone(), Machine::clone(&self.machine));
        change.apply(&mut settings, &mut machine);
        let machine = if machine == *self.machine { Arc::clone(&self.machine) } else { Arc::new(machine) };
        Some(Self { machine, settings, ..self.clone() })
    }
}

/// What a plan should achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Every layer is on GPUs, and nothing is asked for more than is free.
    All,
    /// At least so many layers are on GPUs, the output layer counted, and it fits.
    AtLeast(usize),
    /// This layer, by its index in [`Plan::layers`], is on a GPU, and it fits.
    Layer(usize),
}

impl Goal {
    /// Whether `plan` achieves it.
    pub fn is_met_by(self, plan: &Plan) -> bool {
        self.is_met(plan.verdict, plan.refusal.is_some(), plan.offloaded, plan.gpus().iter())
    }

    /// The same of what a plan comes to.
    pub fn is_met_in(self, summary: &PlanSummary) -> bool {
        self.is_met(summary.verdict, summary.refused, summary.offloaded, summary.gpus())
    }

    fn is_met<'d>(
        self,
        verdict: Verdict,
        refused: bool,
        offloaded: usize,
        mut gpus: impl Iterator<Item = &'d DevicePlan>,
    ) -> bool {
        let fits = verdict != Verdict::DoesNotFit && !refused;
        fits && match self {
            Self::All => verdict == Verdict::Gpu,
            Self::AtLeast(layers) => offloaded >= layers,
            Self::Layer(index) => gpus.any(|gpu| gpu.layers.contains(&index)),
        }
    }

    /// What must not be ruled out for it to be met.
    const fn required_bound(self) -> UpperBound {
        match self {
            Self::All => UpperBound::AllLayers,
            Self::AtLeast(_) | Self::Layer(_) => UpperBound::SomeLayers,
        }
    }

    /// What an engine must find out to tell whether it is met.
    const fn fit_goal(self) -> FitGoal {
        match self {
            Self::All => FitGoal::AllLayers,
            Self::AtLeast(_) | Self::Layer(_) => FitGoal::Most,
        }
    }
}

/// `all`, `30 layers`, `layer 12`.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all"),
            Self::AtLeast(layers) => write!(f, "{layers} layers"),
            Self::Layer(index) => write!(f, "layer {index}"),
        }
    }
}
