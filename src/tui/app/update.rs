//! Handles actions.

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Position;

use super::{App, Panel};
use crate::tui::action::{Action, Command, ExitReason};
use crate::tui::effect::{Effect, LogSource};
use crate::tui::host::Text;
use crate::tui::keymap::{self, Scope};
use crate::tui::query::QueryPart;
use crate::tui::regions::Regions;
use crate::tui::screens;
use crate::tui::screens::entry::ValueEntry;
use crate::tui::screens::verify::{VerifyPage, is_log};
use crate::tui::view::footer::{self, PlacedWord};

impl App {
    /// Handles `action` and returns the effects to run. Never panics, in any order of actions.
    pub fn update(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Press(command) => {
                (self.notice, self.limits.pending_limit) = (None, None);
                return self.press(command);
            }
            Action::Type(key) => return self.typed(key),
            Action::Paste(text) => return self.pasted(&text),
            Action::Mouse(gesture, x, y) => return self.mouse(gesture, Position { x, y }),
            Action::Resize(columns, rows) => {
                self.regions = Regions::of(columns, rows, self.knobs.offered.len());
                self.scroll_to_knob();
                return self.with_screen(|screen, app| screen.resized(app));
            }
            Action::Detected(detected) => self.detected(detected),
            Action::MemoryChanged(update) => self.memory_changed(*update),
            Action::Progress { id, now, took } => self.progress(id, now, took),
            Action::Loaded { id, result } if id == self.loading.id => return self.loaded(result),
            Action::ModelsListed(items) => self.library.models_listed(items),
            Action::Running(answer) => self.library.running(answer),
            Action::ModelPlanned { id, item, status } => self.library.model_planned(id, &item, status),
            Action::Limits { id, limits } if id == self.limits.id => self.set_limits(*limits),
            Action::Fade { id } if id == self.change.id => self.change.before = None,
            // answers to older requests
            Action::Loaded { .. } | Action::Limits { .. } | Action::Fade { .. } => {}
            Action::QueryAnswered { id, part: QueryPart::Cliffs(knob, cliffs) } => self.cliffs.learn(id, knob, cliffs),
            Action::TaskPanicked(what) => self.notice = Some(what),
            Action::Leave(leave) => self.leave = Some(leave),
            answer => {
                // said in the footer, unless the screen has a place for it
                match &answer {
                    Action::Saved(saved) => {
                        let said = saved.as_ref().map(|path| format!("Saved as {}.", path.display()));
                        self.notice = Some(said.unwrap_or_else(Clone::clone));
                    }
                    Action::MachineSaved(said) => self.notice = Some(said.clone().unwrap_or_else(|why| why)),
                    _ => {}
                }
                return self.with_screen(|screen, app| screen.answer(app, answer));
            }
        }
        Vec::new()
    }

    /// The active scopes, in order of precedence.
    pub fn scopes(&self) -> &'static [Scope] {
        match (&self.screen, self.panels.focus) {
            (Some(screen), _) => screen.scopes(),
            (None, Panel::Knobs) => &[Scope::Knobs, Scope::Plan, Scope::Everywhere],
            (None, _) => &[Scope::Lists, Scope::Plan, Scope::Everywhere],
        }
    }

    /// The footer's entries.
    pub fn footer(&self) -> Vec<PlacedWord> {
        let handles = |command| self.screen.as_ref().is_none_or(|screen| screen.handles(command));
        footer::places(&keymap::footer(self.scopes(), handles), self.regions.footer)
    }

    fn press(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::Quit => {
                self.leave = Some(ExitReason::Quit);
                return Vec::new();
            }
            Command::Suspend => return vec![Effect::Suspend],
            _ => {}
        }
        match self.screen.take() {
            Some(screen) => self.press_on_screen(screen, command),
            None => self.press_on_planner(command),
        }
    }

    fn press_on_planner(&mut self, command: Command) -> Vec<Effect> {
        if let Some(effects) = screens::open(self, command) {
            return effects;
        }
        match command {
            Command::NextPanel => self.focus_panel(self.panels.focus.turn(1)),
            Command::PreviousPanel => self.focus_panel(self.panels.focus.turn(Panel::ALL.len() - 1)),
            Command::Theme => self.theme = self.theme.next_tone(),
            Command::Undo => self.undo(),
            Command::Redo => self.redo(),
            Command::Freeze => return self.freeze(),
            Command::Back => return self.cancel_load(),
            _ if self.panels.focus == Panel::Knobs => self.turn_knob(command),
            _ => self.move_cursor(command),
        }
        Vec::new()
    }

    fn typed(&mut self, key: KeyEvent) -> Vec<Effect> {
        self.notice = None;
        if let Some(screen) = self.screen.take() {
            return self.text_on_screen(screen, Text::Typed(key));
        }
        let word = if let KeyCode::Char(letter) = key.code { self.word_by_letter(letter) } else { None };
        if let Some(word) = word {
            self.set_knob(self.knobs.focus, word);
        } else if self.accepts_numbers() {
            let mut entry = ValueEntry::default();
            entry.0.edit(Text::Typed(key));
            return self.show(entry);
        }
        Vec::new()
    }

    fn pasted(&mut self, text: &str) -> Vec<Effect> {
        if let Some(screen) = self.screen.take() {
            return self.text_on_screen(screen, Text::Pasted(text));
        }
        if is_log(text) {
            let mut page = VerifyPage::default();
            let effects = page.read(self, LogSource::Text(text.into()));
            self.show(page);
            return effects;
        }
        // other text is taken as a model
        if text.lines().next().is_none_or(|line| line.trim().is_empty()) {
            return Vec::new();
        }
        let mut effects = self.press_on_planner(Command::Models);
        effects.extend(self.pasted(text));
        effects
    }
}
