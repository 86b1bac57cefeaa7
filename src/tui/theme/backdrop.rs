//! Dims the planner behind an overlay.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::palette::{ColourDepth, Hue, Tone};
use super::{Appearance, Theme};

/// The share of a colour that is left.
const LEFT: f64 = 0.42;

/// Dims what lies in `area`.
pub fn dim(buffer: &mut Buffer, area: Rect, theme: Theme) {
    let Appearance { tone, depth, .. } = theme.look;
    for at in area.intersection(buffer.area).positions() {
        let cell = &mut buffer[at];
        cell.modifier.remove(Modifier::BOLD);
        if depth == ColourDepth::True && tone != Tone::Mono {
            cell.fg = faded(cell.fg, tone).unwrap_or_else(|| theme.colour(Hue::Border));
            cell.bg = faded(cell.bg, tone).unwrap_or(Color::Reset);
        } else {
            cell.modifier.insert(Modifier::DIM);
        }
    }
}

/// `colour` mixed with the background; none for the terminal's own colours.
fn faded(colour: Color, tone: Tone) -> Option<Color> {
    let Color::Rgb(r, g, b) = colour else { return None };
    let (background_r, background_g, background_b) =
        if tone == Tone::Light { (0xFB, 0xFC, 0xFD) } else { (0x11, 0x16, 0x1D) };
    let mix = |part: u8, background: u8| (f64::from(part) * LEFT + f64::from(background) * (1.0 - LEFT)).round() as u8;
    Some(Color::Rgb(mix(r, background_r), mix(g, background_g), mix(b, background_b)))
}
