//! What the Ollama engine's own caches take, whatever was estimated for them.

use serde::Serialize;

use crate::units::{Bytes, Tokens};

/// The caches that the Ollama engine allocates for a model, block by block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnCaches {
    /// All blocks together, without checkpoints.
    pub bytes: Bytes,
    /// The most that checkpoints of recurrent states come to.
    pub checkpoints: Bytes,
    /// The attention masks of the largest batch; they are a part of the graph.
    pub masks: Bytes,
    /// One per block.
    pub layers: Vec<OwnCache>,
}

/// One block's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnCache {
    /// What it keeps.
    #[serde(flatten)]
    pub kind: OwnCacheKind,
    /// Cells, those of all sequences together; a cell is one token's keys and values.
    pub cells: u64,
    /// Keys.
    pub k: Bytes,
    /// Values.
    pub v: Bytes,
    /// Recurrent state, of all sequences together.
    pub state: Bytes,
    /// The most that checkpoints of that state come to.
    pub checkpoints: Bytes,
}

/// What a cache keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OwnCacheKind {
    /// Nothing: the block has no cache, or looks into another one's.
    #[default]
    None,
    /// Every token of every sequence.
    Causal,
    /// The last tokens of every sequence, and one batch.
    Window {
        /// Tokens that attention looks back.
        window: u64,
        /// Tokens that are remembered per sequence.
        memory: u64,
    },
    /// Every token, though attention only looks into its own chunk.
    Chunked,
    /// What was seen in an image; it is there once the first image came.
    Encoder,
    /// A state of one size, however many tokens came.
    Recurrent,
}

impl OwnCache {
    /// Keys, values and state.
    pub fn bytes(&self) -> Bytes {
        self.k + self.v + self.state
    }
}

impl OwnCaches {
    /// What the blocks keep, kind by kind in the order of the first block of each: how many blocks, and one of them.
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

    /// How they differ from an estimate of `estimated` bytes, in one sentence.
    pub fn sentence(&self, estimated: Bytes) -> String {
        let kinds = self.kinds().into_iter().filter(|(_, kind)| kind.kind != OwnCacheKind::None);
        let kinds: Vec<String> = kinds.map(|(count, kind)| format!("{count} × {}", kind.description())).collect();
        let against = match self.bytes.cmp(&estimated) {
            std::cmp::Ordering::Equal => "as estimated".to_owned(),
            _ => format!("not the estimated {estimated}"),
        };
        let checkpoints = match self.checkpoints {
            Bytes::ZERO => String::new(),
            most => format!(", plus up to {most} of checkpoints"),
        };
        format!(
            "Ollama's own engine allocates {} of KV cache, {against}: {}{checkpoints}",
            self.bytes,
            kinds.join(", ")
        )
    }
}

impl OwnCache {
    /// What it keeps, in a few words.
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
