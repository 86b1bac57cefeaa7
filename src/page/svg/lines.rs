//! Draws blocks and box-drawing characters as shapes.

use std::fmt::Write;

use super::{CELL, PaintedCell, left, number, rect};

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
pub fn is_shape(symbol: &str) -> bool {
    block(symbol).is_some() || arms(symbol).is_some()
}

/// Draws the shapes among `cells`, a row whose upper edge is at `top`.
pub fn draw(out: &mut String, cells: &[PaintedCell], top: f64) {
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
