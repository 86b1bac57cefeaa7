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
    /// Whether K and V get a cache type each, on engines that have two.
    pub two_cache_types: bool,
    /// Values of knobs that are not offered now.
    pub(crate) stashed: StashedKnobs,
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
            two_cache_types: false,
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

    /// Gives K and V a cache type each, or one type again: that of K, if both can have it.
    pub(super) fn split_cache(&mut self) {
        if self.engine.facts().has_one_cache_type() {
            self.notice = Some(format!("{} has one type for K and V.", self.engine.title()));
            return;
        }
        let two = self.knobs.offered.contains(&Knob::CacheTypeK);
        self.knobs.two_cache_types = !two;
        let mut settings = self.settings.clone();
        if two && settings.has_two_cache_types() {
            settings.use_one_cache_type();
        }
        self.change_settings(settings);
        self.update_offered_knobs();
    }

    /// The word of the focused knob, if it is shown as words, that begins with `letter` and comes next.
    pub fn word_by_letter(&self, letter: char) -> Option<u64> {
        let words = self.knobs.focus.words()?;
        let now = usize::try_from(self.value(self.knobs.focus)).ok()?;
        let begins = |at: &usize| words[*at].starts_with(letter.to_ascii_lowercase());
        let found = (now + 1..words.len()).chain(0..words.len().min(now + 1)).find(begins)?;
        Some(found as u64)
    }

    /// What decides which knobs apply.
    pub(crate) fn knob_context(&self) -> KnobContext<'_> {
        KnobContext {
            model: self.model.as_deref(),
            machine: &self.machine,
            settings: &self.settings,
            two_cache_types: self.knobs.two_cache_types,
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
    pub(crate) fn choose(&mut self, choice: EngineVersion) {
        if choice == self.choice() {
            return;
        }
        self.push_undo();
        self.engine = choice.engine;
        choice.apply(&mut self.settings);
        self.replan_from_scratch();
    }

    pub(crate) fn focus_knob(&mut self, knob: Knob) {
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
