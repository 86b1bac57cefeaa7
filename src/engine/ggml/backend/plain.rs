//! The simulated card: every operation, no room besides results, the graph as it is. For tests and comparisons.

use super::{Backend, padded};
use crate::engine::ggml::tensor::Tensor;

/// A card that supports everything; alignment and padding are those of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain;

impl Backend for Plain {
    fn alignment(&self) -> u64 {
        128
    }

    fn bytes(&self, tensor: &Tensor) -> u64 {
        padded(tensor, 512)
    }
}
