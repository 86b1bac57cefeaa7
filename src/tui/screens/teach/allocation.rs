//! The allocation page: live tensors of a compute buffer in execution order, and the buffer at the cursor.
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

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::Style;

use super::{PageCursor, PageResponse, framed, index, ink, mark, next, side_by_side};
use crate::page::Page;
use crate::page::chart::{Series, Stacks, steps_of};
use crate::teach::allocation::{
    AllocationPage, AllocationWalk, TensorLife, Timeline, TimelineKind, Variation, WalkView, Zoom,
};
use crate::teach::trace::Phase;
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, sentence, width, wrap};
use crate::tui::widget::stack::{self, Band};
use crate::tui::widget::{page, panel};
use crate::units::{Bytes, Tokens};

/// Width of the axis of a chart.
const AXIS: u16 = 10;
/// Width of a tensor's name.
const NAMES: u16 = 26;

/// The selected device and step, and the comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Index into the walk's timelines.
    device: usize,
    /// Index into the walk's steps; none for the peak.
    moment: Option<usize>,
    /// The setting that is changed in the compared walk.
    pub(super) versus: Option<Variation>,
    /// The batch whose graph is shown.
    pub(super) phase: Phase,
    /// How much of the walk is shown.
    zoom: Zoom,
}

impl Cursor {
    /// What is shown of `walk`.
    fn view(self, walk: &AllocationWalk) -> WalkView {
        walk.view(self.zoom, self.moment(walk))
    }

    fn device(self, walk: &AllocationWalk) -> usize {
        self.device.min(walk.timelines.len().saturating_sub(1))
    }

    fn timeline(self, walk: &AllocationWalk) -> Option<&Timeline> {
        walk.timelines.get(self.device(walk))
    }

    fn moment(self, walk: &AllocationWalk) -> usize {
        let last = walk.moments.len().saturating_sub(1);
        let peak = self.timeline(walk).map_or(0, |timeline| timeline.peak);
        self.moment.unwrap_or(peak).min(last)
    }
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Allocation(self.versus, self.phase)
    }

    fn commands(&self) -> &'static [Command] {
        &[Command::Phase, Command::Zoom, Command::Compare, Command::Peak]
    }

    fn step(&self) -> Option<u64> {
        self.moment.map(|step| step as u64)
    }

    fn go_to(&mut self, step: u64) {
        self.moment = Some(index(step));
    }

    fn step_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(120))
    }

    fn is_as_opened(&self) -> bool {
        (self.phase, self.versus) == (Phase::default(), None)
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<AllocationPage>() else { return PageResponse::Redraw };
        let walk = &content.walk;
        let (at, last, view) = (self.moment(walk), walk.moments.len().saturating_sub(1), self.view(walk));
        match command {
            Command::Less => self.moment = Some(view.moment(view.place(at).saturating_sub(1))),
            Command::More => self.moment = Some(view.moment(view.place(at) + 1)),
            Command::Zoom => self.zoom = self.zoom.next(),
            Command::Phase => {
                (self.phase, self.moment) = (self.phase.other(), None);
                return PageResponse::Request;
            }
            Command::PageUp => self.moment = Some(block_before(walk, at)),
            Command::PageDown => self.moment = Some(block_after(walk, at).min(last)),
            Command::First => self.moment = Some(0),
            Command::Last => self.moment = Some(last),
            Command::Peak => self.moment = None,
            Command::Up | Command::Down => self.device = moved(self.device, walk.timelines.len(), 1, command),
            Command::Compare => {
                self.versus = next(&Variation::ALL, self.versus);
                return PageResponse::Request;
            }
            _ => {}
        }
        PageResponse::Redraw
    }

    /// Selects the device or the step at this position.
    fn point(&mut self, _: &mut App, content: &dyn TeachPage, area: Rect, _: Gesture, at: Position) -> PageResponse {
        let Some(content) = content.as_a::<AllocationPage>() else { return PageResponse::Redraw };
        let (walk, places) = (&content.walk, Areas::new(area, content));
        let mut devices = devices(*self, walk, places.devices);
        let chart = [places.chart, places.other].into_iter().find(|chart| chart.contains(at));
        if let Some((device, ..)) = devices.find(|(.., place)| place.contains(at)) {
            self.device = device;
        } else if let Some(plot) = chart.map(plot)
            && (plot.left()..plot.right()).contains(&at.x)
            && !walk.moments.is_empty()
        {
            let (column, columns, view) = (usize::from(at.x - plot.x), usize::from(plot.width), self.view(walk));
            self.moment = Some(view.moment(steps_of(column, columns, view.moments.len()).start));
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<AllocationPage>() else { return };
        let (theme, walk, places) = (app.theme, &content.walk, Areas::new(area, content));
        for (at, label, place) in devices(*self, walk, places.devices) {
            let chosen = at == self.device(walk);
            let ink = ink(chosen, Hue::Dim, theme);
            RowWriter::new(buffer, place, 0).skip(1).put(mark(chosen), ink).skip(1).put(&label, ink);
        }
        let said = if content.remark.is_some() { Hue::Cache } else { Hue::Dim };
        sentence(&remark(content), places.remark.inner(Margin::new(2, 0)), theme.ink(said), buffer);
        let Some(timeline) = self.timeline(walk) else { return };
        let moment = self.moment(walk);
        let other = content.other.as_ref().and_then(|other| other.walk.as_ref().ok());
        let beside = other.and_then(|walk| walk.timelines.get(self.device));
        let scale = timeline.reserved.max(beside.map(|timeline| timeline.reserved).unwrap_or_default());
        let view = self.view(walk);
        let chart = Chart { walk, view: &view, timeline, label: &content.label, scale };
        chart.draw(Some(view.place(moment)), places.chart, theme, buffer);
        if let Some(changed) = &content.other {
            match (&changed.walk, beside) {
                (Ok(walk), Some(timeline)) => {
                    // its steps are its own: the same block is shown
                    let layer = |walk: &AllocationWalk, at: usize| walk.moments.get(at).map(|moment| moment.layer);
                    let shown = layer(&content.walk, moment);
                    let at = (0..walk.moments.len()).find(|at| layer(walk, *at) == shown);
                    let view = walk.view(self.zoom, at.unwrap_or(0));
                    Chart { walk, view: &view, timeline, label: &changed.label, scale }.draw(
                        None,
                        places.other,
                        theme,
                        buffer,
                    );
                }
                (refusal, _) => {
                    let inner = framed(buffer, places.other, &changed.label, "", false, theme);
                    if let Err(refusal) = refusal {
                        sentence(&format!("llama.cpp refuses: {refusal}"), inner, theme.ink(Hue::Over), buffer);
                    }
                }
            }
        }
        at_moment(walk, timeline, moment, places.buffer, theme, buffer);
    }
}

