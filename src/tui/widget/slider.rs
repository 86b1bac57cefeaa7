//! A slider, `├━━━━━━●──┊┄┄┄┤`, with marks where weights leave the VRAM and where layers leave the GPUs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::theme::{Hue, Theme};

/// The range of values with all in VRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SliderLimit {
    /// Up to this position.
    Max(f64),
    /// From this position.
    Min(f64),
}

/// A threshold on the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// A layer moves between devices.
    Layer,
    /// The engine changes a setting.
    Jump,
}

/// The state of a slider; positions are shares of the track, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Slider {
    /// Position of the handle.
    pub at: f64,
    /// The range with all in VRAM, if it is limited.
    pub limit: Option<SliderLimit>,
    /// Where the range with all layers assigned to GPUs ends, if that is further on.
    pub assigned: Option<f64>,
    /// The thresholds.
    pub ticks: Vec<(f64, Tick)>,
    /// Hollow handle: the value was chosen by the engine.
    pub hollow: bool,
    /// Whether the knob is focused.
    pub focused: bool,
}

/// The screen column at `fraction` of `track`.
pub fn column(track: Rect, fraction: f64) -> u16 {
    let steps = track.width.saturating_sub(3);
    track.x.saturating_add(1).saturating_add((fraction.clamp(0.0, 1.0) * f64::from(steps)).round() as u16)
}

/// The fraction of `track` at screen column `x`.
pub fn fraction(track: Rect, x: u16) -> f64 {
    let steps = track.width.saturating_sub(3);
    if steps == 0 {
        return 0.0;
    }
    f64::from(x.saturating_sub(track.x.saturating_add(1)).min(steps)) / f64::from(steps)
}

impl Slider {
    /// Draws it in the first row of `track`.
    pub fn draw(&self, buffer: &mut Buffer, track: Rect, theme: Theme) {
        let clipped = track.intersection(buffer.area);
        if clipped.is_empty() || track.width < 4 {
            return;
        }
        let handle = column(track, self.at);
        let assigned = self.assigned.map(|at| column(track, at));
        let limit = self.limit.map(|limit| match limit {
            SliderLimit::Max(at) | SliderLimit::Min(at) => column(track, at),
        });
        let over = match self.limit {
            Some(SliderLimit::Max(max)) => self.at > max,
            Some(SliderLimit::Min(min)) => self.at < min,
            None => false,
        };
        let (over_left, over_right) =
            (matches!(self.limit, Some(SliderLimit::Min(_))), matches!(self.limit, Some(SliderLimit::Max(_))));
        let mut ticks = vec![None; usize::from(track.width)];
        for &(at, tick) in &self.ticks {
            let x = column(track, at);
            if let Some(place) = ticks.get_mut(usize::from(x - track.x)).filter(|place| **place != Some(Tick::Jump)) {
                *place = Some(tick);
            }
        }
        for x in clipped.left()..clipped.right() {
            let beyond = limit.is_some_and(|limit| if over_left { x < limit } else { x > limit });
            let (symbol, style) = if x == handle {
                let hue = if over {
                    Hue::Over
                } else if self.focused {
                    Hue::Focus
                } else {
                    Hue::Text
                };
                (if self.hollow { "○" } else { "●" }, theme.bold(hue))
            } else if x == track.left() {
                ("├", theme.ink(if over_left { Hue::Over } else { Hue::Dim }))
            } else if x + 1 == track.right() {
                ("┤", theme.ink(if over_right { Hue::Over } else { Hue::Dim }))
            } else if limit == Some(x) {
                ("┊", theme.bold(Hue::Fine))
            } else if assigned == Some(x) {
                ("╎", theme.bold(Hue::Part))
            } else if let Some(tick) = ticks.get(usize::from(x - track.x)).copied().flatten() {
                let symbol = match tick {
                    Tick::Layer => "╵",
                    Tick::Jump => "◇",
                };
                (symbol, theme.ink(if beyond { Hue::Over } else { Hue::Dim }))
            } else if beyond {
                let hue = if assigned.is_some_and(|assigned| x < assigned) { Hue::Part } else { Hue::Over };
                (if x < handle { "━" } else { "┄" }, theme.ink(hue))
            } else if x < handle {
                ("━", theme.ink(if self.focused { Hue::Focus } else { Hue::Ram }))
            } else {
                ("─", theme.ink(Hue::Dim))
            };
            if let Some(cell) = buffer.cell_mut((x, track.y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Appearance;

    #[test]
    fn drawing_and_the_mouse_agree() {
        for width in [4, 5, 12, 40] {
            let track = Rect::new(7, 0, width, 1);
            for x in 8..7 + width - 1 {
                assert_eq!(column(track, fraction(track, x)), x, "width {width}");
            }
            assert!(fraction(track, 0).abs() < 1e-9 && (fraction(track, 999) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn limit_and_thresholds_are_drawn() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 13, 1));
        let ticks = vec![(0.8, Tick::Layer), (0.9, Tick::Layer), (0.9, Tick::Jump), (0.1, Tick::Jump)];
        let slider =
            Slider { at: 0.4, limit: Some(SliderLimit::Max(0.7)), assigned: None, ticks, hollow: false, focused: true };
        slider.draw(&mut buffer, Rect::new(0, 0, 13, 1), Theme::new(Appearance::BEST));
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text, "├━◇━━●──┊╵◇┄┤");
        let slider = Slider { at: 0.8, limit: Some(SliderLimit::Min(0.3)), ticks: Vec::new(), ..slider };
        slider.draw(&mut buffer, Rect::new(0, 0, 13, 1), Theme::new(Appearance::BEST));
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text, "├━━━┊━━━━●──┤");
    }
}
