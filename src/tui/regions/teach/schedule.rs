//! Layout of the schedule page.

use ratatui::layout::Rect;

use crate::teach::schedule::{SchedulePage, ScheduleStep};
use crate::tui::regions::{cut_top, inside};
use crate::tui::widget::row_writer::{width, wrap};

/// Width of the panel right of the graph, if there is room.
const SIDE_PANEL: u16 = 46;

/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageAreas {
    pub steps: Rect,
    pub description: Rect,
    pub graph: Rect,
    pub side_panel: Rect,
    /// Inside the graph's frame: the names of the columns.
    pub labels: Rect,
    /// Below them: a row per block, or per operation of the open one.
    pub rows: Rect,
}

/// Most rows of the columns' names.
const LABELS: u16 = 9;

impl PageAreas {
    /// The parts of `area`, with a block open or not.
    pub fn new(area: Rect, content: &SchedulePage, open: bool) -> Self {
        let room = area.width.saturating_sub(3);
        let remark = content.remark.as_ref().map_or(0, |text| wrap(text, room).len());
        let without = usize::from(content.without.is_some());
        // one height for all steps, to keep the layout steady
        let lines = |step: &ScheduleStep| wrap(step.source_name(), room).len() + wrap(step.description(), room).len();
        let longest = content.steps.iter().map(lines).max().unwrap_or(0);
        let words = ((remark + without + longest) as u16).min(area.height / 3);
        let steps = Rect { height: area.height.min(1), ..area };
        let description = Rect { y: steps.bottom(), height: words, ..area };
        let rest = Rect { y: description.bottom(), height: area.bottom().saturating_sub(description.bottom()), ..area };
        let wide = area.width >= 100;
        let beside = if wide { SIDE_PANEL } else { 0 };
        let below = if wide { 0 } else { (rest.height / 3).clamp(5, 9).min(rest.height) };
        let graph = Rect { width: rest.width - beside, height: rest.height - below, ..rest };
        let side_panel = if wide {
            Rect { x: graph.right(), width: beside, ..rest }
        } else {
            Rect { y: graph.bottom(), height: below, ..rest }
        };
        let inner = inside(graph);
        // operations are named in their rows when a block is open
        let (labels, rows) = cut_top(inner, if open { 0 } else { (inner.height / 3).min(LABELS) });
        Self { steps, description, graph, side_panel, labels, rows }
    }

    /// The areas of the steps' names; empty for those without room.
    pub fn step_cells(self, content: &SchedulePage) -> Vec<Rect> {
        let mut x = self.steps.x;
        let place = |step: &ScheduleStep| {
            let cells = width(step.name()) + 2;
            let fits = x.saturating_add(cells) <= self.steps.right();
            let place = Rect { x, width: if fits { cells } else { 0 }, ..self.steps };
            x = x.saturating_add(cells);
            place
        };
        content.steps.iter().map(place).collect()
    }

    /// The step with its name at (`x`, `y`).
    pub fn step_at(&self, content: &SchedulePage, x: u16, y: u16) -> Option<usize> {
        self.step_cells(content).iter().position(|place| place.contains((x, y).into()))
    }

    /// The row of the graph at (`x`, `y`), counted from the first shown.
    pub fn row_at(&self, x: u16, y: u16) -> Option<usize> {
        self.rows.contains((x, y).into()).then(|| usize::from(y - self.rows.y))
    }

    /// The first visible row of `count`, so that row `at` is near the middle.
    pub fn first_row(&self, at: usize, count: usize) -> usize {
        let rows = usize::from(self.rows.height);
        at.saturating_sub(rows / 2).min(count.saturating_sub(rows))
    }
}
