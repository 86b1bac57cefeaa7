//! The sweep page: memory over a knob's range, a chart per device, with the readings above and the thresholds below.
//!
//! ```text
//!  context 34 674   ✓ Fits, 33 of 33 layers on GPU          ■ weights ■ cache ■ graph ╌ free
//! ▸GPU0 RTX 3060 asked 11.0 of 11.6 GiB  weights 4.3 GiB  cache 4.2 GiB  graph 2.5 GiB
//!  11.6 GiB╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▗▟████
//!          ▁▁▁▁▁▁▂▂▂▂▂▃▃▃▃▄▄▄▅▅▆▆▇███████
//!          ██████████████████████████████
//!          ━━━━━━━━━━━━━━━━━━━━━━━━━┄┄┄┄┄   verdict
//!                                  ▲╵╵╵   cursor and changes
//!          1k   2k   4k   8k   16k   32k
//! ```

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};

use crate::answer::sweep::{DeviceSums, PlanFigures};
use crate::machine::short_name;
use crate::page::palette::sign;
use crate::plan::{DevicePlan, Outcome, Plan};
use crate::question::sweep::SweepRequest;
use crate::settings::knob::Knob;
use crate::speed::SpeedRange;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::App;
use crate::tui::app::thresholds::{edge, next};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::query::Received;
use crate::tui::regions::Regions;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::theme::glyphs::LOWER;
use crate::tui::theme::{Hue, Theme};
use crate::tui::view::figure;
use crate::tui::widget::area::{self, ChartScale};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::Bytes;

/// Width of the amounts left of the charts.
const AMOUNTS: u16 = 9;
/// Rows of the readings above the charts, and of the scale below.
const ABOVE: u16 = 2;
const BELOW: u16 = 3;
/// Minimum rows of a chart, including its title.
const MIN_CHART_ROWS: u16 = 5;

/// The knobs that can be swept.
const SWEEP_KNOBS: [Knob; 3] = [Knob::Context, Knob::Parallel, Knob::Batch];

/// The state of the page.
#[derive(Clone, Debug)]
pub struct SweepPage {
    /// The swept knob.
    pub knob: Knob,
    /// The figures for each planned value, or the engine's error.
    pub points: BTreeMap<u64, Result<PlanFigures, String>>,
    /// The value at the cursor.
    pub cursor: u64,
    /// The selected device, by its index in the plan.
    pub device: usize,
    query: u64,
}

impl SweepPage {
    /// The page for the focused knob, or for the context if that cannot be swept.
    pub fn of(app: &App) -> Self {
        let knob = SWEEP_KNOBS.into_iter().find(|&knob| knob == app.panels.knobs.focus).unwrap_or(Knob::Context);
        Self::on(app, knob, 0)
    }

    fn on(app: &App, knob: Knob, device: usize) -> Self {
        Self { knob, points: BTreeMap::new(), cursor: app.request.value(knob), device, query: 0 }
    }

    /// Asks for the points that are not planned yet, the one at the cursor first.
    fn ask_for_missing(&mut self, app: &mut App) -> Vec<Effect> {
        let axis = LogAxis::of(app, self.knob);
        let mut values: Vec<u64> = std::iter::once(self.cursor).chain(axis.values()).collect();
        values.retain(|value| !self.points.contains_key(value));
        let question = SweepRequest { knob: self.knob, values };
        if question.values.is_empty() { Vec::new() } else { app.request.ask(question, &mut self.query) }
    }

    fn move_to_threshold(&mut self, app: &mut App, up: bool) {
        let thresholds =
            app.request.limits_request().and_then(|now| app.request.thresholds.of(self.knob, &now).map(<[_]>::to_vec));
        let Some(thresholds) = thresholds else {
            app.notice = Some("Still computing the thresholds; press again in a moment.".to_owned());
            return;
        };
        match next(&thresholds, self.cursor, up) {
            Some(threshold) => {
                self.cursor = edge(threshold);
                app.notice = Some(format!("{}.", threshold.description(self.knob)));
            }
            None => app.notice = Some("No threshold further on.".to_owned()),
        }
    }
}

