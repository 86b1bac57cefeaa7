//! Courses of graphs of one pattern, found out section by section. What is taken and given in a section depends on where its
//! operations are computed, on what it finds, and on what is still wanted after it: much the same in all blocks that are
//! alike, and under most placements, for these differ in a few blocks. So all of that is worked out once, and looked up from
//! then on.

mod ahead;
mod cutting;
mod door;
mod kind;
mod order;
mod walking;
mod whereabouts;

use std::ops::Range;

use super::allocate::{Claim, Course};
use super::graph::Graph;
use super::number::Number;
use super::schedule::{Scheduler, Split};
use super::tensor::Id;
use super::workbench::Workbench;
use door::Door;
use kind::{Kind, Played};
use order::Order;
pub use whereabouts::Whereabouts;

/// Graphs of one pattern, on the same devices, by one scheduler.
#[derive(Debug)]
pub struct Sections {
    all: Vec<Section>,
    /// What sections that are alike have in common.
    kinds: Vec<Kind>,
    /// The same of what is between them.
    doors: Vec<Door>,
    order: Order,
    /// What is given without bytes.
    inputs: Vec<Id>,
    /// Those of which a pipeline keeps several.
    multiplied: Vec<Id>,
    /// Where the tensors of each section were last, and in which turn that was.
    placings: Vec<(u32, usize)>,
}

/// Consecutive operations: about a block.
#[derive(Debug, Default)]
struct Section {
    nodes: Range<usize>,
    computed: Range<usize>,
    /// Every tensor that they have to do with, in the order in which they have.
    touched: Vec<Id>,
    /// Those of its nodes that look at a tensor in another way.
    views: Vec<View>,
    /// Operations of which an operand depends on the placement, and its place among the graph's.
    exchanged: Vec<(Id, usize)>,
    kind: usize,
    /// Before it, and behind it.
    doors: [usize; 2],
    /// From where tensors are counted here, and behind it.
    bases: [u32; 2],
}

/// A node that looks at a tensor in another way.
#[derive(Clone, Copy, Debug)]
struct View {
    id: Id,
    of: Id,
    /// By anybody, anywhere.
    is_read: bool,
}

/// Weights of which, depending on the placement, an operation reads one or another.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// Operations, and which of their operands that is.
    pub readers: &'a [(Id, usize, usize)],
    /// The weights.
    pub ids: &'a [Id],
}

/// A graph under a placement.
#[derive(Debug)]
pub struct Settled<'a> {
    /// The graph, which is left as it was.
    pub graph: &'a mut Graph,
    /// Who needs what, before anything is scheduled.
    pub claims: &'a [Claim],
    /// Where its tensors are.
    pub whereabouts: &'a mut Whereabouts,
}

/// A split that begins in a section, and all that crosses into it.
type Entry = (Split, Vec<Number>);

impl Sections {
    /// Of graphs like this one, whose claims are these.
    pub fn new<'a>(
        graph: &Graph,
        claims: &[Claim],
        scheduler: &Scheduler<'_>,
        exchanged: impl Iterator<Item = Exchanged<'a>>,
    ) -> Self {
        let exchanged: Vec<_> = exchanged.collect();
        let (order, mut sections) = Order::new(graph, claims, &exchanged);
        let mut doors = Alike::default();
        let at_doors: Vec<usize> = order.known(claims).into_iter().map(|known| doors.which(known)).collect();
        for (section, at_doors) in sections.iter_mut().zip(at_doors.windows(2)) {
            section.doors = [at_doors[0], at_doors[1]];
        }
        let mut kinds = Alike::default();
        for (at, section) in sections.iter_mut().enumerate() {
            section.kind = kinds.which(order.traits(at, section, graph));
        }
        let kinds = kinds.all.iter().map(|_| Kind::default()).collect();
        let doors = doors.all.into_iter().map(Door::new).collect();
        let inputs = graph.leafs.iter().copied().filter(|id| claims[id.index()].wants()).collect();
        let multiplied = if scheduler.pipeline { scheduler.multiplied(graph) } else { Vec::new() };
        let placings = vec![(0, 0); sections.len()];
        Self { all: sections, kinds, doors, order, inputs, multiplied, placings }
    }

    /// Where tensors are, section by section: nothing is known of that as yet.
    pub fn whereabouts(&self, graph: &Graph, claims: &[Claim]) -> Whereabouts {
        Whereabouts::new(graph, claims, &self.all)
    }

    /// Who takes and gives what.
    pub fn course(&mut self, scheduler: &Scheduler<'_>, settled: &mut Settled<'_>, bench: &mut Workbench) -> Course {
        // these outlive the graph
        self.multiplied.iter().for_each(|id| settled.graph[*id].output = true);
        let cuts = self.cut_all(scheduler, settled);
        let ahead = self.look_ahead_of_all(&cuts, scheduler.pipeline);
        let mut course = Course::new(scheduler.backends.len(), &self.order.tensors);
        let (mut state, turnovers) = self.begin(&cuts, &ahead, scheduler, settled, bench);
        course.go_on(0, &turnovers);
        for at in 0..self.all.len() {
            let base = self.all[at].bases[0];
            let Played { next, turnovers } = self.play(at, (state, cuts[at], ahead[at + 1]), scheduler, settled, bench);
            course.go_on(base, turnovers);
            state = *next;
        }
        self.multiplied.iter().for_each(|id| settled.graph[*id].output = false);
        course
    }
}

/// What is told apart, each once.
#[derive(Debug)]
struct Alike<T> {
    all: Vec<T>,
}

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

impl<T: PartialEq> Alike<T> {
    /// Which of those that are known this is.
    fn which(&mut self, one: T) -> usize {
        self.all.iter().position(|known| *known == one).unwrap_or_else(|| {
            self.all.push(one);
            self.all.len() - 1
        })
    }
}

impl<T> std::ops::Index<usize> for Alike<T> {
    type Output = T;
    fn index(&self, which: usize) -> &T {
        &self.all[which]
    }
}
