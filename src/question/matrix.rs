//! `plimsoll matrix`: what fits over two axes.

#[cfg(feature = "cli")]
pub mod arguments;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{COLUMNS, CellRecord, LAST_COLUMNS, first_cells, last_cells};
use super::json_value::JsonValue;
use super::{About, Question, Stepwise, source};
use crate::answer::glance::uncapitalised;
use crate::answer::sweep::{Axis, AxisKind, Matrix, PlanFigures};
use crate::engine::PlanRequest;
use crate::export::{Caption, PlanSource, csv, svg};
use crate::page::palette::sign;
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::plan::Outcome;
use crate::speed::Speeds;

/// Maximum rows and columns of values that are spread over a range.
const ROWS: usize = 12;
const COLUMNS_SHOWN: usize = 6;

/// What to plan.
#[derive(Clone, Debug)]
pub struct MatrixRequest {
    /// What changes from row to row.
    pub rows: Side,
    /// What changes from column to column.
    pub columns: Side,
}

/// The values along one side.
#[derive(Clone, Debug)]
pub enum Side {
    /// Spread over its range.
    Spread(AxisKind),
    /// As given.
    Given(Axis),
}

impl Side {
    fn axis(&self, of: &PlanRequest, most: usize) -> Axis {
        match self {
            Self::Given(axis) => axis.clone(),
            Self::Spread(AxisKind::Knob(knob)) => Axis::spread(*knob, of, most),
            Self::Spread(AxisKind::Quantisation) => Axis::quantisations(of, most),
        }
    }

    /// What its values are of, by its name on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Given(axis) => axis.name(),
            Self::Spread(kind) => kind.name(),
        }
    }
}

/// A part of the answer.
#[derive(Clone, Debug)]
pub enum MatrixPart {
    /// The values along both axes.
    Axes(Axis, Axis),
    /// The next cell, row by row.
    Cell(Box<MatrixCell>),
}

/// A cell of a matrix.
#[derive(Clone, Debug)]
pub struct MatrixCell {
    /// The figures, or why there is none.
    pub figures: Result<PlanFigures, String>,
    /// A note of the engine that applies to this cell only.
    pub note: Option<String>,
    /// The request that Enter applies; none if the model cannot be requantised so.
    pub then: Option<PlanRequest>,
}

impl MatrixCell {
    /// That of `then`; notes of the whole plan are left out.
    fn of(then: PlanRequest, plan_notes: &[String]) -> Self {
        match then.plan() {
            Ok(plan) => {
                let note = plan.notes.iter().find(|note| !plan_notes.contains(note)).cloned();
                let speeds = Speeds::of(&then.model, &then.machine, &plan, 0);
                Self { figures: Ok(PlanFigures::of(&plan, speeds.as_ref())), note, then: Some(then) }
            }
            Err(error) => Self { figures: Err(error.to_string()), note: None, then: Some(then) },
        }
    }
}

impl MatrixRequest {
    fn axes(&self, of: &PlanRequest) -> (Axis, Axis) {
        (self.rows.axis(of, ROWS), self.columns.axis(of, COLUMNS_SHOWN))
    }
}

impl Stepwise for MatrixRequest {
    type Part = MatrixPart;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<MatrixPart>> {
        let (rows, columns) = self.axes(of);
        let plan_notes = of.plan().map_or_else(|_| Vec::new(), |plan| plan.notes);
        let opened = of.with_model(Arc::clone(&of.opened));
        let cells = opened.pairs(&rows, &columns).map(move |pair| {
            let cell = match pair {
                Ok(pair) => MatrixCell::of(pair.of(of), &plan_notes),
                Err(why) => MatrixCell { figures: Err(why), note: None, then: None },
            };
            Some(MatrixPart::Cell(Box::new(cell)))
        });
        std::iter::once(Some(MatrixPart::Axes(rows, columns))).chain(cells)
    }
}

impl Question for MatrixRequest {
    const NAME: &'static str = "matrix";
    const PRINTS: &'static str = "plans over two knobs";
    type Answer = Matrix;
    type Record<'a> = MatrixAnswer<'a>;

    fn answer(&self, about: About<'_>) -> Result<Matrix, String> {
        let (rows, columns) = self.axes(about.request);
        Ok(about.request.matrix(rows, columns))
    }

    fn page(&self, about: About<'_>, matrix: &Matrix) -> Page {
        page(about, matrix)
    }

