//! The graph's operations grouped by blocks of the model.

use std::ops::Range;

use crate::engine::ggml::Graph;

/// Consecutive operations of one block, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBlock {
    /// The block; `None` before the first and after the last.
    pub layer: Option<usize>,
    /// Indices into the graph's nodes.
    pub nodes: Range<usize>,
}

impl GraphBlock {
    /// `block 3`; `input` before the first block, `output` after the last.
    pub fn name(&self) -> String {
        match self.layer {
            Some(layer) => format!("block {layer}"),
            None if self.nodes.start == 0 => "input".to_owned(),
            None => "output".to_owned(),
        }
    }
}

/// Groups the nodes of `graph`. A nameless operation belongs to the next named one, as only the last tensor of a step
/// is named.
pub fn blocks(graph: &Graph) -> Vec<GraphBlock> {
    let named = |at: usize| {
        let tensor = &graph[graph.nodes[at]];
        let is_named = !tensor.op.is_view() && !tensor.label.is_empty();
        is_named.then(|| usize::try_from(tensor.layer).ok())
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
