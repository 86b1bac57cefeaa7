//! Layout of the allocation page.

use std::ops::Range;

use ratatui::layout::Rect;

use crate::page::chart::steps_of;
use crate::teach::allocation::AllocationPage;
use crate::tui::regions::inside;
use crate::tui::widget::row_writer::wrap;

/// Width of the axis of a chart.
const AXIS: u16 = 10;

/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PageAreas {
    pub devices: Rect,
    pub remark: Rect,
    pub chart: Rect,
    pub other: Rect,
    pub buffer: Rect,
}

impl PageAreas {
    /// The parts of `area`.
    pub fn new(area: Rect, content: &AllocationPage) -> Self {
        let below =
            |top: Rect, height: u16| Rect { y: top.bottom(), height: height.min(area.bottom() - top.bottom()), ..area };
        let remark_rows =
            content.remark.as_ref().map_or(0, |text| wrap(text, area.width.saturating_sub(4)).len() as u16);
        let devices = Rect { height: area.height.min(1), ..area };
        let remark = below(devices, if area.height >= 30 { remark_rows } else { remark_rows.min(1) });
        let rest = area.bottom() - remark.bottom();
        let charts = if content.other.is_some() { rest * 3 / 5 } else { rest / 2 };
        let lower = if content.other.is_some() { charts / 2 } else { 0 };
        let chart = below(remark, charts - lower);
        let other = below(chart, lower);
        let buffer = below(other, area.bottom() - other.bottom());
        Self { devices, remark, chart, other, buffer }
    }

    /// The step drawn at (`x`, `y`).
    pub fn moment_at(&self, content: &AllocationPage, x: u16, y: u16) -> Option<usize> {
        let moments = content.walk.moments.len();
        let here = |place: Rect| place.contains((x, y).into());
        let plot = plot(if here(self.other) { self.other } else { self.chart });
        let inside = (here(self.chart) || here(self.other)) && (plot.left()..plot.right()).contains(&x) && moments > 0;
        inside.then(|| moments_of(x - plot.x, plot.width, moments).start)
    }
}

/// The columns of a chart in `frame`: right of the axis, above the layers.
pub fn plot(frame: Rect) -> Rect {
    let inner = inside(frame);
    let axis = if inner.width >= 40 { AXIS } else { 0 };
    Rect {
        x: inner.x.saturating_add(axis),
        width: inner.width.saturating_sub(axis + 1),
        height: inner.height.saturating_sub(1),
        ..inner
    }
}

/// The steps drawn in column `column` of `columns`; with more columns than steps, columns share them.
pub fn moments_of(column: u16, columns: u16, moments: usize) -> Range<usize> {
    steps_of(usize::from(column), usize::from(columns), moments)
}
