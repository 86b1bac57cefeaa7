//! Embeddings of whole texts, made of the hidden states of their tokens (`build_pooling` in `llama-graph.cpp`,
//! 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::settings::Pooling;

impl GraphBuilder<'_> {
    /// Pools the final hidden states, one row per sequence. (A classifier's few rows after it are not counted.)
    pub(super) fn pool(&mut self, pooling: Pooling) {
        let is_final = |label: &str| label == "result_norm" || label == "result_embd";
        let Some(&states) = self.g.nodes.iter().rev().find(|id| is_final(self.g[**id].label)) else { return };
        let (tokens, sequences) = (self.batch.n_tokens, self.batch.n_seqs.min(self.batch.n_tokens));
        let pooled = match pooling {
            Pooling::None => return,
            Pooling::Mean => {
                let shares = self.g.input(Type::F32, [tokens, sequences, 1, 1], "inp_mean");
                let columns = self.g.transposed(states);
                self.g.mul_mat(columns, shares)
            }
            Pooling::Cls | Pooling::Last | Pooling::Rank => {
                let rows = self.g.input(Type::I32, [sequences, 1, 1, 1], "inp_cls");
                self.g.get_rows(states, rows)
            }
        };
        self.label(pooled, "result_embd_pooled", None);
        self.g.set_output(pooled);
        self.g.expand(pooled);
    }
}
