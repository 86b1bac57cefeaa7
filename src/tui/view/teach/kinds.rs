//! How the kinds of tensors in a compute buffer look.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::teach::allocation::Kind;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::pen::{Pen, width};
use crate::tui::widget::stack::Band;

/// Its colour.
pub const fn hue(kind: Kind) -> Hue {
    match kind {
        Kind::Weights => Hue::Weights,
        Kind::Caches => Hue::Cache,
        Kind::Activations => Hue::Graph,
        Kind::Experts => Hue::EvenGpu,
        Kind::Scores => Hue::OddGpu,
        Kind::Masks => Hue::InUse,
        Kind::Logits => Hue::Ram,
    }
}

/// What fills it where colours or eighth blocks are absent.
pub const fn texture(kind: Kind) -> &'static str {
    match kind {
        Kind::Weights => "█",
        Kind::Caches => "▓",
        Kind::Activations => "▒",
        Kind::Experts => "╱",
        Kind::Scores => "≈",
        Kind::Masks => "░",
        Kind::Logits => "○",
    }
}

/// A band of it.
pub const fn band(kind: Kind, from: u32, to: u32) -> Band {
    Band { from, to, hue: hue(kind), texture: texture(kind) }
}

/// The sample beside its name.
pub fn sample(kind: Kind, theme: Theme) -> (&'static str, Style) {
    if theme.textured() { (texture(kind), theme.ink(Hue::Text)) } else { ("■", theme.ink(hue(kind))) }
}

/// `■ activations  ■ masks` of `kinds`, at the right end of `row`, as many as have room.
pub fn legend(kinds: &[Kind], row: Rect, theme: Theme, buffer: &mut Buffer) {
    let cells = |kind: &Kind| width(kind.word()) + 4;
    let mut left = row.width;
    let fitting = kinds.iter().take_while(|kind| {
        let fits = cells(kind) <= left;
        left = left.saturating_sub(cells(kind));
        fits
    });
    let fitting: Vec<Kind> = fitting.copied().collect();
    let all: u16 = fitting.iter().map(cells).sum();
    let mut pen = Pen::new(buffer, Rect { x: row.right().saturating_sub(all), width: all.min(row.width), ..row }, 0);
    for kind in fitting {
        let (sign, ink) = sample(kind, theme);
        pen.put(" ", ink).put(sign, ink).put(" ", ink).put(kind.word(), theme.ink(Hue::Dim)).put(" ", ink);
    }
}
