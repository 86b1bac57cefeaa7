//! The buffer at one step: a map from its first to its last byte, and the live tensors.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::kinds;
use crate::teach::allocation::{AllocationWalk, TensorLife, Timeline};
use crate::tui::app::App;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::tui::widget::stack::Band;
use crate::tui::widget::{panel, stack};
use crate::units::{Bytes, Tokens};

/// Width of a tensor's name.
const NAMES: u16 = 26;

/// Draws the panel.
pub fn draw(app: &App, walk: &AllocationWalk, timeline: &Timeline, moment: usize, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let steps = walk.moments.len();
    let title = format!("Step {} of {}", Tokens(moment as u64 + 1), Tokens(steps as u64));
    let right_title = walk.moments.get(moment).map(|now| {
        let home = walk.timelines.get(now.home).map_or("", |timeline| timeline.id.as_str());
        format!("{} {} on {home}", now.op, now.name)
    });
    let inner = panel::frame(buffer, area, &title, &right_title.unwrap_or_default(), false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
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
    let roomy = inner.height >= 10;
    let map = Rect { y: inner.y + 1, height: if roomy { 2 } else { 1 }, ..inner };
    draw_map(timeline, &lives, moment, map, theme, buffer);
    let list = Rect { y: map.bottom() + 1, height: inner.bottom().saturating_sub(map.bottom() + 1), ..inner };
    draw_list(lives, moment, list, theme, buffer);
}

/// Draws the buffer from its first to its last byte, and marks the bytes written in this step below.
fn draw_map(timeline: &Timeline, lives: &[&TensorLife], moment: usize, map: Rect, theme: Theme, buffer: &mut Buffer) {
    let map = map.intersection(buffer.area);
    let eighths = f64::from(map.width) * 8.0;
    let at = |bytes: u64| (Bytes(bytes).share_of(timeline.reserved).0 * eighths).round() as u32;
    let grown = (at(timeline.grown.get(moment).copied().unwrap_or(0)) / 8).min(u32::from(map.width)) as u16;
    for y in map.top()..map.bottom() {
        for x in 0..grown {
            if let Some(cell) = buffer.cell_mut((map.x + x, y)) {
                cell.set_symbol("·").set_style(theme.ink(Hue::Dim));
            }
        }
    }
    let mut bands: Vec<Band> = Vec::with_capacity(lives.len());
    for life in lives {
        let from = at(life.offset).max(bands.last().map_or(0, |band| band.to));
        bands.push(kinds::band(life.kind, from, at(life.offset + life.bytes).max(from)));
    }
    stack::across(buffer, map, &bands, theme);
    let Some(now) = lives.iter().find(|life| life.from == moment && moment > 0) else { return };
    let from = (at(now.offset) / 8).min(u32::from(map.width.saturating_sub(1))) as u16;
    let to = (at(now.offset + now.bytes) / 8).clamp(u32::from(from) + 1, u32::from(map.width).max(1 + u32::from(from)));
    for x in from..to as u16 {
        if let Some(cell) = buffer.cell_mut((map.x + x, map.bottom())) {
            cell.set_symbol("▔").set_style(theme.bold(Hue::Focus));
        }
    }
}

/// Lists the live tensors, largest first.
fn draw_list(mut lives: Vec<&TensorLife>, moment: usize, list: Rect, theme: Theme, buffer: &mut Buffer) {
    lives.sort_by_key(|life| std::cmp::Reverse(life.bytes));
    let rows = usize::from(list.height);
    let shown = if lives.len() > rows { rows.saturating_sub(1) } else { lives.len() };
    for (row, life) in (0..).zip(lives.iter().take(shown)) {
        let new = life.from == moment && moment > 0;
        let ink = if new { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let (sign, sample) = kinds::sample(life.kind, theme);
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
