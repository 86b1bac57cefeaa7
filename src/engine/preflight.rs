//! What is certain of a plan before anything is placed.

use crate::settings::InEffect;

/// The rules that a plan will be made by, and the best that can come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Preflight {
    /// The knobs in effect, as far as they are settled before the model is placed.
    pub settings: InEffect,
    /// Per GPU of the machine, whether it is considered.
    pub gpus: Vec<bool>,
    /// The best that can come of it.
    pub upper_bound: UpperBound,
}

impl Preflight {
    /// Both plans are alike, but for the context that they tell of: it is a number that was asked for before it is rounded.
    pub fn is_like(&self, other: &Self) -> bool {
        let settings = InEffect { ctx: self.settings.ctx, ..other.settings.clone() };
        self.settings == settings && self.gpus == other.gpus && self.upper_bound == other.upper_bound
    }
}

/// How well a plan can turn out, by the bytes that it takes at least: weights and caches without any graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpperBound {
    /// Some device is asked for more than it has, wherever layers go.
    DoesNotFit,
    /// It may fit with layers in RAM; the GPUs cannot hold them all.
    SomeLayers,
    /// Nothing speaks against every layer on GPUs.
    AllLayers,
}
