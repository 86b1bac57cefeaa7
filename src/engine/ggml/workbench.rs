//! Memory that is kept from one graph to the next: a fit measures hundreds, of megabytes each, and asking the system for
//! them anew would take as long as the work itself.

use super::allocate::Holding;
use super::graph::Graph;
use super::schedule::Schedule;
use super::tensor::{Id, Place};

/// Empty lists that have room.
#[derive(Debug, Default)]
pub struct Workbench {
    graph: Graph,
    /// Of a schedule.
    pub(super) places: Vec<Place>,
    pub(super) nodes: Vec<(Id, Place)>,
    pub(super) leafs: Vec<(Id, Place)>,
    /// Operations that are no views.
    pub(super) computed: Vec<Id>,
    /// Per tensor and device.
    pub(super) copies: Vec<Id>,
    /// Per tensor.
    pub(super) holdings: Vec<Holding>,
}

impl Workbench {
    /// A graph without tensors, with room for so many.
    pub fn graph(&mut self, tensors: usize) -> Graph {
        let mut graph = std::mem::take(&mut self.graph);
        graph.reserve(tensors);
        graph
    }

    /// Takes back a graph that nobody needs any more.
    pub fn take_graph(&mut self, mut graph: Graph) {
        graph.clear();
        self.graph = graph;
    }

    /// Takes back the devices of tensors.
    pub fn take_places(&mut self, mut places: Vec<Place>) {
        places.clear();
        self.places = places;
    }

    /// Takes back a schedule that nobody needs any more.
    pub fn take_schedule(&mut self, schedule: Schedule) {
        let Schedule { places, nodes, leafs, .. } = schedule;
        self.take_places(places);
        (self.nodes, self.leafs) = (nodes, leafs);
        self.nodes.clear();
        self.leafs.clear();
    }
}
