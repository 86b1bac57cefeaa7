//! What a device's buffers and operations are like.

use super::Type;
use super::tensor::{Op, Tensor, row};
use crate::machine;

/// A device as the scheduler and the allocator see it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendProps {
    /// Every allocation starts at a multiple of this many bytes, a power of two.
    pub alignment: u64,
    /// A quantised tensor whose rows are no multiple of this many elements is followed by what is missing to one.
    pub row_multiple: Option<u64>,
    /// The largest single buffer; larger needs are spread over several.
    pub max_buffer: u64,
    /// The smallest batch for which it takes over an operation whose weights are in RAM.
    pub offload_batch: u64,
    /// Of such operations it takes over matrix products alone.
    pub offloads_products_only: bool,
    /// Results of sorting and of running sums take twice their bytes: the rest is room to work in.
    pub sorts_aside: bool,
    /// It computes asynchronously and knows events, which pipeline parallelism needs.
    pub pipelines: bool,
    /// An operation that it is held not to know; not one that writes into a cache, for a cache cannot move.
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
        sorts_aside: false,
        pipelines: true,
        lacks: None,
    };

    /// Apple's GPUs (`ggml-metal.cpp`, 0.1.161). What attention and products with experts use besides is not counted.
    pub const METAL: Self =
        Self { alignment: 32, row_multiple: None, offloads_products_only: true, sorts_aside: true, ..Self::CUDA };

    /// Vulkan (`ggml-vulkan.cpp`, 0.1.161): a device says its own alignment, and 64 is what most cards' drivers say;
    /// buffers are made in blocks of 1 GiB.
    pub const VULKAN: Self = Self { alignment: 64, row_multiple: None, max_buffer: 1 << 30, ..Self::CUDA };

    /// SYCL (`ggml-sycl.cpp`, 0.1.161). What attention uses besides is not counted.
    pub const SYCL: Self = Self::CUDA;

    /// The same device in another computer, behind llama.cpp's `rpc-server` (`ggml-rpc.cpp`, 0.1.161): alignment, largest
    /// buffer and the sizes of padded tensors are asked of it, it computes asynchronously and knows events, and it never
    /// takes over an operation whose weights are in RAM (`offload_op` is absent).
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

    /// Whether results of `op` take their bytes twice.
    pub const fn doubles(&self, op: Op) -> bool {
        self.sorts_aside && matches!(op, Op::Argsort | Op::CumSum)
    }

    /// `bytes` of rows of so many elements, and what follows the last of them.
    pub fn padded(&self, bytes: u64, ty: Type, elements: u64) -> u64 {
        match self.row_multiple {
            Some(multiple) if ty.block() > 1 && !elements.is_multiple_of(multiple) => {
                bytes + row(ty, multiple - elements % multiple)
            }
            _ => bytes,
        }
    }

    /// The next multiple of the alignment, which is a power of two.
    pub const fn align(&self, bytes: u64) -> u64 {
        (bytes + self.alignment - 1) & !(self.alignment - 1)
    }

    /// Whether it can do `op`.
    pub fn supports(&self, op: &Tensor) -> bool {
        self.lacks.is_none_or(|lacked| lacked != op.op)
    }

    /// Whether it takes over `op` although the weights are in RAM.
    pub fn wants(&self, op: &Tensor) -> bool {
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
    fn backends_pad_rows_and_take_over_work_each_in_its_own_way(
        #[case] backend: BackendProps,
        #[case] bytes: u64,
        #[case] takes_sums: bool,
    ) {
        let weight = Tensor::new(Type::Q4_0, [320, 4, 1, 1]);
        assert_eq!(backend.allocation(&weight), bytes);
        let of = |op| Tensor { op, ..Tensor::new(Type::F32, [64, 32, 32, 1]) };
        assert_eq!(backend.wants(&of(Op::Add)), takes_sums);
        assert_eq!(backend.wants(&of(Op::MulMat)), backend != BackendProps::CPU);
    }

    #[test]
    fn metal_sorts_aside() {
        let order = Tensor { op: Op::Argsort, ..Tensor::new(Type::I32, [64, 8, 1, 1]) };
        assert_eq!(BackendProps::METAL.allocation(&order), 2 * BackendProps::CUDA.allocation(&order));
    }

    #[test]
    fn every_gpu_has_rules() {
        let all = machine::Backend::ALL.map(BackendProps::of);
        assert!(all.iter().all(|backend| backend.alignment.is_power_of_two() && backend.offload_batch == 32));
    }
}
