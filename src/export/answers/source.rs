//! The engine that an answer comes from.

use std::fmt;

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::engine::{EngineId, EngineVersion};
use crate::plan::{Confidence, Plan};
use crate::settings::{Release, Settings};

/// The engine, its release, and the confidence of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerSource {
    engine: &'static str,
    #[serde(skip)]
    title: &'static str,
    release: Option<Release>,
    confidence: Option<Confidence>,
}

/// `Ollama ≥ 0.30, release 2026-11 · exact`
impl fmt::Display for AnswerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        if let Some(release) = self.release {
            write!(f, ", release {release}")?;
        }
        match self.confidence {
            Some(confidence) => write!(f, " · {confidence}"),
            None => Ok(()),
        }
    }
}

impl AnswerSource {
    /// The source of `plan`.
    pub const fn of(plan: &Plan) -> Self {
        Self {
            engine: plan.engine.name(),
            title: plan.engine.title(),
            release: plan.settings.release,
            confidence: Some(plan.confidence),
        }
    }

    /// The source of answers to `request`; no confidence if it has no plan.
    pub fn of_request(request: &PlanRequest) -> Self {
        Self::of_engine(request.engine, &request.settings, request.plan().ok().map(|plan| plan.confidence))
    }

    /// The source with `engine`, in the release that `settings` choose.
    pub fn of_engine(engine: EngineId, settings: &Settings, confidence: Option<Confidence>) -> Self {
        let release = EngineVersion::of(engine, settings).release;
        Self { engine: engine.name(), title: engine.title(), release, confidence }
    }
}
