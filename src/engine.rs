//! Who decides where things go. An engine is a pure function of a model, a machine and settings:
//! no clock, no file, no environment, no terminal.
//!
//! To add one: its line in [`id`], its folder with an [`Engine`] in it, and its line in [`of`]. What else it lacks, the
//! compiler says.

mod admission;
pub mod backend;
mod facts;
#[cfg(test)]
mod fixtures;
pub mod ggml;
mod graph_size;
pub mod id;
mod knobs;
pub mod kvcache;
mod layout;
pub mod llama_cpp;
mod ollama;
pub mod ollama_011;
pub mod ollama_024;
mod plan_request;
mod preflight;
mod prepared;
mod request;
mod version;

use crate::gguf::Tensor;
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::{OwnCaches, Plan, PlanSummary};
use crate::settings::knob::{Bounds, Knob};
use crate::settings::{InEffect, Settings};
use formulas::PlanFormulas;
use llama_cpp::resolved::ResolvedRequest;

pub use admission::Admission;
pub use facts::{EngineFacts, ReserveSetting};
pub use graph_size::formulas;
pub use id::{EngineError, EngineId, FitGoal, Launch};
pub use knobs::{KnobCondition, KnobContext};
pub use plan_request::PlanRequest;
pub use preflight::{Preflight, UpperBound};
pub use prepared::PreparedModel;
pub use version::EngineVersion;

/// Who decides where things go.
pub trait Engine: Sync {
    /// What is true of it whatever the model.
    fn facts(&self) -> &'static EngineFacts;

    /// Plans `model` on `machine` as it would.
    ///
    /// # Errors
    /// When the header lacks a key that it cannot do without, or it refuses the settings.
    fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError>;

    /// What the plan comes to, without the explanations that make a plan.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn summary(
        &self,
        model: &PreparedModel,
        machine: &Machine,
        settings: &Settings,
        _fit_goal: FitGoal,
    ) -> Result<PlanSummary, EngineError> {
        self.plan(model, machine, settings).map(|plan| PlanSummary::of(&plan))
    }

    /// What is certain of the plan before it is made; none from an engine that is as quick to plan.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn preflight(&self, _: &PreparedModel, _: &Machine, _: &Settings) -> Result<Option<Preflight>, EngineError> {
        Ok(None)
    }

    /// What it does with `model` on `machine`, which has free what the models that are loaded have left.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn admit(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Admission, EngineError>;

    /// How it would start llama-server for this plan; none where it does not.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn launch(&self, _: &PreparedModel, _: &Machine, _: &Settings) -> Result<Option<Launch>, EngineError> {
        Ok(None)
    }

    /// What it asks of llama.cpp, which builds the graph and reserves its buffers; none for an engine that estimates.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn resolve(&self, _: &PreparedModel, _: &Machine, _: &Settings) -> Result<Option<ResolvedRequest>, EngineError> {
        Ok(None)
    }

    /// Values of `knob` after which its own rules ask for something else, so that the need may jump or fall there.
    fn rule_edges(&self, _knob: Knob, _settings: &Settings) -> Vec<u64> {
        Vec::new()
    }

    /// The formulas that `plan`, which is one of `model`, was made by; none where it has none.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    fn formulas(&self, _model: &Model, _plan: &Plan) -> Result<Option<PlanFormulas>, EngineError> {
        Ok(None)
    }

    /// Bytes of a tensor as it counts them.
    fn tensor_bytes(&self, tensor: &Tensor) -> u64 {
        tensor.bytes.0
    }

    /// What the Ollama engine of its time would allocate for `model` with the knobs in effect, whether it requires that
    /// engine or not.
    ///
    /// # Errors
    /// When the header lacks a key that Ollama cannot do without.
    fn own_caches(&self, model: &Model, effect: &InEffect) -> Result<OwnCaches, EngineError> {
        kvcache::of(graph_size::OllamaRelease::May2026, model, effect)
    }
}

/// The engine of that name.
pub fn of(engine: EngineId) -> &'static dyn Engine {
    match engine {
        EngineId::Ollama => &ollama::engine::Ollama,
        EngineId::LlamaCpp => &llama_cpp::engine::LlamaCpp,
        EngineId::Ollama024 => &ollama_024::engine::Ollama024,
        EngineId::Ollama011 => &ollama_011::engine::Ollama011,
    }
}

