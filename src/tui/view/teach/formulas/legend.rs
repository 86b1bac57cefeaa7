//! The meaning of the letters.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::formulas::FormulasPage;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

pub(super) fn draw(content: &FormulasPage, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Variables", "", false, theme);
    let widest =
        |text: fn(&crate::plan::Symbol) -> &str| content.legend.iter().map(|s| width(text(s))).max().unwrap_or(0);
    let (letters, values) = (widest(|symbol| symbol.letter), widest(|symbol| &symbol.value));
    if content.legend.is_empty() {
        let text = "Compute buffers have no formula: the Allocation page shows which tensors are live in them, and \
                    when.";
        for (row, line) in (0..).zip(wrap(text, inner.width.saturating_sub(2))) {
            RowWriter::new(buffer, inner, row).skip(1).put(&line, theme.ink(Hue::Dim));
        }
    }
    let start = inner.x + 1 + letters + 1 + values + 2;
    let mut row = 0;
    for symbol in &content.legend {
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.skip(1).put(symbol.letter, theme.bold(Hue::Text)).skip(letters - width(symbol.letter));
        writer.skip(1 + values - width(&symbol.value)).put(&symbol.value, theme.ink(Hue::Graph));
        for line in wrap(symbol.meaning, inner.right().saturating_sub(start)) {
            RowWriter::new(buffer, inner, row).to(start).put(&line, theme.ink(Hue::Dim));
            row += 1;
        }
    }
}
