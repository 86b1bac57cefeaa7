//! Why an engine cannot make a plan.

/// Why an engine cannot make a plan. (A model that does not fit has a plan, whose verdict reports that.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model's header lacks what this engine needs; exit status 3.
    #[error("{0}")]
    Model(String),
    /// The engine refuses these settings; exit status 2.
    #[error("{0}")]
    Settings(String),
}
