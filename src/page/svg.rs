//! Rows of characters as an SVG picture of a terminal window. Blocks and lines are drawn as shapes, so that they join
//! without gaps in any font.

mod lines;

use std::fmt::Write;

use super::palette::Tone;
use super::{Hue, Page, Span, width};
use crate::text::one_line;

/// Width and height of a cell, and the font size, in pixels.
pub const CELL: (f64, f64) = (8.4, 18.0);
const LETTERS: f64 = 14.0;
/// Space around the text, and the height of the window's title bar.
const MARGIN: f64 = 14.0;
const BAR: f64 = 30.0;
const FONTS: &str = "'JetBrains Mono','DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace";

/// The picture of `rows` of `columns` cells on a background of `tone`, with `title` in the window's title bar.
pub fn picture(rows: &[Vec<PaintedCell<'_>>], columns: usize, tone: Tone, title: &str) -> String {
    let colours = PictureColours::of(tone);
    let mut out = String::new();
    window(&mut out, (columns, rows.len()), &colours, title);
    caption(&mut out, columns, &colours, title);
    for (y, cells) in rows.iter().enumerate() {
        draw_cells(&mut out, cells, row_top(y), &colours);
    }
    out.push_str("</svg>\n");
    out
}

/// The picture of `page` in `cells` cells.
pub fn page(page: &Page, cells: usize, tone: Tone, title: &str) -> String {
    let colours = PictureColours::of(tone);
    let lines = page.lines(cells);
    let rows: Vec<Vec<PaintedCell>> =
        lines.iter().map(|line| line.spans.iter().flat_map(|span| colours.cells(span)).collect()).collect();
    // a cell of space on either side
    let rows: Vec<Vec<PaintedCell>> =
        rows.into_iter().map(|row| std::iter::once(colours.blank()).chain(row).collect()).collect();
    picture(&rows, cells + 2, tone, title)
}

/// The empty window around a screen of this size: the picture up to its first cell.
pub fn window(out: &mut String, (columns, rows): (usize, usize), colours: &PictureColours, title: &str) {
    let (width, height) = (window_width(columns), rows as f64 * CELL.1 + BAR + MARGIN);
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
pub fn caption(out: &mut String, columns: usize, colours: &PictureColours, title: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"12\" fill=\"{}\">{}</text>",
        number(window_width(columns) / 2.0),
        colours.quiet,
        escaped(title)
    );
}

fn window_width(columns: usize) -> f64 {
    columns as f64 * CELL.0 + 2.0 * MARGIN
}

/// The upper edge of a row of the screen.
pub fn row_top(y: usize) -> f64 {
    BAR + y as f64 * CELL.1
}

/// Neighbouring cells of a row from its left edge on.
pub fn draw_cells(out: &mut String, cells: &[PaintedCell], top: f64, colours: &PictureColours) {
    backgrounds(out, cells, top, colours);
    lines::draw(out, cells, top);
    words(out, cells, top);
}

/// A cell with its effective colours.
#[derive(Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PaintedCell<'a> {
    pub symbol: &'a str,
    pub ink: String,
    pub background: String,
    pub bold: bool,
}

/// The colours of a picture.
#[allow(missing_docs, reason = "the names say it")]
pub struct PictureColours {
    pub background: String,
    pub ink: String,
    pub quiet: String,
    edge: String,
    pub tone: Tone,
}

impl PictureColours {
    /// Those on a background of `tone`.
    pub fn of(tone: Tone) -> Self {
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

    fn blank(&self) -> PaintedCell<'static> {
        PaintedCell { symbol: " ", ink: self.ink.clone(), background: self.background.clone(), bold: false }
    }

    /// The cells of a span; a wide character is followed by an empty one.
    fn cells<'a>(&self, span: &'a Span) -> Vec<PaintedCell<'a>> {
        let ink = if span.ink.hue == Hue::Text { self.ink.clone() } else { hex(span.ink.hue.rgb(self.tone)) };
        let letters = span.text.char_indices().map(|(at, c)| &span.text[at..at + c.len_utf8()]);
        let cell = |symbol: &'a str| {
            let background = span.ink.ground.map_or_else(|| self.background.clone(), |hue| hex(hue.rgb(self.tone)));
            let cell = PaintedCell { symbol, ink: ink.clone(), background, bold: span.ink.bold };
            std::iter::once(cell).chain(std::iter::repeat_n(self.blank(), width(symbol).saturating_sub(1)))
        };
        letters.flat_map(cell).collect()
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

/// A colour in SVG.
pub fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// With at most two decimals, and no trailing zeros.
pub fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `text` for XML, without the characters that it does not allow.
pub fn escaped(text: &str) -> String {
    let text = one_line(text).replace(['\u{fffe}', '\u{ffff}'], "");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
