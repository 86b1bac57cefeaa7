//! The memory panel: one bar per device with weights, cache, graph, reserved, in use and free memory.
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::figure;
use crate::machine::{DeviceKind, short_name};
use crate::plan::{DevicePlan, PartMemory, Plan};
use crate::tui::app::{App, Detection};
use crate::tui::regions::{Panel, inside};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::bar::{self, BarPart};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width, wrap};
use crate::units::Bytes;

/// Width of the widest figure, `1023 MiB of 999.9 GiB`, and of its mark.
const FIGURE: u16 = 20;

/// Minimum width of a bar next to name and figure.
const MIN_BAR: u16 = 5;

/// Widths of a short legend's columns in one row and in two.
const COLUMNS: [[u16; 3]; 2] = [[13, 11, 11], [13, 12, 11]];

/// What GPUs take of a device's memory, and whether that is too much with the rest.
#[derive(Clone, Copy)]
pub(crate) struct Lent {
    pub bytes: Bytes,
    pub is_over: bool,
}

impl Lent {
    pub(crate) fn of(plan: &Plan, device: usize) -> Self {
        Self { bytes: plan.lent_to_gpus(device), is_over: plan.is_over(device) }
    }
}

/// Draws the panel.
pub fn draw(app: &App, buffer: &mut Buffer) {
    draw_in(app, app.panels.regions.memory, app.panels.focus == Panel::Memory, buffer);
}

/// Draws the panel in `area`.
pub fn draw_in(app: &App, area: Rect, focused: bool, buffer: &mut Buffer) {
    let theme = app.theme;
    let Some(plan) = &app.request.plan else {
        panel::frame(buffer, area, Panel::Memory.title(), "", focused, theme);
        return;
    };
    let rows = DeviceRows::new(area, plan.devices.len(), app.panels.cursors.device);
    let hidden = rows.count - rows.shown;
    let right_title = match hidden {
        0 => right_title(app, plan),
        n => format!("{} to {} of {}, ↑↓ for {n} more", rows.first + 1, rows.first + rows.shown, rows.count),
    };
    panel::frame(buffer, area, Panel::Memory.title(), &right_title, focused, theme);
    for (index, place) in rows.places() {
        let before = app.request.before().and_then(|before| before.devices.get(index));
        let chosen = focused && index == app.panels.cursors.device;
        draw_device(plan, index, before, place, rows.shape, chosen, theme, buffer);
    }
    draw_no_gpu(app, plan, &rows, buffer);
}

/// Draws the devices of `plan` that fit into `place`.
pub fn bars(plan: &Plan, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let rows = DeviceRows::within(place, plan.devices.len(), 0);
    for (index, place) in rows.places() {
        draw_device(plan, index, None, place, rows.shape, false, theme, buffer);
    }
}

fn right_title(app: &App, plan: &Plan) -> String {
    if app.found_machine.detection == Detection::Running {
        return "detecting GPUs…".to_owned();
    }
    let totals = &plan.totals;
    let beside = plan.parts.iter().skip(1).map(|part| format!(", of it {} {}", part.kind.name(), part.total()));
    format!("GPU {}, RAM {}{}", totals.gpu, totals.cpu, beside.collect::<String>())
}

