//! What each kind of block caches.

use serde::Serialize;

use crate::engine::ggml::Type;
use crate::engine::llama_cpp::cache::{KvCache, KvLayer, Memory};
use crate::model::Model;
use crate::plan::{OwnCache, OwnCaches, Plan};
use crate::units::Bytes;

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
#[allow(clippy::upper_case_acronyms, reason = "established names")]
pub enum Attention {
    /// Every query head has its own.
    MHA,
    /// Groups of query heads share one.
    GQA,
    /// All query heads share one.
    MQA,
    /// All query heads share one compressed row, from which K and V are expanded.
    MLA,
}

impl Attention {
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
pub(in crate::teach) const fn row(ty: Type, elements: u64) -> u64 {
    (elements / ty.block()).saturating_mul(ty.block_bytes())
}

/// The kinds of blocks, by llama.cpp's cache layout if it supports the model.
pub(super) fn kinds(model: &Model, plan: &Plan, memory: Option<&Memory>, own: Option<&OwnCaches>) -> Vec<BlockKind> {
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
                window: matches!(own.kind, crate::plan::OwnCacheKind::Window { .. }),
            }
        }
        Some(own) if own.state > Bytes::ZERO => {
            BlockMemory::State { bytes: Bytes(own.state.0 / plan.settings.parallel.max(1)) }
        }
        _ => BlockMemory::Nothing,
    }
}