impl Screen for SweepPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Sweep, Scope::Everywhere]
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        self.points.clear();
        self.ask_for_missing(app)
    }

    // a wider screen shows more points
    fn resized(&mut self, app: &mut App) -> Vec<Effect> {
        self.ask_for_missing(app)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part(point)) = answer.part_of::<SweepRequest>(self.query) {
            self.points.insert(point.value, point.figures);
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let axis = LogAxis::of(app, self.knob);
        let at = axis.column(self.cursor);
        let devices = app.request.plan.as_ref().map_or(1, |plan| plan.devices.len());
        match command {
            Command::Enter => {
                app.set_knob(self.knob, self.cursor);
                app.panels.knobs.focus = self.knob;
                return Response::CLOSE;
            }
            Command::NextPanel | Command::PreviousPanel => {
                let now = SWEEP_KNOBS.iter().position(|&knob| knob == self.knob).unwrap_or(0);
                let by = if command == Command::NextPanel { 1 } else { SWEEP_KNOBS.len() - 1 };
                *self = Self::on(app, SWEEP_KNOBS[(now + by) % SWEEP_KNOBS.len()], self.device);
            }
            Command::Less => self.cursor = below(&axis, self.cursor, at),
            Command::More => self.cursor = above(&axis, self.cursor, at),
            Command::PageDown | Command::FineLess => self.cursor = axis.value(at.saturating_sub(8)),
            Command::PageUp | Command::FineMore => self.cursor = axis.value(at.saturating_add(8)),
            Command::First => self.cursor = axis.value(0),
            Command::Last => self.cursor = axis.value(u16::MAX),
            Command::NextCliff | Command::PreviousCliff => self.move_to_threshold(app, command == Command::NextCliff),
            Command::Up | Command::Down => self.device = moved(self.device, devices, 1, command),
            _ => return Response::Ignored,
        }
        Response::Stay(self.ask_for_missing(app))
    }

    /// A press or drag moves the cursor; a press on a chart's title selects the device.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let inner = inner(&app.panels.regions);
        if !matches!(gesture, Gesture::Down | Gesture::Drag) || !inner.contains(at) {
            return Response::Ignored;
        }
        let plan = app.request.plan.clone();
        let pressed =
            plan.and_then(|plan| shown(self, &plan, charts(inner)).into_iter().find(|(_, place)| place.contains(at)));
        if let Some((device, _)) = pressed {
            self.device = device;
        }
        if let Some(column) = at.x.checked_sub(inner.x + AMOUNTS) {
            self.cursor = LogAxis::of(app, self.knob).value(column);
        }
        Response::Stay(self.ask_for_missing(app))
    }

    fn area(&self, app: &App) -> Rect {
        app.panels.regions.overlay(u16::MAX, u16::MAX)
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        if let Some(plan) = &app.request.plan {
            draw(app, self, plan, buffer);
        }
    }
}

/// The area of the page inside its frame.
fn inner(regions: &Regions) -> Rect {
    regions.overlay(u16::MAX, u16::MAX).inner(Margin::new(2, 1))
}

/// The part of it that has the charts.
fn charts(inner: Rect) -> Rect {
    let height = inner.height.saturating_sub(ABOVE + speed_rows(inner) + BELOW);
    Rect { y: inner.y.saturating_add(ABOVE), height, ..inner }
}

/// Rows of the chart of speeds: one on a small screen.
fn speed_rows(inner: Rect) -> u16 {
    (inner.height / 7).clamp(1, 6)
}

/// A logarithmic axis over a knob's range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LogAxis {
    first: u64,
    last: u64,
    columns: u16,
}

impl LogAxis {
    /// The range of `knob` over the columns of the charts.
    fn of(app: &App, knob: Knob) -> Self {
        let stops = knob.stops(&app.request.bounds);
        let columns = inner(&app.panels.regions).width.saturating_sub(AMOUNTS);
        Self { first: stops.first().max(1), last: stops.last().max(1), columns }
    }

    fn ratio(&self) -> f64 {
        (self.last as f64 / self.first as f64).ln()
    }

