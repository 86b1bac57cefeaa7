//! The feed-forward part of a block: dense, or experts.

use super::GraphBuilder;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::transformer::gating;
use crate::engine::llama_cpp::weights::LlmTensor;

/// The activation between the matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    /// Separate gate matrix; fused activation and product.
    Gated,
    /// Gate and value in one matrix.
    GatedInOne,
    /// An elementwise function.
    Plain,
    /// `ReLU`.
    Relu,
    /// Squared `ReLU`.
    Squared,
    /// Separate gate matrix; Kimi K3's bounded activation.
    Situ,
}

/// The matrices of a feed-forward part.
#[derive(Clone, Copy)]
pub(super) struct FfnWeights {
    pub up: LlmTensor,
    pub gate: LlmTensor,
    pub down: LlmTensor,
}

impl FfnWeights {
    pub(super) const DENSE: Self = Self { up: LlmTensor::FfnUp, gate: LlmTensor::FfnGate, down: LlmTensor::FfnDown };
    pub(super) const SHARED: Self =
        Self { up: LlmTensor::FfnUpShexp, gate: LlmTensor::FfnGateShexp, down: LlmTensor::FfnDownShexp };
}

impl GraphBuilder<'_> {
    /// The dense feed-forward part.
    pub(super) fn feed_forward(&mut self, il: usize, x: TensorId, activation: Activation) -> TensorId {
        self.feed_forward_of(il, x, activation, FfnWeights::DENSE)
    }

    /// The same with the given matrices.
    pub(super) fn feed_forward_of(
        &mut self,
        il: usize,
        x: TensorId,
        activation: Activation,
        matrices: FfnWeights,
    ) -> TensorId {
        let up = self.biased(il, matrices.up, x);
        self.label(up, "ffn_up", Some(il));
        let y = match activation {
            Activation::Gated => {
                let gate = self.biased(il, matrices.gate, x);
                self.label(gate, "ffn_gate", Some(il));
                self.swiglu(gate, up, self.hp.swiglu_clamp_shexp.get(il))
            }
            Activation::Situ => {
                let gate = self.biased(il, matrices.gate, x);
                self.situ(gate, up)
            }
            Activation::GatedInOne => self.g.glu(up),
            Activation::Plain => {
                let y = self.g.unary(up, UnaryOp::Gelu);
                let scales = self.weight(il, LlmTensor::FfnAct);
                if scales.is_some() { self.g.div(y, scales) } else { y }
            }
            Activation::Relu => self.g.unary(up, UnaryOp::Relu),
            Activation::Squared => {
                let y = self.g.unary(up, UnaryOp::Relu);
                self.g.sqr(y)
            }
        };
        self.label(y, "ffn_act", Some(il));
        self.activated(y);
        let y = self.biased(il, matrices.down, y);
        self.label(y, "ffn_out", Some(il))
    }

    /// Adds what the last matrix is multiplied with, in releases that do not wait until it is.
    fn activated(&mut self, x: TensorId) {
        if self.release.expands_activations {
            self.g.expand(x);
        }
    }

    /// The gated activation, whose operands some blocks limit (`build_ffn` and `build_moe_ffn` in `llama-graph.cpp`,
    /// 0.1.161).
    pub(super) fn swiglu(&mut self, gate: TensorId, up: TensorId, limit: Option<&f32>) -> TensorId {
        let Some(limit) = limit.copied().filter(|limit| *limit > 1e-6) else {
            return self.g.glu_split(gate, up);
        };
        if self.architecture.has(Trait::ClampsInActivation) {
            return self.g.glu_clamped(gate, up, limit);
        }
        let up = self.clamp(up);
        let gate = self.g.unary(gate, UnaryOp::Silu);
        let gate = self.clamp(gate);
        self.g.mul(gate, up)
    }

    /// Kimi K3's activation (`kimi_k3_situ` in `models/kimi-k3.cpp`, 0.1.161).
    pub(super) fn situ(&mut self, gate: TensorId, mut up: TensorId) -> TensorId {
        let bounded = self.bounded(gate);
        let opened = self.g.unary(gate, UnaryOp::Sigmoid);
        let activated = self.g.mul(bounded, opened);
        if self.hp.scales_up {
            up = self.bounded(up);
        }
        self.g.mul(activated, up)
    }

    /// `x` between two limits, by a hyperbolic tangent.
    fn bounded(&mut self, x: TensorId) -> TensorId {
        let x = self.g.scale(x);
        let x = self.g.unary(x, UnaryOp::Tanh);
        self.g.scale(x)
    }

    /// `weight · x + bias`, scaled; bias and scale are optional.
    fn biased(&mut self, il: usize, slot: LlmTensor, x: TensorId) -> TensorId {
        let mut y = self.multiply(il, slot, x);
        let bias = self.bias(il, slot);
        y = self.g.plus(y, bias);
        let scale = self.scale_of(il, slot);
        y = self.g.times(y, scale);
        y
    }
}

