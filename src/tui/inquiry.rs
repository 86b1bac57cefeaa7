//! Questions that take longer than a key press may, as data. An answer comes in parts, each worked out when it is asked
//! for, so that whoever asks can stop in between.

use crate::answer::best::{Suggestion, Wish};
use crate::answer::cliffs::Cliff;
use crate::answer::matrix::Axis;
use crate::answer::sweep::{Outcome, Point};
use crate::answer::together::{Household, Tenant, live_together};
use crate::answer::{Goal, Offer};
use crate::engine::PlanRequest;
use crate::settings::knob::Knob;
use std::sync::Arc;

/// A question about a situation.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// Goes into the answer: an older one is of no interest.
    pub id: u64,
    /// What it is about.
    pub of: PlanRequest,
    /// What is asked.
    pub about: About,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// Where things change along each of these knobs.
    Cliffs(Vec<Knob>),
    /// What would bring this layer, or all of them, onto GPUs.
    Changes(usize),
    /// The best settings while these knobs are held.
    Best(Vec<Knob>),
    /// What each of these values of a knob comes to.
    Points(Knob, Vec<u64>),
    /// What fits where over two sides: rows and columns.
    Matrix(Side, Side),
    /// What becomes of these, loaded one after the other on the machine, by the engine, of what it is about.
    Together(Vec<PlanRequest>),
}

/// What can change along a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A knob.
    Knob(Knob),
    /// The model's quantisation.
    Quantisation,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// Where things change along a knob.
    Cliffs(Knob, Vec<Cliff>),
    /// Changes that help.
    Offers(Vec<Offer>),
    /// The best that was found for a wish.
    Best(Wish, Vec<Suggestion>),
    /// What one value of the knob that is swept comes to.
    Point(Box<Point>),
    /// The values along both sides of a matrix.
    Axes(Axis, Axis),
    /// The next cell of it, row after row.
    Cell(Box<Cell>),
    /// What became of those that were loaded one after the other; or why there is no plan of one.
    Together(Result<Box<Household>, String>),
    /// That was all.
    End,
}

/// A cell of a matrix.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The plan in short, or why there is none.
    pub outcome: Result<Outcome, String>,
    /// What the engine adjusts there and nowhere else.
    pub note: Option<String>,
    /// What Enter makes of the situation; none where the model cannot be had so.
    pub then: Option<PlanRequest>,
}

/// Who answers: within a lane only the newest inquiry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// What the planner itself shows.
    Planner,
    /// What a page in front of it shows.
    Page,
}

impl Inquiry {
    /// Who answers it.
    pub const fn lane(&self) -> Lane {
        match self.about {
            About::Cliffs(_) => Lane::Planner,
            About::Changes(_) | About::Best(_) | About::Points(..) | About::Matrix(..) | About::Together(_) => {
                Lane::Page
            }
        }
    }

    /// The answer, step by step; a step that has nothing to tell is a chance to stop all the same.
    pub fn parts(&self) -> Box<dyn Iterator<Item = Option<Part>> + '_> {
        let end = std::iter::once(Some(Part::End));
        match &self.about {
            About::Cliffs(knobs) => Box::new(knobs.iter().flat_map(|&knob| self.cliffs(knob)).chain(end)),
            About::Changes(layer) => Box::new(self.changes(*layer).chain(end)),
            About::Best(held) => Box::new(self.best(held).chain(end)),
            About::Points(knob, values) => {
                let point = |&value| Some(Part::Point(Box::new(self.of.point(*knob, value))));
                Box::new(values.iter().map(point).chain(end))
            }
            About::Together(guests) => Box::new(std::iter::once_with(|| Some(self.together(guests))).chain(end)),
            About::Matrix(rows, columns) => Box::new(self.matrix(*rows, *columns).chain(end)),
        }
    }

    fn cliffs(&self, knob: Knob) -> impl Iterator<Item = Option<Part>> {
        let mut found = Vec::new();
        let mut stretches = Some(self.of.cliffs_by_stretch(knob));
        std::iter::from_fn(move || {
            if let Some(more) = stretches.as_mut()?.next() {
                found.extend(more);
                return Some(None);
            }
            stretches = None;
            Some(Some(Part::Cliffs(knob, std::mem::take(&mut found))))
        })
    }

    /// First what brings all layers, then what brings this one alone.
    fn changes(&self, layer: usize) -> impl Iterator<Item = Option<Part>> {
        let mut known = Vec::new();
        [Goal::All, Goal::Layer(layer)].into_iter().map(move |goal| {
            let plan = self.of.plan().ok()?;
            let mut offers = self.of.offers(&plan, goal);
            offers.retain(|offer| !known.contains(&offer.change));
            known.extend(offers.iter().map(|offer| offer.change));
            Some(Part::Offers(offers))
        })
    }

    fn best<'a>(&'a self, held: &'a [Knob]) -> impl Iterator<Item = Option<Part>> + 'a {
        Wish::ALL.into_iter().map(move |wish| {
            let request = &self.of;
            let plan = request.plan().ok()?;
            Some(Part::Best(wish, request.best(&plan, wish, held)))
        })
    }

    fn together(&self, guests: &[PlanRequest]) -> Part {
        let tenants: Vec<_> =
            guests.iter().map(|guest| Tenant { model: &guest.model, settings: &guest.settings }).collect();
        let household = live_together(self.of.engine, &self.of.machine, &tenants);
        Part::Together(household.map(Box::new).map_err(|error| error.to_string()))
    }

    fn matrix(&self, rows: Side, columns: Side) -> impl Iterator<Item = Option<Part>> {
        let request = &self.of;
        let axis = |side: Side, count: usize| match side {
            Side::Knob(knob) => Axis::spread(knob, request, count),
            Side::Quantisation => Axis::quantisations(request, count),
        };
        let (rows, columns) = (axis(rows, ROWS), axis(columns, COLUMNS));
        // what the engine says anywhere is no news of one cell
        let said = request.plan().map_or_else(|_| Vec::new(), |plan| plan.notes);
        let opened = request.with_model(Arc::clone(&request.opened));
        let cells = opened.pairs(&rows, &columns).map(move |pair| {
            let cell = match pair {
                Ok(pair) => Self::cell(pair.of(&self.of), &said),
                Err(why) => Cell { outcome: Err(why), note: None, then: None },
            };
            Some(Part::Cell(Box::new(cell)))
        });
        std::iter::once(Some(Part::Axes(rows.clone(), columns.clone()))).chain(cells)
    }

    fn cell(then: PlanRequest, said: &[String]) -> Cell {
        match then.plan() {
            Ok(plan) => {
                let note = plan.notes.iter().find(|note| !said.contains(note)).cloned();
                Cell { outcome: Ok(Outcome::of(&plan)), note, then: Some(then) }
            }
            Err(error) => Cell { outcome: Err(error.to_string()), note: None, then: Some(then) },
        }
    }
}

/// Most rows and columns of a matrix.
const ROWS: usize = 12;
const COLUMNS: usize = 6;
