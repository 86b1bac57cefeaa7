//! The export page.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tui_input::Input;

use super::page;
use crate::export::ExportFormat;
use crate::page::{Hue, Page, Span};
use crate::tui::app::App;
use crate::tui::app::export::ExportPage;
use crate::tui::widget::{field, panel};

/// Draws the page.
pub fn draw(app: &App, export: &ExportPage, buffer: &mut Buffer) {
    let mut page = Page::default();
    formats(export, &mut page);
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
    page::draw(app, &page, "Export", export.scroll, None, buffer);
    if let Some(entry) = &export.naming {
        name(app, &entry.input, buffer);
    }
}

/// The formats side by side, on as many lines as needed.
fn formats(export: &ExportPage, page: &mut Page) {
    let word = |(place, format): (usize, &ExportFormat)| {
        let shown = place == export.at;
        let ink = if shown { Hue::Focus.bold() } else { Hue::Dim.into() };
        let title = format!("{}{}", if shown { "▸" } else { " " }, format.title()).replace(' ', "\u{a0}");
        [Span::new(&title, ink), Span::new("  ", Hue::Dim)]
    };
    page.spans("", export.formats.iter().enumerate().flat_map(word).collect());
}

/// The field for a file name.
fn name(app: &App, input: &Input, buffer: &mut Buffer) {
    let place = app.regions.overlay(page::WIDTH.min(70), 3);
    let inner = panel::overlay(buffer, place, "Save as", "Enter saves, Esc back", app.theme);
    field::draw(input, "name of a new file", Rect { height: 1, ..inner }, app.theme, buffer);
}
