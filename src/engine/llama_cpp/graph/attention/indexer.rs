//! The lightning indexer of sparse attention (DSA): small queries and keys score every cached token, and attention
//! reads only those with the best scores (`models/deepseek32.cpp`, `models/glm-dsa.cpp`, 0.1.161).

use super::super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Buffer, Tensor, TensorId, row};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::cache::KvCache;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// A batch's inputs for the indexer.
#[derive(Clone, Copy)]
pub struct IndexerInput {
    rows: TensorId,
    mask: TensorId,
    rotation: TensorId,
}

impl GraphBuilder<'_> {
    pub fn indexer_input(&mut self, cache: &KvCache) -> IndexerInput {
        let n = self.batch.n_tokens;
        let side = cache.rotation_k;
        IndexerInput {
            rows: self.g.input(Type::I64, [n, 1, 1, 1], "attn_inp_k_idxs"),
            mask: self.g.input(Type::F16, [cache.size, n / cache.streams, 1, cache.streams], "attn_inp_kq_mask"),
            rotation: self.g.input(Type::F32, [side, side, 1, 1], "attn_inp_k_rot"),
        }
    }

    /// Chooses the tokens that block `il` attends to from its input `x` and compressed queries `q`, if it has an indexer;
    /// otherwise those of the block before stay chosen.
    pub fn choose_tokens(&mut self, il: usize, x: TensorId, q: TensorId, positions: TensorId) {
        let memory = self.memory;
        let (Some(indexer), Some(cache), Some(input)) = (&self.hp.indexer, &memory.indexer, self.indexer) else {
            return;
        };
        if !indexer.is_full[il] {
            return;
        }
        let n = self.batch.n_tokens;
        let q = self.linear(il, LlmTensor::IndexerAttnQB, q);
        let q = self.g.reshape(q, [indexer.head_size, indexer.n_head, n, 1]);
        let q = self.g.rope(q, positions, TensorId::NONE);
        let k = self.linear(il, LlmTensor::IndexerAttnK, x);
        let k = if self.architecture.has(Trait::IndexerNormIsOptional) && !self.has(il, LlmTensor::IndexerKNorm) {
            let bias = self.bias(il, LlmTensor::IndexerKNorm);
            self.norm_with(k, TensorId::NONE, bias, Norm::Layer, Some(il))
        } else {
            self.norm(k, LlmTensor::IndexerKNorm, Norm::Layer, il)
        };
        let k = self.g.reshape(k, [indexer.head_size, 1, n, 1]);
        let k = self.g.rope(k, positions, TensorId::NONE);
        // which changes no score
        let rotates = !self.architecture.has(Trait::NoIndexerRotation);
        let [q, k] = [q, k].map(|x| if rotates { self.g.mul_mat(input.rotation, x) } else { x });

        let keys = self.indexer_keys(il, cache);
        let stored = self.store(keys, k, input.rows);
        self.g.expand(stored);

        let weights = self.linear(il, LlmTensor::IndexerProj, x);
        let (ty, streams) = (self.g[keys].ty, cache.streams);
        let strides = [row(ty, indexer.head_size), row(ty, indexer.head_size), row(ty, indexer.head_size) * cache.size];
        let k = self.g.window(keys, [indexer.head_size, 1, cache.size, streams], strides);
        let [q, weights] = [(q, 2), (weights, 1)].map(|(x, dim)| self.by_stream(x, dim, streams));
        let weights = self.g.scale(weights);
        self.top_k = self.best_rows(il, [q, k, weights], input.mask, indexer.top_k);
    }

    /// The rows of a cache that score best, at most `top_k`.
    pub fn best_rows(&mut self, il: usize, [q, k, weights]: [TensorId; 3], mask: TensorId, top_k: u64) -> TensorId {
        let scores = self.g.lightning_indexer(q, k, weights, mask);
        self.label(scores, "indexer_score", Some(il));
        let rows = self.g[scores].ne[0];
        let chosen = self.g.top_k(scores, top_k.min(rows));
        let chosen = self.g.cont(chosen);
        self.label(chosen, "top_k", Some(il))
    }

    /// The keys of block `il`'s indexer.
    pub fn indexer_keys(&mut self, il: usize, cache: &KvCache) -> TensorId {
        if let (false, Some(layer)) = (self.indexer_keys[il].is_some(), cache.layers[il]) {
            let ne = [layer.k, cache.size, cache.streams, 1];
            self.indexer_keys[il] = self.g.given(layer.ty_k, ne, Buffer::Cache(layer.place), "cache_k", il as i16);
        }
        self.indexer_keys[il]
    }

    /// A view of `x` that splits its dimension `dim`, the tokens, by stream.
    pub fn by_stream(&mut self, x: TensorId, dim: usize, streams: u64) -> TensorId {
        let Tensor { mut ne, mut nb, .. } = self.g[x];
        ne[dim] /= streams;
        ne[3] = streams;
        for stride in &mut nb[dim + 1..] {
            *stride /= streams;
        }
        self.g.view(x, ne, nb)
    }

    /// `mask` with all but the rows `chosen` masked.
    pub fn mask_of_chosen(&mut self, mask: TensorId, chosen: TensorId) -> TensorId {
        let nothing = self.g.fill(mask);
        let Tensor { ne, nb, .. } = self.g[nothing];
        let single = self.g.view(nothing, [1, ne[0], ne[1], ne[3]], [nb[0], nb[0], nb[1], nb[2]]);
        let Tensor { ne: [k, tokens, _, streams], nb, .. } = self.g[chosen];
        let chosen = self.g.view(chosen, [k, tokens, streams, 1], [nb[0], nb[1], nb[2], nb[3] * streams]);
        let ty = if self.architecture.has(Trait::MaskKeepsType) { self.g[mask].ty } else { Type::F32 };
        let zeros = self.g.add_tensor(Tensor::new(ty, [1, k, tokens, streams]));
        let zeros = self.g.fill(zeros);
        let open = self.g.set_rows(single, zeros, chosen);
        let nb = self.g[open].nb;
        let open = self.g.view(open, ne, [nb[0], nb[2], nb[3], nb[3]]);
        self.g.add(open, mask)
    }
}
