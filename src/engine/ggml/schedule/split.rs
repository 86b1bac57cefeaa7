//! The fifth pass: cut the graph where the device changes, and copy what crosses.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::{PIPELINE_COPIES, Schedule, Scheduler, Split};
use crate::engine::ggml::Workbench;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Buffer, Id, Op, Place, Tensor};

/// Some operations, cut where the device changes.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The first goes on from before them.
    pub splits: Vec<Split>,
    /// What crosses into the splits here for the first time.
    pub inputs: Vec<Id>,
    /// Operands that are read as copies: operation, which operand, and what the copy is of.
    pub rewired: Vec<(Id, usize, Id)>,
}

/// Where a cut begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Beginning {
    /// The device of the split before.
    pub place: Place,
    /// What has crossed into that.
    pub crossing: usize,
}

/// Which tensors are copied to which devices.
pub type Crossed = HashSet<(Id, Place)>;

impl Cut {
    /// Where the next begins, if this was at `beginning`. How much has crossed matters where anybody counts, else whether
    /// anything has.
    pub fn end(&self, beginning: &Beginning, counts: bool) -> Beginning {
        let Some(last) = self.splits.last() else { return beginning.clone() };
        let before = if self.splits.len() == 1 { beginning.crossing } else { 0 };
        let crossing = before + last.inputs.len();
        Beginning { place: last.place, crossing: if counts { crossing } else { crossing.min(1) } }
    }
}

/// The copies that exist: for every tensor and device, the first of them.
#[derive(Debug)]
pub struct Copies {
    first: HashMap<(Id, Place), Id>,
    /// Copies of each: several for a pipeline.
    pub count: usize,
}

impl Copies {
    /// None yet, with room for some.
    pub fn new(pipeline: bool, room: usize) -> Self {
        Self { first: HashMap::with_capacity(room), count: if pipeline { PIPELINE_COPIES } else { 1 } }
    }

    /// The first copy of `id` for `place`; `id` itself where there is none.
    pub fn of(&self, id: Id, place: Place) -> Id {
        self.first.get(&(id, place)).copied().unwrap_or(id)
    }

    /// Whether there are any.
    pub fn has(&self, id: Id, place: Place) -> bool {
        self.first.contains_key(&(id, place))
    }

    /// Makes those of `id` for `place`.
    pub fn make(&mut self, id: Id, place: Place, graph: &mut Graph, schedule: &mut Schedule) -> Id {
        let first = schedule.copy(graph, id, place, self.count);
        self.first.insert((id, place), first);
        first
    }
}

impl Scheduler<'_> {
    /// Pass 5, and the order in which the allocator will walk.
    pub(super) fn split(&self, graph: &mut Graph, places: Vec<Place>, bench: &mut Workbench) -> Schedule {
        // each block has a crossing or two
        let mut crossed = Crossed::with_capacity(graph.nodes.len() / 16);
        let beginning = self.beginning(graph, &places);
        let all = (0..graph.nodes.len(), 0..graph.computed.len());
        let Cut { splits, inputs, rewired } = self.cut(graph, &places, &mut crossed, &beginning, all);
        let mut copies = Copies::new(self.pipeline, inputs.len());
        let (tensors, kept) = (graph.tensors.len(), std::mem::take(&mut bench.schedule));
        let mut schedule = Schedule { places, splits, inputs, rewired, copies: copies.count, tensors, ..kept };
        for at in 0..schedule.splits.len() {
            let split = schedule.splits[at].clone();
            for input in split.inputs {
                copies.make(schedule.inputs[input], split.place, graph, &mut schedule);
            }
        }
        let multiplied = if self.pipeline { self.multiplied(graph) } else { Vec::new() };
        schedule.rewire(graph, &copies);
        for input in multiplied {
            schedule.multiply(input, graph);
        }
        self.order(graph, &mut schedule, &copies);
        schedule
    }

    /// The beginning of the first split.
    pub fn beginning(&self, graph: &Graph, places: &[Place]) -> Beginning {
        let first = graph.computed.first().map(|id| places[id.index()]);
        Beginning { place: first.unwrap_or(self.cpu()), crossing: 0 }
    }

    /// Cuts consecutive nodes, and of them those that are computed; what is `crossed` already needs no other copy.
    pub fn cut(
        &self,
        graph: &Graph,
        places: &[Place],
        crossed: &mut Crossed,
        beginning: &Beginning,
        (nodes, computed): (Range<usize>, Range<usize>),
    ) -> Cut {
        let mut cut = Cut::default();
        let mut node = nodes.start;
        let mut split = Split { place: beginning.place, nodes: node..node, inputs: 0..0 };
        let mut before = beginning.crossing;
        for &id in &graph.computed[computed] {
            while graph.nodes[node] != id {
                node += 1;
            }
            let place = places[id.index()];
            let crossing = before + cut.inputs.len() - split.inputs.start;
            let crowded = || {
                Self::brings_weights(graph, places, id, place)
                    || (self.rules.most_inputs == Some(crossing)
                        && Self::brings_more(graph, places, crossed, id, place))
            };
            if place != split.place || (crossing > 0 && crowded()) {
                (split.nodes.end, split.inputs.end) = (node, cut.inputs.len());
                let next = Split { place, nodes: node..node, inputs: split.inputs.end..split.inputs.end };
                cut.splits.push(std::mem::replace(&mut split, next));
                before = 0;
            }
            for (operand, &source) in graph.slots(id).iter().enumerate() {
                if !source.is_some() || !Self::is_away(graph, places, source, place) {
                    continue;
                }
                if crossed.insert((source, place)) {
                    cut.inputs.push(source);
                }
                cut.rewired.push((id, operand, source));
            }
        }
        (split.nodes.end, split.inputs.end) = (nodes.end, cut.inputs.len());
        cut.splits.push(split);
        cut
    }

    /// Whether `id` needs weights from elsewhere: a new split lets them take the bytes of those brought before.
    fn brings_weights(graph: &Graph, places: &[Place], id: Id, place: Place) -> bool {
        graph.sources(&graph[id]).any(|source| {
            matches!(graph[source].buffer, Buffer::Weights(_)) && Self::is_away(graph, places, source, place)
        })
    }

    /// Whether `id` needs a copy that does not exist yet.
    fn brings_more(graph: &Graph, places: &[Place], crossed: &Crossed, id: Id, place: Place) -> bool {
        let mut sources = graph.sources(&graph[id]);
        sources.any(|source| !crossed.contains(&(source, place)) && Self::is_away(graph, places, source, place))
    }

    /// Whether `place` needs a copy of `source`.
    fn is_away(graph: &Graph, places: &[Place], source: Id, place: Place) -> bool {
        places[source.index()] != place && !Self::readable(graph, places, source, place)
    }

    /// Operations in order, before each split its copies.
    fn order(&self, graph: &mut Graph, schedule: &mut Schedule, copies: &Copies) {
        schedule.nodes.reserve(graph.nodes.len() + 2 * schedule.inputs.len());
        for at in 0..schedule.splits.len() {
            let Split { place, nodes, inputs } = schedule.splits[at].clone();
            for input in inputs {
                schedule.enter(schedule.inputs[input], place, graph, copies);
            }
            schedule.compute(nodes, graph);
        }
        for at in 0..schedule.splits.len() {
            let Split { place, inputs, .. } = schedule.splits[at].clone();
            for input in inputs.filter(|_| self.pipeline) {
                schedule.keep(schedule.inputs[input], place, copies);
            }
        }
        schedule.leafs.extend(graph.leafs.iter().map(|id| (*id, schedule.places[id.index()])));
    }

    /// Inputs of which a pipeline keeps several.
    pub fn multiplied(&self, graph: &Graph) -> Vec<Id> {
        if self.rules.multiplies_unread_inputs { inputs(graph) } else { read_inputs(graph) }
    }
}

