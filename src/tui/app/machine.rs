//! The machine screen: devices on one side, what can be changed of the chosen one on the other.

pub mod cards;
pub mod lines;
pub mod shelf;
pub mod versus;

use std::sync::Arc;

use tui_input::Input;

use super::{App, Mode};
use crate::machine::Machine;
use crate::machine::what_if::{self, WhatIf};
use crate::settings::Settings;
use crate::tui::action::Command;
use crate::tui::effect::Effect;
use crate::units::Bytes;

use cards::Cards;
pub use lines::{Line, Row};
use shelf::Shelf;
use versus::Versus;

/// Sizes go by these steps, and finely by those.
const STEP: Bytes = Bytes::gib(1);
const FINE: Bytes = Bytes::mib(128);

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    /// Where the cursor is.
    pub pane: Pane,
    /// The chosen device: index into [`App::machine_rows`].
    pub row: usize,
    /// The chosen line of it: index into its [`Row::lines`].
    pub line: usize,
    /// Lines by which what is said of it is scrolled.
    pub scroll: u16,
    /// What is being asked.
    pub asking: Asking,
    /// Why the last thing was not done.
    pub wrong: Option<String>,
}

/// The two sides of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The list of devices.
    #[default]
    Devices,
    /// The chosen one.
    Details,
}

/// What stands in front of the screen.
#[derive(Clone, Debug, Default)]
pub enum Asking {
    /// Nothing.
    #[default]
    Nothing,
    /// A size for the chosen line.
    Size(Input),
    /// A card.
    Card(Cards),
    /// A name to save the machine under.
    Name(Input),
    /// Which of the saved machines.
    Shelf(Shelf),
    /// Nothing: several machines stand side by side.
    Versus(Versus),
}

impl Bench {
    /// A letter typed now belongs to a text.
    pub const fn takes_text(&self) -> bool {
        matches!(self.asking, Asking::Size(_) | Asking::Name(_) | Asking::Card(_))
    }

    fn back_to_the_devices(&mut self) {
        (self.pane, self.line, self.scroll) = (Pane::Devices, 0, 0);
    }
}

impl App {
    /// The rows of the screen: the GPUs, a place for another one, main memory, and what holds for every GPU.
    pub fn machine_rows(&self) -> Vec<Row> {
        let seats = self.what_if.seats(&self.found_machine.machine).len();
        (0..seats).map(Row::Gpu).chain([Row::Add, Row::Ram, Row::Every]).collect()
    }

    /// The chosen row.
    pub fn machine_row(&self, bench: &Bench) -> Row {
        let rows = self.machine_rows();
        rows.get(bench.row.min(rows.len() - 1)).copied().unwrap_or(Row::Ram)
    }

    pub(super) fn press_on_machine(&mut self, mut bench: Box<Bench>, command: Command) -> Vec<Effect> {
        bench.wrong = None;
        let effects = match std::mem::take(&mut bench.asking) {
            Asking::Nothing if command == Command::Back && bench.pane == Pane::Devices => return Vec::new(),
            Asking::Nothing if command == Command::Help => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            Asking::Nothing => self.press_on_bench(&mut bench, command),
            Asking::Size(input) => {
                self.press_on_size(&mut bench, input, command);
                Vec::new()
            }
            Asking::Card(cards) => {
                self.press_on_cards(&mut bench, cards, command);
                Vec::new()
            }
            Asking::Name(input) => self.press_on_name(&mut bench, input, command),
            Asking::Shelf(shelf) => self.press_on_shelf(&mut bench, shelf, command),
            Asking::Versus(versus) => {
                if !matches!(command, Command::Back | Command::Enter) {
                    bench.asking = Asking::Versus(versus);
                }
                Vec::new()
            }
        };
        self.hold(&mut bench);
        self.mode = Mode::Machine(bench);
        effects
    }

    /// Keeps the cursor on what is there.
    fn hold(&self, bench: &mut Bench) {
        bench.row = bench.row.min(self.machine_rows().len() - 1);
        let lines = self.machine_row(bench).lines(self.engine).len();
        bench.line = bench.line.min(lines.saturating_sub(1));
        if lines == 0 {
            bench.pane = Pane::Devices;
        }
    }

