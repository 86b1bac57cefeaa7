//! `MiniMax` M3: in blocks with experts an indexer scores blocks of positions, and attention reads only the best
//! (`models/minimax-m3.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, AttentionInput, Qkv};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, row};
use crate::engine::llama_cpp::hparams::Indexer;
use crate::engine::llama_cpp::transformer::Norm;
use crate::engine::llama_cpp::weights::LlmTensor;

/// Positions of an empty cache (`llama_kv_cache_msa_context::get_n_pos`, 0.1.161).
const RESERVED_POSITIONS: u64 = 256;

/// A batch's inputs for choosing blocks of positions.
#[derive(Clone, Copy)]
struct BlockInput {
    rows: TensorId,
    /// Which blocks are near enough to be chosen in any case.
    bias: TensorId,
    /// Positions without a cell.
    pos_mask: TensorId,
    /// The cell of every position.
    pos_slot: TensorId,
    /// How the cells of chosen blocks are read.
    reads: BlockReads,
    /// Blocks of positions.
    blocks: u64,
}

/// How attention reads the cells of chosen blocks.
#[derive(Clone, Copy)]
enum BlockReads {
    /// They are gathered, for one token per sequence.
    Gathered {
        /// The cell of every position, as a value.
        slots: TensorId,
    },
    /// All others are masked.
    Masked {
        /// The block of every cell.
        cell_block: TensorId,
        /// The attention mask in f32.
        mask: TensorId,
    },
}

/// The tensors of one block's sparse attention.
#[derive(Clone, Copy)]
struct Sparse {
    /// The indexer's queries, and its keys in the cache.
    iq: TensorId,
    ik: TensorId,
    q: TensorId,
    /// The caches.
    k: TensorId,
    v: TensorId,
}

