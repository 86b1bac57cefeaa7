//! A model with what engines read from its header.

use std::ops::Deref;
use std::sync::Arc;

use super::id::EngineError;
use super::llama_cpp::LoadedModel;
use crate::model::Model;
use crate::settings::Release;

/// A model whose header is read once for each release of llama.cpp, however many plans are made of it.
#[derive(Clone, Debug)]
pub struct PreparedModel {
    model: Model,
    llama_cpp: Vec<(Release, Result<LoadedModel, EngineError>)>,
}

impl PreparedModel {
    /// As llama.cpp of that release reads it.
    ///
    /// # Errors
    /// When the header lacks what llama.cpp of that release cannot do without.
    pub fn llama_cpp(&self, release: Release) -> Result<&LoadedModel, EngineError> {
        let read = self.llama_cpp.iter().find(|(of, _)| *of == release);
        let unknown = || Err(EngineError::Settings(format!("this version knows no release {release} of llama.cpp")));
        read.map_or_else(unknown, |(_, read)| read.as_ref().map_err(Clone::clone))
    }
}

impl PreparedModel {
    /// Adds to what is to be said of the header; engines read no notes.
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

/// The reading follows from the model.
impl PartialEq for PreparedModel {
    fn eq(&self, other: &Self) -> bool {
        self.model == other.model
    }
}
