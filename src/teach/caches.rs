//! The caches of a model: attention heads of its blocks, bytes per token, and how cells fill as tokens arrive.

mod fill;
mod heads;
mod printout;
pub mod squares;

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::engine::llama_cpp::cache::{KvCache, Memory};
use crate::engine::{self, EngineError, llama_cpp};
use crate::plan::{OwnCache, OwnCacheKind, OwnCaches, PartKind, Plan};
use crate::settings::{CacheType, InEffect};
use crate::units::{Bytes, Ratio};

pub use fill::{CellFill, CellState};
pub(super) use heads::row;
pub use heads::{Attention, BlockKind, BlockMemory};

/// The page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachesPage {
    /// Kinds of blocks by what they cache, in the order of the first block of each.
    pub kinds: Vec<BlockKind>,
    /// Caches with cells; those of the engine in use come first.
    pub stores: Vec<CellCache>,
    /// States of constant size, one of each sequence, in the same order.
    pub states: Vec<StateCache>,
    /// Cache types and their relative sizes.
    pub formats: Vec<CacheFormat>,
    /// Parallel sequences.
    pub sequences: u64,
    /// Tokens of context per sequence.
    pub context: u64,
    /// Whether the sequences share one unified KV cache of that context.
    pub unified: bool,
    /// Bytes of the model's caches in the plan.
    pub planned: Bytes,
    /// Bytes of the draft's caches in the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<Bytes>,
    /// Bytes that llama.cpp would allocate; `None` if it does not support the model.
    pub llama_cpp: Option<Bytes>,
    /// Bytes that the Ollama engine would allocate; `None` if it does not support the model.
    pub ollama_engine: Option<Bytes>,
}

/// A cache with cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellCache {
    /// The engine that it belongs to.
    pub whose: CacheOwner,
    /// Number of blocks with this cache.
    pub blocks: u64,
    /// Cells of one stream.
    pub size: u64,
    /// Streams, each with its own cells; one if all sequences share them.
    pub streams: u64,
    /// Sequences.
    pub sequences: u64,
    /// Size of the sliding window in tokens; `None` for full attention.
    pub window: Option<u64>,
    /// Bytes in all those blocks.
    pub bytes: Bytes,
}

/// The recurrent states of a model: one of each sequence, however many tokens it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateCache {
    /// The engine that it belongs to.
    pub whose: CacheOwner,
    /// Number of blocks with a state.
    pub blocks: u64,
    /// Sequences.
    pub sequences: u64,
    /// Bytes in all those blocks.
    pub bytes: Bytes,
}

impl StateCache {
    /// The states of blocks with these bytes; none without any.
    fn of(whose: CacheOwner, blocks: impl Iterator<Item = Bytes>, plan: &Plan) -> Option<Self> {
        let blocks: Vec<Bytes> = blocks.filter(|bytes| *bytes > Bytes::ZERO).collect();
        (!blocks.is_empty()).then(|| Self {
            whose,
            blocks: blocks.len() as u64,
            sequences: plan.settings.parallel.max(1),
            bytes: blocks.into_iter().sum(),
        })
    }

    /// Bytes of one sequence.
    pub fn of_sequence(&self) -> Bytes {
        Bytes(self.bytes.0 / self.sequences.max(1))
    }
}

/// The engine that a cache belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheOwner {
    /// llama.cpp's.
    LlamaCpp,
    /// The Ollama engine's.
    OllamaEngine,
}

impl CacheOwner {
    /// Its name.
    pub const fn title(self) -> &'static str {
        match self {
            Self::LlamaCpp => "llama.cpp",
            Self::OllamaEngine => "Ollama engine",
        }
    }
}

/// A type of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheFormat {
    /// The type.
    pub ty: CacheType,
    /// Elements per block.
    pub block: u64,
    /// Bytes per block.
    pub bytes: u64,
    /// Size relative to f16.
    pub share: Ratio,
    /// Whether K or V has this type now.
    pub in_use: bool,
}

