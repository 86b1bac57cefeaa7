//! A plan for llama-server: from its options to the model as placed, and to the plan of it.

use super::explained::PlanBuilder;
use super::lower_bound::LowerBound;
use super::placed_model::PlacedModel;
use super::server_params::{ServerParams, in_effect};

use super::cache::Memory;
use super::context::{ContextParams, Cparams};
use super::loaded::LoadedModel;
use super::measure::{MeasuredGraphs, Measurer};
use super::placement::LayerSplit;
use super::prepared::PreparedModel;
use super::release::{Change, ReleaseTraits, RulesRead};
use super::resolved::ResolvedRequest;
use crate::engine::error::EngineError;
use crate::engine::goal::FitGoal;
use crate::engine::plan_request::RequestParts;
use crate::engine::preflight::Preflight;
use crate::plan::{Confidence, Plan, PlanSummary, Uncertainty};
use crate::settings::{Build, FlashAttn, Settings};

/// Plans a request, but for what [`UnderWay`] may add; none if the goal is not met and the fit stopped.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn place(request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<Plan>, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    placed(request, loaded, fit_goal, |placed, measurer, graphs| {
        let plan = |placed| PlanBuilder { model: request.model, placed, details: measurer.details(graphs) }.plan();
        (!placed.fitted.missed).then(|| plan(placed))
    })
}

/// Plans a request.
///
/// # Errors
/// As [`place`].
pub fn plan(request: RequestParts<'_>) -> Result<Plan, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    let mut plan = placed(request, loaded, FitGoal::Most, |placed, measurer, graphs| {
        PlanBuilder { model: request.model, placed, details: measurer.details(graphs) }.plan()
    })?;
    plan.doubt(UnderWay::of(request).and_then(|under_way| under_way.doubt(&plan, request)));
    Ok(plan)
}

/// Changes of llama.cpp that a build may have already, and is planned without.
pub struct UnderWay<'a> {
    build: Build,
    changes: Vec<Change>,
    /// The model as loaded with them.
    then: Result<&'a LoadedModel, EngineError>,
}

impl<'a> UnderWay<'a> {
    /// Those that may move the plan of a request.
    pub fn of(request: RequestParts<'a>) -> Option<Self> {
        let build = request.settings.llama_cpp_build();
        let later = ReleaseTraits::once_changed(build)?;
        let loaded = request.model.llama_cpp(build).ok()?;
        let read = RulesRead::of(request.machine, request.settings);
        let changes = later.load_builder(build, loaded.family.architecture, read);
        (!changes.is_empty()).then(|| Self { build, changes, then: request.model.loaded_by(later) })
    }

    /// Why `plan`, of `request`, is not exact, if it is another plan with the changes.
    pub fn doubt(self, plan: &Plan, request: RequestParts<'_>) -> Option<Uncertainty> {
        self.doubt_if(plan, |loaded| summary_as(request, loaded, FitGoal::Most))
    }

