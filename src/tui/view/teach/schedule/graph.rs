//! The graph: a row for each block, a sign for each operation; or one block, a row for each operation.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{lit, sign};
use crate::teach::schedule::{Block, Schedule};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::inside;
use crate::tui::regions::teach::schedule::Places;
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, width};
use crate::units::Tokens;

/// Cells for a block's name.
const NAMES: u16 = 11;

/// Draws it.
pub fn draw(app: &App, cursor: Cursor, sheet: &Schedule, places: Places, buffer: &mut Buffer) {
    let (at, count) = cursor.row(sheet);
    let first = places.first_row(at, count);
    match cursor.open.and_then(|at| Some((at, sheet.blocks.get(cursor.block)?))) {
        Some((at, block)) => nodes(app, cursor, sheet, block, (first, at), places.graph, buffer),
        None => blocks(app, cursor, sheet, first, places.graph, buffer),
    }
}

fn blocks(app: &App, cursor: Cursor, sheet: &Schedule, first: usize, frame: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let title = format!("{} nodes", Tokens(sheet.node_count() as u64));
    panel::frame(buffer, frame, "Graph", &format!("{title}, views hidden · Enter opens block"), true, theme);
    let inner = inside(frame);
    let operations = |block: &Block| block.nodes.clone().filter(|node| !sheet.is_view(*node)).count();
    let longest = sheet.blocks.iter().map(operations).max().unwrap_or(0);
    let gap = u16::from(longest * 2 <= usize::from(inner.width.saturating_sub(NAMES)));
    for (row, (at, block)) in (0..inner.height).zip(sheet.blocks.iter().enumerate().skip(first)) {
        let chosen = at == cursor.block;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let mut pen = Pen::new(buffer, inner, row);
        pen.put(if chosen { "▸" } else { " " }, ink).put(&block.name(), ink).to(inner.x + NAMES);
        for node in block.nodes.clone().filter(|node| !sheet.is_view(*node)) {
            if pen.room() == 1 {
                pen.put("…", theme.ink(Hue::Dim));
                break;
            }
            let (letter, style) = sign(app, sheet, sheet.home_of(node, cursor.step));
            let style = if sheet.is_lit(node, cursor.step) { lit(style) } else { style };
            pen.put(letter.encode_utf8(&mut [0; 4]), style).skip(gap);
        }
    }
}

fn nodes(
    app: &App,
    cursor: Cursor,
    sheet: &Schedule,
    block: &Block,
    (first, at): (usize, usize),
    frame: Rect,
    buffer: &mut Buffer,
) {
    let theme = app.theme;
    let aside = format!("{} operations · Enter closes it", block.nodes.len());
    panel::frame(buffer, frame, &block.name(), &aside, true, theme);
    let inner = inside(frame);
    let roomy = inner.width >= 72;
    for (row, place) in (0..inner.height).zip(block.nodes.clone().skip(first)) {
        let Some(node) = sheet.node(place) else { continue };
        let chosen = place == block.nodes.start + at;
        let words = if chosen {
            theme.bold(Hue::Focus)
        } else if node.view {
            theme.ink(Hue::Dim)
        } else {
            theme.ink(Hue::Text)
        };
        let (letter, style) = sign(app, sheet, sheet.home_of(place, cursor.step));
        let style = if sheet.is_lit(place, cursor.step) { lit(style) } else { style };
        if chosen {
            let line = Rect { y: inner.y + row, height: 1, ..inner };
            buffer.set_style(line.intersection(buffer.area), theme.selected());
        }
        let mut pen = Pen::new(buffer, inner, row);
        pen.put(if chosen { "▸" } else { " " }, words).put(letter.encode_utf8(&mut [0; 4]), style).skip(1);
        let (x, room) = (pen.x(), pen.room());
        // columns, each as wide as what it usually holds
        pen.put(node.op, words).to(x + 15).skip(1).put(&node.name, words);
        if roomy {
            pen.to(x + 35).skip(1).put(&node.shape, theme.ink(Hue::Dim)).to(x + 55).skip(1);
            pen.put(&node.sources.join(", "), theme.ink(Hue::Dim));
        } else if chosen || room > 15 + width(&node.name) + width(&node.shape) {
            pen.skip(1).put(&node.shape, theme.ink(Hue::Dim));
        }
    }
}
