//! GLM 5.3: delta attention by channel, and between its blocks compressed attention without positions to the pools
//! of tokens that an indexer chooses, over residual streams that are mixed (`models/glm5-next.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::hyper_connections::{OF_ATTENTION, OF_FEED_FORWARD};
use super::pools::PoolInput;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// Tokens of a ubatch up to which attention reads copies of the chosen rows instead of the masked cache.
const GATHERS_UP_TO: u64 = 16;

/// A batch's inputs for the indexers.
#[derive(Clone, Copy)]
struct IndexerPools {
    input: PoolInput,
    /// For each token, the chosen rows that are real.
    live: TensorId,
    /// Attention reads copies of the chosen rows.
    gathers: bool,
}

impl GraphBuilder<'_> {
    pub fn glm5_next(&mut self) {
        let kind = self.transformer_kind();
        let x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let pools = self.indexer_pools();
        let out_ids = self.out_ids();
        let mut x = self.spread_over_streams(x);
        let mut chosen = TensorId::NONE;
        for &il in self.blocks {
            let (y, mix) = self.mixed_pre(il, x, OF_ATTENTION);
            let y = self.rms(y, LlmTensor::AttnNorm, il);
            self.g.expand(y);
            let y = match pools {
                Some(pools) if !self.hp.is_recr[il] => self.attention_to_pools(il, y, &pools, &mut chosen),
                _ => self.kimi_delta(states, il, y),
            };
            x = self.mixed_post(il, y, mix);

            let (y, mix) = self.mixed_pre(il, x, OF_FEED_FORWARD);
            let y = self.rms(y, LlmTensor::FfnNorm, il);
            let y = self.dense_or_experts(&kind, il, y, TensorId::NONE);
            x = self.mixed_post(il, y, mix);
        }
        let x = self.kept_streams(x, out_ids);
        let x = self.stream_mean(x);
        self.end(x, Norm::Rms);
    }

    fn indexer_pools(&mut self) -> Option<IndexerPools> {
        let (memory, hp) = (self.memory, self.hp);
        let (cache, indexer) = memory.indexer.as_ref().zip(hp.indexer.as_ref())?;
        let pools = indexer.pools?;
        let input = self.pool_input(cache, indexer, pools);
        let live = self.g.input(Type::F32, [input.chosen, 1, 1, self.batch.n_tokens], "gather_mask");
        self.g.expand(live);
        let gathers = self.cx.n_ubatch <= GATHERS_UP_TO && self.cx.n_ctx > indexer.top_k + pools.size - 1;
        Some(IndexerPools { input, live, gathers })
    }

    /// Compressed attention; `chosen` is what the last indexer chose.
    fn attention_to_pools(&mut self, il: usize, x: TensorId, pools: &IndexerPools, chosen: &mut TensorId) -> TensorId {
        let (n, heads, lora) = (self.batch.n_tokens, self.hp.n_head[il], self.hp.n_lora_kv);
        let q = self.multiply(il, LlmTensor::AttnQA, x);
        let latent = self.rms(q, LlmTensor::AttnQANorm, il);
        let q = self.multiply(il, LlmTensor::AttnQB, latent);
        let head = self.g[q].ne[0] / heads.max(1);
        let q = self.g.reshape(q, [head, heads, n, 1]);
        let k = self.multiply(il, LlmTensor::AttnKvAMqa, x);
        let k = self.rms(k, LlmTensor::AttnKvANorm, il);
        let k = self.g.reshape(k, [lora, 1, n, 1]);
        let q = self.g.permute(q, [0, 2, 1, 3]);
        let q = self.multiply(il, LlmTensor::AttnKB, q);
        let q = self.g.permute(q, [0, 2, 1, 3]);
        if self.hp.indexer.as_ref().is_some_and(|indexer| indexer.is_full[il]) {
            *chosen = self.choose_pools(il, x, latent, pools);
        }
        let qkv = Qkv { q, k, v: k };
        if pools.gathers {
            return self.attention_to_copies(il, qkv, *chosen, pools.live);
        }
        self.pool_mask = *chosen;
        let v_unfold = self.need(il, LlmTensor::AttnVB);
        self.attention(il, qkv, AttentionExtras { v_unfold, ..AttentionExtras::default() })
    }

    /// The mask of the pools that the indexer of block `il` chooses, or the rows of their tokens if attention reads copies.
    fn choose_pools(&mut self, il: usize, x: TensorId, q: TensorId, pools: &IndexerPools) -> TensorId {
        let (memory, hp) = (self.memory, self.hp);
        let Some((cache, indexer)) = memory.indexer.as_ref().zip(hp.indexer.as_ref()) else { return TensorId::NONE };
        let input = &pools.input;
        let (n, head) = (self.batch.n_tokens, indexer.head_size);
        let q = self.multiply(il, LlmTensor::IndexerAttnQB, q);
        let q = self.g.reshape(q, [head, indexer.n_head, n, 1]);
        let k = self.multiply(il, LlmTensor::IndexerAttnK, x);
        let k = self.norm(k, LlmTensor::IndexerKNorm, Norm::Layer, il);
        let gate = self.multiply(il, LlmTensor::IndexerCompressorGate, x);
        let parts = self.g.concat(k, gate, 0);
        let (rows, pooled) = self.store_in_pools(il, cache, input, parts);
        let new = self.pooled_by_gate(il, rows, head);
        let keys = self.pooled_keys(input, pooled, new);

        let weights = self.multiply(il, LlmTensor::IndexerProj, x);
        let weights = self.g.scale(weights);
        let scores = self.g.lightning_indexer(q, keys, weights, input.mask);
        self.label(scores, "indexer_score", Some(il));
        let size = self.g[input.members].ne[0];
        let k = self.g[scores].ne[0].min(indexer.top_k / size);
        let best = self.g.top_k(scores, k);
        // in the order of their scores, because the first of them are the live ones
        let ranking = self.scores_of(scores, best);
        let ranking = self.g.reshape(ranking, [k, n, 1, 1]);
        let order = self.g.argsort(ranking);
        let best = self.g.cast(best, Type::F32);
        let best = self.g.reshape(best, [1, k, n, 1]);
        let best = self.g.get_rows(best, order);
        let best = self.g.reshape(best, [k, n, 1, 1]);
        let best = self.g.cont(best);
        let best = self.g.cast(best, Type::I32);
        let mut chosen = self.rows_of_pools(input, best);
        if self.g[chosen].ne[0] < input.chosen {
            chosen = self.g.concat(chosen, input.tail, 0);
        }
        if pools.gathers {
            return chosen;
        }
        self.g.expand(chosen);

        let mask = self.full.map_or(TensorId::NONE, |input| input.mask);
        let size = self.g[mask].ne[0];
        let [closed, open] = self.closed_and_open(mask, input.chosen);
        let live = self.g.reshape(pools.live, [input.chosen, n, 1, 1]);
        let live = self.g.unary(live, UnaryOp::Exp);
        let behind = self.g.arange(input.chosen);
        let chosen = self.moved_behind(chosen, live, behind);
        let opened = self.opened_rows(closed, open, chosen);
        let stride = self.g[opened].nb[2];
        let opened = self.g.window(opened, [size, n, 1, 1], [stride]);
        let mask = self.g.reshape(mask, [size, n, 1, 1]);
        self.sum(opened, mask, "indexer_sel", il)
    }

    /// Pooled keys: the keys of a pool's tokens, weighted by a softmax of their gates.
    fn pooled_by_gate(&mut self, il: usize, rows: TensorId, head: u64) -> TensorId {
        let Tensor { ne: [_, size, new, _], nb, .. } = self.g[rows];
        let [keys, gates] = [(); 2].map(|()| self.g.window(rows, [head, size, new, 1], [nb[1], nb[2]]));
        let by_place = self.need(il, LlmTensor::IndexerCompressorApe);
        let gates = self.g.add(gates, by_place);
        let [keys, gates] = [keys, gates].map(|x| self.g.permuted(x, [1, 0, 2, 3]));
        let gates = self.g.reshape(gates, [size, head * new, 1, 1]);
        let weights = self.g.soft_max(gates, TensorId::NONE, TensorId::NONE);
        let weights = self.g.reshape(weights, [size, head, new, 1]);
        let weighted = self.g.mul(weights, keys);
        let sums = self.g.sum_rows(weighted);
        self.g.reshape(sums, [head, new, 1, 1])
    }

    /// Attention of few tokens to copies of the rows that each has `chosen`.
    fn attention_to_copies(&mut self, il: usize, qkv: Qkv, chosen: TensorId, live: TensorId) -> TensorId {
        let (memory, lora) = (self.memory, self.hp.n_lora_kv);
        let (Some(cache), Some(input)) = (&memory.full, self.full) else { return qkv.q };
        let Some(layer) = cache.layers[il] else { return qkv.q };
        self.g.expand(qkv.q);
        self.g.expand(qkv.k);
        let (keys, _) = self.store_and_view_cache(il, cache, &layer, input, qkv);
        self.g.expand(input.mask);

        let all = self.g[keys].view_of;
        let stride = self.g[all].nb[1];
        let all = self.g.window(all, [lora, cache.size * cache.streams, 1, 1], [stride]);
        let [k, n, ..] = self.g[chosen].ne;
        let rows = self.g.reshape(chosen, [k * n, 1, 1, 1]);
        let keys = self.g.get_rows(all, rows);
        let keys = self.g.reshape(keys, [lora, k, 1, n]);
        let q = self.g.permute(qkv.q, [0, 2, 3, 1]);
        let scores = self.g.mul_mat(keys, q);
        let scores = self.g.soft_max(scores, live, TensorId::NONE);
        let values = self.g.transposed(keys);
        let y = self.g.mul_mat(values, scores);
        let y = self.multiply(il, LlmTensor::AttnVB, y);
        let y = self.g.permuted(y, [0, 2, 1, 3]);
        let Tensor { ne: [head, heads, ..], .. } = self.g[y];
        let y = self.g.reshape(y, [head * heads, n, 1, 1]);
        self.multiply(il, LlmTensor::AttnOutput, y)
    }
}
