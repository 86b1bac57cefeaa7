//! Layout of the graph panel, for engines that build the graph.

use ratatui::layout::Rect;

use super::{Cursors, inside};
use crate::plan::{Peak, Plan};
use crate::tui::widget::row_writer::wrap;
use crate::units::grouped;

/// A selectable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeakLine {
    /// A device, by its index in the peaks.
    Device(usize),
    /// A kind of tensors alive on the shown device.
    Alive(usize),
}

/// The index of the peak that is shown.
pub fn shown(plan: &Plan, cursors: &Cursors) -> usize {
    let peaks = &plan.graph.peaks;
    let largest = || (0..peaks.len()).rev().max_by_key(|&at| peaks.get(at).map(|peak| peak.bytes)).unwrap_or(0);
    cursors.peak.filter(|&at| at < peaks.len()).unwrap_or_else(largest)
}

/// The lines, from the top: devices first.
pub fn lines(plan: &Plan, cursors: &Cursors) -> Vec<PeakLine> {
    let peaks = &plan.graph.peaks;
    let alive = peaks.get(shown(plan, cursors)).map_or(0, |peak| peak.alive.len());
    (0..peaks.len()).map(PeakLine::Device).chain((0..alive).map(PeakLine::Alive)).collect()
}

/// The layout of the panel.
#[derive(Clone, Debug)]
pub struct PanelAreas {
    /// The areas of the lines; a kind of tensors has a second row for its largest ones if there is room.
    pub rows: Vec<(usize, PeakLine, Rect)>,
    /// The area of the sentence on the step, if there is room.
    pub moment: Option<Rect>,
}

/// The layout within `panel`.
pub fn places(panel: Rect, plan: &Plan, cursors: &Cursors) -> PanelAreas {
    let inner = inside(panel);
    let area = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let (lines, rows) = (lines(plan, cursors), usize::from(area.height));
    let peak = plan.graph.peaks.get(shown(plan, cursors));
    let sentence = peak.map_or(0, |peak| wrap(&moment(peak), area.width).len());
    // with a blank row above and below
    let sentence_rows = if lines.len() + sentence + 2 <= rows { sentence + 2 } else { 0 };
    let tensors = |line: &PeakLine| match *line {
        PeakLine::Device(_) => false,
        PeakLine::Alive(at) => peak.and_then(|peak| peak.alive.get(at)).is_some_and(|alive| !alive.tensors.is_empty()),
    };
    let tall = lines.len() + lines.iter().filter(|line| tensors(line)).count() + sentence_rows <= rows;
    let first = if lines.len() <= rows { 0 } else { (cursors.term + 1).saturating_sub(rows) };
    let mut y = area.y;
    let mut places = PanelAreas { rows: Vec::with_capacity(lines.len()), moment: None };
    for (index, line) in lines.into_iter().enumerate().skip(first) {
        if line == PeakLine::Alive(0) && sentence_rows > 0 {
            places.moment = Some(Rect { y: y + 1, height: sentence as u16, ..area });
            y += sentence_rows as u16;
        }
        let height = if tall && tensors(&line) { 2 } else { 1 };
        if y + height > area.bottom() {
            break;
        }
        places.rows.push((index, line, Rect { y, height, ..area }));
        y += height;
    }
    places
}

/// The line at row `y` of the screen.
pub fn line_at(panel: Rect, plan: &Plan, cursors: &Cursors, y: u16) -> Option<usize> {
    let places = places(panel, plan, cursors);
    places.rows.iter().find(|(_, _, place)| (place.top()..place.bottom()).contains(&y)).map(|(index, ..)| *index)
}

/// The step of the peak, in words.
pub fn moment(peak: &Peak) -> String {
    format!(
        "peak at step {} of {}, {}; live tensors:",
        grouped(peak.step as u64, '\u{2009}'),
        grouped(peak.steps as u64, '\u{2009}'),
        peak.node
    )
}
