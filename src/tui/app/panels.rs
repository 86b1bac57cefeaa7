//! The panels of the planner: their places, the focus, the cursors and the list of knobs.

use super::history::Drag;
use crate::settings::StashedKnobs;
use crate::settings::knob::Knob;
use crate::tui::regions::{Cursors, KnobRow, Panel, Regions, ScreenLayout};

/// Which panel has the focus, where the panels are, and where the cursor of each is.
#[derive(Debug)]
pub struct Panels {
    /// The focused panel.
    pub focus: Panel,
    /// The panel shown below the knobs on a tabbed screen.
    pub lower: Panel,
    /// The cursor of each.
    pub cursors: Cursors,
    /// The list of knobs.
    pub knobs: KnobList,
    /// Where all is on the screen.
    pub regions: Regions,
}

impl Panels {
    /// The initial panels on a screen of this many columns and rows.
    pub(super) fn of((columns, rows): (u16, u16), knobs: Vec<Knob>) -> Self {
        Self {
            focus: Panel::Knobs,
            lower: Panel::Layers,
            cursors: Cursors::default(),
            regions: Regions::of(columns, rows, knobs.len()),
            knobs: KnobList::of(knobs),
        }
    }

    /// Lays them out on a screen of this many columns and rows.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.regions = Regions::of(columns, rows, self.knobs.offered.len());
        self.scroll_to_knob();
    }

    /// Whether `panel` is shown: on a tabbed screen only the knobs and one other panel are.
    pub fn visible(&self, panel: Panel) -> bool {
        match self.regions.shape {
            ScreenLayout::TooSmall => false,
            ScreenLayout::Tabbed => panel == Panel::Knobs || panel == self.lower,
            ScreenLayout::Columns => true,
        }
    }

    /// Whether the verdict has no room for notes.
    pub(crate) const fn notes_are_hidden(&self) -> bool {
        const ROOMY: u16 = 8;
        self.regions.verdict.height < ROOMY
    }

    pub(crate) fn focus_panel(&mut self, panel: Panel) {
        self.focus = panel;
        if panel != Panel::Knobs {
            self.lower = panel;
        }
    }

    /// Typing a digit starts the input of a value.
    pub fn accepts_numbers(&self) -> bool {
        self.focus == Panel::Knobs && self.knobs.focus.choices().is_none()
    }

    /// Offers `knobs`; the focus stays where it is or moves to the nearest.
    pub(crate) fn set_offered_knobs(&mut self, knobs: Vec<Knob>) {
        let place = |knob: Knob| Knob::ALL.iter().position(|&other| other == knob).unwrap_or(0);
        let here = place(self.knobs.focus);
        if let Some(&nearest) = knobs.iter().min_by_key(|&&knob| place(knob).abs_diff(here)) {
            self.knobs.focus = nearest;
        }
        if knobs.len() != self.knobs.offered.len() {
            let screen = self.regions.screen;
            self.regions = Regions::of(screen.width, screen.height, knobs.len());
        }
        self.knobs.offered = knobs;
        self.knobs.drag = self.knobs.drag.filter(|drag| self.knobs.offered.contains(&drag.knob));
        self.scroll_to_knob();
    }

    pub(crate) fn focus_knob(&mut self, knob: Knob) {
        self.knobs.focus = knob;
        self.scroll_to_knob();
    }

    /// Scrolls only as far as needed to show the focused knob.
    pub(crate) fn scroll_to_knob(&mut self) {
        let (at, rows) = (self.knobs.index_of(self.knobs.focus), self.regions.knobs_at_once().max(1));
        let last = self.knobs.offered.len().saturating_sub(rows);
        self.knobs.first = self.knobs.first.clamp((at + 1).saturating_sub(rows), at).min(last);
    }

    /// The row of `knob` on the screen; none if it is not offered or not visible.
    pub fn knob_row(&self, knob: Knob) -> Option<KnobRow> {
        let at = self.knobs.offered.iter().position(|&other| other == knob)?;
        self.regions.knob(at.checked_sub(self.knobs.first)?)
    }

    /// The knob whose row is at `y`.
    pub(crate) fn knob_at(&self, y: u16) -> Option<Knob> {
        self.knobs.offered.iter().copied().find(|&knob| self.knob_row(knob).is_some_and(|place| place.row.y == y))
    }
}

/// The knobs and their state.
#[derive(Debug)]
pub struct KnobList {
    /// The offered knobs, in the order of the screen.
    pub offered: Vec<Knob>,
    /// The focused one.
    pub focus: Knob,
    /// Index in `offered` of the first visible one.
    pub first: usize,
    /// The locked ones, which suggestions must not change.
    pub held: Vec<Knob>,
    /// Whether K and V get a cache type each, on engines that have two.
    pub two_cache_types: bool,
    /// Values of knobs that are not offered now.
    pub(crate) stashed: StashedKnobs,
    pub(crate) drag: Option<Drag>,
}

impl KnobList {
    /// The initial list.
    pub(crate) fn of(offered: Vec<Knob>) -> Self {
        Self {
            offered,
            focus: Knob::Context,
            first: 0,
            held: Vec::new(),
            two_cache_types: false,
            stashed: StashedKnobs::default(),
            drag: None,
        }
    }

    fn index_of(&self, knob: Knob) -> usize {
        self.offered.iter().position(|&other| other == knob).unwrap_or(0)
    }

    /// The knob `by` places below.
    pub(crate) fn neighbour(&self, knob: Knob, by: isize) -> Knob {
        let target = self.index_of(knob).saturating_add_signed(by).min(self.offered.len().saturating_sub(1));
        self.offered.get(target).copied().unwrap_or(knob)
    }

    /// Whether suggestions must not change `knob`.
    pub fn is_held(&self, knob: Knob) -> bool {
        self.held.contains(&knob)
    }
}
