//! The memory model, taught: pages as data, computed from what engines return when they are asked how a figure came
//! about. The screen and the handouts show the same pages.
//!
//! Nothing here decides anything: [`trace`] watches llama.cpp's own work on a plan, and each page picks from it what it
//! shows.

pub mod allocation;
pub mod names;
pub mod schedule;
pub mod trace;

use serde_json::Value;

use crate::answer::Case;
use crate::engine::EngineError;
use crate::engine::ggml::Op;
use crate::plan::Plan;
use allocation::{Allocation, Versus};
use schedule::Schedule;

/// A page, by what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// Which device computes what, pass by pass, and what crosses between devices.
    Schedule,
    /// What is alive in the compute buffers, from the first operation to the last.
    Allocation,
}

impl Page {
    /// Every page, in the order of the tabs.
    pub const ALL: [Self; 2] = [Self::Schedule, Self::Allocation];

    /// Its title on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Allocation => "Allocation",
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
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
            Self::Allocation => Topic::Allocation(None),
        }
    }
}

/// What a page is asked to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The passes; perhaps on GPUs that lack an operation.
    Schedule(Option<Op>),
    /// The timeline of every device, and perhaps another beside it.
    Allocation(Option<Versus>),
}

impl Topic {
    /// The page that it belongs to.
    pub const fn page(self) -> Page {
        match self {
            Self::Schedule(_) => Page::Schedule,
            Self::Allocation(_) => Page::Allocation,
        }
    }

    /// Works it out for `plan`, the engine's answer to `case`.
    ///
    /// # Errors
    /// When the engine refuses what a page needs beyond the plan.
    pub fn sheet(self, case: &Case<'_>, plan: &Plan) -> Result<Sheet, EngineError> {
        match self {
            Self::Schedule(without) => Schedule::of(case, plan, without).map(Box::new).map(Sheet::Schedule),
            Self::Allocation(versus) => Allocation::of(case, plan, versus).map(Sheet::Allocation),
        }
    }
}

/// A page with everything that it shows.
#[derive(Clone, Debug)]
pub enum Sheet {
    /// The passes.
    Schedule(Box<Schedule>),
    /// The timelines.
    Allocation(Allocation),
}

impl Sheet {
    /// The page that it is.
    pub const fn page(&self) -> Page {
        match self {
            Self::Schedule(_) => Page::Schedule,
            Self::Allocation(_) => Page::Allocation,
        }
    }

    /// As one JSON object, sizes in bytes; scripts depend on its keys.
    pub fn json(&self) -> Value {
        match self {
            Self::Schedule(schedule) => schedule.json(),
            Self::Allocation(allocation) => allocation.json(),
        }
    }

    /// As Markdown, from its title on.
    pub fn markdown(&self) -> String {
        match self {
            Self::Schedule(schedule) => schedule.markdown(),
            Self::Allocation(allocation) => allocation.markdown(),
        }
    }
}
