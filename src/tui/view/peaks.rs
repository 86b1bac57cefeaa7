//! What fills each device's compute buffer at its fullest moment, for engines that build the graph.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::figure;
use super::graph::Row;
use super::layers::device_name;
use super::page::Page;
use crate::plan::{Alive, Held, Peak, Plan};
use crate::tui::app::{App, Cursors};
use crate::tui::regions::{Panel, inside};
use crate::tui::theme::Hue;
use crate::tui::widget::bar::Part;
use crate::tui::widget::panel;
use crate::tui::widget::pen::{Pen, named, width, wrap};
use crate::units::{Bytes, grouped};

/// Cells for a name on the page.
const NAMES: u16 = 18;

/// A line that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A device, by its place among the peaks.
    Device(usize),
    /// A kind of tensors that is alive on the device that is shown.
    Alive(usize),
}

/// The place among the plan's peaks of the one that is shown.
pub fn shown(plan: &Plan, cursors: &Cursors) -> usize {
    let peaks = &plan.graph.peaks;
    let largest = || (0..peaks.len()).rev().max_by_key(|&at| peaks.get(at).map(|peak| peak.bytes)).unwrap_or(0);
    cursors.peak.filter(|&at| at < peaks.len()).unwrap_or_else(largest)
}

/// The lines, from the top: devices first.
pub fn lines(plan: &Plan, cursors: &Cursors) -> Vec<Line> {
    let peaks = &plan.graph.peaks;
    let alive = peaks.get(shown(plan, cursors)).map_or(0, |peak| peak.alive.len());
    (0..peaks.len()).map(Line::Device).chain((0..alive).map(Line::Alive)).collect()
}

/// Where things stand in the panel.
struct Places {
    /// Lines with their indices; a kind of tensors has a second row for its largest where there is room.
    rows: Vec<(usize, Line, Rect)>,
    /// Where the sentence on the moment stands, if there is room.
    moment: Option<Rect>,
}

fn places(panel: Rect, plan: &Plan, cursors: &Cursors) -> Places {
    let inner = inside(panel);
    let area = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let (lines, rows) = (lines(plan, cursors), usize::from(area.height));
    let peak = plan.graph.peaks.get(shown(plan, cursors));
    let sentence = peak.map_or(0, |peak| wrap(&moment(peak), area.width).len());
    // a blank row on either side
    let aside = if lines.len() + sentence + 2 <= rows { sentence + 2 } else { 0 };
    let tensors = |line: &Line| match *line {
        Line::Device(_) => false,
        Line::Alive(at) => peak.and_then(|peak| peak.alive.get(at)).is_some_and(|alive| !alive.tensors.is_empty()),
    };
    let tall = lines.len() + lines.iter().filter(|line| tensors(line)).count() + aside <= rows;
    let first = if lines.len() <= rows { 0 } else { (cursors.term + 1).saturating_sub(rows) };
    let mut y = area.y;
    let mut places = Places { rows: Vec::with_capacity(lines.len()), moment: None };
    for (index, line) in lines.into_iter().enumerate().skip(first) {
        if line == Line::Alive(0) && aside > 0 {
            places.moment = Some(Rect { y: y + 1, height: sentence as u16, ..area });
            y += aside as u16;
        }
        let height = if tall && tensors(&line) { 2 } else { 1 };
        if y + height > area.bottom() {
            break;
        }
        places.rows.push((index, line, Rect { y, height, ..area }));
        y += height;
    }
    places
}

/// The line at row `y` of the screen.
pub fn line_at(panel: Rect, plan: &Plan, cursors: &Cursors, y: u16) -> Option<usize> {
    let places = places(panel, plan, cursors);
    places.rows.iter().find(|(_, _, place)| (place.top()..place.bottom()).contains(&y)).map(|(index, ..)| *index)
}

/// When the buffer is fullest.
fn moment(peak: &Peak) -> String {
    format!(
        "peak at step {} of {}, {}; live tensors:",
        grouped(peak.step as u64, '\u{2009}'),
        grouped(peak.steps as u64, '\u{2009}'),
        peak.node
    )
}

