//! Where the reader is on the schedule page.

use ratatui::layout::Rect;

use super::Made;
use crate::engine::ggml::tensor::Op;
use crate::teach::schedule::Schedule;
use crate::tui::action::Command;
use crate::tui::regions::teach::schedule::Places;

/// Lines that Page Up and Page Down go.
const PAGE: usize = 10;

/// The step and the block that are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Index into the steps.
    pub step: usize,
    /// Index into the blocks.
    pub block: usize,
    /// The operation that is looked at in the block, counted from its first, where the block is open.
    pub open: Option<usize>,
    /// The operation that GPUs are held not to have.
    pub without: Option<Op>,
}

impl Cursor {
    /// Itself, within what `sheet` has.
    #[must_use]
    pub fn within(self, sheet: &Schedule) -> Self {
        let block = self.block.min(sheet.blocks.len().saturating_sub(1));
        let nodes = sheet.blocks.get(block).map_or(0, |block| block.nodes.len());
        Self {
            step: self.step.min(sheet.steps.len().saturating_sub(1)),
            block,
            open: self.open.map(|at| at.min(nodes.saturating_sub(1))),
            ..self
        }
    }

    /// The row that is looked at, and how many there are: the open block's operations, or the blocks.
    pub fn row(self, sheet: &Schedule) -> (usize, usize) {
        match self.open {
            Some(at) => (at, sheet.blocks.get(self.block).map_or(0, |block| block.nodes.len())),
            None => (self.block, sheet.blocks.len()),
        }
    }

    pub(super) fn press(&mut self, sheet: &Schedule, command: Command) -> Made {
        *self = self.within(sheet);
        let steps = sheet.steps.len().saturating_sub(1);
        let nodes = sheet.blocks.get(self.block).map_or(0, |block| block.nodes.len());
        let (at, last) = match &mut self.open {
            Some(at) => (at, nodes.saturating_sub(1)),
            None => (&mut self.block, sheet.blocks.len().saturating_sub(1)),
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
            Command::TakeAway => {
                self.without = match self.without {
                    None => sheet.common.first().map(|(op, _)| *op),
                    Some(now) => sheet.common.iter().map(|(op, _)| *op).skip_while(|op| *op != now).nth(1),
                };
                return Made::Question;
            }
            _ => {}
        }
        Made::Drawing
    }

    pub(super) fn point(&mut self, sheet: &Schedule, area: Rect, x: u16, y: u16) {
        *self = self.within(sheet);
        let places = Places::new(area, sheet);
        if let Some(step) = places.step_at(sheet, x, y) {
            self.step = step;
        } else if let Some(row) = places.row_at(x, y) {
            let (at, count) = self.row(sheet);
            let first = places.first_row(at, count);
            match &mut self.open {
                Some(at) => *at = first + row,
                None => self.block = first + row,
            }
            *self = self.within(sheet);
        }
    }
}
