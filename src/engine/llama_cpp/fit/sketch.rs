//! What placements come to by the graphs of others like them: close enough to tell where a limit lies before anybody looks
//! there exactly.

mod extent;
mod line;
mod shape;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::HashMap;

use super::candidate::{Candidate, Candidates};
use super::weighed::Graph;
use crate::engine::llama_cpp::context::Options;
use crate::engine::llama_cpp::courses::Courses;
use crate::engine::llama_cpp::desk::{Desk, Shared};
use crate::engine::llama_cpp::error::Refusal;
use crate::engine::llama_cpp::placement::Placement;
use crate::engine::llama_cpp::reservation::Reservation;
use crate::engine::llama_cpp::{Device, Loaded};
pub use extent::Extent;
use line::{Line, Told};
use shape::{Levels, Shape};

/// Graphs that were measured along a knob's track while everything else stayed, the GPUs too.
#[derive(Debug, Default)]
pub struct Graphs {
    candidates: Mutex<Candidates>,
    /// By the shape of a device's part.
    of_shapes: Mutex<HashMap<Shape, Line<OnDevice>>>,
    courses: Arc<Courses>,
}

/// What is reserved, and by which device.
type OnDevice = (Arc<Reservation>, usize);

/// What the graph of a placement took along the track.
#[derive(Debug, Default)]
pub struct Trail {
    /// Of each device, once they are asked for.
    shapes: OnceLock<Vec<Levels>>,
    line: Mutex<Line<Arc<Reservation>>>,
}

/// A place on a track where a plan is sketched.
#[derive(Debug)]
pub struct Sketch<'a> {
    graphs: &'a Graphs,
    at: Extent,
    turn: usize,
    basis: Basis,
    /// Contexts in the order in which fits come to them: the first is another than the one that they choose.
    contexts: RefCell<Vec<u64>>,
    wanted: RefCell<Vec<Wanted>>,
    /// Something would have had to be measured, and was not.
    lacks: Cell<bool>,
}

/// A graph of which no measurement tells for sure what it takes at a place, and that an exact look there will probably want.
#[derive(Clone, Debug)]
pub struct Wanted {
    devices: Vec<Device>,
    candidate: Arc<Candidate>,
    /// The how many-th of the fit's contexts.
    context: usize,
    options: Options,
    at: Extent,
}

impl Wanted {
    /// The same graph, wherever it is wanted.
    pub fn is_like(&self, other: &Self) -> bool {
        self.context == other.context && Arc::ptr_eq(&self.candidate, &other.candidate)
    }

    /// Whether how large things are at one place tells how they go on from the other.
    pub fn tells_of(&self, other: &Self) -> bool {
        self.at.is_even_with(other.at)
    }
}

/// By which graphs a place is sketched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Those that are known along the track.
    Track,
    /// That of every placement: no sketch any more.
    Graph,
    /// Those that are known along the track, and nothing is measured: what none of them tells for sure is wanted, and where
    /// nothing like it is known the sketch ends.
    Ahead,
}

/// What a placement's graph takes, told by others like it, as far as there are any.
#[derive(Debug)]
pub struct Likeness<'a> {
    sketch: &'a Sketch<'a>,
    /// The how many-th of the fit's contexts.
    context: usize,
    trail: Arc<Trail>,
    /// What was told of each device.
    told: Vec<Cell<Option<u64>>>,
    /// By that it is wanted, until it is; none for those who want nothing.
    wanted: RefCell<Option<Wanted>>,
    /// The graph itself, once it had to be known.
    itself: OnceCell<Arc<Reservation>>,
}

impl Likeness<'_> {
    /// Bytes on a device; `reserve` finds out the graph itself, where nothing like it is known.
    pub(super) fn on(
        &self,
        device: usize,
        model: &Loaded,
        placement: &Placement,
        reserve: impl FnOnce() -> Result<Reservation, Refusal>,
    ) -> Result<u64, Refusal> {
        let Self { sketch, context, trail, told, wanted, itself } = self;
        let Sketch { graphs, at, turn, basis, lacks, .. } = sketch;
        if let Some(itself) = itself.get() {
            return Ok(itself.on(device).bytes);
        }
        if let Some(told) = told[device].get() {
            return Ok(told);
        }
        let shapes = || trail.shapes(model, placement, *context);
        let own = trail.told(device, *at, *turn);
        if !own.is_some_and(|told| told.is_sure) {
            sketch.wanted.borrow_mut().extend(wanted.take());
        }
        let by_others = || graphs.told_of(&shapes()[device], *at, *turn);
        if let Some(bytes) = own.map(|told| told.bytes).or_else(by_others) {
            told[device].set(Some(bytes));
            return Ok(bytes);
        }
        if *basis == Basis::Ahead {
            lacks.set(true);
            return Err(Refusal::settings("nothing like it has been measured yet".to_owned()));
        }
        let reservation = Arc::new(reserve()?);
        graphs.note(trail, shapes(), *at, *turn, &reservation);
        Ok(itself.get_or_init(|| reservation).on(device).bytes)
    }
}

impl Trail {
    fn shapes(&self, model: &Loaded, placement: &Placement, context: usize) -> &[Levels] {
        self.shapes.get_or_init(|| Shape::of(&model.hparams, placement, context))
    }

