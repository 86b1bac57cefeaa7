//! Properties of a device's buffers and operations.

use super::Type;
use super::tensor::{Op, Tensor, row};
use crate::machine;

/// A device as seen by the scheduler and the allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendProps {
    /// Allocations start at multiples of this many bytes, a power of two.
    pub alignment: u64,
    /// Rows of quantised tensors are padded to a multiple of this many elements.
    pub row_multiple: Option<u64>,
    /// Maximum size of one buffer; larger allocations are spread over several.
    pub max_buffer: u64,
    /// Minimum batch for running an operation whose weights are in RAM.
    pub offload_batch: u64,
    /// Only matrix products are run with weights in RAM.
    pub offloads_products_only: bool,
    /// Results of argsort and cumsum take twice their bytes, as scratch space.
    pub doubles_sorts: bool,
    /// Computes asynchronously and has events, both required for pipeline parallelism.
    pub pipelines: bool,
    /// An operation treated as unsupported; never one that writes to a cache, since caches do not move.
    pub lacks: Option<Op>,
}

impl BackendProps {
    /// A discrete CUDA card (`ggml-cuda.cu`, 0.1.161); ROCm is the same code.
    pub const CUDA: Self = Self {
        alignment: 128,
        row_multiple: Some(512),
        max_buffer: u64::MAX / 2,
        offload_batch: 32,
        offloads_products_only: false,
        doubles_sorts: false,
        pipelines: true,
        lacks: None,
    };

    /// Apple's GPUs (`ggml-metal.cpp`, 0.1.161). Temporary buffers of attention and expert products are not counted.
    pub const METAL: Self =
        Self { alignment: 32, row_multiple: None, offloads_products_only: true, doubles_sorts: true, ..Self::CUDA };

    /// Vulkan (`ggml-vulkan.cpp`, 0.1.161): each device reports its own alignment, 64 with most drivers; buffers are
    /// allocated in blocks of 1 GiB.
    pub const VULKAN: Self = Self { alignment: 64, row_multiple: None, max_buffer: 1 << 30, ..Self::CUDA };

    /// SYCL (`ggml-sycl.cpp`, 0.1.161). Temporary buffers of attention are not counted.
    pub const SYCL: Self = Self::CUDA;

    /// The same device in another computer, served by llama.cpp's `rpc-server` (`ggml-rpc.cpp`, 0.1.161): alignment,
    /// maximum buffer and padded sizes are queried from it, it is asynchronous and has events, and it never runs an
    /// operation whose weights are in RAM (no `offload_op`).
    #[must_use]
    pub fn remote(self) -> Self {
        Self { offload_batch: u64::MAX, ..self }
    }

    /// Main memory and the CPU (`TENSOR_ALIGNMENT` in `ggml-impl.h`, 0.1.161).
    pub const CPU: Self =
        Self { alignment: 32, row_multiple: None, offload_batch: u64::MAX, pipelines: false, ..Self::CUDA };

    /// The rules of a machine's GPU.
    pub const fn of(backend: machine::Backend) -> Self {
        match backend {
            machine::Backend::Cuda | machine::Backend::Rocm => Self::CUDA,
            machine::Backend::Metal => Self::METAL,
            machine::Backend::Vulkan => Self::VULKAN,
            machine::Backend::Sycl => Self::SYCL,
        }
    }

    /// Bytes that `tensor` takes here, before alignment.
    pub fn allocation(&self, tensor: &Tensor) -> u64 {
        let times = if self.doubles(tensor.op) { 2 } else { 1 };
        times * self.padded(tensor.bytes(), tensor.ty, tensor.ne[0])
    }

    /// Whether results of `op` take twice their bytes.
    pub const fn doubles(&self, op: Op) -> bool {
        self.doubles_sorts && matches!(op, Op::Argsort | Op::CumSum)
    }

    /// `bytes` of rows of `elements` elements, plus the padding of the last row.
    pub fn padded(&self, bytes: u64, ty: Type, elements: u64) -> u64 {
        match self.row_multiple {
            Some(multiple) if ty.block() > 1 && !elements.is_multiple_of(multiple) => {
                bytes + row(ty, multiple - elements % multiple)
            }
            _ => bytes,
        }
    }

    /// Rounds up to the alignment.
    pub const fn align(&self, bytes: u64) -> u64 {
        (bytes + self.alignment - 1) & !(self.alignment - 1)
    }

    /// Whether the device supports `op`.
    pub fn supports(&self, op: &Tensor) -> bool {
        self.lacks.is_none_or(|lacked| lacked != op.op)
    }

    /// Whether the device runs `op` although the weights are in RAM (ggml's `offload_op`).
    pub fn offloads(&self, op: &Tensor) -> bool {
        if self.offloads_products_only && !matches!(op.op, Op::MulMat | Op::MulMatId) {
            return false;
        }
        let batch = match op.op {
            Op::GetRows => 0,
            Op::MulMat => op.ne[1],
            Op::MulMatId | Op::Rope => op.ne[2],
            _ => op.rows(),
        };
        batch >= self.offload_batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(BackendProps::CUDA, 828, true)]
    #[case(BackendProps::SYCL, 828, true)]
    #[case(BackendProps::VULKAN, 720, true)]
    #[case(BackendProps::METAL, 720, false)]
    #[case(BackendProps::CPU, 720, false)]
    fn padding_and_offloaded_operations_depend_on_the_backend(
        #[case] backend: BackendProps,
        #[case] bytes: u64,
        #[case] takes_sums: bool,
    ) {
        let weight = Tensor::new(Type::Q4_0, [320, 4, 1, 1]);
        assert_eq!(backend.allocation(&weight), bytes);
        let of = |op| Tensor { op, ..Tensor::new(Type::F32, [64, 32, 32, 1]) };
        assert_eq!(backend.offloads(&of(Op::Add)), takes_sums);
        assert_eq!(backend.offloads(&of(Op::MulMat)), backend != BackendProps::CPU);
    }

    #[test]
    fn metal_doubles_the_bytes_of_sorted_results() {
        let order = Tensor { op: Op::Argsort, ..Tensor::new(Type::I32, [64, 8, 1, 1]) };
        assert_eq!(BackendProps::METAL.allocation(&order), 2 * BackendProps::CUDA.allocation(&order));
    }

    #[test]
    fn every_gpu_has_rules() {
        let all = machine::Backend::ALL.map(BackendProps::of);
        assert!(all.iter().all(|backend| backend.alignment.is_power_of_two() && backend.offload_batch == 32));
    }
}
