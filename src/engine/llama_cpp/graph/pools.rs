//! Indexers that choose pools of consecutive tokens: a pool is scored by one pooled key, which is cached in the row of its
//! last token beside what it was computed from (`models/glm5-next.cpp`, `llama-memory-hybrid-idx.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::hyper_connections::{GATED_ATTENTION, GATED_FEED_FORWARD, OF_ATTENTION, OF_FEED_FORWARD};
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::cache::KvCache;
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::hparams::{Indexer, NgramTable, Pools};
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// A batch's inputs for indexers of pools. Memory is reserved as if every pool of the cache were new.
#[derive(Clone, Copy)]
pub(super) struct PoolInput {
    /// The cache rows of the batch's tokens.
    rows: TensorId,
    /// For each pool, the row with its pooled key.
    cells: TensorId,
    /// For each pool, the rows of its tokens.
    pub members: TensorId,
    /// For each token, the pools that it may attend to.
    pub mask: TensorId,
    /// For each token, the rows behind the last complete pool.
    pub tail: TensorId,
    /// The rows of the tokens of new pools.
    new_members: TensorId,
    /// The rows that their pooled keys are written to.
    new_cells: TensorId,
    /// The positions of the first tokens of new pools.
    pub new_positions: TensorId,
    /// Tokens that one attends to at most.
    pub chosen: u64,
}

