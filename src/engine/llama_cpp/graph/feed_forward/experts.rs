//! Mixture of experts: routing, expert matrices, weighted sum.

use super::super::GraphBuilder;
use super::Activation;
use crate::engine::ggml::Type;
use crate::engine::ggml::tensor::{Tensor, TensorId, UnaryOp};
use crate::engine::llama_cpp::transformer::gating;
use crate::engine::llama_cpp::weights::LlmTensor;

/// How experts are routed and weighted.
#[derive(Clone, Copy)]
pub struct Routing {
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
    pub const SOFTMAX: Self = Self {
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
    pub fn experts_scaled(&self) -> bool {
        self.hp.expert_weights_scale != 0.0 && self.hp.expert_weights_scale as f32 != 1.0
    }

    /// The experts of block `il` applied to `x`.
    pub fn experts(&mut self, il: usize, x: TensorId, routing: Routing) -> TensorId {
        let logits = self.router(il, x);
        self.experts_by(il, x, logits, routing)
    }

    /// Logits of all experts for every token.
    pub fn router(&mut self, il: usize, x: TensorId) -> TensorId {
        let logits = self.multiply(il, LlmTensor::FfnGateInp, x);
        self.label(logits, "ffn_moe_logits", Some(il));
        let bias = self.bias(il, LlmTensor::FfnGateInp);
        self.g.plus(logits, bias)
    }

    /// The same with given logits.
    pub fn experts_by(&mut self, il: usize, x: TensorId, logits: TensorId, routing: Routing) -> TensorId {
        let (probabilities, chosen) = self.choose(il, logits, self.hp.n_expert_used[il], routing);
        let weights = self.expert_weights(il, probabilities, chosen, routing);
        self.apply(il, x, (chosen, weights), &ExpertMatrices::ALL, routing)
    }

    /// The second set of experts, which groups of the first share: chosen by the same logits.
    pub fn group_experts(&mut self, il: usize, x: TensorId, logits: TensorId, routing: Routing) -> TensorId {
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
