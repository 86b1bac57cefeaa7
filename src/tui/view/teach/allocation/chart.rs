//! Live bytes in execution order, stacked by kind.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::kinds;
use crate::page::Page;
use crate::page::chart::Stacks;
use crate::teach::allocation::{AllocationWalk, Timeline, TimelineKind, VariedWalk};
use crate::tui::regions::inside;
use crate::tui::regions::teach::allocation::plot;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::page;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::sentence;
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

impl Chart<'_> {
    /// Draws the chart into `frame`, with the step `cursor` marked.
    pub fn draw(&self, cursor: Option<usize>, frame: Rect, theme: Theme, buffer: &mut Buffer) {
        let Self { timeline, label, .. } = *self;
        let title = if label.is_empty() { timeline.id.clone() } else { format!("{}, {label}", timeline.id) };
        let right_title = format!("{} reserved · {} without reuse", timeline.reserved, timeline.naive);
        panel::frame(buffer, frame, &title, &right_title, cursor.is_some(), theme);
        let (inner, plot) = (inside(frame), plot(frame));
        let chart = Stacks { most: self.scale, cursor, ..timeline.chart(self.walk, theme.textured()) };
        let (axis, cells) = (usize::from(plot.x - inner.x), usize::from(plot.right() - inner.x));
        let mut shown = Page::default();
        chart.onto(&mut shown, cells, usize::from(inner.height), axis);
        page::within(&shown, 0, inner, theme, buffer);
        let edge = Rect { x: frame.x + 2, y: frame.bottom() - 1, width: frame.width.saturating_sub(4), height: 1 };
        let there = |kind: &TimelineKind| timeline.alive.iter().any(|alive| alive[kind.index()] > 0);
        let present: Vec<TimelineKind> = TimelineKind::ALL.into_iter().filter(there).collect();
        kinds::legend(&present, edge, theme, buffer);
    }
}

/// Draws why there is no chart.
pub fn refused(other: &VariedWalk, frame: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, frame, &other.label, "", false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    if let Err(refusal) = &other.walk {
        sentence(&format!("llama.cpp refuses: {refusal}"), inner, theme.ink(Hue::Over), buffer);
    }
}
