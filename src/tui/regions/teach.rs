//! Layout of the teach screen.

pub mod allocation;
pub mod formulas;
pub mod lessons;
pub mod schedule;

use ratatui::layout::Rect;

use super::{Regions, cut_top};
use crate::settings::knob::Knob;
use crate::teach::Page;
use crate::tui::widget::row_writer::width;

/// The teach screen below the header: tabs, knobs, and the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TeachRegions {
    pub tabs: Rect,
    pub knobs: Rect,
    pub page: Rect,
}

impl Regions {
    /// The parts of the teach screen.
    pub fn teach(&self) -> TeachRegions {
        let body = self.body();
        let (tabs, rest) = cut_top(body, 1);
        let (knobs, page) = cut_top(rest, 1);
        TeachRegions { tabs, knobs, page }
    }
}

impl TeachRegions {
    /// The tab of each page.
    pub fn tab(&self) -> impl Iterator<Item = (Page, Rect)> + use<> {
        let places = row(self.tabs, Page::ALL.map(|page| width(page.title()) + 4));
        Page::ALL.into_iter().zip(places)
    }

    /// The areas of the knobs that fit, scrolled so that `chosen` is visible; `written` are their labels.
    pub fn knob(&self, written: &[(Knob, String)], chosen: Knob) -> Vec<(Knob, Rect)> {
        let from = |first: usize| {
            let cells = written.iter().skip(first).map(|(_, text)| width(text) + 3);
            let places = row(self.knobs, cells).into_iter().filter(|place| place.width > 0);
            written.iter().skip(first).map(|(knob, _)| *knob).zip(places).collect::<Vec<_>>()
        };
        let seen = |places: &Vec<(Knob, Rect)>| places.iter().any(|(knob, _)| *knob == chosen);
        (0..written.len()).map(from).find(seen).unwrap_or_default()
    }
}

/// Areas of these widths side by side; the first that does not fit and all after it are empty.
fn row(area: Rect, cells: impl IntoIterator<Item = u16>) -> Vec<Rect> {
    let mut x = area.x;
    let mut places = Vec::new();
    for cells in cells {
        let fits = x.saturating_add(cells) <= area.right();
        places.push(Rect { x, width: if fits { cells } else { 0 }, ..area });
        x = if fits { x + cells } else { area.right() };
    }
    places
}