/// The first step of the block before that of `at`.
fn block_before(walk: &AllocationWalk, at: usize) -> usize {
    let layer = |at: usize| walk.moments.get(at).and_then(|moment| moment.layer);
    let same = |from: usize| (0..=from).rev().take_while(|&to| layer(to) == layer(from)).last().unwrap_or(from);
    same(same(at).saturating_sub(1))
}

/// The first step of the block after that of `at`.
fn block_after(walk: &AllocationWalk, at: usize) -> usize {
    let layer = |at: usize| walk.moments.get(at).and_then(|moment| moment.layer);
    (at..walk.moments.len()).find(|&to| layer(to) != layer(at)).unwrap_or(walk.moments.len())
}

/// The parts of the page.
struct Areas {
    devices: Rect,
    remark: Rect,
    chart: Rect,
    /// The compared chart.
    other: Rect,
    buffer: Rect,
}

impl Areas {
    fn new(area: Rect, content: &AllocationPage) -> Self {
        let remark = wrap(&remark(content), area.width.saturating_sub(4)).len() as u16;
        let remark = remark.min(if area.height >= 30 { u16::MAX } else { 2 });
        let rest = area.height.saturating_sub(1 + remark);
        let charts = if content.other.is_some() { rest * 3 / 5 } else { rest / 2 };
        let lower = if content.other.is_some() { charts / 2 } else { 0 };
        let [first, second, third, fourth] = [1, remark, charts - lower, lower].map(Constraint::Length);
        let rows = [first, second, third, fourth, Constraint::Fill(1)];
        let [devices, remark, chart, other, buffer] = Layout::vertical(rows).areas(area);
        Self { devices, remark, chart, other, buffer }
    }
}

