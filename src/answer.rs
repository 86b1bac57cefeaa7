//! Questions answered by planning: the largest value of a knob that fits, why a layer is in RAM and what would bring it
//! back, where the plan changes along a knob, the best settings, a faster placement, how plans differ, and which models
//! can be loaded together.
//!
//! Every answer rests on plans made by the engine; nothing here computes memory.

pub mod best;
pub mod change;
pub mod check;
pub mod compare;
pub mod fits;
pub mod glance;
pub mod largest;
pub mod limits;
pub mod live;
pub mod need;
pub mod parts;
pub mod place;
pub mod quality;
pub mod ram;
pub mod ram_remedy;
mod remedy;
mod search;
pub mod sweep;
pub mod tensors;
pub mod thresholds;
pub mod together;
pub mod ubatch;
pub mod verdict;
pub mod why;

use std::fmt;
use std::sync::Arc;

use crate::engine::PlanRequest;
use crate::engine::{FitGoal, Preflight, UpperBound};
use crate::machine::Machine;
use crate::model::TensorGroup;
use crate::plan::{DevicePlan, Outcome, Plan, PlanSummary, RamPool, used_gpus};
use crate::settings::Settings;
use crate::units::Bytes;

pub use change::CacheTypeCost;
pub use change::Change;
pub use glance::{Figures, Largest};
pub use limits::{KnobLimits, Way};
pub use remedy::Remedy;
pub use verdict::FitSummary;

impl PlanRequest {
    /// The trial with other settings; `None` if the engine returns an error.
    fn plan_with(&self, change: impl FnOnce(&mut Settings)) -> Option<Plan> {
        self.changed(change).trial().ok()
    }

    /// Whether weights of `bytes` alone leave `goal` open: most that cannot meet it are told without a plan.
    fn has_room(&self, bytes: Bytes, goal: Goal) -> bool {
        // no type that is suggested takes more
        const WIDEST: u64 = 2;
        if !matches!(goal, Goal::Vram | Goal::VramWith(_)) {
            return true;
        }
        let vram: Bytes = self.machine.gpus.iter().map(|gpu| gpu.free).sum();
        // what looks rows up, and a part that is split off, may be in RAM; blocks that only draft need not be loaded
        let blocks = self.model.block_count();
        let drafting = blocks - self.model.nextn_layers()..blocks;
        let groups = [TensorGroup::Input, TensorGroup::Projector, TensorGroup::Beyond].into_iter();
        let others = groups.chain(drafting.map(TensorGroup::Block)).flat_map(|group| self.model.tensors(group));
        let others: Bytes =
            others.map(|tensor| tensor.bytes.max(Bytes(tensor.elements().saturating_mul(WIDEST)))).sum();
        bytes - others <= vram
    }

    /// Whether `goal` may be met, as far as that is known without placing anything.
    fn may_meet(&self, goal: Goal) -> bool {
        let is_open = |known: Preflight| known.upper_bound >= goal.required_bound();
        self.has_room(self.model.bytes, goal) && self.preflight().ok().flatten().is_none_or(is_open)
    }

    /// The trial, if it meets `goal`.
    fn trial_meeting(&self, goal: Goal) -> Option<Plan> {
        let trial = self.may_meet(goal).then(|| self.trial_for(goal.fit_goal()).ok().flatten()).flatten();
        trial.filter(|trial| goal.is_met_by(trial))
    }

    /// Whether `goal` is met.
    fn meets(&self, goal: Goal) -> bool {
        if !self.may_meet(goal) {
            return false;
        }
        let summary = self.summary(goal.fit_goal()).ok().flatten();
        summary.is_some_and(|summary| goal.is_met_in(&summary))
    }

    /// This request after `change`; `None` if the model cannot be converted to the requested quantisation.
    pub fn after(&self, change: &Change) -> Option<Self> {
        match *change {
            Change::Quantisation(to) => self.quantised(to),
            _ => self.after_without_notes(change),
        }
    }

    /// [`PlanRequest::after`] without the notes on a requantised model, which searches do not show.
    fn after_without_notes(&self, change: &Change) -> Option<Self> {
        if let Change::Quantisation(to) = *change {
            return Some(self.with_model(self.model.in_quantisation(to).ok()?));
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
    /// All in VRAM: every tensor that a token needs is on GPUs.
    Vram,
    /// All in VRAM, with this much left on every GPU that has layers besides what the engine keeps free.
    VramWith(Bytes),
    /// Every layer is assigned to a GPU, and it fits; experts may be in RAM.
    AllLayers,
    /// At least this many layers are on GPUs, counting the output layer, and the model fits.
    AtLeast(usize),
    /// The layer with this index in [`Plan::layers`] is on a GPU, and the model fits.
    Layer(usize),
}

impl Goal {
    /// Whether `plan` meets it.
    pub fn is_met_by(self, plan: &Plan) -> bool {
        self.is_met(plan.outcome(), plan.refusal.is_some(), plan.offloaded, &plan.devices)
    }

    /// [`Goal::is_met_by`] for a summary.
    pub fn is_met_in(self, summary: &PlanSummary) -> bool {
        self.is_met(summary.outcome(), summary.refused, summary.offloaded, &summary.devices)
    }

    /// Every goal keeps what must stay free on the GPUs that hold layers, and of RAM for the system, and reads nothing from
    /// disk.
    fn is_met(self, outcome: Outcome, refused: bool, offloaded: usize, devices: &[DevicePlan]) -> bool {
        if refused || outcome >= Outcome::FromDisk {
            return false;
        }
        if RamPool::of(devices).above_kept().is_short() {
            return false;
        }
        let keeps = |more: Bytes| used_gpus(devices).all(|(_, headroom)| !(headroom.above() - more).is_short());
        keeps(Bytes::ZERO)
            && match self {
                Self::Vram => outcome == Outcome::Vram,
                Self::VramWith(margin) => outcome == Outcome::Vram && keeps(margin),
                Self::AllLayers => outcome <= Outcome::ExpertsInRam,
                Self::AtLeast(layers) => offloaded >= layers,
                Self::Layer(index) => used_gpus(devices).any(|(gpu, _)| gpu.layers.contains(&index)),
            }
    }

    /// The lowest upper bound with which it can still be met.
    const fn required_bound(self) -> UpperBound {
        match self {
            Self::Vram | Self::VramWith(_) => UpperBound::Vram,
            Self::AllLayers => UpperBound::AllLayers,
            Self::AtLeast(_) | Self::Layer(_) => UpperBound::SomeLayers,
        }
    }

    /// How much of the fit is needed to decide it.
    const fn fit_goal(self) -> FitGoal {
        match self {
            Self::Vram | Self::VramWith(_) => FitGoal::Vram,
            Self::AllLayers => FitGoal::AllLayers,
            Self::AtLeast(_) | Self::Layer(_) => FitGoal::Most,
        }
    }
}

/// `vram`, `all layers`, `30 layers`, `layer 12`.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vram => write!(f, "vram"),
            Self::VramWith(margin) => write!(f, "vram with {margin} left"),
            Self::AllLayers => write!(f, "all layers"),
            Self::AtLeast(layers) => write!(f, "{layers} layers"),
            Self::Layer(index) => write!(f, "layer {index}"),
        }
    }
}
