//! The order of a split: when an operation must wait for those that run, later ones that need not are brought before it
//! (`ggml_graph_optimize` in `ggml-metal-common.cpp`, 0.1.161).

use std::ops::Range;

use super::{MetalRules, groups};
use crate::engine::ggml::backend::SplitGraph;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Op, TensorId};

/// Groups looked at behind one that must wait.
const AHEAD: usize = 64;

/// What a set of operations reads and writes: for every tensor the number of the set, of which only the latest counts.
struct Touched {
    set: u32,
    read: Vec<u32>,
    written: Vec<u32>,
}

impl Touched {
    fn new(tensors: usize) -> Self {
        Self { set: 1, read: vec![0; tensors], written: vec![0; tensors] }
    }

    /// Begins a new set.
    fn reset(&mut self) {
        self.set += 1;
    }

    fn is_written(&self, id: TensorId) -> bool {
        self.written[id.index()] == self.set
    }

    fn is_read(&self, id: TensorId) -> bool {
        self.read[id.index()] == self.set
    }
}

/// Reorders `split`, group by group.
pub(super) fn reorder(split: &mut SplitGraph<'_>, rules: MetalRules) {
    let mut groups: Vec<Range<usize>> = Vec::with_capacity(split.len());
    let mut at = 0;
    while at < split.len() {
        let len = groups::len(split, at, rules);
        groups.push(at..at + len);
        at += len;
    }
    let nodes = split.nodes().to_vec();
    let order = Reordering { graph: &*split.graph, nodes: &nodes }.order(&groups);
    let ordered = order.iter().filter_map(|group| nodes.get(groups[*group].clone())).flatten();
    for (to, id) in split.nodes().iter_mut().zip(ordered) {
        *to = *id;
    }
}

struct Reordering<'a> {
    graph: &'a Graph,
    nodes: &'a [TensorId],
}

impl Reordering<'_> {
    fn base(&self, id: TensorId) -> TensorId {
        self.graph[id].view_of.get().unwrap_or(id)
    }

    /// What a group reads from outside.
    fn sources<'s>(&'s self, group: &'s Range<usize>) -> impl Iterator<Item = TensorId> + 's {
        let own = &self.nodes[group.clone()];
        let sources = own.iter().flat_map(|id| self.graph.sources(&self.graph[*id]));
        sources.filter(move |source| !own.contains(source)).map(|source| self.base(source))
    }

    fn results<'s>(&'s self, group: &Range<usize>) -> impl Iterator<Item = TensorId> + 's {
        self.nodes[group.clone()].iter().map(|id| self.base(*id))
    }

    fn add(&self, touched: &mut Touched, group: &Range<usize>) {
        let set = touched.set;
        self.sources(group).for_each(|id| touched.read[id.index()] = set);
        self.results(group).for_each(|id| touched.written[id.index()] = set);
    }

    /// Whether a group may run at the same time as the set.
    fn may_join(&self, touched: &Touched, group: &Range<usize>) -> bool {
        self.sources(group).all(|id| !touched.is_written(id))
            && self.results(group).all(|id| !touched.is_written(id) && !touched.is_read(id))
    }

    /// The groups in their new order.
    fn order(&self, groups: &[Range<usize>]) -> Vec<usize> {
        let op = |group: &Range<usize>| self.graph[self.nodes[group.start]].op;
        let is_empty = |group: &Range<usize>| op(group).is_view() || op(group) == Op::None;
        let mut order = Vec::with_capacity(groups.len());
        let mut used = vec![false; groups.len()];
        let [mut running, mut waiting] = [0; 2].map(|_| Touched::new(self.graph.tensors.len()));
        for (at, group) in groups.iter().enumerate() {
            if used[at] {
                continue;
            }
            if !is_empty(group) && !self.may_join(&running, group) {
                waiting.reset();
                self.add(&mut waiting, group);
                for next in at + 1..(at + AHEAD).min(groups.len()) {
                    if used[next] {
                        continue;
                    }
                    let later = &groups[next];
                    if !may_move(op(later)) {
                        break;
                    }
                    if (is_empty(later) || self.may_join(&running, later)) && self.may_join(&waiting, later) {
                        self.add(&mut running, later);
                        order.push(next);
                        used[next] = true;
                    } else {
                        self.add(&mut waiting, later);
                    }
                }
                running.reset();
            }
            self.add(&mut running, group);
            order.push(at);
        }
        order
    }
}

/// Operations that others may be moved across.
const fn may_move(op: Op) -> bool {
    matches!(
        op,
        Op::MulMat
            | Op::MulMatId
            | Op::Rope
            | Op::Norm
            | Op::RmsNorm
            | Op::GroupNorm
            | Op::L2Norm
            | Op::SumRows
            | Op::SsmConv
            | Op::SsmScan
            | Op::Clamp
            | Op::Tri
            | Op::Diag
            | Op::Mul
            | Op::Add
            | Op::Sub
            | Op::Div
            | Op::Glu
            | Op::Scale
            | Op::Unary
            | Op::GetRows
            | Op::SetRows
            | Op::Set
            | Op::Cpy
            | Op::Cont
            | Op::Repeat
            | Op::None
    ) || op.is_view()
}
