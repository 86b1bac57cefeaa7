//! A drawn buffer as an SVG picture of a terminal window.

pub mod animation;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::theme::{ColourDepth, Hue, Tone, color};
use crate::page::palette::{self, indexed_rgb};
use crate::page::svg::{PaintedCell, PictureColours, hex, picture};

/// The picture of `buffer` on a background of `tone`, with `title` in the window's title bar.
pub fn svg(buffer: &Buffer, tone: Tone, title: &str) -> String {
    let colours = PictureColours::of(tone);
    let rows: Vec<_> = (0..buffer.area.height).map(|y| row(&colours, buffer, y)).collect();
    picture(&rows, usize::from(buffer.area.width), tone, title)
}

/// The characters of `buffer`, row by row, without spaces at the ends of rows.
pub fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let row = |y: u16| -> String {
        (area.left()..area.right()).filter_map(|x| buffer.cell((x, y))).map(Cell::symbol).collect()
    };
    let rows = (area.top()..area.bottom()).map(|y| row(y).trim_end().to_owned() + "\n");
    rows.collect::<String>().trim_end().to_owned() + "\n"
}

/// The cells of row `y` of the screen.
pub fn row<'a>(colours: &PictureColours, buffer: &'a Buffer, y: u16) -> Vec<PaintedCell<'a>> {
    let area = buffer.area;
    let cells = (area.left()..area.right()).filter_map(|x| buffer.cell((x, area.top() + y)));
    cells.map(|cell| painted(colours, cell)).collect()
}

fn painted<'a>(colours: &PictureColours, cell: &'a Cell) -> PaintedCell<'a> {
    let ink = colour(colours.tone, cell.fg).unwrap_or_else(|| colours.ink.clone());
    let background = colour(colours.tone, cell.bg).unwrap_or_else(|| colours.background.clone());
    let (ink, background) =
        if cell.modifier.contains(Modifier::REVERSED) { (background, ink) } else { (ink, background) };
    let ink = if cell.modifier.contains(Modifier::DIM) { colours.quiet.clone() } else { ink };
    PaintedCell { symbol: cell.symbol(), ink, background, bold: cell.modifier.contains(Modifier::BOLD) }
}

fn colour(tone: Tone, colour: Color) -> Option<String> {
    match colour {
        Color::Rgb(r, g, b) => Some(hex((r, g, b))),
        Color::Indexed(index) if index >= 16 => Some(hex(indexed_rgb(index))),
        Color::Reset => None,
        // the 16 colours are defined by the terminal; use those of the theme
        named => Hue::ALL
            .into_iter()
            .find(|&hue| color(palette::colour(hue, tone, ColourDepth::Sixteen)) == named)
            .map(|hue| hex(hue.rgb(tone))),
    }
}