// Mixture of experts: routing, expert matrices, weighted sum.

/// How experts are routed and weighted.
#[derive(Clone, Copy)]
pub(super) struct Routing {
    /// One of [`gating`].
    pub gating: u64,
    /// The weights of the selected experts are normalised to a sum of 1.
    pub normalised: bool,
    /// The weights are multiplied by a constant.
    pub scaled: bool,
    /// The activation between an expert's matrices.
    pub activation: Activation,
    /// Tokens are weighted before the experts rather than after.
    pub weigh_first: bool,
}

/// The matrices of a set of experts.
struct ExpertMatrices {
    gate_up: Option<LlmTensor>,
    gate: LlmTensor,
    up: LlmTensor,
    down: LlmTensor,
}

impl ExpertMatrices {
    const ALL: Self = Self {
        gate_up: Some(LlmTensor::FfnGateUpExps),
        gate: LlmTensor::FfnGateExps,
        up: LlmTensor::FfnUpExps,
        down: LlmTensor::FfnDownExps,
    };
    const OF_GROUPS: Self = Self {
        gate_up: None,
        gate: LlmTensor::FfnGateChexps,
        up: LlmTensor::FfnUpChexps,
        down: LlmTensor::FfnDownChexps,
    };
}

impl Routing {
    /// Softmax over all experts, gated activation, weighted afterwards.
    pub(super) const SOFTMAX: Self = Self {
        gating: gating::SOFTMAX,
        normalised: true,
        scaled: false,
        activation: Activation::Gated,
        weigh_first: false,
    };
}

