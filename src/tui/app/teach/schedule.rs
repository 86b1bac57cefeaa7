//! The cursor of the schedule page.

use ratatui::layout::Rect;

use super::PageResponse;
use crate::engine::ggml::tensor::Op;
use crate::teach::schedule::SchedulePage;
use crate::tui::action::Command;
use crate::tui::regions::teach::schedule::PageAreas;

/// Lines per Page Up and Page Down.
const PAGE: usize = 10;

/// The selected step and block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Index into the steps.
    pub step: usize,
    /// Index into the blocks.
    pub block: usize,
    /// The selected operation of the open block; none if no block is open.
    pub open: Option<usize>,
    /// An operation that GPUs are assumed not to support.
    pub without: Option<Op>,
}

impl Cursor {
    /// Clamped to `content`.
    #[must_use]
    pub fn within(self, content: &SchedulePage) -> Self {
        let block = self.block.min(content.blocks.len().saturating_sub(1));
        let nodes = content.blocks.get(block).map_or(0, |block| block.nodes.len());
        Self {
            step: self.step.min(content.steps.len().saturating_sub(1)),
            block,
            open: self.open.map(|at| at.min(nodes.saturating_sub(1))),
            ..self
        }
    }

    /// The selected row and the number of rows: operations of the open block, or blocks.
    pub fn row(self, content: &SchedulePage) -> (usize, usize) {
        match self.open {
            Some(at) => (at, content.blocks.get(self.block).map_or(0, |block| block.nodes.len())),
            None => (self.block, content.blocks.len()),
        }
    }

    pub(super) fn press(&mut self, content: &SchedulePage, command: Command) -> PageResponse {
        *self = self.within(content);
        let steps = content.steps.len().saturating_sub(1);
        let nodes = content.blocks.get(self.block).map_or(0, |block| block.nodes.len());
        let (at, last) = match &mut self.open {
            Some(at) => (at, nodes.saturating_sub(1)),
            None => (&mut self.block, content.blocks.len().saturating_sub(1)),
        };
        match command {
            Command::Less => self.step = self.step.saturating_sub(1),
            Command::More => self.step = (self.step + 1).min(steps),
            Command::Up => *at = at.saturating_sub(1),
            Command::Down => *at = (*at + 1).min(last),
            Command::PageUp => *at = at.saturating_sub(PAGE),
            Command::PageDown => *at = (*at + PAGE).min(last),
            Command::First => *at = 0,
            Command::Last => *at = last,
            Command::Enter => self.open = if self.open.is_some() { None } else { Some(0) },
            Command::RemoveOp => {
                self.without = match self.without {
                    None => content.common.first().map(|(op, _)| *op),
                    Some(now) => content.common.iter().map(|(op, _)| *op).skip_while(|op| *op != now).nth(1),
                };
                return PageResponse::Request;
            }
            _ => {}
        }
        PageResponse::Redraw
    }

    pub(super) fn point(&mut self, content: &SchedulePage, area: Rect, x: u16, y: u16) {
        *self = self.within(content);
        let places = PageAreas::new(area, content, self.open.is_some());
        if let Some(step) = places.step_at(content, x, y) {
            self.step = step;
        } else if let Some(row) = places.row_at(x, y) {
            let (at, count) = self.row(content);
            let first = places.first_row(at, count);
            match &mut self.open {
                Some(at) => *at = first + row,
                None => self.block = first + row,
            }
            *self = self.within(content);
        }
    }
}
