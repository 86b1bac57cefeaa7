//! Attention: queries, keys and values; the KV cache; scores, fused or in single operations.

mod indexer;
mod latent;

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp, row};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::cache::{KvCache, KvLayer};
use crate::engine::llama_cpp::context::ContextType;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;
pub(super) use indexer::IndexerInput;

/// The largest bias by distance (`f_max_alibi_bias` in `models/refact.cpp`, 0.1.161).
const MAX_BIAS: f32 = 8.0;

/// A batch's inputs for attention: cache rows of keys and values, mask, Hadamard matrices.
#[derive(Clone, Copy)]
pub(super) struct AttentionInput {
    pub k_rows: TensorId,
    v_rows: TensorId,
    pub mask: TensorId,
    pub rotation_k: TensorId,
    pub rotation_v: TensorId,
}

/// Queries, keys and values by head: `[head size, heads, tokens]`.
#[derive(Clone, Copy)]
pub struct Qkv {
    pub q: TensorId,
    pub k: TensorId,
    pub v: TensorId,
}

/// Optional inputs of a block's attention.
#[derive(Clone, Copy)]
pub struct AttentionExtras {
    /// Attention sinks.
    pub sinks: TensorId,
    /// MLA's weights that decompress V.
    pub v_unfold: TensorId,
    /// What is added to the scores, which flash attention cannot.
    pub bias: TensorId,
}

impl Default for AttentionExtras {
    fn default() -> Self {
        Self { sinks: TensorId::NONE, v_unfold: TensorId::NONE, bias: TensorId::NONE }
    }
}

