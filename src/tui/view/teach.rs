//! The teach screen: tabs, knobs, and the open page.
//!
//! ```text
//!  plimsoll  Llama 3.1 8B · Q4_K_M · 8.0 B · 4.6 GiB        llama.cpp           RTX 3090 · 64 GiB   ? help   header
//!  ▸ Allocation                                                                                               tabs
//!  ▸ context 16 384  parallel 1  KV cache f16  flash attn auto  batch 512  GPU layers auto                   knobs
//! ╭─────────────────────────────────────────────────────────────────────────────────────────────────── page ╮
//! │                                                                                                         │
//! ╰─────────────────────────────────────────────────────────────────────────────────────────────────────────╯
//!  Tab page  ←→ step  ↑↓ choose  …                                                                          footer
//! ```

mod allocation;
mod caches;
mod formulas;
mod kinds;
mod lessons;
mod schedule;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::PageContent;
use crate::tui::app::{App, TeachScreen};
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, wrap};

/// Draws the screen.
pub fn draw(app: &App, teach: &TeachScreen, buffer: &mut Buffer) {
    let regions = app.regions.teach();
    for (page, place) in regions.tab() {
        let open = page == teach.page;
        let ink = if open { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        RowWriter::new(buffer, place, 0).put(if open { " ▸" } else { "  " }, ink).put(page.title(), ink);
    }
    knobs(app, buffer);
    page(app, teach, regions.page, buffer);
}

/// Draws the open page into `area`, or why it has no content.
pub fn page(app: &App, teach: &TeachScreen, area: Rect, buffer: &mut Buffer) {
    match (teach.content(), &teach.refused, &app.refused) {
        (_, Some(why), _) => sentence(app, why, Hue::Over, area, buffer),
        (_, None, Some(error)) => sentence(app, &error.to_string(), Hue::Over, area, buffer),
        (Some(PageContent::Schedule(content)), ..) => schedule::draw(app, teach.schedule, content, area, buffer),
        (Some(PageContent::Formulas(content)), ..) => formulas::draw(app, &teach.formulas, content, area, buffer),
        (Some(PageContent::Caches(content)), ..) => caches::draw(app, teach.caches, content, area, buffer),
        (Some(PageContent::Lessons(content)), ..) => lessons::draw(app, teach.lessons, content, area, buffer),
        (Some(PageContent::Allocation(content)), ..) => allocation::draw(app, teach.allocation, content, area, buffer),
        (None, ..) => sentence(app, "Computing…", Hue::Dim, area, buffer),
    }
}

fn knobs(app: &App, buffer: &mut Buffer) {
    let written = app.knob_labels();
    for (knob, place) in app.regions.teach().knob(&written, app.knobs.focus) {
        let Some((_, text)) = written.iter().find(|(other, _)| *other == knob) else { continue };
        let chosen = knob == app.knobs.focus;
        let ink = if chosen { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        RowWriter::new(buffer, place, 0).put(if chosen { " ▸" } else { "  " }, ink).put(text, ink);
    }
}

fn sentence(app: &App, text: &str, hue: Hue, area: Rect, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "", "", false, app.theme);
    for (row, line) in (1..).zip(wrap(text, inner.width.saturating_sub(4))) {
        RowWriter::new(buffer, inner, row).skip(2).put(&line, app.theme.ink(hue));
    }
}
