//! What is alive in a device's compute buffer, over the order of execution; and the buffer itself at the cursor.
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

use crate::teach::allocation::{Allocation, Timeline, Walk};
use crate::tui::app::App;
use crate::tui::app::teach::allocation::Cursor;
use crate::tui::regions::teach::allocation::Places;
use crate::tui::theme::Hue;
use crate::tui::widget::pen::{Pen, width, wrap};

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, sheet: &Allocation, area: Rect, buffer: &mut Buffer) {
    let places = Places::new(area, sheet);
    devices(app, cursor, &sheet.walk, places.devices, buffer);
    if let Some(remark) = &sheet.remark {
        for (row, line) in (0..places.remark.height).zip(wrap(remark, area.width.saturating_sub(4))) {
            Pen::new(buffer, places.remark, row).skip(2).put(&line, app.theme.ink(Hue::Cache));
        }
    }
    let Some(timeline) = cursor.timeline(&sheet.walk) else { return };
    let other = sheet.other.as_ref().and_then(|other| other.walk.as_ref().ok());
    let beside = other.and_then(|walk| walk.timelines.get(cursor.device));
    let scale = timeline.reserved.max(beside.map(|timeline| timeline.reserved).unwrap_or_default());
    let chart = chart::Chart { walk: &sheet.walk, timeline, called: &sheet.called, scale };
    chart.draw(Some(cursor.moment(&sheet.walk)), places.chart, app.theme, buffer);
    match (&sheet.other, other, beside) {
        (Some(changed), Some(walk), Some(timeline)) => {
            let chart = chart::Chart { walk, timeline, called: &changed.called, scale };
            chart.draw(None, places.other, app.theme, buffer);
        }
        (Some(changed), ..) => chart::refused(changed, places.other, app.theme, buffer),
        (None, ..) => {}
    }
    buffer::draw(app, &sheet.walk, timeline, cursor.moment(&sheet.walk), places.buffer, buffer);
}

/// Every device and what it reserves, the one that is looked at standing out; around it where not all have room.
fn devices(app: &App, cursor: Cursor, walk: &Walk, row: Rect, buffer: &mut Buffer) {
    let count = walk.timelines.len();
    let told = |timeline: &Timeline| format!("{} {}", timeline.id, timeline.reserved);
    let all: u16 = walk.timelines.iter().map(|timeline| width(&told(timeline)) + 4).sum();
    let from = if all <= row.width { 0 } else { cursor.device.min(count.saturating_sub(1)).saturating_sub(1) };
    let mut pen = Pen::new(buffer, row, 0);
    for (at, timeline) in walk.timelines.iter().enumerate().skip(from) {
        let chosen = at == cursor.device.min(count.saturating_sub(1));
        let ink = if chosen { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Dim) };
        pen.put(if chosen { " ▸ " } else { "   " }, ink).put(&told(timeline), ink).skip(1);
    }
}
