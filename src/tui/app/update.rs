//! Handles actions.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::browse::ModelBrowser;
use super::machine::MachinePrompt;
use super::machine::cards::CardPicker;
use super::verify::{VerifyState, is_log};
use super::{App, Mode, Panel, TextEntry};
use crate::text::is_printable;
use crate::tui::action::{Action, Command, ExitReason};
use crate::tui::effect::{Effect, LogSource};
use crate::tui::regions::Regions;

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
            Action::Mouse(gesture, x, y) => return self.mouse(gesture, x, y),
            Action::Resize(columns, rows) => {
                self.regions = Regions::of(columns, rows, self.knobs.offered.len());
                self.scroll_to_knob();
                // a wider screen shows more points of a sweep
                return self.ask_for_points();
            }
            Action::Detected(detected) => self.detected(detected),
            Action::MemoryChanged(update) => self.memory_changed(*update),
            Action::MachinesListed(entries) => self.machines_listed(entries),
            Action::MachinesCompared(answers) => self.machines_compared(answers),
            Action::MachineSaved(result) => self.machine_saved(result),
            Action::Progress { id, now, took } => self.progress(id, now, took),
            Action::Loaded { id, result } if id == self.loading.id => return self.loaded(result),
            Action::ModelsListed(items) => {
                self.library.models_listed(items);
                self.mark_list_changed();
            }
            Action::Running(answer) => {
                self.library.running(answer);
                self.mark_list_changed();
            }
            Action::ModelPlanned { id, item, status } => {
                if let Mode::Browse(browse) = &mut self.mode {
                    browse.learn();
                }
                self.library.model_planned(id, &item, status);
            }
            Action::Completed { typed, paths } => {
                if let Mode::Browse(browse) = &mut self.mode {
                    browse.completed(&typed, paths);
                }
            }
            Action::Limits { id, limits } if id == self.limits.id => self.set_limits(*limits),
            Action::PageReady { id, result } if id == self.teach_id => self.page_ready(result),
            Action::Tick { id } if id == self.tick_id => return self.tick(),
            Action::Fade { id } if id == self.change.id => self.change.before = None,
            Action::QueryAnswered { id, part } => self.query_answered(id, part),
            // answers to older requests
            Action::Loaded { .. }
            | Action::Limits { .. }
            | Action::PageReady { .. }
            | Action::Tick { .. }
            | Action::Fade { .. } => {}
            Action::Verified { id, result } => self.verified(id, result),
            Action::Written { id, text } => self.written(id, text),
            Action::Saved(result) => self.saved(result),
            Action::TaskPanicked(what) => self.notice = Some(what),
            Action::Leave(leave) => self.leave = Some(leave),
        }
        Vec::new()
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
        match std::mem::replace(&mut self.mode, Mode::Plan) {
            Mode::Plan => self.press_on_planner(command),
            Mode::Entry(entry) => {
                self.press_on_entry(entry, command);
                Vec::new()
            }
            Mode::Browse(browse) => self.press_on_browse(browse, command),
            Mode::Machine(screen) => self.press_on_machine(screen, command),
            Mode::Engines(page) => {
                self.press_on_engines(page, command);
                Vec::new()
            }
            Mode::Help(scroll) => {
                self.mode = match command {
                    Command::Help | Command::Back | Command::Enter => Mode::Plan,
                    _ => Mode::Help(scrolled(scroll, command)),
                };
                Vec::new()
            }
            Mode::EngineCompare(page) => {
                self.press_on_engine_compare(page, command);
                Vec::new()
            }
            Mode::Notes(scroll) => {
                self.mode = match command {
                    Command::Back | Command::Enter => Mode::Plan,
                    Command::Help => Mode::Help(0),
                    _ => Mode::Notes(scrolled(scroll, command)),
                };
                Vec::new()
            }
            Mode::Why(page) => self.press_on_layer(page, command),
            Mode::Best(page) => {
                self.press_on_best(page, command);
                Vec::new()
            }
            Mode::Sweep(page) => self.press_on_sweep(page, command),
            Mode::Matrix(page) => self.press_on_matrix(page, command),
            Mode::Compare(page) => {
                self.press_on_comparison(page, command);
                Vec::new()
            }
            Mode::Together(page) => {
                self.press_on_together(page, command);
                Vec::new()
            }
            Mode::Verify(page) => self.press_on_verify(page, command),
            Mode::Export(page) => self.press_on_export(page, command),
            Mode::Teach(teach) => self.press_on_teach(teach, command),
            Mode::Explain(subject, scroll) => {
                self.press_on_explanation(subject, scroll, command);
                Vec::new()
            }
        }
    }

    fn press_on_planner(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::NextPanel => self.focus_panel(self.panels.focus.turn(1)),
            Command::PreviousPanel => self.focus_panel(self.panels.focus.turn(Panel::ALL.len() - 1)),
            Command::Help => self.mode = Mode::Help(0),
            Command::Theme => self.theme = self.theme.next_tone(),
            Command::Undo => self.undo(),
            Command::Engine => self.open_engines(),
            Command::CompareEngines => self.open_engine_compare(),
            Command::Notes => self.mode = Mode::Notes(0),
            Command::Open | Command::Models => {
                self.library.open_on(&self.machine);
                self.mode = Mode::Browse(Box::new(ModelBrowser::new(command == Command::Open, self.preferences.need)));
                return vec![Effect::ListModels];
            }
            Command::Machine => self.mode = Mode::Machine(Box::default()),
            Command::Together => return self.open_together(),
            Command::Verify => self.open_verify(),
            Command::Export => return self.open_export(),
            Command::Freeze => return self.freeze(),
            Command::Teach => return self.open_teach(),
            Command::Back => return self.cancel_load(),
            Command::Explain => self.explain(),
            Command::Compare => self.pin(),
            Command::Best => return self.open_best(),
            Command::Sweep => return self.sweep(),
            Command::Matrix => return self.matrix(),
            Command::Enter if self.panels.focus == Panel::Layers => return self.open_why(),
            Command::Enter if self.panels.focus != Panel::Knobs => self.explain(),
            _ if self.panels.focus == Panel::Knobs => self.turn_knob(command),
            _ => self.move_cursor(command),
        }
        Vec::new()
    }

    fn press_on_entry(&mut self, mut entry: TextEntry, command: Command) {
        if command != Command::Enter {
            return;
        }
        if let Err(wrong) = self.set_from_text(entry.input.value()) {
            entry.wrong = Some(wrong);
            self.mode = Mode::Entry(entry);
        }
    }

    fn press_on_browse(&mut self, mut browse: Box<ModelBrowser>, command: Command) -> Vec<Effect> {
        match command {
            Command::Back => return Vec::new(),
            Command::Complete => {
                let typed = browse.input.value().to_owned();
                self.mode = Mode::Browse(browse);
                return vec![Effect::Complete { typed }];
            }
            Command::Enter => match browse.choice(&self.library) {
                Ok((name, reference)) => {
                    let effects = self.begin_load(name, reference);
                    self.loading.ctx = browse.need;
                    return effects;
                }
                Err(wrong) => browse.wrong = Some(wrong),
            },
            Command::UseAsDraft => match self.begin_draft(&mut browse) {
                Ok(effects) => return effects,
                Err(wrong) => browse.wrong = Some(wrong),
            },
            Command::Renew => {
                self.library.renew();
                browse.touch();
            }
            _ => browse.turn(command, &self.library),
        }
        self.mode = Mode::Browse(browse);
        Vec::new()
    }

    fn mark_list_changed(&mut self) {
        if let Mode::Browse(browse) = &mut self.mode {
            browse.touch();
        }
    }

    fn typed(&mut self, key: KeyEvent) -> Vec<Effect> {
        self.notice = None;
        let (event, begins) = (Event::Key(key), self.accepts_numbers());
        let word = if let KeyCode::Char(letter) = key.code { self.word_by_letter(letter) } else { None };
        match &mut self.mode {
            Mode::Entry(entry) => entry.typed(key),
            Mode::Browse(browse) => {
                let change = browse.input.handle_event(&event);
                change.filter(|change| change.value).into_iter().for_each(|_| browse.edited());
            }
            Mode::Machine(screen) => {
                screen.wrong = None;
                match &mut screen.prompt {
                    MachinePrompt::Size(input) | MachinePrompt::Name(input) => {
                        let _changed = input.handle_event(&event);
                    }
                    MachinePrompt::Card(cards) => {
                        let _changed = cards.input.handle_event(&event);
                        cards.at = 0;
                    }
                    MachinePrompt::Nothing | MachinePrompt::Saved(_) | MachinePrompt::Compare(_) => {}
                }
            }
            Mode::Export(page) => {
                if let Some(entry) = &mut page.naming {
                    entry.typed(key);
                }
            }
            Mode::Plan if let Some(word) = word => self.set_knob(self.knobs.focus, word),
            Mode::Verify(page) => {
                if let VerifyState::Asking(entry) = &mut page.state {
                    entry.typed(key);
                }
            }
            Mode::Plan if begins => {
                let mut entry = TextEntry::default();
                entry.typed(key);
                self.mode = Mode::Entry(entry);
            }
            _ => {}
        }
        Vec::new()
    }

    fn pasted(&mut self, text: &str) -> Vec<Effect> {
        let logs = matches!(&self.mode, Mode::Plan | Mode::Verify(_));
        if logs && is_log(text) {
            return self.verify(LogSource::Text(text.into()));
        }
        let line: String = text.lines().next().unwrap_or_default().chars().filter(|c| is_printable(*c)).collect();
        match &mut self.mode {
            Mode::Entry(entry) => entry.pasted(&line),
            Mode::Export(page) => {
                if let Some(entry) = &mut page.naming {
                    entry.pasted(&line);
                }
            }
            Mode::Machine(screen) => {
                if let MachinePrompt::Size(input)
                | MachinePrompt::Name(input)
                | MachinePrompt::Card(CardPicker { input, .. }) = &mut screen.prompt
                {
                    *input = Input::new(format!("{}{line}", input.value()));
                }
            }
            Mode::Browse(browse) => {
                browse.input = Input::new(format!("{}{line}", browse.input.value()));
                browse.edited();
            }
            Mode::Verify(page) => {
                if let VerifyState::Asking(entry) = &mut page.state {
                    entry.pasted(&line);
                }
            }
            // text pasted onto the planner is taken as a model
            Mode::Plan if !line.trim().is_empty() => {
                let effects = self.press_on_planner(Command::Models);
                self.pasted(&line);
                return effects;
            }
            _ => {}
        }
        Vec::new()
    }
}

/// The scroll position after `command`; drawing clamps it to the length of the page.
pub(super) const fn scrolled(scroll: u16, command: Command) -> u16 {
    match command {
        Command::Up => scroll.saturating_sub(1),
        Command::Down => scroll.saturating_add(1),
        Command::PageUp => scroll.saturating_sub(10),
        Command::PageDown => scroll.saturating_add(10),
        Command::First => 0,
        Command::Last => u16::MAX / 2,
        _ => scroll,
    }
}