#[allow(clippy::too_many_arguments, reason = "one device's rows: what it is, what it was, where, and how")]
fn draw_device(
    plan: &Plan,
    index: usize,
    before: Option<&DevicePlan>,
    place: Rect,
    shape: RowShape,
    chosen: bool,
    theme: Theme,
    buffer: &mut Buffer,
) {
    let Some(device) = plan.devices.get(index) else { return };
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.device(index, plan.devices.len()) };
    if chosen {
        let row = Rect { height: 1, ..place };
        buffer.set_style(row.intersection(buffer.area), theme.selected());
    }
    let lent = Lent::of(plan, index);
    let taken = device.taken() + lent.bytes;
    let was = before.map(|before| before.taken() + lent.bytes);
    let beside = shape.head == 0 && place.width >= name_width(place) + 1 + MIN_BAR + 2 + FIGURE;
    // in narrow places one unit for both sizes leaves room for the name
    let of = if place.width < 2 * FIGURE { figure::of_in_short } else { figure::of };
    let figure = of(taken, device.total);
    let figure_style =
        if lent.is_over { theme.bold(Hue::Over) } else { figure::style(&taken, was.as_ref(), theme, Hue::Text) };
    let label = match device.kind {
        DeviceKind::Gpu => device.label(),
        DeviceKind::Cpu => "".into(),
    };
    let name = if beside {
        name_width(place)
    } else {
        // after the selection mark, with a blank before it
        place.width.saturating_sub(width(&figure).max(width(&of(device.total, device.total))) + 2)
    };
    let mut writer = RowWriter::new(buffer, Rect { width: place.width.min(name), ..place }, 0);
    writer.put(&format!("{} ", if chosen { '▸' } else { ' ' }), ink);
    writer.put(plan.device_name(index), ink).skip(1);
    let label = shortened(short_name(&label), writer.room());
    writer.put(&label, theme.ink(Hue::Dim));
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.right(figure::mark(&taken, was.as_ref()), figure_style).right(&figure, figure_style);

    let bar = if shape.head > 0 {
        Rect { y: place.y + shape.head, height: shape.bar, ..place }
    } else {
        let width = if beside { place.width.saturating_sub(name + 1 + FIGURE + 2) } else { 0 };
        Rect { x: place.x + name + 1, width, height: shape.bar, ..place }
    };
    draw_bar(device, &of_model(plan, index), lent, bar, theme, buffer);
    if shape.legend > 0 {
        let indent = indent(place);
        let y = place.y + shape.head + shape.bar;
        let width = place.width.saturating_sub(indent);
        let row = Rect { x: place.x + indent, y, width, height: shape.legend };
        legend(device, before, lent, row, theme, buffer);
    }
}

/// What the model takes on device `index`, without what is loaded beside it.
pub(crate) fn of_model(plan: &Plan, index: usize) -> PartMemory {
    plan.parts.first().and_then(|model| model.devices.get(index)).copied().unwrap_or_default()
}

/// Draws the bar of one device, on which the model takes `own` and GPUs what is `lent` of it.
pub(crate) fn draw_bar(
    device: &DevicePlan,
    own: &PartMemory,
    lent: Lent,
    row: Rect,
    theme: Theme,
    buffer: &mut Buffer,
) {
    let beyond = device.needed() + lent.bytes - device.free;
    let mut parts = vec![
        (BarPart::Weights, own.weights - own.read_once),
        (BarPart::Cache, own.cache),
        (BarPart::Graph, own.graph),
        (BarPart::Beside, device.needed() - own.needed()),
        (BarPart::Shared, lent.bytes),
        (BarPart::Reserved, device.kept()),
        (BarPart::InUse, device.in_use()),
    ];
    if beyond > Bytes::ZERO {
        // overflow is cut from the end, so that the bar still shows all sizes
        let mut left = device.free;
        for (part, bytes) in &mut parts {
            if *part != BarPart::InUse {
                *bytes = (*bytes).min(left);
                left = left - *bytes;
            }
        }
        parts.push((if lent.is_over { BarPart::Over } else { BarPart::Swap }, beyond));
        let whole = device.total + beyond;
        let room = row.width.saturating_sub(1);
        bar::draw(buffer, Rect { width: room, ..row }, whole, &parts, theme);
        return;
    }
    let free = device.total - device.taken() - lent.bytes;
    parts.push((BarPart::Free, free));
    bar::draw(buffer, row, device.total, &parts, theme);
}

