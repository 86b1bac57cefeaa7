//! The offered knobs: focus, scrolling, and the engine's choice of them.
use super::App;
use super::history::Drag;
use super::live::Replan;
use crate::answer::{Goal, KnobLimits};
use crate::engine::{EngineVersion, KnobContext};
use crate::settings::StashedKnobs;
use crate::settings::knob::Knob;
use crate::tui::action::Command;
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
}

impl App {
    /// Offers the knobs that apply to the present engine, model and machine. Values of the others are stashed until
    /// they apply again.
    pub(crate) fn update_offered_knobs(&mut self) {
        let knobs = self.engine.facts().knobs(&self.knob_context());
        if knobs != self.knobs.offered {
            self.knobs.stashed.switch_knobs(&mut self.settings, &self.knobs.offered, &knobs);
            self.set_offered_knobs(knobs);
        }
    }

    /// Gives K and V a cache type each, or one type again: that of K, if both can have it.
    pub(crate) fn split_cache(&mut self) {
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
    pub(crate) fn scroll_to_knob(&mut self) {
        let (at, rows) = (self.index_of(self.knobs.focus), self.regions.knobs_at_once().max(1));
        let last = self.knobs.offered.len().saturating_sub(rows);
        self.knobs.first = self.knobs.first.clamp((at + 1).saturating_sub(rows), at).min(last);
    }

    fn index_of(&self, knob: Knob) -> usize {
        self.knobs.offered.iter().position(|&other| other == knob).unwrap_or(0)
    }

    /// The knob `by` places below.
    pub(crate) fn neighbour(&self, knob: Knob, by: isize) -> Knob {
        let target = self.index_of(knob).saturating_add_signed(by).min(self.knobs.offered.len().saturating_sub(1));
        self.knobs.offered.get(target).copied().unwrap_or(knob)
    }

    /// The row of `knob` on the screen; none if it is not offered or not visible.
    pub fn knob_row(&self, knob: Knob) -> Option<KnobRow> {
        let at = self.knobs.offered.iter().position(|&other| other == knob)?;
        self.regions.knob(at.checked_sub(self.knobs.first)?)
    }
}

/// Stops per Page Up and Page Down.
const PAGE: isize = 4;

impl App {
    pub(crate) fn turn_knob(&mut self, command: Command) {
        let (knob, value) = (self.knobs.focus, self.value(self.knobs.focus));
        let stops = knob.stops(&self.bounds);
        match command {
            Command::Up => self.focus_knob(self.neighbour(knob, -1)),
            Command::Down => self.focus_knob(self.neighbour(knob, 1)),
            Command::Less => self.set_knob(knob, stops.step(value, -1)),
            Command::More => self.set_knob(knob, stops.step(value, 1)),
            Command::PageDown => self.set_knob(knob, stops.step(value, -PAGE)),
            Command::PageUp => self.set_knob(knob, stops.step(value, PAGE)),
            Command::FineLess => self.set_knob(knob, next_multiple(value, knob.fine(), false).max(knob.least())),
            Command::FineMore => {
                self.set_knob(knob, next_multiple(value, knob.fine(), true).min(stops.last().max(value)));
            }
            Command::First => self.set_knob(knob, stops.first()),
            Command::Last => self.set_knob(knob, stops.last()),
            Command::Enter => self.set_knob(knob, (value + 1) % (stops.last() + 1)),
            Command::MaxInVram => self.request_max(Goal::Vram),
            Command::MaxAllLayers => self.request_max(Goal::AllLayers),
            Command::NextCliff => self.step_to_threshold(true),
            Command::PreviousCliff => self.step_to_threshold(false),
            Command::Lock => self.lock(),
            Command::SplitCache => self.split_cache(),
            Command::Reset => {
                let mut settings = self.settings.clone();
                knob.reset(&mut settings);
                self.change_settings(settings);
            }
            _ => {}
        }
    }

    /// The text that a field for the focused knob begins with; none for a knob that is a list of words.
    pub(crate) fn suggested_text(&self) -> Option<String> {
        let knob = self.knobs.focus;
        knob.words().is_none().then(|| knob.typed(&self.settings, self.value(knob)))
    }

