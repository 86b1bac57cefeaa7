//! The caches of Ollama's own engine, which may differ from the estimate.

use serde::Serialize;

use crate::units::{Bytes, Tokens};

/// The caches that the Ollama engine allocates for a model, block by block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnCaches {
    /// All blocks, without checkpoints.
    pub bytes: Bytes,
    /// Maximum size of all checkpoints of recurrent states.
    pub checkpoints: Bytes,
    /// The attention masks of the largest batch, which are part of the graph.
    pub masks: Bytes,
    /// One per block.
    pub layers: Vec<OwnCache>,
}

/// One block's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnCache {
    /// What it stores.
    #[serde(flatten)]
    pub kind: OwnCacheKind,
    /// Cells of all sequences; a cell holds one token's keys and values.
    pub cells: u64,
    /// Keys.
    pub k: Bytes,
    /// Values.
    pub v: Bytes,
    /// Recurrent state of all sequences.
    pub state: Bytes,
    /// Maximum size of the checkpoints of that state.
    pub checkpoints: Bytes,
}

/// What a cache stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OwnCacheKind {
    /// Nothing: the block has no cache, or uses that of another one.
    #[default]
    None,
    /// All tokens of all sequences.
    Causal,
    /// The last tokens of every sequence, and one batch.
    Window {
        /// Tokens that attention covers.
        window: u64,
        /// Tokens kept per sequence.
        memory: u64,
    },
    /// All tokens, although attention is limited to chunks.
    Chunked,
    /// The tokens of an image, allocated with the first image.
    Encoder,
    /// A state of constant size.
    Recurrent,
}

impl OwnCache {
    /// Keys, values and state.
    pub fn bytes(&self) -> Bytes {
        self.k + self.v + self.state
    }
}

impl OwnCaches {
    /// The caches grouped by kind, in order of first appearance: number of blocks, and one of them.
    pub fn kinds(&self) -> Vec<(usize, OwnCache)> {
        let mut kinds: Vec<(usize, OwnCache)> = Vec::new();
        for layer in &self.layers {
            match kinds.iter_mut().find(|(_, kind)| kind.kind == layer.kind && kind.cells == layer.cells) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, *layer)),
            }
        }
        kinds
    }

    /// The difference from an estimate of `estimated` bytes, as one sentence.
    pub fn sentence(&self, estimated: Bytes) -> String {
        let kinds = self.kinds().into_iter().filter(|(_, kind)| kind.kind != OwnCacheKind::None);
        let kinds: Vec<String> = kinds.map(|(count, kind)| format!("{count} × {}", kind.description())).collect();
        let against = match self.bytes.cmp(&estimated) {
            std::cmp::Ordering::Equal => "as estimated".to_owned(),
            _ => format!("not the estimated {estimated}"),
        };
        let checkpoints = match self.checkpoints {
            Bytes::ZERO => String::new(),
            max => format!(", plus up to {max} of checkpoints"),
        };
        format!(
            "Ollama's own engine allocates {} of KV cache, {against}: {}{checkpoints}",
            self.bytes,
            kinds.join(", ")
        )
    }
}

impl OwnCache {
    /// What it stores, in a few words.
    pub fn description(&self) -> String {
        let cells = Tokens(self.cells);
        match self.kind {
            OwnCacheKind::None => "no cache".to_owned(),
            OwnCacheKind::Causal => format!("{cells} cells, all tokens"),
            OwnCacheKind::Chunked => format!("{cells} cells, all tokens, chunked attention"),
            OwnCacheKind::Window { window, memory } if memory > window => {
                let (window, memory) = (Tokens(window), Tokens(memory));
                format!("{cells} cells for a window of {window} and a memory of {memory}")
            }
            OwnCacheKind::Window { window, .. } => format!("{cells} cells for a window of {}", Tokens(window)),
            OwnCacheKind::Encoder => format!("{cells} cells for an image"),
            OwnCacheKind::Recurrent => "recurrent state".to_owned(),
        }
    }
}
