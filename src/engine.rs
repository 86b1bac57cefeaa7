//! The engines: each decides how a model's layers are placed on a machine. An engine is a pure function of model,
//! machine and settings; it reads no clock, file, environment or terminal.
//!
//! To add an engine: a line in `settings/engine.rs`, a folder with an implementation of [`Engine`], and a line in [`of`].
//! The compiler or a test reports whatever else is missing.
//!
//! ```
//! use plimsoll::engine::{EngineId, PlanRequest};
//! # use plimsoll::machine::Machine;
//! # use plimsoll::settings::Settings;
//! # use plimsoll::catalogue;
//! # let (model, _) = catalogue::model_and_projector("qwen3-8b").ok_or("no such model")?;
//! # let machine = Machine::described(&["RTX 3060"], "32GiB")?;
//! let by_ollama = PlanRequest::new(EngineId::Ollama, model, machine, Settings::default());
//! let by_llama_server = PlanRequest { engine: EngineId::LlamaCpp, ..by_ollama.clone() };
//! assert!(by_ollama.plan()?.settings.ctx < by_llama_server.plan()?.settings.ctx);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
pub mod backend;
mod compared;
mod contract;
mod error;
pub mod estimator;
mod facts;
#[cfg(test)]
mod fixtures;
pub mod ggml;
mod goal;
mod knobs;
mod launch;
pub mod llama_cpp;
pub mod mlx;
pub mod ollama;
mod plan_request;
mod preflight;
mod request;
mod version;

use crate::machine::Machine;
use crate::plan::{DevicePlan, Plan, PlanSummary};
use crate::settings::knob::{Bounds, Knob};
use crate::settings::{Context, Settings, Turn};
use estimator::Estimator;
use llama_cpp::ResolvedRequest;

pub use crate::settings::EngineId;
pub use admission::Admission;
pub use contract::{Engine, RunsLlamaCpp};
pub use error::EngineError;
pub use estimator::formulas;
pub use facts::{EngineFacts, ReserveSetting};
pub use goal::FitGoal;
pub use knobs::{KnobCondition, KnobContext};
pub use launch::{CountedDevice, Launch, ServerCommand, ServerStart, ServerStarts};
pub use llama_cpp::{DraftFile, PreparedModel};
pub use plan_request::{PlanRequest, RequestParts};
pub use preflight::{Preflight, UpperBound};
pub use version::EngineVersion;

/// The engine with this identifier.
pub fn of(engine: EngineId) -> &'static dyn Engine {
    match engine {
        EngineId::Ollama => &ollama::Ollama,
        EngineId::LlamaCpp => &llama_cpp::LlamaCpp,
        EngineId::Mlx => &mlx::Mlx,
        EngineId::Ollama024 => &estimator::OLLAMA_024,
        EngineId::Ollama011 => &estimator::OLLAMA_011,
    }
}

/// The same, if it runs llama.cpp.
pub fn running_llama_cpp(engine: EngineId) -> Option<&'static dyn RunsLlamaCpp> {
    match engine {
        EngineId::Ollama => Some(&ollama::Ollama),
        EngineId::LlamaCpp => Some(&llama_cpp::LlamaCpp),
        EngineId::Mlx | EngineId::Ollama024 | EngineId::Ollama011 => None,
    }
}

/// The same, if it estimates.
pub const fn estimating(engine: EngineId) -> Option<&'static Estimator> {
    match engine {
        EngineId::Ollama | EngineId::LlamaCpp | EngineId::Mlx => None,
        EngineId::Ollama024 => Some(&estimator::OLLAMA_024),
        EngineId::Ollama011 => Some(&estimator::OLLAMA_011),
    }
}

