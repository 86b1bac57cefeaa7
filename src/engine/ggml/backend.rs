//! What a device's buffers and operations are like.

use super::tensor::{Op, Tensor, row};

/// A device as the scheduler and the allocator see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Every allocation starts at a multiple of this many bytes.
    pub alignment: u64,
    /// A quantised tensor whose rows are no multiple of this many elements is followed by what is missing to one.
    pub row_multiple: Option<u64>,
    /// The largest single buffer; larger needs are spread over several.
    pub max_buffer: u64,
    /// The smallest batch for which it takes over an operation whose weights are in RAM.
    pub offload_batch: u64,
    /// It computes asynchronously and knows events, which pipeline parallelism needs.
    pub pipelines: bool,
}

impl Backend {
    /// A discrete CUDA card (`ggml-cuda.cu`, 0.1.161); ROCm is the same code.
    pub const CUDA: Self =
        Self { alignment: 128, row_multiple: Some(512), max_buffer: u64::MAX / 2, offload_batch: 32, pipelines: true };

    /// Main memory and the CPU (`TENSOR_ALIGNMENT` in `ggml-impl.h`, 0.1.161).
    pub const CPU: Self =
        Self { alignment: 32, row_multiple: None, max_buffer: u64::MAX / 2, offload_batch: u64::MAX, pipelines: false };

    /// Bytes that `tensor` takes here, before alignment.
    pub fn allocation(&self, tensor: &Tensor) -> u64 {
        let bytes = tensor.bytes();
        match self.row_multiple {
            Some(multiple) if tensor.ty.block() > 1 && !tensor.ne[0].is_multiple_of(multiple) => {
                bytes + row(tensor.ty, multiple - tensor.ne[0] % multiple)
            }
            _ => bytes,
        }
    }

    /// The next multiple of the alignment.
    pub fn align(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.alignment)
    }

    /// Whether it takes over `op` although the weights are in RAM.
    pub fn wants(&self, op: &Tensor) -> bool {
        let batch = match op.op {
            Op::GetRows => 0,
            Op::MulMat => op.ne[1],
            Op::MulMatId | Op::Rope => op.ne[2],
            _ => op.rows(),
        };
        batch >= self.offload_batch
    }
}
