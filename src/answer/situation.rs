//! Everything that a plan rests on, owned: what a question is put about, what is pinned, and what undo goes back to.

use std::sync::Arc;

use super::{Case, Change, Goal};
use crate::engine::EngineId;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;

/// An engine, a model, a machine and the knobs.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Who decides.
    pub engine: EngineId,
    /// The model as it was opened.
    pub opened: Arc<Model>,
    /// The same in the quantisation that the knobs ask for.
    pub model: Arc<Model>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The knobs.
    pub settings: Settings,
}

impl Situation {
    /// The same, borrowed, to ask questions about.
    pub fn case(&self) -> Case<'_> {
        Case { engine: self.engine, model: &self.model, machine: &self.machine, settings: &self.settings }
    }

    /// The same with other knobs.
    #[must_use]
    pub fn with(&self, settings: Settings) -> Self {
        Self { settings, ..self.clone() }
    }

    /// The same after `change`; `None` where the model cannot be had in the quantisation that it asks for.
    pub fn after(&self, change: &Change) -> Option<Self> {
        if let Change::Quantisation(to) = *change {
            return self.quantised(to);
        }
        let (mut settings, mut machine) = (self.settings.clone(), Machine::clone(&self.machine));
        change.apply(&mut settings, &mut machine);
        let machine = if machine == *self.machine { Arc::clone(&self.machine) } else { Arc::new(machine) };
        Some(Self { machine, settings, ..self.clone() })
    }

    /// The same with the model in another quantisation.
    pub fn quantised(&self, to: FileType) -> Option<Self> {
        let model = Arc::new(self.opened.requantised(to).ok()?);
        Some(self.of_model(to, model))
    }

    /// The same with `model`, which is the opened one as `quant`.
    pub(super) fn of_model(&self, quant: FileType, model: Arc<Model>) -> Self {
        let settings = Settings { quant: Some(quant), ..self.settings.clone() };
        Self { model, settings, ..self.clone() }
    }
}

/// A single change that achieves something, and what comes of it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What is changed.
    pub change: Change,
    /// What that achieves.
    pub goal: Goal,
    /// Everything after the change.
    pub then: Situation,
    /// Layers that are on GPUs then.
    pub offloaded: usize,
}

impl Situation {
    /// The smallest single change of each knob that makes `plan`, which is this situation's, meet `goal`; each was
    /// planned once more as it is offered.
    pub fn offers(&self, plan: &Plan, goal: Goal) -> Vec<Offer> {
        let offer = |change: Change| {
            let then = self.after(&change)?;
            let after = then.case().plan().ok().filter(|after| goal.is_met_by(after))?;
            Some(Offer { change, goal, then, offloaded: after.offloaded })
        };
        self.case().changes(plan, goal).into_iter().filter_map(offer).collect()
    }
}

/// Models are the same where they are one and the same in memory: a header is not compared tensor by tensor.
impl PartialEq for Situation {
    fn eq(&self, other: &Self) -> bool {
        self.engine == other.engine
            && self.settings == other.settings
            && Arc::ptr_eq(&self.model, &other.model)
            && (Arc::ptr_eq(&self.machine, &other.machine) || self.machine == other.machine)
    }
}
