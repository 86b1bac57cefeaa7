//! The cursor of the caches page.

use super::PageResponse;
use crate::teach::caches::CachesPage;
use crate::tui::action::Command;

/// Steps per Page Up and Page Down.
const PAGE: u64 = 16;

/// The number of filled cells, the selected kind of block, and playback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Steps of filling so far.
    pub steps: u64,
    /// Whether filling is playing.
    pub pace: Playback,
    /// The selected kind of block.
    pub kind: usize,
}

/// Whether filling is playing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Playback {
    /// One step per key press.
    #[default]
    Paused,
    /// One step per tick.
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
                return if self.pace == Playback::Running { PageResponse::Tick } else { PageResponse::Redraw };
            }
            _ => {}
        }
        PageResponse::Redraw
    }

    /// Fills one step if playing.
    pub(super) fn tick(&mut self) -> PageResponse {
        if self.pace == Playback::Paused {
            return PageResponse::Redraw;
        }
        self.steps = self.steps.saturating_add(1);
        PageResponse::Tick
    }
}