impl PlanRequest {
    /// Its engine, if that runs llama.cpp for this model: Ollama runs what is stored as safetensors otherwise.
    fn llama_cpp_engine(&self) -> Option<&'static dyn RunsLlamaCpp> {
        running_llama_cpp(self.engine).filter(|_| self.model.mlx.is_none())
    }

    /// Plans the request.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn plan(&self) -> Result<Plan, EngineError> {
        plan(self.engine, &self.model, &self.machine, &self.settings)
    }

    /// The plan with every figure, for a search that makes many: [`PlanRequest::explained`] says the rest.
    ///
    /// # Errors
    /// As [`Engine::place`].
    pub fn trial(&self) -> Result<Plan, EngineError> {
        Ok(with_own_settings(of(self.engine).trial(self.parts())?, self.engine, self.parts()))
    }

    /// The trial if it is placed with a goal in mind; none where that is not met and the layers were not placed.
    ///
    /// # Errors
    /// As [`Engine::place`].
    pub fn trial_for(&self, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError> {
        let placed = of(self.engine).place(self.parts(), fit_goal)?;
        Ok(placed.map(|placed| with_own_settings(placed, self.engine, self.parts())))
    }

    /// The plan of which `trial` is this request's trial.
    #[must_use]
    pub fn explained(&self, mut trial: Plan) -> Plan {
        of(self.engine).explain(self.parts(), &mut trial);
        trial
    }

    /// The plan without its explanations; none where the goal is not met and the layers were not placed.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn summary(&self, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
        let mut summary = of(self.engine).summary(self.parts(), fit_goal)?;
        if let Some(summary) = &mut summary {
            keep_ram(&mut summary.devices, self.parts());
        }
        Ok(summary)
    }

    /// An upper bound known before planning.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn preflight(&self) -> Result<Option<Preflight>, EngineError> {
        of(self.engine).preflight(self.parts())
    }

    /// How its engine would start llama-server; none from one that estimates.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn launch(&self) -> Result<Option<Launch>, EngineError> {
        self.llama_cpp_engine().map(|engine| engine.launch(self.parts())).transpose()
    }

    /// The starts of llama-server until one succeeds, or is given up; none from an engine that starts none.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn starts(&self) -> Result<Option<ServerStarts>, EngineError> {
        let Some(engine) = self.llama_cpp_engine() else { return Ok(None) };
        let failures = engine.launch(self.parts())?.failures;
        engine.starts(self.parts(), failures)
    }

    /// The request to llama.cpp; none from an engine that estimates.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn resolved(&self) -> Result<Option<ResolvedRequest>, EngineError> {
        self.llama_cpp_engine().map(|engine| engine.resolve(self.parts())).transpose()
    }

    /// The same with what a fit of llama.cpp decides set, so that it decides the same whatever is free; none from an
    /// engine that does not run llama.cpp.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn pinned(&self) -> Result<Option<Self>, EngineError> {
        let Some(resolved) = self.resolved()? else { return Ok(None) };
        // Ollama has chosen a context before, and other programs than llama-server have some of their own
        let asked = match self.launch()? {
            Some(Launch { options, command: Some(_), .. }) => options,
            _ => self.settings.as_program(),
        };
        let pinned = resolved.pinned(&self.settings, &asked, self.model.draft().is_some())?;
        Ok(Some(self.with(pinned)))
    }

    /// The settings with the names that llama-server has for devices.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn by_server_names(&self) -> Result<Settings, EngineError> {
        let Self { machine, settings, .. } = self;
        let every = |machine: &Machine| (0..machine.gpus.len()).collect::<Vec<_>>();
        if !self.engine.facts().starts_llama_server || !settings.names_devices() {
            return Ok(settings.by_own_names(machine, &every(machine)));
        }
        // Ollama shows it some of them
        let Some(launch) = self.launch()? else { return Ok(settings.clone()) };
        let visible = launch.machine(machine);
        let Settings { devices, override_tensor, .. } = launch.options.by_own_names(&visible, &every(&visible));
        Ok(Settings { devices, override_tensor, ..settings.clone() })
    }

    /// The knobs that the engine offers for this model on this machine, in screen order.
    pub fn knobs(&self) -> Vec<Knob> {
        let context = KnobContext {
            model: Some(&self.model),
            machine: &self.machine,
            settings: &self.settings,
            two_cache_types: false,
        };
        self.engine.facts().knobs(&context)
    }

    /// The bounds of the knobs' ranges that depend on the model.
    pub fn bounds(&self) -> Bounds {
        let hyper = &self.model.hyper;
        let layer_count = self.model.block_count() as u64 + 1;
        Bounds {
            context_train: hyper.context_train,
            context: match self.settings.ctx {
                Context::Tokens(tokens) => tokens,
                Context::Auto | Context::Max => 0,
            },
            layer_count,
            experts: hyper.experts.is_some(),
            draft: self.model.drafts_by(),
        }
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
    let request = RequestParts { model, machine, settings };
    let mut plan = with_own_settings(of(engine).trial(request)?, engine, request);
    of(engine).explain(request, &mut plan);
    Ok(plan)
}

