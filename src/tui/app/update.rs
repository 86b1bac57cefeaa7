//! One action, one step.

use std::path::PathBuf;

use ratatui::crossterm::event::{Event, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::open::Open;
use super::{App, Entry, Load, Mode, Panel};
use crate::engine::Choice;
use crate::tui::action::{Action, Command, Leave};
use crate::tui::effect::{Effect, Loaded};
use crate::tui::regions::Regions;

impl App {
    /// Takes `action` and returns what the world is to do about it. Never panics, whatever comes in whatever order.
    pub fn update(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Press(command) => {
                self.notice = None;
                return self.press(command);
            }
            Action::Type(key) => return self.typed(key),
            Action::Paste(text) => return self.pasted(&text),
            Action::Mouse(gesture, x, y) => return self.mouse(gesture, x, y),
            Action::Resize(columns, rows) => {
                self.regions = Regions::of(columns, rows, self.knobs.len());
                self.reveal_knob();
            }
            Action::Detected(detected) => self.found(detected),
            Action::Moved(moved) => self.moved(moved),
            Action::Progress { id, done, total } => self.progress(id, done, total),
            Action::Loaded { id, result } if id == self.load_id => self.loaded(result),
            Action::Listed(listings) => {
                if let Mode::Open(open) = &mut self.mode {
                    open.listed(listings);
                }
            }
            Action::Completed { typed, paths } => {
                if let Mode::Open(open) = &mut self.mode {
                    open.completed(&typed, paths);
                }
            }
            Action::Limits { id, limits } if id == self.limits_id => self.limits = Some(limits),
            Action::Fade { id } if id == self.change.id => self.change.before = None,
            // overtaken by something newer
            Action::Loaded { .. } | Action::Limits { .. } | Action::Fade { .. } => {}
            Action::Broke(what) => self.notice = Some(what),
            Action::Leave(leave) => self.leave = Some(leave),
        }
        Vec::new()
    }

    fn press(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::Quit => {
                self.leave = Some(Leave::Quit);
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
            Mode::Open(open) => self.press_on_open(open, command),
            Mode::Engines(at) => {
                self.press_on_engines(at, command);
                Vec::new()
            }
            Mode::Help(scroll) => {
                self.mode = match command {
                    Command::Help | Command::Back | Command::Enter => Mode::Plan,
                    _ => Mode::Help(scrolled(scroll, command)),
                };
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
            Mode::Explain(subject, scroll) => {
                self.press_on_explanation(subject, scroll, command);
                Vec::new()
            }
        }
    }

    fn press_on_planner(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::NextPanel => self.turn_to(self.focus.turn(1)),
            Command::PreviousPanel => self.turn_to(self.focus.turn(Panel::ALL.len() - 1)),
            Command::Help => self.mode = Mode::Help(0),
            Command::Theme => self.theme = self.theme.next_tone(),
            Command::Undo => self.undo(),
            Command::Engine => {
                let now = self.choice();
                self.mode = Mode::Engines(Choice::all().iter().position(|&choice| choice == now).unwrap_or(0));
            }
            Command::Notes => self.mode = Mode::Notes(0),
            Command::Open => {
                self.mode = Mode::Open(Box::new(Open::new()));
                return vec![Effect::List];
            }
            Command::Freeze => return self.freeze(),
            Command::Back => return self.cancel_load(),
            Command::Explain => self.explain(),
            Command::Enter if self.focus != Panel::Knobs => self.explain(),
            _ if self.focus == Panel::Knobs => self.turn_knob(command),
            _ => self.move_cursor(command),
        }
        Vec::new()
    }

    fn press_on_entry(&mut self, mut entry: Entry, command: Command) {
        if command != Command::Enter {
            return;
        }
        if let Err(wrong) = self.take_typed(entry.input.value()) {
            entry.wrong = Some(wrong);
            self.mode = Mode::Entry(entry);
        }
    }

    fn press_on_engines(&mut self, at: usize, command: Command) {
        let choices = Choice::all();
        let last = choices.len().saturating_sub(1);
        match command {
            Command::Up | Command::Less => self.mode = Mode::Engines(at.saturating_sub(1)),
            Command::Down | Command::More => self.mode = Mode::Engines((at + 1).min(last)),
            Command::First => self.mode = Mode::Engines(0),
            Command::Last => self.mode = Mode::Engines(last),
            Command::Enter => {
                if let Some(&choice) = choices.get(at) {
                    self.choose(choice);
                }
            }
            Command::Help => self.mode = Mode::Help(0),
            Command::Back => {}
            _ => self.mode = Mode::Engines(at),
        }
    }

    fn press_on_open(&mut self, mut open: Box<Open>, command: Command) -> Vec<Effect> {
        match command {
            Command::Back => return Vec::new(),
            Command::Complete => {
                let typed = open.input.value().to_owned();
                self.mode = Mode::Open(open);
                return vec![Effect::Complete { typed }];
            }
            Command::Enter => match open.chosen() {
                Ok((name, path)) => return self.begin_load(name, path),
                Err(wrong) => open.wrong = Some(wrong),
            },
            _ => open.moved(command),
        }
        self.mode = Mode::Open(open);
        Vec::new()
    }

    fn typed(&mut self, key: KeyEvent) -> Vec<Effect> {
        self.notice = None;
        let (event, begins) = (Event::Key(key), self.takes_numbers());
        match &mut self.mode {
            Mode::Entry(entry) => {
                entry.wrong = None;
                let _changed = entry.input.handle_event(&event);
            }
            Mode::Open(open) => {
                let changed = open.input.handle_event(&event).is_some_and(|change| change.value);
                return if changed { open.edited() } else { Vec::new() };
            }
            Mode::Plan if begins => {
                let mut entry = Entry::default();
                let _changed = entry.input.handle_event(&event);
                self.mode = Mode::Entry(entry);
            }
            _ => {}
        }
        Vec::new()
    }

    fn pasted(&mut self, text: &str) -> Vec<Effect> {
        let line: String = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        match &mut self.mode {
            Mode::Entry(entry) => entry.input = Input::new(format!("{}{line}", entry.input.value())),
            Mode::Open(open) => {
                open.input = Input::new(format!("{}{line}", open.input.value()));
                return open.edited();
            }
            _ => {}
        }
        Vec::new()
    }

    /// Asks for the model at `path`; what was asked for before is of no interest any more.
    pub fn begin_load(&mut self, name: String, path: PathBuf) -> Vec<Effect> {
        self.load_id += 1;
        self.load_name.clone_from(&name);
        self.load = Load::Running { name, done: 0, total: None };
        vec![Effect::Load { id: self.load_id, path }]
    }

    fn cancel_load(&mut self) -> Vec<Effect> {
        match &self.load {
            Load::Running { name, .. } => {
                self.notice = Some(format!("Stopped reading {name}; the plan is as it was."));
                self.load_id += 1;
                self.load = Load::Idle;
                vec![Effect::CancelLoad]
            }
            Load::Failed { .. } => {
                self.load = Load::Idle;
                Vec::new()
            }
            Load::Idle | Load::Ready => Vec::new(),
        }
    }

    fn progress(&mut self, id: u64, now: u64, of: Option<u64>) {
        if let Load::Running { done, total, .. } = &mut self.load
            && id == self.load_id
        {
            (*done, *total) = (now, of);
        }
    }

    fn loaded(&mut self, result: Result<Loaded, String>) {
        let name = self.load_name.clone();
        match result {
            Ok(Loaded { model, adapters }) => {
                self.load = Load::Ready;
                self.model = Some(model);
                self.settings.adapters = adapters;
                // what was set for the other model came without these adapters
                self.past.iter_mut().for_each(|step| step.settings.adapters = adapters);
                self.plan = None;
                self.cursors = super::Cursors::default();
                self.replan_from_scratch();
            }
            Err(why) => self.load = Load::Failed { name, why },
        }
    }
}

/// How far a page is scrolled after `command`; drawing holds it to the end of the page.
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
