//! The caches of Ollama's own engine. For models that require it, the estimator decides the layout, but the allocation
//! follows these rules.
//! Source: package `kvcache` and the models of package `model`, Ollama, August 2025 and May 2026.

mod kinds;

use super::graph_size::{ModelFacts, OllamaRelease};
use super::id::EngineError;
use crate::model::Model;
use crate::plan::{OwnCache, OwnCacheKind, OwnCaches};
use crate::settings::{CacheType, FlashAttn, InEffect};
use crate::units::Bytes;
use kinds::BlockCache;

/// The number of cells is a multiple of this.
const PADDING: u64 = 256;
/// The same in August 2025 without flash attention.
const PADDING_2025: u64 = 32;
/// In August 2025, the rows of a mask for flash attention are a multiple of this.
const MASK_ROWS_2025: u64 = 64;
/// Maximum number of checkpoints of a recurrent state per sequence.
const CHECKPOINTS: u64 = 24;

/// The parameters of a cache's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Tokens of context per sequence.
    pub context: u64,
    /// Sequences.
    pub sequences: u64,
    /// Tokens of the largest batch.
    pub batch: u64,
    /// The number of cells is a multiple of this.
    pub padding: u64,
}

impl Capacity {
    /// Cells of a cache of all tokens.
    pub fn causal(&self) -> u64 {
        self.padded(self.context.saturating_mul(self.sequences))
    }

    /// Tokens kept per sequence, and cells, for attention over `window` tokens in a model that asks for `memory`
    /// tokens. A context that is no longer is kept entirely.
    pub fn window(&self, window: u64, memory: Option<u64>) -> (u64, u64) {
        let mut remembered = memory.unwrap_or(0).max(window);
        if self.sequences > 1 {
            remembered = remembered.max(window.saturating_add(1));
        }
        if remembered >= self.context {
            return (self.context, self.causal());
        }
        // one batch, shared by all sequences, needs cells in addition to the remembered tokens
        (remembered, self.padded(self.sequences.saturating_mul(remembered).saturating_add(self.batch)))
    }

    fn padded(&self, cells: u64) -> u64 {
        cells.checked_next_multiple_of(self.padding).unwrap_or(u64::MAX)
    }
}

/// The caches that the Ollama engine of `release` would allocate for `model` with the settings in effect, whether the
/// model requires that engine or not.
///
/// # Errors
/// When the header lacks a key that Ollama requires.
pub(super) fn of(release: OllamaRelease, model: &Model, effect: &InEffect) -> Result<OwnCaches, EngineError> {
    Ok(caches(model, &ModelFacts::of(model, release)?, effect))
}

/// The caches that the engine allocates for `model` with the settings in effect.
pub(super) fn caches(model: &Model, facts: &ModelFacts, effect: &InEffect) -> OwnCaches {
    let flash = effect.flash_attn == FlashAttn::On;
    let older = facts.release == OllamaRelease::August2025;
    let capacity = Capacity {
        context: effect.ctx,
        sequences: effect.parallel,
        batch: effect.batch,
        padding: if older && !flash { PADDING_2025 } else { PADDING },
    };
    let layers: Vec<OwnCache> =
        kinds::blocks(model, facts).iter().map(|block| cache(block, &capacity, effect.cache_type_k)).collect();
    let rows = if older && flash {
        effect.batch.checked_next_multiple_of(MASK_ROWS_2025).unwrap_or(u64::MAX)
    } else {
        effect.batch
    };
    let mut own = OwnCaches {
        bytes: layers.iter().map(OwnCache::bytes).sum(),
        checkpoints: layers.iter().map(|layer| layer.checkpoints).sum(),
        masks: Bytes::ZERO,
        layers,
    };
    let attends =
        |kind: OwnCacheKind| matches!(kind, OwnCacheKind::Causal | OwnCacheKind::Window { .. } | OwnCacheKind::Chunked);
    let masks = own.kinds().into_iter().filter(|(_, cache)| attends(cache.kind));
    own.masks = masks.map(|(_, cache)| size(mask_type(flash), cache.cells.saturating_mul(rows))).sum();
    own
}

const fn mask_type(flash: bool) -> CacheType {
    if flash { CacheType::F16 } else { CacheType::F32 }
}

fn cache(block: &BlockCache, capacity: &Capacity, ty: CacheType) -> OwnCache {
    let of = |kind, cells: u64| OwnCache {
        kind,
        cells,
        k: size(ty, block.k.saturating_mul(cells)),
        v: size(ty, block.v.saturating_mul(cells)),
        ..OwnCache::default()
    };
    match block.keeps {
        kinds::CacheKind::Nothing => OwnCache::default(),
        kinds::CacheKind::Everything => of(OwnCacheKind::Causal, capacity.causal()),
        kinds::CacheKind::Chunks => of(OwnCacheKind::Chunked, capacity.causal()),
        kinds::CacheKind::Window { window, memory } => {
            let (memory, cells) = capacity.window(window, memory);
            let kind =
                if memory == capacity.context { OwnCacheKind::Causal } else { OwnCacheKind::Window { window, memory } };
            of(kind, cells)
        }
        kinds::CacheKind::Image { tokens } => OwnCache {
            kind: OwnCacheKind::Encoder,
            cells: tokens,
            k: size(CacheType::F32, block.k.saturating_mul(tokens)),
            v: size(CacheType::F32, block.v.saturating_mul(tokens)),
            ..OwnCache::default()
        },
        kinds::CacheKind::State { elements } => {
            let state = size(CacheType::F32, elements.saturating_mul(capacity.sequences));
            OwnCache {
                kind: OwnCacheKind::Recurrent,
                state,
                checkpoints: Bytes(state.0.saturating_mul(CHECKPOINTS)),
                ..OwnCache::default()
            }
        }
    }
}

/// Bytes of `elements` in format `ty`.
fn size(ty: CacheType, elements: u64) -> Bytes {
    let format = ty.format();
    Bytes(elements.div_ceil(format.block()).saturating_mul(format.block_bytes()))
}

#[cfg(test)]
mod tests;
