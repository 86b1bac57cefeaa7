//! Stacked bands, vertical or horizontal, drawn to an eighth of a cell.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::page::chart;
use crate::tui::theme::Theme;
use crate::tui::theme::glyphs::{LEFT, LOWER};

pub use crate::page::chart::Band;

/// Draws ascending `bands` into column `x` of `area`, from its lower edge up. Cells without a band stay unchanged.
pub fn upright(buffer: &mut Buffer, area: Rect, x: u16, bands: &[Band], theme: Theme) {
    let area = area.intersection(buffer.area);
    for row in 0..area.height {
        let Some((symbol, style)) = cell(bands, u32::from(row) * 8, &LOWER, theme) else { continue };
        if let Some(cell) = buffer.cell_mut((x, area.bottom() - 1 - row)) {
            cell.set_symbol(symbol).set_style(style);
        }
    }
}

/// Draws ascending `bands` into the rows of `area`, from its left edge. Cells without a band stay unchanged.
pub fn across(buffer: &mut Buffer, area: Rect, bands: &[Band], theme: Theme) {
    let area = area.intersection(buffer.area);
    for column in 0..area.width {
        let Some((symbol, style)) = cell(bands, u32::from(column) * 8, &LEFT, theme) else { continue };
        for y in area.top()..area.bottom() {
            if let Some(cell) = buffer.cell_mut((area.x + column, y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
}

fn cell(bands: &[Band], start: u32, eighths: &[&'static str; 8], theme: Theme) -> Option<(&'static str, Style)> {
    let (symbol, ink) = chart::cell(bands, start, eighths, theme.textured())?;
    Some((symbol, theme.written(ink)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Appearance, Hue, Tone};

    const BANDS: [Band; 2] = [
        Band { from: 0, to: 12, hue: Hue::Weights, texture: "█" },
        Band { from: 12, to: 20, hue: Hue::Cache, texture: "▓" },
    ];

    fn drawn(look: Appearance) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 1));
        across(&mut buffer, Rect::new(0, 0, 4, 1), &BANDS, Theme::new(look));
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn bands_end_within_cells() {
        assert_eq!(drawn(Appearance::BEST), "█▌▌ ");
        let thin = [Band { to: 3, ..BANDS[0] }, Band { from: 3, to: 4, ..BANDS[1] }];
        let mut buffer = Buffer::empty(Rect::new(0, 0, 1, 1));
        upright(&mut buffer, Rect::new(0, 0, 1, 1), 0, &thin, Theme::new(Appearance::BEST));
        assert_eq!((buffer[(0, 0)].symbol(), buffer[(0, 0)].bg), ("▄", ratatui::style::Color::Reset));
        assert_eq!(drawn(Appearance { tone: Tone::Mono, ..Appearance::BEST }), "█▓▓ ");
    }

    #[test]
    fn bands_stay_in_the_area() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 3, 3));
        let long = [Band { from: 0, to: u32::MAX, hue: Hue::Graph, texture: "▒" }];
        upright(&mut buffer, Rect::new(0, 0, 30, 30), 7, &long, Theme::new(Appearance::BEST));
        across(&mut buffer, Rect::new(1, 1, 40, 0), &long, Theme::new(Appearance::BEST));
        assert!(buffer.content.iter().all(|cell| cell.symbol() == " "));
    }
}
