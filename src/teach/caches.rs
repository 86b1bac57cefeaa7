//! The caches of a model: attention heads of its blocks, bytes per token, and how cells fill as tokens arrive.

mod page;
pub mod squares;

use serde::Serialize;

use crate::engine::ggml::Type;
use crate::engine::llama_cpp::cache::{KvCache, KvLayer, Memory};
use crate::engine::{self, EngineError, PlanRequest, llama_cpp};
use crate::model::Model;
use crate::plan::{OwnCache, OwnCacheKind, OwnCaches, PartKind, Plan};
use crate::settings::{CacheType, InEffect};
use crate::units::{Bytes, Ratio};

pub use squares::{CellFill, CellState};

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
        let loaded = engine::of(plan.engine).loads(&request.model, &request.settings);
        // of an engine that runs llama.cpp, those of the last release that would not
        let estimator = engine::estimating(plan.engine).unwrap_or(&engine::estimator::OLLAMA_024);
        let own = estimator.own_caches(&loaded, &with_context_per_sequence(plan));
        let (memory, own) = match (memory, own) {
            (Err(_), Err(error)) => return Err(error),
            (memory, own) => (memory.ok(), own.ok()),
        };
        let kinds = kinds(&request.model, plan, memory.as_ref(), own.as_ref());
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
        let first =
            if engine::estimating(plan.engine).is_some() { CacheOwner::OllamaEngine } else { CacheOwner::LlamaCpp };
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
        let bytes = owned.iter().map(|layer| Bytes(row(layer.ty_k, layer.k).saturating_mul(cells)));
        let v = owned.iter().filter_map(|layer| Some(Bytes(row(layer.ty_v, layer.v?).saturating_mul(cells))));
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

/// Blocks with equal caches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockKind {
    /// Their indices, ascending.
    pub blocks: Vec<usize>,
    /// What each of them caches.
    pub keeps: BlockMemory,
    /// Bytes of each in the plan.
    pub planned: Bytes,
    /// Bytes that llama.cpp would allocate for each.
    pub llama_cpp: Option<Bytes>,
    /// The cache that the Ollama engine would allocate for each.
    pub ollama_engine: Option<OwnCache>,
}

/// What a block caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockMemory {
    /// Keys and values of every token.
    Tokens {
        /// How query heads share them.
        attention: Attention,
        /// Query heads.
        heads: u64,
        /// KV heads.
        kv_heads: u64,
        /// Elements of K per token.
        k: u64,
        /// Elements of V per token; `None` if V is a part of K.
        v: Option<u64>,
        /// Bytes of both per token, in the types in use.
        per_token: Bytes,
        /// Cells of all sequences.
        cells: u64,
        /// Whether it is a sliding-window cache.
        window: bool,
    },
    /// A state of fixed size.
    State {
        /// Bytes per sequence.
        bytes: Bytes,
    },
    /// It uses the cache of another block.
    Shared {
        /// That block.
        owner: usize,
    },
    /// Nothing.
    Nothing,
}

/// How query heads share keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(clippy::upper_case_acronyms, missing_docs, reason = "established names, each with a sentence of its own")]
pub enum Attention {
    MHA,
    GQA,
    MQA,
    MLA,
}

impl Attention {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::MHA, Self::GQA, Self::MQA, Self::MLA];

    /// Its name, spelled out.
    pub const fn title(self) -> &'static str {
        match self {
            Self::MHA => "MHA, multi-head attention",
            Self::GQA => "GQA, grouped-query attention",
            Self::MQA => "MQA, multi-query attention",
            Self::MLA => "MLA, multi-head latent attention",
        }
    }

    /// What it is, as one sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::MHA => "Every query head has keys and values of its own.",
            Self::GQA => "Several query heads share the keys and values of one KV head, so that the cache is smaller.",
            Self::MQA => "All query heads share the keys and values of one KV head.",
            Self::MLA => {
                "The cache holds one compressed row of a token, from which the keys and values of all heads are \
                 computed."
            }
        }
    }

    fn of(heads: u64, kv_heads: u64, compressed: bool) -> Self {
        match (heads, kv_heads) {
            _ if compressed => Self::MLA,
            (heads, kv_heads) if heads == kv_heads => Self::MHA,
            (_, 1) => Self::MQA,
            _ => Self::GQA,
        }
    }
}

