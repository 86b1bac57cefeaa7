//! Overlays with suggestions to apply: why a layer is on its device and what would change that, and the best settings
//! while some knobs are locked.

use super::{App, LiveMemory, Mode};
use crate::answer::Remedy;
use crate::answer::best::{BestRequest, Card, DEFAULT_MARGIN};
use crate::settings::knob::Knob;
use crate::tui::action::Command;
use crate::tui::effect::Effect;

/// Whether an answer is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerState {
    /// More parts follow.
    #[default]
    Working,
    /// All parts have arrived.
    Done,
}

/// The page on one layer.
#[derive(Clone, Debug, Default)]
pub struct WhyPage {
    /// The layer's index in the plan.
    pub layer: usize,
    /// Changes that bring it, or all layers, onto GPUs.
    pub remedies: Vec<Remedy>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected remedy.
    pub chosen: usize,
    /// Scrolled lines.
    pub scroll: u16,
}

/// The page on the best settings.
#[derive(Clone, Debug, Default)]
pub struct BestPage {
    /// A card for each objective, or for several.
    pub cards: Vec<Card>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected card.
    pub chosen: usize,
    /// Scrolled lines.
    pub scroll: u16,
}

impl App {
    /// Opens the page on the focused layer.
    pub(super) fn open_why(&mut self) -> Vec<Effect> {
        if self.plan.is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        self.mode = Mode::Why(Box::new(WhyPage { layer: self.panels.cursors.layer, ..WhyPage::default() }));
        self.ask_for_page()
    }

    /// Opens the page on the best settings.
    pub(super) fn open_best(&mut self) -> Vec<Effect> {
        if self.plan.is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        self.mode = Mode::Best(Box::default());
        self.ask_for_page()
    }

    pub(super) fn press_on_layer(&mut self, mut page: Box<WhyPage>, command: Command) -> Vec<Effect> {
        match command {
            Command::Back => return Vec::new(),
            Command::Help => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            Command::Less | Command::More => {
                self.move_cursor(command);
                return self.open_why();
            }
            Command::Enter => {
                if let Some(remedy) = page.remedies.get(page.chosen) {
                    let freed = remedy.then.machine != self.machine;
                    self.apply_request(remedy.then.clone());
                    // the next report of the monitor would revert memory that is only assumed to be free
                    return if freed && self.found_machine.live == LiveMemory::On { self.freeze() } else { Vec::new() };
                }
            }
            _ => page.chosen = moved(page.chosen, page.remedies.len(), &mut page.scroll, command),
        }
        self.mode = Mode::Why(page);
        Vec::new()
    }

    pub(super) fn press_on_best(&mut self, mut page: Box<BestPage>, command: Command) {
        match command {
            Command::Back => return,
            Command::Help => {
                self.mode = Mode::Help(0);
                return;
            }
            Command::Enter => {
                if let Some(card) = page.cards.get(page.chosen) {
                    self.apply_request(card.request.clone());
                    return;
                }
            }
            _ => page.chosen = moved(page.chosen, page.cards.len(), &mut page.scroll, command),
        }
        self.mode = Mode::Best(page);
    }

    /// Locks the focused knob, or unlocks it.
    pub(super) fn lock(&mut self) {
        let knob = self.knobs.focus;
        if let Some(at) = self.knobs.locked.iter().position(|&held| held == knob) {
            self.knobs.locked.remove(at);
            self.notice = Some(format!("{} unlocked: suggestions may change it.", knob.title()));
        } else {
            self.knobs.locked.push(knob);
            self.notice = Some(format!("{} locked: s suggests the best settings that keep it.", knob.title()));
        }
    }

    /// The question that the page on the best settings answers.
    pub fn best_request(&self) -> BestRequest {
        BestRequest { held: self.knobs.locked.clone(), margin: self.preferences.margin.unwrap_or(DEFAULT_MARGIN) }
    }

    /// Whether suggestions must not change `knob`.
    pub fn is_locked(&self, knob: Knob) -> bool {
        self.knobs.locked.contains(&knob)
    }
}

/// The selection in a list of `count` after `command`; commands that only scroll change `scroll`.
fn moved(at: usize, count: usize, scroll: &mut u16, command: Command) -> usize {
    let last = count.saturating_sub(1);
    match command {
        Command::Up => at.saturating_sub(1),
        Command::Down => (at + 1).min(last),
        _ => {
            *scroll = super::update::scrolled(*scroll, command);
            at.min(last)
        }
    }
}
