//! A lesson for a room: one idea at a time on the whole screen, without header and footer, and notes on a key.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget};

use crate::page::Page;
use crate::teach::lessons::LessonsPage;
use crate::tui::action::Command;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::page;
use crate::tui::widget::row_writer::{RowWriter, wrap};

/// Widest lines: longer ones are hard to read from a distance.
const WIDEST: u16 = 72;

/// What is shown of the lesson.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presented {
    /// Index of the idea.
    pub idea: usize,
    /// Whether the notes are shown.
    pub notes: bool,
}

impl Presented {
    /// What is shown after a key.
    pub(super) fn pressed(self, content: &LessonsPage, command: Command) -> Self {
        let last = content.ideas().len().saturating_sub(1);
        let idea = match command {
            Command::More | Command::Play | Command::PageDown => (self.idea + 1).min(last),
            Command::Less | Command::PageUp => self.idea.min(last).saturating_sub(1),
            Command::First => 0,
            Command::Last => last,
            _ => self.idea,
        };
        Self { idea, notes: self.notes != (command == Command::Notes) }
    }
}

/// Draws the idea over everything.
pub(super) fn draw(shown: Presented, content: &LessonsPage, theme: Theme, screen: Rect, buffer: &mut Buffer) {
    Clear.render(screen.intersection(buffer.area), buffer);
    let columns = WIDEST.min(screen.width.saturating_sub(8));
    let margin = Margin::new(screen.width.saturating_sub(columns) / 2, 1);
    let inner = screen.inner(margin);
    let ideas = content.ideas();
    let idea = shown.idea.min(ideas.len().saturating_sub(1));
    RowWriter::new(buffer, inner, 0).right(&format!("{} of {}", idea + 1, ideas.len()), theme.ink(Hue::Dim));
    let title = wrap(content.lesson.title, columns);
    for (row, line) in (1..).zip(&title) {
        RowWriter::new(buffer, inner, row).put(line, theme.bold(Hue::Focus));
    }
    let top = title.len() as u16 + 2;
    let lines = |page: &Page| -> Vec<Line<'static>> {
        page::lines(page, usize::from(columns), None, theme).into_iter().map(|(line, _)| line).collect()
    };
    let notes = if shown.notes { lines(&content.notes()) } else { Vec::new() };
    let below = (notes.len() as u16).min(inner.height.saturating_sub(top) / 2);
    let area = Rect { y: inner.y + top, height: inner.height.saturating_sub(top + below), ..inner };
    let lowest = Rect { y: area.bottom(), height: below, ..inner };
    if let Some(page) = ideas.get(idea) {
        put(&lines(page), area, theme, buffer);
    }
    put(&notes, lowest, theme, buffer);
}

/// Draws `lines` in the middle of `area`, with a row between them if there is room for that.
fn put(lines: &[Line<'static>], area: Rect, theme: Theme, buffer: &mut Buffer) {
    let count = lines.len() as u16;
    let apart = if count.saturating_mul(2) <= area.height { 2 } else { 1 };
    let above = area.height.saturating_sub(count.saturating_mul(apart)) / 2;
    for (line, row) in lines.iter().zip((above..area.height).step_by(usize::from(apart))) {
        line.render(Rect { y: area.y + row, height: 1, ..area }, buffer);
    }
    if count > area.height && area.height > 0 {
        RowWriter::new(buffer, area, area.height - 1).right(" …", theme.ink(Hue::Dim));
    }
}
