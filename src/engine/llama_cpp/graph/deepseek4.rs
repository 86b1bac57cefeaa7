//! `DeepSeek` 4: every block attends to a window and, in most, to compressed rows of all tokens besides, over several
//! residual streams that mix (`models/deepseek4.cpp`, 0.1.161).

use super::GraphBuilder;
use super::attention::{AttentionExtras, Qkv};
use super::hyper_connections::{HyperWeights, OF_ATTENTION, OF_FEED_FORWARD};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Buffer, Tensor, TensorId, row};
use crate::engine::llama_cpp::cache::{Compressor, CompressorStates, KvCache};
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::transformer::{Norm, Transformer};
use crate::engine::llama_cpp::weights::LlmTensor;

/// A batch's inputs of every compressor.
#[derive(Clone, Copy)]
struct Inputs {
    positions: TensorId,
    csa: CompressorInput,
    hca: CompressorInput,
    lid: CompressorInput,
}

/// Queries, the single row of keys that is the values too, and what both are made of.
#[derive(Clone, Copy)]
struct Rows {
    q: TensorId,
    kv: TensorId,
    /// The block's normalised input.
    x: TensorId,
    /// Its compressed queries.
    qr: TensorId,
}

impl GraphBuilder<'_> {
    pub fn deepseek4(&mut self) {
        let memory = self.memory;
        let (Some(window), Some(compressed)) = (&memory.window, &memory.compressed) else { return };
        let kind = self.transformer_kind();
        let x = self.embeddings(false);
        let positions = self.positions();
        let out_ids = self.out_ids();
        let window = self.attention_input(window);
        self.window = Some(window);
        let mask = self.g[window.mask].ty;
        let inputs = Inputs {
            positions,
            csa: self.compressor_input(&compressed.csa, mask),
            hca: self.compressor_input(&compressed.hca, mask),
            lid: self.compressor_input(&compressed.lid, Type::F16),
        };
        self.g.expand(window.mask);
        let mut x = self.spread_over_streams(x);
        for il in 0..self.hp.n_layer() {
            self.mean_layer_input(il, x);
            x = self.deepseek4_half(il, x, OF_ATTENTION, |build, y| {
                let y = build.rms(y, LlmTensor::AttnNorm, il);
                let rows = build.single_rows(il, y, positions);
                let y = build.compressed_attention(il, rows, inputs);
                build.by_groups(il, y, positions)
            });
            x = self.deepseek4_experts(&kind, il, x);
            // llama.cpp names it `l_last`, which is pinned like norms
            self.pin(x, il);
        }
        self.mean_layer_input(self.hp.n_layer(), x);
        let kept = self.kept_streams(x, out_ids);
        match self.cx.drafting.embeddings_nextn {
            NextnRows::None => {}
            NextnRows::Outputs => self.g.set_output(kept),
            NextnRows::All => self.g.set_output(x),
        }
        let x = self.hyper_head(kept);
        self.end(x, Norm::Rms);
    }

    /// The mean of the streams at the input of layer `il`, if a draft reads it.
    fn mean_layer_input(&mut self, il: usize, x: TensorId) {
        if self.cx.drafting.layer_inputs.contains(&il) {
            let mean = self.stream_mean(x);
            self.g.expand(mean);
            self.g.set_output(mean);
        }
    }

    /// One half of block `il`: what `half` makes of the mix of the streams, added to them.
    fn deepseek4_half(
        &mut self,
        il: usize,
        x: TensorId,
        weights: HyperWeights,
        half: impl FnOnce(&mut Self, TensorId) -> TensorId,
    ) -> TensorId {
        let (y, mix) = self.mixed_pre(il, x, weights);
        let y = half(self, y);
        self.mixed_post(il, y, mix)
    }

    /// The half of block `il` with its experts.
    fn deepseek4_experts(&mut self, kind: &Transformer, il: usize, x: TensorId) -> TensorId {
        let (y, mix) = self.mixed_pre(il, x, OF_FEED_FORWARD);
        if il < self.hp.n_layer() {
            for first in [mix.residual, mix.post, mix.comb] {
                self.g.expand(first);
            }
        }
        let y = self.rms(y, LlmTensor::FfnNorm, il);
        let y = self.dense_or_experts(kind, il, y, TensorId::NONE);
        self.mixed_post(il, y, mix)
    }

    /// Queries, and the row that is cached.
    fn single_rows(&mut self, il: usize, x: TensorId, positions: TensorId) -> Rows {
        let (n, head) = (self.batch.n_tokens, self.hp.head_k(il));
        let qr = self.linear(il, LlmTensor::AttnQA, x);
        let qr = self.rms(qr, LlmTensor::AttnQANorm, il);
        let q = self.linear(il, LlmTensor::AttnQB, qr);
        let q = self.g.reshape(q, [head, self.hp.n_head[il], n, 1]);
        let q = self.g.rms_norm(q);
        let q = self.g.rope(q, positions, TensorId::NONE);
        self.label(q, "Qcur", Some(il));
        let kv = self.linear(il, LlmTensor::AttnKv, x);
        let kv = self.rms(kv, LlmTensor::AttnKvANorm, il);
        let kv = self.g.reshape(kv, [head, 1, n, 1]);
        let kv = self.g.rope(kv, positions, TensorId::NONE);
        self.label(kv, "Kcur", Some(il));
        Rows { q, kv, x, qr }
    }

    /// Attention to the window and to the block's compressed rows.
    fn compressed_attention(&mut self, il: usize, rows: Rows, inputs: Inputs) -> TensorId {
        let memory = self.memory;
        let (Some(window), Some(compressed), Some(input)) = (&memory.window, &memory.compressed, self.window) else {
            return rows.q;
        };
        let (beside, mask) = match self.hp.compress_ratios[il] {
            4 => {
                let keys = self.compress(il, rows.x, &compressed.csa, inputs.csa, OF_CSA);
                let indexer_keys = self.compress(il, rows.x, &compressed.lid, inputs.lid, OF_LID);
                let chosen = self.choose_compressed(il, rows, (&compressed.lid, indexer_keys), inputs);
                (Some((&compressed.csa, keys)), Some((inputs.csa.mask, chosen)))
            }
            128 => {
                let keys = self.compress(il, rows.x, &compressed.hca, inputs.hca, OF_HCA);
                (Some((&compressed.hca, keys)), None)
            }
            _ => (None, None),
        };
        let rotation = input.rotation_k;
        let [q, kv] = [rows.q, rows.kv].map(|x| if rotation.is_some() { self.rotated(x, rotation) } else { x });
        self.g.expand(q);
        self.g.expand(kv);
        let Some(layer) = window.layers[il] else { return q };
        let cache = self.cache(&layer, 0, window.size, window.streams);
        let stored = self.store(cache, kv, input.k_rows);
        self.g.expand(stored);
        let mut k = self.cached_rows(cache, window, il);
        let mut all = input.mask;
        if let Some((compressor, keys)) = beside {
            let rows = self.cached_rows(keys, &compressor.keys, il);
            k = self.g.concat(k, rows, 2);
            let mask = match mask {
                Some((mask, chosen)) => self.mask_of_chosen(mask, chosen),
                None => inputs.hca.mask,
            };
            all = self.g.concat(all, mask, 0);
        }
        let sinks = self.need(il, LlmTensor::AttnSinks);
        let y = self.attend(il, q, k, k, all, AttentionExtras { sinks, ..AttentionExtras::default() });
        self.label(y, "kqv_out", Some(il));
        if rotation.is_some() { self.rotated(y, rotation) } else { y }
    }

    /// All rows of block `il` in `cache`, one head each.
    fn cached_rows(&mut self, keys: TensorId, cache: &KvCache, il: usize) -> TensorId {
        let Some(layer) = cache.layers[il] else { return keys };
        let one = row(layer.ty_k, layer.k);
        self.g.window(keys, [layer.k, 1, cache.size, cache.streams], [one, one, one * cache.size])
    }

    /// The compressed rows that the indexer of block `il` chooses.
    fn choose_compressed(
        &mut self,
        il: usize,
        rows: Rows,
        (compressor, keys): (&Compressor, TensorId),
        inputs: Inputs,
    ) -> TensorId {
        let Some(indexer) = &self.hp.indexer else { return TensorId::NONE };
        let n = self.batch.n_tokens;
        let q = self.linear(il, LlmTensor::IndexerAttnQB, rows.qr);
        let q = self.g.reshape(q, [indexer.head_size, indexer.n_head, n, 1]);
        let q = self.g.rope(q, inputs.positions, TensorId::NONE);
        let q = self.rotated(q, inputs.lid.rotation);
        let weights = self.linear(il, LlmTensor::IndexerProj, rows.x);
        let weights = self.g.scale(weights);
        let k = self.cached_rows(keys, &compressor.keys, il);
        let Tensor { ne, nb, .. } = self.g[k];
        let k = self.g.view(k, ne, nb);
        let streams = compressor.keys.streams;
        let [q, weights] = [(q, 2), (weights, 1)].map(|(x, dim)| self.by_stream(x, dim, streams));
        self.best_rows(il, [q, k, weights], inputs.lid.mask, indexer.top_k)
    }

    /// Attention's result without positions, projected by groups of heads and then together.
    fn by_groups(&mut self, il: usize, y: TensorId, positions: TensorId) -> TensorId {
        let (n, head, heads) = (self.batch.n_tokens, self.hp.head_k(il), self.hp.n_head[il]);
        let groups = self.hp.n_output_groups.max(1);
        let y = self.g.reshape(y, [head, heads, n, 1]);
        let y = self.g.rope_back(y, positions);
        let y = self.g.reshape(y, [heads / groups * head, groups, n, 1]);
        let y = self.g.permute(y, [0, 2, 1, 3]);
        let y = self.multiply(il, LlmTensor::AttnOutA, y);
        let y = self.g.permute(y, [0, 2, 1, 3]);
        let wide = self.g[y].ne[0] * groups;
        let y = self.g.cont_as(y, [wide, n, 1, 1]);
        self.linear(il, LlmTensor::AttnOutB, y)
    }
}

