//! The cells of every cache as they fill.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::page::Page;
use crate::teach::caches::CachesPage;
use crate::teach::caches::squares::Squares;
use crate::tui::app::App;
use crate::tui::app::teach::caches::{Cursor, Playback};
use crate::tui::theme::Hue;
use crate::tui::widget::page;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::RowWriter;

pub(super) fn draw(app: &App, cursor: Cursor, content: &CachesPage, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let room = |lost: u16| usize::from(area.width.saturating_sub(lost));
    let squares = Squares { rows: usize::from(area.height.saturating_sub(3)), cells: room(4) };
    let size = squares.size(content);
    let scale = Squares::scale(size, squares.steps(content, size, cursor.steps));
    let pace = match cursor.pace {
        Playback::Paused => "Space: play",
        Playback::Running => "Space: pause",
    };
    let (title, right_titles) = if content.stores.is_empty() {
        ("States", ["1 square = 1 state".to_owned(), String::new()])
    } else {
        ("Cells", [format!("{scale}, {pace}"), scale])
    };
    let right_title = panel::fitting(area, title, right_titles.iter().map(String::as_str));
    let inner = panel::frame(buffer, area, title, right_title, true, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let mut shown = Page::default();
    squares.onto(content, size, cursor.steps, &mut shown);
    let rows = page::within(&shown, 0, inner, theme, buffer);
    if rows < inner.height {
        RowWriter::new(buffer, inner, inner.height - 1).put(squares.legend(content), theme.ink(Hue::Dim));
    }
}