/// Bytes of a row of `elements`, in whole blocks.
pub(super) const fn row(ty: Type, elements: u64) -> u64 {
    (elements / ty.block()).saturating_mul(ty.block_bytes())
}

/// The kinds of blocks, by llama.cpp's cache layout if it supports the model.
fn kinds(model: &Model, plan: &Plan, memory: Option<&Memory>, own: Option<&OwnCaches>) -> Vec<BlockKind> {
    let mut kinds: Vec<BlockKind> = Vec::new();
    for block in 0..model.block_count() {
        let own_cache = own.and_then(|own| own.layers.get(block).copied());
        let kind = BlockKind {
            blocks: vec![block],
            keeps: memory.map_or_else(|| keeps_in_ollama_engine(plan, own_cache), |memory| keeps(model, memory, block)),
            planned: plan.layers.get(block).map_or(Bytes::ZERO, |layer| layer.cache),
            llama_cpp: memory.map(|memory| Bytes(memory.of_block(block))),
            ollama_engine: own_cache,
        };
        match kinds.iter_mut().find(|known| known.is_like(&kind)) {
            Some(known) => known.blocks.push(block),
            None => kinds.push(kind),
        }
    }
    kinds
}

impl BlockKind {
    fn is_like(&self, other: &Self) -> bool {
        self.keeps == other.keeps
            && (self.planned, self.llama_cpp, self.ollama_engine)
                == (other.planned, other.llama_cpp, other.ollama_engine)
    }
}

/// What llama.cpp caches for block `il`.
fn keeps(model: &Model, memory: &Memory, il: usize) -> BlockMemory {
    let found = |cache: &Option<KvCache>| {
        let cache = cache.as_ref()?;
        Some((cache.layers.get(il).copied().flatten()?, cache.size.saturating_mul(cache.streams)))
    };
    let (full, window) = (found(&memory.full), found(&memory.window));
    if let Some((layer, cells)) = full.or(window) {
        if layer.owner != il {
            return BlockMemory::Shared { owner: layer.owner };
        }
        let compressed = layer.v.is_none() && memory.compressed.is_none();
        return tokens(model, il, layer, cells, full.is_none(), compressed);
    }
    match &memory.recurrent {
        Some(states) if states.layers.get(il).copied().flatten().is_some() => {
            BlockMemory::State { bytes: Bytes(row(Type::F32, states.r) + row(Type::F32, states.s)) }
        }
        _ => BlockMemory::Nothing,
    }
}

fn tokens(model: &Model, il: usize, layer: KvLayer, cells: u64, window: bool, compressed: bool) -> BlockMemory {
    let at = |list: &[u64]| list.get(il).copied().unwrap_or(0);
    let (heads, kv_heads) = (at(&model.hyper.heads), at(&model.hyper.kv_heads));
    let v = layer.v.map_or(0, |v| row(layer.ty_v, v));
    BlockMemory::Tokens {
        attention: Attention::of(heads, kv_heads, compressed),
        heads,
        kv_heads,
        k: layer.k,
        v: layer.v,
        per_token: Bytes(row(layer.ty_k, layer.k).saturating_add(v)),
        cells,
        window,
    }
}

/// What the Ollama engine caches, if llama.cpp does not support the model.
fn keeps_in_ollama_engine(plan: &Plan, own: Option<OwnCache>) -> BlockMemory {
    match own {
        Some(own) if own.cells > 0 => {
            let elements = |bytes: Bytes| {
                let format = plan.settings.cache_type_k.format();
                bytes.0 / own.cells / format.block_bytes() * format.block()
            };
            BlockMemory::Tokens {
                attention: Attention::GQA,
                heads: 0,
                kv_heads: 0,
                k: elements(own.k),
                v: Some(elements(own.v)),
                per_token: Bytes(own.bytes().0 / own.cells),
                cells: own.cells,
                window: matches!(own.kind, OwnCacheKind::Window { .. }),
            }
        }
        Some(own) if own.state > Bytes::ZERO => {
            BlockMemory::State { bytes: Bytes(own.state.0 / plan.settings.parallel.max(1)) }
        }
        _ => BlockMemory::Nothing,
    }
}
