//! What compresses tokens to rows of a cache: tokens of a row that is not complete are kept as values and scores
//! (`models/deepseek4.cpp`, `llama-kv-cache-dsv4.cpp`, 0.1.161).

use super::super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Buffer, Tensor, TensorId};
use crate::engine::llama_cpp::cache::{Compressor, CompressorStates};
use crate::engine::llama_cpp::weights::LlmTensor;

/// The tensors of a compressor: values, scores, positions within a row, norm.
type CompressorWeights = [LlmTensor; 4];

/// Of the rows that an indexer chooses.
pub(super) const OF_CSA: CompressorWeights = [
    LlmTensor::AttnCompressorKv,
    LlmTensor::AttnCompressorGate,
    LlmTensor::AttnCompressorApe,
    LlmTensor::AttnCompressorNorm,
];
/// Of the rows of 128 tokens.
pub(super) const OF_HCA: CompressorWeights = OF_CSA;
/// Of an indexer's keys.
pub(super) const OF_LID: CompressorWeights = [
    LlmTensor::IndexerCompressorKv,
    LlmTensor::IndexerCompressorGate,
    LlmTensor::IndexerCompressorApe,
    LlmTensor::IndexerCompressorNorm,
];

/// A batch's inputs of a compressor.
#[derive(Clone, Copy)]
pub(super) struct CompressorInput {
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
    pub mask: TensorId,
    pub rotation: TensorId,
}

/// Something of the values and of the scores of tokens.
#[derive(Clone, Copy)]
struct Scored<T> {
    values: T,
    scores: T,
}

impl<T> Scored<T> {
    pub(super) fn map<U>(self, mut of: impl FnMut(T) -> U) -> Scored<U> {
        Scored { values: of(self.values), scores: of(self.scores) }
    }

    fn zip(self, other: Self, mut of: impl FnMut(T, T) -> T) -> Self {
        Self { values: of(self.values, other.values), scores: of(self.scores, other.scores) }
    }
}

impl GraphBuilder<'_> {
    /// The inputs of `compressor` for a batch that completes as many rows as it can
    /// (`dsv4_build_reserve_comp_plan`). The mask is of type `mask`.
    pub(super) fn compressor_input(&mut self, compressor: &Compressor, mask: Type) -> CompressorInput {
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
    pub(super) fn compress(
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
