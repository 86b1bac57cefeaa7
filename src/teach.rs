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

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::catalogue;
use crate::engine::EngineError;
use crate::engine::ggml::Op;
use crate::engine::{EngineVersion, PlanRequest};
use crate::export::Caption;
use crate::model::{Model, Projector};
use crate::page::{Page, markdown};
use crate::plan::Plan;
use allocation::{AllocationPage, Variation};
use caches::CachesPage;
use formulas::FormulasPage;
use glossary::GlossaryPage;
use layers::LayersPage;
use lessons::LessonsPage;
use schedule::SchedulePage;
use trace::Phase;

/// A page of the teach screen, as its tabs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tab {
    /// The formulas of the plan, as trees.
    Formulas,
    /// What the layers take of each device, one after the other.
    Layers,
    /// Which device computes what, pass by pass, and what crosses between devices.
    Schedule,
    /// The tensors alive in the compute buffers, from the first operation to the last.
    Allocation,
    /// The model's caches, and how their cells fill.
    Caches,
    /// Short lessons.
    Lessons,
    /// What the words mean.
    Glossary,
}

/// The tabs in order: each with its title on the screen, its name on the command line, and its initial topic.
const TABS: [(Tab, &str, &str, Topic); 7] = [
    (Tab::Formulas, "Formulas", "formulas", Topic::Formulas(None)),
    (Tab::Layers, "Layers", "layers", Topic::Layers),
    (Tab::Schedule, "Schedule", "schedule", Topic::Schedule(None, Phase::Prompt)),
    (Tab::Allocation, "Allocation", "allocation", Topic::Allocation(None, Phase::Prompt)),
    (Tab::Caches, "Caches", "cache", Topic::Caches),
    (Tab::Lessons, "Lessons", "lessons", Topic::Lessons(0)),
    (Tab::Glossary, "Glossary", "glossary", Topic::Glossary),
];

impl Tab {
    /// All tabs in order.
    pub const ALL: [Self; TABS.len()] = {
        let (mut all, mut at) = ([Self::Formulas; TABS.len()], 0);
        while at < all.len() {
            // the rows stand in the order of the variants: `row` relies on it
            assert!(TABS[at].0 as usize == at);
            all[at] = TABS[at].0;
            at += 1;
        }
        all
    };

    const fn row(self) -> (Self, &'static str, &'static str, Topic) {
        TABS[self as usize]
    }

    /// Its title on the screen.
    pub const fn title(self) -> &'static str {
        self.row().1
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        self.row().2
    }

    /// Its initial topic.
    pub const fn topic(self) -> Topic {
        self.row().3
    }

    /// The tab `by` places further, wrapping around.
    #[must_use]
    pub const fn turn(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
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

/// A computed page: what the screen draws, and how it is printed.
pub trait TeachPage: Any + fmt::Debug + Send + Sync {
    /// Its tab.
    fn tab(&self) -> Tab;

    /// As one JSON object with stable keys; sizes are in bytes.
    fn json(&self) -> Value;

    /// As a page for paper, beginning with its title.
    fn printed(&self, paper: Paper) -> Page;

    /// Its title.
    fn title(&self) -> &str {
        self.tab().title()
    }

    /// What its figures are for, if it is about `plan`, the plan of `request`.
    fn caption(&self, request: &PlanRequest, plan: &Plan) -> Caption {
        Caption::of(request, plan)
    }

    /// The last step of its walk, counted from 0; none if it has no steps.
    fn last_step(&self) -> Option<u64> {
        None
    }
}

impl dyn TeachPage {
    /// The page as what it is, if that is a `T`.
    pub fn as_a<T: TeachPage>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// As Markdown, beginning with its title; lessons with their answers if they are `answered`.
    pub fn markdown(&self, answered: bool) -> String {
        let paper = Paper { cells: markdown::CELLS, captioned: false, textured: true, answered };
        markdown::text(&self.printed(paper))
    }
}
