//! KV caches and recurrent states: sizes, shapes and devices (`llama-kv-cache*.cpp`, `llama-memory-*.cpp`, 0.1.161).

mod compressed;

use super::architecture::Trait;
use super::context::{ContextType, Cparams};
use super::draft_target::DraftTarget;
use super::hparams::{Hparams, Indexer};
use super::loaded::LoadedModel;
use super::placement::Placement;
use super::release::ReleaseTraits;
use crate::engine::ggml::allocate::Piece;
use crate::engine::ggml::backend::Cpu;
use crate::engine::ggml::tensor::{BackendId, Tensor, row};
use crate::engine::ggml::{Backend, BackendRef, Type};
pub use compressed::{CompressedCaches, Compressor, CompressorStates};

/// The KV cache of a group of blocks.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Cells per stream.
    pub size: u64,
    /// Sequences with their own cells.
    pub streams: u64,
    /// V is stored transposed, as required without flash attention.
    pub v_transposed: bool,
    /// Per block, its part of this cache if it has one.
    pub layers: Vec<Option<KvLayer>>,
    /// The cells are those of another context's cache.
    pub shared: bool,
    /// Side of the Hadamard matrix that rotates K before it is quantised; 0 for none.
    pub rotation_k: u64,
    /// The same for V.
    pub rotation_v: u64,
}

/// One block's cache.
#[derive(Clone, Copy, Debug)]
pub struct KvLayer {
    /// The block that owns it: an earlier one if caches are shared.
    pub owner: usize,
    /// The device.
    pub place: BackendId,
    /// Format of K.
    pub ty_k: Type,
    /// Format of V.
    pub ty_v: Type,
    /// Elements of K per token.
    pub k: u64,
    /// Elements of V per token; none if V is a part of K.
    pub v: Option<u64>,
}

/// States of recurrent blocks.
#[derive(Clone, Debug)]
pub struct Recurrent {
    /// Sequences with their own states.
    pub sequences: u64,
    /// States of each sequence: the current one, and snapshots to roll back to.
    pub states: u64,
    /// Elements of the rolling state.
    pub r: u64,
    /// Elements of the recurrent state.
    pub s: u64,
    /// The block with a table of n-grams, and the elements of its rolling state.
    pub ngrams: Option<(usize, u64)>,
    /// Per block, the device of its states.
    pub layers: Vec<Option<BackendId>>,
}

/// All caches and states of a model.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// KV cache of blocks with full attention.
    pub full: Option<KvCache>,
    /// KV cache of blocks with a sliding window.
    pub window: Option<KvCache>,
    /// Keys of the indexer of sparse attention.
    pub indexer: Option<KvCache>,
    /// Caches of compressed rows, and the states of what compresses them.
    pub compressed: Option<CompressedCaches>,
    /// States of recurrent blocks.
    pub recurrent: Option<Recurrent>,
    /// Window size in tokens.
    pub n_swa: Option<u64>,
}