// What compresses tokens to rows of a cache: tokens of a row that is not complete are kept as values and scores
// (`models/deepseek4.cpp`, `llama-kv-cache-dsv4.cpp`, 0.1.161).

/// The tensors of a compressor: values, scores, positions within a row, norm.
type CompressorWeights = [LlmTensor; 4];

/// Of the rows that an indexer chooses.
const OF_CSA: CompressorWeights = [
    LlmTensor::AttnCompressorKv,
    LlmTensor::AttnCompressorGate,
    LlmTensor::AttnCompressorApe,
    LlmTensor::AttnCompressorNorm,
];
/// Of the rows of 128 tokens.
const OF_HCA: CompressorWeights = OF_CSA;
/// Of an indexer's keys.
const OF_LID: CompressorWeights = [
    LlmTensor::IndexerCompressorKv,
    LlmTensor::IndexerCompressorGate,
    LlmTensor::IndexerCompressorApe,
    LlmTensor::IndexerCompressorNorm,
];

/// A batch's inputs of a compressor.
#[derive(Clone, Copy)]
struct CompressorInput {
    /// Of every token, its position within its row.
    places: TensorId,
    /// The batch's tokens that are kept, and where.
    kept: [TensorId; 2],
    /// What is rolled back, from where to where; none if nothing ever is.
    restored: [TensorId; 2],
    /// The same of snapshots.
    snapshots: [TensorId; 2],
    /// The tokens of every row that is completed.
    read: TensorId,
    /// Where these rows go, and their positions.
    written: TensorId,
    positions: TensorId,
    mask: TensorId,
    rotation: TensorId,
}

