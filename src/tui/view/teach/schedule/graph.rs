//! The graph: a row per block with a character per operation, or the operations of one block.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{highlighted, sign};
use crate::teach::schedule::{GraphBlock, SchedulePage};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::inside;
use crate::tui::regions::teach::schedule::PageAreas;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::Tokens;

/// Width of a block's name.
const NAMES: u16 = 11;

/// Draws the graph.
pub fn draw(app: &App, cursor: Cursor, content: &SchedulePage, places: PageAreas, buffer: &mut Buffer) {
    let (at, count) = cursor.row(content);
    let first = places.first_row(at, count);
    match cursor.open.and_then(|at| Some((at, content.blocks.get(cursor.block)?))) {
        Some((at, block)) => nodes(app, cursor, content, block, (first, at), places.graph, buffer),
        None => blocks(app, cursor, content, first, places, buffer),
    }
}

fn blocks(app: &App, cursor: Cursor, content: &SchedulePage, first: usize, places: PageAreas, buffer: &mut Buffer) {
    let (theme, frame, inner) = (app.theme, places.graph, places.rows);
    let title = format!("{} nodes", Tokens(content.node_count() as u64));
    panel::frame(buffer, frame, "Graph", &format!("{title}, views hidden{}", " · Enter opens block"), true, theme);
    let operations = |block: &GraphBlock| block.nodes.clone().filter(|node| !content.is_view(*node)).count();
    let longest = content.blocks.iter().map(operations).max().unwrap_or(0);
    let gap = u16::from(longest * 2 <= usize::from(inner.width.saturating_sub(NAMES)));
    // what comes before and after the blocks has few columns: then one from the middle stands for the others
    let chosen = content.blocks.get(cursor.block).filter(|block| block.layer.is_some());
    if let Some(block) = chosen.or(content.blocks.get(content.blocks.len() / 2)) {
        labels(content, block, gap, places.labels, theme, buffer);
    }
    for (row, (at, block)) in (0..inner.height).zip(content.blocks.iter().enumerate().skip(first)) {
        let chosen = at == cursor.block;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.put(if chosen { "▸" } else { " " }, ink).put(&block.name(), ink).to(inner.x + NAMES);
        for node in block.nodes.clone().filter(|node| !content.is_view(*node)) {
            if writer.room() == 1 {
                writer.put("…", theme.ink(Hue::Dim));
                break;
            }
            let (letter, hue) = sign(app, content, content.home_of(node, cursor.step));
            let style = theme.ink(hue);
            let style = if content.is_highlighted(node, cursor.step) { highlighted(style) } else { style };
            writer.put(letter.encode_utf8(&mut [0; 4]), style).skip(gap);
        }
    }
}

/// Writes the operations of the selected block above their columns, from top to bottom.
fn labels(content: &SchedulePage, block: &GraphBlock, gap: u16, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let shown = block.nodes.clone().filter(|node| !content.is_view(*node)).filter_map(|node| content.node(node));
    for (column, node) in (0..).zip(shown) {
        let x = area.x.saturating_add(NAMES).saturating_add(column * (1 + gap));
        if x >= area.right() {
            break;
        }
        let letters = node.op.chars().take(usize::from(area.height));
        // the last letters stand next to the columns
        let top = area.bottom().saturating_sub(node.op.chars().count().min(usize::from(area.height)) as u16);
        for (y, letter) in (top..).zip(letters) {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_char(letter).set_style(theme.ink(Hue::Dim));
            }
        }
    }
}

fn nodes(
    app: &App,
    cursor: Cursor,
    content: &SchedulePage,
    block: &GraphBlock,
    (first, at): (usize, usize),
    frame: Rect,
    buffer: &mut Buffer,
) {
    let theme = app.theme;
    let right_title = format!("{} operations{}", block.nodes.len(), " · Enter closes it");
    panel::frame(buffer, frame, &block.name(), &right_title, true, theme);
    let inner = inside(frame);
    let roomy = inner.width >= 72;
    for (row, place) in (0..inner.height).zip(block.nodes.clone().skip(first)) {
        let Some(node) = content.node(place) else { continue };
        let chosen = place == block.nodes.start + at;
        let words = if chosen {
            theme.bold(Hue::Focus)
        } else if node.view {
            theme.ink(Hue::Dim)
        } else {
            theme.ink(Hue::Text)
        };
        let (letter, hue) = sign(app, content, content.home_of(place, cursor.step));
        let style = theme.ink(hue);
        let style = if content.is_highlighted(place, cursor.step) { highlighted(style) } else { style };
        if chosen {
            let line = Rect { y: inner.y + row, height: 1, ..inner };
            buffer.set_style(line.intersection(buffer.area), theme.selected());
        }
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.put(if chosen { "▸" } else { " " }, words).put(letter.encode_utf8(&mut [0; 4]), style).skip(1);
        let (x, room) = (writer.x(), writer.room());
        // column widths that fit most contents
        writer.put(node.op, words).to(x + 15).skip(1).put(&node.name, words);
        if roomy {
            writer.to(x + 35).skip(1).put(&node.shape, theme.ink(Hue::Dim)).to(x + 55).skip(1);
            writer.put(&node.sources.join(", "), theme.ink(Hue::Dim));
        } else if chosen || room > 15 + width(&node.name) + width(&node.shape) {
            writer.skip(1).put(&node.shape, theme.ink(Hue::Dim));
        }
    }
}