    /// Sets the focused knob to its limit; if settings or memory have changed since that was found, once a new one is
    /// known.
    fn request_max(&mut self, goal: Goal) {
        let knob = self.knobs.focus;
        let known = self.limits_along(knob).is_some() || !KnobLimits::ASKED.contains(&knob);
        if self.limits.is_empty() || known && self.limits_are_current() {
            return self.set_to_limit(goal);
        }
        self.limits.pending_limit = Some((knob, goal));
        if !self.limits_are_current() {
            self.replan = Replan::User;
        }
    }

    /// Sets the limits; a knob that waited for its limit is set to it.
    pub(crate) fn set_limits(&mut self, limits: KnobLimits) {
        self.limits.learn(limits);
        if let Some((knob, goal)) = self.limits.pending_limit.take()
            && knob == self.knobs.focus
        {
            self.set_to_limit(goal);
        }
    }

    fn set_to_limit(&mut self, goal: Goal) {
        let knob = self.knobs.focus;
        let (limit, kept) = match goal {
            Goal::AllLayers => (self.assigned_limit(knob), "all layers on GPU and the margin free"),
            _ => (self.limit(knob), "all in VRAM and the margin free"),
        };
        match limit {
            Some(most) => self.set_knob(knob, most),
            None if knob == Knob::GpuLayers => {
                let mut settings = self.settings.clone();
                knob.reset(&mut settings);
                self.change_settings(settings);
                self.notice = Some("Set to auto: the engine puts as many layers on GPU as fit.".to_owned());
            }
            None if !KnobLimits::ASKED.contains(&knob) => {
                self.notice = Some(format!("{} has no maximum: change it with ← and →.", knob.title()));
            }
            None if self.machine.gpus.is_empty() => {
                self.notice = Some("There is no GPU to keep layers on.".to_owned());
            }
            None if self.limits.is_empty() => {
                self.notice = Some("Still computing what fits; press it again in a moment.".to_owned());
            }
            None if knob == Knob::CpuMoe => {
                let text = "Not even with the experts of all layers in RAM does the rest leave GPUs their margin.";
                self.notice = Some(text.to_owned());
            }
            None if knob == Knob::Quant => {
                let least = knob.show(knob.stops(&self.bounds).first());
                self.notice = Some(format!("Not even {least} weights keep {kept}."));
            }
            None => {
                let least = knob.show(knob.stops(&self.bounds).first());
                let what = knob.title();
                let more = if goal == Goal::Vram && self.assigned_limit(knob).is_some() {
                    " M goes to the last with all layers on GPU, experts in RAM."
                } else {
                    ""
                };
                self.notice = Some(format!("Not even a {what} of {least} keeps {kept}.{more}"));
            }
        }
    }

    /// Sets `knob` as one undo step.
    pub(crate) fn set_knob(&mut self, knob: Knob, value: u64) {
        let mut settings = self.settings.clone();
        if let (Knob::TensorSplit, true, Some(plan)) = (knob, settings.tensor_split.is_empty(), &self.plan) {
            // the other GPUs keep their present proportions
            settings.tensor_split = plan.shares();
        }
        knob.set(&mut settings, value);
        self.change_settings(settings);
    }

    pub(crate) fn set_from_text(&mut self, text: &str) -> Result<(), String> {
        let mut settings = self.settings.clone();
        self.knobs.focus.read(text, &mut settings, &self.bounds)?;
        self.change_settings(settings);
        Ok(())
    }
}

/// The next multiple of `step` above or below `value`.
pub(crate) const fn next_multiple(value: u64, step: u64, up: bool) -> u64 {
    if up { (value / step).saturating_add(1).saturating_mul(step) } else { value.saturating_sub(1) / step * step }
}

impl App {
    /// Locks the focused knob, or unlocks it.
    pub(crate) fn lock(&mut self) {
        let knob = self.knobs.focus;
        if let Some(at) = self.knobs.held.iter().position(|&held| held == knob) {
            self.knobs.held.remove(at);
            self.notice = Some(format!("{} unlocked: suggestions may change it.", knob.title()));
        } else {
            self.knobs.held.push(knob);
            self.notice = Some(format!("{} locked: s suggests the best settings that keep it.", knob.title()));
        }
    }

    /// Whether suggestions must not change `knob`.
    pub fn is_held(&self, knob: Knob) -> bool {
        self.knobs.held.contains(&knob)
    }
}
