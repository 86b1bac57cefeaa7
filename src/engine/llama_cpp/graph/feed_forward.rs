//! The feed-forward part of a block.

use super::Build;
use crate::engine::ggml::tensor::Id;
use crate::engine::llama_cpp::weights::Slot;

/// What happens between the matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    /// A gate beside the first matrix; their product in one step.
    Gated,
    /// Gate and value share the first matrix.
    GatedInOne,
    /// A function of each element.
    Plain,
    /// Rectified, then squared.
    Squared,
}

/// The matrices: first, gate, last.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    pub up: Slot,
    pub gate: Slot,
    pub down: Slot,
}

impl Matrices {
    pub(super) const DENSE: Self = Self { up: Slot::FfnUp, gate: Slot::FfnGate, down: Slot::FfnDown };
    pub(super) const SHARED: Self = Self { up: Slot::FfnUpShexp, gate: Slot::FfnGateShexp, down: Slot::FfnDownShexp };
}

impl Build<'_> {
    /// The dense feed-forward part.
    pub(super) fn feed_forward(&mut self, il: usize, x: Id, activation: Activation) -> Id {
        self.feed_forward_of(il, x, activation, Matrices::DENSE)
    }

    /// The same with other matrices.
    pub(super) fn feed_forward_of(&mut self, il: usize, x: Id, activation: Activation, matrices: Matrices) -> Id {
        let up = self.biased(il, matrices.up, x);
        self.label(up, "ffn_up", Some(il));
        let y = match activation {
            Activation::Gated => {
                let gate = self.biased(il, matrices.gate, x);
                self.label(gate, "ffn_gate", Some(il));
                self.g.glu_split(gate, up)
            }
            Activation::GatedInOne => self.g.glu(up),
            Activation::Plain => {
                let y = self.g.unary(up);
                let scales = self.weight(il, Slot::FfnAct);
                if scales.is_some() { self.g.div(y, scales) } else { y }
            }
            Activation::Squared => {
                let y = self.g.unary(up);
                self.g.sqr(y)
            }
        };
        self.label(y, "ffn_act", Some(il));
        let y = self.biased(il, matrices.down, y);
        self.label(y, "ffn_out", Some(il))
    }

    /// `weight · x + bias`, then scaled; the last two as far as they exist.
    fn biased(&mut self, il: usize, slot: Slot, x: Id) -> Id {
        let weight = self.need(il, slot);
        let mut y = self.g.mul_mat(weight, x);
        let bias = self.bias(il, slot);
        if bias.is_some() {
            y = self.g.add(y, bias);
        }
        let scale = self.scale_of(il, slot);
        if scale.is_some() {
            y = self.g.mul(y, scale);
        }
        y
    }
}
