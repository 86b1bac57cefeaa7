//! The machine screen: devices on the left, settings of the selected device on the right.

pub mod cards;
pub mod compare;
pub mod rows;
pub mod saved;

use std::sync::Arc;

use cards::CardPicker;
use compare::MachineComparison;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use saved::SavedPage;
use tui_input::Input;

use super::App;
use super::knobs::next_multiple;
use crate::machine::Machine;
use crate::machine::what_if::{self, WhatIf};
use crate::settings::Settings;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::regions::machine::MachineRegions;
use crate::tui::screen::{Cover, Response, Screen, moved};
use crate::tui::view;
use crate::tui::widget::field::Text;
use crate::units::Bytes;

pub use rows::{DeviceSetting, MachineRow};

/// Steps and fine steps of sizes.
const STEP: Bytes = Bytes::gib(1);
const FINE: Bytes = Bytes::mib(128);

/// Entries per Page Up and Page Down.
const PAGE: usize = 8;

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct MachineScreen {
    /// The focused pane.
    pub pane: Pane,
    /// The selected device: index into [`App::machine_rows`].
    pub row: usize,
    /// The selected setting of it: index into its [`MachineRow::lines`].
    pub line: usize,
    /// Scrolled lines of the notes on the device.
    pub scroll: u16,
    /// The open prompt.
    pub prompt: MachinePrompt,
    /// Why the last command failed.
    pub wrong: Option<String>,
}

/// The two panes of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The list of devices.
    #[default]
    Devices,
    /// The selected device.
    Details,
}

/// A prompt or overlay on the machine screen.
#[derive(Clone, Debug, Default)]
pub enum MachinePrompt {
    /// None.
    #[default]
    Nothing,
    /// A size for the selected setting.
    Size(Input),
    /// A card to choose.
    Card(CardPicker),
    /// A name to save the machine under.
    Name(Input),
    /// A saved machine to choose.
    Saved(SavedPage),
    /// A comparison of several machines.
    Compare(MachineComparison),
}

impl MachineScreen {
    fn focus_devices(&mut self) {
        (self.pane, self.line, self.scroll) = (Pane::Devices, 0, 0);
    }

    fn press_on_prompt(&mut self, app: &mut App, command: Command) -> Vec<Effect> {
        match std::mem::take(&mut self.prompt) {
            MachinePrompt::Nothing => app.press_on_devices(self, command),
            MachinePrompt::Size(input) => {
                app.press_on_size(self, input, command);
                Vec::new()
            }
            MachinePrompt::Card(cards) => {
                app.press_on_cards(self, cards, command);
                Vec::new()
            }
            MachinePrompt::Name(input) => app.press_on_name(self, input, command),
            MachinePrompt::Saved(saved) => app.press_on_saved(self, saved, command),
            MachinePrompt::Compare(compare) => {
                if !matches!(command, Command::Back | Command::Enter) {
                    self.prompt = MachinePrompt::Compare(compare);
                }
                Vec::new()
            }
        }
    }
}

