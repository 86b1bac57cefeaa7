//! Plans over two axes: two knobs, or a knob and the quantisation.

use std::sync::Arc;

use rayon::prelude::*;

use super::quant::COMMON_QUANTISATIONS;
use super::sweep::PlanFigures;
use crate::engine::PlanRequest;
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::settings::knob::Knob;

/// What changes along one axis of a matrix, in the order of its rows or columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Values of a knob.
    Knob(Knob, Vec<u64>),
    /// Quantisations of the model.
    Quantisation(Vec<FileType>),
}

/// Plans over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// What changes from row to row.
    pub rows: Axis,
    /// What changes from column to column.
    pub columns: Axis,
    /// Cells in row-major order; the engine's error where there is no plan.
    pub cells: Vec<Result<PlanFigures, String>>,
}

impl Matrix {
    /// The cell in this row and column.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Result<PlanFigures, String>> {
        if column >= self.columns.len() {
            return None;
        }
        self.cells.get(row * self.columns.len() + column)
    }
}

impl Axis {
    /// Its name on the command line and in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Knob(knob, _) => knob.name(),
            Self::Quantisation(_) => "quant",
        }
    }

    /// Its name on the screen.
    pub const fn title(&self) -> &'static str {
        match self {
            Self::Knob(knob, _) => knob.title(),
            Self::Quantisation(_) => "quantisation",
        }
    }

    /// Number of rows or columns.
    pub const fn len(&self) -> usize {
        match self {
            Self::Knob(_, values) => values.len(),
            Self::Quantisation(to) => to.len(),
        }
    }

    /// Whether it has no rows or columns.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Labels for the screen.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.show(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// Labels for the command line and files.
    pub fn plain(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.plain(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// The `count` most common quantisations that this model can be converted to, the largest first.
    pub fn quantisations(request: &PlanRequest, count: usize) -> Self {
        let sizes = request.model.quantisations();
        let size = |to: FileType| sizes.iter().position(|&(other, _)| other == to);
        let mut chosen: Vec<FileType> =
            COMMON_QUANTISATIONS.into_iter().filter(|&to| size(to).is_some()).take(count.max(1)).collect();
        chosen.sort_by_key(|&to| std::cmp::Reverse(size(to)));
        Self::Quantisation(chosen)
    }

    /// `knob` with up to `count` of its stops, chosen by [`Knob::spread`].
    pub fn spread(knob: Knob, request: &PlanRequest, count: usize) -> Self {
        Self::Knob(knob, knob.spread(&request.bounds(), count))
    }
}

impl PlanRequest {
    /// A plan for every pair of values.
    pub fn matrix(&self, rows: Axis, columns: Axis) -> Matrix {
        let pairs: Vec<_> = self.pairs(&rows, &columns).collect();
        // no batching: some cells take far longer than others
        let cells = pairs.par_iter().with_max_len(1);
        let cells = cells.map(|pair| self.outcome_of(pair.as_ref().map_err(Clone::clone)?)).collect();
        Matrix { rows, columns, cells }
    }

    /// Every pair of values in row-major order; an error if the model cannot be converted to a quantisation.
    pub fn pairs(&self, rows: &Axis, columns: &Axis) -> impl Iterator<Item = Result<CellSettings, String>> + use<> {
        let (down, across) = (self.axis_values(rows), self.axis_values(columns));
        down.into_iter().flat_map(move |row| {
            let pair = move |column| CellSettings::default().with(&row)?.with(&column);
            across.clone().into_iter().map(pair)
        })
    }

    /// The figures of one cell.
    fn outcome_of(&self, pair: &CellSettings) -> Result<PlanFigures, String> {
        let model = pair.model.as_ref().map_or(&self.model, |(_, model)| model);
        self.with_model(Arc::clone(model)).figures(&pair.knobs)
    }

    /// The values of an axis. Each quantisation is converted once, not for each cell.
    fn axis_values(&self, axis: &Axis) -> Vec<AxisValue> {
        match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| AxisValue::Knob(*knob, value)).collect(),
            Axis::Quantisation(to) => {
                let converted = |to: FileType| match self.model.requantised(to) {
                    Ok(model) => Ok((to, model.into())),
                    Err(error) => Err(error.to_string()),
                };
                to.iter().map(|&to| AxisValue::Model(converted(to))).collect()
            }
        }
    }
}

/// The value of one row or column.
#[derive(Clone)]
enum AxisValue {
    Knob(Knob, u64),
    Model(Result<(FileType, Arc<PreparedModel>), String>),
}

/// The changes of one cell.
#[derive(Clone, Debug, Default)]
pub struct CellSettings {
    knobs: Vec<(Knob, u64)>,
    model: Option<(FileType, Arc<PreparedModel>)>,
}

impl CellSettings {
    fn with(mut self, step: &AxisValue) -> Result<Self, String> {
        match step {
            AxisValue::Knob(knob, value) => self.knobs.push((*knob, *value)),
            AxisValue::Model(model) => self.model = Some(model.clone()?),
        }
        Ok(self)
    }

    /// `request` with these changes.
    pub fn of(&self, request: &PlanRequest) -> PlanRequest {
        let mut then = match &self.model {
            Some((to, model)) => request.quantised_as(*to, Arc::clone(model)),
            None => request.clone(),
        };
        for &(knob, value) in &self.knobs {
            knob.set(&mut then.settings, value);
        }
        then
    }
}
