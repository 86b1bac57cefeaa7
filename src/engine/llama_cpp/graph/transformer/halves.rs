//! The two halves of a block, and their residual additions.

use super::super::GraphBuilder;
use super::super::attention::{AttentionExtras, Qkv};
use super::super::feed_forward::{Activation, FfnWeights, Routing};
use super::Inputs;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::transformer::{
    Norm, PostNorm, PreNorm, QkNorm, ResidualOrder, ResidualTerm, RopeLayers, Transformer,
};
use crate::engine::llama_cpp::weights::{LlmTensor, TensorSuffix};

impl Transformer {
    /// Activation of a feed-forward part without a gate.
    const fn ungated(&self) -> Activation {
        if self.squares { Activation::Squared } else { Activation::Plain }
    }
}

impl GraphBuilder<'_> {
    /// The input of a half, from `x` or the input of attention.
    pub(super) fn half_input(
        &mut self,
        kind: &Transformer,
        il: usize,
        x: TensorId,
        before: PreNorm,
        attentions: TensorId,
    ) -> TensorId {
        match before {
            PreNorm::Norm(slot) if kind.lenient && !self.has(il, slot) => x,
            PreNorm::NormOrAttentions(slot) if !self.has(il, slot) => attentions,
            PreNorm::Norm(slot) | PreNorm::NormOrAttentions(slot) => self.norm(x, slot, kind.norm, il),
            PreNorm::Bare => self.norm_with(x, TensorId::NONE, TensorId::NONE, kind.norm, Some(il)),
            PreNorm::Nothing | PreNorm::AttentionOutput => x,
        }
    }

    /// The output of a half, with its norm and residual scale if the architecture has them.
    fn half_output(&mut self, kind: &Transformer, il: usize, x: TensorId, after: PostNorm) -> TensorId {
        let (slot, pin) = match after {
            PostNorm::Nothing | PostNorm::NormOfAll(_) | PostNorm::FreeNormOfAll(_) => (None, None),
            PostNorm::NormOr(slot, other) => (Some(if self.has(il, slot) { slot } else { other }), Some(il)),
            PostNorm::Norm(slot) => (Some(slot), Some(il)),
            PostNorm::FreeNorm(slot) => (Some(slot), None),
        };
        let mut x = x;
        if let Some(slot) = slot.filter(|slot| !kind.lenient || self.has(il, *slot)) {
            let weight = self.need(il, slot);
            x = self.norm_with(x, weight, TensorId::NONE, kind.norm, pin);
        }
        if self.hp.residual_scale { self.g.scale(x) } else { x }
    }

    /// The first half of a block: attention, or the recurrent part.
    pub(super) fn attention_half(
        &mut self,
        kind: &Transformer,
        il: usize,
        x: TensorId,
        normed: TensorId,
        inputs: Inputs,
    ) -> TensorId {
        if let (true, Some(states)) = (self.hp.is_recr[il], inputs.states) {
            return self.recurrent_block(states, il, normed);
        }
        if kind.lenient && !self.attends(il) {
            return TensorId::NONE;
        }
        // some have a separate norm for attention
        let own = matches!(kind.sum, ResidualOrder::SideBySide(_)) && self.has(il, LlmTensor::AttnNorm2);
        let y = if own { self.norm(x, LlmTensor::AttnNorm2, kind.norm, il) } else { normed };
        let (mut qkv, extras) = if self.has(il, LlmTensor::AttnKvAMqa) {
            self.latent_qkv(il, y, inputs.positions)
        } else {
            let sinks = self.weight(il, LlmTensor::AttnSinks);
            let extras = AttentionExtras { sinks, ..AttentionExtras::default() };
            (self.rotated_qkv(kind, il, y, inputs.positions), extras)
        };
        qkv.q = self.g.times(qkv.q, inputs.temperature);
        if kind.scales_queries {
            qkv.q = self.g.scale(qkv.q);
        }
        // an unlisted architecture's gate without an output matrix belongs to something other than attention
        let gated = self.has(il, LlmTensor::AttnGate) && (!kind.lenient || self.has(il, LlmTensor::AttnOutput));
        let x = match (gated, extras.v_unfold.is_some()) {
            (false, _) => self.attention(il, qkv, extras),
            (true, true) if self.architecture.has(Trait::GatesLatent) => self.gated_latent(il, y, qkv, extras),
            (true, _) => self.gated_by_heads(il, y, qkv, extras),
        };
        let x = match kind.attention.after {
            PostNorm::NormOfAll(slot) => self.norm(x, slot, kind.norm, il),
            PostNorm::FreeNormOfAll(slot) => self.unpinned_rms(x, slot, il),
            _ => x,
        };
        if self.hp.attention_scale { self.g.scale(x) } else { x }
    }

    fn rotated_qkv(&mut self, kind: &Transformer, il: usize, x: TensorId, positions: TensorId) -> Qkv {
        let mut qkv = self.heads(kind, il, x);
        if self.rotates(kind.rotation, il) {
            let factors = self.rope_factors(il);
            qkv = self.rotate(qkv, positions, factors);
        }
        if kind.heads == QkNorm::EachRotated { self.norm_heads(il, qkv, kind.norm) } else { qkv }
    }

    fn rotates(&self, rotation: RopeLayers, il: usize) -> bool {
        let windowed = self.hp.is_swa[il];
        match rotation {
            RopeLayers::Every => self.hp.has_rope && self.hp.rope_pattern.get(il) != Some(&false),
            RopeLayers::ButEveryNth => {
                self.hp.no_rope_layer_step == 0 || !(il as u64 + 1).is_multiple_of(self.hp.no_rope_layer_step)
            }
            RopeLayers::ButFirstOfNth => {
                let step = self.hp.no_rope_layer_step;
                step == self.hp.n_layer() as u64 || step == 0 || !(il as u64).is_multiple_of(step)
            }
            RopeLayers::WindowsAndDense => windowed || il < self.hp.n_layer_dense_lead,
            RopeLayers::Windows => windowed,
            RopeLayers::WindowsIfAny => windowed || !self.hp.has_swa(),
            RopeLayers::Never => false,
        }
    }

    fn heads(&mut self, kind: &Transformer, il: usize, x: TensorId) -> Qkv {
        let sizes = [self.hp.head_k(il), self.hp.head_k(il), self.hp.head_v(il)];
        let counts = [self.hp.n_head[il], self.hp.n_head_kv[il], self.hp.n_head_kv[il]];
        let n = self.batch.n_tokens;
        match kind.heads {
            QkNorm::Each => {
                let qkv = self.qkv(il, x);
                self.norm_heads(il, qkv, kind.norm)
            }
            QkNorm::EachWithMean => {
                let qkv = self.qkv(il, x);
                self.norm_heads(il, qkv, Norm::Layer)
            }
            QkNorm::EachRotated => self.qkv(il, x),
            QkNorm::Across | QkNorm::EachOfCopies => {
                let across = kind.heads == QkNorm::Across;
                let mut flat = self.qkv_flat(il, x, std::array::from_fn(|i| sizes[i] * counts[i]));
                if across {
                    flat = self.norm_across(kind, il, flat);
                }
                let [q, k, v] = std::array::from_fn(|i| self.g.reshape(flat[i], [sizes[i], counts[i], n, 1]));
                let qkv = Qkv { q, k, v };
                if across { qkv } else { self.norm_heads(il, qkv, kind.norm) }
            }
            QkNorm::AcrossSplit => {
                let Qkv { q, k, v } = self.qkv(il, x);
                if !self.has(il, LlmTensor::AttnQNorm) {
                    return Qkv { q, k, v };
                }
                let flat =
                    |build: &mut Self, x: TensorId, i: usize| build.g.reshape(x, [sizes[i] * counts[i], n, 1, 1]);
                let (q, k) = (flat(self, q, 0), flat(self, k, 1));
                let [q, k, v] = self.norm_across(kind, il, [q, k, v]);
                let split = |build: &mut Self, x: TensorId, i: usize| build.g.reshape(x, [sizes[i], counts[i], n, 1]);
                Qkv { q: split(self, q, 0), k: split(self, k, 1), v }
            }
        }
    }

    fn norm_across(&mut self, kind: &Transformer, il: usize, [q, k, v]: [TensorId; 3]) -> [TensorId; 3] {
        let [q, k] = [(q, LlmTensor::AttnQNorm), (k, LlmTensor::AttnKNorm)].map(|(x, slot)| {
            let weight = self.weight(il, slot);
            let bias = if kind.norm == Norm::Layer { self.bias(il, slot) } else { TensorId::NONE };
            if weight.is_some() { self.norm_with(x, weight, bias, kind.norm, Some(il)) } else { x }
        });
        [q, k, v]
    }

    /// The rest of the block after attention's output `y`.
    pub(super) fn feed_forward_half(
        &mut self,
        kind: &Transformer,
        il: usize,
        y: TensorId,
        [residual, normed, logits]: [TensorId; 3],
    ) -> TensorId {
        let parallel = match kind.sum {
            ResidualOrder::SideBySide(terms) => Some(terms),
            ResidualOrder::FromHeader(terms) => self.hp.parallel_residual.then_some(terms),
            ResidualOrder::InTurn
            | ResidualOrder::InTurnResidualLast
            | ResidualOrder::InTurnResidualFirst
            | ResidualOrder::ResidualFirst => None,
        };
        if let Some(terms) = parallel.filter(|_| !kind.lenient || (y.is_some() && self.feeds_forward(il))) {
            let z = self.half_input(kind, il, residual, kind.feed_forward.before, normed);
            let z = self.dense_or_experts(kind, il, z, logits);
            let [a, b, c] = terms.map(|term| match term {
                ResidualTerm::Residual => residual,
                ResidualTerm::Attention => y,
                ResidualTerm::FeedForward => z,
            });
            let x = self.g.add(a, b);
            return self.g.add(x, c);
        }
        let mut y = y;
        let half = if y.is_some() {
            y = self.half_output(kind, il, y, kind.attention.after);
            let half = if matches!(kind.sum, ResidualOrder::InTurnResidualFirst | ResidualOrder::ResidualFirst) {
                self.g.add(residual, y)
            } else {
                self.g.add(y, residual)
            };
            self.label(half, "ffn_inp", Some(il));
            self.normed_sum(kind, il, half, residual, kind.attention.sum)
        } else {
            residual
        };
        if kind.lenient && !self.feeds_forward(il) {
            return half;
        }
        let input = if kind.feed_forward.before == PreNorm::AttentionOutput { y } else { half };
        let z = self.half_input(kind, il, input, kind.feed_forward.before, normed);
        let z = self.dense_or_experts(kind, il, z, logits);
        let z = self.half_output(kind, il, z, kind.feed_forward.after);
        let x = if matches!(kind.sum, ResidualOrder::InTurnResidualLast | ResidualOrder::ResidualFirst) {
            self.g.add(half, z)
        } else {
            self.g.add(z, half)
        };
        self.normed_sum(kind, il, x, residual, kind.feed_forward.sum)
    }

    /// A sum, normalised if the architecture does; some then add the residual and normalise again.
    fn normed_sum(
        &mut self,
        kind: &Transformer,
        il: usize,
        x: TensorId,
        residual: TensorId,
        slot: Option<LlmTensor>,
    ) -> TensorId {
        let Some(slot) = slot else { return x };
        if kind.lenient && !self.has(il, slot) {
            return x;
        }
        let x = self.norm(x, slot, kind.norm, il);
        if slot != LlmTensor::AttnOutNorm || !self.has(il, LlmTensor::AttnNorm2) {
            return x;
        }
        let x = self.g.add(x, residual);
        self.norm(x, LlmTensor::AttnNorm2, kind.norm, il)
    }

    /// A dense part, experts, or both, by the file's tensors. The router's `logits` may be given.
    pub fn dense_or_experts(&mut self, kind: &Transformer, il: usize, x: TensorId, logits: TensorId) -> TensorId {
        if !self.has(il, LlmTensor::FfnGateInp) {
            return self.dense_part(kind, il, x);
        }
        let gating = kind.experts.gating.unwrap_or(self.hp.expert_gating);
        let normalised = kind.experts.normalised.unwrap_or(self.hp.expert_weights_norm);
        let routing = Routing { gating, normalised, scaled: self.experts_scaled(), ..Routing::SOFTMAX };
        let logits = if logits.is_some() { logits } else { self.router(il, x) };
        let chosen = self.experts_by(il, x, logits, routing);
        if self.hp.n_group_experts > 0 {
            let shared = self.group_experts(il, chosen, logits, routing);
            let shared = self.g.scale(shared);
            return self.g.add(chosen, shared);
        }
        if self.has(il, LlmTensor::FfnUpShexp) && (self.has(il, LlmTensor::FfnDownShexp) || !kind.lenient) {
            let shared = self.shared_expert(kind, il, x);
            let both = self.g.add(chosen, shared);
            return if kind.experts.halved { self.g.scale(both) } else { both };
        }
        let both = self.architecture.has(Trait::AddsDenseToExperts);
        if both && self.has(il, LlmTensor::FfnUp) {
            let dense = self.dense_part(kind, il, x);
            let both = self.g.add(dense, chosen);
            return self.g.scale(both);
        }
        chosen
    }

    /// Whether the file has all tensors required for attention in block `il`.
    fn attends(&self, il: usize) -> bool {
        let all = |slots: &[LlmTensor]| slots.iter().all(|slot| self.has(il, *slot));
        let latent =
            if self.hp.mla.is_some() { [LlmTensor::AttnKB, LlmTensor::AttnVB] } else { [LlmTensor::AttnKvB; 2] };
        let has_q = all(&[LlmTensor::AttnQ]) || all(&[LlmTensor::AttnQA, LlmTensor::AttnQANorm, LlmTensor::AttnQB]);
        if self.has(il, LlmTensor::AttnKvAMqa) {
            return has_q && self.has(il, LlmTensor::AttnKvANorm) && all(&latent);
        }
        self.has(il, LlmTensor::AttnQkv) || all(&[LlmTensor::AttnQ, LlmTensor::AttnK, LlmTensor::AttnV])
    }

    /// The same for the feed-forward half.
    fn feeds_forward(&self, il: usize) -> bool {
        let experts = self.has(il, LlmTensor::FfnUpExps) || self.has(il, LlmTensor::FfnGateUpExps);
        if self.has(il, LlmTensor::FfnGateInp) {
            return experts && self.has(il, LlmTensor::FfnDownExps) && self.hp.n_expert_used[il] > 0;
        }
        self.has(il, LlmTensor::FfnUp) && self.has(il, LlmTensor::FfnDown)
    }

    /// The shared expert, with its gate if the file has one.
    fn shared_expert(&mut self, kind: &Transformer, il: usize, x: TensorId) -> TensorId {
        let ungated = kind.lenient && !self.has(il, LlmTensor::FfnGateShexp);
        let activation = if ungated {
            kind.ungated()
        } else if self.has(il, LlmTensor::FfnGateShexp) {
            Activation::Gated
        } else {
            Activation::GatedInOne
        };
        let gate = self.weight(il, LlmTensor::FfnGateInpShexp);
        if !gate.is_some() {
            return self.feed_forward_of(il, x, activation, FfnWeights::SHARED);
        }
        // llama.cpp computes the sigmoid as SiLU divided by its argument
        let gate = self.g.mul_mat(gate, x);
        let activated = self.g.unary(gate, UnaryOp::Silu);
        let gate = self.g.div(activated, gate);
        let shared = self.feed_forward_of(il, x, activation, FfnWeights::SHARED);
        self.g.mul(shared, gate)
    }

    /// The dense part: gated if there is a gate, or if the first matrix is twice as wide.
    fn dense_part(&mut self, kind: &Transformer, il: usize, x: TensorId) -> TensorId {
        let ne =
            |slot| self.weights.find(il, slot, TensorSuffix::Weight).map_or([0; 4], |index| self.weights.all[index].ne);
        let (up, down) = (ne(LlmTensor::FfnUp), ne(LlmTensor::FfnDown));
        let activation = if self.has(il, LlmTensor::FfnGate) {
            Activation::Gated
        } else if up[1] == 2 * down[0] {
            Activation::GatedInOne
        } else {
            kind.ungated()
        };
        self.feed_forward(il, x, activation)
    }
}
