//! What placements take, as far as a fit asks: each is weighed once, and its graph device by device.

use std::rc::Rc;
use std::sync::Arc;

use super::sketch::Likeness;
use super::{Fitter, Gauge};
use crate::engine::llama_cpp::context::{Context, Options};
use crate::engine::llama_cpp::error::Refusal;
use crate::engine::llama_cpp::placement::Placement;
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
    placement: Placement,
    /// The parameters in effect.
    parameters: Context,
    /// Bytes of weights.
    pub weights: Vec<u64>,
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
        let parameters = Context::new(&options, &model.hparams, &model.release)?;
        let caches = tally.of_caches(model, &parameters);
        Ok(Self { options, parameters, caches })
    }
}

impl<'a> Fitter<'a> {
    /// Begins to find out what `spread` takes; each placement is weighed once, by whatever spread it comes about.
    pub fn weigh(&self, spread: &Spread) -> Result<Rc<Weighed<'a>>, Refusal> {
        let (at, placement) = (&self.at, self.model.place(self.devices, spread));
        let before = |known: &&Rc<Weighed>| known.at.options.n_ctx == at.options.n_ctx && known.placement == placement;
        if let Some(known) = self.known.borrow().iter().find(before) {
            return Ok(Rc::clone(known));
        }
        let mut parameters = None;
        let mut reserve = || {
            let (layout, reservation) = self.desk.borrow_mut().reserve(self.devices, &placement, &at.options)?;
            parameters = Some(layout.context);
            Ok(Arc::new(reservation))
        };
        let graph = match self.gauge {
            Gauge::Graph => Graph::Itself(reserve()?),
            Gauge::Sketch(sketch) => sketch.graph(self.model, self.devices, &placement, &at.options, reserve)?,
        };
        let weighed = Rc::new(Weighed {
            at: Rc::clone(at),
            parameters: parameters.unwrap_or_else(|| at.parameters.clone()),
            weights: self.tally.weights(self.model, &placement),
            caches: self.tally.caches(&at.caches, &placement),
            placement,
            graph,
        });
        self.known.borrow_mut().push(Rc::clone(&weighed));
        Ok(weighed)
    }

    /// Bytes that `spread` asks of each device for weights and caches alone.
    pub fn without_graph(&self, spread: &Spread) -> Vec<u64> {
        let placement = self.model.place(self.devices, spread);
        self.tally.without_graph(self.model, &self.at.caches, &placement)
    }

    /// All that is asked of a device, in bytes.
    pub fn total(&self, weighed: &Weighed<'a>, device: usize) -> Result<i64, Refusal> {
        Ok((weighed.weights[device] + weighed.caches[device] + self.compute(weighed, device)?) as i64)
    }

    /// The graph's part of it.
    fn compute(&self, weighed: &Weighed<'a>, device: usize) -> Result<u64, Refusal> {
        let Weighed { at, placement, graph, .. } = weighed;
        match graph {
            Graph::Itself(reservation) => Ok(reservation.on(device).bytes),
            Graph::Like(likeness) => likeness.on(device, self.model, placement, || {
                Ok(self.desk.borrow_mut().reserve(self.devices, placement, &at.options)?.1)
            }),
        }
    }

    /// All of it.
    pub fn measured(&self, weighed: &Weighed<'a>) -> Result<Measured, Refusal> {
        let devices = 0..weighed.weights.len();
        let compute = devices.map(|device| self.compute(weighed, device)).collect::<Result<_, _>>()?;
        Ok(Measured {
            model: weighed.weights.clone(),
            context: weighed.caches.clone(),
            compute,
            parameters: weighed.parameters.clone(),
            homes: weighed.placement.homes(),
        })
    }
}