impl Memory {
    /// Lays out the caches and states of `model` for `context`, which a draft may share with its `target`.
    pub fn new(
        model: &LoadedModel,
        context: &Cparams,
        placement: &Placement,
        target: Option<&DraftTarget<'_>>,
    ) -> Self {
        let LoadedModel { hparams, release, family, .. } = model;
        let architecture = family.architecture;
        if architecture.has(Trait::SharesPartnersCaches) {
            return Self::shared(hparams, target);
        }
        let drafts = context.ctx_type == ContextType::Mtp;
        if let (Some(indexer), Some(window), false, false) =
            (&hparams.indexer, hparams.n_swa, hparams.compress_ratios.is_empty(), drafts)
        {
            return Self::compressing(model, indexer, window, context, placement);
        }
        let is_recurrent =
            architecture.has(Trait::Recurrent) || architecture.has(Trait::Hybrid) || hparams.is_recr.contains(&true);
        let recurrent = (is_recurrent && !drafts).then(|| Recurrent::new(hparams, context, placement));
        if architecture.has(Trait::Recurrent) || hparams.reads_only {
            return Self { recurrent, ..Self::default() };
        }
        let all = architecture.caches_mtp_blocks.contain(release) || hparams.has_router_block;
        let attends = |il: usize| {
            let is_mtp = il >= hparams.n_layer();
            if drafts { is_mtp } else { hparams.attends[il] && (all || !is_mtp) }
        };
        let cache = |size, holds: &dyn Fn(usize) -> bool| KvCache::new(model, context, placement, size, holds);
        let Some(window) = hparams.n_swa else {
            let full = Some(cache(context.n_ctx_seq, &attends));
            let indexer = hparams.indexer.as_ref().filter(|_| !drafts || architecture.has(Trait::DraftsFromIndexer));
            let indexer = indexer.map(|indexer| KvCache::indexer(hparams, indexer, context, placement));
            return Self { full, indexer, recurrent, ..Self::default() };
        };
        let size = window_cells(window, context, release);
        let indexer = hparams.indexer.as_ref().filter(|_| !drafts);
        Self {
            indexer: indexer.map(|indexer| KvCache::indexer(hparams, indexer, context, placement)),
            full: Some(cache(context.n_ctx_seq, &|il| attends(il) && !hparams.is_swa[il])),
            window: Some(cache(size, &|il| attends(il) && hparams.is_swa[il])),
            compressed: None,
            recurrent,
            n_swa: Some(window),
        }
    }

    /// The caches of `target`: blocks with a sliding window use that of its last block but one, the others that of its
    /// last (`llama_model::create_memory`, 0.1.161).
    fn shared(hparams: &Hparams, target: Option<&DraftTarget<'_>>) -> Self {
        let Some(DraftTarget { model, memory, .. }) = target else { return Self::default() };
        let cache = |cache: Option<&KvCache>, windowed: bool| {
            let from = model.hparams.n_layer().checked_sub(if windowed { 2 } else { 1 })?;
            let cache = cache?;
            let layer = cache.layers.get(from).copied().flatten()?;
            let layer = KvLayer { place: target?.place(layer.place)?, ..layer };
            let owner = hparams.is_swa.iter().position(|is_swa| *is_swa == windowed)?;
            let own = |il: usize| (hparams.is_swa[il] == windowed).then_some(KvLayer { owner, ..layer });
            Some(KvCache { shared: true, layers: (0..hparams.n_layer_all).map(own).collect(), ..cache.clone() })
        };
        Self {
            full: cache(memory.full.as_ref(), false),
            window: cache(memory.window.as_ref(), true),
            n_swa: hparams.n_swa,
            ..Self::default()
        }
    }

    /// All KV caches.
    pub fn caches(&self) -> impl Iterator<Item = &KvCache> {
        let compressed = self.compressors().map(|compressor| &compressor.keys);
        self.full.iter().chain(&self.window).chain(&self.indexer).chain(compressed)
    }

    /// Everything that compresses rows.
    pub fn compressors(&self) -> impl Iterator<Item = &Compressor> {
        self.compressed.iter().flat_map(CompressedCaches::all)
    }

    /// See [`KvCache::v_transposed`]; none without a KV cache.
    pub fn v_transposed(&self) -> Option<bool> {
        self.caches().map(|cache| cache.v_transposed).next()
    }

    /// What the graph of block `il` depends on of its caches and states.
    pub(super) fn traits_of(&self, il: usize) -> Vec<u64> {
        let cache = |cache: &KvCache| match cache.layers.get(il).copied().flatten() {
            Some(KvLayer { owner, place, ty_k, ty_v, k, v }) => {
                // types of one size are alike
                let types = [ty_k, ty_v].map(|ty| u64::from(ty.id()) << 32 | ty.block_bytes());
                [1, (owner == il).into(), place.into(), types[0], types[1], k, v.map_or(0, |v| v + 1)]
            }
            None => [0; 7],
        };
        let place =
            |places: &[Option<BackendId>]| places.get(il).copied().flatten().map_or(0, |place| 1 + u64::from(place));
        let states = self.compressors().map(|compressor| place(&compressor.states.layers));
        let states = states.chain(self.recurrent.iter().map(|recurrent| place(&recurrent.layers)));
        self.caches().flat_map(cache).chain(states).collect()
    }

