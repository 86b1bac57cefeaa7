//! Where the titles and the lesson stand on the page of lessons.

use ratatui::layout::Rect;

use crate::teach::lessons;
use crate::tui::regions::inside;
use crate::tui::widget::row_writer::width;

/// From so many columns on the titles stand beside the lesson.
const WIDE: u16 = 100;

/// Where the titles and the lesson stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageAreas {
    pub list: Rect,
    pub lesson: Rect,
}

impl PageAreas {
    /// The parts of `area`.
    pub fn new(area: Rect) -> Self {
        // a number before each, and the frame
        let titles = lessons::all().iter().map(|lesson| width(&lesson.title)).max().unwrap_or(0) + 5;
        let list = Rect { width: if area.width < WIDE { 0 } else { titles.min(area.width / 2) }, ..area };
        let lesson = Rect { x: area.x + list.width, width: area.width - list.width, ..area };
        Self { list, lesson }
    }

    /// The lesson whose title stands at (`x`, `y`).
    pub fn lesson_at(&self, x: u16, y: u16) -> Option<usize> {
        let inner = inside(self.list);
        let at = usize::from(y.checked_sub(inner.y)?);
        (inner.contains((x, y).into()) && at < lessons::all().len()).then_some(at)
    }
}
