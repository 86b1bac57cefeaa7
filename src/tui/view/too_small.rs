//! The message on a screen that is too small.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::regions::MIN_SCREEN;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, wrap};

/// Draws the message.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let area = buffer.area;
    let now = format!("This terminal is {}×{} cells.", app.regions.screen.width, app.regions.screen.height);
    let wanted = format!("plimsoll needs {}×{}. Enlarge it, or quit with q.", MIN_SCREEN.0, MIN_SCREEN.1);
    let lines: Vec<String> = wrap(&format!("{wanted} {now}"), area.width);
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    for (row, line) in (top..).zip(&lines) {
        let row = Rect { y: area.y.saturating_add(row), height: u16::from(row < area.height), ..area };
        RowWriter::new(buffer, row, 0).put(line, app.theme.ink(Hue::Text));
    }
}