/// The graph that is shown, and what else is to be said of it.
fn remark(content: &AllocationPage) -> String {
    [Some(&content.batch), content.remark.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
}

/// The columns of a chart in `frame`: right of the axis, above the layers.
fn plot(frame: Rect) -> Rect {
    let inner = frame.inner(Margin::new(1, 1));
    let axis = if inner.width >= 40 { AXIS } else { 0 };
    Rect {
        x: inner.x.saturating_add(axis),
        width: inner.width.saturating_sub(axis + 1),
        height: inner.height.saturating_sub(1),
        ..inner
    }
}

/// Each device with its buffer size and area, scrolled to the selected one if not all fit.
fn devices(cursor: Cursor, walk: &AllocationWalk, row: Rect) -> impl Iterator<Item = (usize, String, Rect)> {
    let label = |timeline: &Timeline| format!("{} {}", timeline.id, timeline.reserved);
    let labels: Vec<String> = walk.timelines.iter().map(label).collect();
    let widths: Vec<u16> = labels.iter().map(|label| width(label) + 4).collect();
    let fit = widths.iter().sum::<u16>() <= row.width;
    let first = if fit { 0 } else { cursor.device(walk).saturating_sub(1) };
    // the last one is cut
    let places = side_by_side(Rect { width: u16::MAX, ..row }, widths.into_iter().skip(first));
    let shown = labels.into_iter().enumerate().skip(first).zip(places);
    shown.map(move |((at, label), place)| (at, label, place.intersection(row)))
}

/// Live bytes of one device in execution order, stacked by kind.
struct Chart<'a> {
    walk: &'a AllocationWalk,
    view: &'a WalkView,
    timeline: &'a Timeline,
    /// What distinguishes it from the compared one.
    label: &'a str,
    /// Bytes at full height.
    scale: Bytes,
}

impl Chart<'_> {
    /// Draws the chart into `frame`, with the step `cursor` marked.
    fn draw(&self, cursor: Option<usize>, frame: Rect, theme: Theme, buffer: &mut Buffer) {
        let Self { walk, view, timeline, label, scale } = *self;
        let label = Some(label.to_owned()).filter(|label| !label.is_empty());
        let title: Vec<String> = [Some(timeline.id.clone()), view.title(walk), label].into_iter().flatten().collect();
        let title = title.join(", ");
        let right_title = format!("{} reserved · {} without reuse", timeline.reserved, timeline.naive);
        let inner = panel::frame(buffer, frame, &title, &right_title, cursor.is_some(), theme);
        let plot = plot(frame);
        let rows = timeline.rows(view);
        let chart = Stacks { cursor, ..rows.chart(view, scale, theme.textured()) };
        let (axis, cells) = (usize::from(plot.x - inner.x), usize::from(plot.right() - inner.x));
        let mut shown = Page::default();
        chart.onto(&mut shown, cells, usize::from(inner.height), axis);
        page::within(&shown, 0, inner, theme, buffer);
        let edge = Rect { y: frame.bottom() - 1, height: 1, ..frame }.inner(Margin::new(2, 0));
        let there = |kind: &TimelineKind| timeline.alive.iter().any(|alive| alive[kind.index()] > 0);
        let present: Vec<TimelineKind> = TimelineKind::ALL.into_iter().filter(there).collect();
        legend(&present, edge, theme, buffer);
    }
}

/// The sample of a kind of tensors.
fn sample(kind: TimelineKind, theme: Theme) -> (&'static str, Style) {
    let Series { sign, hue, .. } = kind.series();
    if theme.textured() { (sign, theme.ink(Hue::Text)) } else { ("■", theme.ink(hue)) }
}

/// Draws `■ activations  ■ masks` for `kinds` at the right end of `row`, as many as fit.
fn legend(kinds: &[TimelineKind], row: Rect, theme: Theme, buffer: &mut Buffer) {
    let places: Vec<Rect> = side_by_side(row, kinds.iter().map(|kind| width(kind.word()) + 4)).collect();
    let spare = places.last().map_or(0, |last| row.right() - last.right());
    for (&kind, place) in kinds.iter().zip(places) {
        let (sign, ink) = sample(kind, theme);
        let mut writer = RowWriter::new(buffer, Rect { x: place.x + spare, ..place }, 0);
        writer.put(" ", ink).put(sign, ink).put(" ", ink).put(kind.word(), theme.ink(Hue::Dim)).put(" ", ink);
    }
}

