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
pub mod schedule;
pub mod trace;

use std::sync::Arc;

use serde_json::Value;

use crate::catalogue;
use crate::engine::EngineError;
use crate::engine::ggml::Op;
use crate::engine::{EngineVersion, PlanRequest};
use crate::model::{Model, Projector};
use crate::page as printed;
use crate::plan::Plan;
use allocation::{AllocationPage, Variation};
use caches::CachesPage;
use formulas::FormulasPage;
use glossary::GlossaryPage;
use layers::LayersPage;
use lessons::LessonsPage;
use schedule::SchedulePage;
use trace::Phase;

/// A page of the teach screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// Which device computes what, pass by pass, and what crosses between devices.
    Schedule,
    /// The formulas of the plan, as trees.
    Formulas,
    /// The model's caches, and how their cells fill.
    Caches,
    /// Short lessons.
    Lessons,
    /// The tensors alive in the compute buffers, from the first operation to the last.
    Allocation,
    /// What the layers take of each device, one after the other.
    Layers,
    /// What the words mean.
    Glossary,
}

impl Page {
    /// All pages, in the order of the tabs.
    pub const ALL: [Self; 7] =
        [Self::Formulas, Self::Layers, Self::Schedule, Self::Allocation, Self::Caches, Self::Lessons, Self::Glossary];

    /// Its title on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Formulas => "Formulas",
            Self::Caches => "Caches",
            Self::Lessons => "Lessons",
            Self::Allocation => "Allocation",
            Self::Layers => "Layers",
            Self::Glossary => "Glossary",
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
            Self::Layers => "layers",
            Self::Glossary => "glossary",
        }
    }

    /// The page `by` tabs further, wrapping around.
    #[must_use]
    pub fn turn(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&page| page == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }

    /// Its initial topic.
    pub const fn topic(self) -> Topic {
        match self {
            Self::Schedule => Topic::Schedule(None, Phase::Prompt),
            Self::Formulas => Topic::Formulas(None),
            Self::Caches => Topic::Caches,
            Self::Lessons => Topic::Lessons(0),
            Self::Allocation => Topic::Allocation(None, Phase::Prompt),
            Self::Layers => Topic::Layers,
            Self::Glossary => Topic::Glossary,
        }
    }
}

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

impl Topic {
    /// The page that it belongs to.
    pub const fn page(self) -> Page {
        match self {
            Self::Schedule(..) => Page::Schedule,
            Self::Formulas(_) => Page::Formulas,
            Self::Caches => Page::Caches,
            Self::Lessons(_) => Page::Lessons,
            Self::Allocation(..) => Page::Allocation,
            Self::Layers => Page::Layers,
            Self::Glossary => Page::Glossary,
        }
    }

    /// Computes the page for `plan`, the plan of `request`.
    ///
    /// # Errors
    /// If the engine refuses what the page needs beyond the plan.
    pub fn content(self, request: &PlanRequest, plan: &Plan) -> Result<PageContent, EngineError> {
        match self {
            Self::Schedule(without, phase) => {
                SchedulePage::of(request, plan, without, phase).map(Box::new).map(PageContent::Schedule)
            }
            Self::Formulas(versus) => FormulasPage::of(request, plan, versus).map(PageContent::Formulas),
            Self::Caches => CachesPage::of(request, plan).map(PageContent::Caches),
            Self::Lessons(at) => LessonsPage::of(at, request, &catalogue::model_and_projector)
                .map(|lesson| PageContent::Lessons(Box::new(lesson))),
            Self::Allocation(versus, phase) => {
                AllocationPage::of(request, plan, versus, phase).map(PageContent::Allocation)
            }
            Self::Layers => Ok(PageContent::Layers(LayersPage::of(plan))),
            Self::Glossary => Ok(PageContent::Glossary(GlossaryPage::of(request, plan))),
        }
    }
}

/// The content of a page.
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
    /// The walk through the devices.
    Layers(LayersPage),
    /// The terms.
    Glossary(GlossaryPage),
}

/// What a page is printed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its width.
    pub cells: usize,
    /// Whether a caption above says what the page is about.
    pub captioned: bool,
    /// Whether there are no colours to tell the parts of charts apart.
    pub textured: bool,
    /// Whether lessons have their answers.
    pub answered: bool,
}

impl PageContent {
    /// The page that it belongs to.
    pub const fn page(&self) -> Page {
        match self {
            Self::Schedule(_) => Page::Schedule,
            Self::Formulas(_) => Page::Formulas,
            Self::Caches(_) => Page::Caches,
            Self::Lessons(_) => Page::Lessons,
            Self::Allocation(_) => Page::Allocation,
            Self::Layers(_) => Page::Layers,
            Self::Glossary(_) => Page::Glossary,
        }
    }

    /// As one JSON object with stable keys; sizes are in bytes.
    pub fn json(&self) -> Value {
        match self {
            Self::Schedule(schedule) => schedule.json(),
            Self::Formulas(formulas) => formulas.json(),
            Self::Caches(caches) => caches.json(),
            Self::Lessons(lessons) => lessons.json(),
            Self::Allocation(allocation) => allocation.json(),
            Self::Layers(layers) => layers.json(),
            Self::Glossary(glossary) => glossary.json(),
        }
    }

    /// As a page for paper, beginning with its title.
    pub fn printed(&self, paper: Paper) -> printed::Page {
        let Paper { cells, captioned, textured, answered } = paper;
        match self {
            Self::Schedule(schedule) => schedule.page(cells),
            Self::Formulas(formulas) => formulas.page(cells),
            Self::Caches(caches) => caches.page(cells),
            Self::Lessons(lesson) => {
                let mut page = printed::Page::default();
                page.heading(lesson.lesson.title);
                page.append(lesson.page(answered, captioned));
                page
            }
            Self::Allocation(allocation) => allocation.page(cells, textured),
            Self::Layers(layers) => layers.page(),
            Self::Glossary(glossary) => glossary.page(),
        }
    }

    /// As Markdown, beginning with its title; lessons with their answers if they are `answered`.
    pub fn markdown(&self, answered: bool) -> String {
        printed::markdown::text(&self.printed(Paper {
            cells: printed::markdown::CELLS,
            captioned: false,
            textured: true,
            answered,
        }))
    }
}
