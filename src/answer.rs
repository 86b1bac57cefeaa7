//! Questions put to an engine: how far a knob can go, why a layer spilled, what would bring it back, where things
//! change along a knob, the best settings while some are held, how plans differ, and whether several models can live together.
//!
//! Every answer comes from plans that the engine made; nothing here does arithmetic of its own on what a model needs.

pub mod best;
pub mod change;
pub mod cliffs;
pub mod compare;
mod glance;
pub mod largest;
pub mod limits;
pub mod machines;
pub mod matrix;
pub mod quant;
mod search;
pub mod situation;
pub mod sweep;
pub mod together;
pub mod verdict;
pub mod why;

use std::fmt;

use crate::engine::{self, Aim, EngineError, EngineId, Hope, Outlook, Scene};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{DevicePlan, Gist, Plan, Verdict};
use crate::settings::Settings;
use crate::settings::knob::{Bounds, Knob};

pub use change::Change;
pub use glance::Glance;
pub use limits::Limits;
pub use situation::{Offer, Situation};

/// What an engine is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Who decides.
    pub engine: EngineId,
    /// The model.
    pub model: &'a Model,
    /// The machine.
    pub machine: &'a Machine,
    /// The knobs.
    pub settings: &'a Settings,
}

impl Case<'_> {
    /// Asks the engine.
    ///
    /// # Errors
    /// As [`engine::plan`].
    pub fn plan(&self) -> Result<Plan, EngineError> {
        engine::plan(self.engine, self.model, self.machine, self.settings)
    }

    /// The knobs that the engine offers for this model on this machine, in the order of the screen.
    pub fn knobs(&self) -> Vec<Knob> {
        let scene = Scene { model: Some(self.model), machine: self.machine, raw: self.settings.raw };
        self.engine.facts().knobs(&scene)
    }

    /// The ends of the knobs' ranges, which the model sets.
    pub fn bounds(&self) -> Bounds {
        let summary = &self.model.hyper;
        let layer_count = self.model.block_count() as u64 + 1;
        Bounds { context_train: summary.context_train, layer_count, experts: summary.experts.is_some() }
    }

    /// The plan with other settings; `None` where the engine makes none.
    fn plan_with(&self, change: impl FnOnce(&mut Settings)) -> Option<Plan> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        engine::plan(self.engine, self.model, self.machine, &settings).ok()
    }

    /// What the plan comes to.
    ///
    /// # Errors
    /// As [`engine::plan`].
    pub fn gist(&self, aim: Aim) -> Result<Gist, EngineError> {
        engine::of(self.engine).summary(self.model, self.machine, self.settings, aim)
    }

    /// What is certain of the plan beforehand.
    ///
    /// # Errors
    /// As [`engine::plan`].
    fn outlook(&self) -> Result<Option<Outlook>, EngineError> {
        engine::of(self.engine).outlook(self.model, self.machine, self.settings)
    }

    /// Whether `goal` is met.
    fn meets(&self, goal: Goal) -> bool {
        self.gist(goal.aim()).is_ok_and(|gist| goal.is_met_in(&gist))
    }

    /// The plan after `change`; `None` where the engine makes none.
    pub fn plan_after(&self, change: &Change) -> Option<Plan> {
        self.after(change, |case| case.plan().ok())?
    }

    /// What `look` sees after `change`; `None` where that cannot be made.
    fn after<T>(&self, change: &Change, look: impl FnOnce(&Case<'_>) -> T) -> Option<T> {
        if let Change::Quantisation(to) = *change {
            let model = self.model.quantised(to).ok()?;
            return Some(look(&Case { model: &model, ..*self }));
        }
        let (mut settings, mut machine) = (self.settings.clone(), self.machine.clone());
        change.apply(&mut settings, &mut machine);
        Some(look(&Case { settings: &settings, machine: &machine, ..*self }))
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
    pub fn is_met_in(self, gist: &Gist) -> bool {
        self.is_met(gist.verdict, gist.refused, gist.offloaded, gist.gpus())
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
    const fn least_hope(self) -> Hope {
        match self {
            Self::All => Hope::EveryLayer,
            Self::AtLeast(_) | Self::Layer(_) => Hope::SomeLayers,
        }
    }

    /// What an engine must find out to tell whether it is met.
    const fn aim(self) -> Aim {
        match self {
            Self::All => Aim::EveryLayer,
            Self::AtLeast(_) | Self::Layer(_) => Aim::Most,
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