/// Something of the values and of the scores of tokens.
#[derive(Clone, Copy)]
struct Scored<T> {
    values: T,
    scores: T,
}

impl<T> Scored<T> {
    fn map<U>(self, mut of: impl FnMut(T) -> U) -> Scored<U> {
        Scored { values: of(self.values), scores: of(self.scores) }
    }

    fn zip(self, other: Self, mut of: impl FnMut(T, T) -> T) -> Self {
        Self { values: of(self.values, other.values), scores: of(self.scores, other.scores) }
    }
}

impl GraphBuilder<'_> {
    /// The inputs of `compressor` for a batch that completes as many rows as it can
    /// (`dsv4_build_reserve_comp_plan`). The mask is of type `mask`.
    fn compressor_input(&mut self, compressor: &Compressor, mask: Type) -> CompressorInput {
        let Compressor { ratio, keys, states, .. } = compressor;
        let (n, streams, side) = (self.batch.n_tokens, keys.streams, keys.rotation_k);
        let rows = n / ratio + self.cx.n_seq_max;
        let read = compressor.halves() * ratio * rows;
        let snapshots = (states.states - 1) * states.rows();
        let restored = if snapshots > 0 { states.rows() } else { 0 };
        let mut list = |ty: Type, len: u64| {
            if len > 0 { self.g.input(ty, [len, 1, 1, 1], "dsv4_inp_rows") } else { TensorId::NONE }
        };
        CompressorInput {
            places: list(Type::I32, n),
            kept: [0; 2].map(|_| list(Type::I32, n.min(states.rows()))),
            restored: [0; 2].map(|_| list(Type::I32, restored)),
            snapshots: [0; 2].map(|_| list(Type::I32, snapshots)),
            read: list(Type::I32, read),
            written: list(Type::I64, rows),
            positions: list(Type::I32, rows),
            mask: self.g.input(mask, [keys.size, n / streams, 1, streams], "dsv4_kq_mask"),
            rotation: if side > 0 {
                self.g.input(Type::F32, [side, side, 1, 1], "attn_inp_k_rot")
            } else {
                TensorId::NONE
            },
        }
    }

    /// Compresses the tokens of `x` in block `il`: writes the rows that they complete, keeps those of the others, and returns
    /// the cache of rows.
    fn compress(
        &mut self,
        il: usize,
        x: TensorId,
        compressor: &Compressor,
        input: CompressorInput,
        [values, scores, places, norm]: CompressorWeights,
    ) -> TensorId {
        let (keys, states) = (&compressor.keys, &compressor.states);
        let (Some(layer), Some(place)) = (keys.layers[il], states.layers.get(il).copied().flatten()) else { return x };
        let new = Scored { values: self.linear(il, values, x), scores: self.linear(il, scores, x) };
        let places = self.need(il, places);
        let places = self.g.get_rows(places, input.places);
        let new = Scored { scores: self.g.add(new.scores, places), ..new };

        let Tensor { ty, ne, .. } = states.tensor();
        let all = Scored { values: "dsv4_state_kv", scores: "dsv4_state_score" }
            .map(|label| self.g.given(ty, ne, Buffer::Cache(place), label, il as i16));
        let before = self.restored(states, all, input);
        let current = before.map(|x| {
            let Tensor { ne: [wide, ..], nb, .. } = self.g[x];
            self.g.window(x, [wide, states.rows(), 1, 1], [nb[1]])
        });
        let source = current.zip(new, |kept, new| self.g.concat(kept, new, 1));
        let ratio = compressor.ratio;
        let groups =
            if compressor.overlaps { self.overlapping(source, input, ratio) } else { self.apart(source, input, ratio) };
        let row = self.row_of(groups);
        let row = self.rms(row, norm, il);
        let row = self.g.rope(row, input.positions, TensorId::NONE);
        self.label(row, "dsv4_compressed", Some(il));
        let row = if input.rotation.is_some() { self.rotated(row, input.rotation) } else { row };
        let cache = [layer.k, keys.size, keys.streams, 1];
        let cache = self.g.given(layer.ty_k, cache, Buffer::Cache(layer.place), "cache_k", il as i16);
        let stored = self.store(cache, row, input.written);
        self.g.expand(stored);

        if input.snapshots[0].is_some() {
            let source = before.zip(new, |before, new| self.g.concat(before, new, 1));
            self.write_states(states, all, source, input.snapshots);
        }
        self.write_states(states, all, new, input.kept);
        cache
    }

    /// The states as rows of tokens.
    fn state_rows(&mut self, states: &CompressorStates, all: TensorId) -> TensorId {
        let Tensor { ne: [wide, ..], nb, .. } = self.g[all];
        self.g.window(all, [wide, states.rows() * states.states, 1, 1], [nb[1]])
    }

    /// The states after those that are rolled back.
    fn restored(
        &mut self,
        states: &CompressorStates,
        all: Scored<TensorId>,
        input: CompressorInput,
    ) -> Scored<TensorId> {
        all.map(|all| {
            let rows = self.state_rows(states, all);
            let [from, to] = input.restored;
            if !from.is_some() {
                return rows;
            }
            let back = self.g.get_rows(rows, from);
            let rows = self.state_rows(states, all);
            self.g.set_rows(rows, back, to)
        })
    }

    /// Writes rows of `source` into the states: which, and where to.
    fn write_states(
        &mut self,
        states: &CompressorStates,
        all: Scored<TensorId>,
        source: Scored<TensorId>,
        [from, to]: [TensorId; 2],
    ) {
        let written = all.zip(source, |all, source| {
            let rows = self.g.get_rows(source, from);
            let all = self.state_rows(states, all);
            self.g.set_rows(all, rows, to)
        });
        self.g.expand(written.values);
        self.g.expand(written.scores);
    }

    /// The tokens of every row: `[width, tokens, rows]`.
    fn apart(&mut self, source: Scored<TensorId>, input: CompressorInput, ratio: u64) -> Scored<TensorId> {
        source.map(|x| {
            let x = self.g.get_rows(x, input.read);
            let [wide, n, ..] = self.g[x].ne;
            self.g.reshape(x, [wide, ratio, n / ratio, 1])
        })
    }

    /// The same with the tokens of the row before, which are in the first halves of the states. A row of zeros stands for
    /// those before the first.
    fn overlapping(&mut self, source: Scored<TensorId>, input: CompressorInput, ratio: u64) -> Scored<TensorId> {
        source.map(|x| {
            let wide = self.g[x].ne[0];
            let zero = self.g.window(x, [wide, 1, 1, 1], []);
            let zero = self.g.scale(zero);
            let zero = self.g.reshape(zero, [wide, 1, 1, 1]);
            let x = self.g.concat(x, zero, 1);
            let x = self.g.get_rows(x, input.read);
            let Tensor { ne: [_, n, ..], nb, .. } = self.g[x];
            let [before, own] = [0; 2].map(|_| {
                let half = self.g.window(x, [wide / 2, n / 2, 1, 1], [nb[1]]);
                let half = self.g.cont(half);
                self.g.reshape(half, [wide / 2, ratio, n / 2 / ratio, 1])
            });
            self.g.concat(before, own, 1)
        })
    }

    /// One row of each group: its values, weighted by their scores.
    fn row_of(&mut self, groups: Scored<TensorId>) -> TensorId {
        let turned = groups.map(|x| self.g.permuted(x, [1, 0, 2, 3]));
        let weights = self.g.soft_max(turned.scores, TensorId::NONE, TensorId::NONE);
        let row = self.g.mul(turned.values, weights);
        let row = self.g.sum_rows(row);
        self.g.permuted(row, [1, 0, 2, 3])
    }
}

