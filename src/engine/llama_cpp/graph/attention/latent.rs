//! `DeepSeek` 2 and 3 (MLA): keys and values are derived from one compressed vector per token, the only one cached.

use super::super::GraphBuilder;
use super::{AttentionExtras, Qkv};
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp, row};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    /// Queries, and the compressed vector with its rotary part: as cached, or decompressed to keys and values.
    pub fn latent_qkv(&mut self, il: usize, x: TensorId, positions: TensorId) -> (Qkv, AttentionExtras) {
        let (n, heads) = (self.batch.n_tokens, self.hp.n_head[il]);
        let ((head_k, head_v), lora) = self.latent(il);
        let rope = self.hp.n_rot[0];
        let plain = head_k.saturating_sub(rope);

        let q = if self.weight(il, LlmTensor::AttnQ).is_some() {
            self.multiply(il, LlmTensor::AttnQ, x)
        } else {
            let q = self.multiply(il, LlmTensor::AttnQA, x);
            let q = self.rms(q, LlmTensor::AttnQANorm, il);
            self.choose_tokens(il, x, q, positions);
            self.multiply(il, LlmTensor::AttnQB, q)
        };
        let q = self.g.reshape(q, [head_k, heads, n, 1]);

        let both = self.multiply(il, LlmTensor::AttnKvAMqa, x);
        let stride = row(self.g[both].ty, lora + rope);
        let compressed = self.g.window(both, [lora, n, 1, 1], [stride]);
        let rotated = self.g.window(both, [rope, 1, n, 1], [stride, stride]);
        let by_factors = self.architecture.has(Trait::RotatesMlaByFactors);
        let factors = if by_factors { self.rope_factors(il) } else { TensorId::NONE };
        let rotated =
            if self.has(il, LlmTensor::AttnKNorm) { self.rms(rotated, LlmTensor::AttnKNorm, il) } else { rotated };
        let rotated = self.latent_rope(rotated, positions, factors);
        let compressed = self.rms(compressed, LlmTensor::AttnKvANorm, il);

        if self.hp.mla.is_none() {
            let kv = self.multiply(il, LlmTensor::AttnKvB, compressed);
            let ty = self.g[kv].ty;
            let strides = [row(ty, plain + head_v), row(ty, plain + head_v) * heads];
            let k = self.g.window(kv, [plain, heads, n, 1], strides);
            let v = self.g.window(kv, [head_v, heads, n, 1], strides);
            let v = self.g.cont(v);
            let q = if self.release.single_mla_rope {
                self.g.rope(q, positions, factors)
            } else {
                let [q_plain, q_rotated] = self.q_parts(q, [plain, rope]);
                let q_rotated = self.g.rope(q_rotated, positions, factors);
                self.g.concat(q_plain, q_rotated, 0)
            };
            let rotated = self.g.repeat(rotated, [rope, heads, n, 1]);
            let k = self.g.concat(k, rotated, 0);
            return (Qkv { q, k, v }, AttentionExtras::default());
        }
        let [q_plain, q_rotated] = self.q_parts(q, [plain, rope]);
        let q_rotated = self.latent_rope(q_rotated, positions, factors);
        let q_plain = self.g.permute(q_plain, [0, 2, 1, 3]);
        let absorbed = self.multiply(il, LlmTensor::AttnKB, q_plain);
        let absorbed = self.g.permute(absorbed, [0, 2, 1, 3]);
        let q = self.g.concat(absorbed, q_rotated, 0);
        let v = self.g.reshape(compressed, [lora, 1, n, 1]);
        let k = self.g.concat(v, rotated, 0);
        let v_unfold = self.need(il, LlmTensor::AttnVB);
        let sinks = self.weight(il, LlmTensor::AttnSinks);
        (Qkv { q, k, v }, AttentionExtras { sinks, v_unfold, ..AttentionExtras::default() })
    }

    /// Attention whose result is multiplied by a gate from `x`, a value per head, and then made contiguous
    /// (`models/bailingmoe3.cpp`, 0.1.161).
    pub fn gated_latent(&mut self, il: usize, x: TensorId, qkv: Qkv, extras: AttentionExtras) -> TensorId {
        let (heads, n) = (self.hp.n_head[il], self.batch.n_tokens);
        let y = self.attention_unprojected(il, qkv, extras);
        let wide = self.g[y].ne[0];
        let gate = self.linear(il, LlmTensor::AttnGate, x);
        let gate = self.g.reshape(gate, [1, heads, n, 1]);
        let gate = self.g.unary(gate, UnaryOp::Sigmoid);
        let y = self.g.reshape(y, [wide / heads.max(1), heads, n, 1]);
        let y = self.g.mul(y, gate);
        let y = self.g.cont_as(y, [wide, n, 1, 1]);
        self.linear(il, LlmTensor::AttnOutput, y)
    }

    /// Sizes of decompressed heads of K and V, and of the compressed vector without its rotary part.
    pub(super) fn latent(&self, il: usize) -> ((u64, u64), u64) {
        let everywhere = (self.hp.mla.unwrap_or((self.hp.head_k(il), self.hp.head_v(il))), self.hp.n_lora_kv);
        self.hp.latent_swa.filter(|_| self.hp.is_swa[il]).unwrap_or(everywhere)
    }

    /// Rotary positions, unless the model has none.
    fn latent_rope(&mut self, x: TensorId, positions: TensorId, factors: TensorId) -> TensorId {
        if self.hp.has_rope { self.g.rope(x, positions, factors) } else { x }
    }

    /// The parts of every query, of `sizes` elements.
    fn q_parts(&mut self, q: TensorId, sizes: [u64; 2]) -> [TensorId; 2] {
        let Tensor { ne, nb, .. } = self.g[q];
        sizes.map(|size| self.g.window(q, [size, ne[1], ne[2], 1], [nb[1], nb[2]]))
    }

    /// `weight · x`, without scale and bias.
    pub fn multiply(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let y = self.g.mul_mat(weight, x);
        self.with_adapters(il, slot, x, y, None)
    }
}
