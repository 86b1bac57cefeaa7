//! The device that MLX uses of a machine, and what its kernels do.

use crate::machine::{Backend, Gpu, Machine};
use crate::model::mlx::{Allocator, Heads};
use crate::safetensors::Dtype;

/// The device.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct MlxDevice<'m> {
    /// The GPU; none where it computes on the CPU.
    pub gpu: Option<&'m Gpu>,
    /// Who allocates its buffers.
    pub allocator: Allocator,
}

/// Head lengths whose attention never stores scores on Metal.
/// Source: `mlx/backend/metal/scaled_dot_product_attention.cpp`, `use_fallback`, MLX of August 2026.
const FUSED_ON_METAL: [u64; 5] = [64, 72, 80, 96, 128];
/// The longest head of cuDNN's attention. Source: `mlx/backend/cuda/scaled_dot_product_attention.cpp`, August 2026.
const FUSED_ON_CUDA: u64 = 128;
/// Chunks up to so many tokens have another kernel.
const FEW: u64 = 8;
/// Chips whose matrix units also serve heads of 256.
const NAX: &str = "M5";
/// The fewest tokens for that.
const NAX_CHUNK: u64 = 1024;

impl<'m> MlxDevice<'m> {
    /// The first GPU that MLX can use; the CPU without one.
    pub fn of(machine: &'m Machine) -> Self {
        let gpu =
            machine.gpus.first().filter(|gpu| matches!(gpu.backend, Backend::Metal | Backend::Cuda | Backend::Plain));
        let allocator = match gpu {
            None => Allocator::Data,
            Some(gpu) if is_cuda(gpu) => Allocator::Cuda,
            Some(_) => Allocator::Metal,
        };
        Self { gpu, allocator }
    }

    /// Whether attention of a chunk computes without storing its scores.
    pub fn is_fused(&self, heads: Heads, chunk: u64, is_window: bool, quantised: bool, dtype: Dtype) -> bool {
        let Some(gpu) = self.gpu else { return false };
        if chunk <= FEW {
            return true;
        }
        if heads.key != heads.value || quantised {
            return false;
        }
        if self.allocator == Allocator::Cuda {
            let is_new = gpu.compute.is_some_and(|(major, _)| major >= 8);
            return is_new && heads.key <= FUSED_ON_CUDA && dtype != Dtype::F32;
        }
        let on_nax = gpu.name.split_whitespace().any(|word| word == NAX);
        FUSED_ON_METAL.contains(&heads.key) || heads.key == 256 && on_nax && !is_window && chunk >= NAX_CHUNK
    }
}

/// Whether it is a card of CUDA: one of which nothing but its memory is said stands for a Mac.
fn is_cuda(gpu: &Gpu) -> bool {
    gpu.backend == Backend::Cuda && (gpu.compute.is_some() || gpu.driver_major.is_some())
}
