//! Where everything stands in the first line, and what a press there asks for.

use ratatui::layout::Rect;

use crate::tui::action::Command;
use crate::tui::widget::row_writer::width;

/// What stands at its right end.
pub const HELP: &str = "? help ";

/// The first line: the model, and from the right edge on the keys, the machine and the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    area: Rect,
    engine: u16,
    machine: u16,
}

impl Header {
    /// The line in `area`, where `engine` and `machine` are written.
    pub fn new(area: Rect, engine: &str, machine: &str) -> Self {
        Self { area, engine: width(engine), machine: width(machine) }
    }

    /// Whether it has room for the engine beside the model and the machine.
    pub fn names_engine(&self) -> bool {
        self.area.width > self.machine + self.engine + width(HELP) + 8 + 40
    }

    /// What a press at column `x` of it asks for: whatever is named there.
    pub fn asked_at(&self, x: u16) -> Option<Command> {
        let mut right = self.area.right();
        let (engine, gap) = if self.names_engine() { (self.engine, 3) } else { (0, 2) };
        // as they are drawn, from the right edge on
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
