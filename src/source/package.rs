//! A loaded model with its adapters, projector and tag parameters.

use std::sync::Arc;
use std::time::SystemTime;

use super::catalogue;
use super::day::day;
use super::error::SourceError;
use super::open::OpenedModel;
use super::progress::ProgressCallback;
use super::tag::{ExplicitKnobs, TagParameters};
use crate::engine::llama_cpp::projector::{Encoder, LoadedProjector};
use crate::engine::{DraftFile, PreparedModel};
use crate::gguf::FileType;
use crate::model::quantise::QuantiseError;
use crate::model::{Modalities, Model, Projector, TensorGroup};
use crate::settings::{OllamaVersion, Release, Settings};
use crate::units::Bytes;

/// A model with its adapters, projector and tag parameters.
#[derive(Clone, Debug)]
pub struct Package {
    /// The model.
    pub model: Arc<PreparedModel>,
    /// Bytes of the tensors of its adapters (LoRA).
    pub adapters: Bytes,
    /// Its projector.
    pub projector: Option<Arc<Projector>>,
    /// Parameters of its tag.
    pub knobs: TagParameters,
    /// What Ollama says of it, where it comes from Ollama.
    pub ollama: Option<Box<FromOllama>>,
    /// As [`OpenedModel::reference`].
    pub reference: Option<String>,
}

/// What Ollama says of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromOllama {
    /// As [`OpenedModel::ollama`].
    pub version: Option<OllamaVersion>,
    /// The name of its file in Ollama's store, which is its digest.
    pub blob: Option<String>,
}

impl Package {
    /// The name of its file in Ollama's store.
    pub fn blob(&self) -> Option<&str> {
        self.ollama.as_ref()?.blob.as_deref()
    }
}

impl OpenedModel {
    /// Reads the model and its projector from their headers, and the sizes of its adapters.
    ///
    /// # Errors
    /// If the header does not describe a language model, or an adapter or the projector cannot be read.
    pub fn package(self, on_progress: &mut ProgressCallback<'_>) -> Result<Package, SourceError> {
        let (adapters, projector) = (self.adapter_bytes(on_progress)?, self.its_projector(on_progress)?);
        let file = self.paths.first().and_then(|path| path.file_name()?.to_str());
        let blob = file.filter(|name| name.starts_with("sha256-")).map(str::to_owned);
        // errors name a file by its path
        let path = self.paths.first().map(|path| path.display().to_string());
        let model = Model::from_header(self.header, &self.name)
            .map_err(|error| SourceError::NoModel { name: path.unwrap_or(self.name), error })?;
        let mut model = PreparedModel::from(model);
        let written = self.paths.first().and_then(|path| path.metadata().ok()?.modified().ok());
        let from_catalogue =
            self.reference.as_deref().is_some_and(|reference| reference.starts_with(catalogue::PREFIX));
        if let Some(written) = written {
            model = model.with_date(&format!("file of {}", day(written)));
        } else if from_catalogue {
            model = model.with_date(&catalogue::dated());
        } else {
            model = model.with_date(&format!("header read on {}", day(SystemTime::now())));
        }
        let projector = projector.and_then(|projector| match fitting(&projector, &model) {
            Ok(()) => Some(projector),
            Err(why) => {
                model.add_notes(&[format!("the projector {} is not counted: {why}", projector.file)]);
                None
            }
        });
        let Self { knobs, ollama, reference, .. } = self;
        let known = FromOllama { version: ollama, blob };
        let ollama = Some(known).filter(|known| *known != FromOllama::default()).map(Box::new);
        Ok(Package { model: model.into(), adapters, projector, knobs, ollama, reference })
    }
}

/// Whether a projector found with `model` can be loaded with it, or why not.
fn fitting(projector: &Projector, model: &PreparedModel) -> Result<(), String> {
    let Some(header) = &projector.header else { return Ok(()) };
    let loaded = LoadedProjector::new(header).map_err(|error| error.to_string())?;
    let reads = model.llama_cpp(Release::default()).ok().map(|model| model.hparams.n_embd_inp());
    let other =
        loaded.encoders.iter().map(Encoder::n_embd_out).find(|width| reads.is_some_and(|reads| reads != *width));
    match (other, reads) {
        (Some(width), Some(reads)) => {
            Err(format!("its tokens have {width} elements, and the model reads {reads}: it belongs to another model"))
        }
        _ => Ok(()),
    }
}

impl From<Model> for Package {
    /// A model without adapters, projector and tag parameters.
    fn from(model: Model) -> Self {
        let (adapters, projector) = (Bytes::ZERO, None);
        Self {
            model: model.into(),
            adapters,
            projector,
            knobs: TagParameters::default(),
            ollama: None,
            reference: None,
        }
    }
}

impl Package {
    /// Applies the sizes of adapters and projector and the tag's parameters to `settings`, except for knobs in `held`.
    /// Returns one sentence per parameter applied, without a full stop.
    pub fn apply_to(&self, settings: &mut Settings, held: ExplicitKnobs) -> Vec<String> {
        settings.adapters = self.adapters;
        if !held.projector {
            settings.projector.clone_from(&self.projector);
        }
        let mut notes = self.knobs.apply(settings, held);
        if let Some(version) = self.ollama.as_ref().and_then(|known| known.version).filter(|_| !held.ollama) {
            settings.ollama.version = version;
            notes.push(format!("planned for Ollama {version}, which runs here"));
        }
        notes
    }

    /// What the model reads besides text: by its projector, or by the encoders in its own file.
    pub fn modalities(&self) -> Modalities {
        let has =
            |prefix: &str| self.model.tensors(TensorGroup::Projector).any(|tensor| tensor.name.starts_with(prefix));
        match &self.projector {
            Some(projector) => projector.modalities(),
            None => Modalities { vision: has("v."), audio: has("a.") },
        }
    }

    /// The same with a draft beside the model.
    #[must_use]
    pub fn with_draft(self, draft: DraftFile) -> Self {
        let model = PreparedModel::clone(&self.model).with_draft(Some(draft));
        Self { model: model.into(), ..self }
    }

    /// The same with the model requantised.
    ///
    /// # Errors
    /// If the quantiser would refuse.
    pub fn quantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        Ok(Self { model: self.model.requantised(to)?.into(), ..self.clone() })
    }
}
