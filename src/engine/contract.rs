//! What an engine is.

use std::borrow::Cow;

use super::admission::Admission;
use super::error::EngineError;
use super::goal::FitGoal;
use super::launch::{Launch, ServerStarts};
use super::llama_cpp::ResolvedRequest;
use super::plan_request::RequestParts;
use super::preflight::Preflight;
use crate::model::Model;
use crate::plan::{Plan, PlanSummary};
use crate::settings::Settings;
use crate::settings::knob::Knob;

/// Decides how a model's layers are placed on a machine.
pub trait Engine: Sync {
    /// Places the model: its plan, to which [`Engine::explain`] has not been asked yet to add; none where the goal is not
    /// met and the layers were not placed, which is never so if it is [`FitGoal::Most`].
    ///
    /// # Errors
    /// When the header lacks a required key, or the engine refuses the settings.
    fn place(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError>;

    /// The plan with every figure, but for what [`Engine::explain`] adds.
    ///
    /// # Errors
    /// As [`Engine::place`].
    #[expect(clippy::expect_used, reason = "as many layers as possible are always placed")]
    fn trial(&self, request: RequestParts<'_>) -> Result<Plan, EngineError> {
        self.place(request, FitGoal::Most).map(|placed| placed.expect("as many layers as possible are always placed"))
    }

    /// Adds to a plan that it placed for `request` what is left to say of it. No figure changes, and it may take as long as
    /// placing did.
    fn explain(&self, _request: RequestParts<'_>, _plan: &mut Plan) {}

    /// Plans the request.
    ///
    /// # Errors
    /// As [`Engine::place`].
    fn plan(&self, request: RequestParts<'_>) -> Result<Plan, EngineError> {
        let mut plan = self.trial(request)?;
        self.explain(request, &mut plan);
        Ok(plan)
    }

    /// The plan without its explanations; none where the goal is not met and the layers were not placed.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn summary(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
        self.place(request, fit_goal).map(|placed| placed.as_ref().map(PlanSummary::of))
    }

    /// An upper bound known before planning; none from an engine whose plans are as cheap as the bound.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn preflight(&self, _: RequestParts<'_>) -> Result<Option<Preflight>, EngineError> {
        Ok(None)
    }

    /// Whether the model can be loaded on the machine, whose free memory excludes what loaded models use.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError>;

    /// Values of `knob` after which the engine's own rules change, so that the memory needed may jump or drop there.
    fn rule_edges(&self, _knob: Knob, _settings: &Settings) -> Vec<u64> {
        Vec::new()
    }

    /// The file that it loads for `model` with these settings.
    fn loads<'m>(&self, model: &'m Model, _settings: &Settings) -> Cow<'m, Model> {
        Cow::Borrowed(model)
    }
}

/// An engine that runs llama.cpp, which builds a graph and reserves its buffers.
pub trait RunsLlamaCpp: Sync {
    /// How it would start llama-server for this plan.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn launch(&self, request: RequestParts<'_>) -> Result<Launch, EngineError>;

    /// The starts of llama-server with nothing else loaded, of which the first `failures` run out of memory; none from
    /// llama-server itself.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn starts(&self, _: RequestParts<'_>, _failures: usize) -> Result<Option<ServerStarts>, EngineError> {
        Ok(None)
    }

    /// The request to llama.cpp.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn resolve(&self, request: RequestParts<'_>) -> Result<ResolvedRequest, EngineError>;
}
