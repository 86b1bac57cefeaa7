//! What a page of teaching is: its tab, and what can be had of it.

use std::any::Any;
use std::fmt;

use serde_json::Value;

use crate::engine::PlanRequest;
use crate::export::Caption;
use crate::page::{Page, markdown};
use crate::plan::Plan;

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

/// The tabs in order: each with its title on the screen and its name on the command line.
const TABS: [(Tab, &str, &str); 7] = [
    (Tab::Formulas, "Formulas", "formulas"),
    (Tab::Layers, "Layers", "layers"),
    (Tab::Schedule, "Schedule", "schedule"),
    (Tab::Allocation, "Allocation", "allocation"),
    (Tab::Caches, "Caches", "cache"),
    (Tab::Lessons, "Lessons", "lessons"),
    (Tab::Glossary, "Glossary", "glossary"),
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

    const fn row(self) -> (Self, &'static str, &'static str) {
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

    /// The tab `by` places further, wrapping around.
    #[must_use]
    pub const fn turn(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
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
