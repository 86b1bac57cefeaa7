//! A text input.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use tui_input::Input;

use super::row_writer::RowWriter;
use crate::tui::theme::{Hue, Theme};

/// Draws `input` in one row, or `hint` if it is empty.
pub fn draw(input: &Input, hint: &str, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut writer = RowWriter::new(buffer, row, 0);
    writer.put("› ", theme.bold(Hue::Focus));
    let (start, room) = (writer.x(), writer.room().saturating_sub(1));
    if input.value().is_empty() {
        writer.skip(1).put(hint, theme.ink(Hue::Dim));
    }
    let scroll = input.visual_scroll(usize::from(room));
    let shown: String = input.value().chars().skip(scroll).collect();
    let mut writer = RowWriter::new(buffer, Rect { x: start, width: room, ..row }, 0);
    writer.put(&shown, theme.ink(Hue::Text));
    let cursor = start + (input.visual_cursor().saturating_sub(scroll) as u16).min(room);
    if let Some(cell) = buffer.cell_mut((cursor, row.y)) {
        cell.modifier.insert(Modifier::REVERSED);
    }
}