impl GraphBuilder<'_> {
    /// Whether the experts' weights have a constant factor.
    #[allow(clippy::float_cmp, reason = "exactly these two values mean nothing")]
    pub(super) fn experts_scaled(&self) -> bool {
        self.hp.expert_weights_scale != 0.0 && self.hp.expert_weights_scale as f32 != 1.0
    }

    /// The experts of block `il` applied to `x`.
    pub(super) fn experts(&mut self, il: usize, x: TensorId, routing: Routing) -> TensorId {
        let logits = self.router(il, x);
        self.experts_by(il, x, logits, routing)
    }

    /// Logits of all experts for every token.
    pub(super) fn router(&mut self, il: usize, x: TensorId) -> TensorId {
        let logits = self.multiply(il, LlmTensor::FfnGateInp, x);
        self.label(logits, "ffn_moe_logits", Some(il));
        let bias = self.bias(il, LlmTensor::FfnGateInp);
        self.g.plus(logits, bias)
    }

    /// The same with given logits.
    pub(super) fn experts_by(&mut self, il: usize, x: TensorId, logits: TensorId, routing: Routing) -> TensorId {
        let (probabilities, chosen) = self.choose(il, logits, self.hp.n_expert_used[il], routing);
        let weights = self.expert_weights(il, probabilities, chosen, routing);
        self.apply(il, x, (chosen, weights), &ExpertMatrices::ALL, routing)
    }

    /// The second set of experts, which groups of the first share: chosen by the same logits.
    pub(super) fn group_experts(&mut self, il: usize, x: TensorId, logits: TensorId, routing: Routing) -> TensorId {
        let groups = self.hp.n_expert / self.hp.n_group_experts.max(1);
        let (probabilities, chosen) = self.choose(il, logits, self.hp.n_expert_used[il].min(groups), routing);
        let number = self.g.cast(chosen, Type::F32);
        let number = self.g.scale(number);
        let group = self.g.cast(number, Type::I32);
        let weights = self.expert_weights(il, probabilities, group, routing);
        self.apply(il, x, (group, weights), &ExpertMatrices::OF_GROUPS, routing)
    }

    /// The chosen experts applied to `x`, and the weighted sum of their results.
    fn apply(
        &mut self,
        il: usize,
        x: TensorId,
        (chosen, weights): (TensorId, TensorId),
        matrices: &ExpertMatrices,
        routing: Routing,
    ) -> TensorId {
        let Tensor { ne: [n_embd, n, ..], .. } = self.g[x];
        let used = self.g[chosen].ne[0];
        self.g.expand(weights);

        let mut x = self.g.reshape(x, [n_embd, 1, n, 1]);
        if routing.weigh_first {
            x = self.g.repeat(x, [n_embd, used, n, 1]);
            x = self.g.mul(x, weights);
        }
        let x = self.expert_up(il, x, chosen, matrices, routing.activation);
        self.activated(x);
        let mut x = self.expert_matrix(il, matrices.down, x, chosen);
        self.label(x, "ffn_moe_down", Some(il));
        if !routing.weigh_first {
            x = self.g.mul(x, weights);
            self.label(x, "ffn_moe_weighted", Some(il));
        }
        self.g.expand(x);
        self.sum_of_experts(il, x, n)
    }

    /// The probabilities of the experts, and the selected ones, per token.
    fn choose(&mut self, il: usize, logits: TensorId, used: u64, routing: Routing) -> (TensorId, TensorId) {
        let [experts, n, ..] = self.g[logits].ne;
        let probabilities = match routing.gating {
            gating::SOFTMAX => self.g.soft_max(logits, TensorId::NONE, TensorId::NONE),
            gating::SIGMOID => self.g.unary(logits, UnaryOp::Sigmoid),
            gating::SQRT_SOFTPLUS => {
                let softplus = self.g.unary(logits, UnaryOp::Softplus);
                self.g.sqrt(softplus)
            }
            _ => logits,
        };
        self.label(probabilities, "ffn_moe_probs", Some(il));
        if il < self.hp.n_hash_layers {
            let table = self.need(il, LlmTensor::FfnGateTid2Eid);
            let chosen = self.g.get_rows(table, self.inp_tokens);
            self.label(chosen, "ffn_moe_topk", Some(il));
            return (probabilities, chosen);
        }
        let mut ranking = probabilities;
        let bias = {
            let weight = self.weight(il, LlmTensor::ExpProbsB);
            if weight.is_some() { weight } else { self.bias(il, LlmTensor::ExpProbsB) }
        };
        if bias.is_some() {
            ranking = self.g.add(probabilities, bias);
        }
        if routing.weigh_first {
            ranking = logits;
        }
        if self.hp.n_group_experts > 0 {
            ranking = self.g.unary(logits, UnaryOp::Sigmoid);
        }
        if self.hp.n_expert_groups > 1 {
            ranking = self.best_groups(ranking, experts, n);
        }
        let chosen = self.g.argsort_top_k(ranking, used);
        self.label(chosen, "ffn_moe_topk", Some(il));
        (probabilities, chosen)
    }

    /// The weights of the `chosen` experts, per token.
    fn expert_weights(&mut self, il: usize, probabilities: TensorId, chosen: TensorId, routing: Routing) -> TensorId {
        let [experts, n, ..] = self.g[probabilities].ne;
        let used = self.g[chosen].ne[0];
        let probabilities = self.g.reshape(probabilities, [1, experts, n, 1]);
        let mut weights = self.g.get_rows(probabilities, chosen);
        self.label(weights, "ffn_moe_weights", Some(il));
        if routing.gating == gating::SOFTMAX_WEIGHT {
            weights = self.g.reshape(weights, [used, n, 1, 1]);
            weights = self.g.soft_max(weights, TensorId::NONE, TensorId::NONE);
            weights = self.g.reshape(weights, [1, used, n, 1]);
        }
        if routing.normalised {
            weights = self.g.reshape(weights, [used, n, 1, 1]);
            let sum = self.g.sum_rows(weights);
            let sum = self.clamp(sum);
            weights = self.g.div(weights, sum);
            weights = self.g.reshape(weights, [1, used, n, 1]);
        }
        if routing.scaled {
            weights = self.g.scale(weights);
        }
        weights
    }

    /// Ranking with all but the best groups of experts masked.
    fn best_groups(&mut self, ranking: TensorId, experts: u64, n: u64) -> TensorId {
        let (groups, used) = (self.hp.n_expert_groups, self.hp.n_group_used);
        let per_group = experts / groups;
        let grouped = self.g.reshape(ranking, [per_group, groups, n, 1]);
        let best = self.g.argsort_top_k(grouped, 2);
        let apart = self.g.reshape(grouped, [1, per_group, groups, n]);
        let scores = self.g.get_rows(apart, best);
        let [_, x, y, z] = self.g[scores].ne;
        let scores = self.g.reshape(scores, [x, y, z, 1]);
        let scores = self.g.sum_rows(scores);
        let [_, x, y, _] = self.g[scores].ne;
        let scores = self.g.reshape(scores, [x, y, 1, 1]);
        let best = self.g.argsort_top_k(scores, used);
        let kept = self.g.get_rows(grouped, best);
        let masked = self.g.fill(grouped);
        let masked = self.g.set_rows(masked, kept, best);
        self.g.reshape(masked, [experts, n, 1, 1])
    }

    /// The experts' up and gate matrices with the activation.
    fn expert_up(
        &mut self,
        il: usize,
        x: TensorId,
        chosen: TensorId,
        matrices: &ExpertMatrices,
        activation: Activation,
    ) -> TensorId {
        if let Some(slot) = matrices.gate_up.filter(|slot| self.has(il, *slot)) {
            let both = self.expert_matrix(il, slot, x, chosen);
            self.label(both, "ffn_moe_gate_up", Some(il));
            let Tensor { ne, nb, .. } = self.g[both];
            let half = [ne[0] / 2, ne[1], ne[2], 1];
            let gate = self.g.window(both, half, [nb[1], nb[2]]);
            let up = self.g.window(both, half, [nb[1], nb[2]]);
            return self.g.glu_split(gate, up);
        }
        let up = self.expert_matrix(il, matrices.up, x, chosen);
        self.label(up, "ffn_moe_up", Some(il));
        if self.has(il, matrices.gate) {
            let gate = self.expert_matrix(il, matrices.gate, x, chosen);
            self.label(gate, "ffn_moe_gate", Some(il));
            if activation == Activation::Situ {
                return self.situ(gate, up);
            }
            return self.swiglu(gate, up, self.hp.swiglu_clamp_exp.get(il));
        }
        let y = self.g.unary(up, UnaryOp::Relu);
        if activation == Activation::Squared { self.g.sqr(y) } else { y }
    }

    /// The selected experts' matrices times `x`, with scale and bias if present.
    fn expert_matrix(&mut self, il: usize, slot: LlmTensor, x: TensorId, chosen: TensorId) -> TensorId {
        let weight = self.need(il, slot);
        let mut y = self.g.mul_mat_id(weight, x, chosen);
        let scale = self.scale_of(il, slot);
        if scale.is_some() {
            let (experts, n) = (self.g[scale].ne[0], self.g[x].ne[2]);
            let s = self.g.reshape(scale, [1, experts, 1, 1]);
            let s = self.g.repeat(s, [1, experts, n, 1]);
            let s = self.g.get_rows(s, chosen);
            y = self.g.mul(y, s);
        }
        self.g[y].f32_operand =
            slot == LlmTensor::FfnDownExps && self.architecture.experts_in_f32.contain(self.release);
        y = self.with_adapters(il, slot, x, y, Some(chosen));
        let bias = self.bias(il, slot);
        if bias.is_some() { self.g.add_id(y, bias, chosen) } else { y }
    }

    /// The sum over the selected experts.
    fn sum_of_experts(&mut self, il: usize, x: TensorId, n: u64) -> TensorId {
        let Tensor { ne, nb, .. } = self.g[x];
        let used = ne[1];
        let mut views = Vec::with_capacity(used as usize);
        for _ in 0..used {
            let view = self.g.window(x, [ne[0], n, 1, 1], [nb[2]]);
            self.g.expand(view);
            views.push(view);
        }
        let mut views = views.into_iter();
        let Some(mut sum) = views.next() else { return x };
        for view in views {
            sum = self.g.add(sum, view);
            self.g.expand(sum);
        }
        if used == 1 {
            sum = self.g.cont(sum);
        }
        self.label(sum, "ffn_moe_out", Some(il))
    }
}
