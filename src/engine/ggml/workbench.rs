//! Memory that is kept from one graph to the next: a fit measures hundreds, of megabytes each, and asking the system for
//! them anew would take as long as the work itself.

use super::allocate::{Claim, Holding};
use super::schedule::{Schedule, Split};
use super::tensor::{Id, Place};

/// Empty lists that have room.
#[derive(Debug, Default)]
pub struct Workbench {
    /// Of a schedule.
    pub(super) places: Vec<Place>,
    pub(super) nodes: Vec<(Id, Place)>,
    pub(super) leafs: Vec<(Id, Place)>,
    pub(super) rewired: Vec<(Id, usize, Id)>,
    pub(super) splits: Vec<Split>,
    pub(super) inputs: Vec<Id>,
    /// Per tensor and device.
    pub(super) copies: Vec<Id>,
    /// Per tensor.
    pub(super) claims: Vec<Claim>,
    pub(super) holdings: Vec<Holding>,
}

impl Workbench {
    /// Takes back the devices of tensors.
    pub fn take_places(&mut self, mut places: Vec<Place>) {
        places.clear();
        self.places = places;
    }

    /// Takes back a schedule that nobody needs any more.
    pub fn take_schedule(&mut self, schedule: Schedule) {
        let Schedule { places, mut nodes, mut leafs, mut rewired, mut splits, mut inputs, copies: _ } = schedule;
        self.take_places(places);
        nodes.clear();
        leafs.clear();
        rewired.clear();
        splits.clear();
        inputs.clear();
        (self.nodes, self.leafs, self.rewired, self.splits, self.inputs) = (nodes, leafs, rewired, splits, inputs);
    }
}
