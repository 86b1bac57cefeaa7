//! What fits over two axes: the planned cells, and the selected one.

use super::advice::AnswerState;
use super::{App, Mode};
use crate::answer::sweep::Axis;
use crate::settings::knob::Knob;
use crate::tui::action::Command;
use crate::tui::effect::Effect;
use crate::tui::query::{AxisKind, MatrixCell};

impl AxisKind {
    /// The axis after this one among the `offered` knobs and the quantisation, other than `other`.
    fn next(self, other: Self, offered: &[Knob]) -> Self {
        // the quantisation is an axis of its own, with the usual file types only
        let knobs = offered.iter().filter(|&&knob| knob != Knob::Quant).map(|&knob| Self::Knob(knob));
        let sides: Vec<Self> = knobs.chain([Self::Quantisation]).collect();
        let at = sides.iter().position(|&side| side == self).unwrap_or(0);
        let after = sides.iter().cycle().skip(at + 1).take(sides.len()).find(|&&side| side != other);
        after.copied().unwrap_or(self)
    }
}

/// Usual pairs of axes: rows and columns.
const USUAL_PAIRS: [(AxisKind, AxisKind); 3] = [
    (AxisKind::Knob(Knob::Context), AxisKind::Knob(Knob::CacheType)),
    (AxisKind::Knob(Knob::Context), AxisKind::Knob(Knob::Parallel)),
    (AxisKind::Knob(Knob::Context), AxisKind::Quantisation),
];

/// The state of the page.
#[derive(Clone, Debug)]
pub struct MatrixPage {
    /// The axes of rows and columns.
    pub sides: (AxisKind, AxisKind),
    /// Their values, once known.
    pub axes: Option<(Axis, Axis)>,
    /// The cells planned so far, row by row.
    pub cells: Vec<MatrixCell>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected row and column.
    pub chosen: (usize, usize),
}

impl MatrixPage {
    pub(super) const fn new(sides: (AxisKind, AxisKind)) -> Self {
        Self { sides, axes: None, cells: Vec::new(), progress: AnswerState::Working, chosen: (0, 0) }
    }

    /// The number of rows and columns.
    pub fn size(&self) -> (usize, usize) {
        self.axes.as_ref().map_or((0, 0), |(rows, columns)| (rows.len(), columns.len()))
    }

    /// The cell at this row and column, once planned.
    pub fn cell(&self, row: usize, column: usize) -> Option<&MatrixCell> {
        let (_, columns) = self.size();
        if column < columns { self.cells.get(row * columns + column) } else { None }
    }
}

impl App {
    /// Opens the page.
    pub(super) fn matrix(&mut self) -> Vec<Effect> {
        if self.plan.is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        self.mode = Mode::Matrix(Box::new(MatrixPage::new(USUAL_PAIRS[0])));
        self.ask_for_page()
    }

    pub(super) fn press_on_matrix(&mut self, mut page: Box<MatrixPage>, command: Command) -> Vec<Effect> {
        let (rows, columns) = page.size();
        let (row, column) = page.chosen;
        page.chosen = match command {
            Command::Back | Command::Matrix => return Vec::new(),
            Command::Help => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            Command::NextPanel => {
                let at = USUAL_PAIRS.iter().position(|&pair| pair == page.sides);
                return self.begin_matrix(USUAL_PAIRS[at.map_or(0, |at| (at + 1) % USUAL_PAIRS.len())]);
            }
            Command::Rows => {
                return self.begin_matrix((page.sides.0.next(page.sides.1, &self.knobs.offered), page.sides.1));
            }
            Command::Columns => {
                return self.begin_matrix((page.sides.0, page.sides.1.next(page.sides.0, &self.knobs.offered)));
            }
            Command::Enter => {
                match page.cell(row, column).and_then(|cell| cell.then.clone()) {
                    Some(then) => {
                        self.apply_request(then);
                        return Vec::new();
                    }
                    None => self.notice = Some("This cell is not planned yet.".to_owned()),
                }
                (row, column)
            }
            Command::Up => (row.saturating_sub(1), column),
            Command::Down => ((row + 1).min(rows.saturating_sub(1)), column),
            Command::Less => (row, column.saturating_sub(1)),
            Command::More => (row, (column + 1).min(columns.saturating_sub(1))),
            Command::PageUp | Command::First => (0, column),
            Command::PageDown | Command::Last => (rows.saturating_sub(1), column),
            _ => (row, column),
        };
        self.mode = Mode::Matrix(page);
        Vec::new()
    }

    fn begin_matrix(&mut self, sides: (AxisKind, AxisKind)) -> Vec<Effect> {
        self.mode = Mode::Matrix(Box::new(MatrixPage::new(sides)));
        self.ask_for_page()
    }

    /// Sets the values of the axes, and selects the cell nearest to the present settings.
    pub(super) fn set_axes(&mut self, rows: Axis, columns: Axis) {
        let place = |axis: &Axis| match axis {
            Axis::Knob(knob, values) => {
                let now = self.value(*knob);
                (0..values.len()).min_by_key(|&at| values.get(at).map(|value| value.abs_diff(now))).unwrap_or(0)
            }
            Axis::Quantisation(to) => {
                let now = self.plan.as_ref().and_then(|plan| plan.model.file_type.as_deref());
                to.iter().position(|to| Some(to.name()) == now).unwrap_or(0)
            }
        };
        let chosen = (place(&rows), place(&columns));
        if let Mode::Matrix(page) = &mut self.mode {
            (page.axes, page.chosen) = (Some((rows, columns)), chosen);
        }
    }
}
