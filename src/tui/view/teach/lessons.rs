//! The lessons page: the list, and the open lesson with the engine's figures.
//!
//! ```text
//! ╭ Lessons ─────────────────────╮╭ Why parallel multiplies context ──────────────────────────────────╮
//! │  1 Why one layer on the CPU… ││ Llama 3.1 8B · Q4_K_M · Ollama ≤ 0.24 · 8 192 tokens · RTX 3060    │
//! │ ▸2 Why parallel multiplies … ││ The context that you ask of Ollama is one sequence's. …      text  │
//! │                              ││ K and V of all heads ██████████████████████ 16.0 GiB         bars  │
//! │                              ││ Question  How many tokens does the cache hold …                    │
//! ╰─────────────────────── list ─╯╰────────────────────────────────────────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::lessons::{self, LessonsPage};
use crate::tui::app::App;
use crate::tui::app::teach::lessons::Cursor;
use crate::tui::regions::teach::lessons::PageAreas;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::page;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::RowWriter;

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &LessonsPage, area: Rect, buffer: &mut Buffer) {
    let (theme, lesson) = (app.theme, &content.lesson);
    let places = PageAreas::new(area);
    if places.list.width > 0 {
        list(cursor, places, theme, buffer);
    }
    let right_title = format!("{} of {}", lesson.at + 1, lessons::all().len());
    let frame = panel::frame(buffer, places.lesson, lesson.title, &right_title, true, theme);
    let inner = Rect { x: frame.x.saturating_add(1), width: frame.width.saturating_sub(2), ..frame };
    let mut shown = content.page(cursor.answered, false);
    shown.blank();
    if !cursor.answered {
        shown.text("Press a for the answer, as computed by the engine", Hue::Dim);
        shown.blank();
    }
    let enter = if lesson.setup.is_open {
        "Enter sets these knobs, u undoes it"
    } else {
        "Enter opens this model with these knobs, u undoes it"
    };
    shown.text(enter, Hue::Dim);
    let count = page::within(&shown, cursor.scroll, inner, theme, buffer);
    let below = count.saturating_sub(cursor.scroll.saturating_add(inner.height));
    if below > 0 {
        let bottom = Rect { x: inner.x, y: frame.bottom(), width: inner.width, height: 1 };
        RowWriter::new(buffer, bottom, 0).right(&format!(" {below} more lines, PgDn "), theme.ink(Hue::Dim));
    }
}

fn list(cursor: Cursor, places: PageAreas, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, places.list, "Lessons", "", false, theme);
    for (row, (at, lesson)) in (0..inner.height).zip(lessons::all().iter().enumerate().skip(places.first(cursor.at))) {
        let chosen = at == cursor.at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.put(if chosen { "▸" } else { " " }, ink).put(&format!("{:>2} ", at + 1), ink).put(&lesson.title, ink);
    }
}
