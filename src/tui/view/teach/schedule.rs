//! The schedule page: the device of each operation after each of the scheduler's passes.
//!
//! ```text
//!  0 start  1 assign ▸2 gpu down  2 gpu up  …                                                 steps
//!  pass 2, expand gpu down                                                                    its name in the source
//!  From the first operation to the last: one without a device gets …                          what it does
//! ╭ Graph ─ 1 010 operations ─────────────────────────────╮╭ After this step ──────────────────╮
//! │           RMMRSMFMA…                        operations ││                                   │
//! │           MUUOEUL D                                    ││                                   │
//! │▸block 0   0000000R00000·····                  blocks   ││ GPU0     612 operations   counts  │
//! │ block 1   0000000R00000·····                          ││ RAM       12                      │
//! │ …                                                     ││ …                         splits  │
//! ╰───────────────────────────────────────────────────────╯╰───────────────────────────────────╯
//! ```

mod graph;
mod side_panel;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::machine::DeviceKind;
use crate::page::Page;
use crate::teach::schedule::{CopyTotals, SchedulePage, ScheduleStep};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::teach::schedule::PageAreas;
use crate::tui::theme::{Hue, Theme, device_hue};
use crate::tui::widget::page;
use crate::tui::widget::row_writer::RowWriter;

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &SchedulePage, area: Rect, buffer: &mut Buffer) {
    let (theme, cursor) = (app.theme, cursor.within(content));
    let places = PageAreas::new(area, content, cursor.open.is_some());
    let Some(step) = content.steps.get(cursor.step) else { return };
    let cells = places.step_cells(content);
    if cells.iter().all(|place| place.width > 0) {
        for (at, (place, step)) in cells.into_iter().zip(&content.steps).enumerate() {
            let ink = if at == cursor.step { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
            RowWriter::new(buffer, place, 0).put(if at == cursor.step { "▸" } else { " " }, ink).put(step.name(), ink);
        }
    } else {
        let mut writer = RowWriter::new(buffer, places.steps, 0);
        writer.right(&format!("{} of {} ", cursor.step, content.steps.len().saturating_sub(1)), theme.ink(Hue::Dim));
        writer.put("▸", theme.bold(Hue::Focus)).put(step.name(), theme.bold(Hue::Focus));
    }
    words(content, step, places.description, theme, buffer);
    graph::draw(app, cursor, content, places, buffer);
    side_panel::draw(app, cursor, content, step, places.side_panel, buffer);
}

/// Draws the description of the step, with the disabled operation and a remark on the graph.
fn words(content: &SchedulePage, step: &ScheduleStep, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut shown = Page::default();
    content.remark.iter().for_each(|remark| shown.text(remark, Hue::Cache));
    if let Some((op, whole)) = content.without {
        let now = content.crossed();
        let (op, cuts, bytes) = (op.name(), now.cuts, now.bytes);
        let CopyTotals { cuts: with, bytes: copied, .. } = whole;
        let sentence = format!("Without {op} on GPUs: {cuts} graph splits, {bytes} copied; with it: {with}, {copied}.");
        shown.text(&sentence, Hue::Over);
    }
    shown.text(step.source_name(), Hue::Focus);
    shown.text(step.description(), Hue::Text);
    let place = Rect { x: place.x.saturating_add(1), width: place.width.saturating_sub(3), ..place };
    page::within(&shown, 0, place, theme, buffer);
}

/// The character and colour of a device, as below the layers of the planner.
fn sign(app: &App, content: &SchedulePage, home: Option<usize>) -> (char, Hue) {
    let Some(home) = home.and_then(|home| content.homes().get(home)) else { return ('·', Hue::Dim) };
    let Some(plan) = &app.plan else { return ('?', Hue::Dim) };
    let gpu = plan.devices.get(home.device).is_some_and(|device| device.kind == DeviceKind::Gpu);
    let sign = if gpu { super::super::layers::glyph(plan, home.device) } else { 'R' };
    (sign, device_hue(home.device, plan.devices.len()))
}

/// The style of a device that this step has changed.
fn highlighted(style: Style) -> Style {
    style.add_modifier(ratatui::style::Modifier::REVERSED | ratatui::style::Modifier::BOLD)
}