impl Screen for MachineScreen {
    fn scopes(&self) -> &'static [Scope] {
        match self.prompt {
            MachinePrompt::Nothing => &[Scope::Machine, Scope::Everywhere],
            MachinePrompt::Size(_) | MachinePrompt::Name(_) => &[Scope::Field, Scope::Everywhere],
            MachinePrompt::Card(_) => &[Scope::CardPicker, Scope::Everywhere],
            MachinePrompt::Saved(_) => &[Scope::SavedMachines, Scope::Everywhere],
            MachinePrompt::Compare(_) => &[Scope::Page, Scope::Everywhere],
        }
    }

    fn cover(&self) -> Cover {
        Cover::Whole
    }

    fn message(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        self.wrong = None;
        let on_devices = self.pane == Pane::Devices;
        match (&self.prompt, command) {
            (MachinePrompt::Nothing, Command::Back) if on_devices => return Response::CLOSE,
            (MachinePrompt::Nothing, Command::Help) => return Response::Ignored,
            _ => {}
        }
        let effects = self.press_on_prompt(app, command);
        app.clamp_cursor(self);
        Response::Stay(effects)
    }

    fn accepts_text(&self) -> bool {
        matches!(self.prompt, MachinePrompt::Size(_) | MachinePrompt::Name(_) | MachinePrompt::Card(_))
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        self.wrong = None;
        match &mut self.prompt {
            MachinePrompt::Size(input) | MachinePrompt::Name(input) => {
                text.edit(input);
            }
            MachinePrompt::Card(cards) => {
                text.edit(&mut cards.input);
                cards.at = 0;
            }
            MachinePrompt::Nothing | MachinePrompt::Saved(_) | MachinePrompt::Compare(_) => {}
        }
        Response::STAY
    }

    /// A press selects the device or setting at the pointer.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        if gesture != Gesture::Down {
            return Response::Ignored;
        }
        if !matches!(self.prompt, MachinePrompt::Nothing) {
            return Response::STAY;
        }
        app.notice = None;
        let rows = app.machine_rows().len();
        let places = MachineRegions::of(&app.regions, rows);
        let lines = app.machine_row(self).lines(app.engine).len();
        if let Some(row) = places.row_at(self.row, rows, at.x, at.y) {
            (self.pane, self.row, self.line, self.scroll) = (Pane::Devices, row, 0, 0);
        } else if let Some(line) = places.line_at(lines, at.x, at.y) {
            (self.pane, self.line) = (Pane::Details, line);
        }
        Response::STAY
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Vec<Effect> {
        match (answer, &mut self.prompt) {
            (Action::MachinesListed(Ok(entries)), MachinePrompt::Saved(saved)) => saved.entries = Some(entries),
            (Action::MachinesListed(Err(wrong)), MachinePrompt::Saved(saved)) => {
                saved.entries = Some(Vec::new());
                self.wrong = Some(wrong);
            }
            (Action::MachinesCompared(answers), MachinePrompt::Compare(compare)) => compare.learn(answers),
            (Action::MachineSaved(Ok(_)), prompt) => *prompt = MachinePrompt::Nothing,
            // said on the screen
            (Action::MachineSaved(Err(wrong)), _) => (self.wrong, app.notice) = (Some(wrong), None),
            _ => {}
        }
        Vec::new()
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        view::machine::draw(app, self, buffer);
    }
}

impl App {
    /// The rows of the screen: the GPUs, a row that adds one, RAM, and settings for all GPUs.
    pub fn machine_rows(&self) -> Vec<MachineRow> {
        let slots = self.what_if.slots(&self.found_machine.machine).len();
        (0..slots).map(MachineRow::Gpu).chain([MachineRow::Add, MachineRow::Ram, MachineRow::Every]).collect()
    }

    /// The selected row.
    pub fn machine_row(&self, screen: &MachineScreen) -> MachineRow {
        let rows = self.machine_rows();
        rows.get(screen.row.min(rows.len() - 1)).copied().unwrap_or(MachineRow::Ram)
    }

    /// Clamps the cursor to the present rows.
    fn clamp_cursor(&self, screen: &mut MachineScreen) {
        screen.row = screen.row.min(self.machine_rows().len() - 1);
        let lines = self.machine_row(screen).lines(self.engine).len();
        screen.line = screen.line.min(lines.saturating_sub(1));
        if lines == 0 {
            screen.pane = Pane::Devices;
        }
    }

    fn press_on_devices(&mut self, screen: &mut MachineScreen, command: Command) -> Vec<Effect> {
        let row = self.machine_row(screen);
        match (command, screen.pane) {
            (Command::Undo, _) => self.undo(),
            (Command::Redo, _) => self.redo(),
            (Command::Freeze, _) => return self.freeze(),
            (Command::Theme, _) => self.theme = self.theme.next_tone(),
            (Command::Save, _) => screen.prompt = MachinePrompt::Name(Input::default()),
            (Command::SavedMachines, _) => {
                screen.prompt = MachinePrompt::Saved(SavedPage::default());
                return vec![Effect::ListMachines];
            }
            (Command::Toggle, _) => self.toggle(row),
            (Command::Remove, _) => self.remove(row),
            (Command::Reset, _) => self.restore(row),
            (Command::PageUp, _) => screen.scroll = screen.scroll.saturating_sub(4),
            (Command::PageDown, _) => screen.scroll = screen.scroll.saturating_add(4),
            (Command::Back | Command::NextPanel | Command::PreviousPanel, Pane::Details) => screen.focus_devices(),
            (Command::NextPanel | Command::PreviousPanel | Command::Enter | Command::More, Pane::Devices)
                if row != MachineRow::Add =>
            {
                (screen.pane, screen.line) = (Pane::Details, 0);
            }
            (Command::Add, _) | (Command::Enter, Pane::Devices) => {
                screen.prompt = MachinePrompt::Card(CardPicker::new(None));
            }
            (_, Pane::Devices) => {
                screen.row = moved(screen.row, self.machine_rows().len(), PAGE, command);
                screen.scroll = 0;
            }
            (Command::Up | Command::Down | Command::First | Command::Last, Pane::Details) => {
                let lines = row.lines(self.engine).len();
                (screen.line, screen.scroll) = (moved(screen.line, lines, PAGE, command), 0);
            }
            (_, Pane::Details) => self.adjust_setting(screen, row, command),
        }
        Vec::new()
    }

