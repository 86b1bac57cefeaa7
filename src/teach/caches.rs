//! What a model remembers: its blocks' heads to scale, what a token takes in each, and how the cells fill as tokens come.

mod fill;
mod heads;
mod printout;

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::engine::llama_cpp::cache::{KvCache, Memory};
use crate::engine::{self, EngineError, llama_cpp};
use crate::plan::{OwnCache, OwnCacheKind, OwnCaches, Plan};
use crate::settings::{CacheType, InEffect};
use crate::units::{Bytes, Ratio};

pub use fill::{CellFill, CellState};
pub use heads::{Attention, BlockKind, BlockMemory};

/// The page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachesPage {
    /// Blocks that remember alike, in the order of the first of each kind.
    pub kinds: Vec<BlockKind>,
    /// What fills as tokens come: llama.cpp's caches, then those of the Ollama engine.
    pub stores: Vec<CellCache>,
    /// Number formats, and what the caches would take in each.
    pub formats: Vec<CacheFormat>,
    /// Sequences at once.
    pub sequences: u64,
    /// Tokens of context per sequence.
    pub context: u64,
    /// The sequences share these tokens instead of having so many each.
    pub unified: bool,
    /// What the plan counts for all caches.
    pub planned: Bytes,
    /// What llama.cpp would allocate for these knobs; none where it cannot read the model.
    pub llama_cpp: Option<Bytes>,
    /// What the Ollama engine would, whether or not it runs the model; none where it cannot read it.
    pub ollama_engine: Option<Bytes>,
}

/// A cache whose cells fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellCache {
    /// Whose it is.
    pub whose: CacheOwner,
    /// Blocks that have such a one.
    pub blocks: u64,
    /// Cells of one stream.
    pub size: u64,
    /// Streams: sequences with cells of their own; one where all share them.
    pub streams: u64,
    /// Sequences.
    pub sequences: u64,
    /// Tokens that attention looks back; none where it sees all.
    pub window: Option<u64>,
    /// Bytes of it in all those blocks.
    pub bytes: Bytes,
}

/// Whose cache it is.
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

/// A number format of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheFormat {
    /// The format.
    pub ty: CacheType,
    /// Elements that are packed together.
    pub block: u64,
    /// Bytes of such a pack.
    pub bytes: u64,
    /// The size of all KV caches, as llama.cpp allocates them, beside what f16 takes.
    pub share: Ratio,
    /// K or V is in it now.
    pub in_use: bool,
}

impl CachesPage {
    /// The caches of `plan`, the engine's answer to `request`.
    ///
    /// # Errors
    /// When neither engine can read what the model remembers.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        let memory = llama_cpp::cache_layout(&request.model, plan, &request.settings);
        let own = engine::of(plan.engine).own_caches(&request.model, &as_ollama_is_asked(plan));
        let (memory, own) = match (memory, own) {
            (Err(_), Err(error)) => return Err(error),
            (memory, own) => (memory.ok(), own.ok()),
        };
        let kinds = heads::kinds(&request.model, plan, memory.as_ref(), own.as_ref());
        let mut stores = Vec::new();
        if let Some(memory) = &memory {
            stores.extend(llama_stores(memory, plan));
        }
        if let Some(own) = &own {
            stores.extend(own_stores(own, plan));
        }
        // the engine in force first
        let first = if plan.engine.facts().estimates { CacheOwner::OllamaEngine } else { CacheOwner::LlamaCpp };
        stores.sort_by_key(|store| store.whose != first);
        Ok(Self {
            kinds,
            stores,
            formats: formats(plan),
            sequences: plan.settings.parallel,
            context: plan.settings.ctx_per_sequence,
            unified: plan.settings.kv_unified == Some(true),
            planned: plan.totals.cache,
            llama_cpp: memory.map(|memory| (0..request.model.block_count()).map(|il| Bytes(memory.of_block(il))).sum()),
            ollama_engine: own.map(|own| own.bytes),
        })
    }
}

/// The knobs in effect for an engine whose context is one sequence's: as many tokens in all.
fn as_ollama_is_asked(plan: &Plan) -> InEffect {
    let effect = plan.settings.clone();
    let total = plan.engine.facts().ctx_is_total;
    let ctx = if total { effect.ctx_total.div_ceil(effect.parallel.max(1)) } else { effect.ctx };
    InEffect { ctx, ..effect }
}

fn llama_stores(memory: &Memory, plan: &Plan) -> Vec<CellCache> {
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

fn own_stores(own: &OwnCaches, plan: &Plan) -> Vec<CellCache> {
    let store = |(count, cache): (usize, OwnCache)| {
        let window = match cache.kind {
            OwnCacheKind::Causal | OwnCacheKind::Chunked => None,
            OwnCacheKind::Window { window, .. } => Some(window),
            OwnCacheKind::None | OwnCacheKind::Encoder | OwnCacheKind::Recurrent => return None,
        };
        let alike = own.layers.iter().filter(|layer| (layer.kind, layer.cells) == (cache.kind, cache.cells));
        Some(CellCache {
            whose: CacheOwner::OllamaEngine,
            blocks: count as u64,
            size: cache.cells,
            // sequences share the cells
            streams: 1,
            sequences: plan.settings.parallel,
            window,
            bytes: alike.map(OwnCache::bytes).sum(),
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