impl GraphBuilder<'_> {
    /// The inputs of all indexers of pools.
    pub(super) fn pool_input(&mut self, cache: &KvCache, indexer: &Indexer, pools: Pools) -> PoolInput {
        let n = self.batch.n_tokens;
        // as many as the cache could hold if all sequences filled it
        let new = (cache.size / pools.size * self.cx.n_seq_max).max(1);
        let count = (cache.size / pools.size * self.cx.n_seq_max + 1).next_multiple_of(64);
        let rows = self.g.input(Type::I64, [n, 1, 1, 1], "attn_inp_k_idxs");
        let mut input = |ty, ne, label| self.g.input(ty, ne, label);
        let cells = input(Type::I32, [count, 1, 1, 1], "pool_cells");
        let members = input(Type::I32, [pools.size, count, 1, 1], "pool_idxs");
        let mask = input(Type::F16, [count, n, 1, 1], "pool_mask");
        let tail = input(Type::I32, [pools.size - 1, n, 1, 1], "tail_idxs");
        let new_members = input(Type::I32, [pools.size, new, 1, 1], "new_pool_idxs");
        let new_cells = input(Type::I64, [new, 1, 1, 1], "new_pool_rep");
        let positions = new * self.hp.n_pos_per_embd(self.architecture);
        let new_positions = self.g.input(Type::I32, [positions, 1, 1, 1], "new_pool_pos");
        for id in [cells, members, mask, tail] {
            self.g.expand(id);
        }
        let best = count.min(indexer.top_k / pools.size) * pools.size;
        let chosen = best + if pools.keeps_tail { pools.size - 1 } else { 0 };
        PoolInput { rows, cells, members, mask, tail, new_members, new_cells, new_positions, chosen }
    }

    /// Stores the `parts` of every token's row, and an empty pooled key behind them. The first result are the rows of the
    /// tokens of new pools: `[parts, tokens of a pool, pools]`; the second all pooled keys of the cache.
    pub(super) fn store_in_pools(
        &mut self,
        il: usize,
        cache: &KvCache,
        input: &PoolInput,
        parts: TensorId,
    ) -> (TensorId, TensorId) {
        let keys = self.indexer_keys(il, cache);
        let [wide, n, ..] = self.g[parts].ne;
        let whole = self.g[keys].ne[0];
        let behind = whole.saturating_sub(wide);
        let nothing = self.g.add_tensor(Tensor::new(Type::F32, [behind, n, 1, 1]));
        let nothing = self.g.fill(nothing);
        let packed = self.g.concat(parts, nothing, 0);
        let packed = self.g.reshape(packed, [whole, 1, n, 1]);
        let stored = self.store(keys, packed, input.rows);
        self.g.expand(stored);

        let cells = cache.size * cache.streams;
        let stride = self.g[keys].nb[1];
        let of_tokens = self.g.window(keys, [wide, cells, 1, 1], [stride]);
        let pooled = self.g.window(keys, [behind, cells, 1, 1], [stride]);
        let [size, new, ..] = self.g[input.new_members].ne;
        let flat = self.g.reshape(input.new_members, [size * new, 1, 1, 1]);
        let rows = self.g.get_rows(of_tokens, flat);
        (self.g.reshape(rows, [wide, size, new, 1]), pooled)
    }

    /// Stores the pooled keys `new` among all of them, `pooled`, and reads those of the batch's pools: `[head, 1, pools]`.
    pub(super) fn pooled_keys(&mut self, input: &PoolInput, pooled: TensorId, new: TensorId) -> TensorId {
        let stored = self.g.set_rows(pooled, new, input.new_cells);
        self.g.expand(stored);
        let keys = self.g.get_rows(pooled, input.cells);
        let [head, count, ..] = self.g[keys].ne;
        self.g.reshape(keys, [head, 1, count, 1])
    }

    /// The scores of the pools `top_k`.
    pub(super) fn scores_of(&mut self, scores: TensorId, top_k: TensorId) -> TensorId {
        let [count, n, ..] = self.g[scores].ne;
        let scores = self.g.reshape(scores, [1, count, n, 1]);
        self.g.get_rows(scores, top_k)
    }

    /// The rows of the tokens of the pools `top_k`.
    pub(super) fn rows_of_pools(&mut self, input: &PoolInput, top_k: TensorId) -> TensorId {
        let [k, n, ..] = self.g[top_k].ne;
        let size = self.g[input.members].ne[0];
        let flat = self.g.reshape(top_k, [k * n, 1, 1, 1]);
        let rows = self.g.get_rows(input.members, flat);
        self.g.reshape(rows, [size * k, n, 1, 1])
    }

    /// A mask like `mask` for `chosen` rows, all closed, with as many rows behind it as are chosen; and one for these that
    /// is open.
    pub(super) fn closed_and_open(&mut self, mask: TensorId, chosen: u64) -> [TensorId; 2] {
        let Tensor { ty, ne: [size, ..], .. } = self.g[mask];
        let n = self.batch.n_tokens;
        [size + chosen, chosen].map(|rows| {
            let row = self.g.add_tensor(Tensor::new(ty, [rows, 1, 1, 1]));
            let row = self.g.fill(row);
            let all = self.g.repeat(row, [rows, n, 1, 1]);
            self.g.reshape(all, [1, rows, n, 1])
        })
    }

    /// The `chosen` rows, those that are not live moved behind the cache, each to a row of its own.
    pub(super) fn moved_behind(&mut self, chosen: TensorId, live: TensorId, behind: TensorId) -> TensorId {
        let rows = self.g.cast(chosen, Type::F32);
        let rows = self.g.sub(rows, behind);
        let rows = self.g.mul(rows, live);
        let rows = self.g.add(rows, behind);
        self.g.cast(rows, Type::I32)
    }

    /// `closed` with the `chosen` rows of every token open.
    pub(super) fn opened_rows(&mut self, closed: TensorId, open: TensorId, chosen: TensorId) -> TensorId {
        let [k, n, ..] = self.g[chosen].ne;
        let chosen = self.g.reshape(chosen, [k, n, 1, 1]);
        self.g.set_rows(closed, open, chosen)
    }
}

