//! Indexers that choose pools of consecutive tokens: a pool is scored by one pooled key, which is cached in the row of its
//! last token beside what it was computed from (`models/glm5-next.cpp`, `llama-memory-hybrid-idx.cpp`, 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::cache::KvCache;
use crate::engine::llama_cpp::hparams::{Indexer, Pools};

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
