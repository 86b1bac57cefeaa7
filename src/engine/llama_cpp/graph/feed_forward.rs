//! The feed-forward part of a block, where it is dense; `experts` has the other kind.

mod experts;

use super::GraphBuilder;
use crate::engine::ggml::tensor::{TensorId, UnaryOp};
use crate::engine::llama_cpp::architecture::Trait;
use crate::engine::llama_cpp::weights::LlmTensor;
pub(super) use experts::Routing;

/// The activation between the matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Activation {
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
