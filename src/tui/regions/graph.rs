//! Layout of the graph panel, for engines that estimate the graph by formulas.

use ratatui::layout::Rect;

use super::{Cursors, inside, peaks};
use crate::plan::{GraphUse, Plan};
use crate::tui::widget::row_writer::wrap;

/// A selectable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphLine {
    /// The full or the partial size.
    Size(GraphUse),
    /// A term of the largest branch of the size in force.
    Term(usize),
    /// Another branch of the size in force.
    Branch(usize),
}

/// The lines for `plan`, from the top.
pub fn lines(plan: &Plan) -> Vec<GraphLine> {
    let used = plan.graph.in_force();
    let losing = (0..used.branches.len()).filter(|&branch| branch != used.winner);
    let sizes = [GraphLine::Size(GraphUse::Full), GraphLine::Size(GraphUse::Partial)];
    sizes.into_iter().chain((0..used.terms().len()).map(GraphLine::Term)).chain(losing.map(GraphLine::Branch)).collect()
}

/// The number of lines for `plan`.
pub fn line_count(plan: &Plan, cursors: &Cursors) -> usize {
    if !plan.graph.peaks.is_empty() {
        return peaks::lines(plan, cursors).len();
    }
    let used = plan.graph.in_force();
    2 + used.terms().len() + used.branches.len().saturating_sub(1)
}

/// The areas of the visible lines; the first row of each holds the name.
#[derive(Clone, Debug)]
pub struct PanelAreas {
    /// Lines with their indices.
    pub rows: Vec<(usize, GraphLine, Rect)>,
    /// Whether terms have a second row with the formula.
    pub roomy: bool,
    /// The area of the explanation, if there is room.
    pub why: Option<Rect>,
    /// The rest, for the letters.
    pub letters: Rect,
}

/// The layout of `panel`, scrolled so that line `cursor` is visible.
pub fn places(panel: Rect, plan: &Plan, cursor: usize) -> PanelAreas {
    let inner = inside(panel);
    let area = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let lines = lines(plan);
    let terms = lines.iter().filter(|line| matches!(line, GraphLine::Term(_))).count();
    let rows = usize::from(area.height);
    let roomy = lines.len() + terms + 2 <= rows;
    let needed = lines.len() + if roomy { terms } else { 0 };
    let sentence = wrap(&plan.graph.why, area.width).len().min(3);
    let why_rows = if needed + sentence < rows { sentence as u16 + 1 } else { 0 };
    let gap = usize::from(roomy);
    let first = if lines.len() <= rows { 0 } else { (cursor + 1).saturating_sub(rows) };
    let (mut y, mut placed, mut why) = (area.y, Vec::with_capacity(lines.len()), None);
    let mut last_was_size = false;
    for (index, line) in lines.into_iter().enumerate().skip(first) {
        let is_size = matches!(line, GraphLine::Size(_));
        if last_was_size && !is_size {
            if why_rows > 0 {
                why = Some(Rect { y, height: why_rows - 1, ..area });
                y += why_rows;
            } else {
                y += gap as u16;
            }
        }
        last_was_size = is_size;
        let height = if roomy && matches!(line, GraphLine::Term(_)) { 2 } else { 1 };
        if y + height > area.bottom() {
            break;
        }
        placed.push((index, line, Rect { y, height, ..area }));
        y += height;
    }
    let letters = Rect { y: (y + 1).min(area.bottom()), height: area.bottom().saturating_sub(y + 1), ..area };
    PanelAreas { rows: placed, roomy, why, letters }
}

/// The line at row `y` of the screen.
pub fn line_at(panel: Rect, plan: &Plan, cursors: &Cursors, y: u16) -> Option<usize> {
    if !plan.graph.peaks.is_empty() {
        return peaks::line_at(panel, plan, cursors, y);
    }
    let places = places(panel, plan, cursors.term);
    places.rows.iter().find(|(_, _, place)| (place.top()..place.bottom()).contains(&y)).map(|(index, ..)| *index)
}
