//! Everything that a plan rests on: what engines are asked about, what is pinned, and what undo goes back to.

use std::sync::Arc;

use super::id::EngineId;
use super::prepared::PreparedModel;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::settings::Settings;

/// An engine, a model, a machine and the knobs. Quick to clone.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// Who decides.
    pub engine: EngineId,
    /// The model as it was opened.
    pub opened: Arc<PreparedModel>,
    /// The same in the quantisation that the knobs ask for.
    pub model: Arc<PreparedModel>,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The knobs.
    pub settings: Settings,
}

impl PlanRequest {
    /// For a model as it was opened.
    pub fn new(
        engine: EngineId,
        model: impl Into<Arc<PreparedModel>>,
        machine: impl Into<Arc<Machine>>,
        settings: Settings,
    ) -> Self {
        let model = model.into();
        Self { engine, opened: Arc::clone(&model), model, machine: machine.into(), settings }
    }

    /// The same with other knobs.
    #[must_use]
    pub fn with(&self, settings: Settings) -> Self {
        Self { settings, ..self.clone() }
    }

    /// The same with its knobs changed.
    #[must_use]
    pub fn changed(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.settings);
        changed
    }

    /// The same with another model in the place of its own.
    #[must_use]
    pub fn with_model(&self, model: impl Into<Arc<PreparedModel>>) -> Self {
        Self { model: model.into(), ..self.clone() }
    }

    /// The same on another machine.
    #[must_use]
    pub fn on_machine(&self, machine: impl Into<Arc<Machine>>) -> Self {
        Self { machine: machine.into(), ..self.clone() }
    }

    /// The same with the model in another quantisation; `None` where it cannot be had so.
    pub fn quantised(&self, to: FileType) -> Option<Self> {
        let model = self.opened.requantised(to).ok()?.into();
        Some(self.quantised_as(to, model))
    }

    /// The same with `model`, which is the opened one as `quant`.
    #[must_use]
    pub fn quantised_as(&self, quant: FileType, model: Arc<PreparedModel>) -> Self {
        self.with_model(model).changed(|settings| settings.quant = Some(quant))
    }
}

/// Models are the same where they are one and the same in memory: a header is not compared tensor by tensor.
impl PartialEq for PlanRequest {
    fn eq(&self, other: &Self) -> bool {
        self.engine == other.engine
            && self.settings == other.settings
            && Arc::ptr_eq(&self.model, &other.model)
            && (Arc::ptr_eq(&self.machine, &other.machine) || self.machine == other.machine)
    }
}
