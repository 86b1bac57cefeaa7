//! The allocation page: live tensors of a compute buffer in execution order, and the buffer at the cursor.
//!
//! ```text
//!   GPU0 669 MiB   CPU 28.0 MiB                                                              devices
//! ╭ GPU0 ── 669 MiB reserved · 41.2 GiB if nothing were freed ───────────────────────────────────────────╮
//! │ 669 MiB ┤        ▼ ▄▄                                                                        chart    │
//! │         │▄▄▄▄▄▄▄▄█▄██▄▄▄▄▄▄▄▄▄▄                                                                       │
//! │         blk 0    8    16   ▲                                                                          │
//! ╰───────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ╭ Step 613 of 1 942 ── MUL_MAT kq-12 on GPU0 ───────────────────────────────────────────────────────────╮
//! │ ██████▒▒▒▒▒▒··▒▒▒                                                                            buffer   │
//! │ ■ kq-12        f32 8192×512×32   512 MiB                                                     tensors  │
//! ╰───────────────────────────────────────────────────────────────────────────────────────────────────────╯
//! ```

mod buffer;
mod chart;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::allocation::{AllocationPage, AllocationWalk, Timeline};
use crate::tui::app::App;
use crate::tui::app::teach::allocation::Cursor;
use crate::tui::regions::teach::allocation::PageAreas;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &AllocationPage, area: Rect, buffer: &mut Buffer) {
    let places = PageAreas::new(area, content);
    devices(app, cursor, &content.walk, places.devices, buffer);
    if let Some(remark) = &content.remark {
        for (row, line) in (0..places.remark.height).zip(wrap(remark, area.width.saturating_sub(4))) {
            RowWriter::new(buffer, places.remark, row).skip(2).put(&line, app.theme.ink(Hue::Cache));
        }
    }
    let Some(timeline) = cursor.timeline(&content.walk) else { return };
    let other = content.other.as_ref().and_then(|other| other.walk.as_ref().ok());
    let beside = other.and_then(|walk| walk.timelines.get(cursor.device));
    let scale = timeline.reserved.max(beside.map(|timeline| timeline.reserved).unwrap_or_default());
    let chart = chart::Chart { walk: &content.walk, timeline, label: &content.label, scale };
    chart.draw(Some(cursor.moment(&content.walk)), places.chart, app.theme, buffer);
    match (&content.other, other, beside) {
        (Some(changed), Some(walk), Some(timeline)) => {
            let chart = chart::Chart { walk, timeline, label: &changed.label, scale };
            chart.draw(None, places.other, app.theme, buffer);
        }
        (Some(changed), ..) => chart::refused(changed, places.other, app.theme, buffer),
        (None, ..) => {}
    }
    buffer::draw(app, &content.walk, timeline, cursor.moment(&content.walk), places.buffer, buffer);
}

/// Draws each device and its buffer size, scrolled to the selected one if not all fit.
fn devices(app: &App, cursor: Cursor, walk: &AllocationWalk, row: Rect, buffer: &mut Buffer) {
    let count = walk.timelines.len();
    let label = |timeline: &Timeline| format!("{} {}", timeline.id, timeline.reserved);
    let all: u16 = walk.timelines.iter().map(|timeline| width(&label(timeline)) + 4).sum();
    let from = if all <= row.width { 0 } else { cursor.device.min(count.saturating_sub(1)).saturating_sub(1) };
    let mut writer = RowWriter::new(buffer, row, 0);
    for (at, timeline) in walk.timelines.iter().enumerate().skip(from) {
        let chosen = at == cursor.device.min(count.saturating_sub(1));
        let ink = if chosen { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        writer.put(if chosen { " ▸ " } else { "   " }, ink).put(&label(timeline), ink).skip(1);
    }
}
