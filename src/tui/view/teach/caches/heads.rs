//! The kinds of blocks: their heads to scale, bytes per token, and the totals of each engine.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::caches::{BlockKind, BlockMemory, CacheFormat, CachesPage};
use crate::tui::app::App;
use crate::tui::app::teach::caches::Cursor;
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width, wrap};
use crate::units::Bytes;

/// Minimum width for bars next to the text.
const WIDE: u16 = 100;
/// Rows per kind of block.
const EACH: u16 = 3;

/// Rows needed for everything.
pub(super) fn rows(content: &CachesPage, columns: u16) -> u16 {
    let formats = formats(content);
    content.kinds.len() as u16 * EACH + 1 + wrap(&formats, columns.saturating_sub(4)).len() as u16
}

pub(super) fn draw(app: &App, cursor: Cursor, content: &CachesPage, area: Rect, buffer: &mut Buffer) {
    let right_title = format!("{} planned", content.planned_phrase());
    let inner = panel::frame(buffer, area, "KV cache per token", &right_title, false, app.theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let formats = wrap(&formats(content), inner.width);
    let spare = inner.height.saturating_sub(formats.len() as u16);
    let room = if spare >= EACH { spare } else { inner.height };
    let at = cursor.kind.min(content.kinds.len().saturating_sub(1));
    let shown = usize::from((room / EACH).max(1));
    let first = (at + 1).saturating_sub(shown);
    for (place, (index, kind)) in (0..).zip(content.kinds.iter().enumerate().skip(first).take(shown)) {
        let rows = Rect { y: inner.y + place * EACH, height: EACH.min(room.saturating_sub(place * EACH)), ..inner };
        one(app, kind, index == at && content.kinds.len() > 1, widest(content), rows, buffer);
    }
    if spare >= EACH {
        for (row, line) in (spare..inner.height).zip(&formats) {
            RowWriter::new(buffer, inner, row).put(line, app.theme.ink(Hue::Dim));
        }
    }
}

/// Elements in the longest row of heads.
fn widest(content: &CachesPage) -> u64 {
    let of = |kind: &BlockKind| match kind.keeps {
        BlockMemory::Tokens { heads, kv_heads, k, .. } => queries(heads, kv_heads, k).max(k),
        _ => 0,
    };
    content.kinds.iter().map(of).max().unwrap_or(0).max(1)
}

/// Elements of all query heads, which are as long as key heads.
fn queries(heads: u64, kv_heads: u64, k: u64) -> u64 {
    k.checked_div(kv_heads).unwrap_or(0).saturating_mul(heads)
}

fn one(app: &App, kind: &BlockKind, chosen: bool, widest: u64, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.bold(Hue::Text) };
    let blocks = if kind.blocks.len() == 1 { "block" } else { "blocks" };
    let mut writer = RowWriter::new(buffer, area, 0);
    writer.put(if chosen { "▸" } else { " " }, ink).put(&format!("{} {blocks}  ", kind.blocks.len()), ink);
    let description = shortened(&kind.description(), writer.room());
    writer.put(&description, theme.ink(Hue::Text));
    let mut writer = RowWriter::new(buffer, area, 1);
    writer.skip(2);
    if let BlockMemory::Tokens { heads, kv_heads, k, v, per_token, .. } = kind.keeps {
        let room = if area.width >= WIDE { 40 } else { 16 };
        let cells = |elements: u64| ((elements as f64 / widest as f64) * f64::from(room)).ceil() as usize;
        for (name, elements, hue) in
            [("Q", queries(heads, kv_heads, k), Hue::Dim), ("K", k, Hue::Cache), ("V", v.unwrap_or(0), Hue::Weights)]
        {
            writer.put(name, theme.ink(hue)).skip(1).put(&"■".repeat(cells(elements)), theme.ink(hue)).skip(1);
        }
        writer.right(&format!("{per_token} per token"), theme.ink(Hue::Cache));
    } else if let BlockMemory::State { bytes } = kind.keeps {
        writer.put(&format!("■ {bytes} per sequence, whatever its length"), theme.ink(Hue::Cache));
    }
    let own = kind.ollama_engine.map(|own| own.bytes());
    let engines = |names: [&'static str; 3]| {
        let sizes = names.into_iter().zip([Some(kind.planned), kind.llama_cpp, own]);
        sizes.filter_map(|(name, bytes)| Some((name, bytes?.to_string()))).collect::<Vec<_>>()
    };
    let [long, short] = [["planned", "llama.cpp", "Ollama engine"], ["plan", "llama.cpp", "Ollama"]].map(engines);
    let cells =
        |engines: &[(&str, String)]| engines.iter().map(|(name, size)| width(name) + width(size) + 3).sum::<u16>();
    let mut writer = RowWriter::new(buffer, area, 2);
    // the last entry needs no gap after it
    let engines = if cells(&long) <= writer.skip(2).room() + 2 { long } else { short };
    for (name, size) in engines {
        writer.put(name, theme.ink(Hue::Dim)).skip(1).put(&size, theme.ink(Hue::Text)).skip(2);
    }
    if writer.room() > width("per block") {
        writer.put("per block", theme.ink(Hue::Dim));
    }
}

/// The cache types in one line: bytes per block, and the total compared with f16.
fn formats(content: &CachesPage) -> String {
    let one = |format: &CacheFormat| {
        let mark = if format.in_use { "▸" } else { "" };
        let size = match format.block {
            1 => format!("{} B", format.bytes),
            block => format!("{} B per {block}", format.bytes),
        };
        // lines break between entries only
        format!("{mark}{} {size} ({})", format.ty, format.share).replace(' ', "\u{a0}")
    };
    let all: Vec<String> = content.formats.iter().map(one).collect();
    let planned: Bytes = content.planned;
    let together = match (content.llama_cpp, content.ollama_engine) {
        (Some(llama), Some(own)) => format!("Total: planned {planned}, llama.cpp {llama}, Ollama engine {own}. "),
        _ => String::new(),
    };
    format!("{together}Formats and their size relative to f16: {}", all.join(" · "))
}
