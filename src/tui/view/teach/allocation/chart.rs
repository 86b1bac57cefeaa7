//! Live bytes in execution order, stacked by kind.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::kinds;
use crate::teach::allocation::{AllocationWalk, Timeline, TimelineKind, VariedWalk};
use crate::tui::regions::teach::allocation::{moments_of, plot};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::tui::widget::{panel, stack};
use crate::units::Bytes;

/// The timeline of one device.
pub struct Chart<'a> {
    pub walk: &'a AllocationWalk,
    pub timeline: &'a Timeline,
    /// What distinguishes it from the compared one.
    pub label: &'a str,
    /// Bytes at full height.
    pub scale: Bytes,
}

/// The column that shows step `moment`.
fn column_of(moment: usize, columns: u16, moments: usize) -> u16 {
    crate::page::chart::column_of(moment, usize::from(columns), moments) as u16
}

impl Chart<'_> {
    /// Draws the chart into `frame`, with the step `cursor` marked.
    pub fn draw(&self, cursor: Option<usize>, frame: Rect, theme: Theme, buffer: &mut Buffer) {
        let Self { timeline, label, .. } = *self;
        let title = if label.is_empty() { timeline.id.clone() } else { format!("{}, {label}", timeline.id) };
        let right_title = format!("{} reserved · {} without reuse", timeline.reserved, timeline.naive);
        let inner = panel::frame(buffer, frame, &title, &right_title, cursor.is_some(), theme);
        let area = plot(frame).intersection(buffer.area);
        if area.is_empty() || inner.is_empty() {
            return;
        }
        let moments = self.walk.moments.len();
        for column in 0..area.width {
            self.column(area, area.x + column, moments_of(column, area.width, moments), theme, buffer);
        }
        self.axis(frame, area, theme, buffer);
        self.layers(area, theme, buffer);
        self.mark(area, cursor, theme, buffer);
        let edge = Rect { x: frame.x + 2, y: frame.bottom() - 1, width: frame.width.saturating_sub(4), height: 1 };
        let there = |kind: &TimelineKind| timeline.alive.iter().any(|alive| alive[kind.index()] > 0);
        let present: Vec<TimelineKind> = TimelineKind::ALL.into_iter().filter(there).collect();
        kinds::legend(&present, edge, theme, buffer);
    }

    /// Draws the step of `moments` with the most live bytes and, dotted above it, the size of the buffer so far.
    fn column(&self, area: Rect, x: u16, moments: Range<usize>, theme: Theme, buffer: &mut Buffer) {
        let timeline = self.timeline;
        let eighths = f64::from(area.height) * 8.0;
        let height = |bytes: u64| (Bytes(bytes).share_of(self.scale).0 * eighths).round() as u32;
        let grown = timeline.grown.get(moments.end - 1).copied().unwrap_or(0);
        let cells = (height(grown) / 8).min(u32::from(area.height)) as u16;
        for row in 0..cells {
            if let Some(cell) = buffer.cell_mut((x, area.bottom() - 1 - row)) {
                cell.set_symbol("·").set_style(theme.ink(Hue::Border));
            }
        }
        let fullest = moments.filter_map(|at| timeline.alive.get(at)).max_by_key(|alive| sum(*alive));
        let Some(alive) = fullest else { return };
        let mut bands = Vec::with_capacity(TimelineKind::ALL.len());
        let (mut bytes, mut from) = (0u64, 0);
        for (kind, part) in TimelineKind::ALL.into_iter().zip(alive) {
            bytes = bytes.saturating_add(*part);
            // every part that is not empty is visible
            let to = if *part > 0 { height(bytes).max(from + 1) } else { from };
            bands.push(kinds::band(kind, from, to));
            from = to;
        }
        stack::upright(buffer, area, x, &bands, theme);
    }

    fn axis(&self, frame: Rect, area: Rect, theme: Theme, buffer: &mut Buffer) {
        let place = Rect { x: frame.x + 1, width: area.x.saturating_sub(frame.x + 2), ..area };
        if place.width < 6 {
            return;
        }
        for row in 0..place.height {
            let text = match row {
                0 => self.scale.to_string(),
                _ if row + 1 == place.height => "0".to_owned(),
                _ => String::new(),
            };
            let sign = if text.is_empty() { "│" } else { "┤" };
            let mut writer = RowWriter::new(buffer, place, row);
            writer.right(sign, theme.ink(Hue::Border)).right(&text, theme.ink(Hue::Dim));
        }
        let below = Rect { y: place.bottom(), height: 1, ..place };
        RowWriter::new(buffer, below, 0).right("block ", theme.ink(Hue::Dim));
    }

    /// Labels the first step of blocks below the columns, as many as fit.
    fn layers(&self, area: Rect, theme: Theme, buffer: &mut Buffer) {
        let row = Rect { y: area.bottom(), height: 1, ..area };
        let moments = &self.walk.moments;
        let (mut seen, mut free) = (None, area.x);
        for (at, moment) in moments.iter().enumerate() {
            let Some(layer) = moment.layer.filter(|&layer| seen.is_none_or(|seen| layer > seen)) else { continue };
            seen = Some(layer);
            let x = area.x + column_of(at, area.width, moments.len());
            let text = layer.to_string();
            if x >= free && x + width(&text) <= area.right() {
                RowWriter::new(buffer, row, 0).to(x).put(&text, theme.ink(Hue::Dim));
                free = x + width(&text) + 3;
            }
        }
    }

    /// Marks the peak at the top, and the cursor at the bottom.
    fn mark(&self, area: Rect, cursor: Option<usize>, theme: Theme, buffer: &mut Buffer) {
        let moments = self.walk.moments.len();
        let x = |moment: usize| area.x + column_of(moment, area.width, moments);
        if self.timeline.reserved > Bytes::ZERO
            && let Some(cell) = buffer.cell_mut((x(self.timeline.peak), area.y))
        {
            cell.set_symbol("▼").set_style(theme.bold(Hue::Over));
        }
        let Some(cursor) = cursor else { return };
        if let Some(cell) = buffer.cell_mut((x(cursor), area.bottom())) {
            cell.set_symbol("▲").set_style(theme.bold(Hue::Focus));
        }
    }
}

/// Draws why there is no chart.
pub fn refused(other: &VariedWalk, frame: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, frame, &other.label, "", false, theme);
    if let Err(refusal) = &other.walk {
        for (row, line) in (0..).zip(wrap(&format!("llama.cpp refuses: {refusal}"), inner.width.saturating_sub(2))) {
            RowWriter::new(buffer, inner, row).skip(1).put(&line, theme.ink(Hue::Over));
        }
    }
}

fn sum(kinds: &[u64]) -> u64 {
    kinds.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_moment_has_a_column_and_every_column_moments(columns in 1u16..300, moments in 1usize..20_000) {
            for column in 0..columns {
                let range = moments_of(column, columns, moments);
                prop_assert!(range.start < moments && range.start < range.end);
            }
            for moment in (0..moments).step_by(moments.div_ceil(200)) {
                let range = moments_of(column_of(moment, columns, moments), columns, moments);
                prop_assert!(range.contains(&moment), "{moment} is not in {range:?}");
            }
        }
    }
}
