//! The branches of a `max` over a knob's range, as lines on logarithmic axes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::page::Page;
use crate::teach::formulas::{Crossover, KnobCurve};
use crate::tui::theme::Theme;
use crate::tui::widget::page;
use crate::tui::widget::panel;

pub(super) fn draw(crossover: &Crossover, along: &KnobCurve, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Larger branch", "c: next", false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let (cells, height) = (usize::from(inner.width), usize::from(inner.height));
    // the curves take what the words leave, with a row for their axis
    let with = |rows: usize| {
        let mut shown = Page::default();
        crossover.onto(along, cells, rows, &mut shown);
        shown
    };
    let words = with(0).lines(cells).len();
    page::within(&with(height.saturating_sub(words + 1)), 0, inner, theme, buffer);
}
