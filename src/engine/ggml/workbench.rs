//! Memory that is kept from one graph to the next: a fit measures hundreds, of megabytes each, and asking the system for
//! them anew would take as long as the work itself.

use std::sync::Arc;

use super::allocate::{Claim, Holding, Ledger};
use super::schedule::Schedule;
use super::tensor::{Id, Place};

/// Empty lists that have room.
#[derive(Debug, Default)]
pub struct Workbench {
    pub(super) schedule: Schedule,
    /// All tensors of a graph, or of a larger one.
    pub(super) all: Arc<[Id]>,
    /// Per tensor.
    pub(super) places: Vec<Place>,
    pub(super) claims: Vec<Claim>,
    pub(super) holdings: Vec<Holding>,
    /// Per device.
    pub(super) ledgers: Vec<Ledger>,
}

impl Workbench {
    /// Takes back the devices of tensors.
    pub fn take_places(&mut self, mut places: Vec<Place>) {
        places.clear();
        self.places = places;
    }

    /// Takes back a schedule that nobody needs any more.
    pub fn take_schedule(&mut self, mut schedule: Schedule) {
        schedule.clear();
        self.places = std::mem::take(&mut schedule.places);
        self.schedule = schedule;
    }
}
