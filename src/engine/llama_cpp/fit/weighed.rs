//! What placements take, as far as a fit asks: each is weighed once, and its graph device by device.

use std::rc::Rc;
use std::sync::Arc;

use super::candidate::Candidate;
use super::sketch::Likeness;
use super::{Fitter, Gauge};
use crate::engine::llama_cpp::context::{Context, Options};
use crate::engine::llama_cpp::error::Refusal;
use crate::engine::llama_cpp::reservation::Reservation;
use crate::engine::llama_cpp::tally::{Caches, Tally};
use crate::engine::llama_cpp::{Loaded, Measured, Spread};

/// A context that a fit considers, and what is the same there for all placements.
pub struct AtContext {
    pub options: Options,
    /// The parameters in effect, before llama.cpp has tried what it settles by trials.
    parameters: Context,
    caches: Caches,
}

/// A placement, with what it takes per device, RAM last.
pub struct Weighed<'a> {
    at: Rc<AtContext>,
    pub candidate: Arc<Candidate>,
    /// The parameters in effect.
    parameters: Context,
    /// Bytes of caches.
    caches: Vec<u64>,
    graph: Graph<'a>,
}

/// How it is found out what its graph takes.
pub enum Graph<'a> {
    /// By the graph itself.
    Itself(Arc<Reservation>),
    /// By others like it.
    Like(Likeness<'a>),
}

impl AtContext {
    /// With `options`, for `tally`'s model and devices.
    pub fn new(model: &Loaded, tally: &Tally, options: Options) -> Result<Self, Refusal> {
        let parameters = Context::new(&options, &model.hparams, model.release)?;
        let caches = tally.of_caches(model, &parameters);
        Ok(Self { options, parameters, caches })
    }
}

impl<'a> Fitter<'a> {
    /// Begins to find out what `spread` takes.
    pub fn weigh(&self, spread: &Spread) -> Result<Rc<Weighed<'a>>, Refusal> {
        self.weigh_candidate(self.candidate(spread))
    }

    /// The same of a placement; each is weighed once, by whatever spread it comes about.
    pub fn weigh_candidate(&self, candidate: Arc<Candidate>) -> Result<Rc<Weighed<'a>>, Refusal> {
        let at = &self.at;
        let is_same = |known: &Arc<Candidate>| match self.gauge {
            Gauge::Graph => known.placement == candidate.placement,
            Gauge::Sketch(_) => Arc::ptr_eq(known, &candidate),
        };
        let before = |known: &&Rc<Weighed>| known.at.options.n_ctx == at.options.n_ctx && is_same(&known.candidate);
        if let Some(known) = self.known.borrow().iter().find(before) {
            return Ok(Rc::clone(known));
        }
        let mut parameters = None;
        let mut reserve = || {
            let (layout, reservation) =
                self.desk.borrow_mut().reserve(self.devices, &candidate.placement, &at.options)?;
            parameters = Some(layout.context);
            Ok(Arc::new(reservation))
        };
        let graph = match self.gauge {
            Gauge::Graph => Graph::Itself(reserve()?),
            Gauge::Sketch(sketch) => sketch.graph(self.model, self.devices, &candidate, &at.options, reserve)?,
        };
        let weighed = Rc::new(Weighed {
            at: Rc::clone(at),
            parameters: parameters.unwrap_or_else(|| at.parameters.clone()),
            caches: self.tally.caches(&at.caches, &candidate.placement),
            candidate,
            graph,
        });
        self.known.borrow_mut().push(Rc::clone(&weighed));
        Ok(weighed)
    }

    /// Bytes that a placement asks of a device for weights and caches alone.
    pub fn without_graph(&self, candidate: &Candidate, device: usize) -> u64 {
        candidate.weights[device] + self.tally.caches(&self.at.caches, &candidate.placement)[device]
    }

    /// All that is asked of a device, in bytes.
    pub fn total(&self, weighed: &Weighed<'a>, device: usize) -> Result<i64, Refusal> {
        Ok((weighed.candidate.weights[device] + weighed.caches[device] + self.compute(weighed, device)?) as i64)
    }

    /// The graph's part of it.
    fn compute(&self, weighed: &Weighed<'a>, device: usize) -> Result<u64, Refusal> {
        let Weighed { at, candidate, graph, .. } = weighed;
        match graph {
            Graph::Itself(reservation) => Ok(reservation.on(device).bytes),
            Graph::Like(likeness) => likeness.on(device, self.model, &candidate.placement, || {
                Ok(self.desk.borrow_mut().reserve(self.devices, &candidate.placement, &at.options)?.1)
            }),
        }
    }

    /// All of it.
    pub fn measured(&self, weighed: &Weighed<'a>) -> Result<Measured, Refusal> {
        let Candidate { placement, weights, .. } = &*weighed.candidate;
        let devices = 0..weights.len();
        let compute = devices.map(|device| self.compute(weighed, device)).collect::<Result<_, _>>()?;
        Ok(Measured {
            model: weights.clone(),
            context: weighed.caches.clone(),
            compute,
            parameters: weighed.parameters.clone(),
            homes: placement.homes(),
        })
    }
}
