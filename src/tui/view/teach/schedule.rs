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

use crate::plan::DeviceKind;
use crate::teach::schedule::{Schedule, Step};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::regions::inside;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::pen::{Pen, width, wrap};

/// Columns of the panel beside the graph, where there is room for one.
const ASIDE: u16 = 46;

/// Where the parts of the page stand: a pure function of its size and of the words on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    steps: Rect,
    says: Rect,
    graph: Rect,
    aside: Rect,
}

impl Places {
    /// The parts of `area`.
    pub fn new(area: Rect, sheet: &Schedule) -> Self {
        let room = area.width.saturating_sub(3);
        let remark = sheet.remark.as_ref().map_or(0, |text| wrap(text, room).len());
        let without = usize::from(sheet.without.is_some());
        // one height for all steps, so that nothing jumps
        let longest = sheet.steps.iter().map(|step| wrap(step.says(), room).len()).max().unwrap_or(0);
        let words = ((remark + without + longest) as u16).min(area.height / 3);
        let steps = Rect { height: area.height.min(1), ..area };
        let says = Rect { y: steps.bottom(), height: words, ..area };
        let rest = Rect { y: says.bottom(), height: area.bottom().saturating_sub(says.bottom()), ..area };
        let wide = area.width >= 100;
        let beside = if wide { ASIDE } else { 0 };
        let below = if wide { 0 } else { (rest.height / 3).clamp(5, 9).min(rest.height) };
        let graph = Rect { width: rest.width - beside, height: rest.height - below, ..rest };
        let aside = if wide {
            Rect { x: graph.right(), width: beside, ..rest }
        } else {
            Rect { y: graph.bottom(), height: below, ..rest }
        };
        Self { steps, says, graph, aside }
    }

    /// The cells of each step's name; all of them, or those around the open one.
    fn step_cells(self, sheet: &Schedule) -> Vec<Rect> {
        let mut x = self.steps.x;
        let place = |step: &Step| {
            let cells = width(step.name()) + 2;
            let fits = x.saturating_add(cells) <= self.steps.right();
            let place = Rect { x, width: if fits { cells } else { 0 }, ..self.steps };
            x = x.saturating_add(cells);
            place
        };
        sheet.steps.iter().map(place).collect()
    }

    /// The step whose name is at (`x`, `y`).
    pub fn step_at(&self, sheet: &Schedule, x: u16, y: u16) -> Option<usize> {
        self.step_cells(sheet).iter().position(|place| place.contains((x, y).into()))
    }

    /// The row of the graph at (`x`, `y`), from its top.
    pub fn row_at(&self, x: u16, y: u16) -> Option<usize> {
        let inner = inside(self.graph);
        inner.contains((x, y).into()).then(|| usize::from(y - inner.y))
    }

    /// What stands in the graph's first row: an index into the blocks, or into the open block's operations.
    pub fn first_row(&self, sheet: &Schedule, cursor: Cursor) -> usize {
        let rows = usize::from(inside(self.graph).height);
        let (at, count) = match cursor.open {
            Some(at) => (at, sheet.blocks.get(cursor.block).map_or(0, |block| block.nodes.len())),
            None => (cursor.block, sheet.blocks.len()),
        };
        at.saturating_sub(rows / 2).min(count.saturating_sub(rows))
    }
}

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
