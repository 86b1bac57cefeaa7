//! A loaded model with its adapters, projector and tag parameters.

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

/// A model with its adapters, projector and tag parameters.
#[derive(Clone, Debug)]
pub struct Package {
    /// The model.
    pub model: Arc<PreparedModel>,
    /// Bytes of the tensors of its adapters (LoRA).
    pub adapters: Bytes,
    /// Bytes of the tensors of its projector.
    pub projector: Bytes,
    /// Parameters of its tag.
    pub knobs: TagParameters,
    /// As [`OpenedModel::reference`].
    pub reference: Option<String>,
}

impl OpenedModel {
    /// Reads the model from its header, and the sizes of its adapters and projector.
    ///
    /// # Errors
    /// If the header does not describe a language model, or an adapter or the projector cannot be read.
    pub fn package(self, on_progress: &mut ProgressCallback<'_>) -> Result<Package, SourceError> {
        let (adapters, projector) = (self.adapter_bytes(on_progress)?, self.projector_bytes(on_progress)?);
        // errors name a file by its path
        let path = self.paths.first().map(|path| path.display().to_string());
        let model = Model::from_header(self.header, &self.name)
            .map_err(|error| SourceError::NoModel { name: path.unwrap_or(self.name), error })?;
        Ok(Package { model: model.into(), adapters, projector, knobs: self.knobs, reference: self.reference })
    }
}

impl From<Model> for Package {
    /// A model without adapters, projector and tag parameters.
    fn from(model: Model) -> Self {
        let (adapters, projector) = (Bytes::ZERO, Bytes::ZERO);
        Self { model: model.into(), adapters, projector, knobs: TagParameters::default(), reference: None }
    }
}

impl Package {
    /// Applies the sizes of adapters and projector and the tag's parameters to `settings`, except for knobs in `held`.
    /// Returns one sentence per parameter applied, without a full stop.
    pub fn apply_to(&self, settings: &mut Settings, held: ExplicitKnobs) -> Vec<String> {
        settings.adapters = self.adapters;
        if !held.projector {
            settings.projector = self.projector;
        }
        self.knobs.apply(settings, held)
    }

    /// The same with the model requantised.
    ///
    /// # Errors
    /// If the quantiser would refuse.
    pub fn quantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        Ok(Self { model: self.model.requantised(to)?.into(), ..self.clone() })
    }
}
