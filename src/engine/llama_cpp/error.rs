//! Why llama.cpp would not load a model, or not with these settings.

use crate::engine::id::EngineError;

/// A refusal, and whose fault it is.
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
    /// The header is at fault.
    pub const fn model(why: String) -> Self {
        Self::Model(why)
    }

    /// The settings are at fault.
    pub const fn settings(why: String) -> Self {
        Self::Settings(why)
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
