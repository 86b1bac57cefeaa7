//! The footer: the most important keys, or a message.

use ratatui::buffer::Buffer;

use crate::tui::app::App;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, wrap};

/// Draws the footer.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.regions.footer);
    let message = app.screen.as_ref().and_then(|screen| screen.message()).or(app.notice.as_deref());
    if let Some(text) = message {
        for (row, line) in (0..area.height).zip(wrap(text, area.width.saturating_sub(2))) {
            RowWriter::new(buffer, area, row).skip(1).put(&line, theme.bold(Hue::Cache));
        }
        return;
    }
    for placed in app.footer() {
        RowWriter::new(buffer, placed.place, 0)
            .put(&placed.word.keys, theme.bold(Hue::Text))
            .skip(1)
            .put(placed.word.hint.word, theme.ink(Hue::Dim));
    }
}