// Qwen 3.8 Flash Next: gated delta nets, and between them gated attention to the pools of tokens that an indexer
// chooses, over several residual streams (`models/qwen4exp.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    pub fn qwen4exp(&mut self) {
        let x = self.embeddings(false);
        let states = self.recurrent_input();
        self.attention_inputs();
        let pools = self.pools_of_memory();
        let positions = self.positions();
        let out_ids = self.out_ids();
        let ngrams = self.hp.ngrams.map(|table| {
            let rows = self.ngram_rows(table);
            self.g.expand(rows);
            (table, rows)
        });
        let mut x = self.spread_over_streams(x);
        self.g.expand(x);
        let crops = self.cx.drafting.embeddings_nextn != NextnRows::All;
        for il in 0..self.hp.n_layer() {
            self.layer_input(il, x);
            if let Some((table, rows)) = ngrams.filter(|(table, _)| table.block == il) {
                x = self.add_ngrams(table, states, x, rows);
            }
            let (y, mut inject) = self.gated_pre(il, x, GATED_ATTENTION);
            self.g.expand(y);
            let mut y = if self.hp.is_recr[il] {
                self.delta_net(states, il, y)
            } else {
                self.gated_attention_to_pools(il, y, positions, pools)
            };
            if il + 1 == self.hp.n_layer() && crops {
                [y, inject] = [y, inject].map(|x| self.g.get_rows(x, out_ids));
                x = self.kept_streams(x, out_ids);
            }
            x = self.gated_post(il, x, y, inject);
            x = self.gated_feed_forward(il, x);
            self.label(x, "l_last", Some(il));
            self.pin(x, il);
        }
        if self.cx.drafting.embeddings_nextn != NextnRows::None {
            self.give_hidden_states(x);
        }
        if !crops {
            x = self.kept_streams(x, out_ids);
        }
        let head = [LlmTensor::HcHeadNorm, LlmTensor::HcHeadDown, LlmTensor::HcHeadUp];
        let head = head.map(|slot| self.need_global(slot));
        self.close_gated(None, x, head);
    }

    /// The MTP block: the embedding of each token beside every stream of the hidden state before it, through one block
    /// with attention.
    pub fn qwen4exp_mtp(&mut self) {
        let il = self.hp.n_layer();
        let (n, n_embd, streams) = (self.batch.n_tokens, self.hp.n_embd, self.hp.n_hyper_connections);
        let table = self.need_global(LlmTensor::TokenEmbd);
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let hidden = self.g.input(Type::F32, [n_embd * streams, n, 1, 1], "mtp_h_input");
        let embedded = self.g.get_rows(table, tokens);
        let states = self.recurrent_input();
        self.attention_inputs();
        self.g.expand(states.copy);
        let pools = self.pools_of_memory();
        let positions = self.positions();
        let out_ids = self.out_ids();
        let hidden = self.g.reshape(hidden, [n_embd, streams, n, 1]);
        let hidden = self.rms(hidden, LlmTensor::NextnHnorm, il);
        let embedded = self.rms(embedded, LlmTensor::NextnEnorm, il);
        let embedded = self.spread_over_streams(embedded);
        let both = self.g.concat(embedded, hidden, 0);
        let x = self.linear(il, LlmTensor::NextnEhProj, both);
        let (y, inject) = self.gated_pre(il, x, GATED_ATTENTION);
        let y = self.gated_attention_to_pools(il, y, positions, pools);
        let x = self.gated_post(il, x, y, inject);
        let x = self.gated_feed_forward(il, x);
        let kept = self.kept_streams(x, out_ids);
        let of_outputs = self.cx.drafting.embeddings_nextn == NextnRows::Outputs;
        self.give_hidden_states(if of_outputs { kept } else { x });
        let head = [LlmTensor::NextnHcHeadNorm, LlmTensor::NextnHcHeadDown, LlmTensor::NextnHcHeadUp];
        let head = head.map(|slot| self.need(il, slot));
        self.close_gated(Some(il), kept, head);
    }

    /// The streams `x` as the hidden states that a draft starts from.
    fn give_hidden_states(&mut self, x: TensorId) {
        let [n_embd, streams, n, _] = self.g[x].ne;
        let flat = self.g.reshape(x, [n_embd * streams, n, 1, 1]);
        self.g.set_output(flat);
        self.g.expand(flat);
    }

    /// The mix of all streams, which needs no other norm, and the logits.
    fn close_gated(&mut self, il: Option<usize>, x: TensorId, head: [TensorId; 3]) {
        let (x, _) = self.gated_mix(il, x, head);
        self.g[x].output = true;
        let logits = self.logits(x);
        self.close(logits);
    }

    /// The second half of a block: experts.
    fn gated_feed_forward(&mut self, il: usize, x: TensorId) -> TensorId {
        let (y, inject) = self.gated_pre(il, x, GATED_FEED_FORWARD);
        let y = self.gated_experts(il, y);
        self.gated_post(il, x, y, inject)
    }

    fn pools_of_memory(&mut self) -> Option<PoolInput> {
        let (memory, hp) = (self.memory, self.hp);
        let (cache, indexer) = memory.indexer.as_ref().zip(hp.indexer.as_ref())?;
        Some(self.pool_input(cache, indexer, indexer.pools?))
    }

    /// Gated attention, to all tokens unless block `il` has pools.
    fn gated_attention_to_pools(
        &mut self,
        il: usize,
        x: TensorId,
        positions: TensorId,
        pools: Option<PoolInput>,
    ) -> TensorId {
        let is_read = self.hp.indexer.as_ref().is_some_and(|indexer| indexer.is_read[il]);
        self.pool_mask = match pools.filter(|_| is_read) {
            Some(input) => self.pools_by_mean(il, x, positions, &input),
            None => TensorId::NONE,
        };
        self.gated_attention(il, x, positions)
    }

    /// The mask of the pools that the indexer of block `il` chooses by the means of their keys.
    fn pools_by_mean(&mut self, il: usize, x: TensorId, positions: TensorId, input: &PoolInput) -> TensorId {
        let (memory, hp) = (self.memory, self.hp);
        let Some((cache, indexer)) = memory.indexer.as_ref().zip(hp.indexer.as_ref()) else { return TensorId::NONE };
        let (n, head) = (self.batch.n_tokens, indexer.head_size);
        let k = self.linear(il, LlmTensor::IndexerKProj, x);
        let (rows, pooled) = self.store_in_pools(il, cache, input, k);
        let new = self.pooled_by_mean(il, rows, input.new_positions);
        let keys = self.pooled_keys(input, pooled, new);
        let q = self.linear(il, LlmTensor::IndexerQProj, x);
        let q = self.g.reshape(q, [head, indexer.n_head, n, 1]);
        let q = self.rms(q, LlmTensor::IndexerQNorm, il);
        let q = self.g.rope(q, positions, TensorId::NONE);
        let weights = self.g.add_tensor(Tensor::new(Type::F32, [indexer.n_head, n, 1, 1]));
        let weights = self.g.fill(weights);
        let scores = self.g.lightning_indexer(q, keys, weights, input.mask);
        self.label(scores, "indexer_score", Some(il));
        let size = self.g[input.members].ne[0];
        let k = self.g[scores].ne[0].min(indexer.top_k / size);
        let best = self.g.top_k(scores, k);
        let chosen = self.rows_of_pools(input, best);
        let chosen = self.g.concat(chosen, input.tail, 0);
        self.g.expand(chosen);

        let mask = self.full.map_or(TensorId::NONE, |input| input.mask);
        let [closed, open] = self.closed_and_open(mask, input.chosen);
        // a pool is live if its score is finite, a token behind the last pool if it exists
        let live = self.scores_of(scores, best);
        let live = self.g.scale(live);
        let live = self.clamp(live);
        let live = self.g.repeat(live, [size, k, n, 1]);
        let live = self.g.reshape(live, [size * k, n, 1, 1]);
        let tail = self.g.cast(input.tail, Type::F32);
        let tail = self.g.scale(tail);
        let tail = self.clamp(tail);
        let live = self.g.concat(live, tail, 0);
        let behind = self.g.fill(live);
        let behind = self.g.cumsum(behind);
        let behind = self.g.scale(behind);
        let chosen = self.moved_behind(chosen, live, behind);
        let opened = self.opened_rows(closed, open, chosen);
        let (row, ne) = (self.g[opened].nb[2], self.g[mask].ne);
        let opened = self.g.window(opened, ne, [row, row * ne[1], row * ne[1] * ne[2]]);
        self.sum(opened, mask, "indexer_sel", il)
    }

    /// Pooled keys: the mean of the keys of a pool's tokens, normalised, at the position of the first.
    fn pooled_by_mean(&mut self, il: usize, rows: TensorId, positions: TensorId) -> TensorId {
        let Tensor { ne: [head, size, new, _], nb, .. } = self.g[rows];
        let mut sum = TensorId::NONE;
        for _ in 0..size {
            let key = self.g.window(rows, [head, new, 1, 1], [nb[2]]);
            sum = if sum.is_some() { self.g.add(sum, key) } else { self.g.cont(key) };
        }
        let mean = self.g.scale(sum);
        let mean = self.rms(mean, LlmTensor::IndexerKNorm, il);
        let mean = self.g.reshape(mean, [head, 1, new, 1]);
        let mean = self.g.rope(mean, positions, TensorId::NONE);
        self.g.reshape(mean, [head, new, 1, 1])
    }
}

