//! A graph's sections, and its tensors in the order in which operations first have to do with them: blocks that are alike
//! then say the same, counted from where each begins.

use std::sync::Arc;

use super::{Exchanged, Section, View};
use crate::engine::ggml::allocate::Claim;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::number::Number;
use crate::engine::ggml::outline;
use crate::engine::ggml::tensor::Id;

/// Sections for which a tensor may live on, and still be counted from where they begin; what lives longer would be told
/// apart by how far away it is.
const NEAR: usize = 2;

/// What there is between two sections, with whether it may hold bytes.
pub type Known = Vec<(Number, bool)>;

#[derive(Debug)]
pub struct Order {
    /// By their numbers.
    pub tensors: Arc<[Id]>,
    reach: Vec<Reach>,
    /// From where tensors are counted at each door.
    bases: Vec<u32>,
    /// How many tensors that are far from some of those who read them were computed before each door.
    far: Vec<u32>,
}

/// Where a tensor matters.
#[derive(Clone, Copy, Debug)]
struct Reach {
    number: u32,
    is_far: bool,
    /// Which of several tensors is read depends on the placement.
    is_exchanged: bool,
    /// The first door that it is before.
    from: usize,
    /// The last section that has to do with it.
    to: usize,
}

const UNTOUCHED: Reach = Reach { number: u32::MAX, is_far: false, is_exchanged: false, from: usize::MAX, to: 0 };

