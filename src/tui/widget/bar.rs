//! A stacked bar, drawn to an eighth of a cell.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::row_writer::width;
use crate::tui::theme::glyphs::LEFT;
use crate::tui::theme::{Hue, Theme};
use crate::units::Bytes;

/// The parts of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BarPart {
    Weights,
    Cache,
    Graph,
    /// What a draft or projector takes, of all three.
    Beside,
    /// What GPUs take of RAM.
    Shared,
    Reserved,
    InUse,
    Swap,
    Over,
    Free,
}

impl BarPart {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Cache => "cache",
            Self::Graph => "compute",
            Self::Beside => "beside",
            Self::Shared => "GPU's",
            Self::Reserved => "kept",
            Self::InUse => "in use",
            Self::Swap => "swap",
            Self::Over => "over",
            Self::Free => "free",
        }
    }

    /// Its colour.
    pub const fn hue(self) -> Hue {
        match self {
            Self::Weights => Hue::Weights,
            Self::Cache => Hue::Cache,
            Self::Graph => Hue::Graph,
            Self::Beside => Hue::OddGpu,
            Self::Reserved => Hue::Reserved,
            Self::InUse => Hue::InUse,
            Self::Shared | Self::Swap => Hue::EvenGpu,
            Self::Over => Hue::Over,
            Self::Free => Hue::Border,
        }
    }

    /// Its texture, for terminals without colours or eighth blocks.
    pub const fn texture(self) -> &'static str {
        match self {
            Self::Weights => "█",
            Self::Cache => "▓",
            Self::Graph => "▒",
            Self::Beside => "▚",
            Self::Shared => "▞",
            Self::Reserved => "░",
            Self::InUse => "╱",
            Self::Swap => "≈",
            Self::Over => "!",
            Self::Free => "·",
        }
    }

    /// Its sample in a legend.
    pub fn sample(self, theme: Theme) -> (&'static str, Style) {
        match self {
            _ if theme.textured() => (self.texture(), theme.ink(Hue::Text)),
            Self::Free => ("·", theme.ink(Hue::Dim)),
            _ => ("■", theme.ink(self.hue())),
        }
    }
}

/// Draws `parts` into `area`, where `whole` is the full width. Every part that is not empty is visible.
pub fn draw(buffer: &mut Buffer, area: Rect, whole: Bytes, parts: &[(BarPart, Bytes)], theme: Theme) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    let spans = spans(area.width, whole, parts);
    for y in area.top()..area.bottom() {
        fill(buffer, Rect { y, height: 1, ..area }, &spans, theme);
    }
    let row = Rect { y: area.y + (area.height - 1) / 2, height: 1, ..area };
    if !theme.textured() {
        for span in spans.iter().filter(|span| !matches!(span.part, BarPart::Free | BarPart::InUse)) {
            inscribe(buffer, row, span, theme);
        }
    }
}

/// Draws a single part, without its name.
pub fn plain(buffer: &mut Buffer, area: Rect, whole: Bytes, part: BarPart, bytes: Bytes, theme: Theme) {
    let row = Rect { height: area.height.min(1), ..area }.intersection(buffer.area);
    fill(buffer, row, &spans(row.width, whole, &[(part, bytes)]), theme);
}

