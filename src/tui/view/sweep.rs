//! The sweep page: memory over a knob's range, a chart per device, with the readings above and the cliffs below.
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

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::figure;
use super::layers::device_name;
use crate::answer::sweep::{DeviceSums, PlanFigures};
use crate::machine::short_name;
use crate::page::palette::sign;
use crate::plan::{DevicePlan, Outcome, Plan};
use crate::settings::knob::Knob;
use crate::tui::app::App;
use crate::tui::app::cliffs::edge;
use crate::tui::app::sweep::{LogAxis, SweepPage};
use crate::tui::regions::sweep::{AMOUNTS, place};
use crate::tui::theme::glyphs::LOWER;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::area::{self, ChartScale};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::Bytes;

/// Rows of the readings above the charts, and of the scale below.
const ABOVE: u16 = 2;
const BELOW: u16 = 4;
/// Minimum rows of a chart, including its title.
const MIN_CHART_ROWS: u16 = 5;

/// Draws the page.
pub fn draw(app: &App, page: &SweepPage, buffer: &mut Buffer) {
    let (theme, inner) = (app.theme, place(&app.regions));
    let Some(plan) = &app.plan else { return };
    let title = format!("Memory by {}", page.knob.title());
    panel::overlay(buffer, app.regions.overlay(u16::MAX, u16::MAX), &title, &plan.source(), theme);
    let axis = app.axis(page.knob);
    readings(page, inner, theme, buffer);
    let charts = Rect { y: inner.y.saturating_add(ABOVE), height: inner.height.saturating_sub(ABOVE + BELOW), ..inner };
    for (device, place) in shown(plan.devices.len(), page.device, charts) {
        chart(app, page, plan, device, place, buffer);
    }
    let scale = Rect {
        x: inner.x.saturating_add(AMOUNTS),
        y: inner.bottom().saturating_sub(BELOW),
        width: inner.width.saturating_sub(AMOUNTS),
        height: BELOW.min(inner.height),
    };
    speeds(page, &axis, Rect { height: 1, ..scale }, theme, buffer);
    let scale = Rect { y: scale.y.saturating_add(1), height: scale.height.saturating_sub(1), ..scale };
    verdicts(page, &axis, scale, theme, buffer);
    changes(app, page, &axis, scale, buffer);
    labels(page.knob, &axis, scale, theme, buffer);
}

/// The devices that fit, with the selected one among them, and their areas.
fn shown(count: usize, chosen: usize, area: Rect) -> Vec<(usize, Rect)> {
    let fit = usize::from(area.height / MIN_CHART_ROWS).clamp(1, count.max(1));
    let first = (chosen + 1).saturating_sub(fit).min(count - fit);
    let each = area.height / fit as u16;
    let place = |at: usize| Rect { y: area.y + each * at as u16, height: each, ..area };
    (0..fit).map(|at| (first + at, place(at))).collect()
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
                let speed = format!("   {start} tok/s, {full} with the context full");
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
    device.free + device.swap_free
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
    writer.put(if chosen { "▸" } else { " " }, ink).put(device_name(plan, index), ink).skip(1);
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
    let axis = app.axis(page.knob);
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

/// Draws the speed with the context full as a line of bars, the fastest the highest.
fn speeds(page: &SweepPage, axis: &LogAxis, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let speed = |figures: &PlanFigures| Some(figures.speed_at_full_context?.tokens_per_second);
    let known = page.points.values().flatten().filter_map(speed);
    let fastest = known.fold(0.0, f64::max);
    if fastest <= 0.0 {
        return;
    }
    let name = Rect { x: row.x.saturating_sub(AMOUNTS), width: AMOUNTS.saturating_sub(1), ..row };
    RowWriter::new(buffer, name, 0).put(&format!("{:>8}", "tok/s"), theme.ink(Hue::Dim));
    for column in 0..row.width {
        let Some(Ok(figures)) = page.points.get(&axis.value(column)) else { continue };
        let Some(here) = speed(figures) else { continue };
        let eighths = (here / fastest * 8.0).ceil().clamp(1.0, 8.0) as usize;
        if let Some(cell) = buffer.cell_mut((row.x.saturating_add(column), row.y)) {
            cell.set_symbol(LOWER[eighths - 1]).set_style(theme.ink(Hue::Text));
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

/// Draws the cliffs and the cursor.
fn changes(app: &App, page: &SweepPage, axis: &LogAxis, scale: Rect, buffer: &mut Buffer) {
    let y = scale.y.saturating_add(1);
    let mut put = |value: u64, symbol: &str, style| {
        if let Some(cell) = buffer.cell_mut((scale.x.saturating_add(axis.column(value)), y)) {
            cell.set_symbol(symbol).set_style(style);
        }
    };
    // jumps are fewer, and drawn over the others
    for jumps in [false, true] {
        let here = app.cliffs_along(page.knob).iter().filter(|cliff| cliff.jumps.is_empty() != jumps);
        let (symbol, hue) = if jumps { ("◇", Hue::Text) } else { ("╵", Hue::Over) };
        here.for_each(|cliff| put(edge(cliff), symbol, app.theme.ink(hue)));
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