impl EngineId {
    /// What is true of the engine whatever the model.
    pub fn facts(self) -> &'static EngineFacts {
        of(self).facts()
    }
}

impl PlanRequest {
    /// Asks the engine.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn plan(&self) -> Result<Plan, EngineError> {
        of(self.engine).plan(&self.model, &self.machine, &self.settings)
    }

    /// What the plan comes to.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn summary(&self, fit_goal: FitGoal) -> Result<PlanSummary, EngineError> {
        of(self.engine).summary(&self.model, &self.machine, &self.settings, fit_goal)
    }

    /// What is certain of the plan beforehand.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn preflight(&self) -> Result<Option<Preflight>, EngineError> {
        of(self.engine).preflight(&self.model, &self.machine, &self.settings)
    }

    /// The knobs that the engine offers for this model on this machine, in the order of the screen.
    pub fn knobs(&self) -> Vec<Knob> {
        let scene = KnobContext { model: Some(&self.model), machine: &self.machine, raw: self.settings.raw };
        self.engine.facts().knobs(&scene)
    }

    /// The ends of the knobs' ranges, which the model sets.
    pub fn bounds(&self) -> Bounds {
        let hyper = &self.model.hyper;
        let layer_count = self.model.block_count() as u64 + 1;
        Bounds { context_train: hyper.context_train, layer_count, experts: hyper.experts.is_some() }
    }
}

/// Plans `model` on `machine` as `engine` would.
///
/// # Errors
/// As [`Engine::plan`].
pub fn plan(
    engine: EngineId,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Plan, EngineError> {
    of(engine).plan(model, machine, settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    /// One that says the least that an engine must say.
    struct Small;

    impl Engine for Small {
        fn facts(&self) -> &'static EngineFacts {
            &ollama_024::facts::FACTS
        }

        fn plan(&self, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
            ollama_024::plan(model, machine, settings)
        }

        fn admit(
            &self,
            model: &PreparedModel,
            machine: &Machine,
            settings: &Settings,
        ) -> Result<Admission, EngineError> {
            self.plan(model, machine, settings).map(Admission::welcome)
        }
    }

    #[test]
    fn an_engine_needs_facts_plans_and_admission_and_has_the_rest_by_itself() {
        let (model, machine, settings) =
            (PreparedModel::from(fixtures::model("llama", &[])), fixtures::card(), Settings::default());
        let plan = Small.plan(&model, &machine, &settings).unwrap();
        assert_eq!(Small.summary(&model, &machine, &settings, FitGoal::Most), Ok(PlanSummary::of(&plan)));
        assert_eq!(Small.launch(&model, &machine, &settings), Ok(None));
        assert!(Small.resolve(&model, &machine, &settings).unwrap().is_none());
        assert!(Small.formulas(&model, &plan).unwrap().is_none());
        assert!(Small.rule_edges(Knob::Context, &settings).is_empty());
        assert!(Small.own_caches(&model, &plan.settings).unwrap().bytes > Bytes::ZERO);
    }

    #[test]
    fn what_every_engine_says_of_itself_agrees() {
        let (model, machine, settings) =
            (PreparedModel::from(fixtures::model("llama", &[])), fixtures::card(), Settings::default());
        for engine in EngineId::ALL {
            let facts = engine.facts();
            let place = |knob: Knob| Knob::ALL.iter().position(|&other| other == knob);
            assert!(
                facts.offered_knobs.is_sorted_by_key(|(knob, _)| place(*knob)),
                "{engine}: the order of the screen"
            );
            assert_eq!(facts.estimates, facts.releases.is_empty(), "{engine}: it estimates, or it runs llama.cpp");
            assert!(!facts.starts_llama_server || facts.is_ollama, "{engine}");
            // llama.cpp cannot read a model without tensors
            if let Ok(plan) = of(engine).plan(&model, &machine, &settings) {
                assert_eq!(plan.engine, engine, "a plan says whose it is");
                assert_eq!(of(engine).formulas(&model, &plan).unwrap().is_some(), facts.estimates, "{engine}");
            }
        }
    }
}
