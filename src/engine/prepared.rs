//! A model with its header read for every release of llama.cpp.

use std::ops::Deref;
use std::sync::Arc;

use super::id::EngineError;
use super::llama_cpp::LoadedModel;
use crate::model::Model;
use crate::settings::Release;

/// A model whose header is read once per release of llama.cpp rather than in every plan.
#[derive(Clone, Debug)]
pub struct PreparedModel {
    model: Model,
    llama_cpp: Vec<(Release, Result<LoadedModel, EngineError>)>,
}

impl PreparedModel {
    /// The model as loaded by this release of llama.cpp.
    ///
    /// # Errors
    /// When the header lacks what this release of llama.cpp requires.
    pub fn llama_cpp(&self, release: Release) -> Result<&LoadedModel, EngineError> {
        let read = self.llama_cpp.iter().find(|(of, _)| *of == release);
        let unknown = || Err(EngineError::Settings(format!("this version knows no release {release} of llama.cpp")));
        read.map_or_else(unknown, |(_, read)| read.as_ref().map_err(Clone::clone))
    }
}

impl PreparedModel {
    /// Adds notes about the header; engines do not read them.
    pub fn add_notes(&mut self, notes: &[String]) {
        self.model.header.notes.extend_from_slice(notes);
    }
}

impl From<Model> for PreparedModel {
    fn from(model: Model) -> Self {
        let read = |release: Release| (release, LoadedModel::new(&model.header, release).map_err(EngineError::from));
        Self { llama_cpp: Release::ALL.into_iter().map(read).collect(), model }
    }
}

impl From<Model> for Arc<PreparedModel> {
    fn from(model: Model) -> Self {
        Self::new(model.into())
    }
}

impl Deref for PreparedModel {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// The loaded models follow from the model.
impl PartialEq for PreparedModel {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model
    }
}
