//! The graph panel for engines that build the graph: each device's compute buffer at its peak.
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::graph::TermRow;
use crate::page::{Hue, Page, exactly};
use crate::plan::{AliveKind, AliveTensors, BufferKind, Peak, Plan};
use crate::tui::app::App;
use crate::tui::regions::{Cursors, Panel, inside};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, named, sentence, width, wrap};
use crate::units::{Bytes, grouped};

/// Width of names on the page.
const NAMES: usize = 18;

/// Draws the panel.
pub fn draw(app: &App, plan: &Plan, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.panels.regions.graph);
    let focused = app.panels.focus == Panel::Graph;
    let now = shown(plan, &app.panels.cursors);
    let Some(peak) = plan.graph.peaks.get(now) else { return };
    let right_title = format!("{} on {}", peak.bytes, plan.device_name(peak.device));
    panel::frame(buffer, area, Panel::Graph.title(), &right_title, focused, theme);
    let places = places(area, plan, &app.panels.cursors);
    let before = app.request.before().filter(|before| before.graph.peaks.len() == plan.graph.peaks.len());
    let max = plan.graph.peaks.iter().map(|peak| peak.bytes).max().unwrap_or_default();
    for &(index, line, place) in &places.rows {
        let chosen = focused && index == app.panels.cursors.term;
        if chosen {
            buffer.set_style(Rect { height: 1, ..place }.intersection(buffer.area), theme.selected());
        }
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        match line {
            PeakLine::Device(at) => {
                let Some(peak) = plan.graph.peaks.get(at) else { continue };
                let was = before.and_then(|before| before.graph.peaks.get(at)).map(|peak| peak.bytes);
                let (sign, part) = if at == now { ("● ", BarPart::Graph) } else { ("○ ", BarPart::InUse) };
                let ink = if at == now || chosen { ink } else { theme.ink(Hue::Dim) };
                let name = plan.device_name(peak.device);
                TermRow { name, sign, bytes: peak.bytes, was, max, ink }.draw(place, part, theme, buffer);
            }
            PeakLine::Alive(at) => {
                let Some(alive) = peak.alive.get(at) else { continue };
                let was = before.and_then(|before| before.graph.peaks.get(now)).map(|peak| of_kind(peak, alive));
                let max = peak.alive.first().map_or(Bytes::ZERO, |alive| alive.bytes);
                let row = TermRow { name: alive.kind.name(), sign: "  ", bytes: alive.bytes, was, max, ink };
                row.draw(place, BarPart::Graph, theme, buffer);
                if let (2, Some(largest)) = (place.height, alive.tensors.first()) {
                    let text = in_short(alive, largest, place.width.saturating_sub(4));
                    RowWriter::new(buffer, place, 1).skip(4).put(&text, theme.ink(Hue::Dim));
                }
            }
        }
    }
    if let Some(place) = places.moment {
        sentence(&moment(peak), place, theme.ink(Hue::Dim), buffer);
    }
}

/// The bytes of tensors of the kind of `alive` in `peak`.
fn of_kind(peak: &Peak, alive: &AliveKind) -> Bytes {
    peak.alive.iter().find(|other| other.kind == alive.kind).map_or(Bytes::ZERO, |other| other.bytes)
}

/// The largest tensors, and how many more there are; the name is truncated first, to fit `cells`.
fn in_short(alive: &AliveKind, largest: &AliveTensors, cells: u16) -> String {
    let more = alive.tensors.iter().map(|held| held.count).sum::<usize>().saturating_sub(largest.count);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let (name, shape) = (format!("{}{}", times(largest), largest.name), format!(" · {}", largest.shape));
    let whole = format!("{name}{shape}{more}");
    if width(&whole) <= cells { whole } else { named(&name, &shape, cells) }
}

fn times(held: &AliveTensors) -> String {
    if held.count > 1 { format!("{} × ", held.count) } else { String::new() }
}

/// Writes the page for line `line` and returns its title.
pub fn explain(app: &App, plan: &Plan, line: usize, page: &mut Page) -> String {
    let text = Hue::Text;
    let now = shown(plan, &app.panels.cursors);
    match lines(plan, &app.panels.cursors).get(line) {
        Some(PeakLine::Alive(at)) => {
            let Some((peak, alive)) = plan.graph.peaks.get(now).and_then(|peak| Some((peak, peak.alive.get(*at)?)))
            else {
                return String::new();
            };
            page.text(alive.kind.description(), Hue::Text);
            page.blank();
            page.pair("size", NAMES, &exactly(alive.bytes), text);
            let share = format!("{} of {}'s buffer", alive.bytes.share_of(peak.bytes), plan.device_name(peak.device));
            page.pair("share", NAMES, &share, text);
            on_moment(peak, page);
            tensors(alive, page);
            alive.kind.name().to_owned()
        }
        found => {
            let at = if let Some(PeakLine::Device(at)) = found { *at } else { now };
            let Some(peak) = plan.graph.peaks.get(at) else { return String::new() };
            let sentence = "Each device reserves one compute buffer, as large as its peak. These tensors are live \
                            at the peak.";
            page.text(sentence, Hue::Text);
            page.blank();
            page.pair("size", NAMES, &exactly(peak.bytes), Hue::Text.bold());
            on_moment(peak, page);
            for alive in &peak.alive {
                page.heading(&format!("{}   {}", alive.kind.name(), alive.bytes));
                page.text(alive.kind.description(), Hue::Dim);
                tensors(alive, page);
            }
            format!("compute buffer on {}", plan.device_name(peak.device))
        }
    }
}