    /// The column of `value`, clamped to the range.
    fn column(&self, value: u64) -> u16 {
        let (ratio, steps) = (self.ratio(), f64::from(self.columns.saturating_sub(1)));
        if ratio <= 0.0 {
            return 0;
        }
        let share = (value.max(1) as f64 / self.first as f64).ln() / ratio;
        (share.clamp(0.0, 1.0) * steps).round() as u16
    }

    /// The value at `column`.
    fn value(&self, column: u16) -> u64 {
        let steps = self.columns.saturating_sub(1);
        if column == 0 || steps == 0 {
            return self.first;
        }
        if column >= steps {
            return self.last;
        }
        let share = f64::from(column) / f64::from(steps);
        let value = self.first as f64 * (share * self.ratio()).exp();
        (value.round() as u64).clamp(self.first, self.last)
    }

    /// The values of all columns, ascending.
    fn values(&self) -> Vec<u64> {
        let mut values: Vec<u64> = (0..self.columns).map(|column| self.value(column)).collect();
        values.dedup();
        values
    }
}

/// The value of the next column to the left with a smaller value.
fn below(axis: &LogAxis, value: u64, at: u16) -> u64 {
    (0..=at).rev().map(|column| axis.value(column)).find(|&other| other < value).unwrap_or(value)
}

/// The value of the next column to the right with a larger value.
fn above(axis: &LogAxis, value: u64, at: u16) -> u64 {
    (at..axis.columns).map(|column| axis.value(column)).find(|&other| other > value).unwrap_or(value)
}

fn draw(app: &App, page: &SweepPage, plan: &Plan, buffer: &mut Buffer) {
    let (theme, inner) = (app.theme, inner(&app.panels.regions));
    let title = format!("Memory by {}", page.knob.title());
    panel::overlay(buffer, app.panels.regions.overlay(u16::MAX, u16::MAX), &title, &plan.source(), theme);
    let axis = LogAxis::of(app, page.knob);
    readings(page, inner, theme, buffer);
    for (device, place) in shown(page, plan, charts(inner)) {
        chart(app, page, plan, device, place, buffer);
    }
    let scale = Rect {
        x: inner.x.saturating_add(AMOUNTS),
        y: inner.bottom().saturating_sub(BELOW),
        width: inner.width.saturating_sub(AMOUNTS),
        height: BELOW.min(inner.height),
    };
    let rows = speed_rows(inner);
    speeds(page, &axis, Rect { y: scale.y.saturating_sub(rows), height: rows, ..scale }, theme, buffer);
    verdicts(page, &axis, scale, theme, buffer);
    changes(app, page, &axis, scale, buffer);
    labels(page.knob, &axis, scale, theme, buffer);
}

/// The devices that fit, with the selected one among them, and their areas: RAM has a small one where little of it is used.
fn shown(page: &SweepPage, plan: &Plan, area: Rect) -> Vec<(usize, Rect)> {
    let count = plan.devices.len();
    let fit = usize::from(area.height / MIN_CHART_ROWS).clamp(1, count.max(1));
    let first = (page.device + 1).saturating_sub(fit).min(count - fit);
    let ram =
        (count.saturating_sub(1)).checked_sub(first).filter(|at| fit > 1 && *at < fit && is_hardly_used(page, plan));
    let each = match ram {
        Some(_) => (area.height - MIN_CHART_ROWS) / (fit as u16 - 1),
        None => area.height / fit as u16,
    };
    let height = |at: usize| if ram == Some(at) { area.height - each * (fit as u16 - 1) } else { each };
    // RAM is the last one
    (0..fit).map(|at| (first + at, Rect { y: area.y + each * at as u16, height: height(at), ..area })).collect()
}

/// Whether at no point more than a fifth of RAM is used.
fn is_hardly_used(page: &SweepPage, plan: &Plan) -> bool {
    let of_ram = page.points.values().flatten().filter_map(|figures| figures.devices.last());
    let most = of_ram.map(asked).max().unwrap_or(Bytes::ZERO);
    plan.devices.last().is_some_and(|ram| Bytes(most.0.saturating_mul(5)) <= room(ram))
}

