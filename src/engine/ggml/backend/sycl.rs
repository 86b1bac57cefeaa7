//! SYCL (`ggml-sycl.cpp`, 0.1.161). Temporary buffers of attention are not counted.

use super::{Backend, padded};
use crate::engine::ggml::tensor::Tensor;

/// An Intel GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sycl;

impl Backend for Sycl {
    fn alignment(&self) -> u64 {
        128
    }

    fn bytes(&self, tensor: &Tensor) -> u64 {
        padded(tensor, 512)
    }
}