    /// Bytes of a block's caches, on any device.
    pub fn of_block(&self, il: usize) -> u64 {
        let kv = self.caches().filter(|cache| !cache.shared).filter_map(|cache| {
            let layer = cache.layers.get(il).copied().flatten().filter(|layer| layer.owner == il)?;
            let cells = cache.size * cache.streams;
            let v = layer.v.map_or(0, |v| row(layer.ty_v, v) * cells);
            Some(row(layer.ty_k, layer.k) * cells + v)
        });
        let compressing = self.compressors().map(|compressor| compressor.states.of_block(il));
        kv.sum::<u64>() + self.states_of_block(il).unwrap_or(0) + compressing.sum::<u64>()
    }

    /// Bytes of the recurrent states of block `il`, of all sequences; none without them.
    pub fn states_of_block(&self, il: usize) -> Option<u64> {
        let recurrent = self.recurrent.as_ref()?;
        recurrent.layers.get(il).copied().flatten()?;
        let elements = [recurrent.r, recurrent.s, recurrent.ngrams_of(il)];
        Some(elements.iter().map(|elements| row(Type::F32, *elements)).sum::<u64>() * recurrent.rows())
    }

    /// Bytes per device, the CPU last.
    pub fn bytes(&self, backends: &[BackendRef]) -> Vec<u64> {
        let mut bytes = vec![0; backends.len()];
        let (cpu, gpus) = (Cpu::default(), backends.len().saturating_sub(1));
        self.tensors(|place, tensor| {
            let at = usize::from(place);
            // in RAM, caches are in the CPU's own buffers, not in those that a GPU offers
            let backend: &dyn Backend = if at < gpus { &*backends[at] } else { &cpu };
            bytes[at] += backend.align(backend.bytes(tensor));
        });
        bytes
    }

    /// Bytes of recurrent states and of those that compress, per device, the CPU last: the part of [`Memory::bytes`] that is
    /// no KV cache.
    pub fn state_bytes(&self, backends: &[BackendRef]) -> Vec<u64> {
        Self { recurrent: self.recurrent.clone(), compressed: self.only_states(), ..Self::default() }.bytes(backends)
    }

    fn only_states(&self) -> Option<CompressedCaches> {
        self.compressed.as_ref().map(CompressedCaches::only_states)
    }

    /// Whether a device has blocks of a cache and none of their bytes, as where no block has heads: such a cache cannot be
    /// allocated (`llama_kv_cache` in `llama-kv-cache.cpp`, 0.1.161).
    pub fn lacks_bytes(&self) -> bool {
        self.caches().filter(|cache| !cache.shared).any(|cache| {
            let layers = || cache.layers.iter().flatten();
            let is_empty = |layer: &KvLayer| layer.k + layer.v.unwrap_or(0) == 0;
            layers().any(|layer| layers().filter(|other| other.place == layer.place).all(is_empty))
        })
    }

    /// Bytes of what llama-server saves in a checkpoint of every sequence, on all devices, at most: recurrent states, and
    /// the cells of windows unless they are kept at full size (`server-context.cpp`, 0.1.161).
    pub fn checkpoint_bytes(&self, backends: &[BackendRef]) -> u64 {
        let full = self.full.as_ref().map_or(0, |cache| cache.size);
        let window = self.window.clone().filter(|cache| cache.size < full);
        let states = Self { recurrent: self.recurrent.clone(), compressed: self.only_states(), ..Self::default() };
        Self { window, ..states }.bytes(backends).iter().sum()
    }