// A table of embeddings of n-grams: the rows of a token are hashes of it and those before it, computed on the host.
// One block adds them to its streams, gated, and convolved over the last tokens (`models/qwen4exp.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// The rows of the batch's tokens.
    pub(super) fn ngram_rows(&mut self, table: NgramTable) -> TensorId {
        let n = self.batch.n_tokens;
        let rows = self.g.input(Type::I32, [table.heads * n, 1, 1, 1], "ple_rows");
        let weights = self.need_global(LlmTensor::PerLayerTokenEmbd);
        let looked_up = self.g.get_rows(weights, rows);
        let wide = self.g[looked_up].ne[0];
        let looked_up = self.g.reshape(looked_up, [wide * table.heads, n, 1, 1]);
        self.label(looked_up, "ple_embd", None)
    }

    /// The streams `x` with what the `rows` say added.
    pub(super) fn add_ngrams(
        &mut self,
        table: NgramTable,
        input: RecurrentInput,
        x: TensorId,
        rows: TensorId,
    ) -> TensorId {
        let il = table.block;
        let apart = self.g[x].ne;
        let [n_embd, streams, n, _] = apart;
        let key = self.linear(il, LlmTensor::PleKey, rows);
        let value = self.linear(il, LlmTensor::PleValue, rows);
        let key = self.normed_streams(il, LlmTensor::PleNormKey, key, apart);
        let query = self.normed_streams(il, LlmTensor::PleNormQuery, x, apart);
        let score = self.g.mul(key, query);
        let score = self.g.sum_rows(score);
        let score = self.g.scale(score);
        let size = self.g.unary(score, UnaryOp::Abs);
        let size = self.clamp(size);
        let size = self.g.sqrt(size);
        let sign = self.g.unary(score, UnaryOp::Sgn);
        let gate = self.g.mul(sign, size);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let value = self.g.reshape(value, [n_embd, 1, n, 1]);
        let value = self.g.repeat(value, apart);
        let gated = self.g.mul(value, gate);

        let flat = self.g.reshape(gated, [n_embd * streams, n, 1, 1]);
        let normed = self.normed_streams(il, LlmTensor::PleNormConv, flat, apart);
        let normed = self.g.reshape(normed, [n_embd * streams, n, 1, 1]);
        let (per_seq, n_seqs) = (self.n_seq_tokens(), self.batch.n_seqs);
        let normed = self.g.reshape(normed, [n_embd * streams, per_seq, n_seqs, 1]);
        let state = self.state(il, RecurrentState::Ngrams);
        let columns = self.convolved_input(input, state, normed, table.history(), false);
        let convolved = self.dilated_convolution(table, columns);
        let convolved = self.g.unary(convolved, UnaryOp::Silu);
        let convolved = self.g.cont(convolved);
        let convolved = self.g.reshape(convolved, apart);
        let both = self.g.add(gated, convolved);
        self.g.add(x, both)
    }

    fn normed_streams(&mut self, il: usize, weights: LlmTensor, x: TensorId, apart: [u64; 4]) -> TensorId {
        let weights = self.need(il, weights);
        let x = self.g.reshape(x, apart);
        let x = self.g.rms_norm(x);
        self.g.mul(x, weights)
    }

    /// A convolution by channel with gaps between its taps, as a sum of shifted copies.
    fn dilated_convolution(&mut self, table: NgramTable, columns: TensorId) -> TensorId {
        let Tensor { ne: [_, channels, n_seqs, _], nb, .. } = self.g[columns];
        let per_seq = self.n_seq_tokens();
        let kernel = self.need(table.block, LlmTensor::PleConv1d);
        let mut sum = TensorId::NONE;
        for _ in 0..table.conv_kernel {
            let shifted = self.g.window(columns, [per_seq, channels, n_seqs, 1], [nb[1], nb[2]]);
            let shifted = self.g.transposed(shifted);
            let stride = self.g[kernel].nb[1];
            let tap = self.g.window(kernel, [1, channels, 1, 1], [stride]);
            let tap = self.g.cont(tap);
            let mut tap = self.g.reshape(tap, [channels, 1, 1, 1]);
            if self.g[tap].ty != Type::F32 {
                tap = self.g.cast(tap, Type::F32);
            }
            let term = self.g.mul(shifted, tap);
            sum = if sum.is_some() { self.g.add(sum, term) } else { term };
        }
        sum
    }
}

// GLM 5.3: delta attention by channel, and between its blocks compressed attention without positions to the pools
// of tokens that an indexer chooses, over residual streams that are mixed (`models/glm5-next.cpp`, 0.1.161).

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
        for il in 0..self.hp.n_layer() {
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
