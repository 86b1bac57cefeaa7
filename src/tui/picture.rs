//! A drawn buffer as an SVG picture of a terminal window. Blocks and lines are drawn as shapes, so that they join
//! without gaps in any font.

mod lines;
pub mod recording;

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::theme::{ColourDepth, Hue, Tone, color};
use crate::page::palette::{self, indexed_rgb};
use crate::text::one_line;

/// Width and height of a cell, and the font size, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const LETTERS: f64 = 14.0;
/// Space around the text, and the height of the window's title bar.
const MARGIN: f64 = 14.0;
const BAR: f64 = 30.0;
const FONTS: &str = "'JetBrains Mono','DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace";

/// The picture of `buffer` on a background of `tone`, with `title` in the window's title bar.
pub fn svg(buffer: &Buffer, tone: Tone, title: &str) -> String {
    let colours = PictureColours::of(tone);
    let mut out = String::new();
    window(&mut out, buffer, &colours, title);
    caption(&mut out, buffer, &colours, title);
    for y in 0..buffer.area.height {
        let cells = colours.row(buffer, y);
        draw_cells(&mut out, &cells, row_top(y), &colours);
    }
    out.push_str("</svg>\n");
    out
}

/// The empty window around a screen of the size of `buffer`: the picture up to its first cell.
fn window(out: &mut String, buffer: &Buffer, colours: &PictureColours, title: &str) {
    let rows = f64::from(buffer.area.height);
    let (width, height) = (window_width(buffer), rows * CELL.1 + BAR + MARGIN);
    let view = format!("{} {}", number(width), number(height));
    // writing to a String cannot fail
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {view}\" font-family=\"{FONTS}\" font-size=\"{LETTERS}\">\n\
         <title>{}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"{}\" stroke=\"{}\"/>",
        escaped(title),
        number(width - 1.0),
        number(height - 1.0),
        colours.background,
        colours.edge,
    );
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let _ = writeln!(out, "<circle cx=\"{}\" cy=\"15.5\" r=\"5\" fill=\"{colour}\"/>", 20 + 18 * at);
    }
}

/// The text in the title bar.
fn caption(out: &mut String, buffer: &Buffer, colours: &PictureColours, title: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"12\" fill=\"{}\">{}</text>",
        number(window_width(buffer) / 2.0),
        colours.quiet,
        escaped(title)
    );
}

fn window_width(buffer: &Buffer) -> f64 {
    f64::from(buffer.area.width) * CELL.0 + 2.0 * MARGIN
}

/// The upper edge of a row of the screen.
fn row_top(y: u16) -> f64 {
    BAR + f64::from(y) * CELL.1
}

/// Neighbouring cells of a row from its left edge on.
fn draw_cells(out: &mut String, cells: &[PaintedCell], top: f64, colours: &PictureColours) {
    backgrounds(out, cells, top, colours);
    lines::draw(out, cells, top);
    words(out, cells, top);
}

/// A cell with its effective colours.
#[derive(PartialEq)]
struct PaintedCell<'a> {
    symbol: &'a str,
    ink: String,
    background: String,
    bold: bool,
}

struct PictureColours {
    background: String,
    ink: String,
    quiet: String,
    edge: String,
    tone: Tone,
}

impl PictureColours {
    fn of(tone: Tone) -> Self {
        let hue = |hue: Hue| hex(hue.rgb(tone));
        let background = if tone == Tone::Light { "#fbfcfd" } else { "#11161d" };
        Self {
            background: background.to_owned(),
            ink: hue(Hue::Text),
            quiet: hue(Hue::Dim),
            edge: hue(Hue::Border),
            tone,
        }
    }

    /// The cells of row `y` of the screen.
    fn row<'a>(&self, buffer: &'a Buffer, y: u16) -> Vec<PaintedCell<'a>> {
        let area = buffer.area;
        let cells = (area.left()..area.right()).filter_map(|x| buffer.cell((x, area.top() + y)));
        cells.map(|cell| self.painted(cell)).collect()
    }

    fn painted<'a>(&self, cell: &'a Cell) -> PaintedCell<'a> {
        let ink = self.colour(cell.fg).unwrap_or_else(|| self.ink.clone());
        let background = self.colour(cell.bg).unwrap_or_else(|| self.background.clone());
        let (ink, background) =
            if cell.modifier.contains(Modifier::REVERSED) { (background, ink) } else { (ink, background) };
        let ink = if cell.modifier.contains(Modifier::DIM) { self.quiet.clone() } else { ink };
        PaintedCell { symbol: cell.symbol(), ink, background, bold: cell.modifier.contains(Modifier::BOLD) }
    }

    fn colour(&self, colour: Color) -> Option<String> {
        match colour {
            Color::Rgb(r, g, b) => Some(hex((r, g, b))),
            Color::Indexed(index) if index >= 16 => Some(hex(indexed_rgb(index))),
            Color::Reset => None,
            // the 16 colours are defined by the terminal; use those of the theme
            named => Hue::ALL
                .into_iter()
                .find(|&hue| color(palette::colour(hue, self.tone, ColourDepth::Sixteen)) == named)
                .map(|hue| hex(hue.rgb(self.tone))),
        }
    }
}

fn left(column: usize) -> f64 {
    MARGIN + column as f64 * CELL.0
}

fn backgrounds(out: &mut String, cells: &[PaintedCell], top: f64, colours: &PictureColours) {
    for (start, count) in runs(cells, |a, b| a.background == b.background) {
        let Some(cell) = cells.get(start).filter(|cell| cell.background != colours.background) else { continue };
        rect(out, left(start), top, count as f64 * CELL.0, CELL.1, &cell.background, 1.0);
    }
}

fn words(out: &mut String, cells: &[PaintedCell], top: f64) {
    let is_text = |cell: &PaintedCell| cell.symbol.trim() != "" && !lines::is_shape(cell.symbol);
    // letters of a word share an element; each character outside ASCII has its own, since its width depends on the font
    let joined = |a: &PaintedCell, b: &PaintedCell| {
        a.ink == b.ink && a.bold == b.bold && is_text(a) && is_text(b) && a.symbol.is_ascii() && b.symbol.is_ascii()
    };
    for (start, count) in runs(cells, joined) {
        let Some(cell) = cells.get(start).filter(|cell| is_text(cell)) else { continue };
        let text: String = cells.iter().skip(start).take(count).map(|cell| cell.symbol).collect();
        let weight = if cell.bold { " font-weight=\"bold\"" } else { "" };
        let length =
            if count > 1 { format!(" textLength=\"{}\"", number(count as f64 * CELL.0)) } else { String::new() };
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" fill=\"{}\"{weight}{length}>{}</text>",
            number(left(start)),
            number(top + 13.5),
            cell.ink,
            escaped(&text)
        );
    }
}

/// Start and length of each run of neighbours that are `same`.
fn runs<'a>(
    cells: &'a [PaintedCell<'a>],
    same: impl Fn(&PaintedCell, &PaintedCell) -> bool + 'a,
) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| cells.get(at));
        match found.last_mut() {
            Some((_, count)) if before.is_some_and(|before| same(before, cell)) => *count += 1,
            _ => found.push((at, 1)),
        }
    }
    found
}

fn rect(out: &mut String, x: f64, y: f64, width: f64, height: f64, fill: &str, opacity: f64) {
    let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
    let _ = writeln!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"{opacity} shape-rendering=\"crispEdges\"/>",
        number(x),
        number(y),
        number(width),
        number(height),
    );
}

fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// With at most two decimals, and no trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(text: &str) -> String {
    one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
