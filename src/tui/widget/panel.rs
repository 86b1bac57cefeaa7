//! A frame with a title; the one that has the focus cannot be mistaken.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::pen::{Pen, width};
use crate::tui::theme::{Hue, Theme, Tone};

/// Draws a frame around `area` and returns what is inside.
pub fn frame(buffer: &mut Buffer, area: Rect, title: &str, aside: &str, focused: bool, theme: Theme) -> Rect {
    let area = area.intersection(buffer.area);
    let (border, title_ink) = if focused {
        (theme.ink(Hue::Focus), theme.bold(Hue::Focus))
    } else {
        (theme.ink(Hue::Border), theme.ink(Hue::Text))
    };
    let heavy = focused && theme.look.tone == Tone::Mono;
    let kind = if heavy { BorderType::Thick } else { BorderType::Rounded };
    let block = Block::bordered().border_type(kind).border_style(border);
    let inner = block.inner(area);
    block.render(area, buffer);
    let top =
        Rect { x: area.x.saturating_add(2), width: area.width.saturating_sub(4), height: area.height.min(1), ..area };
    if !title.is_empty() {
        let mut pen = Pen::new(buffer, top, 0);
        pen.put(if focused { "▸" } else { " " }, title_ink).put(title, title_ink).put(" ", title_ink);
        if !aside.is_empty() && pen.room() > 4 {
            pen.put("─ ", border);
            let aside = in_whole_parts(aside, pen.room());
            pen.put(aside, theme.ink(Hue::Dim)).put(" ", border);
        }
    }
    inner
}

/// `aside`, or as many of its parts as `cells` have room for; the whole where not even the first has.
fn in_whole_parts(aside: &str, cells: u16) -> &str {
    if width(aside) <= cells {
        return aside;
    }
    let ends = [", ", " · "].into_iter().flat_map(|between| aside.match_indices(between)).map(|(end, _)| end);
    // a blank stands between it and the border
    ends.filter(|&end| width(&aside[..end]) < cells).max().map_or(aside, |end| &aside[..end])
}

/// The first of `asides` that a frame around `area` has room for beside `title`, as [`frame`] writes them.
pub fn fitting<'a>(area: Rect, title: &str, asides: impl IntoIterator<Item = &'a str>) -> &'a str {
    // the corners, the sign of the focus, and what stands between
    let room = area.width.saturating_sub(4 + 1 + width(title) + 1 + 2 + 1);
    asides.into_iter().find(|aside| width(aside) <= room).unwrap_or_default()
}

/// Clears the middle of `area` and draws a frame there for something that stands in front of the planner.
pub fn overlay(buffer: &mut Buffer, area: Rect, title: &str, aside: &str, theme: Theme) -> Rect {
    let area = area.intersection(buffer.area);
    Clear.render(area, buffer);
    let inner = frame(buffer, area, title, aside, true, theme);
    Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asides_lose_whole_parts() {
        let aside = "Ollama ≥ 0.30, release 2026-11 · exact";
        assert_eq!(in_whole_parts(aside, 38), aside);
        assert_eq!(in_whole_parts(aside, 37), "Ollama ≥ 0.30, release 2026-11");
        assert_eq!(in_whole_parts(aside, 30), "Ollama ≥ 0.30");
        assert_eq!(in_whole_parts(aside, 13), aside, "which the pen then cuts");
    }
}