/// Draws the readings at the cursor, and the legend.
fn readings(page: &SweepPage, inner: Rect, theme: Theme, buffer: &mut Buffer) {
    let mut writer = RowWriter::new(buffer, inner, 0);
    writer.put(page.knob.title(), theme.ink(Hue::Dim)).skip(1);
    writer.put(&page.knob.show(page.cursor), theme.bold(Hue::Focus)).skip(3);
    match page.points.get(&page.cursor) {
        Some(Ok(figures)) => {
            let (mark, hue) = sign(figures.outcome);
            writer.put(&format!("{mark} {}", figures.outcome.headline()), theme.bold(hue));
            let layers = format!(", {} of {} layers on GPU", figures.on_gpus(), figures.layer_count);
            writer.put(&layers, theme.ink(Hue::Text));
            let sums = format!("   GPU {}, RAM {}", figures.totals.gpu, figures.totals.cpu);
            if width(&sums) <= writer.room() {
                writer.put(&sums, theme.ink(Hue::Dim));
            }
            if let (Some(start), Some(full)) = (figures.speed, figures.speed_at_full_context) {
                let speed = format!("   {start}, ≈ {} with the context full", full.cell());
                if width(&speed) <= writer.room() {
                    writer.put(&speed, theme.ink(Hue::Text));
                }
            }
        }
        Some(Err(why)) => drop(writer.put("✗ ", theme.bold(Hue::Over)).put(why, theme.ink(Hue::Over))),
        None => drop(writer.put("planning…", theme.ink(Hue::Dim))),
    }
    let parts = [BarPart::Weights, BarPart::Cache, BarPart::Graph, BarPart::Reserved, BarPart::Over];
    let parts = parts.map(|part| (part.sample(theme), part.word()));
    let lines = [("╌", theme.ink(Hue::Fine)), ("╵", theme.ink(Hue::Over)), ("◇", theme.ink(Hue::Text))];
    let legend = |words: [&'static str; 3]| parts.into_iter().chain(lines.into_iter().zip(words)).collect::<Vec<_>>();
    let [long, short] =
        [["free", "layer moves to RAM", "engine changes a setting"], ["free", "to RAM", "engine"]].map(legend);
    let cells: u16 = long.iter().map(|((sample, _), word)| width(sample) + 1 + width(word) + 2).sum();
    let mut writer = RowWriter::new(buffer, inner, 1);
    // the last entry needs no gap after it
    for ((sample, ink), word) in if cells <= inner.width + 2 { long } else { short } {
        if width(sample) + 1 + width(word) <= writer.room() {
            writer.put(sample, ink).skip(1).put(word, theme.ink(Hue::Dim)).skip(2);
        }
    }
}

/// Memory available on `device`.
fn room(device: &DevicePlan) -> Bytes {
    device.free + device.ram.swap_free
}

fn asked(sums: &DeviceSums) -> Bytes {
    sums.weights + sums.cache + sums.graph
}

fn chart(app: &App, page: &SweepPage, plan: &Plan, index: usize, place: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let Some(device) = plan.devices.get(index) else { return };
    let sums = |figures: &'_ PlanFigures| figures.devices.get(index).cloned();
    let most = page.points.values().flatten().filter_map(sums).map(|sums| asked(&sums)).max().unwrap_or(Bytes::ZERO);
    let room = room(device);
    // the chart ends at 1.5 times the available memory
    let whole = room.max(most.min(Bytes(room.0.saturating_add(room.0 / 2)).max(Bytes::mib(1))));
    let scale = ChartScale { whole: Bytes(whole.0.saturating_add(whole.0 / 24)), room };

    let chosen = index == page.device;
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.device(index, plan.devices.len()) };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put(if chosen { "▸" } else { " " }, ink).put(plan.device_name(index), ink).skip(1);
    if index + 1 < plan.devices.len() {
        writer.put(short_name(&device.name), theme.ink(Hue::Dim)).skip(1);
    }
    let read = page.points.get(&page.cursor).and_then(|figures| figures.as_ref().ok()).and_then(sums);
    if let Some(sums) = read {
        reading(&sums, room, &mut writer, theme);
    }

    let body = Rect {
        x: place.x.saturating_add(AMOUNTS),
        y: place.y.saturating_add(1),
        width: place.width.saturating_sub(AMOUNTS),
        height: place.height.saturating_sub(1),
    };
    let line = scale.line(body);
    let amount = Rect { y: line, height: 1, width: AMOUNTS.saturating_sub(1), ..place };
    RowWriter::new(buffer, amount, 0).put(&format!("{:>8}", room.to_string()), theme.ink(Hue::Fine));
    let axis = LogAxis::of(app, page.knob);
    for column in 0..body.width {
        let parts = match page.points.get(&axis.value(column)) {
            Some(Ok(figures)) => figures.devices.get(index).map(parts).unwrap_or_default(),
            Some(Err(_)) | None => Vec::new(),
        };
        area::column(buffer, body, body.x.saturating_add(column), scale, &parts, theme);
    }
    let x = body.x.saturating_add(axis.column(page.cursor));
    for y in body.top()..body.bottom() {
        if let Some(cell) = buffer.cell_mut((x, y)).filter(|cell| matches!(cell.symbol(), " " | "╌")) {
            cell.set_symbol("│").set_style(theme.bold(Hue::Focus));
        }
    }
}