/// Draws the buffer at one step: a map from its first to its last byte, and the live tensors.
fn at_moment(walk: &AllocationWalk, timeline: &Timeline, moment: usize, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let title = format!("Step {} of {}", Tokens(moment as u64 + 1), Tokens(walk.moments.len() as u64));
    let right_title = walk.moments.get(moment).map(|now| {
        let backend = walk.timelines.get(now.backend).map_or("", |timeline| timeline.id.as_str());
        format!("{} {} on {backend}", now.op, now.name)
    });
    let inner = framed(buffer, area, &title, &right_title.unwrap_or_default(), false, theme);
    let lives = timeline.alive_at(moment);
    let held: Bytes = lives.iter().map(|life| Bytes(life.bytes)).sum();
    let grown = Bytes(timeline.grown.get(moment).copied().unwrap_or(0));
    let mut writer = RowWriter::new(buffer, inner, 0);
    writer.put(&held.to_string(), theme.bold(Hue::Text)).put(" live", theme.ink(Hue::Dim));
    writer.put(&format!(", {} free", grown - held), theme.ink(Hue::Dim));
    let so_far = [format!(" of {grown} allocated on {} so far", timeline.id), format!(" of {grown} so far")];
    if let Some(so_far) = so_far.iter().find(|text| width(text) <= writer.room()) {
        writer.put(so_far, theme.ink(Hue::Dim));
    }
    let [head, map, mark] = [1, if inner.height >= 10 { 2 } else { 1 }, 1].map(Constraint::Length);
    let [_, map, _, list] = Layout::vertical([head, map, mark, Constraint::Fill(1)]).areas(inner);
    memory(timeline, &lives, moment, map, theme, buffer);
    tensors(lives, moment, list, theme, buffer);
}

/// Draws the buffer from its first to its last byte, and marks the bytes written in this step below.
fn memory(timeline: &Timeline, lives: &[&TensorLife], moment: usize, map: Rect, theme: Theme, buffer: &mut Buffer) {
    let map = map.intersection(buffer.area);
    let eighths = f64::from(map.width) * 8.0;
    let at = |bytes: u64| (Bytes(bytes).share_of(timeline.reserved).0 * eighths).round() as u32;
    let grown = (at(timeline.grown.get(moment).copied().unwrap_or(0)) / 8).min(u32::from(map.width)) as u16;
    for row in map.rows() {
        RowWriter::new(buffer, row, 0).put(&"·".repeat(usize::from(grown)), theme.ink(Hue::Dim));
    }
    let mut bands: Vec<Band> = Vec::with_capacity(lives.len());
    for life in lives {
        let Series { sign, hue, .. } = life.kind.series();
        let from = at(life.offset).max(bands.last().map_or(0, |band| band.to));
        bands.push(Band { from, to: at(life.offset + life.bytes).max(from), hue, texture: sign });
    }
    stack::across(buffer, map, &bands, theme);
    let Some(now) = lives.iter().find(|life| life.from == moment && moment > 0) else { return };
    let from = (at(now.offset) / 8).min(u32::from(map.width.saturating_sub(1))) as u16;
    let to = (at(now.offset + now.bytes) / 8).clamp(u32::from(from) + 1, u32::from(map.width).max(1 + u32::from(from)));
    let below = Rect { y: map.bottom(), height: 1, ..map };
    let cells = usize::from(to as u16 - from);
    RowWriter::new(buffer, below, 0).skip(from).put(&"▔".repeat(cells), theme.bold(Hue::Focus));
}

/// Lists the live tensors, largest first.
fn tensors(mut lives: Vec<&TensorLife>, moment: usize, list: Rect, theme: Theme, buffer: &mut Buffer) {
    lives.sort_by_key(|life| std::cmp::Reverse(life.bytes));
    let rows = usize::from(list.height);
    let shown = if lives.len() > rows { rows.saturating_sub(1) } else { lives.len() };
    for (row, life) in (0..).zip(lives.iter().take(shown)) {
        let new = life.from == moment && moment > 0;
        let ink = ink(new, Hue::Text, theme);
        let (sign, sample) = sample(life.kind, theme);
        let mut writer = RowWriter::new(buffer, list, row);
        writer.put(sign, sample).skip(1).put(&life.name, ink).to(list.x + NAMES.min(list.width / 3)).skip(1);
        writer.put(&format!("{:>9}", Bytes(life.bytes).to_string()), ink).skip(2).put(&life.shape, theme.ink(Hue::Dim));
        if let Some(operand) = life.takes_over.as_ref().filter(|_| new) {
            writer.skip(2).put(&format!("in place of {operand}"), theme.ink(Hue::Cache));
        }
    }
    let rest: Bytes = lives.iter().skip(shown).map(|life| Bytes(life.bytes)).sum();
    if lives.len() > shown {
        let text = format!("and {} more, {rest}", lives.len() - shown);
        RowWriter::new(buffer, list, shown as u16).skip(2).put(&text, theme.ink(Hue::Dim));
    }
}
