//! The layers of a plan, and why each is where it is.

use std::sync::Arc;

use super::Term;
use crate::units::Bytes;

/// A layer and its device.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlan {
    /// Block number; the output layer's is the number of blocks.
    pub index: usize,
    /// Index into [`Plan::devices`](super::Plan::devices).
    pub device: usize,
    /// Bytes of its weights.
    pub weights: Bytes,
    /// Bytes of its cache.
    pub cache: Bytes,
    /// The part of `cache` that each token of the context adds; none of windows, states, and caches that are estimated.
    pub per_token: Bytes,
    /// The formula of the cache's bytes, shared by layers of one kind. A layer without tensors has no cache, and the
    /// term shows what it would be.
    pub cache_term: Arc<Term>,
    /// The reason for its device.
    pub why: Why,
}

impl LayerPlan {
    /// Bytes on its device: weights and cache, without parts on other devices.
    pub fn here(&self) -> Bytes {
        match self.why {
            Why::InPart { needed, .. } => needed,
            _ => self.weights + self.cache,
        }
    }

    /// Its weights on other devices.
    pub fn elsewhere(&self) -> Bytes {
        match self.why {
            Why::InPart { elsewhere, .. } => elsewhere,
            _ => Bytes::ZERO,
        }
    }
}

/// The reason for a layer's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It fits: it needs `needed` bytes, and `room` bytes were left on the device.
    Fits {
        /// Weights and cache of the layer.
        needed: Bytes,
        /// Bytes left after reserves and the layers placed before.
        room: Bytes,
    },
    /// It is on its device, except for some weights, such as its experts.
    InPart {
        /// Weights and cache of the layer on its device.
        needed: Bytes,
        /// Its weights on other devices.
        elsewhere: Bytes,
    },
    /// It does not fit on any GPU; `room` are the bytes left on the last one tried.
    NoRoom {
        /// Weights and cache of the layer, plus the growth of the graph if the engine counts that.
        needed: Bytes,
        /// Bytes left after reserves and the layers placed before.
        room: Bytes,
        /// Index into [`Plan::devices`](super::Plan::devices) of the GPU that was tried.
        device: usize,
    },
    /// The user set this number of layers on GPUs.
    AskedFor,
    /// The user set fewer layers on GPUs.
    NotAskedFor,
    /// Not everything fits, so the engine keeps the output layer in RAM.
    OutputDropped,
    /// There is no GPU.
    NoGpu,
    /// The engine had stopped filling the last GPU, because an earlier layer did not fit.
    GivenUp {
        /// Index into [`Plan::devices`](super::Plan::devices) of that GPU.
        device: usize,
        /// Index into [`Plan::layers`](super::Plan::layers) of the layer that did not fit.
        layer: usize,
        /// What that layer needed.
        needed: Bytes,
        /// Bytes left there.
        room: Bytes,
        /// What this layer would have needed.
        own: Bytes,
    },
    /// It stays in RAM although there is room: the engine's fit does not count the `NextN` (MTP) blocks.
    NotCounted,
    /// It has no tensors.
    Nothing,
}
