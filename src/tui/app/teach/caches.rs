//! Where the reader is on the page of caches.

use super::PageResponse;
use crate::teach::caches::CachesPage;
use crate::tui::action::Command;

/// Steps that a page of them is.
const PAGE: u64 = 16;

/// How many squares are filled, and whether more come by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Squares that were filled.
    pub steps: u64,
    /// Whether more come by themselves.
    pub pace: Playback,
    /// The kind of block that is looked at.
    pub kind: usize,
}

/// Whether cells fill by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Playback {
    /// A step at a time, by hand.
    #[default]
    Paused,
    /// On and on.
    Running,
}

impl Cursor {
    pub(super) fn press(&mut self, content: &CachesPage, command: Command) -> PageResponse {
        let last = content.kinds.len().saturating_sub(1);
        match command {
            Command::Less => self.steps = self.steps.saturating_sub(1),
            Command::More => self.steps = self.steps.saturating_add(1),
            Command::PageUp => self.steps = self.steps.saturating_sub(PAGE),
            Command::PageDown => self.steps = self.steps.saturating_add(PAGE),
            Command::First => self.steps = 0,
            Command::Up => self.kind = self.kind.saturating_sub(1),
            Command::Down => self.kind = (self.kind + 1).min(last),
            Command::Play => {
                self.pace = match self.pace {
                    Playback::Paused => Playback::Running,
                    Playback::Running => Playback::Paused,
                };
                return if self.pace == Playback::Running { PageResponse::Tick } else { PageResponse::Drawing };
            }
            _ => {}
        }
        PageResponse::Drawing
    }

    /// A moment has passed.
    pub(super) fn tick(&mut self) -> PageResponse {
        if self.pace == Playback::Paused {
            return PageResponse::Drawing;
        }
        self.steps = self.steps.saturating_add(1);
        PageResponse::Tick
    }
}
