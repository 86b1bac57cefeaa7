//! Queries that take longer than a key press may, as data. Answers are iterators of parts computed on demand, so that
//! the caller can stop in between.

use crate::answer::Remedy;
use crate::answer::best::{BestRequest, Card};
use crate::answer::sweep::Axis;
use crate::answer::sweep::{PlanFigures, Point};
use crate::answer::thresholds::Threshold;
use crate::answer::together::{LoadRequest, ServedModels};
use crate::command::Router;
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::question::Stepwise;
use crate::settings::knob::Knob;
use crate::speed::Speeds;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A query about a plan request.
#[derive(Clone, Debug)]
pub struct Query {
    /// Returned with the answer; answers to older queries are ignored.
    pub id: u64,
    /// The plan request that it is about.
    pub of: PlanRequest,
    /// What is asked.
    pub about: QueryKind,
}

/// The kinds of queries.
#[derive(Clone, Debug)]
pub enum QueryKind {
    /// The thresholds along each of these knobs.
    Thresholds(Vec<Knob>),
    /// Changes that would bring this layer, or all layers, onto GPUs.
    Changes(usize),
    /// The best settings.
    Best(BestRequest),
    /// The figures of each of these values of a knob.
    Points(Knob, Vec<u64>),
    /// What fits over two axes: rows and columns.
    Matrix(AxisKind, AxisKind),
    /// The figures of loading these models one after the other.
    Together(Router, Vec<PlanRequest>),
    /// A question of a page.
    Question(Arc<dyn AnyQuestion>),
    /// The plan of each of these.
    Plans(Vec<PlanRequest>),
}

/// A question whose parts have any type.
pub trait AnyQuestion: Debug + Send + Sync {
    /// The parts of its answer about `of`.
    fn parts<'a>(&'a self, of: &'a PlanRequest) -> Box<dyn Iterator<Item = Option<QueryPart>> + 'a>;
}

impl<Q: Stepwise> AnyQuestion for Q {
    fn parts<'a>(&'a self, of: &'a PlanRequest) -> Box<dyn Iterator<Item = Option<QueryPart>> + 'a> {
        Box::new(self.steps(of).map(|step| step.map(|part| QueryPart::Part(Arc::new(part)))))
    }
}

/// What a page receives of the answer to its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received<P> {
    /// A part of it.
    Part(P),
    /// That it is complete.
    End,
}

impl QueryPart {
    /// The part of an answer to a `Q`.
    pub fn of<Q: Stepwise>(self) -> Option<Received<Q::Part>> {
        match self {
            Self::Part(part) => part.downcast().ok().map(|part| Received::Part(Arc::unwrap_or_clone(part))),
            Self::End => Some(Received::End),
            _ => None,
        }
    }
}

/// What an axis varies.
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
    /// The thresholds along a knob.
    Thresholds(Knob, Vec<Threshold>),
    /// Changes that help.
    Remedies(Vec<Remedy>),
    /// The best settings for one objective.
    Best(Vec<Card>),
    /// The figures of one value of the swept knob.
    Point(Box<Point>),
    /// The values along both axes of a matrix.
    Axes(Axis, Axis),
    /// The next cell of the matrix, row by row.
    Cell(Box<MatrixCell>),
    /// The figures of loading several models, or why one of them has no plan.
    Together(Result<Box<ServedModels>, String>),
    /// A part of the answer to a question of a page: [`Self::of`] knows its type.
    Part(Arc<dyn Any + Send + Sync>),
    /// The plan of the request with this index.
    Plan(usize, PlannedRequest),
    /// The answer is complete.
    End,
}

/// A plan with its speeds, or why there is none.
pub type PlannedRequest = Result<Box<PlanWithSpeeds>, String>;

/// A plan, and how fast it is.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PlanWithSpeeds {
    pub plan: Plan,
    pub speeds: Option<Speeds>,
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

/// The thread that answers; each answers only its newest query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// For the planner itself.
    Planner,
    /// For a page in front of it.
    Page,
}

impl Query {
    /// The worker that answers it.
    pub const fn worker(&self) -> Worker {
        match self.about {
            QueryKind::Thresholds(_) => Worker::Planner,
            QueryKind::Changes(_)
            | QueryKind::Best(_)
            | QueryKind::Points(..)
            | QueryKind::Matrix(..)
            | QueryKind::Together(..)
            | QueryKind::Question(_)
            | QueryKind::Plans(_) => Worker::Page,
        }
    }

