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
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};

use super::{PageResponse, entry_at, first_visible, framed, ink, mark, upright};
use crate::teach::lessons::{self, LessonsPage};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::tui::widget::{page, panel};

/// Minimum width for the titles next to the lesson.
const WIDE: u16 = 100;
/// Lines per Page Up and Page Down.
const PAGE: u16 = 4;

/// The open lesson.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Its index.
    pub at: usize,
    /// Scrolled lines.
    pub scroll: u16,
    /// Whether its answer is shown.
    answered: bool,
}

/// How many lessons there are.
pub(super) fn count() -> usize {
    lessons::all().len()
}

impl Cursor {
    pub(super) fn press(&mut self, command: Command) -> PageResponse {
        match command {
            Command::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            Command::PageDown => self.scroll = self.scroll.saturating_add(PAGE),
            Command::Answer => self.answered = !self.answered,
            _ => return self.open(moved(self.at, lessons::all().len(), 1, upright(command))),
        }
        PageResponse::Redraw
    }

    /// Opens the lesson with its title at this position.
    pub(super) fn point(&mut self, area: Rect, at: Position) -> PageResponse {
        let rows = areas(area)[0].inner(Margin::new(1, 1));
        let count = lessons::all().len();
        let pressed = entry_at(rows, first_visible(self.at, count, rows.height), count, at);
        self.open(pressed.unwrap_or(self.at))
    }

    fn open(&mut self, to: usize) -> PageResponse {
        if to == self.at {
            return PageResponse::Redraw;
        }
        *self = Self { at: to, ..Self::default() };
        PageResponse::Request
    }
}

/// The list, which a narrow page leaves out, and the lesson.
pub(super) fn areas(area: Rect) -> [Rect; 2] {
    // each has a number in front; plus the frame
    let titles = lessons::all().iter().map(|lesson| width(&lesson.title)).max().unwrap_or(0) + 6;
    let list = if area.width < WIDE { 0 } else { titles.min(area.width / 2) };
    Layout::horizontal([Constraint::Length(list), Constraint::Fill(1)]).areas(area)
}

/// Draws the page.
pub(super) fn draw(app: &App, cursor: Cursor, content: &LessonsPage, area: Rect, buffer: &mut Buffer) {
    let (theme, lesson) = (app.theme, &content.lesson);
    let [titles, text] = areas(area);
    if titles.width > 0 {
        list(cursor, titles, theme, buffer);
    }
    let right_title = format!("{} of {}", lesson.at + 1, lessons::all().len());
    let inner = framed(buffer, text, lesson.title, &right_title, true, theme);
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
        let edge = Rect { y: inner.bottom(), height: 1, ..inner };
        RowWriter::new(buffer, edge, 0).right(&format!(" {below} more lines, PgDn "), theme.ink(Hue::Dim));
    }
}

fn list(cursor: Cursor, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Lessons", "", false, theme);
    let lessons = lessons::all();
    let first = first_visible(cursor.at, lessons.len(), inner.height);
    for (row, (at, lesson)) in inner.rows().zip(lessons.iter().enumerate().skip(first)) {
        let ink = ink(at == cursor.at, Hue::Text, theme);
        let mut writer = RowWriter::new(buffer, row, 0);
        writer.put(mark(at == cursor.at), ink).put(&format!("{:>2} ", at + 1), ink).put(&lesson.title, ink);
    }
}
