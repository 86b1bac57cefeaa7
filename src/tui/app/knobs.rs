//! The offered knobs: focus, scrolling, and the engine's choice of them.

use super::App;
use super::history::Drag;
use crate::engine::{EngineVersion, KnobContext};
use crate::settings::StashedKnobs;
use crate::settings::knob::Knob;
use crate::tui::regions::{KnobRow, Regions};

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
    pub locked: Vec<Knob>,
    /// Values of knobs that are not offered now.
    pub(super) stashed: StashedKnobs,
    pub(super) drag: Option<Drag>,
}

impl KnobList {
    /// The initial list.
    pub(super) fn of(offered: Vec<Knob>) -> Self {
        Self {
            offered,
            focus: Knob::Context,
            first: 0,
            locked: Vec::new(),
            stashed: StashedKnobs::default(),
            drag: None,
        }
    }
}

impl App {
    /// Offers the knobs that apply to the present engine, model and machine. Values of the others are stashed until
    /// they apply again.
    pub(super) fn update_offered_knobs(&mut self) {
        let knobs = self.engine.facts().knobs(&self.knob_context());
        if knobs != self.knobs.offered {
            self.knobs.stashed.switch_knobs(&mut self.settings, &self.knobs.offered, &knobs);
            self.set_offered_knobs(knobs);
        }
    }

    /// What decides which knobs apply.
    pub(super) fn knob_context(&self) -> KnobContext<'_> {
        KnobContext {
            model: self.model.as_deref().map(|model| &**model),
            machine: &self.machine,
            raw: self.settings.raw,
        }
    }

    /// Offers `knobs`; the focus stays where it is or moves to the nearest.
    pub(super) fn set_offered_knobs(&mut self, knobs: Vec<Knob>) {
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

    /// The engine and its release.
    pub fn choice(&self) -> EngineVersion {
        EngineVersion::of(self.engine, &self.settings)
    }

    /// Switches to another engine or release, as one undo step.
    pub(super) fn choose(&mut self, choice: EngineVersion) {
        if choice == self.choice() {
            return;
        }
        self.push_undo();
        self.engine = choice.engine;
        choice.apply(&mut self.settings);
        self.replan_from_scratch();
    }

    pub(super) fn focus_knob(&mut self, knob: Knob) {
        self.knobs.focus = knob;
        self.scroll_to_knob();
    }

    /// Scrolls only as far as needed to show the focused knob.
    pub(super) fn scroll_to_knob(&mut self) {
        let (at, rows) = (self.index_of(self.knobs.focus), self.regions.knobs_at_once().max(1));
        let last = self.knobs.offered.len().saturating_sub(rows);
        self.knobs.first = self.knobs.first.clamp((at + 1).saturating_sub(rows), at).min(last);
    }

    fn index_of(&self, knob: Knob) -> usize {
        self.knobs.offered.iter().position(|&other| other == knob).unwrap_or(0)
    }

    /// The knob `by` places below.
    pub(super) fn neighbour(&self, knob: Knob, by: isize) -> Knob {
        let target = self.index_of(knob).saturating_add_signed(by).min(self.knobs.offered.len().saturating_sub(1));
        self.knobs.offered.get(target).copied().unwrap_or(knob)
    }

    /// The row of `knob` on the screen; none if it is not offered or not visible.
    pub fn knob_row(&self, knob: Knob) -> Option<KnobRow> {
        let at = self.knobs.offered.iter().position(|&other| other == knob)?;
        self.regions.knob(at.checked_sub(self.knobs.first)?)
    }
}
