//! Placements that fits consider, with what is the same at all contexts.

use std::sync::{Arc, Mutex};

use foldhash::HashMap;

use super::layers::Share;
use super::sketch::{Trail, lock};
use super::{Fitter, Gauge};
use crate::engine::llama_cpp::Spread;
use crate::engine::llama_cpp::placement::Placement;

/// One of them.
#[derive(Debug)]
pub struct Candidate {
    pub placement: Placement,
    /// Bytes of weights per device, RAM last.
    pub weights: Vec<u64>,
    /// What its graph took along a track, by the how many-th of a fit's contexts.
    trails: Mutex<Vec<Arc<Trail>>>,
}

/// Those of all fits along a track, each once.
#[derive(Debug, Default)]
pub struct Candidates {
    of_placements: HashMap<Placement, Arc<Candidate>>,
    of_shares: HashMap<Vec<Share>, Arc<Candidate>>,
}

impl Candidate {
    const fn new(placement: Placement, weights: Vec<u64>) -> Self {
        Self { placement, weights, trails: Mutex::new(Vec::new()) }
    }

    /// What is known of its graph with one of a fit's contexts.
    pub fn trail(&self, context: usize) -> Arc<Trail> {
        let trails = &mut lock(&self.trails);
        while trails.len() <= context {
            trails.push(Arc::default());
        }
        Arc::clone(&trails[context])
    }
}

impl Candidates {
    /// That of a placement, where a fit has considered it.
    pub fn of(&self, placement: &Placement) -> Option<Arc<Candidate>> {
        self.of_placements.get(placement).cloned()
    }
}

impl Fitter<'_> {
    /// Where `spread` puts things.
    pub fn candidate(&self, spread: &Spread) -> Arc<Candidate> {
        let placement = self.model.place(self.devices, spread);
        let weights = |placement: &Placement| self.tally.weights(self.model, placement);
        let Gauge::Sketch(sketch) = self.gauge else {
            let weights = weights(&placement);
            return Arc::new(Candidate::new(placement, weights));
        };
        let known = &mut lock(sketch.candidates());
        known.of(&placement).unwrap_or_else(|| {
            let new = Arc::new(Candidate::new(placement.clone(), weights(&placement)));
            known.of_placements.insert(placement, Arc::clone(&new));
            new
        })
    }

    /// The same of the spread that these stand for, which need not be spelt out again.
    pub fn candidate_of(&self, shares: &[Share]) -> Arc<Candidate> {
        let Gauge::Sketch(sketch) = self.gauge else { return self.candidate(&self.spread(shares)) };
        if let Some(known) = lock(sketch.candidates()).of_shares.get(shares) {
            return Arc::clone(known);
        }
        let candidate = self.candidate(&self.spread(shares));
        lock(sketch.candidates()).of_shares.insert(shares.to_vec(), Arc::clone(&candidate));
        candidate
    }
}