    fn press_on_bench(&mut self, bench: &mut Bench, command: Command) -> Vec<Effect> {
        let row = self.machine_row(bench);
        match (command, bench.pane) {
            (Command::Undo, _) => self.undo(),
            (Command::Freeze, _) => return self.freeze(),
            (Command::Theme, _) => self.theme = self.theme.next_tone(),
            (Command::Save, _) => bench.asking = Asking::Name(Input::default()),
            (Command::Shelf, _) => {
                bench.asking = Asking::Shelf(Shelf::default());
                return vec![Effect::Shelf];
            }
            (Command::Toggle, _) => self.toggle(row),
            (Command::Remove, _) => self.remove(row),
            (Command::Reset, _) => self.restore(row),
            (Command::PageUp, _) => bench.scroll = bench.scroll.saturating_sub(4),
            (Command::PageDown, _) => bench.scroll = bench.scroll.saturating_add(4),
            (Command::Back | Command::NextPanel | Command::PreviousPanel, Pane::Details) => bench.back_to_the_devices(),
            (Command::NextPanel | Command::PreviousPanel | Command::Enter | Command::More, Pane::Devices)
                if row != Row::Add =>
            {
                (bench.pane, bench.line) = (Pane::Details, 0);
            }
            (Command::Add, _) | (Command::Enter, Pane::Devices) => bench.asking = Asking::Card(Cards::new(None)),
            (_, Pane::Devices) => {
                let last = self.machine_rows().len() - 1;
                bench.row = moved(bench.row, last, command);
                bench.scroll = 0;
            }
            (Command::Up | Command::Down | Command::First | Command::Last, Pane::Details) => {
                let last = row.lines(self.engine).len().saturating_sub(1);
                (bench.line, bench.scroll) = (moved(bench.line, last, command), 0);
            }
            (_, Pane::Details) => self.turn_line(bench, row, command),
        }
        Vec::new()
    }

    fn turn_line(&mut self, bench: &mut Bench, row: Row, command: Command) {
        let Some(&line) = row.lines(self.engine).get(bench.line) else { return };
        match (line, command) {
            (Line::Used, Command::Enter | Command::Less | Command::More) => self.toggle(row),
            (Line::Card, Command::Enter) => {
                let Row::Gpu(seat) = row else { return };
                bench.asking = Asking::Card(Cards::new(Some(seat)));
            }
            (_, Command::Enter) => bench.asking = Asking::Size(Input::default()),
            _ => {
                let Some(now) = self.machine_size(row, line) else { return };
                let size = match command {
                    Command::Less => stepped(now, STEP, false),
                    Command::More => stepped(now, STEP, true),
                    Command::FineLess => stepped(now, FINE, false),
                    Command::FineMore => stepped(now, FINE, true),
                    _ => return,
                };
                let most = self.machine_most(row, line);
                self.set_machine_size(row, line, most.map_or(size, |most| size.min(most)));
            }
        }
    }

    fn press_on_size(&mut self, bench: &mut Bench, input: Input, command: Command) {
        let row = self.machine_row(bench);
        let Some(&line) = row.lines(self.engine).get(bench.line) else { return };
        if command != Command::Enter {
            return;
        }
        match what_if::size(line.title(), input.value(), self.machine_most(row, line)) {
            Ok(size) => self.set_machine_size(row, line, size),
            Err(wrong) => {
                bench.wrong = Some(wrong);
                bench.asking = Asking::Size(input);
            }
        }
    }

    fn toggle(&mut self, row: Row) {
        self.change_seat(row, |change| change.off = !change.off);
    }

    fn remove(&mut self, row: Row) {
        let Row::Gpu(seat) = row else { return };
        self.change_machine(|what_if, here| what_if.remove(seat, here));
    }

    fn restore(&mut self, row: Row) {
        match row {
            Row::Gpu(seat) => self.change_machine(|what_if, here| what_if.restore(seat, here)),
            Row::Ram => self.change_machine(|what_if, _| what_if.ram = what_if::RamChange::default()),
            Row::Every => {
                let settings = Settings { gpu_overhead: Bytes::ZERO, fit_target: None, ..self.settings.clone() };
                self.change_settings(settings);
            }
            Row::Add => {}
        }
    }

    /// Changes the machine as one step that can be undone.
    pub(super) fn change_machine(&mut self, change: impl FnOnce(&mut WhatIf, &Machine)) {
        let mut what_if = self.what_if.clone();
        change(&mut what_if, &self.found_machine.machine);
        what_if.tidy();
        if what_if != self.what_if {
            self.remember();
            self.what_if = what_if;
            self.rebuild_machine();
        }
    }

    /// The machine is another: everything that was known of it has to be asked anew.
    pub(super) fn rebuild_machine(&mut self) {
        self.machine = Arc::new(self.what_if.over(&self.found_machine.machine));
        self.replan_from_scratch();
    }
}

pub(super) fn moved(at: usize, last: usize, command: Command) -> usize {
    match command {
        Command::Up => at.saturating_sub(1),
        Command::Down => (at + 1).min(last),
        Command::PageUp => at.saturating_sub(8),
        Command::PageDown => (at + 8).min(last),
        Command::First => 0,
        Command::Last => last,
        _ => at.min(last),
    }
}

/// The next multiple of `step` above or below `size`.
fn stepped(size: Bytes, step: Bytes, up: bool) -> Bytes {
    let steps = if up { (size.0 / step.0).saturating_add(1) } else { size.0.saturating_sub(1) / step.0 };
    Bytes(steps.saturating_mul(step.0))
}
