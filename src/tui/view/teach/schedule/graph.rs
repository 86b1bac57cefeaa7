//! The graph: a row per block with a character per operation, or the operations of one block.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{highlighted, sign};
use crate::teach::schedule::{GraphBlock, SchedulePage};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::inside;
use crate::tui::regions::teach::schedule::PageAreas;
use crate::tui::theme::Hue;
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
        None => blocks(app, cursor, content, first, places.graph, buffer),
    }
}

fn blocks(app: &App, cursor: Cursor, content: &SchedulePage, first: usize, frame: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let title = format!("{} nodes", Tokens(content.node_count() as u64));
    panel::frame(buffer, frame, "Graph", &format!("{title}, views hidden · Enter opens block"), true, theme);
    let inner = inside(frame);
    let operations = |block: &GraphBlock| block.nodes.clone().filter(|node| !content.is_view(*node)).count();
    let longest = content.blocks.iter().map(operations).max().unwrap_or(0);
    let gap = u16::from(longest * 2 <= usize::from(inner.width.saturating_sub(NAMES)));
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
            let (letter, style) = sign(app, content, content.home_of(node, cursor.step));
            let style = if content.is_highlighted(node, cursor.step) { highlighted(style) } else { style };
            writer.put(letter.encode_utf8(&mut [0; 4]), style).skip(gap);
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
    let right_title = format!("{} operations · Enter closes it", block.nodes.len());
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
        let (letter, style) = sign(app, content, content.home_of(place, cursor.step));
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