impl GraphBuilder<'_> {
    /// Creates the inputs of all caches. MLA's compressed cache holds only K and is not rotated.
    pub(super) fn attention_inputs(&mut self) {
        let memory = self.memory;
        if self.is_uncached() {
            self.full = Some(self.uncached_input());
            self.window = self.hp.has_swa().then(|| self.uncached_input());
            return;
        }
        self.full = memory.full.as_ref().map(|cache| self.attention_input(cache));
        self.window = memory.window.as_ref().map(|cache| self.attention_input(cache));
        if let (Some(window), Some(full), false) = (&mut self.window, &self.full, self.release.rotates_each_cache) {
            (window.rotation_k, window.rotation_v) = (full.rotation_k, full.rotation_v);
        }
        let by_token = self.hp.indexer.as_ref().is_some_and(|indexer| indexer.pools.is_none());
        self.indexer = memory.indexer.as_ref().filter(|_| by_token).map(|cache| self.indexer_input(cache));
    }

    /// Whether tokens only attend to those of the same batch.
    fn is_uncached(&self) -> bool {
        self.hp.reads_only || self.architecture.has(Trait::IgnoresCache)
    }

    /// Only the attention of every block that has a cache.
    pub(super) fn attention_alone(&mut self) {
        self.attention_inputs();
        let n = self.batch.n_tokens;
        let cached = |il: &usize| {
            let mut caches = self.memory.full.iter().chain(&self.memory.window);
            caches.any(|cache| cache.layers.get(*il).copied().flatten().is_some_and(|layer| layer.k > 0))
        };
        // of MTP blocks there may be caches, but only their own context runs them
        let drafts = self.cx.ctx_type == ContextType::Mtp || self.hp.has_router_block || self.hp.n_layer() == 0;
        let end = if drafts { self.hp.n_layer_all } else { self.hp.n_layer() };
        let uncached = self.is_uncached();
        let is_built = |il: &usize| drafts || self.blocks.contains(il);
        let blocks: Vec<usize> = (0..end).filter(|il| !uncached && is_built(il) && cached(il)).collect();
        for il in blocks {
            let q = self.g.input(Type::F32, [self.hp.head_k(il), self.hp.n_head[il], n, 1], "Qcur");
            // values that are a part of the keys have a size that their cache does not tell
            let size = if self.hp.mla.is_some() { self.latent(il).1 } else { self.hp.head_v(il) };
            let part_of_keys = self.hp.mla.is_some() || self.memory.compressed.is_some();
            let v = if part_of_keys { self.g.input(Type::F32, [size, 1, n, 1], "Vcur") } else { TensorId::NONE };
            self.attention_unprojected(il, Qkv { q, k: TensorId::NONE, v }, AttentionExtras::default());
        }
    }

    /// Without caches, tokens attend to those of the same batch.
    fn uncached_input(&mut self) -> AttentionInput {
        AttentionInput {
            k_rows: TensorId::NONE,
            v_rows: TensorId::NONE,
            mask: self.mask_input([self.uncached_rows(), self.batch.n_tokens, 1, 1], "attn_inp_kq_mask"),
            rotation_k: TensorId::NONE,
            rotation_v: TensorId::NONE,
        }
    }

    /// A mask in the type that attention reads.
    pub(super) fn mask_input(&mut self, ne: [u64; 4], label: &'static str) -> TensorId {
        let (read, given) = match (self.cx.flash_attn, self.release.masks_in_f16) {
            (true, true) => (Type::F16, Type::F16),
            (true, false) => (Type::F16, Type::F32),
            (false, _) => (Type::F32, Type::F32),
        };
        let [cells, rows, _, streams] = ne;
        let mask = self.g.input(given, [cells, rows.next_multiple_of(self.release.mask_rows), 1, streams], label);
        if read == given { mask } else { self.g.cast(mask, read) }
    }

    pub(super) fn attention_input(&mut self, cache: &KvCache) -> AttentionInput {
        let n = self.batch.n_tokens;
        let streams = if self.cx.kv_unified && self.memory.compressed.is_none() { 1 } else { self.batch.n_seqs };
        let v_rows = if cache.v_transposed { n * self.hp.v_gqa_max() } else { n };
        let square = |side: u64| [side, side, 1, 1];
        let rotation = |build: &mut Self, side: u64, label| {
            if side > 0 { build.g.input(Type::F32, square(side), label) } else { TensorId::NONE }
        };
        AttentionInput {
            k_rows: self.g.input(Type::I64, [n, 1, 1, 1], "attn_inp_k_idxs"),
            v_rows: self.g.input(Type::I64, [v_rows, 1, 1, 1], "attn_inp_v_idxs"),
            mask: self.mask_input([cache.size, n / streams, 1, streams], "attn_inp_kq_mask"),
            rotation_k: rotation(self, cache.rotation_k, "attn_inp_k_rot"),
            rotation_v: rotation(self, cache.rotation_v, "attn_inp_v_rot"),
        }
    }

    /// Queries, keys and values of block `il` from `x`, with the model's head sizes and counts.
    pub(super) fn qkv(&mut self, il: usize, x: TensorId) -> Qkv {
        let hp = self.hp;
        let (k, v) = (hp.head_k(il), hp.head_v(il));
        self.qkv_sized(il, x, [k, k, v], [hp.n_head[il], hp.n_head_kv[il], hp.n_head_kv[il]])
    }

    /// The same with head sizes and counts of queries, keys and values given.
    pub(super) fn qkv_sized(&mut self, il: usize, x: TensorId, head: [u64; 3], heads: [u64; 3]) -> Qkv {
        let n = self.batch.n_tokens;
        if self.weight(il, LlmTensor::AttnQkv).is_some() {
            return self.fused_qkv(il, x, head, heads);
        }
        let mut out = [TensorId::NONE; 3];
        for (i, (slot, label)) in
            [(LlmTensor::AttnQ, "Qcur"), (LlmTensor::AttnK, "Kcur"), (LlmTensor::AttnV, "Vcur")].into_iter().enumerate()
        {
            let mut y = self.affine(il, slot, x);
            if self.hp.clamp_kqv {
                y = self.clamp(y);
            }
            self.label(y, label, Some(il));
            out[i] = y;
        }
        for (i, y) in out.iter_mut().enumerate() {
            *y = self.g.reshape(*y, [head[i], heads[i], n, 1]);
        }
        let [q, k, v] = out;
        Qkv { q, k, v }
    }

    fn fused_qkv(&mut self, il: usize, x: TensorId, head: [u64; 3], heads: [u64; 3]) -> Qkv {
        let n = self.batch.n_tokens;
        let mut all = self.linear(il, LlmTensor::AttnQkv, x);
        self.label(all, "wqkv", Some(il));
        let bias = self.bias(il, LlmTensor::AttnQkv);
        if bias.is_some() {
            all = self.g.add(all, bias);
        } else {
            let apart = [LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV].map(|slot| self.bias(il, slot));
            if apart.iter().all(|bias| bias.is_some()) {
                let qk = self.g.concat(apart[0], apart[1], 0);
                let bias = self.g.concat(qk, apart[2], 0);
                all = self.g.add(all, bias);
            }
        }
        if self.hp.clamp_kqv {
            all = self.clamp(all);
        }
        let Tensor { ty, nb, .. } = self.g[all];
        let [q, k, v] =
            std::array::from_fn(|i| self.g.window(all, [head[i], heads[i], n, 1], [row(ty, head[i]), nb[1]]));
        Qkv { q, k, v }
    }

    /// Queries, keys and values not split into heads; `widths` are their elements per token.
    pub(super) fn qkv_flat(&mut self, il: usize, x: TensorId, widths: [u64; 3]) -> [TensorId; 3] {
        if !self.weight(il, LlmTensor::AttnQkv).is_some() {
            return [LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV].map(|slot| self.affine(il, slot, x));
        }
        let all = self.affine(il, LlmTensor::AttnQkv, x);
        let stride = self.g[all].nb[1];
        widths.map(|width| {
            let part = self.g.window(all, [width, self.batch.n_tokens, 1, 1], [stride]);
            self.g.cont(part)
        })
    }

    /// Applies rotary positions to queries and keys.
    pub(super) fn rotate(&mut self, qkv: Qkv, positions: TensorId, factors: TensorId) -> Qkv {
        let q = self.g.rope(qkv.q, positions, factors);
        let k = self.g.rope(qkv.k, positions, factors);
        Qkv { q, k, ..qkv }
    }

    /// Normalises queries and keys per head if the file has weights for it.
    pub(super) fn norm_heads(&mut self, il: usize, qkv: Qkv, kind: Norm) -> Qkv {
        let mut out = qkv;
        for (slot, x) in [(LlmTensor::AttnQNorm, &mut out.q), (LlmTensor::AttnKNorm, &mut out.k)] {
            let weight = self.weight(il, slot);
            if weight.is_some() {
                let bias = if kind == Norm::Layer { self.bias(il, slot) } else { TensorId::NONE };
                *x = self.norm_with(*x, weight, bias, kind, Some(il));
            }
        }
        out
    }

    /// Attention of block `il`: stores keys and values, attends to the cache, and projects the result.
    pub(super) fn attention(&mut self, il: usize, qkv: Qkv, extras: AttentionExtras) -> TensorId {
        let x = self.attention_unprojected(il, qkv, extras);
        if self.weight(il, LlmTensor::AttnOutput).is_some() { self.affine(il, LlmTensor::AttnOutput, x) } else { x }
    }

    /// The same of `x`, rotated.
    pub(super) fn rotated_attention(
        &mut self,
        il: usize,
        x: TensorId,
        positions: TensorId,
        factors: TensorId,
    ) -> TensorId {
        let qkv = self.qkv(il, x);
        let qkv = self.rotate(qkv, positions, factors);
        self.attention(il, qkv, AttentionExtras::default())
    }

    /// Attention without the projection. A block without its own keys uses the cache of another one.
    pub(super) fn attention_unprojected(&mut self, il: usize, mut qkv: Qkv, extras: AttentionExtras) -> TensorId {
        let memory = self.memory;
        if self.is_uncached() {
            return self.attention_uncached(il, qkv, extras);
        }
        let (cache, input) = match (self.hp.is_swa[il], &memory.window, self.window) {
            (true, Some(cache), Some(input)) => (cache, input),
            _ => match (&memory.full, self.full) {
                (Some(cache), Some(input)) => (cache, input),
                _ => return qkv.q,
            },
        };
        let Some(layer) = cache.layers[il] else { return qkv.q };
        let compressed = layer.v.is_none();
        if !compressed {
            qkv = self.hadamard(qkv, input);
        }
        self.g.expand(qkv.q);
        // with sliding windows, llama.cpp expands keys before values
        let keys_first = !self.release.values_first || (memory.window.is_some() && !compressed);
        let order = if keys_first { [qkv.k, qkv.v] } else { [qkv.v, qkv.k] };
        for x in order {
            if x.is_some() {
                self.g.expand(x);
            }
        }
        let (k, v) = self.store_and_view_cache(il, cache, &layer, input, qkv);
        let mask = if self.pool_mask.is_some() {
            let ne = self.g[input.mask].ne;
            self.g.reshape(self.pool_mask, ne)
        } else if self.top_k.is_some() && !self.hp.is_swa[il] {
            self.mask_of_chosen(input.mask, self.top_k)
        } else {
            input.mask
        };
        let x = self.attend(il, qkv.q, k, v, mask, extras);
        self.label(x, "kqv_out", Some(il));
        if input.rotation_v.is_some() && !compressed { self.rotated(x, input.rotation_v) } else { x }
    }

    /// The same multiplied by a gate from `x` before the projection: a value per element, or one per head.
    pub(super) fn gated_by_heads(&mut self, il: usize, x: TensorId, qkv: Qkv, extras: AttentionExtras) -> TensorId {
        let (heads, n) = (self.hp.n_head[il], self.batch.n_tokens);
        let mut y = self.attention_unprojected(il, qkv, extras);
        let gate = self.linear(il, LlmTensor::AttnGate, x);
        let function = if self.architecture.has(Trait::SoftplusGate) { UnaryOp::Softplus } else { UnaryOp::Sigmoid };
        let gate = self.g.unary(gate, function);
        let wide = self.g[y].ne[0];
        if self.g[gate].ne[0] == wide {
            y = self.g.mul(y, gate);
        } else {
            y = self.g.reshape(y, [wide / heads.max(1), heads, n, 1]);
            let gate = self.g.reshape(gate, [1, heads, n, 1]);
            y = self.g.mul(y, gate);
            y = self.g.reshape(y, [wide, n, 1, 1]);
        }
        self.linear(il, LlmTensor::AttnOutput, y)
    }

    fn attention_uncached(&mut self, il: usize, qkv: Qkv, extras: AttentionExtras) -> TensorId {
        let input = if self.hp.is_swa[il] { self.window.or(self.full) } else { self.full };
        let mask = input.map_or(TensorId::NONE, |input| input.mask);
        if !self.release.pads_uncached {
            return self.attention_over(il, qkv, mask, extras);
        }
        for x in [qkv.q, qkv.k, qkv.v] {
            self.g.expand(x);
        }
        let rows = self.uncached_rows() - self.batch.n_tokens;
        let [k, v] = [qkv.k, qkv.v].map(|x| self.g.pad(x, [0, 0, rows, 0]));
        let bias = extras.bias;
        let bias = if bias.is_some() { self.g.pad(bias, [rows, 0, 0, 0]) } else { bias };
        let x = self.attend(il, qkv.q, k, v, mask, AttentionExtras { bias, ..extras });
        self.label(x, "kqv_out", Some(il))
    }

    /// Keys that tokens attend to without caches.
    fn uncached_rows(&self) -> u64 {
        let n = self.batch.n_tokens;
        if self.release.pads_uncached { n.next_multiple_of(256) } else { n }
    }

    /// Attention to these keys and values alone, as the mask allows.
    pub(super) fn attention_over(&mut self, il: usize, qkv: Qkv, mask: TensorId, extras: AttentionExtras) -> TensorId {
        for x in [qkv.q, qkv.k, qkv.v] {
            self.g.expand(x);
        }
        let x = self.attend(il, qkv.q, qkv.k, qkv.v, mask, extras);
        self.label(x, "kqv_out", Some(il))
    }

    pub(super) fn hadamard(&mut self, qkv: Qkv, input: AttentionInput) -> Qkv {
        let rotated = |build: &mut Self, x: TensorId, by: TensorId| {
            if by.is_some() && x.is_some() { build.rotated(x, by) } else { x }
        };
        Qkv {
            q: rotated(self, qkv.q, input.rotation_k),
            k: rotated(self, qkv.k, input.rotation_k),
            v: rotated(self, qkv.v, input.rotation_v),
        }
    }

    /// `x` multiplied block by block by the matrix `by`.
    pub(super) fn rotated(&mut self, x: TensorId, by: TensorId) -> TensorId {
        let side = self.g[by].ne[0];
        let shape = self.g[x];
        let pieces = [side, shape.elements() / side, 1, 1];
        self.tears |= !self.g.is_contiguous(x) && !self.release.copies_to_rotate;
        let flat = if self.g.is_contiguous(x) { self.g.reshape(x, pieces) } else { self.g.cont_as(x, pieces) };
        let y = self.g.mul_mat(by, flat);
        self.g.reshape(y, shape.ne)
    }

    /// Stores keys and values, and returns views of the whole cache.
    pub(super) fn store_and_view_cache(
        &mut self,
        il: usize,
        cache: &KvCache,
        layer: &KvLayer,
        input: AttentionInput,
        qkv: Qkv,
    ) -> (TensorId, TensorId) {
        let KvCache { size, streams, v_transposed, .. } = *cache;
        let k_all = self.cache(layer, 0, size, streams);
        if qkv.k.is_some() {
            let stored = self.store(k_all, qkv.k, input.k_rows);
            self.g.expand(stored);
        }
        let (head_k, head_v, heads) = (self.hp.head_k(il), self.hp.head_v(il), self.hp.n_head_kv[il]);
        let bytes = |ty: Type, n: u64| row(ty, n);
        let (tk, wide) = (layer.ty_k, layer.k);
        let k_strides = [bytes(tk, head_k), bytes(tk, wide), bytes(tk, wide * size)];
        if layer.v.is_none() {
            let k = self.g.window(k_all, [head_k, heads, size, streams], k_strides);
            let v = self.g[qkv.v].ne[0];
            let Tensor { ne, nb, .. } = self.g[k];
            return (k, self.g.window(k, [v, ne[1], ne[2], ne[3]], [nb[1], nb[2], nb[3]]));
        }
        let v_all = self.cache(layer, 1, size, streams);
        if qkv.v.is_some() {
            let stored = if v_transposed {
                self.store_transposed(v_all, qkv.v, input.v_rows)
            } else {
                self.store(v_all, qkv.v, input.v_rows)
            };
            self.g.expand(stored);
        }
        let k = self.g.window(k_all, [head_k, heads, size, streams], k_strides);
        let (tv, wide) = (layer.ty_v, layer.v.unwrap_or(0));
        let v = if v_transposed {
            let strides = [bytes(tv, size * head_v), bytes(tv, size), bytes(tv, size * wide)];
            self.g.window(v_all, [size, heads, head_v, streams], strides)
        } else {
            let strides = [bytes(tv, head_v), bytes(tv, wide), bytes(tv, wide * size)];
            self.g.window(v_all, [head_v, heads, size, streams], strides)
        };
        (k, v)
    }

    /// Stores one row per token.
    pub(super) fn store(&mut self, cache: TensorId, x: TensorId, rows: TensorId) -> TensorId {
        let Tensor { ne, nb, .. } = self.g[x];
        let flat = self.g.window(x, [ne[0] * ne[1], ne[2], 1, 1], [nb[2]]);
        let of = self.g[cache].ne;
        let cache = if of[2] > 1 { self.g.reshape(cache, [of[0], of[1] * of[2], 1, 1]) } else { cache };
        self.write_rows(cache, flat, rows)
    }

    /// Writes rows into a cache.
    fn write_rows(&mut self, cache: TensorId, x: TensorId, rows: TensorId) -> TensorId {
        if self.release.writes_read_cache {
            self.g.set_rows(cache, x, rows)
        } else {
            self.g.set_rows_unread(cache, x, rows)
        }
    }

    /// Stores every element of V in its own row.
    fn store_transposed(&mut self, cache: TensorId, x: TensorId, rows: TensorId) -> TensorId {
        let Tensor { ty, ne, nb, .. } = self.g[x];
        let (wide, n) = (ne[0] * ne[1], ne[2]);
        let mut flat = if row(ty, wide) == nb[2] {
            self.g.reshape(x, [wide, n, 1, 1])
        } else {
            self.g.cont_as(x, [wide, n, 1, 1])
        };
        let cached = self.g[cache];
        if wide < cached.ne[0] {
            flat = self.g.pad(flat, [cached.ne[0] - wide, 0, 0, 0]);
        }
        let cache = self.g.reshape(cache, [1, cached.elements(), 1, 1]);
        let elements = self.g[flat].elements();
        let flat = self.g.reshape(flat, [1, elements, 1, 1]);
        self.write_rows(cache, flat, rows)
    }

    /// Attention scores and the weighted sum of values.
    pub(super) fn attend(
        &mut self,
        il: usize,
        q: TensorId,
        k: TensorId,
        v: TensorId,
        mask: TensorId,
        extras: AttentionExtras,
    ) -> TensorId {
        let v_transposed = self.g[v].nb[1] > self.g[v].nb[2];
        let streams = self.g[k].ne[3];
        let Tensor { ne, nb, .. } = self.g[q];
        let per_stream = ne[2] / streams;
        let q = self.g.window(q, [ne[0], ne[1], per_stream, streams], [nb[1], nb[2], nb[2] * per_stream]);
        let [q, k, mut v] = [q, k, v].map(|x| self.g.permute(x, [0, 2, 1, 3]));
        let x = if self.cx.flash_attn && !extras.bias.is_some() {
            if v_transposed {
                v = self.g.transpose(v);
            }
            let [k, v] = [k, v].map(|x| if self.g[x].ty == Type::F32 { self.g.cast(x, Type::F16) } else { x });
            let mut x = self.g.flash_attention(q, k, v, mask, extras.sinks);
            if self.architecture.has(Trait::BiasesScores) {
                self.g[x].limit = MAX_BIAS;
            }
            self.label(x, "fattn", Some(il));
            if extras.v_unfold.is_some() {
                x = self.g.permute(x, [0, 2, 1, 3]);
                x = self.g.mul_mat(extras.v_unfold, x);
                self.label(x, "fattn_mla", Some(il));
                x = self.g.permute(x, [0, 2, 1, 3]);
                x = self.g.cont(x);
            }
            let ne = self.g[x].ne;
            self.g.reshape(x, [ne[0] * ne[1], ne[2] * ne[3], 1, 1])
        } else {
            self.attend_without_flash(il, [q, k, v], v_transposed, mask, extras)
        };
        self.g.expand(x);
        x
    }

    fn attend_without_flash(
        &mut self,
        il: usize,
        [q, k, mut v]: [TensorId; 3],
        v_transposed: bool,
        mask: TensorId,
        extras: AttentionExtras,
    ) -> TensorId {
        let mut kq = self.g.mul_mat(k, q);
        self.label(kq, "kq", Some(il));
        if self.hp.attn_soft_cap {
            kq = self.g.scale(kq);
            kq = self.g.unary(kq, UnaryOp::Tanh);
            kq = self.g.scale(kq);
        }
        kq = self.g.plus(kq, extras.bias);
        let kq = self.g.soft_max(kq, mask, extras.sinks);
        self.label(kq, "kq_soft_max", Some(il));
        if !v_transposed {
            v = self.g.transpose(v);
            v = self.g.cont(v);
        }
        let mut kqv = self.g.mul_mat(v, kq);
        self.label(kqv, "kqv", Some(il));
        if extras.v_unfold.is_some() {
            kqv = self.g.mul_mat(extras.v_unfold, kqv);
        }
        let x = self.g.permute(kqv, [0, 2, 1, 3]);
        let ne = self.g[x].ne;
        let x = self.g.cont_as(x, [ne[0] * ne[1], ne[2] * ne[3], 1, 1]);
        if !self.cx.offload_kqv {
            self.g[x].pin = self.placement.cpu;
        }
        x
    }
}
