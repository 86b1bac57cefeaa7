//! What placements come to by the graphs of others like them: close enough to tell where a limit lies before anybody looks
//! there exactly.

mod extent;
mod line;
mod shape;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::ggml::Backend;
use crate::engine::llama_cpp::cache::Memory;
use crate::engine::llama_cpp::context::{Context, Options};
use crate::engine::llama_cpp::courses::{Along, Courses};
use crate::engine::llama_cpp::desk::{Desk, Shared};
use crate::engine::llama_cpp::error::Refusal;
use crate::engine::llama_cpp::placement::Placement;
use crate::engine::llama_cpp::{Device, Loaded, Measured, backends};
pub use extent::Extent;
use line::{Line, Seen, tell};
use shape::{Levels, Shape};

/// Graphs that were measured along a knob's track while everything else stayed, the GPUs too.
#[derive(Debug, Default)]
pub struct Graphs {
    lines: Mutex<Lines>,
    /// Weights do not change along a track.
    weights: Mutex<HashMap<Known, Vec<u64>>>,
    courses: Arc<Courses>,
}

/// What graphs took along the track.
#[derive(Debug, Default)]
struct Lines {
    of_placements: HashMap<Known, Line<Vec<Seen>>>,
    /// By the shape of a device's part.
    of_shapes: HashMap<Shape, Line<Seen>>,
}

/// A placement, with one of a fit's contexts.
type Known = (usize, Placement);

/// A place on a track where a plan is sketched.
#[derive(Debug)]
pub struct Sketch<'a> {
    graphs: &'a Graphs,
    at: Extent,
    basis: Basis,
    /// Contexts in the order in which fits come to them: the first is another than the one that they choose.
    contexts: RefCell<Vec<u64>>,
    wanted: RefCell<Vec<Wanted>>,
    /// Something would have had to be measured, and was not.
    lacks: Cell<bool>,
}

/// A graph that nobody has measured anywhere on the track, and that an exact look will probably want.
#[derive(Clone, Debug)]
pub struct Wanted {
    devices: Vec<Device>,
    placement: Placement,
    options: Options,
    at: Extent,
}

impl Wanted {
    /// The same graph, wherever it is wanted.
    pub fn is_like(&self, other: &Self) -> bool {
        self.placement == other.placement && self.devices == other.devices
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
    /// The same, but nothing is measured: what nobody has met is wanted, and where nothing like it is known the sketch ends.
    Ahead,
}

impl Graphs {
    /// Graphs under one of the engine's rules, with the courses of those under all of them.
    pub fn sharing(courses: Arc<Courses>) -> Self {
        Self { courses, ..Self::default() }
    }

    /// What the graph of a placement takes at a place of the track, as far as `basis` lets it be told.
    fn told(&self, basis: Basis, placement: &Known, shapes: &[Levels], at: Extent) -> Option<Vec<u64>> {
        let lines = lock(&self.lines);
        let line = lines.of_placements.get(placement);
        let measured = line.and_then(|line| line.get(&at));
        if measured.is_some() || basis == Basis::Graph {
            return measured.map(|seen| seen.iter().map(|seen| seen.bytes).collect());
        }
        let of_placement = |device: usize| tell(line?, at, |seen: &Vec<Seen>| &seen[device]);
        let of_shape = |shape: &Shape| tell(lines.of_shapes.get(shape)?, at, |seen| seen);
        let told = shapes.iter().enumerate();
        told.map(|(device, levels)| of_placement(device).or_else(|| levels.iter().find_map(of_shape))).collect()
    }

    fn note(&self, placement: Known, shapes: Vec<Levels>, at: Extent, compute: &[u64], along: Option<&Along>) {
        let trend = |device: usize| along.map(|along| (along.there, along.trends[device]));
        let seen: Vec<Seen> =
            compute.iter().enumerate().map(|(device, &bytes)| Seen { bytes, trend: trend(device) }).collect();
        let mut lines = lock(&self.lines);
        for (shapes, seen) in shapes.into_iter().zip(&seen) {
            for shape in shapes {
                lines.of_shapes.entry(shape).or_default().insert(at, *seen);
            }
        }
        lines.of_placements.entry(placement).or_default().insert(at, seen);
    }

    /// What is shared along the track with those who measure at this place.
    fn shared(&self, at: Extent) -> Shared {
        Shared { courses: Arc::clone(&self.courses), at }
    }

    /// Whether a placement was measured anywhere on the track.
    fn has_met(&self, placement: &Known) -> bool {
        lock(&self.lines).of_placements.contains_key(placement)
    }

    /// Finds out what exact looks will want, as far as that does not depend on where they are; of where `here` is wanted,
    /// also how large things are there.
    pub fn prepare(&self, here: &Wanted, wanted: &[Wanted]) {
        let Some(model) = self.courses.known_model() else { return };
        let mut desk = Desk::sharing(&model, self.shared(here.at));
        for Wanted { devices, placement, .. } in wanted {
            // whoever looks there will be told why it is refused
            if desk.prepare(devices, placement, &here.options).is_err() {
                return;
            }
        }
    }

    fn weights(&self, model: &Loaded, placement: Known, backends: &[Backend]) -> Vec<u64> {
        if let Some(known) = lock(&self.weights).get(&placement) {
            return known.clone();
        }
        let weights = placement.1.weights(model, backends);
        lock(&self.weights).insert(placement, weights.clone());
        weights
    }
}

impl<'a> Sketch<'a> {
    /// At a place of the track; what `graphs` lack for it is measured and added to them.
    pub fn new(graphs: &'a Graphs, at: Extent, basis: Basis) -> Self {
        Self { graphs, at, basis, contexts: RefCell::default(), wanted: RefCell::default(), lacks: Cell::default() }
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

    /// What `placement` takes; `measure` finds it out by its graph, where nothing like it is known.
    pub(super) fn measure(
        &self,
        model: &Loaded,
        devices: &[Device],
        placement: &Placement,
        options: &Options,
        measure: impl FnOnce() -> Result<(Measured, Option<Along>), Refusal>,
    ) -> Result<Measured, Refusal> {
        let Self { graphs, at, basis, .. } = *self;
        let context = self.context(options.n_ctx);
        let shapes = Shape::of(&model.hparams, placement, context);
        let known = (context, placement.clone());
        let told = graphs.told(basis, &known, &shapes, at);
        if basis == Basis::Ahead {
            if !graphs.has_met(&known) {
                self.want(devices, placement, options);
            }
            if told.is_none() {
                self.lacks.set(true);
                return Err(Refusal::settings("nothing like it has been measured yet".to_owned()));
            }
        }
        let Some(compute) = told else {
            let (measured, along) = measure()?;
            graphs.note(known, shapes, at, &measured.compute, along.as_ref());
            return Ok(measured);
        };
        let parameters = Context::new(options, &model.hparams, &model.release)?;
        let backends = backends(devices);
        let memory = Memory::new(&model.hparams, model.family.architecture, &parameters, placement);
        Ok(Measured {
            model: graphs.weights(model, known, &backends),
            context: memory.bytes(&backends),
            compute,
            parameters,
            homes: placement.homes(),
        })
    }

    fn want(&self, devices: &[Device], placement: &Placement, options: &Options) {
        let (devices, placement, options) = (devices.to_vec(), placement.clone(), options.clone());
        self.wanted.borrow_mut().push(Wanted { devices, placement, options, at: self.at });
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
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
