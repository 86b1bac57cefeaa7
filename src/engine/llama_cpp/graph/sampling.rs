//! The choice of the best tokens by the device of the output layer, one chain of samplers per sequence
//! (`llm_graph_context::build_sampling`, 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::tensor::TensorId;

/// Tokens that a draft chooses among (`common/speculative.cpp`, 0.1.161).
const BEST: u64 = 10;

impl GraphBuilder<'_> {
    /// Adds the best tokens of every row of logits.
    pub(super) fn sample(&mut self) {
        if !self.logits.is_some() {
            return;
        }
        let n_vocab = self.g[self.logits].ne[0];
        // one more row keeps the graph the same for sequences without logits
        let padded = self.g.pad(self.logits, [0, 1, 0, 0]);
        let (mut left, per_sequence) = (self.batch.n_outputs, self.n_seq_tokens().min(self.cx.n_outputs_max_per_seq));
        for _ in 0..self.batch.n_seqs {
            let rows = per_sequence.min(left);
            left -= rows;
            for _ in 0..rows.max(1) {
                self.sample_row(padded, n_vocab, rows > 0);
            }
        }
    }

    fn sample_row(&mut self, logits: TensorId, n_vocab: u64, is_read: bool) {
        let row = self.g.window(logits, [n_vocab, 1, 1, 1], []);
        let row = self.g.reshape(row, [n_vocab, 1, 1, 1]);
        let best = self.g.top_k(row, BEST);
        self.label(best, "top_k", None);
        let each = self.g.reshape(row, [1, n_vocab, 1, 1]);
        let values = self.g.get_rows(each, best);
        self.label(values, "top_k_rows", None);
        for x in [values, best] {
            self.g[x].output |= is_read;
            self.g.expand(x);
        }
    }
}
