//! The export page.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use tui_input::Input;

use super::page::{self, TextPage};
use crate::tui::app::App;
use crate::tui::app::export::ExportPage;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::width;
use crate::tui::widget::{field, panel};

/// Draws the page.
pub fn draw(app: &App, export: &ExportPage, buffer: &mut Buffer) {
    let mut page = TextPage::new(app);
    formats(app, export, &mut page);
    page.text(export.format().purpose(), Hue::Dim);
    page.blank();
    match &export.text {
        None => page.text("…", Hue::Dim),
        Some(Err(why)) => page.text(why, Hue::Over),
        Some(Ok(text)) => {
            for line in text.lines() {
                // comments are dimmed
                page.verbatim(line, if line.starts_with("# ") { Hue::Dim } else { Hue::Text });
            }
        }
    }
    if let Some(plan) = &app.plan {
        page.blank();
        page.text(&plan.source(), Hue::Dim);
    }
    page.draw(app, "Export", export.scroll, buffer);
    if let Some(entry) = &export.naming {
        name(app, &entry.input, buffer);
    }
}

/// The formats side by side, on as many lines as needed.
fn formats(app: &App, export: &ExportPage, page: &mut TextPage) {
    const GAP: u16 = 2;
    let (mut line, mut filled) = (Line::default(), 0);
    for (place, format) in export.formats.iter().enumerate() {
        let shown = place == export.at;
        let ink = if shown { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        let word = format!("{}{}", if shown { "▸" } else { " " }, format.title());
        if filled + width(&word) > page.columns() {
            page.line(std::mem::take(&mut line));
            filled = 0;
        }
        filled += width(&word) + GAP;
        line.push_span(Span::styled(word, ink));
        line.push_span(Span::raw(" ".repeat(usize::from(GAP))));
    }
    page.line(line);
}

/// The field for a file name.
fn name(app: &App, input: &Input, buffer: &mut Buffer) {
    let place = app.regions.overlay(page::WIDTH.min(70), 3);
    let inner = panel::overlay(buffer, place, "Save as", "Enter saves, Esc back", app.theme);
    field::draw(input, "name of a new file", Rect { height: 1, ..inner }, app.theme, buffer);
}