    /// The largest of the caches per device, and the largest tensor of any: each cache has buffers of its own.
    pub fn largest(&self, backends: &[BackendRef]) -> Vec<Piece> {
        let (full, window, indexer) = (self.full.clone(), self.window.clone(), self.indexer.clone());
        let each = [
            Self { full, ..Self::default() },
            Self { window, ..Self::default() },
            Self { indexer, ..Self::default() },
            Self { recurrent: self.recurrent.clone(), ..Self::default() },
        ];
        let mut largest = vec![Piece::default(); backends.len()];
        for cache in each {
            let bytes = cache.bytes(backends);
            largest.iter_mut().zip(bytes).for_each(|(piece, bytes)| piece.bytes = piece.bytes.max(bytes));
        }
        self.tensors(|place, tensor| {
            let piece = &mut largest[usize::from(place)];
            piece.tensor = piece.tensor.max(tensor.bytes());
        });
        largest
    }

    /// Calls `see` with every allocated tensor and its device.
    fn tensors(&self, mut see: impl FnMut(BackendId, &Tensor)) {
        for cache in self.caches().filter(|cache| !cache.shared) {
            for (il, layer) in cache.layers.iter().enumerate() {
                let Some(layer) = layer.filter(|layer| layer.owner == il) else { continue };
                see(layer.place, &Tensor::new(layer.ty_k, [layer.k, cache.size, cache.streams, 1]));
                if let Some(v) = layer.v {
                    see(layer.place, &Tensor::new(layer.ty_v, [v, cache.size, cache.streams, 1]));
                }
            }
        }
        for compressor in self.compressors() {
            compressor.states.tensors().for_each(|(place, tensor)| see(place, &tensor));
        }
        if let Some(recurrent) = &self.recurrent {
            for (il, place) in recurrent.layers.iter().enumerate() {
                let Some(place) = *place else { continue };
                for elements in [recurrent.r, recurrent.s, recurrent.ngrams_of(il)] {
                    if elements > 0 {
                        see(place, &Tensor::new(Type::F32, [elements, recurrent.rows(), 1, 1]));
                    }
                }
            }
        }
    }
}

impl Recurrent {
    fn new(hparams: &Hparams, context: &Cparams, placement: &Placement) -> Self {
        let device = |il: usize| if context.offload_kqv { placement.layers[il] } else { placement.cpu };
        Self {
            sequences: context.n_seq_max.max(1),
            states: 1 + context.n_rs_seq,
            r: hparams.n_embd_r(),
            s: hparams.n_embd_s(),
            ngrams: hparams.ngrams.map(|table| (table.block, hparams.n_embd_ngrams())),
            layers: (0..hparams.n_layer()).map(|il| hparams.is_recr[il].then(|| device(il))).collect(),
        }
    }

    /// Elements of the rolling state of block `il`'s table of n-grams.
    pub fn ngrams_of(&self, il: usize) -> u64 {
        self.ngrams.filter(|(block, _)| *block == il).map_or(0, |(_, elements)| elements)
    }

    /// One row per state.
    pub const fn rows(&self) -> u64 {
        self.sequences * self.states
    }
}