impl Order {
    /// The sections of `graph`, of which all but their kinds and doors is told, and the order of their tensors.
    pub fn new(graph: &Graph, claims: &[Claim], exchanged: &[Exchanged<'_>]) -> (Self, Vec<Section>) {
        let mut sections = sections(graph);
        let mut reach = vec![UNTOUCHED; graph.tensors.len()];
        exchange(graph, &mut sections, &mut reach, exchanged);
        touch(graph, &mut sections, &mut reach);
        for section in &mut sections {
            // what had its bytes before is kept anyway
            section.views.retain(|view| claims[view.of.index()].wants());
            section.views.iter_mut().for_each(|view| view.is_read = claims[view.id.index()].is_read());
        }
        for id in graph.leafs.iter().filter(|id| claims[id.index()].wants()) {
            // they get their bytes before anything runs
            reach[id.index()].from = 0;
        }
        for reach in &mut reach {
            reach.is_far = reach.is_exchanged || reach.from == 0 || reach.to.saturating_sub(reach.from) > NEAR;
        }
        let mut tensors = Vec::with_capacity(graph.tensors.len());
        let mut far = vec![0; sections.len() + 1];
        for (at, section) in sections.iter_mut().enumerate() {
            let first = tensors.len() as u32;
            for &id in &section.touched {
                let reach = &mut reach[id.index()];
                let is_first = reach.from == at + 1;
                if is_first && reach.is_far {
                    far[at + 1] += 1;
                } else if is_first {
                    reach.number = tensors.len() as u32;
                    tensors.push(id);
                }
            }
            section.bases = [first, tensors.len() as u32];
        }
        for (at, reach) in reach.iter_mut().enumerate().filter(|(_, reach)| reach.is_far) {
            reach.number = tensors.len() as u32;
            tensors.push(Id(at as u32));
        }
        for at in 1..far.len() {
            far[at] += far[at - 1];
        }
        let bases = std::iter::once(0).chain(sections.iter().map(|section| section.bases[1])).collect();
        (Self { tensors: tensors.into(), reach, bases, far }, sections)
    }

    /// The number of a tensor, counted from `base`.
    pub fn number(&self, id: Id, base: u32) -> Number {
        let Reach { number, is_far, .. } = self.reach[id.index()];
        if is_far { Number::of_all(number) } else { Number::near(number, base) }
    }

    /// The tensor of this number.
    pub fn id(&self, number: Number, base: u32) -> Id {
        self.tensors[number.from(base)]
    }

    /// Whether it is there before a section.
    pub fn is_there(&self, id: Id, section: usize) -> bool {
        self.reach[id.index()].from <= section
    }

    /// What there is at each door.
    pub fn known(&self, claims: &[Claim]) -> Vec<Known> {
        let mut known = vec![Known::new(); self.bases.len()];
        for &id in &*self.tensors {
            let Reach { from, to, .. } = self.reach[id.index()];
            for (known, base) in known.iter_mut().zip(&self.bases).take(to + 1).skip(from) {
                known.push((self.number(id, *base), claims[id.index()].wants()));
            }
        }
        // in the order of all tensors they ascend
        known
    }

    /// What sections have in common that are alike.
    pub fn traits(&self, at: usize, section: &Section, graph: &Graph) -> Vec<u32> {
        let Section { nodes, computed, touched, doors, bases, .. } = section;
        let number = |id: Id| match id.get() {
            None => u32::MAX,
            Some(id) if self.reach[id.index()].is_exchanged => u32::MAX - 1,
            Some(id) => self.number(id, bases[0]).word(),
        };
        let mut words = Vec::with_capacity(8 * touched.len());
        words.extend(doors.map(|door| door as u32));
        words.extend([
            bases[1] - bases[0],
            nodes.len() as u32,
            computed.len() as u32,
            self.far[at],
            u32::from(at == 0),
        ]);
        for &id in touched {
            words.extend([number(id), outline::kind(graph, &graph[id]), number(graph[id].view_of)]);
        }
        for &id in &graph.nodes[nodes.clone()] {
            words.push(number(id));
            words.extend(graph.slots(id).iter().map(|source| number(*source)));
        }
        words
    }
}

/// A graph's sections: one begins with each block.
fn sections(graph: &Graph) -> Vec<Section> {
    let mut starts = vec![0];
    let mut latest = -1;
    for (at, id) in graph.nodes.iter().enumerate() {
        let block = graph[*id].layer;
        if block > latest {
            latest = block;
            starts.extend((at > 0).then_some(at));
        }
    }
    starts.push(graph.nodes.len());
    let mut computed = 0;
    let section = |ends: &[usize]| {
        let (nodes, first) = (ends[0]..ends[1], computed);
        computed += graph.nodes[nodes.clone()].iter().filter(|id| !graph[**id].op.is_view()).count();
        let touched = Vec::with_capacity(2 * nodes.len());
        Section { nodes, computed: first..computed, touched, ..Section::default() }
    };
    starts.windows(2).map(section).collect()
}

/// Notes which operands depend on the placement, and how far those reach that are read there.
fn exchange(graph: &Graph, sections: &mut [Section], reach: &mut [Reach], exchanged: &[Exchanged<'_>]) {
    let mut section_of = vec![0; graph.tensors.len()];
    for (at, section) in sections.iter().enumerate() {
        graph.nodes[section.nodes.clone()].iter().for_each(|id| section_of[id.index()] = at);
    }
    for Exchanged { readers, ids } in exchanged {
        let readers = readers.iter().map(|(reader, operand, _)| (section_of[reader.index()], *reader, *operand));
        let (mut from, mut to) = (usize::MAX, 0);
        for (section, reader, operand) in readers {
            sections[section].exchanged.push((reader, graph[reader].src.range().start + operand));
            (from, to) = (from.min(section + 1), to.max(section));
        }
        for id in *ids {
            reach[id.index()] = Reach { is_exchanged: true, from, to, ..UNTOUCHED };
        }
    }
}

/// Notes what each section has to do with.
fn touch(graph: &Graph, sections: &mut [Section], reach: &mut [Reach]) {
    let mut last = vec![usize::MAX; graph.tensors.len()];
    for (at, section) in sections.iter_mut().enumerate() {
        for &id in &graph.nodes[section.nodes.clone()] {
            if let Some(of) = graph[id].view_of.get() {
                section.views.push(View { id, of, is_read: false });
            }
            for id in std::iter::once(id).chain(graph.sources(&graph[id])) {
                for id in std::iter::once(id).chain(graph[id].view_of.get()) {
                    let reach = &mut reach[id.index()];
                    if !reach.is_exchanged && std::mem::replace(&mut last[id.index()], at) != at {
                        section.touched.push(id);
                        (reach.from, reach.to) = (reach.from.min(at + 1), at);
                    }
                }
            }
        }
    }
}