impl CachesPage {
    /// The caches of `plan`, the plan of `request`.
    ///
    /// # Errors
    /// If neither llama.cpp nor the Ollama engine supports the model's caches.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        let of_draft = plan.parts.iter().filter(|part| part.kind == PartKind::Draft);
        let draft: Bytes = of_draft.flat_map(|part| &part.devices).map(|memory| memory.cache).sum();
        let memory = llama_cpp::cache_layout(&request.model, plan, &request.settings);
        let engine = engine::of(plan.engine);
        let loaded = engine.loads(&request.model, &request.settings);
        let own = engine.own_caches(&loaded, &with_context_per_sequence(plan));
        let (memory, own) = match (memory, own) {
            (Err(_), Err(error)) => return Err(error),
            (memory, own) => (memory.ok(), own.ok()),
        };
        let kinds = heads::kinds(&request.model, plan, memory.as_ref(), own.as_ref());
        let mut stores = Vec::new();
        if let Some(memory) = &memory {
            stores.extend(llama_cpp_caches(memory, plan));
        }
        if let Some(own) = &own {
            stores.extend(ollama_engine_caches(own, plan));
        }
        let blocks = 0..request.model.block_count();
        let of_llama_cpp = memory.as_ref().and_then(|memory| {
            let bytes = blocks.filter_map(|il| memory.states_of_block(il)).map(Bytes);
            StateCache::of(CacheOwner::LlamaCpp, bytes, plan)
        });
        let of_own = own
            .as_ref()
            .and_then(|own| StateCache::of(CacheOwner::OllamaEngine, own.layers.iter().map(|layer| layer.state), plan));
        let mut states: Vec<StateCache> = of_llama_cpp.into_iter().chain(of_own).collect();
        // the engine in use first
        let first = if plan.engine.facts().estimates { CacheOwner::OllamaEngine } else { CacheOwner::LlamaCpp };
        stores.sort_by_key(|store| store.whose != first);
        states.sort_by_key(|state| state.whose != first);
        Ok(Self {
            kinds,
            stores,
            states,
            formats: formats(plan),
            sequences: plan.settings.parallel,
            context: plan.settings.ctx_per_sequence,
            unified: plan.settings.kv_unified == Some(true),
            planned: plan.totals.cache - draft,
            draft: Some(draft).filter(|draft| *draft > Bytes::ZERO),
            llama_cpp: memory.map(|memory| (0..request.model.block_count()).map(|il| Bytes(memory.of_block(il))).sum()),
            ollama_engine: own.map(|own| own.bytes),
        })
    }
}

/// The settings in effect with the context per sequence, as Ollama's engine expects it, for the same total.
fn with_context_per_sequence(plan: &Plan) -> InEffect {
    let effect = plan.settings.clone();
    let total = plan.engine.facts().ctx_is_total;
    let ctx = if total { effect.ctx_total.div_ceil(effect.parallel.max(1)) } else { effect.ctx };
    InEffect { ctx, ..effect }
}

fn llama_cpp_caches(memory: &Memory, plan: &Plan) -> Vec<CellCache> {
    let window = memory.window.as_ref().map(|cache| (cache, true));
    let caches = memory.full.as_ref().map(|cache| (cache, false)).into_iter().chain(window);
    let store = |(cache, slides): (&KvCache, bool)| {
        let owned: Vec<_> =
            (0..).zip(&cache.layers).filter_map(|(il, layer)| layer.filter(|l| l.owner == il)).collect();
        let cells = cache.size.saturating_mul(cache.streams);
        let bytes = owned.iter().map(|layer| Bytes(heads::row(layer.ty_k, layer.k).saturating_mul(cells)));
        let v = owned.iter().filter_map(|layer| Some(Bytes(heads::row(layer.ty_v, layer.v?).saturating_mul(cells))));
        CellCache {
            whose: CacheOwner::LlamaCpp,
            blocks: owned.len() as u64,
            size: cache.size,
            streams: cache.streams,
            sequences: plan.settings.parallel,
            window: memory.n_swa.filter(|_| slides),
            bytes: bytes.chain(v).sum(),
        }
    };
    caches.map(store).filter(|store| store.blocks > 0).collect()
}

fn ollama_engine_caches(own: &OwnCaches, plan: &Plan) -> Vec<CellCache> {
    let store = |(count, cache): (usize, OwnCache)| {
        let window = match cache.kind {
            OwnCacheKind::Causal | OwnCacheKind::Chunked => None,
            OwnCacheKind::Window { window, .. } => Some(window),
            OwnCacheKind::None | OwnCacheKind::Encoder | OwnCacheKind::Recurrent => return None,
        };
        let same_kind = own.layers.iter().filter(|layer| (layer.kind, layer.cells) == (cache.kind, cache.cells));
        Some(CellCache {
            whose: CacheOwner::OllamaEngine,
            blocks: count as u64,
            size: cache.cells,
            // sequences share the cells
            streams: 1,
            sequences: plan.settings.parallel,
            window,
            bytes: same_kind.map(OwnCache::bytes).sum(),
        })
    };
    own.kinds().into_iter().filter_map(store).collect()
}

fn formats(plan: &Plan) -> Vec<CacheFormat> {
    let effect = &plan.settings;
    let f16 = CacheType::F16.format();
    let format = |ty: CacheType| {
        let (block, bytes) = (ty.format().block(), ty.format().block_bytes());
        let share = Ratio(bytes as f64 / (block * f16.block_bytes()) as f64);
        CacheFormat { ty, block, bytes, share, in_use: ty == effect.cache_type_k || ty == effect.cache_type_v }
    };
    CacheType::ALL.into_iter().map(format).collect()
}