/// Draws the parts with name and size, each at a fixed position.
fn legend(
    device: &DevicePlan,
    before: Option<&DevicePlan>,
    lent: Lent,
    place: Rect,
    theme: Theme,
    buffer: &mut Buffer,
) {
    let beyond = device.needed() + lent.bytes - device.free;
    let last = match beyond {
        Bytes::ZERO => (BarPart::Free, device.total - device.taken() - lent.bytes),
        _ if lent.is_over => (BarPart::Over, beyond),
        _ => (BarPart::Swap, beyond),
    };
    let was = |part: fn(&DevicePlan) -> Bytes| before.map(part);
    let entries = [
        (BarPart::Weights, device.weights, was(|device| device.weights)),
        (BarPart::Cache, device.cache, was(|device| device.cache)),
        (BarPart::Graph, device.graph, was(|device| device.graph)),
        // RAM keeps nothing back where GPUs share it
        if lent.bytes > Bytes::ZERO {
            (BarPart::Shared, lent.bytes, None)
        } else {
            (BarPart::Reserved, device.kept(), None)
        },
        (BarPart::InUse, device.in_use(), None),
        (last.0, last.1, None),
    ];
    if place.width < legend_width(false) {
        short_legend(entries, place, theme, buffer);
        return;
    }
    let names = place.height > 1 || place.width >= legend_width(true);
    let per_row = if place.height > 1 { 3 } else { entries.len() };
    for (row, entries) in (0..place.height).zip(entries.chunks(per_row)) {
        let mut writer = RowWriter::new(buffer, place, row);
        for (at, (part, bytes, was)) in entries.iter().enumerate() {
            if writer.room() < ENTRY - 1 {
                break;
            }
            let (sample, ink) = part.sample(theme);
            let start = writer.x();
            writer.put(sample, ink).skip(1);
            let mut cells = ENTRY;
            if names {
                writer.put(part.word(), theme.ink(Hue::Dim)).skip(1);
                // in two rows the entries are aligned
                cells += if per_row == 3 { [8, 7, 8][at % 3] } else { width(part.word()) + 1 };
                writer.to(start + cells - ENTRY + 2);
            }
            let style = match part {
                BarPart::Over => theme.bold(Hue::Over),
                _ if *bytes == Bytes::ZERO => theme.ink(Hue::Dim),
                _ => figure::style(bytes, was.as_ref(), theme, Hue::Text),
            };
            writer.put(&bytes.to_string(), style).put(figure::mark(bytes, was.as_ref()), style).to(start + cells);
        }
    }
}

/// Draws the legend for narrow places: allocations in GiB, and the rest below.
fn short_legend(entries: [(BarPart, Bytes, Option<Bytes>); 6], place: Rect, theme: Theme, buffer: &mut Buffer) {
    // closer to its own name than to the next
    let gap = if place.width >= 44 { 3 } else { 1 };
    let columns = COLUMNS[usize::from(place.height > 1)];
    for (row, entries) in (0..place.height).zip(entries.chunks(columns.len())) {
        let mut writer = RowWriter::new(buffer, place, row);
        for ((part, now, was), (at, cells)) in entries.iter().zip((1..).zip(columns)) {
            let gap = if at < columns.len() { gap } else { 1 };
            let start = writer.x();
            let ink = match part {
                BarPart::Weights | BarPart::Cache | BarPart::Graph if !theme.textured() => theme.ink(part.hue()),
                BarPart::Over => theme.bold(Hue::Over),
                _ => theme.ink(Hue::Dim),
            };
            let hue = if row == 0 { Hue::Text } else { Hue::Dim };
            let style = figure::style(now, was.as_ref(), theme, hue);
            let gib = now.share_of(Bytes::gib(1)).0;
            let room = usize::from(cells - width(part.word()));
            writer.put(part.word(), ink).put(&format!("{gib:>room$.1}"), style).to(start + cells + gap);
        }
        if row == 0 && writer.room() >= 3 {
            writer.put("GiB", theme.ink(Hue::Dim));
        }
    }
}

/// Without a GPU, shows below the bars how GPUs were searched.
fn draw_no_gpu(app: &App, plan: &Plan, rows: &DeviceRows, buffer: &mut Buffer) {
    if !plan.gpus().is_empty() || app.found_machine.detection == Detection::Running {
        return;
    }
    let mut lines = vec!["No GPU was found: everything is planned in RAM.".to_owned()];
    let tried = app.found_machine.detected.iter().flat_map(|found| &found.tried);
    lines.extend(tried.map(|tried| format!("{}: {}", tried.collector, tried.outcome)));
    let free = rows.area.height.saturating_sub(rows.shape.rows() * rows.shown as u16);
    let lines: Vec<String> = lines.iter().flat_map(|line| wrap(line, rows.area.width)).collect();
    // after a blank row, if there is one to spare
    let top = rows.area.height - free + u16::from(usize::from(free) > lines.len());
    for (row, line) in (top..rows.area.height).zip(&lines) {
        RowWriter::new(buffer, rows.area, row).put(line, app.theme.ink(Hue::Dim));
    }
}

/// The visible devices and the rows of each, by the size of the area, the number of devices and the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeviceRows {
    pub area: Rect,
    /// The first visible device, and the number of visible ones.
    pub first: usize,
    pub shown: usize,
    pub count: usize,
    pub shape: RowShape,
}