    fn adjust_setting(&mut self, screen: &mut MachineScreen, row: MachineRow, command: Command) {
        let Some(&line) = row.lines(self.engine).get(screen.line) else { return };
        match (line, command) {
            (DeviceSetting::Used, Command::Enter | Command::Less | Command::More) => self.toggle(row),
            (DeviceSetting::Card, Command::Enter) => {
                let MachineRow::Gpu(slot) = row else { return };
                screen.prompt = MachinePrompt::Card(CardPicker::new(Some(slot)));
            }
            (_, Command::Enter) => screen.prompt = MachinePrompt::Size(Input::default()),
            _ => {
                let Some(now) = self.machine_size(row, line) else { return };
                let next = |step: Bytes, up| Bytes(next_multiple(now.0, step.0, up));
                let size = match command {
                    Command::Less => next(STEP, false),
                    Command::More => next(STEP, true),
                    Command::FineLess => next(FINE, false),
                    Command::FineMore => next(FINE, true),
                    _ => return,
                };
                let max = self.machine_max(row, line);
                self.set_machine_size(row, line, max.map_or(size, |max| size.min(max)));
            }
        }
    }

    fn press_on_size(&mut self, screen: &mut MachineScreen, input: Input, command: Command) {
        let row = self.machine_row(screen);
        let Some(&line) = row.lines(self.engine).get(screen.line) else { return };
        if command != Command::Enter {
            return;
        }
        match what_if::size(line.title(), input.value(), self.machine_max(row, line)) {
            Ok(size) => self.set_machine_size(row, line, size),
            Err(wrong) => {
                screen.wrong = Some(wrong);
                screen.prompt = MachinePrompt::Size(input);
            }
        }
    }

    fn toggle(&mut self, row: MachineRow) {
        self.change_slot(row, |change| change.off = !change.off);
    }

    fn remove(&mut self, row: MachineRow) {
        let MachineRow::Gpu(slot) = row else { return };
        self.change_machine(|what_if, here| what_if.remove(slot, here));
    }

    fn restore(&mut self, row: MachineRow) {
        match row {
            MachineRow::Gpu(slot) => self.change_machine(|what_if, here| what_if.restore(slot, here)),
            MachineRow::Ram => self.change_machine(|what_if, _| what_if.ram = what_if::RamChange::default()),
            MachineRow::Every => {
                let settings = Settings { gpu_overhead: Bytes::ZERO, fit_target: None, ..self.settings.clone() };
                self.change_settings(settings);
            }
            MachineRow::Add => {}
        }
    }

    /// Changes the machine as one undo step.
    pub(crate) fn change_machine(&mut self, change: impl FnOnce(&mut WhatIf, &Machine)) {
        let mut what_if = self.what_if.clone();
        change(&mut what_if, &self.found_machine.machine);
        what_if.drop_no_ops();
        if what_if != self.what_if {
            self.push_undo();
            self.what_if = what_if;
            self.rebuild_machine();
        }
    }

    /// Rebuilds the machine from the changes, and plans again.
    pub(crate) fn rebuild_machine(&mut self) {
        self.machine = Arc::new(self.what_if.over(&self.found_machine.machine));
        self.library.renew();
        self.replan_from_scratch();
    }
}
