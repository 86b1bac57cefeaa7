//! The teach pages as data: how the engines arrive at the figures of a plan. The screen and printouts show the same
//! pages.
//!
//! [`trace`] records how llama.cpp's planner builds, schedules and allocates the graph of a plan; the pages show parts
//! of that record.

pub mod alike;
pub mod allocation;
pub mod caches;
pub mod formulas;
pub mod glossary;
pub mod layers;
pub mod lessons;
pub mod page;
pub mod schedule;
pub mod trace;

use std::sync::Arc;

use crate::catalogue;
use crate::engine::EngineError;
use crate::engine::ggml::Op;
use crate::engine::{EngineVersion, PlanRequest};
use crate::model::{Model, Projector};
use crate::plan::Plan;
use allocation::{AllocationPage, Variation};
use caches::CachesPage;
use formulas::FormulasPage;
use glossary::GlossaryPage;
use layers::LayersPage;
use lessons::LessonsPage;
pub use page::{Paper, Tab, TeachPage};
use schedule::SchedulePage;
use trace::Phase;

/// Finds a model by its name, and its projector if it has one, as [`catalogue::model_and_projector`] does.
pub type CatalogueLookup<'a> = &'a dyn Fn(&str) -> Option<(Model, Option<Arc<Projector>>)>;

/// A page with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The passes over the graph of a phase, optionally on GPUs that lack an operation.
    Schedule(Option<Op>, Phase),
    /// All formulas, optionally beside those of another engine.
    Formulas(Option<EngineVersion>),
    /// All kinds of blocks and caches.
    Caches,
    /// The lesson with this index.
    Lessons(usize),
    /// The timelines of all devices for the graph of a phase, optionally compared with a variation.
    Allocation(Option<Variation>, Phase),
    /// The walk through all devices.
    Layers,
    /// All terms.
    Glossary,
}

impl Tab {
    /// Its initial topic.
    pub const fn topic(self) -> Topic {
        match self {
            Self::Formulas => Topic::Formulas(None),
            Self::Layers => Topic::Layers,
            Self::Schedule => Topic::Schedule(None, Phase::Prompt),
            Self::Allocation => Topic::Allocation(None, Phase::Prompt),
            Self::Caches => Topic::Caches,
            Self::Lessons => Topic::Lessons(0),
            Self::Glossary => Topic::Glossary,
        }
    }
}

impl Topic {
    /// Its tab.
    pub const fn tab(self) -> Tab {
        match self {
            Self::Schedule(..) => Tab::Schedule,
            Self::Formulas(_) => Tab::Formulas,
            Self::Caches => Tab::Caches,
            Self::Lessons(_) => Tab::Lessons,
            Self::Allocation(..) => Tab::Allocation,
            Self::Layers => Tab::Layers,
            Self::Glossary => Tab::Glossary,
        }
    }

    /// Computes the page for `plan`, the plan of `request`.
    ///
    /// # Errors
    /// If the engine refuses what the page needs beyond the plan.
    pub fn content(self, request: &PlanRequest, plan: &Plan) -> Result<Arc<dyn TeachPage>, EngineError> {
        Ok(match self {
            Self::Schedule(without, phase) => Arc::new(SchedulePage::of(request, plan, without, phase)?),
            Self::Formulas(versus) => Arc::new(FormulasPage::of(request, plan, versus)?),
            Self::Caches => Arc::new(CachesPage::of(request, plan)?),
            Self::Lessons(at) => Arc::new(LessonsPage::of(at, request, &catalogue::model_and_projector)?),
            Self::Allocation(versus, phase) => Arc::new(AllocationPage::of(request, plan, versus, phase)?),
            Self::Layers => Arc::new(LayersPage::of(plan)),
            Self::Glossary => Arc::new(GlossaryPage::of(request, plan)),
        })
    }
}