    fn record<'a>(&'a self, about: About<'a>, matrix: &'a Matrix) -> MatrixAnswer<'a> {
        let rows = matrix.cells.chunks(matrix.columns.len().max(1));
        MatrixAnswer {
            head: PlanSource::of(about.plan, about.source),
            rows: AxisRecord::of(&matrix.rows),
            columns: AxisRecord::of(&matrix.columns),
            cells: rows.map(|row| row.iter().map(CellRecord::of).collect()).collect(),
        }
    }

    /// A line for each cell: both values, `COLUMNS` and `LAST_COLUMNS`.
    fn csv(&self, _: About<'_>, matrix: &Matrix) -> Option<String> {
        let (rows, columns) = (matrix.rows.plain(), matrix.columns.plain());
        let pairs = rows.iter().flat_map(|row| columns.iter().map(move |column| [row.clone(), column.clone()]));
        let names = [matrix.rows.name(), matrix.columns.name()].into_iter().chain(COLUMNS).chain(LAST_COLUMNS);
        let lines = pairs.zip(&matrix.cells).map(|(pair, cell)| {
            let figures = cell.as_ref().ok();
            pair.into_iter().chain(first_cells(figures)).chain(last_cells(figures)).collect::<Vec<_>>()
        });
        Some(csv::table(names, lines))
    }

    fn svg(&self, About { request, plan, .. }: About<'_>, matrix: &Matrix) -> Option<String> {
        Some(svg::matrix(plan, matrix, &Caption::of(request, plan)))
    }
}

/// Plans for every pair of values.
#[derive(JsonSchema, Serialize)]
pub struct MatrixAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    rows: AxisRecord,
    columns: AxisRecord,
    /// A list for each row, with a plan in short for each column.
    cells: Vec<Vec<CellRecord<'a>>>,
}

/// A knob and its values.
#[derive(JsonSchema, Serialize)]
pub struct AxisRecord {
    /// The knob, or `quant`.
    knob: &'static str,
    values: Vec<JsonValue>,
}

impl AxisRecord {
    fn of(axis: &Axis) -> Self {
        let values = match axis {
            Axis::Knob(knob, values) => values.iter().map(|&value| JsonValue::of(*knob, value)).collect(),
            Axis::Quantisation(_) => axis.plain().into_iter().map(JsonValue::Word).collect(),
        };
        Self { knob: axis.name(), values }
    }
}

/// Plans over two axes as a table of speeds.
fn page(about: About<'_>, matrix: &Matrix) -> Page {
    let mut page = Page::default();
    let (names, values) = (matrix.rows.shown(), matrix.columns.shown());
    let head = Column::right(matrix.rows.title(), 13);
    let columns = std::iter::once(head).chain(values.iter().map(|value| Column::right(value, 9))).collect();
    let cell = |row: usize, column: usize| match matrix.cell(row, column) {
        Some(Ok(figures)) => {
            let (sign, hue) = sign(figures.outcome);
            Span::new(&format!("{sign} {}", figures.cell()), hue)
        }
        _ => Span::new("refused", Hue::Over),
    };
    let row = |(row, name): (usize, &String)| {
        let cells = (0..values.len()).map(|column| cell(row, column));
        std::iter::once(Span::from(name.as_str())).chain(cells).collect()
    };
    let rows = names.iter().enumerate().map(row).collect();
    page.push(Block::Table(Table { columns, rows, gap: 2, head: true, narrow: Narrow::Split }));
    page.blank();
    let (rows, columns) = (matrix.rows.title(), matrix.columns.title());
    let known = || matrix.cells.iter().flatten();
    let has_speeds = known().any(|figures| figures.speed_at_full_context.is_some());
    let what = if has_speeds { "Tokens per second with the context full" } else { "What fits" };
    let has_shares = known().any(|figures| figures.cell().ends_with('%'));
    let shares = if has_shares { " %: the share of memory on GPU." } else { "" };
    page.text(&format!("{what}, {rows} by {columns}. {}{shares}", signs(matrix)), Hue::Text);
    source(about.plan, &mut page);
    page
}

/// What the signs in the cells mean.
fn signs(matrix: &Matrix) -> String {
    let mut outcomes: Vec<Outcome> = matrix.cells.iter().flatten().map(|figures| figures.outcome).collect();
    outcomes.sort_unstable();
    outcomes.dedup();
    let mut signs: Vec<(&str, Vec<String>)> = Vec::new();
    for outcome in outcomes {
        let (sign, word) = (sign(outcome).0, uncapitalised(outcome.headline()));
        match signs.iter_mut().find(|(known, _)| *known == sign) {
            Some((_, words)) => words.push(word),
            None => signs.push((sign, vec![word])),
        }
    }
    let signs: Vec<String> = signs.into_iter().map(|(sign, words)| format!("{sign} {}", words.join(" or "))).collect();
    if signs.is_empty() { String::new() } else { format!("{}.", signs.join("; ")) }
}
