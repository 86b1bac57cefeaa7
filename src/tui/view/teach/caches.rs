//! The caches page: what each kind of block stores per token, to scale, and the cells of every cache as they fill.
//!
//! ```text
//! ╭ What a token leaves behind ──────────────────────────────────────────────────────────────────────────╮
//! │ 5 × GQA, 8 heads over 4: K 1024, V 1024      4.0 KiB  Q ██████████  K █████  V █████          heads  │
//! ╰──────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ╭ Cells ─ one square is 128 tokens, 37 filled ─────────────────────────────────────────────────────────╮
//! │ llama.cpp, 5 blocks: 32 768 cells, every token                                                cells  │
//! │ AAAAAAAAAAAAAA·····                                                                                  │
//! ╰──────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ```

mod cells;
mod heads;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::caches::CachesPage;
use crate::tui::app::App;
use crate::tui::app::teach::caches::Cursor;

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &CachesPage, area: Rect, buffer: &mut Buffer) {
    let wanted = heads::rows(content, area.width) + 2;
    let above = Rect { height: wanted.min(area.height * 2 / 5).max(4).min(area.height), ..area };
    let below = Rect { y: above.bottom(), height: area.height - above.height, ..area };
    heads::draw(app, cursor, content, above, buffer);
    cells::draw(app, cursor, content, below, buffer);
}
