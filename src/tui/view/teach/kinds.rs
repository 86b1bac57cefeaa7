//! Colours and textures of the kinds of tensors in a compute buffer.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::page::chart::Series;
use crate::teach::allocation::TimelineKind;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::tui::widget::stack::Band;

/// A band of this kind.
pub const fn band(kind: TimelineKind, from: u32, to: u32) -> Band {
    let Series { sign, hue, .. } = kind.series();
    Band { from, to, hue, texture: sign }
}

/// Its sample in a legend.
pub fn sample(kind: TimelineKind, theme: Theme) -> (&'static str, Style) {
    let Series { sign, hue, .. } = kind.series();
    if theme.textured() { (sign, theme.ink(Hue::Text)) } else { ("■", theme.ink(hue)) }
}

/// Draws `■ activations  ■ masks` for `kinds` at the right end of `row`, as many as fit.
pub fn legend(kinds: &[TimelineKind], row: Rect, theme: Theme, buffer: &mut Buffer) {
    let cells = |kind: &TimelineKind| width(kind.word()) + 4;
    let mut left = row.width;
    let fitting = kinds.iter().take_while(|kind| {
        let fits = cells(kind) <= left;
        left = left.saturating_sub(cells(kind));
        fits
    });
    let fitting: Vec<TimelineKind> = fitting.copied().collect();
    let all: u16 = fitting.iter().map(cells).sum();
    let mut writer =
        RowWriter::new(buffer, Rect { x: row.right().saturating_sub(all), width: all.min(row.width), ..row }, 0);
    for kind in fitting {
        let (sign, ink) = sample(kind, theme);
        writer.put(" ", ink).put(sign, ink).put(" ", ink).put(kind.word(), theme.ink(Hue::Dim)).put(" ", ink);
    }
}
