//! A model that was opened, understood, with all that comes with it: what an engine needs to hear of a reference.

use std::sync::Arc;

use super::error::SourceError;
use super::open::OpenedModel;
use super::progress::ProgressCallback;
use super::tag::{ExplicitKnobs, TagParameters};
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::model::Model;
use crate::model::quantise::QuantiseError;
use crate::settings::Settings;
use crate::units::Bytes;

/// A model, and what comes with it.
#[derive(Clone, Debug)]
pub struct Package {
    /// The model.
    pub model: Arc<PreparedModel>,
    /// Bytes of the tensors of its adapters (LoRA).
    pub adapters: Bytes,
    /// Bytes of the tensors of its projector.
    pub projector: Bytes,
    /// What its tag sets by itself.
    pub knobs: TagParameters,
    /// As [`OpenedModel::reference`].
    pub reference: Option<String>,
}

impl OpenedModel {
    /// Understands the header, and reads what lies beside the model.
    ///
    /// # Errors
    /// When the header describes no language model, or an adapter or the projector cannot be read.
    pub fn package(self, watch: &mut ProgressCallback<'_>) -> Result<Package, SourceError> {
        let (adapters, projector) = (self.adapter_bytes(watch)?, self.projector_bytes(watch)?);
        // a file is named by its path, as in every other sentence
        let path = self.paths.first().map(|path| path.display().to_string());
        let model = Model::from_header(self.header, &self.name)
            .map_err(|error| SourceError::NoModel { name: path.unwrap_or(self.name), error })?;
        Ok(Package { model: model.into(), adapters, projector, knobs: self.knobs, reference: self.reference })
    }
}

impl From<Model> for Package {
    /// A model with nothing beside it.
    fn from(model: Model) -> Self {
        let (adapters, projector) = (Bytes::ZERO, Bytes::ZERO);
        Self { model: model.into(), adapters, projector, knobs: TagParameters::default(), reference: None }
    }
}

impl Package {
    /// Has `settings` count what comes with the model and follow its tag, but for what is `held`. What the tag did is
    /// said in a sentence each, without its full stop.
    pub fn apply_to(&self, settings: &mut Settings, held: ExplicitKnobs) -> Vec<String> {
        settings.adapters = self.adapters;
        if !held.projector {
            settings.projector = self.projector;
        }
        self.knobs.apply(settings, held)
    }

    /// The same with the model as llama.cpp's quantiser would make it.
    ///
    /// # Errors
    /// When the quantiser would refuse.
    pub fn quantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        Ok(Self { model: self.model.requantised(to)?.into(), ..self.clone() })
    }
}
