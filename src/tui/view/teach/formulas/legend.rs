//! The meaning of the letters.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::page::{Hue, Page};
use crate::teach::formulas::FormulasPage;
use crate::tui::theme::Theme;
use crate::tui::widget::page;
use crate::tui::widget::panel;

pub(super) fn draw(content: &FormulasPage, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Variables", "", false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let mut shown = Page::default();
    if content.legend.is_empty() {
        let text = "Compute buffers have no formula: the Allocation page shows which tensors are live in them, and \
                    when.";
        shown.text(text, Hue::Dim);
    }
    content.letters_onto(&mut shown);
    page::within(&shown, 0, inner, theme, buffer);
}
