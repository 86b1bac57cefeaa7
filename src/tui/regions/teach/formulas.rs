//! Layout of the formulas page.

use ratatui::layout::Rect;

use crate::teach::formulas::FormulasPage;
use crate::tui::regions::inside;

/// Minimum width for a column right of the tree.
const WIDE: u16 = 76;
/// Rows of the written formula.
const WRITTEN: u16 = 9;
/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageAreas {
    pub tree: Rect,
    pub written: Rect,
    pub crossover: Rect,
    pub legend: Rect,
}

impl PageAreas {
    /// The parts of `area`.
    pub fn new(area: Rect, content: &FormulasPage) -> Self {
        let nothing = Rect { height: 0, ..area };
        if area.width < WIDE {
            let written = WRITTEN.min(area.height / 2);
            let tree = Rect { height: area.height - written, ..area };
            let written = Rect { y: tree.bottom(), height: written, ..area };
            return Self { tree, written, crossover: nothing, legend: nothing };
        }
        let tree = Rect { width: area.width * 11 / 20, ..area };
        let side = Rect { x: tree.right(), width: area.width - tree.width, ..area };
        let written = Rect { height: WRITTEN.min(side.height), ..side };
        let rest = Rect { y: written.bottom(), height: side.height - written.height, ..side };
        // the chart takes precedence over the legend, whose letters the tree shows too
        let lines = content.legend.len() as u16 + 2;
        let chart =
            if content.contests.is_empty() { 0 } else { rest.height.saturating_sub(lines).max(10).min(rest.height) };
        let crossover = Rect { height: chart, ..rest };
        let legend = Rect { y: crossover.bottom(), height: rest.height - chart, ..rest };
        Self { tree, written, crossover, legend }
    }

    /// The line of the tree at (`x`, `y`), with `lines` lines and line `at` selected.
    pub fn line_at(&self, at: usize, lines: usize, x: u16, y: u16) -> Option<usize> {
        let inner = inside(self.tree);
        let row = usize::from(y.checked_sub(inner.y)?);
        let line = first(at, lines, inner.height) + row;
        (inner.contains((x, y).into()) && line < lines).then_some(line)
    }
}

/// The first visible line of `count`, so that line `at` is visible in `rows` rows.
pub fn first(at: usize, count: usize, rows: u16) -> usize {
    let rows = usize::from(rows);
    (at + 1).saturating_sub(rows.saturating_sub(2).max(1)).min(count.saturating_sub(rows))
}
