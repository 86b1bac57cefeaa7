//! What every JSON object begins with that is printed.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{EngineId, EngineVersion};
use crate::model::ModelSummary;
use crate::model::mixture::ExactAfter;
use crate::plan::{Confidence, Plan};
use crate::settings::{Release, Settings};

/// The number of the promise on JSON.
const SCHEMA: u32 = 1;

/// The program, and its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Head {
    /// The version of plimsoll.
    plimsoll: &'static str,
    /// The number of the promise: within one, keys are only added, never removed, and none changes its meaning.
    schema: u32,
}

impl Head {
    /// That of this program.
    pub const THIS: Self = Self { plimsoll: env!("CARGO_PKG_VERSION"), schema: SCHEMA };
}

/// The head of an answer about no model or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct AnswerSource {
    #[serde(flatten)]
    head: Head,
    /// The engine that planned.
    engine: &'static str,
    #[serde(skip)]
    title: &'static str,
    /// The release of llama.cpp; null for an engine that does not run it.
    release: Option<Release>,
    /// How sure the figures are; null where each model says it, or nothing was planned.
    confidence: Option<Confidence>,
    /// Null, as there is not one model.
    model: (),
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
    /// The source with `engine`, in the release that `settings` choose.
    pub fn of_engine(engine: EngineId, settings: &Settings, confidence: Option<Confidence>) -> Self {
        let release = EngineVersion::of(engine, settings).release;
        Self { head: Head::THIS, engine: engine.name(), title: engine.title(), release, confidence, model: () }
    }
}

/// The head of an answer about one model.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct PlanSource<'a> {
    #[serde(flatten)]
    head: Head,
    /// The engine that planned.
    engine: &'static str,
    /// The release of llama.cpp; null for an engine that does not run it.
    release: Option<Release>,
    /// How sure the figures are.
    confidence: Confidence,
    #[serde(flatten)]
    source: &'a ModelSource,
    /// The model.
    model: &'a ModelSummary,
}

impl<'a> PlanSource<'a> {
    /// That of an answer about `plan`, of a model that was read from `source`.
    pub const fn of(plan: &'a Plan, source: &'a ModelSource) -> Self {
        let Plan { engine, confidence, model, settings, .. } = plan;
        Self {
            head: Head::THIS,
            engine: engine.name(),
            release: settings.release,
            confidence: *confidence,
            source,
            model,
        }
    }
}

/// Where a model was read.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ModelSource {
    /// Which source answered, as in lists: `catalogue`; null where only the plan is known.
    pub source: Option<&'static str>,
    /// The reference that opens the same model again; null likewise.
    pub reference: Option<String>,
    /// What its weights would be exact after; null if they are exact.
    pub exact_after: Option<ExactAfter>,
}

impl ModelSource {
    /// Where nothing is known of it.
    pub const UNKNOWN: Self = Self { source: None, reference: None, exact_after: None };
}
