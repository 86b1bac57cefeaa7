//! The input of a plan. It is also what the user pins, and what undo restores.

use std::sync::Arc;

use super::llama_cpp::PreparedModel;
use crate::machine::Machine;
use crate::model::mixture::Quantisation;
use crate::settings::knob::Knob;
use crate::settings::{EngineId, Settings};

/// Engine, model, machine and settings. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The engine.
    pub engine: EngineId,
    /// The model as opened.
    pub opened: Arc<PreparedModel>,
    /// The model in the quantisation of the settings.
    pub model: Arc<PreparedModel>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The settings.
    pub settings: Settings,
}

/// What an engine reads of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The model.
    pub model: &'a PreparedModel,
    /// The machine.
    pub machine: &'a Machine,
    /// The settings.
    pub settings: &'a Settings,
}

impl PlanRequest {
    /// What its engine reads.
    pub fn parts(&self) -> RequestParts<'_> {
        RequestParts { model: &self.model, machine: &self.machine, settings: &self.settings }
    }

    /// A request for a model as opened.
    pub fn new(
        engine: EngineId,
        model: impl Into<Arc<PreparedModel>>,
        machine: impl Into<Arc<Machine>>,
        settings: Settings,
    ) -> Self {
        let model = model.into();
        Self { engine, opened: Arc::clone(&model), model, machine: machine.into(), settings }
    }

    /// The same with other settings.
    #[must_use]
    pub fn with(&self, settings: Settings) -> Self {
        Self { settings, ..self.clone() }
    }

    /// The same with its settings changed by `change`.
    #[must_use]
    pub fn changed(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.settings);
        changed
    }

    /// The same with another model.
    #[must_use]
    pub fn with_model(&self, model: impl Into<Arc<PreparedModel>>) -> Self {
        Self { model: model.into(), ..self.clone() }
    }

    /// The same with original weights as the GGUF file that can be made of them, where its engine runs such files and something
    /// is known of the family; and a GGUF file as its original in a mode of MLX, where the engine runs none.
    #[must_use]
    pub fn made(&self) -> Self {
        let facts = self.engine.facts();
        let made = if facts.runs_gguf {
            facts.offers(Knob::Quant).then(|| self.model.converted().ok().flatten()).flatten()
        } else {
            self.model.for_mlx().ok().flatten()
        };
        made.map_or_else(|| self.clone(), |made| self.with_model(made))
    }

    /// The same on another machine.
    #[must_use]
    pub fn on_machine(&self, machine: impl Into<Arc<Machine>>) -> Self {
        Self { machine: machine.into(), ..self.clone() }
    }

    /// The same with the model requantised; `None` if that is not possible.
    pub fn quantised(&self, to: impl Into<Quantisation>) -> Option<Self> {
        let to = to.into();
        let model = self.opened.requantised(to).ok()?.into();
        Some(self.quantised_as(to, model))
    }

    /// The same with `model`, which is the opened one requantised to `quant`.
    #[must_use]
    pub fn quantised_as(&self, quant: impl Into<Quantisation>, model: Arc<PreparedModel>) -> Self {
        let quant = quant.into();
        self.with_model(model).changed(|settings| settings.quant = Some(quant))
    }
}

/// Models are compared by address, because comparing headers tensor by tensor is slow.
impl PartialEq for PlanRequest {
    fn eq(&self, other: &Self) -> bool {
        self.engine == other.engine
            && self.settings == other.settings
            && Arc::ptr_eq(&self.model, &other.model)
            && (Arc::ptr_eq(&self.machine, &other.machine) || self.machine == other.machine)
    }
}
