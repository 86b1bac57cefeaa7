//! Layout of the header, and the commands of mouse presses on it.

use ratatui::layout::Rect;

use crate::tui::action::Command;
use crate::tui::widget::row_writer::width;

/// Its right end.
pub const HELP: &str = "? help ";

/// The header: the model on the left; engine, machine and help on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    area: Rect,
    engine: u16,
    machine: u16,
}

impl Header {
    /// The header in `area` with the labels `engine` and `machine`.
    pub fn new(area: Rect, engine: &str, machine: &str) -> Self {
        Self { area, engine: width(engine), machine: width(machine) }
    }

    /// Whether there is room for the engine.
    pub fn shows_engine(&self) -> bool {
        self.area.width > self.machine + self.engine + width(HELP) + 8 + 40
    }

    /// The command for a press at column `x`.
    pub fn command_at(&self, x: u16) -> Option<Command> {
        let mut right = self.area.right();
        let (engine, gap) = if self.shows_engine() { (self.engine, 3) } else { (0, 2) };
        // in drawing order, from the right
        let parts =
            [(width(HELP), 2, Command::Help), (self.machine, gap, Command::Machine), (engine, gap, Command::Engine)];
        for (cells, gap, command) in parts {
            let left = right.saturating_sub(cells);
            if (left..right).contains(&x) {
                return Some(command);
            }
            right = left.saturating_sub(gap);
        }
        (x < right).then_some(Command::Models)
    }
}
