//! Qwen 3.8 Flash Next: gated delta nets, and between them gated attention to the pools of tokens that an indexer
//! chooses, over several residual streams (`models/qwen4exp.cpp`, 0.1.161).

use super::GraphBuilder;
use super::hyper_connections::{GATED_ATTENTION, GATED_FEED_FORWARD};
use super::pools::PoolInput;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId};
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::weights::LlmTensor;

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
        for &il in self.blocks {
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