    /// The same if `summary`, of the model as loaded with the changes, is of another plan.
    pub fn doubt_if(
        self,
        plan: &Plan,
        summary: impl FnOnce(&'a LoadedModel) -> Result<Option<PlanSummary>, EngineError>,
    ) -> Option<Uncertainty> {
        let Self { build, changes, then } = self;
        if then.and_then(summary).is_ok_and(|then| then.is_some_and(|then| then.is_of(plan))) {
            return None;
        }
        let changed = |change: Change| {
            let (old, new) = change.builds();
            format!("{} changed between {old} and {new}", change.what())
        };
        let changes = changes.into_iter().map(changed).collect::<Vec<_>>().join(", ");
        let reason = format!("llama.cpp {build} is planned without what it may have already: {changes}");
        Some(Uncertainty { confidence: Confidence::Modelled, reason })
    }
}

/// The plan without its explanations; none if the goal is not met and the fit stopped.
///
/// # Errors
/// As [`place`].
pub fn summary(request: RequestParts<'_>, fit_goal: FitGoal) -> Result<Option<PlanSummary>, EngineError> {
    summary_as(request, request.model.llama_cpp(request.settings.llama_cpp_build())?, fit_goal)
}

/// The same of the model as `loaded`.
///
/// # Errors
/// When llama.cpp refuses the settings.
pub fn summary_as(
    request: RequestParts<'_>,
    loaded: &LoadedModel,
    fit_goal: FitGoal,
) -> Result<Option<PlanSummary>, EngineError> {
    placed(request, loaded, fit_goal, |placed, _, _| (!placed.fitted.missed).then(|| placed.summary()))
}

/// An upper bound known before planning.
///
/// # Errors
/// As [`place`].
pub fn preflight(RequestParts { model, machine, settings }: RequestParts<'_>) -> Result<Preflight, EngineError> {
    let loaded = model.llama_cpp(settings.llama_cpp_build())?;
    // a bound needs no projector, which takes as long to measure as a model
    let mut params = ServerParams::without_projector(model, loaded, machine, settings)?;
    if params.options.n_ctx == 0 {
        params.options.n_ctx = params.limits.min_context(loaded, &params.options);
    }
    let context = Cparams::new(&params.options, loaded)?;
    let gpus = (0..machine.gpus.len()).map(|gpu| params.gpus.contains(&gpu)).collect();
    let upper_bound = LowerBound { loaded, params: &params, context: &context, machine }.upper_bound();
    Ok(Preflight { settings: in_effect(&context, &params, loaded, settings), gpus, upper_bound, refused: false })
}

/// The request to llama.cpp after the fit.
///
/// # Errors
/// As [`place`].
pub fn resolve(request: RequestParts<'_>) -> Result<ResolvedRequest, EngineError> {
    let loaded = request.model.llama_cpp(request.settings.llama_cpp_build())?;
    placed(request, loaded, FitGoal::Most, |PlacedModel { loaded, params, .. }, _, _| {
        let ServerParams { gpus, devices, spread, options, .. } = params;
        ResolvedRequest { loaded: loaded.clone(), gpus, devices, spread, options }
    })
}

/// What `then` makes of the model, as `loaded` and placed by the fit, and of the graphs of its load.
fn placed<'a, T>(
    request: RequestParts<'a>,
    loaded: &'a LoadedModel,
    fit_goal: FitGoal,
    then: impl FnOnce(PlacedModel<'a>, &Measurer<'_>, MeasuredGraphs) -> T,
) -> Result<T, EngineError> {
    let RequestParts { model, machine, settings } = request;
    let params = ServerParams::new(model, loaded, machine, settings)?;
    let devices = params.devices.clone();
    let measurer = Measurer::new(loaded, &devices);
    let (placed, graphs) = PlacedModel::new(request, loaded, &measurer, params, fit_goal)?;
    Ok(then(placed, &measurer, graphs))
}

/// The caches of `plan`, which is a plan of `model`, and their shapes. Their devices are in the plan.
///
/// # Errors
/// When llama.cpp cannot read the model or refuses the settings.
pub fn cache_layout(model: &PreparedModel, plan: &Plan, settings: &Settings) -> Result<Memory, EngineError> {
    let effect = &plan.settings;
    let loaded = model.llama_cpp(effect.llama_cpp_build())?;
    let options = ContextParams {
        n_ctx: effect.ctx_total,
        n_batch: effect.batch,
        n_ubatch: effect.ubatch,
        n_seq_max: effect.parallel,
        type_k: effect.cache_type_k.format(),
        type_v: effect.cache_type_v.format(),
        flash_attn: match plan.v_transposed {
            Some(true) => FlashAttn::Off,
            Some(false) => FlashAttn::On,
            None => effect.flash_attn,
        },
        kv_unified: effect.kv_unified.unwrap_or(false),
        swa_full: settings.swa_full,
        ..ContextParams::default()
    };
    let placement = loaded.place(&[], &LayerSplit::default());
    Ok(Measurer::new(loaded, &[]).memory(&placement, &options)?)
}
