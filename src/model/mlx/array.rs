//! Arrays as MLX counts and allocates them.

use crate::safetensors::Dtype;

/// The page in which both allocators count larger buffers.
const PAGE: u64 = 16 << 10;

/// A type and a shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Array {
    /// The type.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<u64>,
}

/// Who allocates the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Nobody: bytes of the data alone, as MLX's `nbytes`.
    Data,
    /// `mlx/backend/metal/allocator.cpp`, MLX of August 2026.
    Metal,
    /// `mlx/backend/cuda/allocator.cpp`, MLX of August 2026.
    Cuda,
}

impl Array {
    /// Bytes of its data; those beyond 2^63 are cut there.
    pub fn bytes(&self) -> u64 {
        self.dtype.bytes(&self.shape).unwrap_or(1 << 63)
    }
}

impl Allocator {
    /// Bytes of the buffer for `bytes` of data.
    pub fn buffer(self, bytes: u64) -> u64 {
        match self {
            Self::Data => bytes,
            Self::Metal if bytes <= PAGE => bytes,
            Self::Cuda if bytes < PAGE => bytes.max(8).next_power_of_two(),
            Self::Metal | Self::Cuda => bytes.div_ceil(PAGE).saturating_mul(PAGE),
        }
    }
}
