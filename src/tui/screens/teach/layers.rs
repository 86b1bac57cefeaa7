//! The layers page: what is taken off each device, step by step.
//!
//! ```text
//!  GPU0  ░░▒▒████████████████████·········   1.2 GiB left of 11.4 GiB                         devices
//!  CPU   ··································  31.0 GiB free
//! ╭ GPU0, RTX 3060 ───────────────────────────────── 12 of 41 ╮
//! │   kept free              1.0 GiB   10.4 GiB                │                               amounts
//! │   compute buffer         560 MiB    9.9 GiB                │
//! │ ▸ layer 31               150 MiB    9.7 GiB                │
//! ╰────────────────────────────────────────────────────────────╯
//!  It needs 150 MiB, and 9.9 GiB was free.                                                    reason
//! ```

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};

use super::{PageCursor, PageResponse, framed, index, ink, mark};
use crate::teach::layers::{DeviceWalk, LayersPage, SubtractionRow};
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::list::ListRows;
use crate::tui::widget::row_writer::{RowWriter, sentence, width};
use crate::tui::widget::stack::{self, Band};
use crate::units::Bytes;

/// Steps per Page Up and Page Down.
const PAGE: usize = 8;
/// Rows of the reason.
const REASON: u16 = 3;
/// Width of a device's name, of an amount, and of what is left in words.
const IDS: u16 = 6;
const AMOUNT: u16 = 14;
const LEFT: u16 = 30;
/// Width of the amounts at most.
const AMOUNTS: u16 = 72;

/// The step of the walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The number of amounts taken so far, over all devices.
    step: usize,
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Layers
    }

    fn step(&self) -> Option<u64> {
        Some(self.step as u64)
    }

    fn go_to(&mut self, step: u64) {
        self.step = index(step);
    }

    fn step_time(&self) -> Option<Duration> {
        Some(Duration::from_millis(600))
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<LayersPage>() else { return PageResponse::Redraw };
        let last = content.steps();
        let at = self.step.min(last);
        let (device, taken) = content.at(at);
        let begin = |device: usize| content.step_of(device, 0);
        self.step = match command {
            Command::Less => at.saturating_sub(1),
            Command::More => (at + 1).min(last),
            Command::PageUp => at.saturating_sub(PAGE),
            Command::PageDown => (at + PAGE).min(last),
            Command::First => 0,
            Command::Last => last,
            // a device at a time
            Command::Up => begin(if taken > 1 { device } else { device.saturating_sub(1) }),
            Command::Down => content
                .step_of(device, content.devices.get(device).map_or(0, |walk| walk.steps.len()))
                .max(at)
                .saturating_add(1)
                .min(last),
            _ => at,
        };
        PageResponse::Redraw
    }

    /// Goes to the row at this position.
    fn point(&mut self, _: &mut App, content: &dyn TeachPage, area: Rect, _: Gesture, at: Position) -> PageResponse {
        let Some(content) = content.as_a::<LayersPage>() else { return PageResponse::Redraw };
        let places = Areas::new(area, content);
        let (device, taken) = content.at(self.step);
        if let Some(row) = places.devices.rows().position(|row| row.contains(at)) {
            self.step = content.step_of(row.min(content.devices.len().saturating_sub(1)), 1);
        } else if let Some(walk) = content.devices.get(device) {
            let rows = walk.rows();
            let list = ListRows::around(row_of(&rows, taken), rows.len(), inside(places.amounts));
            if let Some(row) = list.row_at(at).and_then(|row| rows.get(row)) {
                self.step = content.step_of(device, row.steps.last().map_or(0, |step| step + 1));
            }
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<LayersPage>() else { return };
        let (theme, places) = (app.theme, Areas::new(area, content));
        let step = self.step.min(content.steps());
        let (now, taken) = content.at(step);
        let first = (now + 1).saturating_sub(usize::from(places.devices.height));
        for (place, (at, walk)) in places.devices.rows().zip(content.devices.iter().enumerate().skip(first)) {
            let done = match at.cmp(&now) {
                std::cmp::Ordering::Less => walk.steps.len(),
                std::cmp::Ordering::Equal => taken,
                std::cmp::Ordering::Greater => 0,
            };
            device(walk, done, at == now, place, theme, buffer);
        }
        let Some(walk) = content.devices.get(now) else { return };
        let right_title = format!("{step} of {} taken", content.steps());
        let title = format!("{}, {}", walk.id, walk.name);
        framed(buffer, places.amounts, &title, &right_title, true, theme);
        amounts(walk, taken, inside(places.amounts), theme, buffer);
        let mut said = taken.checked_sub(1).and_then(|last| walk.steps.get(last)).map_or_else(
            || format!("{} is free on {}. {}", walk.free, walk.id, content.result),
            |step| format!("{}: {}", step.title, step.reason),
        );
        if taken == walk.steps.len() {
            said = format!("{said} {}", walk.end);
        }
        sentence(&said, places.reason.inner(Margin::new(2, 0)), theme.ink(Hue::Text), buffer);
    }
}

