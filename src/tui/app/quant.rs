//! Quantisation as a knob: the opened model in other file types, each made once.

use std::sync::Arc;

use super::App;
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::model::quantise::QuantiseError;
use crate::settings::Settings;

/// The requantised variants of a model.
#[derive(Debug, Default)]
pub(super) struct QuantisedModels {
    of: Option<Arc<PreparedModel>>,
    models: Vec<(FileType, Arc<PreparedModel>)>,
}

impl QuantisedModels {
    fn get(&mut self, opened: &Arc<PreparedModel>, to: FileType) -> Result<Arc<PreparedModel>, QuantiseError> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, opened)) {
            *self = Self { of: Some(Arc::clone(opened)), models: Vec::new() };
        }
        if let Some((_, model)) = self.models.iter().find(|(made, _)| *made == to) {
            return Ok(Arc::clone(model));
        }
        let model: Arc<PreparedModel> = opened.requantised(to)?.into();
        self.models.push((to, Arc::clone(&model)));
        Ok(model)
    }
}

impl App {
    /// Sets the quantisation as one undo step, unless it is none.
    pub fn set_quantisation(&mut self, quant: Option<FileType>) {
        if quant.is_some() {
            self.change_settings(Settings { quant, ..self.settings.clone() });
        }
    }

    /// The opened model requantised to `quant`, or unchanged.
    pub(super) fn in_quantisation(
        &mut self,
        quant: Option<FileType>,
    ) -> Result<Option<Arc<PreparedModel>>, QuantiseError> {
        match (&self.opened, quant) {
            (Some(opened), Some(to)) => self.quantised.get(opened, to).map(Some),
            (opened, _) => Ok(opened.clone()),
        }
    }
}
