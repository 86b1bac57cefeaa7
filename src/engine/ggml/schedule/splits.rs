//! The fifth pass: cuts the graph where the device changes, adds copies, and lets each backend optimise its splits.

use super::super::backend::{AllocDeps, SplitGraph};
use super::super::graph::Graph;
use super::super::tensor::{BackendId, Buffer, Op, Tensor, TensorId};
use super::{PIPELINE_COPIES, Schedule, Scheduler, Split, SplitInputs};

/// Operands of one operation (`GGML_MAX_SRC` in `ggml.h`, 0.1.161).
const MAX_OPERANDS: usize = 10;

/// The first copy of every tensor on every device.
struct Copies {
    first: Vec<TensorId>,
    devices: usize,
    /// Copies per tensor: several in a pipeline.
    count: usize,
}

impl Copies {
    fn of(&mut self, id: TensorId, place: BackendId) -> &mut TensorId {
        &mut self.first[id.index() * self.devices + usize::from(place)]
    }
}

impl Scheduler<'_> {
    /// Pass 5, and the order of the allocator's walk.
    pub(super) fn split(&self, graph: &mut Graph, schedule: &mut Schedule) {
        let devices = self.backends.len();
        let count = if self.pipeline { PIPELINE_COPIES } else { 1 };
        let mut copies = Copies { first: vec![TensorId::NONE; graph.tensors.len() * devices], devices, count };
        schedule.copies = count;
        let multiplied = if self.pipeline { self.multiplied(graph) } else { Vec::new() };
        let uses = graph.uses();
        self.cut(graph, schedule, &mut copies);
        let most = schedule.splits.iter().map(|split| split.inputs.len()).chain([multiplied.len()]).max();
        schedule.overflows = matches!(self.rules.split_inputs, SplitInputs::Fixed(limit) if most > Some(limit));
        for input in multiplied {
            schedule.multiply(input, graph);
        }
        let kept = self.optimise(graph, schedule, &uses);
        Self::set_order(graph, schedule, &mut copies, &kept);
    }

    /// Every backend reorders its splits, and keeps tensors longer there.
    fn optimise(&self, graph: &mut Graph, schedule: &Schedule, uses: &[u32]) -> AllocDeps {
        let (mut kept, mut numbers) = (AllocDeps::default(), Vec::new());
        for split in &schedule.splits {
            let backend = &self.backends[usize::from(split.place)];
            let (range, numbers) = (split.nodes.clone(), &mut numbers);
            let mut nodes = SplitGraph { graph: &mut *graph, range, uses, numbers };
            backend.graph_optimize(&mut nodes, &mut kept);
        }
        kept
    }

    /// Cuts the graph into splits.
    fn cut(&self, graph: &mut Graph, schedule: &mut Schedule, copies: &mut Copies) {
        let first = graph.computed.first().map(|id| schedule.places[id.index()]);
        let mut split = Split { place: first.unwrap_or(self.cpu()), nodes: 0..0, inputs: 0..0 };
        let mut node = 0;
        for at in 0..graph.computed.len() {
            let id = graph.computed[at];
            while graph.nodes[node] != id {
                node += 1;
            }
            let place = schedule.places[id.index()];
            let inputs = schedule.inputs.len() - split.inputs.start;
            let mut needs_split = || {
                Self::copies_weights(graph, schedule, id, place)
                    || (self.rules.split_inputs.is_full(inputs)
                        && Self::needs_new_copy(graph, schedule, copies, id, place))
            };
            if place != split.place || (inputs > 0 && needs_split()) {
                (split.nodes.end, split.inputs.end) = (node, schedule.inputs.len());
                let next = Split { place, nodes: node..node, inputs: split.inputs.end..split.inputs.end };
                schedule.splits.push(std::mem::replace(&mut split, next));
            }
            for operand in graph[id].src.range() {
                let source = graph.operands[operand];
                if !source.is_some() || !Self::is_away(graph, schedule, source, place) {
                    continue;
                }
                if !copies.of(source, place).is_some() {
                    *copies.of(source, place) = schedule.copy(graph, source, place, copies.count);
                    schedule.inputs.push(source);
                    schedule.input_nodes.push(node);
                    schedule.input_copies.push(*copies.of(source, place));
                }
                graph.operands[operand] = *copies.of(source, place);
            }
        }
        (split.nodes.end, split.inputs.end) = (graph.nodes.len(), schedule.inputs.len());
        schedule.splits.push(split);
    }

    /// Whether `id` reads weights of another device: a new split lets their copies reuse the memory of earlier ones.
    fn copies_weights(graph: &Graph, schedule: &Schedule, id: TensorId, place: BackendId) -> bool {
        graph.sources(&graph[id]).any(|source| {
            matches!(graph[source].buffer, Buffer::Weights(_)) && Self::is_away(graph, schedule, source, place)
        })
    }

    /// Whether `id` needs a copy that does not exist yet.
    fn needs_new_copy(graph: &Graph, schedule: &Schedule, copies: &mut Copies, id: TensorId, place: BackendId) -> bool {
        let mut sources = graph.sources(&graph[id]);
        sources.any(|source| !copies.of(source, place).is_some() && Self::is_away(graph, schedule, source, place))
    }

    /// Whether `place` needs a copy of `source`.
    fn is_away(graph: &Graph, schedule: &Schedule, source: TensorId, place: BackendId) -> bool {
        schedule.places[source.index()] != place && !Self::readable(graph, &schedule.places, source, place)
    }

    /// The operations in order; before each split its copies, each after a no-op that keeps the original alive; after an
    /// operation a no-op for what is kept until then.
    fn set_order(graph: &mut Graph, schedule: &mut Schedule, copies: &mut Copies, kept: &AllocDeps) {
        let Schedule { places, splits, inputs, nodes, leafs, .. } = schedule;
        nodes.reserve(graph.nodes.len() + 2 * inputs.len());
        for split in &*splits {
            for &input in &inputs[split.inputs.clone()] {
                let Tensor { ne, nb, .. } = graph[input];
                let reader = graph.compute_view(Op::None, input, ne, nb, [input]);
                places.push(split.place);
                nodes.push((reader, places[input.index()]));
                nodes.push((*copies.of(input, split.place), split.place));
            }
            for at in split.nodes.clone() {
                let id = graph.nodes[at];
                nodes.push((id, places[id.index()]));
                for operands in kept.until(id).chunks(MAX_OPERANDS) {
                    places.push(split.place);
                    nodes.push((graph.keep(operands), split.place));
                }
            }
        }
        // a pipeline allocates the copies before the graph runs
        let pipeline = copies.count > 1;
        for split in splits.iter().filter(|_| pipeline) {
            for &input in &inputs[split.inputs.clone()] {
                let first = copies.of(input, split.place).0;
                leafs.extend((first..first + copies.count as u32).map(|copy| (TensorId(copy), split.place)));
            }
        }
        leafs.extend(graph.leafs.iter().map(|id| (*id, places[id.index()])));
    }

    /// The inputs that a pipeline keeps several copies of.
    fn multiplied(&self, graph: &Graph) -> Vec<TensorId> {
        if self.rules.multiplies_unread_inputs { inputs(graph) } else { read_inputs(graph) }
    }
}