impl Schedule {
    /// Lets operations read copies where they must.
    pub fn rewire(&self, graph: &mut Graph, copies: &Copies) {
        for &(id, operand, source) in &self.rewired {
            graph.rewire(id, operand, copies.of(source, self.places[id.index()]));
        }
    }

    /// Copies what crosses into a split: first a reader that keeps the original alive, then the copy.
    pub fn enter(&mut self, input: Id, place: Place, graph: &mut Graph, copies: &Copies) {
        let Tensor { ne, nb, .. } = graph[input];
        let reader = graph.look(Op::None, input, ne, nb, [input]);
        self.places.push(place);
        self.originals.push(input);
        self.nodes.push((reader, self.places[input.index()]));
        self.nodes.push((copies.of(input, place), place));
    }

    /// Computes consecutive nodes.
    pub fn compute(&mut self, nodes: Range<usize>, graph: &Graph) {
        self.nodes.extend(graph.nodes[nodes].iter().map(|id| (*id, self.places[id.index()])));
    }

    /// A pipeline allocates what crosses before anything runs.
    pub fn keep(&mut self, input: Id, place: Place, copies: &Copies) {
        let first = copies.of(input, place).0;
        self.leafs.extend((first..first + copies.count as u32).map(|copy| (Id(copy), place)));
    }

    /// A pipeline keeps every input several times; the original is the first of them.
    pub fn multiply(&mut self, input: Id, graph: &mut Graph) {
        let place = self.places[input.index()];
        graph[input].output = true;
        self.leafs.push((input, place));
        let more = self.copy(graph, input, place, self.copies - 1).0;
        for copy in more..more + self.copies as u32 - 1 {
            let copy = Id(copy);
            (graph[copy].input, graph[copy].output) = (true, true);
            self.leafs.push((copy, place));
        }
    }

    /// Makes `count` copies of `source` for `place`; copies of a pipeline outlive the graph.
    fn copy(&mut self, graph: &mut Graph, source: Id, place: Place, count: usize) -> Id {
        let Tensor { ty, ne, nb, label, layer, .. } = graph[source];
        let kept = count > 1;
        let copy = Tensor { nb, label, layer, input: kept, output: kept, ..Tensor::new(ty, ne) };
        let first = Id(graph.tensors.len() as u32);
        for _ in 0..count {
            graph.add_tensor(copy);
            self.places.push(place);
            self.originals.push(source);
        }
        first
    }
}

/// The inputs of `graph`, those that no operation reads included.
fn inputs(graph: &Graph) -> Vec<Id> {
    graph.leafs.iter().copied().filter(|leaf| graph[*leaf].input).collect()
}

/// The inputs of `graph` in the order in which they are first read.
fn read_inputs(graph: &Graph) -> Vec<Id> {
    let mut read = Vec::new();
    for &id in &graph.computed {
        for source in graph.sources(&graph[id]) {
            if graph[source].input && !read.contains(&source) {
                read.push(source);
            }
        }
    }
    read
}
