//! Questions that take longer than a key press may, as data. An answer comes in parts, each worked out when it is asked
//! for, so that whoever asks can stop in between.

use crate::answer::best::{Objective, Suggestion};
use crate::answer::cliffs::Cliff;
use crate::answer::matrix::Axis;
use crate::answer::sweep::{Outcome, Point};
use crate::answer::together::{LoadRequest, LoadedModels, load_together};
use crate::answer::{Goal, Remedy};
use crate::engine::PlanRequest;
use crate::settings::knob::Knob;
use std::sync::Arc;

/// A question about a situation.
#[derive(Clone, Debug)]
pub struct Query {
    /// Goes into the answer: an older one is of no interest.
    pub id: u64,
    /// What it is about.
    pub of: PlanRequest,
    /// What is asked.
    pub about: QueryKind,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryKind {
    /// Where things change along each of these knobs.
    Cliffs(Vec<Knob>),
    /// What would bring this layer, or all of them, onto GPUs.
    Changes(usize),
    /// The best settings while these knobs are held.
    Best(Vec<Knob>),
    /// What each of these values of a knob comes to.
    Points(Knob, Vec<u64>),
    /// What fits where over two sides: rows and columns.
    Matrix(AxisKind, AxisKind),
    /// What becomes of these, loaded one after the other on the machine, by the engine, of what it is about.
    Together(Vec<PlanRequest>),
}

/// What can change along a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisKind {
    /// A knob.
    Knob(Knob),
    /// The model's quantisation.
    Quantisation,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum QueryPart {
    /// Where things change along a knob.
    Cliffs(Knob, Vec<Cliff>),
    /// Changes that help.
    Remedies(Vec<Remedy>),
    /// The best that was found for a wish.
    Best(Objective, Vec<Suggestion>),
    /// What one value of the knob that is swept comes to.
    Point(Box<Point>),
    /// The values along both sides of a matrix.
    Axes(Axis, Axis),
    /// The next cell of it, row after row.
    Cell(Box<MatrixCell>),
    /// What became of those that were loaded one after the other; or why there is no plan of one.
    Together(Result<Box<LoadedModels>, String>),
    /// That was all.
    End,
}

/// A cell of a matrix.
#[derive(Clone, Debug)]
pub struct MatrixCell {
    /// The plan in short, or why there is none.
    pub outcome: Result<Outcome, String>,
    /// What the engine adjusts there and nowhere else.
    pub note: Option<String>,
    /// What Enter makes of the situation; none where the model cannot be had so.
    pub then: Option<PlanRequest>,
}

/// Who answers: within a lane only the newest inquiry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// What the planner itself shows.
    Planner,
    /// What a page in front of it shows.
    Page,
}

impl Query {
    /// Who answers it.
    pub const fn lane(&self) -> Worker {
        match self.about {
            QueryKind::Cliffs(_) => Worker::Planner,
            QueryKind::Changes(_)
            | QueryKind::Best(_)
            | QueryKind::Points(..)
            | QueryKind::Matrix(..)
            | QueryKind::Together(_) => Worker::Page,
        }
    }

    /// The answer, step by step; a step that has nothing to tell is a chance to stop all the same.
    pub fn parts(&self) -> Box<dyn Iterator<Item = Option<QueryPart>> + '_> {
        let end = std::iter::once(Some(QueryPart::End));
        match &self.about {
            QueryKind::Cliffs(knobs) => Box::new(knobs.iter().flat_map(|&knob| self.cliffs(knob)).chain(end)),
            QueryKind::Changes(layer) => Box::new(self.changes(*layer).chain(end)),
            QueryKind::Best(held) => Box::new(self.best(held).chain(end)),
            QueryKind::Points(knob, values) => {
                let point = |&value| Some(QueryPart::Point(Box::new(self.of.point(*knob, value))));
                Box::new(values.iter().map(point).chain(end))
            }
            QueryKind::Together(models) => Box::new(std::iter::once_with(|| Some(self.together(models))).chain(end)),
            QueryKind::Matrix(rows, columns) => Box::new(self.matrix(*rows, *columns).chain(end)),
        }
    }

    fn cliffs(&self, knob: Knob) -> impl Iterator<Item = Option<QueryPart>> {
        let mut found = Vec::new();
        let mut stretches = Some(self.of.cliffs_by_segment(knob));
        std::iter::from_fn(move || {
            if let Some(more) = stretches.as_mut()?.next() {
                found.extend(more);
                return Some(None);
            }
            stretches = None;
            Some(Some(QueryPart::Cliffs(knob, std::mem::take(&mut found))))
        })
    }

    /// First what brings all layers, then what brings this one alone.
    fn changes(&self, layer: usize) -> impl Iterator<Item = Option<QueryPart>> {
        let mut known = Vec::new();
        [Goal::All, Goal::Layer(layer)].into_iter().map(move |goal| {
            let plan = self.of.plan().ok()?;
            let mut remedies = self.of.remedies(&plan, goal);
            remedies.retain(|offer| !known.contains(&offer.change));
            known.extend(remedies.iter().map(|offer| offer.change));
            Some(QueryPart::Remedies(remedies))
        })
    }

    fn best<'a>(&'a self, held: &'a [Knob]) -> impl Iterator<Item = Option<QueryPart>> + 'a {
        Objective::ALL.into_iter().map(move |objective| {
            let request = &self.of;
            let plan = request.plan().ok()?;
            Some(QueryPart::Best(objective, request.best(&plan, objective, held)))
        })
    }

    fn together(&self, models: &[PlanRequest]) -> QueryPart {
        let tenants: Vec<_> =
            models.iter().map(|guest| LoadRequest { model: &guest.model, settings: &guest.settings }).collect();
        let loaded_models = load_together(self.of.engine, &self.of.machine, &tenants);
        QueryPart::Together(loaded_models.map(Box::new).map_err(|error| error.to_string()))
    }

    fn matrix(&self, rows: AxisKind, columns: AxisKind) -> impl Iterator<Item = Option<QueryPart>> {
        let request = &self.of;
        let axis = |side: AxisKind, count: usize| match side {
            AxisKind::Knob(knob) => Axis::spread(knob, request, count),
            AxisKind::Quantisation => Axis::quantisations(request, count),
        };
        let (rows, columns) = (axis(rows, ROWS), axis(columns, COLUMNS));
        // what the engine says anywhere is no news of one cell
        let said = request.plan().map_or_else(|_| Vec::new(), |plan| plan.notes);
        let opened = request.with_model(Arc::clone(&request.opened));
        let cells = opened.pairs(&rows, &columns).map(move |pair| {
            let cell = match pair {
                Ok(pair) => Self::cell(pair.of(&self.of), &said),
                Err(why) => MatrixCell { outcome: Err(why), note: None, then: None },
            };
            Some(QueryPart::Cell(Box::new(cell)))
        });
        std::iter::once(Some(QueryPart::Axes(rows.clone(), columns.clone()))).chain(cells)
    }

    fn cell(then: PlanRequest, said: &[String]) -> MatrixCell {
        match then.plan() {
            Ok(plan) => {
                let note = plan.notes.iter().find(|note| !said.contains(note)).cloned();
                MatrixCell { outcome: Ok(Outcome::of(&plan)), note, then: Some(then) }
            }
            Err(error) => MatrixCell { outcome: Err(error.to_string()), note: None, then: Some(then) },
        }
    }
}

/// Most rows and columns of a matrix.
const ROWS: usize = 12;
const COLUMNS: usize = 6;
