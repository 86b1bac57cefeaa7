//! The cursor of the lessons page.

use super::PageResponse;
use crate::teach::lessons;
use crate::tui::action::Command;

/// The open lesson.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Its index.
    pub at: usize,
    /// Whether its answer is shown.
    pub answered: bool,
    /// Scrolled lines.
    pub scroll: u16,
}

impl Cursor {
    pub(super) fn press(&mut self, command: Command) -> PageResponse {
        let last = lessons::all().len().saturating_sub(1);
        let to = match command {
            Command::Up | Command::Less => self.at.saturating_sub(1),
            Command::Down | Command::More => (self.at + 1).min(last),
            Command::First => 0,
            Command::Last => last,
            Command::PageUp => {
                self.scroll = self.scroll.saturating_sub(4);
                self.at
            }
            Command::PageDown => {
                self.scroll = self.scroll.saturating_add(4);
                self.at
            }
            Command::Answer => {
                self.answered = !self.answered;
                self.at
            }
            _ => self.at,
        };
        self.open(to)
    }

    /// Opens lesson `to`.
    pub(super) fn open(&mut self, to: usize) -> PageResponse {
        if to == self.at {
            return PageResponse::Redraw;
        }
        *self = Self { at: to, ..Self::default() };
        PageResponse::Request
    }
}
