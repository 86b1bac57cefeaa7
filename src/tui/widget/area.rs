//! A stacked area chart, drawn to an eighth of a cell, with a line at the available memory.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::bar::BarPart;
use crate::tui::theme::glyphs::LOWER;
use crate::tui::theme::{Hue, Theme};
use crate::units::Bytes;

/// The scale of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartScale {
    /// Bytes at the full height.
    pub whole: Bytes,
    /// The available memory: a line; values above it exceed the memory.
    pub room: Bytes,
}

impl ChartScale {
    /// `bytes` in eighths of a cell on a chart of `rows` rows.
    fn eighths(&self, bytes: Bytes, rows: u16) -> u32 {
        let whole = f64::from(rows) * 8.0;
        (bytes.share_of(self.whole).0 * whole).round().clamp(0.0, whole) as u32
    }

    /// The screen row of the line in `area`.
    pub fn line(&self, area: Rect) -> u16 {
        let from_below = (self.eighths(self.room, area.height) / 8).min(u32::from(area.height.saturating_sub(1)));
        area.bottom().saturating_sub(1).saturating_sub(from_below as u16)
    }
}

/// Draws the column at `x`, with `parts` from the bottom up.
pub fn column(buffer: &mut Buffer, area: Rect, x: u16, scale: ChartScale, parts: &[(BarPart, Bytes)], theme: Theme) {
    let area = area.intersection(buffer.area);
    let room = scale.eighths(scale.room, area.height);
    let (mut spans, mut sum, mut from) = (Vec::with_capacity(parts.len() + 1), Bytes::ZERO, 0);
    for &(part, bytes) in parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO) {
        sum += bytes;
        let to = scale.eighths(sum, area.height).max(from + 1);
        if sum > scale.room {
            spans.push((part, from, to.min(room)));
            spans.push((BarPart::Over, from.max(room), to.max(room + 1)));
        } else {
            spans.push((part, from, to));
        }
        from = to;
    }
    spans.retain(|(_, from, to)| to > from);
    let line = scale.line(area);
    for row in 0..area.height {
        let y = area.bottom() - 1 - row;
        let Some(cell) = buffer.cell_mut((x, y)).filter(|_| x < area.right()) else { continue };
        let (symbol, style) = match filled(&spans, u32::from(row) * 8, theme) {
            (" ", _) if y == line => ("╌", theme.ink(Hue::Fine)),
            other => other,
        };
        if symbol != " " {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}

/// The symbol and style of the cell whose lowest eighth is `start`. A cell has two colours: of more than two parts, the
/// two largest are shown.
fn filled(spans: &[(BarPart, u32, u32)], start: u32, theme: Theme) -> (&'static str, Style) {
    let end = start + 8;
    let here = |&(part, from, to): &(BarPart, u32, u32)| (part, from.max(start), to.min(end));
    let mut inside: Vec<_> = spans.iter().map(here).filter(|(_, from, to)| to > from).collect();
    while inside.len() > 2 {
        let least = (0..inside.len()).min_by_key(|&at| inside.get(at).map(|(_, from, to)| to - from));
        inside.remove(least.unwrap_or(0));
    }
    let Some(&(lower, _, to)) = inside.first() else { return (" ", Style::new()) };
    let upper = inside.get(1).map(|&(part, _, _)| part).filter(|&part| part != lower);
    let eighths = to - start;
    if theme.textured() {
        let part = upper.filter(|_| eighths < 4).unwrap_or(lower);
        let style = if part == BarPart::Over { theme.ink(Hue::Over) } else { theme.ink(Hue::Text) };
        return (part.texture(), style);
    }
    let symbol = LOWER[(eighths as usize).clamp(1, 8) - 1];
    let style = theme.ink(lower.hue());
    match upper {
        Some(upper) => (symbol, style.bg(theme.colour(upper.hue()))),
        None => (symbol, style),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::{Appearance, Tone};

    fn text(rows: u16, scale: ChartScale, parts: &[(BarPart, Bytes)], look: Appearance) -> String {
        let area = Rect::new(0, 0, 1, rows);
        let mut buffer = Buffer::empty(area);
        column(&mut buffer, area, 0, scale, parts, Theme::new(look));
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn parts_are_stacked_below_the_line() {
        let mono = Appearance { tone: Tone::Mono, ..Appearance::BEST };
        let scale = ChartScale { whole: Bytes(80), room: Bytes(70) };
        let parts = [(BarPart::Weights, Bytes(20)), (BarPart::Cache, Bytes(20)), (BarPart::Graph, Bytes(10))];
        assert_eq!(text(8, scale, &parts, mono), "╌  ▒▓▓██");
        let scale = ChartScale { whole: Bytes(80), room: Bytes(30) };
        assert_eq!(text(8, scale, &parts, mono), "   !!▓██", "what is above the line is too much");
    }

    proptest! {
        #[test]
        fn columns_have_no_gaps(
            rows in 1u16..20, whole: u64, room: u64, weights: u64, cache: u64, graph: u64, mono: bool,
        ) {
            let look = if mono { Appearance { tone: Tone::Mono, ..Appearance::BEST } } else { Appearance::BEST };
            let parts = [(BarPart::Weights, Bytes(weights)), (BarPart::Cache, Bytes(cache)), (BarPart::Graph, Bytes(graph))];
            let drawn = text(rows, ChartScale { whole: Bytes(whole), room: Bytes(room) }, &parts, look);
            prop_assert_eq!(drawn.chars().count(), usize::from(rows));
            let above = drawn.trim_start_matches([' ', '╌']);
            prop_assert!(!above.contains([' ', '╌']), "{:?}", drawn);
            prop_assert!(!above.is_empty() || weights == 0 && cache == 0 && graph == 0, "{:?}", drawn);
        }
    }
}
