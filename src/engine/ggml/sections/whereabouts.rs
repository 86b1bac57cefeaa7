//! Where the tensors of a graph are, found out anew only in sections in which something has moved since the last placement.

use std::ops::Range;

use super::Section;
use crate::engine::ggml::allocate::Claim;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::schedule::{Around, Scheduler};
use crate::engine::ggml::tensor::{Id, NOWHERE, Place};
use crate::engine::ggml::workbench::Workbench;

/// Every tensor's device under the placement that was looked at last.
#[derive(Debug)]
pub struct Whereabouts {
    /// Of every tensor.
    pub(super) places: Vec<Place>,
    parts: Vec<Part>,
    /// Placements so far.
    turn: u32,
    /// The turn in which each tensor moved last, or began to read another.
    moved: Vec<u32>,
}

/// What belongs to a section.
#[derive(Debug, Default)]
struct Part {
    computed: Range<usize>,
    anchored: Vec<Id>,
    loose: Vec<Id>,
    /// Tensors whose devices are found out here.
    own: Vec<Id>,
    /// Whose devices matter here, and are known before: what is given, operations that read one or another of that, and
    /// what earlier sections compute.
    given: Vec<Id>,
    earlier: Vec<Id>,
    /// The first of its anchors, and the last.
    ends: Around,
    /// The nearest anchors in other sections.
    around: Around,
    /// The turn in which anything moved here last.
    moved: u32,
}

impl Whereabouts {
    /// Of nothing as yet; `sections` are those of `graph`.
    pub(super) fn new(graph: &Graph, claims: &[Claim], sections: &[Section]) -> Self {
        let mut known = vec![false; graph.tensors.len()];
        for id in &graph.leafs {
            known[id.index()] = graph[*id].input || claims[id.index()].is_given();
        }
        let (mut anchored, mut loose) = (graph.anchored.iter().peekable(), graph.loose.iter().peekable());
        let part = |section: &Section| {
            let mut part = Part { computed: section.computed.clone(), ..Part::default() };
            for id in &graph.nodes[section.nodes.clone()] {
                part.anchored.extend(anchored.next_if_eq(&id));
                part.loose.extend(loose.next_if_eq(&id));
            }
            for &id in &section.touched {
                if claims[id.index()].is_given() {
                    part.given.push(id);
                } else if !std::mem::replace(&mut known[id.index()], true) {
                    part.own.push(id);
                } else if !graph[id].input {
                    part.earlier.push(id);
                }
            }
            part.given.extend(section.exchanged.iter().map(|(reader, _)| *reader));
            part
        };
        let parts = sections.iter().map(part).collect();
        Self { places: Vec::new(), parts, turn: 0, moved: vec![0; graph.tensors.len()] }
    }

    /// Something that is given is elsewhere now, or an operation reads another weight.
    pub fn note(&mut self, graph: &Graph, id: Id) {
        self.moved[id.index()] = self.turn + 1;
        if let (Some(place), Some(of)) = (graph[id].buffer.place(), self.places.get_mut(id.index())) {
            *of = place;
        }
    }

    /// The turn in which anything moved last that a section has to do with.
    pub(super) fn moved_in(&self, section: usize) -> u32 {
        self.parts[section].moved
    }

    /// Finds out where everything is, now that all is noted.
    pub fn follow(&mut self, scheduler: &Scheduler<'_>, graph: &Graph, bench: &mut Workbench) {
        self.turn += 1;
        let is_first = self.places.is_empty();
        for part in &mut self.parts {
            if is_first || part.given.iter().any(|id| self.moved[id.index()] == self.turn) {
                part.moved = self.turn;
                part.find_ends(scheduler, graph);
            }
        }
        let around = self.look_around();
        let is_tangled =
            scheduler.pins || !scheduler.can_do_all() || self.parts.iter().all(|part| part.ends[0].is_none());
        if is_first || is_tangled {
            bench.take_places(std::mem::take(&mut self.places));
            self.places = scheduler.assign(graph, bench);
            for (part, around) in self.parts.iter_mut().zip(around) {
                (part.moved, part.around) = (self.turn, around);
            }
            return;
        }
        let Self { places, parts, turn, moved } = self;
        for (part, around) in parts.iter_mut().zip(around) {
            let is_old = part.moved < *turn && part.around == around;
            if !is_old || part.earlier.iter().any(|id| moved[id.index()] == *turn) {
                (part.moved, part.around) = (*turn, around);
                part.assign(scheduler, graph, places, |id| moved[id.index()] = *turn);
            }
        }
    }

    /// The nearest anchors around each section.
    fn look_around(&self) -> Vec<Around> {
        let mut before = None;
        let mut around: Vec<Around> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            around.push([before, None]);
            before = part.ends[1].or(before);
        }
        let mut after = None;
        for (part, around) in self.parts.iter().zip(&mut around).rev() {
            around[1] = after;
            after = part.ends[0].or(after);
        }
        around
    }
}

impl Part {
    fn find_ends(&mut self, scheduler: &Scheduler<'_>, graph: &Graph) {
        let anchor = |id: &Id| {
            let is_anchor = |place: &Place| *place != NOWHERE && !graph[*id].op.is_view();
            Some(scheduler.anchor_of(graph, &graph[*id])).filter(is_anchor)
        };
        self.ends = [self.anchored.iter().find_map(anchor), self.anchored.iter().rev().find_map(anchor)];
    }

    /// Finds out where its own tensors are, and tells which have moved.
    fn assign(&self, scheduler: &Scheduler<'_>, graph: &Graph, places: &mut [Place], mut moved: impl FnMut(Id)) {
        let before: Vec<Place> =
            self.own.iter().map(|id| std::mem::replace(&mut places[id.index()], NOWHERE)).collect();
        for id in &self.anchored {
            places[id.index()] = scheduler.anchor_of(graph, &graph[*id]);
        }
        scheduler.fill(graph, places, self.computed.clone(), self.around);
        scheduler.place_sources(graph, places, &self.loose);
        for (id, before) in self.own.iter().zip(before) {
            if places[id.index()] != before {
                moved(*id);
            }
        }
    }
}