impl GraphBuilder<'_> {
    pub fn minimax_m3(&mut self) {
        let kind = self.transformer_kind();
        let mut x = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let blocks = self.block_input();
        let out_ids = self.out_ids();
        for &il in self.blocks {
            let y = self.rms(x, LlmTensor::AttnNorm, il);
            let qkv = self.qkv(il, y);
            let qkv = self.norm_heads(il, qkv, Norm::Rms);
            let qkv = self.rotate(qkv, positions, TensorId::NONE);
            let y = match (&self.hp.indexer, blocks, self.full) {
                (Some(indexer), Some(blocks), Some(input)) if indexer.is_full[il] => {
                    let y = self.block_sparse_attention(il, y, qkv, positions, (indexer, blocks, input));
                    self.linear(il, LlmTensor::AttnOutput, y)
                }
                _ => self.attention(il, qkv, AttentionExtras::default()),
            };
            let [y, residual] = self.keep_outputs(il, out_ids, [y, x]);
            let half = self.g.add(y, residual);
            let y = self.rms(half, LlmTensor::FfnNorm, il);
            let y = self.dense_or_experts(&kind, il, y, TensorId::NONE);
            x = self.sum(y, half, "l_out", il);
        }
        self.end(x, Norm::Rms);
    }

    /// The inputs of sparse attention; none if it is dense: without flash attention, or if sequences share a cache.
    fn block_input(&mut self) -> Option<BlockInput> {
        let (indexer, cache, input) = (self.hp.indexer.as_ref()?, self.memory.indexer.as_ref()?, self.full?);
        if !self.cx.flash_attn || (self.cx.kv_unified && self.cx.n_seq_max > 1) {
            return None;
        }
        let (n, streams) = (self.batch.n_tokens, cache.streams);
        // an empty cache is reserved for, which has no positions
        let blocks = RESERVED_POSITIONS.div_ceil(indexer.block_size);
        let positions = blocks * indexer.block_size;
        Some(BlockInput {
            rows: self.g.input(Type::I64, [n, 1, 1, 1], "attn_inp_k_idxs"),
            bias: self.g.input(Type::F32, [blocks, n, 1, 1], "msa_bias"),
            pos_mask: self.g.input(Type::F32, [positions, n, 1, 1], "msa_pos_mask"),
            pos_slot: self.g.input(Type::I32, [positions, streams, 1, 1], "msa_pos_slot"),
            reads: if n == streams {
                BlockReads::Gathered { slots: self.g.input(Type::F32, [positions, streams, 1, 1], "msa_pos_slot_f") }
            } else {
                BlockReads::Masked {
                    cell_block: self.g.input(Type::I32, [cache.size, streams, 1, 1], "msa_cell_blk"),
                    mask: self.g.cast(input.mask, Type::F32),
                }
            },
            blocks,
        })
    }

    fn block_sparse_attention(
        &mut self,
        il: usize,
        x: TensorId,
        qkv: Qkv,
        positions: TensorId,
        (indexer, blocks, input): (&Indexer, BlockInput, AttentionInput),
    ) -> TensorId {
        let memory = self.memory;
        let (Some(keys), Some(cache)) = (&memory.indexer, &memory.full) else { return qkv.q };
        let Some(layer) = cache.layers[il] else { return qkv.q };
        let (n, size) = (self.batch.n_tokens, indexer.head_size);
        let [iq, ik] = [
            (LlmTensor::IndexerQProj, LlmTensor::IndexerQNorm, indexer.n_head),
            (LlmTensor::IndexerKProj, LlmTensor::IndexerKNorm, 1),
        ]
        .map(|(matrix, norm, heads)| {
            let x = self.linear(il, matrix, x);
            let x = self.g.reshape(x, [size, heads, n, 1]);
            let x = self.rms(x, norm, il);
            self.g.rope(x, positions, TensorId::NONE)
        });
        let stored = self.indexer_keys(il, keys);
        let written = self.store(stored, ik, blocks.rows);
        self.g.expand(written);
        let ty = self.g[stored].ty;
        let (one, all) = (row(ty, size), row(ty, size) * keys.size);
        let ik = self.g.window(stored, [size, 1, keys.size, keys.streams], [one, one, all]);

        let qkv = self.hadamard(qkv, input);
        for x in [qkv.q, qkv.k, qkv.v] {
            self.g.expand(x);
        }
        let (k, v) = self.store_and_view_cache(il, cache, &layer, input, qkv);
        let sparse = Sparse { iq, ik, q: qkv.q, k, v };
        let all = match blocks.reads {
            BlockReads::Gathered { slots } => self.attend_to_gathered(indexer, blocks, &sparse, slots),
            BlockReads::Masked { cell_block, mask } => {
                let mut all = TensorId::NONE;
                for _ in 0..keys.streams {
                    let mask = self.block_mask(indexer, blocks, &sparse, [cell_block, mask]);
                    let y = self.attend_to_blocks(&sparse, mask);
                    all = if all.is_some() { self.g.concat(all, y, 1) } else { y };
                }
                all
            }
        };
        if input.rotation_v.is_some() { self.rotated(all, input.rotation_v) } else { all }
    }

    /// The mask of one stream that leaves only the cells of chosen blocks, by KV head.
    fn block_mask(
        &mut self,
        indexer: &Indexer,
        blocks: BlockInput,
        sparse: &Sparse,
        [cell_block, mask]: [TensorId; 2],
    ) -> TensorId {
        let (heads, size) = (indexer.n_head, indexer.head_size);
        let Tensor { ne: [_, _, cells, streams], nb: key, .. } = self.g[sparse.ik];
        let n = self.batch.n_tokens / streams;
        let (count, positions) = (blocks.blocks, blocks.blocks * indexer.block_size);
        let iq = self.g[sparse.iq].nb;
        let iq = self.g.window(sparse.iq, [size, heads, n, 1], [iq[1], iq[2]]);
        let ik = self.g.window(sparse.ik, [size, cells, 1, 1], [key[2]]);
        let slots = self.g.window(blocks.pos_slot, [positions, 1, 1, 1], []);
        let stride = self.g[blocks.pos_mask].nb[1];
        let pos_mask = self.g.window(blocks.pos_mask, [positions, 1, n, 1], [stride, stride]);
        let cell_block = self.g.window(cell_block, [cells, 1, 1, 1], []);
        let of_mask = self.g[mask].nb;
        let mask = self.g.window(mask, [cells, n, 1, 1], [of_mask[1], of_mask[3]]);
        let stride = self.g[blocks.bias].nb[1];
        let bias = self.g.window(blocks.bias, [count, 1, n, 1], [stride, stride]);

        let by_position = self.g.get_rows(ik, slots);
        let iq = self.g.reshape(iq, [size, heads * n, 1, 1]);
        let scores = self.g.mul_mat(by_position, iq);
        let scores = self.g.reshape(scores, [positions, heads, n, 1]);
        let scores = self.g.add_in_place(scores, pos_mask);
        let best = self.g.pool_rows(scores, indexer.block_size);
        let best = self.g.add(best, bias);
        let chosen = indexer.top_k.min(count);
        let ids = self.g.top_k(best, chosen);

        let closed = self.g.scale(bias);
        let closed = self.g.cast(closed, Type::F16);
        let closed = self.g.repeat(closed, [count, heads, n, 1]);
        let open = self.g.cast(ids, Type::F32);
        let open = self.g.scale(open);
        let closed = self.g.reshape(closed, [1, count, heads * n, 1]);
        let open = self.g.reshape(open, [1, chosen, heads * n, 1]);
        let ids = self.g.reshape(ids, [chosen, heads * n, 1, 1]);
        let by_block = self.g.set_rows(closed, open, ids);
        let by_block = self.g.reshape(by_block, [count, heads, n, 1]);
        let by_block = self.g.permuted(by_block, [0, 2, 1, 3]);
        let by_block = self.g.reshape(by_block, [count, n * heads, 1, 1]);
        let by_block = self.g.transposed(by_block);
        let by_cell = self.g.get_rows(by_block, cell_block);
        let by_cell = self.g.transposed(by_cell);
        let by_cell = self.g.reshape(by_cell, [cells, n, heads, 1]);
        let by_cell = self.g.add_in_place(by_cell, mask);
        let by_cell = self.g.reshape(by_cell, [cells, n, 1, heads]);
        self.g.cast(by_cell, Type::F16)
    }

    /// Flash attention of one stream, with every KV head as a batch of its own.
    fn attend_to_blocks(&mut self, sparse: &Sparse, mask: TensorId) -> TensorId {
        let Tensor { ne: [head, heads_kv, cells, streams], nb: of_k, .. } = self.g[sparse.k];
        let Tensor { ne: [head_v, ..], nb: of_v, .. } = self.g[sparse.v];
        let Tensor { ne: [_, heads, n, _], nb: of_q, .. } = self.g[sparse.q];
        let n = n / streams;
        let q = self.g.window(sparse.q, [head, heads, n, 1], [of_q[1], of_q[2]]);
        let k = self.g.window(sparse.k, [head, heads_kv, cells, 1], [of_k[1], of_k[2], of_k[3]]);
        let v = self.g.window(sparse.v, [head_v, heads_kv, cells, 1], [of_v[1], of_v[2], of_v[3]]);
        let [k, v] = [k, v].map(|x| self.g.permute(x, [0, 3, 1, 2]));
        let q = self.g.reshape(q, [head, heads / heads_kv, heads_kv, n]);
        self.attend_by_head([q, k, v], mask, [head_v * heads, n])
    }

    /// Flash attention of queries by KV head; the result has the shape `to`.
    fn attend_by_head(&mut self, [q, k, v]: [TensorId; 3], mask: TensorId, to: [u64; 2]) -> TensorId {
        let q = self.g.permute(q, [0, 2, 3, 1]);
        let y = self.g.flash_attention(q, k, v, mask, TensorId::NONE);
        let y = self.g.permute(y, [0, 1, 3, 2]);
        let y = if self.g.is_contiguous(y) { y } else { self.g.cont(y) };
        self.g.reshape(y, [to[0], to[1], 1, 1])
    }

    /// Flash attention of one token per stream to copies of the cells of chosen blocks, every KV head and stream as a
    /// batch of its own.
    fn attend_to_gathered(
        &mut self,
        indexer: &Indexer,
        blocks: BlockInput,
        sparse: &Sparse,
        slots: TensorId,
    ) -> TensorId {
        let (heads, size, length) = (indexer.n_head, indexer.head_size, indexer.block_size);
        let Tensor { ne: [_, _, cells, streams], nb: key, .. } = self.g[sparse.ik];
        let (count, positions) = (blocks.blocks, blocks.blocks * length);
        let ik = self.g.window(sparse.ik, [size, cells, streams, 1], [key[2], key[3]]);
        let by_position = self.g.get_rows(ik, blocks.pos_slot);
        let iq = self.g.reshape(sparse.iq, [size, heads, 1, streams]);
        let by_position = self.g.reshape(by_position, [size, positions, 1, streams]);
        let scores = self.g.mul_mat(by_position, iq);
        let visible = self.g.reshape(blocks.pos_mask, [positions, 1, 1, streams]);
        let scores = self.g.add_in_place(scores, visible);
        let best = self.g.pool_rows(scores, length);
        let bias = self.g.reshape(blocks.bias, [count, 1, 1, streams]);
        let best = self.g.add(best, bias);
        let chosen = indexer.top_k.min(count);
        let ids = self.g.top_k(best, chosen);

        let starts = self.g.cast(ids, Type::F32);
        let starts = self.g.scale(starts);
        let starts = self.g.reshape(starts, [1, chosen, heads, streams]);
        let starts = self.g.repeat(starts, [length, chosen, heads, streams]);
        let within = self.g.arange(length);
        let within = self.g.reshape(within, [length, 1, 1, 1]);
        let all = self.g.add(starts, within);
        let all = self.g.reshape(all, [length * chosen * heads, streams, 1, 1]);
        let all = self.g.cast(all, Type::I32);
        let slots = self.g.reshape(slots, [1, positions, streams, 1]);
        let of_cells = self.g.get_rows(slots, all);
        let of_cells = self.g.reshape(of_cells, [length, chosen, heads, streams]);
        let of_cells = self.g.scale(of_cells);
        let by_head = self.g.arange(heads);
        let by_head = self.g.reshape(by_head, [1, 1, heads, 1]);
        let rows = self.g.add(of_cells, by_head);
        let rows = self.g.reshape(rows, [length * chosen * heads, streams, 1, 1]);
        let rows = self.g.cast(rows, Type::I32);

        let [k, v] = [sparse.k, sparse.v].map(|cache| {
            let Tensor { ty, ne: [head, heads_kv, ..], nb, .. } = self.g[cache];
            let all = self.g.window(cache, [head, heads_kv * cells, streams, 1], [nb[1], nb[3]]);
            let gathered = self.g.get_rows(all, rows);
            let gathered = self.g.reshape(gathered, [head, length * chosen, 1, heads * streams]);
            let ty = if ty.block() > 1 { Type::F16 } else { ty };
            if self.g[gathered].ty == ty { gathered } else { self.g.cast(gathered, ty) }
        });
        let visible = self.g.reshape(blocks.pos_mask, [1, positions, streams, 1]);
        let mask = self.g.get_rows(visible, all);
        let mask = self.g.reshape(mask, [length * chosen, 1, 1, heads * streams]);
        let mask = self.g.cast(mask, Type::F16);
        let [head, of_heads, n, _] = self.g[sparse.q].ne;
        let q = self.g.reshape(sparse.q, [head, of_heads / heads, heads * streams, 1]);
        self.attend_by_head([q, k, v], mask, [self.g[v].ne[0] * of_heads, n])
    }
}
