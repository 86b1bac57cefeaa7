//! The first four passes: the device of every operation.

use super::super::backend::BackendRef;
use super::super::graph::Graph;
use super::super::tensor::{BackendId, Buffer, NO_BACKEND, Op, Tensor, TensorId};
use super::Scheduler;

impl Scheduler<'_> {
    /// Pass 1: allocated tensors stay on their device, inputs go to the CPU, and an operation with weights goes to
    /// their device, or to the first GPU that runs it with weights from RAM.
    pub(super) fn anchor(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in graph.leafs.iter().chain(&graph.nodes) {
            if places[id.index()] == NO_BACKEND {
                places[id.index()] = self.anchor_of(graph, &graph[id]);
            }
        }
    }

    fn anchor_of(&self, graph: &Graph, tensor: &Tensor) -> BackendId {
        if let Some(device) = Self::allocated(graph, tensor) {
            return device;
        }
        if tensor.input {
            return self.cpu();
        }
        // rope factors are too small to decide the device, and so are attention sinks
        if tensor.op == Op::Rope || (tensor.op == Op::FlashAttn && !self.rules.sinks_decide) {
            return NO_BACKEND;
        }
        for source in graph.sources(tensor) {
            let Buffer::Weights(device) = graph[source].buffer else { continue };
            if device == self.cpu() && self.op_offload && !graph[source].repacked {
                let offloads = |gpu: &BackendRef| gpu.offloads(tensor) && gpu.supports(graph, tensor);
                let target = self.backends[..usize::from(device)].iter().position(offloads);
                return target.map_or(device, |gpu| gpu as BackendId);
            }
            return if self.can(graph, device, tensor) { device } else { NO_BACKEND };
        }
        NO_BACKEND
    }

    /// Pass 2, downwards: an unassigned operation gets the device of the one before it if that device supports it,
    /// except for the device `stops_at`.
    pub(super) fn spread_down(&self, graph: &Graph, places: &mut [BackendId], stops_at: BackendId) {
        self.spread(graph, places, stops_at, graph.computed.iter());
    }

    /// Pass 2, upwards: from the operation after it.
    pub(super) fn spread_up(&self, graph: &Graph, places: &mut [BackendId], stops_at: BackendId) {
        self.spread(graph, places, stops_at, graph.computed.iter().rev());
    }

    fn spread<'g>(
        &self,
        graph: &Graph,
        places: &mut [BackendId],
        stops_at: BackendId,
        order: impl Iterator<Item = &'g TensorId>,
    ) {
        let mut current = NO_BACKEND;
        for &id in order {
            let place = &mut places[id.index()];
            if *place != NO_BACKEND {
                current = if *place == stops_at { NO_BACKEND } else { *place };
            } else if self.can(graph, current, &graph[id]) {
                *place = current;
            }
        }
    }

    /// Pass 3: an unassigned operation goes to the device that supports it and can read most of its operands. (Devices
    /// here never share a buffer type, so no operation can be upgraded to a better one.)
    pub(super) fn best_fit(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in &graph.computed {
            let tensor = &graph[id];
            if places[id.index()] != NO_BACKEND {
                continue;
            }
            let readable = |place: BackendId| {
                graph
                    .sources(tensor)
                    .filter(|source| {
                        let below = graph[*source].view_of;
                        let placed = places[source.index()] != NO_BACKEND
                            || below.get().is_some_and(|b| places[b.index()] != NO_BACKEND);
                        placed && Self::readable(graph, places, *source, place)
                    })
                    .count()
            };
            // the first of equals
            let able = (0..=self.cpu()).rev().filter(|place| self.can(graph, *place, tensor));
            let best = able.max_by_key(|place| readable(*place));
            places[id.index()] = best.unwrap_or_else(|| self.cpu());
        }
    }

    /// Pass 4: views go to the device of their tensor, unassigned operands to that of their first reader.
    pub(super) fn sources(&self, graph: &Graph, places: &mut [BackendId]) {
        for &id in &graph.nodes {
            let tensor = &graph[id];
            if places[id.index()] == NO_BACKEND && tensor.view_of.is_some() {
                places[id.index()] = places[tensor.view_of.index()];
            }
            for source in graph.sources(tensor) {
                if places[source.index()] == NO_BACKEND {
                    let below = graph[source].view_of;
                    places[source.index()] = below.get().map_or(places[id.index()], |below| places[below.index()]);
                }
            }
            if places[id.index()] == NO_BACKEND {
                let able = self.backends.iter().position(|backend| backend.supports(graph, tensor));
                places[id.index()] = able.map_or(self.cpu(), |place| place as BackendId);
            }
        }
    }
}
