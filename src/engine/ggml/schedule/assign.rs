//! The first four passes: which device computes what.

use std::ops::Range;

use super::Scheduler;
use crate::engine::ggml::backend::Backend;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Buffer, Id, NOWHERE, Op, Place, Tensor};

/// The nearest anchors before and behind some nodes, where there are any.
pub type Around = [Option<Place>; 2];

impl Scheduler<'_> {
    /// Pass 1: what has its bytes already stays there, inputs are on the CPU, and an operation with weights goes where
    /// they are, or to the first GPU that takes it over.
    pub(super) fn anchor(&self, graph: &Graph, places: &mut [Place]) {
        for &id in graph.leafs.iter().chain(&graph.anchored) {
            if places[id.index()] == NOWHERE {
                places[id.index()] = self.anchor_of(graph, &graph[id]);
            }
        }
    }

    /// Where pass 1 puts a tensor, if it does.
    pub fn anchor_of(&self, graph: &Graph, tensor: &Tensor) -> Place {
        if let Some(home) = Self::allocated(graph, tensor) {
            return home;
        }
        if tensor.input {
            return self.cpu();
        }
        // rope factors are too small to decide, and so are attention sinks
        if tensor.op == Op::Rope || (tensor.op == Op::FlashAttn && !self.rules.sinks_decide) {
            return NOWHERE;
        }
        for source in graph.sources(tensor) {
            let Buffer::Weights(home) = graph[source].buffer else { continue };
            if home == self.cpu() && self.op_offload {
                let takes = |gpu: &Backend| gpu.supports(tensor) && gpu.wants(tensor);
                let taker = self.backends[..usize::from(home)].iter().position(takes);
                return taker.map_or(home, |gpu| gpu as Place);
            }
            return if self.can(home, tensor) { home } else { NOWHERE };
        }
        NOWHERE
    }

    /// What pass 2 comes to where every device can do everything: what is not anchored goes with the nearest anchor before it
    /// or, if that is not on a GPU, with the one after it if that is.
    fn between(&self, before: Option<Place>, after: Option<Place>) -> Option<Place> {
        let on_gpu = |place: &Place| *place != self.cpu();
        before.filter(on_gpu).or(after.filter(on_gpu)).or(before).or(after)
    }

    /// Pass 2 at once for some of the computed nodes, of which the nearest anchors `around` are known. Returns whether all of
    /// these have a device then.
    pub fn fill(&self, graph: &Graph, places: &mut [Place], nodes: Range<usize>, around: Around) -> bool {
        let [mut before, after] = around;
        let mut open = nodes.start;
        let mut close = |places: &mut [Place], before: Option<Place>, at: usize, after: Option<Place>| {
            let between = self.between(before, after);
            for id in &graph.computed[open..at] {
                places[id.index()] = between.unwrap_or(NOWHERE);
            }
            let all = between.is_some() || open == at;
            open = at + 1;
            all
        };
        for at in nodes.clone() {
            let place = places[graph.computed[at].index()];
            if place != NOWHERE {
                close(places, before, at, Some(place));
                before = Some(place);
            }
        }
        close(places, before, nodes.end, after)
    }

    /// Where the `at`-th of the graph's computed nodes ends up, without looking at more of the graph than it takes; none where
    /// that takes all of it.
    pub fn assign_one(&self, graph: &Graph, at: usize) -> Option<Place> {
        let anchor = |id: &Id| {
            let tensor = &graph[*id];
            let pinned = if self.pins { tensor.pin } else { NOWHERE };
            Some(if pinned == NOWHERE { self.anchor_of(graph, tensor) } else { pinned })
                .filter(|place| *place != NOWHERE)
        };
        if !self.can_do_all() {
            return None;
        }
        anchor(&graph.computed[at]).or_else(|| {
            let before = graph.computed[..at].iter().rev().find_map(anchor);
            let after = graph.computed[at + 1..].iter().find_map(anchor);
            self.between(before, after)
        })
    }

    /// Half of pass 2: what follows an operation and has no device joins it where its device can do that, except on the
    /// device `stops_at`.
    pub(super) fn spread_down(&self, graph: &Graph, places: &mut [Place], stops_at: Place) {
        self.spread(graph, graph.computed.iter(), places, stops_at);
    }

    /// The other half: what comes before it.
    pub(super) fn spread_up(&self, graph: &Graph, places: &mut [Place], stops_at: Place) {
        self.spread(graph, graph.computed.iter().rev(), places, stops_at);
    }

    fn spread<'g>(&self, graph: &Graph, order: impl Iterator<Item = &'g Id>, places: &mut [Place], stops_at: Place) {
        let mut current = NOWHERE;
        for &id in order {
            let place = &mut places[id.index()];
            if *place != NOWHERE {
                current = if *place == stops_at { NOWHERE } else { *place };
            } else if self.can(current, &graph[id]) {
                *place = current;
            }
        }
    }

    /// Pass 3: what is still nowhere goes to the device that can do it and read most of its operands. (Devices here never share
    /// a kind of buffer, so nothing can be moved to a better one.)
    pub(super) fn best_fit(&self, graph: &Graph, places: &mut [Place]) {
        for &id in &graph.computed {
            if places[id.index()] != NOWHERE {
                continue;
            }
            let tensor = &graph[id];
            let readable = |place: Place| {
                graph
                    .sources(tensor)
                    .filter(|source| {
                        let below = graph[*source].view_of;
                        let placed = places[source.index()] != NOWHERE
                            || below.get().is_some_and(|b| places[b.index()] != NOWHERE);
                        placed && Self::readable(graph, places, *source, place)
                    })
                    .count()
            };
            // the first of the best
            let able = (0..=self.cpu()).rev().filter(|place| self.can(*place, tensor));
            let best = able.max_by_key(|place| readable(*place));
            places[id.index()] = best.unwrap_or_else(|| self.cpu());
        }
    }

    /// Pass 4: views are where their bytes are; operands that belong to nobody go to their first reader.
    pub(super) fn sources(&self, graph: &Graph, places: &mut [Place]) {
        self.place_sources(graph, places, &graph.loose);
    }

    /// The same for some of the nodes that may have to do with such.
    pub fn place_sources(&self, graph: &Graph, places: &mut [Place], loose: &[Id]) {
        for &id in loose {
            let tensor = &graph[id];
            if places[id.index()] == NOWHERE && tensor.view_of.is_some() {
                places[id.index()] = places[tensor.view_of.index()];
            }
            for source in graph.sources(tensor) {
                if places[source.index()] == NOWHERE {
                    let below = graph[source].view_of;
                    places[source.index()] = below.get().map_or(places[id.index()], |below| places[below.index()]);
                }
            }
            if places[id.index()] == NOWHERE {
                let able = self.backends.iter().position(|backend| backend.supports(tensor));
                places[id.index()] = able.map_or(self.cpu(), |place| place as Place);
            }
        }
    }
}
