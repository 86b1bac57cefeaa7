//! Frames with titles; the focused one is highlighted.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Borders, Clear, Widget};

use super::row_writer::{RowWriter, width};
use crate::tui::theme::{Hue, Theme, Tone};

/// Draws a frame around `area` and returns the inside.
pub fn frame(buffer: &mut Buffer, area: Rect, title: &str, right_title: &str, focused: bool, theme: Theme) -> Rect {
    framed(buffer, area, [title, right_title], Borders::ALL, focused, theme)
}

/// The same with a line above alone.
pub fn rule(buffer: &mut Buffer, area: Rect, title: &str, right_title: &str, theme: Theme) -> Rect {
    framed(buffer, area, [title, right_title], Borders::TOP, false, theme)
}

fn framed(
    buffer: &mut Buffer,
    area: Rect,
    [title, right_title]: [&str; 2],
    borders: Borders,
    focused: bool,
    theme: Theme,
) -> Rect {
    let area = area.intersection(buffer.area);
    let (border, title_ink) = if focused {
        (theme.ink(Hue::Focus), theme.bold(Hue::Focus))
    } else {
        (theme.ink(Hue::Border), theme.ink(Hue::Text))
    };
    let heavy = focused && theme.look.tone == Tone::Mono;
    let kind = if heavy { BorderType::Thick } else { BorderType::Rounded };
    let block = Block::new().borders(borders).border_type(kind).border_style(border);
    let inner = block.inner(area);
    block.render(area, buffer);
    let top =
        Rect { x: area.x.saturating_add(2), width: area.width.saturating_sub(4), height: area.height.min(1), ..area };
    if !title.is_empty() {
        let mut writer = RowWriter::new(buffer, top, 0);
        writer.put(if focused { "▸" } else { " " }, title_ink).put(title, title_ink).put(" ", title_ink);
        if !right_title.is_empty() && writer.room() > 4 {
            writer.put("─ ", border);
            let right_title = cut_to_parts(right_title, writer.room());
            writer.put(right_title, theme.ink(Hue::Dim)).put(" ", border);
        }
    }
    inner
}

/// `right_title` cut after a whole part to fit `cells`; unchanged if not even the first part fits.
fn cut_to_parts(right_title: &str, cells: u16) -> &str {
    if width(right_title) <= cells {
        return right_title;
    }
    let ends = [", ", " · "].into_iter().flat_map(|between| right_title.match_indices(between)).map(|(end, _)| end);
    // plus a blank before the border
    ends.filter(|&end| width(&right_title[..end]) < cells).max().map_or(right_title, |end| &right_title[..end])
}

/// The first of `right_titles` that fits next to `title` in a frame around `area`, as [`frame`] draws them.
pub fn fitting<'a>(area: Rect, title: &str, right_titles: impl IntoIterator<Item = &'a str>) -> &'a str {
    // the corners, the focus marker, and the separators
    let room = area.width.saturating_sub(4 + 1 + width(title) + 1 + 2 + 1);
    right_titles.into_iter().find(|right_title| width(right_title) <= room).unwrap_or_default()
}

/// Clears `area` and draws the frame of an overlay there; returns the inside.
pub fn overlay(buffer: &mut Buffer, area: Rect, title: &str, right_title: &str, theme: Theme) -> Rect {
    let area = area.intersection(buffer.area);
    Clear.render(area, buffer);
    let inner = frame(buffer, area, title, right_title, true, theme);
    Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_titles_lose_whole_parts() {
        let right_title = "Ollama ≥ 0.30, release 2026-11 · exact";
        assert_eq!(cut_to_parts(right_title, 38), right_title);
        assert_eq!(cut_to_parts(right_title, 37), "Ollama ≥ 0.30, release 2026-11");
        assert_eq!(cut_to_parts(right_title, 30), "Ollama ≥ 0.30");
        assert_eq!(cut_to_parts(right_title, 13), right_title, "which the pen then cuts");
    }
}
