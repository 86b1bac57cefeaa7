//! Rows of characters as an SVG picture of a terminal window. Blocks and lines are drawn as shapes, so that they join
//! without gaps in any font.

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
    shapes(out, cells, top);
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
    let is_text = |cell: &PaintedCell| cell.symbol.trim() != "" && !is_shape(cell.symbol);
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

/// Stroke widths of light and heavy lines, in pixels.
const LIGHT: f64 = 1.1;
const HEAVY: f64 = 2.4;

/// The strokes of a box-drawing character.
struct Arms {
    /// The sides that it reaches, of `l`, `r`, `u` and `d`.
    sides: &'static str,
    heavy: bool,
    round: bool,
    dashes: u8,
}

/// Whether `symbol` is drawn as a shape instead of text.
fn is_shape(symbol: &str) -> bool {
    block(symbol).is_some() || arms(symbol).is_some()
}

/// Draws the shapes among `cells`, a row whose upper edge is at `top`.
fn shapes(out: &mut String, cells: &[PaintedCell], top: f64) {
    let mut at = 0;
    while let Some(cell) = cells.get(at) {
        let same = |other: &&PaintedCell| other.symbol == cell.symbol && other.ink == cell.ink;
        let run = cells[at..].iter().take_while(same).count();
        if let Some((x, y, width, height, opacity)) = block(cell.symbol) {
            // neighbours that fill the full width are drawn as one shape
            let whole = x == 0.0 && (width - 1.0).abs() < 1e-9;
            let count = if whole { run } else { 1 };
            let wide = if whole { count as f64 } else { width };
            rect(out, left(at) + x * CELL.0, top + y * CELL.1, wide * CELL.0, height * CELL.1, &cell.ink, opacity);
            at += count;
        } else if let Some(arms) = arms(cell.symbol) {
            let straight = arms.sides == "lr" && arms.dashes == 0;
            let count = if straight { run } else { 1 };
            stroke(out, &arms, left(at), top, count, &cell.ink);
            at += count;
        } else {
            at += 1;
        }
    }
}

/// The filled part of a block character: left, top, width and height as shares of the cell, and its opacity.
fn block(symbol: &str) -> Option<(f64, f64, f64, f64, f64)> {
    let eighths = |n: u32| f64::from(n) / 8.0;
    let symbol = symbol.chars().next()?;
    Some(match symbol {
        '▁'..='█' => {
            let height = eighths(symbol as u32 - '▁' as u32 + 1);
            (0.0, 1.0 - height, 1.0, height, 1.0)
        }
        '▉'..='▏' => (0.0, 0.0, eighths(7 - (symbol as u32 - '▉' as u32)), 1.0, 1.0),
        '▔' => (0.0, 0.0, 1.0, 0.125, 1.0),
        '░' => (0.0, 0.0, 1.0, 1.0, 0.25),
        '▒' => (0.0, 0.0, 1.0, 1.0, 0.5),
        '▓' => (0.0, 0.0, 1.0, 1.0, 0.75),
        '■' => (0.1, 0.25, 0.8, 0.45, 1.0),
        _ => return None,
    })
}

fn arms(symbol: &str) -> Option<Arms> {
    let (sides, heavy, round, dashes) = match symbol {
        "─" => ("lr", false, false, 0),
        "━" => ("lr", true, false, 0),
        "┄" => ("lr", false, false, 3),
        "╌" => ("lr", false, false, 2),
        "╍" => ("lr", true, false, 2),
        "│" => ("ud", false, false, 0),
        "┃" => ("ud", true, false, 0),
        "┊" => ("ud", true, false, 4),
        "╭" => ("rd", false, true, 0),
        "╮" => ("ld", false, true, 0),
        "╰" => ("ru", false, true, 0),
        "╯" => ("lu", false, true, 0),
        "┏" => ("rd", true, false, 0),
        "┓" => ("ld", true, false, 0),
        "┗" => ("ru", true, false, 0),
        "┛" => ("lu", true, false, 0),
        "└" => ("ru", false, false, 0),
        "┘" => ("lu", false, false, 0),
        "╵" => ("u", true, false, 0),
        "├" => ("rud", false, false, 0),
        "┤" => ("lud", false, false, 0),
        _ => return None,
    };
    Some(Arms { sides, heavy, round, dashes })
}

fn stroke(out: &mut String, arms: &Arms, x: f64, top: f64, count: usize, ink: &str) {
    let (right, bottom) = (x + CELL.0 * count as f64, top + CELL.1);
    let (centre, middle) = (x + CELL.0 / 2.0, top + CELL.1 / 2.0);
    let n = number;
    let has = |side| arms.sides.contains(side);
    let path = if arms.round {
        let (end_x, curve) = if has('r') { (right, centre + 4.0) } else { (x, centre - 4.0) };
        let (end_y, bend) = if has('d') { (bottom, middle + 4.0) } else { (top, middle - 4.0) };
        let (centre, middle) = (n(centre), n(middle));
        format!("M{centre} {}V{}Q{centre} {middle} {} {middle}H{}", n(end_y), n(bend), n(curve), n(end_x))
    } else {
        // from one side to the other, or to the centre where that side has no arm
        let across = has('l') || has('r');
        let upright = has('u') || has('d');
        let (from_x, to_x) = (if has('l') { x } else { centre }, if has('r') { right } else { centre });
        let (from_y, to_y) = (if has('u') { top } else { middle }, if has('d') { bottom } else { middle });
        let across = if across { format!("M{} {}H{}", n(from_x), n(middle), n(to_x)) } else { String::new() };
        let upright = if upright { format!("M{} {}V{}", n(centre), n(from_y), n(to_y)) } else { String::new() };
        upright + &across
    };
    let width = if arms.heavy { HEAVY } else { LIGHT };
    let dashes = match arms.dashes {
        0 => String::new(),
        count => {
            let length = if has('u') { CELL.1 } else { CELL.0 } / f64::from(count) / 2.0;
            format!(" stroke-dasharray=\"{}\"", n(length))
        }
    };
    let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{ink}\" stroke-width=\"{width}\"{dashes}/>");
}