/// The allocations, and the engine's reserve clipped to the free memory.
fn parts(sums: &DeviceSums) -> Vec<(BarPart, Bytes)> {
    let kept = sums.reserved.min(sums.free - asked(sums));
    let asked = [(BarPart::Weights, sums.weights), (BarPart::Cache, sums.cache), (BarPart::Graph, sums.graph)];
    asked.into_iter().chain([(BarPart::Reserved, kept)]).collect()
}

/// Draws a device's figures at the cursor.
fn reading(sums: &DeviceSums, room: Bytes, writer: &mut RowWriter<'_>, theme: Theme) {
    let asked = asked(sums);
    let over = asked > room;
    let ink = if over { theme.bold(Hue::Over) } else { theme.bold(Hue::Text) };
    writer.put("needs", theme.ink(Hue::Dim)).skip(1);
    writer.put(&format!("{}{}", figure::of(asked, room), if over { ", over" } else { "" }), ink).skip(2);
    for (part, bytes) in parts(sums) {
        let text = format!("{} {bytes}  ", part.word());
        if width(&text) <= writer.room() {
            writer.put(&text, theme.ink(Hue::Dim));
        }
    }
}

/// Draws the speed with the context full as bars over an axis from none to the fastest.
fn speeds(page: &SweepPage, axis: &LogAxis, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let speed = |figures: &PlanFigures| Some(figures.speed_at_full_context?.tokens_per_second);
    let known = page.points.values().flatten().filter_map(speed);
    let fastest = known.fold(0.0, f64::max);
    if fastest <= 0.0 {
        return;
    }
    let names = Rect { x: place.x.saturating_sub(AMOUNTS), width: AMOUNTS.saturating_sub(1), ..place };
    let most = SpeedRange { tokens_per_second: fastest, low: fastest, high: fastest }.short();
    let labels: &[(u16, &str)] = match place.height {
        0 | 1 => &[(0, "tok/s")],
        2 => &[(0, &most), (1, "tok/s")],
        rows => &[(0, &most), (1, "tok/s"), (rows - 1, "0")],
    };
    for (row, label) in labels {
        RowWriter::new(buffer, names, *row).put(&format!("{label:>8}"), theme.ink(Hue::Dim));
    }
    for column in 0..place.width {
        let Some(Ok(figures)) = page.points.get(&axis.value(column)) else { continue };
        let Some(here) = speed(figures) else { continue };
        let eighths = (here / fastest * 8.0 * f64::from(place.height)).ceil().max(1.0) as usize;
        for row in 0..place.height {
            let filled = eighths.saturating_sub(8 * usize::from(row)).min(8);
            let at = (place.x.saturating_add(column), place.bottom().saturating_sub(1 + row));
            if let Some(cell) = buffer.cell_mut(at).filter(|_| filled > 0) {
                cell.set_symbol(LOWER[filled - 1]).set_style(theme.ink(Hue::Text));
            }
        }
    }
}

