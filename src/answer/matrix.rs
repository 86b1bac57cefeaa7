//! Plans over two knobs, or a knob and the quantisation, at once, as data: what fits where at a glance.

use std::sync::Arc;

use rayon::prelude::*;

use super::sweep::Outcome;
use crate::engine::PlanRequest;
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::settings::knob::Knob;

/// What changes along one side of a matrix, in the order of the rows or columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// A knob takes these values.
    Knob(Knob, Vec<u64>),
    /// The model is in these quantisations.
    Quantisation(Vec<FileType>),
}

/// Plans over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// What changes from row to row.
    pub rows: Axis,
    /// What changes from column to column.
    pub columns: Axis,
    /// Row after row; the sentence that the engine refused with where it made no plan.
    pub cells: Vec<Result<Outcome, String>>,
}

impl Matrix {
    /// The cell in this row and column.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Result<Outcome, String>> {
        if column >= self.columns.len() {
            return None;
        }
        self.cells.get(row * self.columns.len() + column)
    }
}

/// Quantisations that models are offered in, the most usual first.
const USUAL: [FileType; 12] = [
    FileType::Q4KM,
    FileType::Q8_0,
    FileType::Q6K,
    FileType::Q5KM,
    FileType::Q3KM,
    FileType::F16,
    FileType::Iq4Xs,
    FileType::Q2K,
    FileType::Q5KS,
    FileType::Q4KS,
    FileType::Iq3Xs,
    FileType::Iq2Xs,
];

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

    /// How many rows or columns it makes.
    pub const fn len(&self) -> usize {
        match self {
            Self::Knob(_, values) => values.len(),
            Self::Quantisation(to) => to.len(),
        }
    }

    /// It makes none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each row or column is called on the screen.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.show(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// What each is called on the command line and in files.
    pub fn plain(&self) -> Vec<String> {
        match self {
            Self::Knob(knob, values) => values.iter().map(|&value| knob.plain(value)).collect(),
            Self::Quantisation(to) => to.iter().map(ToString::to_string).collect(),
        }
    }

    /// The `count` quantisations that people use most and that this model can be had in, the largest first.
    pub fn quantisations(request: &PlanRequest, count: usize) -> Self {
        let sizes = request.model.quantisations();
        let size = |to: FileType| sizes.iter().position(|&(other, _)| other == to);
        let mut chosen: Vec<FileType> = USUAL.into_iter().filter(|&to| size(to).is_some()).take(count.max(1)).collect();
        chosen.sort_by_key(|&to| std::cmp::Reverse(size(to)));
        Self::Quantisation(chosen)
    }

    /// `knob` with some of its stops, as [`Knob::spread`] chooses them.
    pub fn spread(knob: Knob, request: &PlanRequest, count: usize) -> Self {
        Self::Knob(knob, knob.spread(&request.bounds(), count))
    }
}

impl PlanRequest {
    /// A plan for every pair of values.
    pub fn matrix(&self, rows: Axis, columns: Axis) -> Matrix {
        let pairs: Vec<_> = self.pairs(&rows, &columns).collect();
        // some cells take far longer than others
        let cells = pairs.par_iter().with_max_len(1);
        let cells = cells.map(|pair| self.outcome_of(pair.as_ref().map_err(Clone::clone)?)).collect();
        Matrix { rows, columns, cells }
    }

    /// Every pair of values, row after row; where the model cannot be had in a quantisation, the reason.
    pub fn pairs(&self, rows: &Axis, columns: &Axis) -> impl Iterator<Item = Result<CellSettings, String>> + use<> {
        let (down, across) = (self.steps(rows), self.steps(columns));
        down.into_iter().flat_map(move |row| {
            let pair = move |column| CellSettings::default().with(&row)?.with(&column);
            across.clone().into_iter().map(pair)
        })
    }

    /// What the engine makes of one pair.
    fn outcome_of(&self, pair: &CellSettings) -> Result<Outcome, String> {
        let model = pair.model.as_ref().map_or(&self.model, |(_, model)| model);
        self.with_model(Arc::clone(model)).outcome(&pair.knobs)
    }

    /// Each quantisation is made once, not once for each cell.
    fn steps(&self, axis: &Axis) -> Vec<AxisValue> {
        match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| AxisValue::Knob(*knob, value)).collect(),
            Axis::Quantisation(to) => {
                let made = |to: FileType| match self.model.requantised(to) {
                    Ok(model) => Ok((to, model.into())),
                    Err(error) => Err(error.to_string()),
                };
                to.iter().map(|&to| AxisValue::Model(made(to))).collect()
            }
        }
    }
}

/// One row or column.
#[derive(Clone)]
enum AxisValue {
    Knob(Knob, u64),
    Model(Result<(FileType, Arc<PreparedModel>), String>),
}

/// What is different in one cell.
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

    /// What it makes of `request`.
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
