//! Why llama.cpp would not load a model, or not with these settings.

use crate::engine::error::EngineError;

/// A refusal: caused by the model or by the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The header lacks what llama.cpp needs.
    #[error("{0}")]
    Model(String),
    /// The settings contradict the model or each other.
    #[error("{0}")]
    Settings(String),
}

impl LoadError {
    /// A refusal because of the header.
    pub fn model(why: impl Into<String>) -> Self {
        Self::Model(why.into())
    }

    /// A refusal because of the settings.
    pub fn settings(why: impl Into<String>) -> Self {
        Self::Settings(why.into())
    }
}

impl From<LoadError> for EngineError {
    fn from(refusal: LoadError) -> Self {
        match refusal {
            LoadError::Model(why) => Self::Model(why),
            LoadError::Settings(why) => Self::Settings(why),
        }
    }
}
