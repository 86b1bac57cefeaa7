//! What the letters stand for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::formulas::Formulas;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, width, wrap};

pub(super) fn draw(sheet: &Formulas, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Variables", "", false, theme);
    let widest =
        |text: fn(&crate::plan::Symbol) -> &str| sheet.legend.iter().map(|s| width(text(s))).max().unwrap_or(0);
    let (letters, values) = (widest(|symbol| symbol.letter), widest(|symbol| &symbol.value));
    if sheet.legend.is_empty() {
        let text = "Compute buffers have no formula: the Allocation page shows which tensors are live in them, and \
                    when.";
        for (row, line) in (0..).zip(wrap(text, inner.width.saturating_sub(2))) {
            Pen::new(buffer, inner, row).skip(1).put(&line, theme.ink(Hue::Dim));
        }
    }
    let start = inner.x + 1 + letters + 1 + values + 2;
    let mut row = 0;
    for symbol in &sheet.legend {
        let mut pen = Pen::new(buffer, inner, row);
        pen.skip(1).put(symbol.letter, theme.bold(Hue::Text)).skip(letters - width(symbol.letter));
        pen.skip(1 + values - width(&symbol.value)).put(&symbol.value, theme.ink(Hue::Graph));
        for line in wrap(symbol.meaning, inner.right().saturating_sub(start)) {
            Pen::new(buffer, inner, row).to(start).put(&line, theme.ink(Hue::Dim));
            row += 1;
        }
    }
}
