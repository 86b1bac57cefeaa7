//! What placements come to by the graphs of others like them: close enough to tell where a limit lies before anybody looks
//! there exactly.

mod extent;
mod line;
mod shape;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

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
    of_shapes: RwLock<HashMap<Shape, Line<OnDevice>>>,
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
    /// With each context, in the order in which fits come to them: the first is another than the one that they choose.
    sites: RefCell<Vec<Arc<Site>>>,
    wanted: RefCell<Vec<Wanted>>,
    /// Something would have had to be measured, and was not.
    lacks: Cell<bool>,
}

/// A graph of which no measurement tells for sure what it takes at a place, and that an exact look there will probably want.
#[derive(Clone, Debug)]
pub struct Wanted {
    site: Arc<Site>,
    candidate: Arc<Candidate>,
    /// Of which one wanted to know what it reserves.
    device: usize,
}

/// Where and with which context graphs are wanted.
#[derive(Debug)]
pub struct Site {
    at: Extent,
    devices: Vec<Device>,
    options: Options,
    /// The how many-th of the fit's contexts.
    context: usize,
}

impl Wanted {
    /// The same graph, wherever it is wanted.
    pub fn is_like(&self, other: &Self) -> bool {
        self.site.context == other.site.context && Arc::ptr_eq(&self.candidate, &other.candidate)
    }

    /// Where it is wanted.
    pub const fn site(&self) -> &Arc<Site> {
        &self.site
    }
}

impl Site {
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
    site: Arc<Site>,
    trail: Arc<Trail>,
    /// What was told of each device.
    told: Vec<Cell<Option<u64>>>,
    /// By that it is wanted, until it is; none for those who want nothing.
    candidate: RefCell<Option<Arc<Candidate>>>,
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
        let Self { sketch, site, trail, told, candidate, itself } = self;
        let Sketch { graphs, at, turn, basis, lacks, .. } = sketch;
        if let Some(itself) = itself.get() {
            return Ok(itself.on(device).bytes);
        }
        if let Some(told) = told[device].get() {
            return Ok(told);
        }
        let shapes = || trail.shapes(model, placement, site.context);
        let own = trail.told(device, *at, *turn);
        if !own.is_some_and(|told| told.is_sure) {
            let wanted = candidate.take().map(|candidate| Wanted { site: Arc::clone(site), candidate, device });
            sketch.wanted.borrow_mut().extend(wanted);
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
        let lines = self.of_shapes.read().unwrap_or_else(PoisonError::into_inner);
        let on = |(reservation, device): &OnDevice| reservation.on(*device);
        shapes.iter().find_map(|shape| lines.get(shape)?.tell(at, turn, on)).map(|told| told.bytes)
    }

    /// What is shared along the track with those who measure at this place.
    fn shared(&self, at: Extent) -> Shared {
        Shared { courses: Arc::clone(&self.courses), at }
    }

    /// Measures there what exact looks will want.
    pub fn prepare(&self, there: &Site, wanted: &[Wanted]) {
        let Some(model) = self.courses.known_model() else { return };
        let Site { at, ref options, context, .. } = *there;
        let mut desk = Desk::sharing(&model, self.shared(at));
        let turn = self.courses.turn();
        for Wanted { site, candidate, device } in wanted {
            let Candidate { placement, .. } = &**candidate;
            // whoever looks there will be told why it is refused
            let Ok((_, reservation)) = desk.reserve(&site.devices, placement, options) else { return };
            // whoever wanted it will ask for that at once, and alone
            reservation.on(*device);
            // with another context things are of other sizes, but go the same course; and others may have wanted the graph
            // under other rules
            let own = lock(&self.candidates).of(placement).filter(|_| site.context == context);
            if let Some(own) = own {
                let trail = own.trail(context);
                let shapes = trail.shapes(&model, placement, context);
                self.note(&trail, shapes, at, turn, &Arc::new(reservation));
            }
        }
    }

    /// Notes what was measured at a place.
    fn note(&self, trail: &Trail, shapes: &[Levels], at: Extent, turn: usize, reservation: &Arc<Reservation>) {
        lock(&trail.line).note(at, turn, Arc::clone(reservation));
        let mut lines = self.of_shapes.write().unwrap_or_else(PoisonError::into_inner);
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
        let (sites, wanted, lacks) = Default::default();
        Self { graphs, at, turn: graphs.courses.turn(), basis, sites, wanted, lacks }
    }

    /// Whether it was drawn to its end: nothing was lacking that would have had to be measured for it.
    pub fn is_whole(&self) -> bool {
        !self.lacks.get()
    }

    /// Where it was drawn, with the last context that a fit considered; nowhere where there was no fit.
    pub fn into_site(self) -> Option<Arc<Site>> {
        self.sites.into_inner().pop()
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
        let site = self.site(devices, options);
        let Candidate { placement, .. } = &**candidate;
        let trail = candidate.trail(site.context);
        if let Some(reservation) = trail.reserved(self.at) {
            return Ok(Graph::Itself(reservation));
        }
        if self.basis == Basis::Graph {
            let reservation = reserve()?;
            let shapes = trail.shapes(model, placement, site.context);
            self.graphs.note(&trail, shapes, self.at, self.turn, &reservation);
            return Ok(Graph::Itself(reservation));
        }
        let told = vec![Cell::new(None); devices.len() + 1];
        let candidate = RefCell::new((self.basis == Basis::Ahead).then(|| Arc::clone(candidate)));
        Ok(Graph::Like(Likeness { sketch: self, site, trail, told, candidate, itself: OnceCell::new() }))
    }

    /// Where it is, with these options.
    fn site(&self, devices: &[Device], options: &Options) -> Arc<Site> {
        let mut sites = self.sites.borrow_mut();
        let known = sites.iter().position(|known| known.options.n_ctx == options.n_ctx);
        let context = known.unwrap_or_else(|| {
            let (at, devices, options, context) = (self.at, devices.to_vec(), options.clone(), sites.len());
            sites.push(Arc::new(Site { at, devices, options, context }));
            context
        });
        Arc::clone(&sites[context])
    }
}

/// What whoever held the lock last left is whole: it only adds.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
