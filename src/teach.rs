//! The memory model, taught: pages as data, computed from what engines return when they are asked how a figure came
//! about. The screen and the handouts show the same pages.
//!
//! Nothing here decides anything: [`trace`] watches llama.cpp's own work on a plan, and each page picks from it what it
//! shows.

pub mod allocation;
pub mod caches;
pub mod formulas;
pub mod lessons;
pub mod names;
pub mod schedule;
pub mod trace;

use serde_json::Value;

use crate::engine::EngineError;
use crate::engine::PlanRequest;
use crate::engine::ggml::Op;
use crate::model::Model;
use crate::plan::Plan;
use allocation::{AllocationPage, Variation};
use caches::CachesPage;
use formulas::FormulasPage;
use lessons::LessonsPage;
use schedule::SchedulePage;

/// A page, by what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// Which device computes what, pass by pass, and what crosses between devices.
    Schedule,
    /// The formulas of the plan, opened.
    Formulas,
    /// What the model remembers, and how its cells fill.
    Caches,
    /// Short lessons.
    Lessons,
    /// What is alive in the compute buffers, from the first operation to the last.
    Allocation,
}

impl Page {
    /// Every page, in the order of the tabs.
    pub const ALL: [Self; 5] = [Self::Formulas, Self::Schedule, Self::Allocation, Self::Caches, Self::Lessons];

    /// Its title on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Formulas => "Formulas",
            Self::Caches => "Caches",
            Self::Lessons => "Lessons",
            Self::Allocation => "Allocation",
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Formulas => "formulas",
            Self::Caches => "cache",
            Self::Lessons => "lessons",
            Self::Allocation => "allocation",
        }
    }

    /// The page `by` places further round.
    #[must_use]
    pub fn turn(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&page| page == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }

    /// What it shows at first.
    pub const fn topic(self) -> Topic {
        match self {
            Self::Schedule => Topic::Schedule(None),
            Self::Formulas => Topic::Formulas,
            Self::Caches => Topic::Caches,
            Self::Lessons => Topic::Lessons(0),
            Self::Allocation => Topic::Allocation(None),
        }
    }
}

/// Finds a model by its name in the catalogue.
pub type ModelLookup<'a> = &'a dyn Fn(&str) -> Option<Model>;

/// What a page is asked to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The passes; perhaps on GPUs that lack an operation.
    Schedule(Option<Op>),
    /// Every formula.
    Formulas,
    /// Every kind of block and cache.
    Caches,
    /// The lesson at this place.
    Lessons(usize),
    /// The timeline of every device, and perhaps another beside it.
    Allocation(Option<Variation>),
}

impl Topic {
    /// The page that it belongs to.
    pub const fn page(self) -> Page {
        match self {
            Self::Schedule(_) => Page::Schedule,
            Self::Formulas => Page::Formulas,
            Self::Caches => Page::Caches,
            Self::Lessons(_) => Page::Lessons,
            Self::Allocation(_) => Page::Allocation,
        }
    }

    /// Works it out for `plan`, the engine's answer to `case`; `lookup` has models that a lesson may name.
    ///
    /// # Errors
    /// When the engine refuses what a page needs beyond the plan.
    pub fn content(
        self,
        request: &PlanRequest,
        plan: &Plan,
        lookup: ModelLookup<'_>,
    ) -> Result<PageContent, EngineError> {
        match self {
            Self::Schedule(without) => {
                SchedulePage::of(request, plan, without).map(Box::new).map(PageContent::Schedule)
            }
            Self::Formulas => FormulasPage::of(request, plan).map(PageContent::Formulas),
            Self::Caches => CachesPage::of(request, plan).map(PageContent::Caches),
            Self::Lessons(at) => {
                LessonsPage::of(at, request, lookup).map(|lesson| PageContent::Lessons(Box::new(lesson)))
            }
            Self::Allocation(versus) => AllocationPage::of(request, plan, versus).map(PageContent::Allocation),
        }
    }
}

/// A page with everything that it shows.
#[derive(Clone, Debug)]
pub enum PageContent {
    /// The passes.
    Schedule(Box<SchedulePage>),
    /// The formulas.
    Formulas(FormulasPage),
    /// The caches.
    Caches(CachesPage),
    /// A lesson.
    Lessons(Box<LessonsPage>),
    /// The timelines.
    Allocation(AllocationPage),
}

impl PageContent {
    /// The page that it is.
    pub const fn page(&self) -> Page {
        match self {
            Self::Schedule(_) => Page::Schedule,
            Self::Formulas(_) => Page::Formulas,
            Self::Caches(_) => Page::Caches,
            Self::Lessons(_) => Page::Lessons,
            Self::Allocation(_) => Page::Allocation,
        }
    }

    /// As one JSON object, sizes in bytes; scripts depend on its keys.
    pub fn json(&self) -> Value {
        match self {
            Self::Schedule(schedule) => schedule.json(),
            Self::Formulas(formulas) => formulas.json(),
            Self::Caches(caches) => caches.json(),
            Self::Lessons(lessons) => lessons.json(),
            Self::Allocation(allocation) => allocation.json(),
        }
    }

    /// As Markdown, from its title on.
    pub fn markdown(&self) -> String {
        match self {
            Self::Schedule(schedule) => schedule.markdown(),
            Self::Formulas(formulas) => formulas.markdown(),
            Self::Caches(caches) => caches.markdown(),
            Self::Lessons(lessons) => lessons.markdown(),
            Self::Allocation(allocation) => allocation.markdown(),
        }
    }
}