impl KvCache {
    fn new(
        model: &LoadedModel,
        context: &Cparams,
        placement: &Placement,
        size: u64,
        holds: &dyn Fn(usize) -> bool,
    ) -> Self {
        let LoadedModel { hparams, release, family, .. } = model;
        let architecture = family.architecture;
        let v_transposed = !context.flash_attn;
        let v_max = hparams.v_gqa_max();
        let own = |il: usize| KvLayer {
            owner: il,
            place: if context.offload_kqv { placement.layers[il] } else { placement.cpu },
            ty_k: context.type_k,
            ty_v: context.type_v,
            k: whole_heads(context.type_k, hparams.k_gqa(il), hparams.head_k(il)),
            // rows of a transposed cache have the same length in all blocks
            v: hparams.mla.is_none().then(|| {
                let row = if v_transposed { v_max } else { hparams.v_gqa(il) };
                whole_heads(context.type_v, row, hparams.head_v(il))
            }),
        };
        let owners = hparams.n_layer_kv_from_start.unwrap_or(hparams.n_layer_all).min(hparams.n_layer_all);
        let mut layers: Vec<Option<KvLayer>> =
            (0..hparams.n_layer_all).map(|il| (il < owners && holds(il)).then(|| own(il))).collect();
        let heads = |size: &dyn Fn(usize) -> u64| {
            let mut sizes = (0..owners).filter(|il| holds(*il)).map(size);
            let first = sizes.next().unwrap_or(0);
            if sizes.all(|size| size == first) { first } else { 0 }
        };
        let (head_k, head_v) = (heads(&|il| hparams.head_k(il)), heads(&|il| hparams.head_v(il)));
        if architecture.has(Trait::SharesCaches) {
            for il in owners..hparams.n_layer_all {
                // the last block of the same kind that has a cache
                let owner = owners.saturating_sub(if hparams.is_swa[il] { 2 } else { 1 });
                layers[il] = if holds(il) { layers[owner] } else { None };
            }
        }
        let uneven = |size: &dyn Fn(usize) -> u64| (0..hparams.n_layer_all).any(|il| size(il) != size(0));
        let rotates = |ty: Type, head: u64, first: u64, row: &dyn Fn(usize) -> u64| {
            release.rotates_quantised
                && ty.block() > 1
                && head > 0
                && first.is_multiple_of(64)
                && (release.rotates_each_cache || !uneven(row))
        };
        let rotates_k = rotates(context.type_k, head_k, hparams.head_k(0), &|il| hparams.k_gqa(il));
        let rotation_k = if rotates_k { largest_rotation(head_k) } else { 0 };
        let v_rotates =
            hparams.mla.is_none() && rotates(context.type_v, head_v, hparams.head_v(0), &|il| hparams.v_gqa(il));
        Self {
            size,
            streams: if context.kv_unified { 1 } else { context.n_seq_max },
            v_transposed,
            layers,
            shared: false,
            rotation_k,
            rotation_v: if v_rotates { 64 } else { 0 },
        }
    }

    /// The keys of an indexer, one head per token, always rotated (`llama-kv-cache-dsa.cpp`, 0.1.161).
    fn indexer(hparams: &Hparams, indexer: &Indexer, context: &Cparams, placement: &Placement) -> Self {
        let own = |il: usize| KvLayer {
            owner: il,
            place: if context.offload_kqv { placement.layers[il] } else { placement.cpu },
            ty_k: context.type_k,
            ty_v: context.type_v,
            k: indexer.row(),
            // that of blocks has values too, which nothing reads
            v: (indexer.block_size > 0).then(|| hparams.head_v(il)),
        };
        Self {
            size: context.n_ctx_seq,
            streams: if context.kv_unified { 1 } else { context.n_seq_max },
            v_transposed: !context.flash_attn,
            layers: (0..hparams.n_layer_all)
                .map(|il| {
                    let is_mtp = il >= hparams.n_layer();
                    (indexer.is_full[il] && is_mtp == (context.ctx_type == ContextType::Mtp)).then(|| own(il))
                })
                .collect(),
            shared: false,
            rotation_k: largest_rotation(indexer.head_size),
            rotation_v: 0,
        }
    }
}

/// Cells of a cache with a sliding window.
fn window_cells(window: u64, context: &Cparams, release: &ReleaseTraits) -> u64 {
    if context.swa_full {
        return context.n_ctx_seq;
    }
    let sequences = if context.kv_unified { context.n_seq_max } else { 1 };
    let cells = (window * sequences + context.n_ubatch).next_multiple_of(context.cells(release));
    context.n_ctx_seq.min(cells)
}

/// The elements of a row of heads, each of whole blocks where a fork's type fills them.
const fn whole_heads(ty: Type, row: u64, head: u64) -> u64 {
    match ty {
        Type::Fork(ty) if ty.fills_heads() && head > 0 => {
            (row / head).saturating_mul(head.next_multiple_of(ty.block()))
        }
        _ => row,
    }
}

/// Side of the largest Hadamard matrix that divides a head, at least 64.
const fn largest_rotation(head: u64) -> u64 {
    let mut side = 64;
    while head > 0 && head.is_multiple_of(2 * side) {
        side *= 2;
    }
    side
}