fn on_moment(peak: &Peak, page: &mut Page) {
    let (step, steps) = (grouped(peak.step as u64, '\u{2009}'), grouped(peak.steps as u64, '\u{2009}'));
    page.pair("peak", NAMES, &format!("{}, step {step} of {steps}", peak.node), Hue::Text);
}

fn tensors(alive: &AliveKind, page: &mut Page) {
    if alive.tensors.is_empty() {
        return;
    }
    page.blank();
    for held in &alive.tensors {
        let what = format!("{}{} · {}", times(held), held.name, held.shape);
        page.pair(&held.bytes.to_string(), 10, &what, Hue::Text);
    }
}

/// A selectable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeakLine {
    /// A device, by its index in the peaks.
    Device(usize),
    /// A kind of tensors alive on the shown device.
    Alive(usize),
}

/// The kind of tensors of line `line`; none for a device.
pub fn kind(plan: &Plan, cursors: &Cursors, line: usize) -> Option<BufferKind> {
    match lines(plan, cursors).get(line)? {
        PeakLine::Alive(at) => Some(plan.graph.peaks.get(shown(plan, cursors))?.alive.get(*at)?.kind),
        PeakLine::Device(_) => None,
    }
}

/// The index of the peak that is shown.
pub fn shown(plan: &Plan, cursors: &Cursors) -> usize {
    let peaks = &plan.graph.peaks;
    let largest = || (0..peaks.len()).rev().max_by_key(|&at| peaks.get(at).map(|peak| peak.bytes)).unwrap_or(0);
    cursors.peak.filter(|&at| at < peaks.len()).unwrap_or_else(largest)
}

/// The lines, from the top: devices first.
pub fn lines(plan: &Plan, cursors: &Cursors) -> Vec<PeakLine> {
    let peaks = &plan.graph.peaks;
    let alive = peaks.get(shown(plan, cursors)).map_or(0, |peak| peak.alive.len());
    (0..peaks.len()).map(PeakLine::Device).chain((0..alive).map(PeakLine::Alive)).collect()
}

/// The layout of the panel.
#[derive(Clone, Debug)]
pub struct PanelAreas {
    /// The areas of the lines; a kind of tensors has a second row for its largest ones if there is room.
    pub rows: Vec<(usize, PeakLine, Rect)>,
    /// The area of the sentence on the step, if there is room.
    pub moment: Option<Rect>,
}

/// The layout within `panel`.
pub fn places(panel: Rect, plan: &Plan, cursors: &Cursors) -> PanelAreas {
    let inner = inside(panel);
    let area = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let (lines, rows) = (lines(plan, cursors), usize::from(area.height));
    let peak = plan.graph.peaks.get(shown(plan, cursors));
    let sentence = peak.map_or(0, |peak| wrap(&moment(peak), area.width).len());
    // with a blank row above and below
    let sentence_rows = if lines.len() + sentence + 2 <= rows { sentence + 2 } else { 0 };
    let tensors = |line: &PeakLine| match *line {
        PeakLine::Device(_) => false,
        PeakLine::Alive(at) => peak.and_then(|peak| peak.alive.get(at)).is_some_and(|alive| !alive.tensors.is_empty()),
    };
    let tall = lines.len() + lines.iter().filter(|line| tensors(line)).count() + sentence_rows <= rows;
    let first = if lines.len() <= rows { 0 } else { (cursors.term + 1).saturating_sub(rows) };
    let mut y = area.y;
    let mut places = PanelAreas { rows: Vec::with_capacity(lines.len()), moment: None };
    for (index, line) in lines.into_iter().enumerate().skip(first) {
        if line == PeakLine::Alive(0) && sentence_rows > 0 {
            places.moment = Some(Rect { y: y + 1, height: sentence as u16, ..area });
            y += sentence_rows as u16;
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

/// The step of the peak, in words.
pub fn moment(peak: &Peak) -> String {
    format!(
        "peak at step {} of {}, {}; live tensors:",
        grouped(peak.step as u64, '\u{2009}'),
        grouped(peak.steps as u64, '\u{2009}'),
        peak.node
    )
}