impl Schedule {
    /// Adds `count` copies of `source` on `place`; the copies of a pipeline outlive the graph.
    fn copy(&mut self, graph: &mut Graph, source: TensorId, place: BackendId, count: usize) -> TensorId {
        let Tensor { ty, ne, nb, label, layer, .. } = graph[source];
        let kept = count > 1;
        let copy = Tensor { nb, label, layer, input: kept, output: kept, ..Tensor::new(ty, ne) };
        let first = TensorId(graph.tensors.len() as u32);
        for _ in 0..count {
            graph.add_tensor(copy);
            self.places.push(place);
        }
        first
    }

    /// Keeps several copies of an input in a pipeline; the original is the first.
    fn multiply(&mut self, input: TensorId, graph: &mut Graph) {
        let place = self.places[input.index()];
        graph[input].output = true;
        self.leafs.push((input, place));
        let more = self.copy(graph, input, place, self.copies - 1).0;
        for copy in more..more + self.copies as u32 - 1 {
            let copy = TensorId(copy);
            (graph[copy].input, graph[copy].output) = (true, true);
            self.leafs.push((copy, place));
        }
    }
}

/// The inputs of `graph`, including unread ones.
pub(super) fn inputs(graph: &Graph) -> Vec<TensorId> {
    graph.leafs.iter().copied().filter(|leaf| graph[*leaf].input).collect()
}

/// The inputs of `graph` in order of first use.
fn read_inputs(graph: &Graph) -> Vec<TensorId> {
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