/// The rows of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RowShape {
    /// Rows for name and figure above the bar.
    pub head: u16,
    pub bar: u16,
    pub legend: u16,
    pub gap: u16,
}

impl RowShape {
    /// All shapes, from the tallest to a single row.
    fn all(area: Rect) -> [Self; 6] {
        let head = u16::from(!is_wide(area));
        let whole = if legend_width(true) <= area.width.saturating_sub(indent(area)) { 1 } else { 2 };
        let shape = |head, bar, legend, gap| Self { head, bar, legend, gap };
        [
            shape(head, if head > 0 { 1 } else { 3 }, whole, 1),
            shape(head, 1, whole, 1),
            shape(head, 1, 1, 1),
            shape(head, 1, 1, 0),
            shape(head, 1, 0, 0),
            shape(0, 1, 0, 0),
        ]
    }

    /// The total number of rows.
    pub const fn rows(self) -> u16 {
        self.head + self.bar + self.legend + self.gap
    }
}

/// Whether name, bar and figure are in one row.
const fn is_wide(area: Rect) -> bool {
    area.width >= 100
}

/// Width of the name column, if the bar is next to it.
pub const fn name_width(area: Rect) -> u16 {
    if is_wide(area) { 29 } else { 21 }
}

/// The offset of bar and legend.
pub const fn indent(area: Rect) -> u16 {
    if is_wide(area) { name_width(area) + 1 } else { 0 }
}

/// Width of a legend in one row, with or without names.
pub const fn legend_width(names: bool) -> u16 {
    if names { 6 * ENTRY + 7 + 5 + 7 + 4 + 6 + 4 + 6 } else { 6 * ENTRY }
}

/// Width of a legend entry without its name: `■ 1023 MiB▲ `.
pub const ENTRY: u16 = 12;

impl DeviceRows {
    /// The layout of `count` devices in `panel`, scrolled so that `cursor` is visible.
    pub fn new(panel: Rect, count: usize, cursor: usize) -> Self {
        let inner = inside(panel);
        Self::within(
            Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner },
            count,
            cursor,
        )
    }

    /// The same within `area`, without a frame.
    pub fn within(area: Rect, count: usize, cursor: usize) -> Self {
        let rows = usize::from(area.height);
        let shapes = RowShape::all(area);
        // the last device needs no blank row after it
        let fits = |shape: &RowShape| count * usize::from(shape.rows()) <= rows + usize::from(shape.gap);
        let least = shapes[shapes.len() - 1];
        let shape = shapes.into_iter().find(fits).unwrap_or(least);
        let shown = if fits(&shape) { count } else { rows.min(count) };
        let first = if cursor < shown { 0 } else { (cursor + 1).saturating_sub(shown.max(1)) };
        Self { area, first, shown, count, shape }
    }

    /// The device at row `y` of the screen.
    pub fn device_at(&self, y: u16) -> Option<usize> {
        let row = y.checked_sub(self.area.y)?;
        let place = usize::from(row / self.shape.rows());
        (y < self.area.bottom() && place < self.shown).then_some(self.first + place)
    }

    /// The visible devices and their areas.
    pub fn places(&self) -> impl Iterator<Item = (usize, Rect)> {
        let Self { area, first, shown, shape, .. } = *self;
        let pitch = shape.rows();
        (0..shown).map(move |place| {
            let y = area.y.saturating_add(pitch.saturating_mul(place as u16));
            let height = pitch.min(area.bottom().saturating_sub(y));
            (first + place, Rect { y, height, ..area })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_chosen_device_is_shown_and_the_mouse_finds_it(
            width in 0u16..200, height in 3u16..60, count in 1usize..70, cursor in 0usize..70,
        ) {
            let cursor = cursor % count;
            let rows = DeviceRows::new(Rect::new(0, 0, width, height), count, cursor);
            let places: Vec<_> = rows.places().collect();
            if rows.shown > 0 {
                prop_assert!(places.iter().any(|(device, _)| *device == cursor), "{rows:?}");
            }
            for (device, place) in places {
                if place.height > 0 {
                    prop_assert_eq!(rows.device_at(place.y), Some(device));
                    prop_assert!(place.bottom() < height);
                }
            }
        }
    }
}
