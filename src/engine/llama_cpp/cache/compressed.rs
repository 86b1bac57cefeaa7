//! `DeepSeek` 4's caches: the latest tokens as they are, and all tokens compressed, 4 or 128 to a row
//! (`llama-kv-cache-dsv4.cpp`, 0.1.161).

use super::super::context::Cparams;
use super::super::hparams::Indexer;
use super::super::loaded::LoadedModel;
use super::super::placement::Placement;
use super::{KvCache, KvLayer, Memory, largest_rotation, window_cells};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{BackendId, Tensor};

/// Cells of a compressed cache are padded to a multiple of this.
const CELLS: u64 = 256;

/// The caches of compressed rows.
#[derive(Clone, Debug)]
pub struct CompressedCaches {
    /// Four tokens to a row (CSA), of which attention reads those that an indexer chooses.
    pub csa: Compressor,
    /// The keys of that indexer, compressed alike.
    pub lid: Compressor,
    /// 128 tokens to a row (HCA).
    pub hca: Compressor,
}

/// A cache of compressed rows, and the states of what compresses them.
#[derive(Clone, Debug)]
pub struct Compressor {
    /// Tokens to a row.
    pub ratio: u64,
    /// Every row also takes in the tokens of the one before.
    pub overlaps: bool,
    /// The rows.
    pub keys: KvCache,
    /// Tokens whose row is not complete, as values and scores.
    pub states: CompressorStates,
}

/// Tokens that are kept until their row is complete: two tensors per block, values and scores.
#[derive(Clone, Debug)]
pub struct CompressorStates {
    /// Elements per token.
    pub width: u64,
    /// Tokens of a sequence.
    pub tokens: u64,
    /// Sequences with their own states.
    pub streams: u64,
    /// The current states, and snapshots to roll back to.
    pub states: u64,
    /// Per block, their device.
    pub layers: Vec<Option<BackendId>>,
}

impl CompressedCaches {
    /// All of them.
    pub fn all(&self) -> [&Compressor; 3] {
        [&self.csa, &self.lid, &self.hca]
    }

    /// The same without any rows.
    pub(super) fn only_states(&self) -> Self {
        let bare =
            |of: &Compressor| Compressor { keys: KvCache { layers: Vec::new(), ..of.keys.clone() }, ..of.clone() };
        Self { csa: bare(&self.csa), lid: bare(&self.lid), hca: bare(&self.hca) }
    }
}

impl Compressor {
    /// The parts of a token's state: for its own row, and where rows overlap for the next one.
    pub const fn halves(&self) -> u64 {
        if self.overlaps { 2 } else { 1 }
    }
}

impl CompressorStates {
    /// Rows of the current states.
    pub const fn rows(&self) -> u64 {
        self.tokens * self.streams
    }

    /// The tensor of the values, or that of the scores.
    pub fn tensor(&self) -> Tensor {
        Tensor::new(Type::F32, [self.width, self.tokens, self.streams * self.states, 1])
    }

    pub(super) fn of_block(&self, il: usize) -> u64 {
        let has = self.layers.get(il).copied().flatten().is_some();
        if has { 2 * self.tensor().bytes() } else { 0 }
    }

    /// Every tensor and its device.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (BackendId, Tensor)> + '_ {
        self.layers.iter().flatten().flat_map(|place| [(*place, self.tensor()); 2])
    }
}

impl Memory {
    /// The caches of a model with compressed rows. Sequences never share cells.
    pub(super) fn compressing(
        model: &LoadedModel,
        indexer: &Indexer,
        window: u64,
        context: &Cparams,
        placement: &Placement,
    ) -> Self {
        let LoadedModel { hparams, release, .. } = model;
        let context = &Cparams { kv_unified: false, ..context.clone() };
        let keys =
            |size: u64, holds: &dyn Fn(usize) -> bool| KvCache::new(model, context, placement, size, holds).only_keys();
        let compressor = |ratio: u64, size: Option<u64>| {
            let overlaps = ratio == 4;
            let holds = |il: usize| hparams.compress_ratios[il] == ratio;
            let cells = context.n_ctx_seq.div_ceil(ratio).next_multiple_of(CELLS);
            let cache = keys(cells, &holds);
            let halves = if overlaps { 2 } else { 1 };
            let place = |il: usize| if context.offload_kqv { placement.layers[il] } else { placement.cpu };
            Compressor {
                ratio,
                overlaps,
                keys: match size {
                    Some(size) => cache.of_indexer(size),
                    None => cache,
                },
                states: CompressorStates {
                    width: halves * size.unwrap_or_else(|| hparams.head_k(0)),
                    tokens: halves * ratio,
                    streams: context.n_seq_max,
                    states: 1 + context.n_rs_seq,
                    layers: (0..hparams.n_layer()).map(|il| holds(il).then(|| place(il))).collect(),
                },
            }
        };
        let compressed = CompressedCaches {
            csa: compressor(4, None),
            lid: compressor(4, Some(indexer.head_size)),
            hca: compressor(128, None),
        };
        Self {
            window: Some(keys(window_cells(window, context, release), &|_| true)),
            compressed: Some(compressed),
            n_swa: Some(window),
            ..Self::default()
        }
    }
}

impl KvCache {
    /// The same without values.
    fn only_keys(self) -> Self {
        let only = |layer: KvLayer| KvLayer { v: None, ..layer };
        Self { layers: self.layers.iter().map(|layer| layer.map(only)).collect(), rotation_v: 0, ..self }
    }

    /// The same with keys of `size` elements, always rotated.
    fn of_indexer(self, size: u64) -> Self {
        let sized = |layer: KvLayer| KvLayer { k: size, ..layer };
        let layers = self.layers.iter().map(|layer| layer.map(sized)).collect();
        Self { layers, rotation_k: largest_rotation(size), ..self }
    }
}
