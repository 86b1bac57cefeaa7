//! The graph's operations, block by block of the model.

use std::ops::Range;

use crate::engine::ggml::Graph;

/// Operations in a row that belong to one block, or to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBlock {
    /// The block; none for what comes before the first and after the last.
    pub layer: Option<usize>,
    /// Places in the graph's order.
    pub nodes: Range<usize>,
}

impl GraphBlock {
    /// `block 3`; `input` and `output` for what comes before and after.
    pub fn name(&self) -> String {
        match self.layer {
            Some(layer) => format!("block {layer}"),
            None if self.nodes.start == 0 => "input".to_owned(),
            None => "output".to_owned(),
        }
    }
}

/// Cuts `graph`'s order. A nameless operation belongs to the next that has a name: names stand at the end of a step.
pub fn blocks(graph: &Graph) -> Vec<GraphBlock> {
    let named = |at: usize| {
        let tensor = &graph[graph.nodes[at]];
        let told = !tensor.op.is_view() && !tensor.label.is_empty();
        told.then(|| usize::try_from(tensor.layer).ok())
    };
    let mut layers: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    let mut next = None;
    for at in (0..graph.nodes.len()).rev() {
        next = named(at).unwrap_or(next);
        layers[at] = next;
    }
    let mut blocks: Vec<GraphBlock> = Vec::new();
    for (at, layer) in layers.into_iter().enumerate() {
        match blocks.last_mut().filter(|block| block.layer == layer) {
            Some(block) => block.nodes.end = at + 1,
            None => blocks.push(GraphBlock { layer, nodes: at..at + 1 }),
        }
    }
    blocks
}
