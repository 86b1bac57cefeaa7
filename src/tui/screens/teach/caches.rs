//! The caches page: what each kind of block stores per token, to scale, and the cells of every cache as they fill.
//!
//! ```text
//! ╭ What a token leaves behind ──────────────────────────────────────────────────────────────────────────╮
//! │ 5 × GQA, 8 heads over 4: K 1024, V 1024      4.0 KiB  Q ██████████  K █████  V █████          kinds  │
//! ╰──────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ╭ Cells ─ one square is 128 tokens, 37 filled ─────────────────────────────────────────────────────────╮
//! │ llama.cpp, 5 blocks: 32 768 cells, every token                                                cells  │
//! │ AAAAAAAAAAAAAA·····                                                                                  │
//! ╰──────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ```

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};

use super::{PageCursor, PageResponse, framed, mark};
use crate::page::Page;
use crate::teach::caches::squares::Squares;
use crate::teach::caches::{BlockKind, BlockMemory, CacheFormat, CachesPage};
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, sentence, shortened, width, wrap};
use crate::tui::widget::{page, panel};

/// Steps per Page Up and Page Down.
const PAGE: u64 = 16;
/// Minimum width for bars next to the text.
const WIDE: u16 = 100;
/// Rows per kind of block.
const EACH: u16 = 3;

/// The number of filled cells, and the selected kind of block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Steps of filling so far.
    pub steps: u64,
    /// The selected kind of block.
    kind: usize,
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Caches
    }

    fn step(&self) -> Option<u64> {
        Some(self.steps)
    }

    fn go_to(&mut self, step: u64) {
        self.steps = step;
    }

    fn step_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(120))
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<CachesPage>() else { return PageResponse::Redraw };
        match command {
            Command::Less => self.steps = self.steps.saturating_sub(1),
            Command::More => self.steps = self.steps.saturating_add(1),
            Command::PageUp => self.steps = self.steps.saturating_sub(PAGE),
            Command::PageDown => self.steps = self.steps.saturating_add(PAGE),
            Command::First => self.steps = 0,
            Command::Up | Command::Down => self.kind = moved(self.kind, content.kinds.len(), 1, command),
            _ => {}
        }
        PageResponse::Redraw
    }

    /// Selects the kind of block at this position.
    fn point(&mut self, _: &mut App, content: &dyn TeachPage, area: Rect, _: Gesture, at: Position) -> PageResponse {
        let Some(content) = content.as_a::<CachesPage>() else { return PageResponse::Redraw };
        let (kinds, _) = kind_places(*self, content, areas(area, content)[0].inner(Margin::new(2, 1)));
        if let Some((kind, _)) = kinds.into_iter().find(|(_, place)| place.contains(at)) {
            self.kind = kind;
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<CachesPage>() else { return };
        let [above, below] = areas(area, content);
        kinds(*self, content, above, app.theme, buffer);
        cells(*self, content, below, app.theme, buffer);
    }
}

/// The kinds of blocks, and the cells.
fn areas(area: Rect, content: &CachesPage) -> [Rect; 2] {
    let words = wrap(&formats(content), area.width.saturating_sub(4)).len() as u16;
    let wanted = content.kinds.len() as u16 * EACH + 1 + words + 2;
    let above = Constraint::Length(wanted.min(area.height * 2 / 5).max(4));
    Layout::vertical([above, Constraint::Fill(1)]).areas(area)
}

/// The areas of the visible kinds of blocks in `inner`, and that of the formats below; empty without room for both.
fn kind_places(cursor: Cursor, content: &CachesPage, inner: Rect) -> (Vec<(usize, Rect)>, Rect) {
    let words = wrap(&formats(content), inner.width).len() as u16;
    let spare = inner.height.saturating_sub(words);
    let room = if spare >= EACH { spare } else { inner.height };
    let [kinds, formats] = Layout::vertical([Constraint::Length(room), Constraint::Fill(1)]).areas(inner);
    let shown = usize::from((room / EACH).max(1));
    let at = cursor.kind.min(content.kinds.len().saturating_sub(1));
    let place = |row: usize| Rect { y: kinds.y + row as u16 * EACH, height: EACH, ..kinds }.intersection(kinds);
    let first = (at + 1).saturating_sub(shown);
    ((first..content.kinds.len()).zip((0..shown).map(place)).collect(), formats)
}

/// Draws the kinds of blocks and the formats.
fn kinds(cursor: Cursor, content: &CachesPage, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let right_title = format!("{} planned", content.planned_phrase());
    let all = content.per_token().map(|all| format!("KV cache per token, {all} in all blocks"));
    let title = all.filter(|title| width(title) + width(&right_title) + 12 <= area.width);
    let only_states = content.stores.is_empty() && !content.states.is_empty();
    let usual = if only_states { "State per sequence" } else { "KV cache per token" };
    let title = title.as_deref().unwrap_or(usual);
    let inner = framed(buffer, area, title, &right_title, false, theme);
    let at = cursor.kind.min(content.kinds.len().saturating_sub(1));
    let (places, below) = kind_places(cursor, content, inner);
    for (index, place) in places {
        let chosen = index == at && content.kinds.len() > 1;
        one(&content.kinds[index], chosen, widest(content), place, theme, buffer);
    }
    sentence(&formats(content), below, theme.ink(Hue::Dim), buffer);
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

/// Draws a kind of block: its heads to scale, bytes per token, and the totals of each engine.
fn one(kind: &BlockKind, chosen: bool, widest: u64, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let ink = theme.bold(if chosen { Hue::Focus } else { Hue::Text });
    let blocks = if kind.blocks.len() == 1 { "block" } else { "blocks" };
    let mut writer = RowWriter::new(buffer, area, 0);
    writer.put(mark(chosen), ink).put(&format!("{} {blocks}  ", kind.blocks.len()), ink);
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
    let together = match (content.llama_cpp, content.ollama_engine) {
        (Some(llama), Some(own)) => {
            format!("Total: planned {}, llama.cpp {llama}, Ollama engine {own}. ", content.planned)
        }
        _ => String::new(),
    };
    format!("{together}Formats and their size relative to f16: {}", all.join(" · "))
}

/// Draws the cells of every cache as they fill.
fn cells(cursor: Cursor, content: &CachesPage, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let room = |lost: u16| usize::from(area.width.saturating_sub(lost));
    let squares = Squares { rows: usize::from(area.height.saturating_sub(3)), cells: room(4) };
    let size = squares.size(content);
    let scale = Squares::scale(size, squares.steps(content, size, cursor.steps));
    let (title, right_titles) = if content.stores.is_empty() {
        ("States", ["1 box = the state of 1 sequence".to_owned(), "1 box = 1 state".to_owned()])
    } else {
        ("Cells", [scale, String::new()])
    };
    let right_title = panel::fitting(area, title, right_titles.iter().map(String::as_str));
    let inner = framed(buffer, area, title, right_title, true, theme);
    let mut shown = Page::default();
    squares.onto(content, size, cursor.steps, &mut shown);
    let rows = page::within(&shown, 0, inner, theme, buffer);
    if rows < inner.height {
        RowWriter::new(buffer, inner, inner.height - 1).put(squares.legend(content), theme.ink(Hue::Dim));
    }
}
