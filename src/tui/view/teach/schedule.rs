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
use crate::teach::schedule::{SchedulePage, ScheduleStep};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::teach::schedule::PageAreas;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, wrap};

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
    let room = place.width.saturating_sub(3);
    let remark = content.remark.iter().flat_map(|text| wrap(text, room)).map(|line| (line, Hue::Cache));
    let without = content.without.map(|(op, whole)| {
        let now = content.crossed();
        let (op, cuts, bytes) = (op.name(), now.cuts, now.bytes);
        (
            format!(
                "Without {op} on GPUs: {cuts} graph splits, {bytes} copied; with it: {}, {}.",
                whole.cuts, whole.bytes
            ),
            Hue::Over,
        )
    });
    let named = wrap(step.source_name(), room).into_iter().map(|line| (line, Hue::Focus));
    let description = wrap(step.description(), room).into_iter().map(|line| (line, Hue::Text));
    for (row, (line, hue)) in (0..place.height).zip(remark.chain(without).chain(named).chain(description)) {
        RowWriter::new(buffer, place, row).skip(1).put(&line, theme.ink(hue));
    }
}

/// The character and style of a device, as below the layers of the planner.
fn sign(app: &App, content: &SchedulePage, home: Option<usize>) -> (char, Style) {
    let theme = app.theme;
    let Some(home) = home.and_then(|home| content.homes().get(home)) else { return ('·', theme.ink(Hue::Dim)) };
    let Some(plan) = &app.plan else { return ('?', theme.ink(Hue::Dim)) };
    let gpu = plan.devices.get(home.device).is_some_and(|device| device.kind == DeviceKind::Gpu);
    let sign = if gpu { super::super::layers::glyph(plan, home.device) } else { 'R' };
    (sign, theme.device(home.device, plan.devices.len()))
}

/// The style of a device that this step has changed.
fn highlighted(style: Style) -> Style {
    style.add_modifier(ratatui::style::Modifier::REVERSED | ratatui::style::Modifier::BOLD)
}