/// Draws the panel.
pub fn draw(app: &App, plan: &Plan, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.regions.graph);
    let focused = app.focus == Panel::Graph;
    let now = shown(plan, &app.cursors);
    let Some(peak) = plan.graph.peaks.get(now) else { return };
    let aside = format!("{} on {}", peak.bytes, device_name(plan, peak.device));
    panel::frame(buffer, area, Panel::Graph.title(), &aside, focused, theme);
    let places = places(area, plan, &app.cursors);
    let before = app.before().filter(|before| before.graph.peaks.len() == plan.graph.peaks.len());
    let most = plan.graph.peaks.iter().map(|peak| peak.bytes).max().unwrap_or_default();
    for &(index, line, place) in &places.rows {
        let chosen = focused && index == app.cursors.term;
        if chosen {
            buffer.set_style(Rect { height: 1, ..place }.intersection(buffer.area), theme.selected());
        }
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        match line {
            Line::Device(at) => {
                let Some(peak) = plan.graph.peaks.get(at) else { continue };
                let was = before.and_then(|before| before.graph.peaks.get(at)).map(|peak| peak.bytes);
                let (sign, part) = if at == now { ("● ", Part::Graph) } else { ("○ ", Part::InUse) };
                let ink = if at == now || chosen { ink } else { theme.ink(Hue::Dim) };
                let name = device_name(plan, peak.device);
                Row { name, sign, bytes: peak.bytes, was, most, ink }.draw(place, part, theme, buffer);
            }
            Line::Alive(at) => {
                let Some(alive) = peak.alive.get(at) else { continue };
                let was = before.and_then(|before| before.graph.peaks.get(now)).map(|peak| of_kind(peak, alive));
                let most = peak.alive.first().map_or(Bytes::ZERO, |alive| alive.bytes);
                let row = Row { name: alive.kind.name(), sign: "  ", bytes: alive.bytes, was, most, ink };
                row.draw(place, Part::Graph, theme, buffer);
                if let (2, Some(largest)) = (place.height, alive.tensors.first()) {
                    let text = in_short(alive, largest, place.width.saturating_sub(4));
                    Pen::new(buffer, place, 1).skip(4).put(&text, theme.ink(Hue::Dim));
                }
            }
        }
    }
    if let Some(place) = places.moment {
        for (row, text) in (0..place.height).zip(wrap(&moment(peak), place.width)) {
            Pen::new(buffer, place, row).put(&text, theme.ink(Hue::Dim));
        }
    }
}

/// What `peak` has of the kind of `alive`.
fn of_kind(peak: &Peak, alive: &Alive) -> Bytes {
    peak.alive.iter().find(|other| other.kind == alive.kind).map_or(Bytes::ZERO, |other| other.bytes)
}

/// The largest of the tensors and, where `cells` have room, how many more there are. What gives way is its name.
fn in_short(alive: &Alive, largest: &Held, cells: u16) -> String {
    let more = alive.tensors.iter().map(|held| held.count).sum::<usize>().saturating_sub(largest.count);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let (name, shape) = (format!("{}{}", times(largest), largest.name), format!(" · {}", largest.shape));
    let whole = format!("{name}{shape}{more}");
    if width(&whole) <= cells { whole } else { named(&name, &shape, cells) }
}

fn times(held: &Held) -> String {
    if held.count > 1 { format!("{} × ", held.count) } else { String::new() }
}

/// Writes the page on line `line`; its title.
pub fn explain(app: &App, plan: &Plan, line: usize, page: &mut Page) -> String {
    let text = app.theme.ink(Hue::Text);
    let now = shown(plan, &app.cursors);
    match lines(plan, &app.cursors).get(line) {
        Some(Line::Alive(at)) => {
            let Some((peak, alive)) = plan.graph.peaks.get(now).and_then(|peak| Some((peak, peak.alive.get(*at)?)))
            else {
                return String::new();
            };
            page.text(alive.kind.says(), Hue::Text);
            page.blank();
            page.pair("size", NAMES, &figure::exactly(alive.bytes), text);
            let share = format!("{} of {}'s buffer", alive.bytes.share_of(peak.bytes), device_name(plan, peak.device));
            page.pair("share", NAMES, &share, text);
            on_moment(app, peak, page);
            tensors(app, alive, page);
            alive.kind.name().to_owned()
        }
        found => {
            let at = if let Some(Line::Device(at)) = found { *at } else { now };
            let Some(peak) = plan.graph.peaks.get(at) else { return String::new() };
            let sentence = "Each device reserves one compute buffer, as large as its peak. These tensors are live \
                            at the peak.";
            page.text(sentence, Hue::Text);
            page.blank();
            page.pair("size", NAMES, &figure::exactly(peak.bytes), app.theme.bold(Hue::Text));
            on_moment(app, peak, page);
            for alive in &peak.alive {
                page.heading(&format!("{}   {}", alive.kind.name(), alive.bytes));
                page.text(alive.kind.says(), Hue::Dim);
                tensors(app, alive, page);
            }
            format!("graph on {}", device_name(plan, peak.device))
        }
    }
}

fn on_moment(app: &App, peak: &Peak, page: &mut Page) {
    let (step, steps) = (grouped(peak.step as u64, '\u{2009}'), grouped(peak.steps as u64, '\u{2009}'));
    page.pair("peak", NAMES, &format!("{}, step {step} of {steps}", peak.node), app.theme.ink(Hue::Text));
}

fn tensors(app: &App, alive: &Alive, page: &mut Page) {
    if alive.tensors.is_empty() {
        return;
    }
    page.blank();
    for held in &alive.tensors {
        let what = format!("{}{} · {}", times(held), held.name, held.shape);
        page.pair(&held.bytes.to_string(), 10, &what, app.theme.ink(Hue::Text));
    }
}
