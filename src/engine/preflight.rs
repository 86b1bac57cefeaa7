//! An upper bound of a plan, known before anything is placed.

use crate::settings::InEffect;

/// The rules of a plan, and its best possible outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Preflight {
    /// The settings in effect, as far as they do not depend on the placement.
    pub settings: InEffect,
    /// Per GPU of the machine, whether it is considered.
    pub gpus: Vec<bool>,
    /// The best possible outcome.
    pub upper_bound: UpperBound,
    /// The plan is a refusal.
    pub refused: bool,
}

impl Preflight {
    /// Whether both plans have the same rules and bound, apart from the unrounded context.
    pub fn is_like(&self, other: &Self) -> bool {
        let ctx = self.settings.ctx;
        *self == Self { settings: InEffect { ctx, ..other.settings.clone() }, ..other.clone() }
    }
}

/// The best possible outcome of a plan, judged by a lower bound of its memory: weights and caches without any graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpperBound {
    /// Cannot fit: some device needs more than it has, for any placement of the layers.
    DoesNotFit,
    /// May fit with layers in RAM; not all layers can be on GPUs.
    SomeLayers,
    /// All layers may fit on GPUs, with parts of them in RAM.
    AllLayers,
    /// All may fit in VRAM.
    Vram,
}
