//! What of a graph decides how it is scheduled, and who holds bytes when: all but the sizes.

use super::backend::{Backend, kinds};
use super::graph::Graph;
use super::tensor::{Buffer, Id, Tensor};

/// Graphs of the same outline under the same placement have the same schedule, and the same course.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline(Vec<u32>);

impl Outline {
    /// Of `graph`, as devices of these kinds would compute it.
    pub fn of(graph: &Graph, backends: &[Backend]) -> Self {
        let (kinds, _) = kinds(backends);
        let mut words = Vec::with_capacity(6 * graph.tensors.len());
        for tensor in &graph.tensors {
            words.extend([kind(graph, tensor), tensor.view_of.0]);
            // who takes it over although its weights are in RAM
            if graph.sources(tensor).any(|source| matches!(graph[source].buffer, Buffer::Weights(_))) {
                words.extend(kinds.iter().map(|kind| u32::from(kind.wants(tensor))));
            }
        }
        // tensors have theirs one after the other
        words.extend(graph.operands.iter().map(|id| id.0));
        for order in [&graph.nodes, &graph.leafs] {
            words.push(order.len() as u32);
            words.extend(order.iter().map(|id| id.0));
        }
        Self(words)
    }
}

/// What kind of tensor it is, its operands apart.
pub fn kind(graph: &Graph, tensor: &Tensor) -> u32 {
    u32::from(tensor.op as u8) | traits(tensor) << 8 | layouts(graph, tensor) << 16
}

/// What is true of `tensor`, and how many operands it has.
fn traits(tensor: &Tensor) -> u32 {
    let buffer = match tensor.buffer {
        Buffer::Unallocated => 0,
        Buffer::Weights(_) => 1,
        Buffer::Cache(_) => 2,
    };
    u32::from(tensor.input) | u32::from(tensor.output) << 1 | buffer << 2 | u32::from(tensor.src.count) << 4
}

/// Which operands have its layout, so that it might take their bytes over.
fn layouts(graph: &Graph, tensor: &Tensor) -> u32 {
    if !tensor.op.can_be_in_place() {
        return 0;
    }
    let same = |id: Id| id.is_some() && graph[id].same_layout(tensor);
    graph.operands[tensor.src.range()].iter().enumerate().map(|(at, id)| u32::from(same(*id)) << at).sum()
}
