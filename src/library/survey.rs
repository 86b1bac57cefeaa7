//! Plans many models for one machine.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Item, ModelOrigin};
use crate::answer::FitSummary;
use crate::answer::best::{BestRequest, DEFAULT_MARGIN, Minimums};
use crate::engine::EngineId;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::model::mixture::{ExactAfter, Quantisation};
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{Context, Settings};
use crate::source::{Package, Roots};

/// The request for every model.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyRequest {
    /// The engine.
    pub engine: EngineId,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The knobs; each model's tag parameters are added under what the user gives.
    pub settings: Settings,
    /// Convert every model to this quantisation; without it, models of the catalogue are planned in the one that is
    /// best for the machine, or else in their usual one.
    pub quant: Option<Quantisation>,
    /// The narrowest types that are chosen.
    pub minimums: Minimums,
}

impl SurveyRequest {
    /// Tokens in the cache for which speeds are said: the context that models are judged by, or none.
    pub const fn depth(&self) -> u64 {
        match self.settings.ctx {
            Context::Tokens(tokens) => tokens,
            Context::Auto | Context::Max => 0,
        }
    }

    /// The request for the model of an item.
    fn request(&self, item: &Item, package: Package) -> Result<PlanRequest, String> {
        // what can be made of original weights is an item for each type
        let package = match self.quant.filter(|_| !item.is_of_original()) {
            Some(to) => package.quantised(to).map_err(|error| error.to_string())?,
            None if self.engine.facts().runs_gguf => package,
            None => package.for_mlx().map_err(|error| error.to_string())?,
        };
        let mut settings = self.settings.clone();
        package.apply_to(&mut settings);
        // each model is listed with a program that runs it
        let engine = if package.model.is_of_mlx_alone() { EngineId::Mlx } else { self.engine };
        Ok(PlanRequest::new(engine, package.model, Arc::clone(&self.machine), settings))
    }

    /// The request that `plan`, the plan of an item, answers; none if the item cannot be opened any more.
    pub fn request_of(&self, item: &Item, plan: &Plan) -> Option<PlanRequest> {
        let request = self.request(item, item.known()?).ok()?;
        match plan.model.file_type.as_deref() {
            Some(name) if item.reference_in(Some(plan)) != item.reference => {
                request.quantised(name.parse::<Quantisation>().ok()?)
            }
            _ => Some(request),
        }
    }
}

/// The result for a model so far.
#[derive(Clone, Debug)]
pub enum ModelStatus {
    /// Nothing yet.
    Pending,
    /// Its plan and fit summary.
    Complete(Arc<Plan>, FitSummary),
    /// Why it has no plan.
    Failed(String),
}

impl ModelStatus {
    /// The plan, if available.
    pub const fn plan(&self) -> Option<&Arc<Plan>> {
        match self {
            Self::Complete(plan, _) => Some(plan),
            Self::Pending | Self::Failed(_) => None,
        }
    }

    /// The fit summary, if available.
    pub const fn fit_summary(&self) -> Option<&FitSummary> {
        if let Self::Complete(_, summary) = self { Some(summary) } else { None }
    }

    /// Whether more results follow.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

/// Plans all `items` in order on all cores. `report` is called on the worker threads with each item's index and status,
/// and returns whether to go on.
pub fn survey(
    items: &[Arc<Item>],
    question: &SurveyRequest,
    roots: &Roots,
    report: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
) {
    on_all_cores(items.len(), &|index| {
        items.get(index).is_some_and(|item| report(index, plan_item(item, question, roots)))
    });
}

/// Calls `work` for `0..turns` in order on all cores, each thread until a call returns false.
fn on_all_cores(turns: usize, work: &(dyn Fn(usize) -> bool + Sync)) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(turns);
    let next = AtomicUsize::new(0);
    let take = || next.fetch_add(1, Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| while work(take()) {});
        }
    });
}

/// The plan of one item, with its largest context.
pub fn plan_item(item: &Item, question: &SurveyRequest, roots: &Roots) -> ModelStatus {
    match try_plan_item(item, question, roots) {
        Ok((request, plan, exact_after)) => {
            let exact_after = exact_after.map(Box::new);
            let summary = FitSummary { exact_after, ..request.fit_summary(&plan, question.depth()) };
            ModelStatus::Complete(Arc::new(plan), summary)
        }
        Err(why) => ModelStatus::Failed(why),
    }
}

fn try_plan_item(
    item: &Item,
    question: &SurveyRequest,
    roots: &Roots,
) -> Result<(PlanRequest, Plan, Option<ExactAfter>), String> {
    let package = item.package(roots)?;
    let exact_after = package.exact_after();
    let request = question.request(item, package)?;
    // a model of the catalogue can be had in any quantisation
    let any = item.origin == ModelOrigin::Catalogue && question.quant.is_none();
    let planned = if any {
        // as `best` chooses with every other knob held
        let held = Knob::ALL.into_iter().filter(|knob| *knob != Knob::Quant).collect();
        let balanced =
            BestRequest { held, margin: DEFAULT_MARGIN, minimums: question.minimums, prefers_published: true };
        request.balanced_in_any(&balanced).map(|(request, trial)| {
            let plan = request.explained(trial);
            (request, plan)
        })
    } else {
        request.plan().map(|plan| (request, plan))
    };
    planned.map(|(request, plan)| (request, plan, exact_after)).map_err(|error| error.to_string())
}