    /// What is reserved at a place of the track, where that was found out.
    fn reserved(&self, at: Extent) -> Option<Arc<Reservation>> {
        lock(&self.line).get(at).cloned()
    }

    /// What is probably reserved there on a device.
    fn told(&self, device: usize, at: Extent, turn: usize) -> Option<Told> {
        lock(&self.line).tell(at, turn, |reservation| reservation.on(device))
    }
}

impl Graphs {
    /// Graphs under one of the engine's rules, with the courses of those under all of them.
    pub fn sharing(courses: Arc<Courses>) -> Self {
        Self { courses, ..Self::default() }
    }

    /// What a device of this shape probably reserves at a place of the track, by others like it.
    fn told_of(&self, shapes: &Levels, at: Extent, turn: usize) -> Option<u64> {
        let lines = lock(&self.of_shapes);
        let on = |(reservation, device): &OnDevice| reservation.on(*device);
        shapes.iter().find_map(|shape| lines.get(shape)?.tell(at, turn, on)).map(|told| told.bytes)
    }

    /// What is shared along the track with those who measure at this place.
    fn shared(&self, at: Extent) -> Shared {
        Shared { courses: Arc::clone(&self.courses), at }
    }

    /// Measures where `here` is wanted what exact looks will want.
    pub fn prepare(&self, here: &Wanted, wanted: &[Wanted]) {
        let Some(model) = self.courses.known_model() else { return };
        let mut desk = Desk::sharing(&model, self.shared(here.at));
        let turn = self.courses.turn();
        for &Wanted { ref devices, ref candidate, context, .. } in wanted {
            let Candidate { placement, .. } = &**candidate;
            // whoever looks there will be told why it is refused
            let Ok((_, reservation)) = desk.reserve(devices, placement, &here.options) else { return };
            // with another context things are of other sizes, but go the same course
            if context == here.context {
                let trail = candidate.trail(context);
                self.note(&trail, trail.shapes(&model, placement, context), here.at, turn, &Arc::new(reservation));
            }
        }
    }

    /// Notes what was measured at a place.
    fn note(&self, trail: &Trail, shapes: &[Levels], at: Extent, turn: usize, reservation: &Arc<Reservation>) {
        lock(&trail.line).note(at, turn, Arc::clone(reservation));
        let mut lines = lock(&self.of_shapes);
        for (device, shapes) in shapes.iter().enumerate() {
            for shape in shapes {
                let measured = (Arc::clone(reservation), device);
                match lines.get_mut(shape) {
                    Some(line) => line.note(at, turn, measured),
                    None => lines.entry(shape.clone()).or_default().note(at, turn, measured),
                }
            }
        }
    }
}

impl<'a> Sketch<'a> {
    /// At a place of the track; what `graphs` lack for it is measured and added to them.
    pub fn new(graphs: &'a Graphs, at: Extent, basis: Basis) -> Self {
        let (contexts, wanted, lacks) = Default::default();
        Self { graphs, at, turn: graphs.courses.turn(), basis, contexts, wanted, lacks }
    }

    /// Whether it was drawn to its end: nothing was lacking that would have had to be measured for it.
    pub fn is_whole(&self) -> bool {
        !self.lacks.get()
    }

    /// What this sketch lacked, if it was to say that.
    pub fn into_wanted(self) -> Vec<Wanted> {
        self.wanted.into_inner()
    }

    /// What is shared along the track.
    pub(super) fn shared(&self) -> Shared {
        self.graphs.shared(self.at)
    }

    /// The placements that fits have considered along the track.
    pub(super) fn candidates(&self) -> &Mutex<Candidates> {
        &self.graphs.candidates
    }

    /// What the graph of a placement takes; `reserve` finds it out where it has to be that graph itself, and nobody knows it.
    pub(super) fn graph(
        &'a self,
        model: &Loaded,
        devices: &[Device],
        candidate: &Arc<Candidate>,
        options: &Options,
        reserve: impl FnOnce() -> Result<Arc<Reservation>, Refusal>,
    ) -> Result<Graph<'a>, Refusal> {
        let context = self.context(options.n_ctx);
        let Candidate { placement, .. } = &**candidate;
        let trail = candidate.trail(context);
        if let Some(reservation) = trail.reserved(self.at) {
            return Ok(Graph::Itself(reservation));
        }
        if self.basis == Basis::Graph {
            let reservation = reserve()?;
            self.graphs.note(&trail, trail.shapes(model, placement, context), self.at, self.turn, &reservation);
            return Ok(Graph::Itself(reservation));
        }
        let wanted = (self.basis == Basis::Ahead).then(|| Wanted {
            devices: devices.to_vec(),
            candidate: Arc::clone(candidate),
            context,
            options: options.clone(),
            at: self.at,
        });
        let (told, wanted) = (vec![Cell::new(None); devices.len() + 1], RefCell::new(wanted));
        Ok(Graph::Like(Likeness { sketch: self, context, trail, told, wanted, itself: OnceCell::new() }))
    }

    /// The how many-th context this is.
    fn context(&self, n_ctx: u64) -> usize {
        let mut contexts = self.contexts.borrow_mut();
        contexts.iter().position(|known| *known == n_ctx).unwrap_or_else(|| {
            contexts.push(n_ctx);
            contexts.len() - 1
        })
    }
}

/// What whoever held the lock last left is whole: it only adds.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