    /// The parts of the answer, in steps. A step without a part gives the caller a chance to cancel.
    pub fn parts(&self) -> Box<dyn Iterator<Item = Option<QueryPart>> + '_> {
        let end = std::iter::once(Some(QueryPart::End));
        match &self.about {
            QueryKind::Thresholds(knobs) => Box::new(knobs.iter().flat_map(|&knob| self.thresholds(knob)).chain(end)),
            QueryKind::Changes(layer) => Box::new(self.changes(*layer).chain(end)),
            QueryKind::Best(question) => Box::new(self.best(question).chain(end)),
            QueryKind::Points(knob, values) => {
                let point = |&value| Some(QueryPart::Point(Box::new(self.of.point(*knob, value))));
                Box::new(values.iter().map(point).chain(end))
            }
            QueryKind::Together(router, models) => {
                Box::new(std::iter::once_with(|| Some(self.together(router, models))).chain(end))
            }
            QueryKind::Question(question) => Box::new(question.parts(&self.of).chain(end)),
            QueryKind::Matrix(rows, columns) => Box::new(self.matrix(*rows, *columns).chain(end)),
            QueryKind::Plans(requests) => {
                let plan = |(at, request)| Some(QueryPart::Plan(at, planned(request)));
                Box::new(requests.iter().enumerate().map(plan).chain(end))
            }
        }
    }

    fn thresholds(&self, knob: Knob) -> impl Iterator<Item = Option<QueryPart>> {
        let mut found = Vec::new();
        let mut stretches = Some(self.of.thresholds_by_segment(knob));
        std::iter::from_fn(move || {
            if let Some(more) = stretches.as_mut()?.next() {
                found.extend(more);
                return Some(None);
            }
            stretches = None;
            Some(Some(QueryPart::Thresholds(knob, std::mem::take(&mut found))))
        })
    }

    /// The changes that bring all layers onto GPUs, or this one.
    fn changes(&self, layer: usize) -> impl Iterator<Item = Option<QueryPart>> {
        let steps = self.of.plan().ok().into_iter().flat_map(move |plan| self.of.remedies(plan, Some(layer)));
        let mut none_yet = true;
        let single = steps.map(Some).chain(std::iter::once(None));
        single.map(move |step| {
            let remedies = match step {
                Some(remedies) => remedies,
                None if none_yet => self.of.plan().map(|plan| self.of.remedies_of_two(&plan)).unwrap_or_default(),
                None => Vec::new(),
            };
            none_yet &= remedies.is_empty();
            Some(remedies).filter(|remedies| !remedies.is_empty()).map(QueryPart::Remedies)
        })
    }

    fn best<'a>(&'a self, question: &'a BestRequest) -> impl Iterator<Item = Option<QueryPart>> + 'a {
        let mut search = self.of.plan().ok().map(|plan| self.of.best_in_steps(plan, question));
        std::iter::from_fn(move || Some(search.as_mut()?.next()?.map(QueryPart::Best)))
    }

    fn together(&self, router: &Router, models: &[PlanRequest]) -> QueryPart {
        let requests: Vec<_> = models
            .iter()
            .map(|model| LoadRequest { model: &model.model, path: None, settings: &model.settings })
            .collect();
        let served = ServedModels::of(router.clone(), self.of.engine, &self.of.machine, &requests);
        QueryPart::Together(served.map(Box::new).map_err(|error| error.to_string()))
    }

    fn matrix(&self, rows: AxisKind, columns: AxisKind) -> impl Iterator<Item = Option<QueryPart>> {
        let request = &self.of;
        let axis = |side: AxisKind, count: usize| match side {
            AxisKind::Knob(knob) => Axis::spread(knob, request, count),
            AxisKind::Quantisation => Axis::quantisations(request, count),
        };
        let (rows, columns) = (axis(rows, ROWS), axis(columns, COLUMNS));
        // notes that apply to the whole plan are left out of cells
        let plan_notes = request.plan().map_or_else(|_| Vec::new(), |plan| plan.notes);
        let opened = request.with_model(Arc::clone(&request.opened));
        let cells = opened.pairs(&rows, &columns).map(move |pair| {
            let cell = match pair {
                Ok(pair) => Self::cell(pair.of(&self.of), &plan_notes),
                Err(why) => MatrixCell { figures: Err(why), note: None, then: None },
            };
            Some(QueryPart::Cell(Box::new(cell)))
        });
        std::iter::once(Some(QueryPart::Axes(rows.clone(), columns.clone()))).chain(cells)
    }

    fn cell(then: PlanRequest, plan_notes: &[String]) -> MatrixCell {
        match then.plan() {
            Ok(plan) => {
                let note = plan.notes.iter().find(|note| !plan_notes.contains(note)).cloned();
                let speeds = Speeds::of(&then.model, &then.machine, &plan, 0);
                MatrixCell { figures: Ok(PlanFigures::of(&plan, speeds.as_ref())), note, then: Some(then) }
            }
            Err(error) => MatrixCell { figures: Err(error.to_string()), note: None, then: Some(then) },
        }
    }
}

fn planned(request: &PlanRequest) -> PlannedRequest {
    let plan = request.plan().map_err(|error| error.to_string())?;
    let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
    Ok(Box::new(PlanWithSpeeds { plan, speeds }))
}

/// Maximum rows and columns of a matrix.
const ROWS: usize = 12;
const COLUMNS: usize = 6;
