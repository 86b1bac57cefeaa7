//! The cursor of the allocation page.

use ratatui::layout::Rect;

use super::PageResponse;
use crate::teach::allocation::{AllocationPage, AllocationWalk, Timeline, Variation};
use crate::tui::action::Command;
use crate::tui::regions::teach::allocation::PageAreas;

/// The selected device and step, and the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Index into the walk's timelines.
    pub device: usize,
    /// Index into the walk's steps; none for the peak.
    pub moment: Option<usize>,
    /// The setting that is changed in the compared walk.
    pub versus: Option<Variation>,
}

impl Cursor {
    /// The selected timeline.
    pub fn timeline(self, walk: &AllocationWalk) -> Option<&Timeline> {
        walk.timelines.get(self.device.min(walk.timelines.len().saturating_sub(1)))
    }

    /// The selected step.
    pub fn moment(self, walk: &AllocationWalk) -> usize {
        let last = walk.moments.len().saturating_sub(1);
        let peak = self.timeline(walk).map_or(0, |timeline| timeline.peak);
        self.moment.unwrap_or(peak).min(last)
    }

    pub(super) fn press(&mut self, content: &AllocationPage, command: Command) -> PageResponse {
        let walk = &content.walk;
        let (at, last) = (self.moment(walk), walk.moments.len().saturating_sub(1));
        match command {
            Command::Less => self.moment = Some(at.saturating_sub(1)),
            Command::More => self.moment = Some((at + 1).min(last)),
            Command::PageUp => self.moment = Some(block_before(walk, at)),
            Command::PageDown => self.moment = Some(block_after(walk, at).min(last)),
            Command::First => self.moment = Some(0),
            Command::Last => self.moment = Some(last),
            Command::Peak => self.moment = None,
            Command::Up => self.device = self.device.saturating_sub(1),
            Command::Down => self.device = (self.device + 1).min(walk.timelines.len().saturating_sub(1)),
            Command::Compare => {
                self.versus = match self.versus {
                    None => Variation::ALL.first().copied(),
                    Some(now) => Variation::ALL.iter().copied().skip_while(|versus| *versus != now).nth(1),
                };
                return PageResponse::Request;
            }
            _ => {}
        }
        PageResponse::Redraw
    }

    pub(super) fn point(&mut self, content: &AllocationPage, area: Rect, x: u16, y: u16) {
        let places = PageAreas::new(area, content);
        if let Some(moment) = places.moment_at(content, x, y) {
            self.moment = Some(moment);
        }
    }
}

/// The first step of the block before that of `at`.
fn block_before(walk: &AllocationWalk, at: usize) -> usize {
    let layer = |at: usize| walk.moments.get(at).and_then(|moment| moment.layer);
    let same = |from: usize| (0..=from).rev().take_while(|&to| layer(to) == layer(from)).last().unwrap_or(from);
    same(same(at).saturating_sub(1))
}

/// The first step of the block after that of `at`.
fn block_after(walk: &AllocationWalk, at: usize) -> usize {
    let layer = |at: usize| walk.moments.get(at).and_then(|moment| moment.layer);
    (at..walk.moments.len()).find(|&to| layer(to) != layer(at)).unwrap_or(walk.moments.len())
}
