//! `DeepSeek` 4: every block attends to a window and, in most, to compressed rows of all tokens besides, over several
//! residual streams that mix (`models/deepseek4.cpp`, 0.1.161).

mod compressor;
mod mtp;

use super::GraphBuilder;
use super::attention::AttentionExtras;
use super::hyper_connections::{HyperWeights, OF_ATTENTION, OF_FEED_FORWARD};
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, row};
use crate::engine::llama_cpp::cache::{Compressor, KvCache};
use crate::engine::llama_cpp::context::NextnRows;
use crate::engine::llama_cpp::transformer::{Norm, Transformer};
use crate::engine::llama_cpp::weights::LlmTensor;
use compressor::{CompressorInput, OF_CSA, OF_HCA, OF_LID};

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
        for &il in self.blocks {
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
