//! Inputs: tokens or embeddings, positions, and the rows with logits.

use super::super::architecture::Trait;
use super::super::weights::LlmTensor;
use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::TensorId;

impl GraphBuilder<'_> {
    /// Embeddings of the batch: looked up by token, given, or mixed; the graph holds all three variants. `scaled`
    /// multiplies the rows of tokens.
    pub(super) fn embeddings(&mut self, scaled: bool) -> TensorId {
        let (n_tokens, n_embd, n_inp) = (self.batch.n_tokens, self.hp.n_embd, self.hp.n_embd_inp());
        let table = self.need_global(LlmTensor::TokenEmbd);
        let tokens = self.g.input(Type::I32, [n_tokens, 1, 1, 1], "inp_tokens");
        self.inp_tokens = tokens;
        let both = self.release.both_inputs;
        let given = both.then(|| self.g.input(Type::F32, [n_inp, n_tokens, 1, 1], "inp_embd"));
        let rows = self.look_up(table, tokens);
        let mixed_rows = self.mixes_batches().then(|| {
            let tokens = self.g.input(Type::I32, [n_tokens, 1, 1, 1], "inp_mixed_tokens");
            self.look_up(table, tokens)
        });
        let looked_up = self.widened(rows);
        if let Some(given) = given {
            self.g.expand(looked_up);
            self.g.expand(given);
        }
        if let Some(rows) = mixed_rows {
            self.mixed_embeddings(rows);
        }
        let mut x = looked_up;
        if n_inp != n_embd && both {
            let stride = self.g[x].nb[1];
            x = self.g.window(x, [n_embd, n_tokens, 1, 1], [stride]);
        }
        self.inp_embd = x;
        let by_row = self.release.mixed_batches;
        let only_tokens = by_row && self.hp.embedding_scale && self.hp.n_deepstack_layers > 0;
        if self.hp.embedding_scale && !only_tokens {
            x = self.contiguous(x);
            x = self.g.scale(x);
        }
        if (by_row && scaled) || only_tokens {
            let rows = self.g.input(Type::F32, [1, n_tokens, 1, 1], "inp_scale_rows");
            x = self.contiguous(x);
            x = self.g.mul(x, rows);
        }
        self.label(x, "embd", None);
        if both {
            self.g.expand(x);
        }
        // the model's own graph does it, so that other inputs may come first
        if scaled && !by_row { self.g.scale(x) } else { x }
    }

    /// Whether the graph has inputs for batches that mix tokens and embeddings.
    fn mixes_batches(&self) -> bool {
        self.release.mixed_batches && !self.architecture.has(Trait::NoMixedBatches)
    }

    /// Mixed batch: given rows, some replaced by `rows` of tokens.
    fn mixed_embeddings(&mut self, rows: TensorId) {
        let (n_tokens, n_inp) = (self.batch.n_tokens, self.hp.n_embd_inp());
        let slots = self.g.input(Type::I64, [n_tokens, 1, 1, 1], "inp_mixed_slots");
        let mixed = self.g.input(Type::F32, [n_inp, n_tokens, 1, 1], "inp_mixed_embd");
        let mixed = self.g.dup(mixed);
        let rows = self.widened(rows);
        let mixed = self.g.set_rows(mixed, rows, slots);
        self.g.expand(mixed);
    }

    /// The rows of `table`, at once where they are looked up before anything else.
    fn look_up(&mut self, table: TensorId, tokens: TensorId) -> TensorId {
        let rows = self.g.get_rows(table, tokens);
        if self.release.rows_first {
            self.g.expand(rows);
        }
        rows
    }

    /// Rows of tokens, as wide as those that are given.
    fn widened(&mut self, rows: TensorId) -> TensorId {
        let more = self.hp.n_embd_inp() - self.hp.n_embd;
        if more > 0 && self.release.both_inputs { self.g.pad(rows, [more, 0, 0, 0]) } else { rows }
    }

    /// `x` made contiguous.
    fn contiguous(&mut self, x: TensorId) -> TensorId {
        if self.g.is_contiguous(x) { x } else { self.g.cont(x) }
    }

    /// Token positions.
    pub(super) fn positions(&mut self) -> TensorId {
        let n = self.batch.n_tokens * self.hp.n_pos_per_embd(self.architecture);
        self.g.input(Type::I32, [n, 1, 1, 1], "inp_pos")
    }

    /// Rows with logits.
    pub(super) fn out_ids(&mut self) -> TensorId {
        self.g.input(Type::I32, [self.batch.n_outputs, 1, 1, 1], "out_ids")
    }

    /// A factor per token for the queries.
    pub(super) fn attention_scale(&mut self) -> TensorId {
        self.g.input(Type::F32, [1, 1, self.batch.n_tokens, 1], "inp_attn_scale")
    }

    /// Adds a deepstack level of the input embeddings, which only embeddings have.
    pub(super) fn add_deepstack_level(&mut self, x: TensorId) -> TensorId {
        if !self.release.both_inputs {
            return x;
        }
        let given = self.inp_embd;
        let stride = self.g[given].nb[1];
        let level = self.g.window(given, [self.hp.n_embd, self.batch.n_tokens, 1, 1], [stride]);
        self.g.add(x, level)
    }
}