/// A plan as its engine placed it, with what no engine decides.
fn with_own_settings(mut placed: Plan, engine: EngineId, request: RequestParts<'_>) -> Plan {
    let settings = request.settings;
    placed.settings.turn = Turn::asked(settings);
    placed.settings.no_op_offload = engine == EngineId::LlamaCpp && settings.no_op_offload;
    keep_ram(&mut placed.devices, request);
    placed
}

/// Notes what of RAM is kept for the system.
fn keep_ram(devices: &mut [DevicePlan], RequestParts { machine, settings, .. }: RequestParts<'_>) {
    if let Some(cpu) = devices.last_mut() {
        cpu.ram.kept = settings.kept_ram(machine.ram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine with only the required methods.
    struct Minimal;

    impl Engine for Minimal {
        fn place(&self, request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError> {
            estimator::OLLAMA_024.place(request, fit_goal)
        }

        fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError> {
            self.plan(request).map(Admission::load)
        }
    }

    #[test]
    fn plan_and_admit_are_enough_for_an_engine() {
        let (model, machine, settings) =
            (PreparedModel::from(fixtures::model("llama", &[])), fixtures::card(), Settings::default());
        let request = RequestParts { model: &model, machine: &machine, settings: &settings };
        let plan = Minimal.plan(request).unwrap();
        assert_eq!(Minimal.summary(request, FitGoal::Most), Ok(Some(PlanSummary::of(&plan))));
        assert!(Minimal.rule_edges(Knob::Context, &settings).is_empty());
    }

    #[test]
    fn no_engine_plans_for_more_gpus_than_a_machine_has() {
        let (model, mut machine, settings) =
            (PreparedModel::from(fixtures::model("llama", &[])), fixtures::card(), Settings::default());
        let card = machine.gpus[0].clone();
        machine.gpus = vec![card; crate::machine::MAX_GPUS + 1];
        let request = RequestParts { model: &model, machine: &machine, settings: &settings };
        // llama.cpp reads the model first, which needs a header with more
        for engine in EngineId::ALL.into_iter().filter(|engine| engine.facts().is_ollama) {
            let engine = of(engine);
            let refusals =
                [engine.plan(request).err(), engine.summary(request, FitGoal::Most).err(), engine.admit(request).err()];
            for refusal in refusals {
                let said = refusal.unwrap().to_string();
                assert!(said.contains("at most 254 GPUs, and these are 255"), "{said}");
            }
        }
    }

    #[test]
    fn facts_agree_with_plans() {
        let (model, machine, settings) =
            (PreparedModel::from(fixtures::model("llama", &[])), fixtures::card(), Settings::default());
        for engine in EngineId::ALL {
            let facts = engine.facts();
            let (estimates, runs) = (estimating(engine).is_some(), running_llama_cpp(engine).is_some());
            assert_eq!(runs, !facts.releases.is_empty(), "{engine}: it runs llama.cpp, or it has no releases of it");
            assert!(!(estimates && runs), "{engine}");
            assert!(!facts.starts_llama_server || facts.is_ollama, "{engine}");
            // llama.cpp cannot read a model without tensors
            if let Ok(plan) = plan(engine, &model, &machine, &settings) {
                assert_eq!(plan.engine, engine, "a plan says whose it is");
                assert!(estimating(engine).is_none_or(|engine| engine.formulas(&model, &plan).is_ok()), "{engine}");
            }
        }
    }
}
