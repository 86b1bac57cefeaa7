//! Which device computes what, after each of the scheduler's passes.
//!
//! ```text
//!  0 nothing  1 homes ▸2 GPUs down  2 GPUs up  …                                              steps
//!  GPUs first: what follows an operation on a GPU and has no device joins it.                 what this one does
//! ╭ Graph ─ 1 010 operations ─────────────────────────────╮╭ After this step ──────────────────╮
//! │▸block 0   0000000R00000·····                  blocks   ││ GPU0     612 operations   counts  │
//! │ block 1   0000000R00000·····                          ││ RAM       12                      │
//! │ …                                                     ││ …                         splits  │
//! ╰───────────────────────────────────────────────────────╯╰───────────────────────────────────╯
//! ```

mod aside;
mod graph;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::machine::DeviceKind;
use crate::teach::schedule::{Schedule, Step};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::teach::schedule::Places;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::pen::{Pen, wrap};

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, sheet: &Schedule, area: Rect, buffer: &mut Buffer) {
    let (theme, cursor, places) = (app.theme, cursor.within(sheet), Places::new(area, sheet));
    let Some(step) = sheet.steps.get(cursor.step) else { return };
    let cells = places.step_cells(sheet);
    if cells.iter().all(|place| place.width > 0) {
        for (at, (place, step)) in cells.into_iter().zip(&sheet.steps).enumerate() {
            let ink = if at == cursor.step { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
            Pen::new(buffer, place, 0).put(if at == cursor.step { "▸" } else { " " }, ink).put(step.name(), ink);
        }
    } else {
        let mut pen = Pen::new(buffer, places.steps, 0);
        pen.right(&format!("{} of {} ", cursor.step, sheet.steps.len().saturating_sub(1)), theme.ink(Hue::Dim));
        pen.put("▸", theme.bold(Hue::Focus)).put(step.name(), theme.bold(Hue::Focus));
    }
    words(sheet, step, places.says, theme, buffer);
    graph::draw(app, cursor, sheet, places, buffer);
    aside::draw(app, cursor, sheet, step, places.aside, buffer);
}

/// What the step does, what is taken away, and whose graph it is.
fn words(sheet: &Schedule, step: &Step, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let room = place.width.saturating_sub(3);
    let remark = sheet.remark.iter().flat_map(|text| wrap(text, room)).map(|line| (line, Hue::Cache));
    let without = sheet.without.map(|(op, whole)| {
        let now = sheet.crossed();
        let (op, cuts, bytes) = (op.name(), now.cuts, now.bytes);
        (
            format!(
                "Without {op} on GPUs: {cuts} graph splits, {bytes} copied; with it: {}, {}.",
                whole.cuts, whole.bytes
            ),
            Hue::Over,
        )
    });
    let says = wrap(step.says(), room).into_iter().map(|line| (line, Hue::Text));
    for (row, (line, hue)) in (0..place.height).zip(remark.chain(without).chain(says)) {
        Pen::new(buffer, place, row).skip(1).put(&line, theme.ink(hue));
    }
}

/// The sign of a device, as under the layers of the planner, and its colour.
fn sign(app: &App, sheet: &Schedule, home: Option<usize>) -> (char, Style) {
    let theme = app.theme;
    let Some(home) = home.and_then(|home| sheet.homes().get(home)) else { return ('·', theme.ink(Hue::Dim)) };
    let Some(plan) = &app.plan else { return ('?', theme.ink(Hue::Dim)) };
    let gpu = plan.devices.get(home.device).is_some_and(|device| device.kind == DeviceKind::Gpu);
    let sign = if gpu { super::super::layers::glyph(plan, home.device) } else { 'R' };
    (sign, theme.device(home.device, plan.devices.len()))
}

/// The sign where the step did something: on a ground of the device's colour.
fn lit(style: Style) -> Style {
    style.add_modifier(ratatui::style::Modifier::REVERSED | ratatui::style::Modifier::BOLD)
}