/// Draws a row with the verdict of each column.
fn verdicts(page: &SweepPage, axis: &LogAxis, scale: Rect, theme: Theme, buffer: &mut Buffer) {
    for column in 0..scale.width {
        let (symbol, hue) = match page.points.get(&axis.value(column)) {
            Some(Ok(figures)) => match figures.outcome {
                Outcome::Vram => ("━", Hue::Fine),
                Outcome::Tight => ("━", Hue::Part),
                Outcome::PartsInRam | Outcome::ExpertsInRam => ("◐", Hue::Part),
                Outcome::LayersInRam => ("╍", Hue::Cache),
                Outcome::Cpu => ("·", Hue::Ram),
                Outcome::FromDisk => ("∘", Hue::Over),
                Outcome::DoesNotFit => ("✗", Hue::Over),
            },
            Some(Err(_)) => ("✗", Hue::Over),
            None => (" ", Hue::Dim),
        };
        if let Some(cell) = buffer.cell_mut((scale.x.saturating_add(column), scale.y)) {
            cell.set_symbol(symbol).set_style(theme.ink(hue));
        }
    }
}

/// Draws the thresholds and the cursor.
fn changes(app: &App, page: &SweepPage, axis: &LogAxis, scale: Rect, buffer: &mut Buffer) {
    let y = scale.y.saturating_add(1);
    let mut put = |value: u64, symbol: &str, style| {
        if let Some(cell) = buffer.cell_mut((scale.x.saturating_add(axis.column(value)), y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    };
    // jumps are fewer, and drawn over the others
    for jumps in [false, true] {
        let here =
            app.request.thresholds_along(page.knob).iter().filter(|threshold| threshold.jumps.is_empty() != jumps);
        let (symbol, hue) = if jumps { ("◇", Hue::Text) } else { ("╵", Hue::Over) };
        here.for_each(|threshold| put(edge(threshold), symbol, app.theme.ink(hue)));
    }
    put(page.cursor, "▲", app.theme.bold(Hue::Focus));
}

/// Draws powers of two below the charts, as many as fit.
fn labels(knob: Knob, axis: &LogAxis, scale: Rect, theme: Theme, buffer: &mut Buffer) {
    let (first, last) = (axis.value(0), axis.value(u16::MAX));
    let mut free = 0;
    let powers = (0..u64::BITS).map(|power| 1u64 << power).filter(|value| (first..=last).contains(value));
    let ends = [first, last].into_iter().filter(|value| !value.is_power_of_two());
    let mut values: Vec<u64> = powers.chain(ends).collect();
    values.sort_unstable();
    values.dedup();
    for value in values {
        let text = match value {
            n if knob != Knob::Parallel && n >= 1024 && n.is_multiple_of(1024) => format!("{}k", n / 1024),
            n => n.to_string(),
        };
        let cells = width(&text);
        let at = axis.column(value).saturating_sub(cells / 2).min(scale.width.saturating_sub(cells));
        if at < free {
            continue;
        }
        let place = Rect { x: scale.x.saturating_add(at), y: scale.y.saturating_add(2), width: cells, height: 1 };
        RowWriter::new(buffer, place, 0).put(&text, theme.ink(Hue::Dim));
        free = at + cells + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_and_values_agree(first in 1u64..5000, factor in 1u64..4096, columns in 1u16..300) {
            let axis = LogAxis { first, last: first * factor, columns };
            for column in 0..columns {
                let value = axis.value(column);
                prop_assert!((first..=first * factor).contains(&value));
                // in a short range several columns have the same value
                prop_assert_eq!(axis.value(axis.column(value)), value, "column {}", column);
                prop_assert!(column == 0 || axis.value(column - 1) <= value);
            }
            prop_assert_eq!(axis.value(0), first);
            prop_assert!(columns == 1 || axis.value(columns) == first * factor);
        }

        #[test]
        fn the_cursor_passes_every_value(columns in 2u16..200) {
            let axis = LogAxis { first: 1, last: 64, columns };
            let (mut value, mut seen) = (1, vec![1]);
            while value < 64 {
                value = above(&axis, value, axis.column(value));
                seen.push(value);
            }
            prop_assert_eq!(&seen, &axis.values());
            while value > 1 {
                let before = below(&axis, value, axis.column(value));
                prop_assert!(before < value);
                value = before;
            }
        }
    }
}
