//! Stacked bands, vertical or horizontal, drawn to an eighth of a cell.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::theme::glyphs::{LEFT, LOWER};
use crate::tui::theme::{Hue, Theme};

/// A band, in eighths of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its start.
    pub from: u32,
    /// Its end.
    pub to: u32,
    /// Its colour.
    pub hue: Hue,
    /// Its texture, for terminals without colours or eighth blocks.
    pub texture: &'static str,
}

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

/// The symbol and style of the cell that begins at eighth `start`; none if no band fills it.
fn cell(bands: &[Band], start: u32, eighths: &[&'static str; 8], theme: Theme) -> Option<(&'static str, Style)> {
    let first = bands.partition_point(|band| band.to <= start);
    let mut here =
        bands.get(first..)?.iter().take_while(|band| band.from < start + 8).filter(|band| band.to > band.from);
    let band = here.next()?;
    if theme.textured() {
        let covers = |band: &&Band| band.to.min(start + 8) - band.from.max(start);
        let largest = std::iter::once(band).chain(here).max_by_key(covers)?;
        return Some((largest.texture, theme.ink(Hue::Text)));
    }
    let whole = start + 8;
    let filled = |to: u32| eighths[(to.min(whole) - start).clamp(1, 8) as usize - 1];
    let rest: Vec<&Band> = here.collect();
    match rest.last() {
        // a band that begins in the second half of a cell is drawn from the next cell
        None if band.from > start + 4 => None,
        None => Some((filled(band.to), theme.ink(band.hue))),
        Some(last) if last.to >= whole => Some((filled(band.to), theme.ink(band.hue).bg(theme.colour(last.hue)))),
        // one of the cell's two colours is the background: show the band that fills most of it
        Some(last) => {
            let largest =
                std::iter::once(band).chain(rest.iter().copied()).max_by_key(|band| band.to - band.from.max(start));
            Some((filled(last.to), theme.ink(largest.unwrap_or(band).hue)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Appearance, Tone};

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
