//! What a machine would make of each of many models: plans first, then how far each context could go.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Item;
use crate::answer::FitSummary;
use crate::engine::EngineId;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::source::{ExplicitKnobs, Roots};

/// What is asked of every model.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyRequest {
    /// Who decides.
    pub engine: EngineId,
    /// The machine.
    pub machine: Arc<Machine>,
    /// The knobs; what comes with a model is added for each.
    pub settings: Settings,
    /// The knobs that a model's tag leaves alone.
    pub held: ExplicitKnobs,
    /// Every model as it would be so quantised, or as it is.
    pub quant: Option<FileType>,
}

/// What is known of a model.
#[derive(Clone, Debug)]
pub enum ModelStatus {
    /// Nothing yet.
    Pending,
    /// Its plan.
    Planned(Arc<Plan>),
    /// Its plan, and what a list says of it.
    Complete(Arc<Plan>, FitSummary),
    /// Why nothing can be said.
    Failed(String),
}

impl ModelStatus {
    /// The plan, as soon as it is there.
    pub const fn plan(&self) -> Option<&Arc<Plan>> {
        match self {
            Self::Planned(plan) | Self::Complete(plan, _) => Some(plan),
            Self::Pending | Self::Failed(_) => None,
        }
    }

    /// What a list says, as soon as it is there.
    pub const fn glance(&self) -> Option<&FitSummary> {
        if let Self::Complete(_, glance) = self { Some(glance) } else { None }
    }
}

impl ModelStatus {
    /// Takes in `news`, unless more is known already: threads do not end in the order in which they began.
    pub fn learn(&mut self, news: Self) {
        if !matches!((&*self, &news), (Self::Complete(..), Self::Planned(_))) {
            *self = news;
        }
    }

    /// Whether there is more to be told.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending | Self::Planned(_))
    }
}

/// Looks at every one of `items`, in their order, on as many threads as the machine has: all are planned first, then all
/// contexts are tried. `tell` hears, on those threads, what became of which; it answers whether to go on.
pub fn survey(
    items: &[Arc<Item>],
    question: &SurveyRequest,
    roots: &Roots,
    tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
) {
    let twice = || [false, true].into_iter().flat_map(|whole| items.iter().enumerate().map(move |at| (whole, at)));
    let turns: Vec<_> = twice().collect();
    on_all_cores(turns.len(), &|turn| {
        turns.get(turn).is_some_and(|&(whole, (index, item))| tell(index, plan_item(item, question, roots, whole)))
    });
}

/// As [`survey`], for someone who waits for all of it: every one is looked at once, as a whole.
pub fn inspect(
    items: &[Arc<Item>],
    question: &SurveyRequest,
    roots: &Roots,
    tell: &(dyn Fn(usize, ModelStatus) -> bool + Sync),
) {
    on_all_cores(items.len(), &|index| {
        items.get(index).is_some_and(|item| tell(index, plan_item(item, question, roots, true)))
    });
}

/// Does the work of turns 0 to `turns`, the least first, until one of them says that it is enough.
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

/// Looks at one: its plan, and where it is to be `whole`, how far its context could go.
pub fn plan_item(item: &Item, question: &SurveyRequest, roots: &Roots, whole: bool) -> ModelStatus {
    try_plan_item(item, question, roots, whole).unwrap_or_else(ModelStatus::Failed)
}

fn try_plan_item(item: &Item, question: &SurveyRequest, roots: &Roots, whole: bool) -> Result<ModelStatus, String> {
    let package = item.package(roots)?;
    let quantised = question.quant.map(|to| package.quantised(to)).transpose().map_err(|error| error.to_string())?;
    let package = quantised.as_ref().unwrap_or(package);
    let mut settings = question.settings.clone();
    package.apply_to(&mut settings, question.held);
    let (model, machine) = (Arc::clone(&package.model), Arc::clone(&question.machine));
    let request = PlanRequest::new(question.engine, model, machine, settings);
    let plan = request.plan().map_err(|error| error.to_string())?;
    Ok(if whole {
        let glance = request.glance(&plan);
        ModelStatus::Complete(Arc::new(plan), glance)
    } else {
        ModelStatus::Planned(Arc::new(plan))
    })
}
