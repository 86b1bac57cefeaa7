//! Layout of the lessons page.

use ratatui::layout::Rect;

use crate::teach::lessons;
use crate::tui::regions::inside;
use crate::tui::widget::row_writer::width;

/// Minimum width for the titles next to the lesson.
const WIDE: u16 = 100;

/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageAreas {
    pub list: Rect,
    pub lesson: Rect,
}

impl PageAreas {
    /// The parts of `area`.
    pub fn new(area: Rect) -> Self {
        // each has a number in front; plus the frame
        let titles = lessons::all().iter().map(|lesson| width(&lesson.title)).max().unwrap_or(0) + 6;
        let list = Rect { width: if area.width < WIDE { 0 } else { titles.min(area.width / 2) }, ..area };
        let lesson = Rect { x: area.x + list.width, width: area.width - list.width, ..area };
        Self { list, lesson }
    }

    /// The first lesson in the list, so that lesson `open` is in it.
    pub fn first(&self, open: usize) -> usize {
        super::formulas::first(open, lessons::all().len(), inside(self.list).height)
    }

    /// The lesson with its title at (`x`, `y`), while lesson `open` is open.
    pub fn lesson_at(&self, open: usize, x: u16, y: u16) -> Option<usize> {
        let inner = inside(self.list);
        let at = self.first(open) + usize::from(y.checked_sub(inner.y)?);
        (inner.contains((x, y).into()) && at < lessons::all().len()).then_some(at)
    }
}