/// The row in which the last of `taken` amounts is.
fn row_of(rows: &[SubtractionRow], taken: usize) -> usize {
    let last = taken.saturating_sub(1);
    rows.iter().position(|row| row.steps.contains(&last)).unwrap_or(0)
}

const fn inside(frame: Rect) -> Rect {
    Rect {
        x: frame.x + 2,
        y: frame.y + 1,
        width: frame.width.saturating_sub(4),
        height: frame.height.saturating_sub(2),
    }
}

/// The parts of the page.
struct Areas {
    devices: Rect,
    amounts: Rect,
    reason: Rect,
}

impl Areas {
    fn new(area: Rect, content: &LayersPage) -> Self {
        let devices = (content.devices.len() as u16).min(area.height / 3);
        let rows = [Constraint::Length(devices), Constraint::Fill(1), Constraint::Length(REASON)];
        let [devices, amounts, reason] = Layout::vertical(rows).areas(area);
        Self { devices, amounts, reason }
    }
}

/// Draws what is taken of a device, and what is left, in one row.
fn device(walk: &DeviceWalk, taken: usize, chosen: bool, row: Rect, theme: Theme, buffer: &mut Buffer) {
    let ink = ink(chosen, Hue::Dim, theme);
    let left = walk.left_after(taken);
    let mut writer = RowWriter::new(buffer, row, 0);
    writer.put(mark(chosen), ink).put(&walk.id, ink);
    let words = format!("{left} left of {}", walk.free);
    let short = left.is_short();
    writer.right(&words, theme.ink(if short { Hue::Over } else { Hue::Text }));
    let bar = Rect { x: row.x + 1 + IDS, width: row.width.saturating_sub(1 + IDS + LEFT), ..row };
    let eighths = f64::from(bar.width) * 8.0;
    let at = |bytes: Bytes| (bytes.share_of(walk.free).0.min(1.0) * eighths).round() as u32;
    RowWriter::new(buffer, bar, 0).put(&"·".repeat(usize::from(bar.width)), theme.ink(Hue::Dim));
    let (mut so_far, mut bands) = (Bytes::ZERO, Vec::<Band>::new());
    for step in walk.steps.iter().take(taken).filter(|step| !step.given_back) {
        let (hue, texture) = step.kind.series();
        let from = at(so_far);
        so_far += step.taken;
        bands.push(Band { from, to: at(so_far), hue, texture });
    }
    stack::across(buffer, bar, &bands, theme);
}

/// Lists the amounts of a device, of which `taken` are taken.
fn amounts(walk: &DeviceWalk, taken: usize, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let rows = walk.rows();
    let chosen = row_of(&rows, taken);
    for (place, at) in ListRows::around(chosen, rows.len(), area).rows() {
        let Some(row) = rows.get(at) else { continue };
        let (now, ahead) = (at == chosen && taken > 0, row.steps.first().is_some_and(|first| *first >= taken));
        if now {
            buffer.set_style(place, theme.selected());
        }
        let text = ink(now, if ahead { Hue::Dim } else { Hue::Text }, theme);
        let (hue, sign) = walk.steps.get(row.steps[0]).map_or((Hue::Text, " "), |step| step.kind.series());
        let done = row.steps.iter().filter(|step| **step < taken).count();
        let mut writer = RowWriter::new(buffer, place, 0);
        writer.put(mark(now), text).skip(1).put(if theme.textured() { sign } else { "■" }, theme.ink(hue)).skip(1);
        writer.put(&row.title, text).skip(1);
        let left = if ahead { String::new() } else { walk.left_after(row.steps[0] + done).to_string() };
        let takes = if done > 0 && done < row.steps.len() { format!("{done} of {}", row.takes()) } else { row.takes() };
        let end = place.right().min(place.x + AMOUNTS);
        let column = |text: &str, before: u16| end.saturating_sub(before + width(text));
        let (takes_at, left_at) = (column(&takes, AMOUNT), column(&left, 0));
        writer.to(takes_at).put(&takes, text).to(left_at).put(&left, text);
    }
}