// The MTP block: the streams of a token's hidden state, each beside the embedding of the next token, through one
// more block, which only attends to a window (`graph_mtp` in `models/deepseek4.cpp`, 0.1.161).

impl GraphBuilder<'_> {
    /// The first MTP block.
    pub fn deepseek4_mtp(&mut self) {
        let kind = self.transformer_kind();
        let il = self.hp.n_layer();
        let (n, n_embd, streams) = (self.batch.n_tokens, self.hp.n_embd, self.hp.n_hyper_connections);
        let own = self.weight(il, LlmTensor::NextnEmbedTokens);
        let table = if own.is_some() { own } else { self.need_global(LlmTensor::TokenEmbd) };
        let tokens = self.g.input(Type::I32, [n, 1, 1, 1], "inp_tokens");
        let embedded = self.g.get_rows(table, tokens);
        self.label(embedded, "mtp_tok_embd", Some(il));
        let hidden = self.g.input(Type::F32, [n_embd * streams, n, 1, 1], "mtp_h_input");
        let hidden = self.g.reshape(hidden, [n_embd, streams, n, 1]);
        let positions = self.positions();
        let out_ids = self.out_ids();
        self.attention_inputs();
        let hidden = self.rms(hidden, LlmTensor::NextnHnorm, il);
        let embedded = self.rms(embedded, LlmTensor::NextnEnorm, il);
        let embedded = self.spread_over_streams(embedded);
        let both = self.g.concat(embedded, hidden, 0);
        let x = self.linear(il, LlmTensor::NextnEhProj, both);
        self.label(x, "mtp_eh_proj", Some(il));

        let x = self.deepseek4_half(il, x, OF_ATTENTION, |build, y| {
            let y = build.rms(y, LlmTensor::AttnNorm, il);
            let rows = build.single_rows(il, y, positions);
            let y = build.window_attention(il, rows.q, rows.kv);
            build.by_groups(il, y, positions)
        });
        let x = self.deepseek4_experts(&kind, il, x);
        let kept = self.kept_streams(x, out_ids);
        self.g.set_output(kept);
        self.label(kept, "h_nextn", None);
        let x = self.hyper_head(kept);
        let own = self.weight(il, LlmTensor::NextnSharedHeadNorm);
        let weight = if own.is_some() { own } else { self.need_global(LlmTensor::OutputNorm) };
        let x = self.norm_with(x, weight, TensorId::NONE, Norm::Rms, None);
        self.g.set_output(x);
        let own = self.weight(il, LlmTensor::NextnSharedHeadHead);
        let logits = if own.is_some() { self.g.mul_mat(own, x) } else { self.logits(x) };
        self.label(logits, "result_output", None);
        self.close(logits);
    }

    /// Attention to a window whose cache has values too, which nothing reads.
    fn window_attention(&mut self, il: usize, q: TensorId, kv: TensorId) -> TensorId {
        let memory = self.memory;
        let (Some(cache), Some(input)) = (&memory.window, self.window) else { return q };
        let Some(layer) = cache.layers[il] else { return q };
        let rotation = input.rotation_k;
        let [q, kv] = [q, kv].map(|x| if rotation.is_some() { self.rotated(x, rotation) } else { x });
        self.g.expand(q);
        self.g.expand(kv);
        let qkv = Qkv { q, k: kv, v: kv };
        let layer = crate::engine::llama_cpp::cache::KvLayer { v: None, ..layer };
        let (k, v) = self.store_and_view_cache(il, cache, &layer, input, qkv);
        let sinks = self.need(il, LlmTensor::AttnSinks);
        let y = self.attend(il, q, k, v, input.mask, AttentionExtras { sinks, ..AttentionExtras::default() });
        self.label(y, "kqv_out", Some(il));
        if rotation.is_some() { self.rotated(y, rotation) } else { y }
    }
}
