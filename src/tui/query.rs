//! Queries that take longer than a key press may, as data. Answers are iterators of parts computed on demand, so that
//! the caller can stop in between.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::answer::thresholds::Threshold;
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::question::Stepwise;
use crate::settings::knob::Knob;
use crate::speed::Speeds;

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
    /// A question of a page.
    Question(Arc<dyn AnyQuestion>),
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

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum QueryPart {
    /// The thresholds along a knob.
    Thresholds(Knob, Vec<Threshold>),
    /// A part of the answer to a question of a page: [`Self::of`] knows its type.
    Part(Arc<dyn Any + Send + Sync>),
    /// The answer is complete.
    End,
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
            Self::Thresholds(..) => None,
        }
    }
}

/// The same asked of each of these requests, whatever the query is about.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Each<T> {
    pub requests: Vec<PlanRequest>,
    pub answer: fn(&PlanRequest) -> T,
}

impl<T: Clone + Debug + Send + Sync + 'static> Stepwise for Each<T> {
    /// The index of a request, and its answer.
    type Part = (usize, T);

    fn steps<'a>(&'a self, _: &'a PlanRequest) -> impl Iterator<Item = Option<Self::Part>> {
        self.requests.iter().enumerate().map(|(at, request)| Some((at, (self.answer)(request))))
    }
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

impl PlanWithSpeeds {
    /// Plans `request`.
    ///
    /// # Errors
    /// The engine's, in one sentence.
    pub fn of(request: &PlanRequest) -> PlannedRequest {
        let plan = request.plan().map_err(|error| error.to_string())?;
        let speeds = Speeds::of(&request.model, &request.machine, &plan, 0);
        Ok(Box::new(Self { plan, speeds }))
    }
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
            QueryKind::Question(_) => Worker::Page,
        }
    }

    /// The parts of the answer, in steps. A step without a part gives the caller a chance to cancel.
    pub fn parts(&self) -> Box<dyn Iterator<Item = Option<QueryPart>> + '_> {
        let end = std::iter::once(Some(QueryPart::End));
        match &self.about {
            QueryKind::Thresholds(knobs) => Box::new(knobs.iter().flat_map(|&knob| self.thresholds(knob)).chain(end)),
            QueryKind::Question(question) => Box::new(question.parts(&self.of).chain(end)),
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
}
