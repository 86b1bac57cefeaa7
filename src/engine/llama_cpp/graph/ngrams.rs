//! A table of embeddings of n-grams: the rows of a token are hashes of it and those before it, computed on the host.
//! One block adds them to its streams, gated, and convolved over the last tokens (`models/qwen4exp.cpp`, 0.1.161).

use super::GraphBuilder;
use super::recurrent::{RecurrentInput, RecurrentState};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::hparams::NgramTable;
use crate::engine::llama_cpp::weights::LlmTensor;

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