fn fill(buffer: &mut Buffer, row: Rect, spans: &[Span], theme: Theme) {
    for (offset, x) in (row.left()..row.right()).enumerate() {
        let (symbol, style) = cell(spans, offset as u32 * 8, theme);
        if let Some(cell) = buffer.cell_mut((x, row.y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}

/// The extent of a part, in eighths of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    part: BarPart,
    from: u32,
    to: u32,
}

fn spans(cells: u16, whole: Bytes, parts: &[(BarPart, Bytes)]) -> Vec<Span> {
    let eighths = u32::from(cells) * 8;
    let (mut spans, mut sum, mut from) = (Vec::with_capacity(parts.len()), Bytes::ZERO, 0);
    for &(part, bytes) in parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO) {
        sum += bytes;
        let end = (sum.share_of(whole).0 * f64::from(eighths)).round() as u32;
        let to = end.max(from + 1).min(eighths);
        spans.push(Span { part, from, to });
        from = to;
    }
    spans
}

/// The symbol and style of the cell that begins at eighth `start`.
fn cell(spans: &[Span], start: u32, theme: Theme) -> (&'static str, Style) {
    let mut inside = spans.iter().filter(|span| span.to > start && span.from < start + 8);
    let Some(first) = inside.next() else { return (" ", Style::new()) };
    let second = inside.next();
    let filled = first.to.min(start + 8) - start;
    if theme.textured() {
        let largest = if filled < 4 { second.unwrap_or(first) } else { first };
        return (largest.part.texture(), theme.ink(Hue::Text));
    }
    if first.part == BarPart::Free {
        return ("·", theme.ink(Hue::Border));
    }
    let style = theme.ink(first.part.hue());
    match second.filter(|second| second.part != BarPart::Free) {
        Some(second) => (LEFT[filled as usize - 1], style.bg(theme.colour(second.part.hue()))),
        None => (LEFT[filled as usize - 1], style),
    }
}

/// Writes the name of a part on it, if it is wide enough.
fn inscribe(buffer: &mut Buffer, row: Rect, span: &Span, theme: Theme) {
    let (first, last) = (span.from.div_ceil(8) as u16, (span.to / 8) as u16);
    let word = span.part.word();
    if last < first + width(word) + 2 {
        return;
    }
    let x = row.x + first + (last - first - width(word)) / 2;
    buffer.set_stringn(x, row.y, word, usize::from(width(word)), theme.on(span.part.hue()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Appearance, Tone};

    fn text(cells: u16, whole: u64, parts: &[(BarPart, u64)], look: Appearance) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, cells, 1));
        let parts: Vec<_> = parts.iter().map(|&(part, bytes)| (part, Bytes(bytes))).collect();
        draw(&mut buffer, Rect::new(0, 0, cells, 1), Bytes(whole), &parts, Theme::new(look));
        buffer.content.iter().map(|cell| cell.symbol().to_owned()).collect()
    }

    #[test]
    fn small_changes_are_visible() {
        let at = |n| text(10, 1000, &[(BarPart::Weights, n), (BarPart::Free, 1000 - n)], Appearance::BEST);
        assert_eq!(at(500), "█████·····");
        assert_eq!(at(513), "█████▏····");
        assert_ne!(at(500), at(513));
        assert_eq!(at(1), "▏·········", "a part that is there is drawn");
    }

    #[test]
    fn without_colour_parts_differ_by_texture() {
        let parts = [(BarPart::Weights, 4), (BarPart::Cache, 2), (BarPart::Graph, 1), (BarPart::Free, 3)];
        assert_eq!(text(10, 10, &parts, Appearance { tone: Tone::Mono, ..Appearance::BEST }), "████▓▓▒···");
    }

    #[test]
    fn overflowing_bars_stay_in_their_area() {
        for (cells, whole) in (0..10).flat_map(|cells| [(cells, 0), (cells, 1)]) {
            let (screen, place) = (Rect::new(0, 0, 14, 3), Rect::new(2, 1, cells, 1));
            let mut buffer = Buffer::empty(screen);
            let parts = [(BarPart::Over, Bytes(u64::MAX)), (BarPart::Free, Bytes(u64::MAX))];
            draw(&mut buffer, place, Bytes(whole), &parts, Theme::new(Appearance::BEST));
            for position in screen.positions() {
                // with a total of zero, a part fills an eighth of a cell
                let expected = place.contains(position) && (whole > 0 || position.x == place.x);
                assert_eq!(buffer[position].symbol() != " ", expected, "{cells} cells of {whole} at {position}");
            }
        }
    }
}
