//! Main memory and the CPU.

use super::Backend;

/// Main memory and the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// That of the buffers used: the host buffers of the first GPU that has some, else the CPU's own.
    pub alignment: u64,
    /// Maximum size of one of these buffers.
    pub max_buffer: u64,
}

impl Default for Cpu {
    /// `TENSOR_ALIGNMENT` in `ggml-impl.h`, 0.1.161.
    fn default() -> Self {
        Self { alignment: 32, max_buffer: u64::MAX / 2 }
    }
}

impl Backend for Cpu {
    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn has_host_buffers(&self) -> bool {
        false
    }

    fn max_buffer(&self) -> u64 {
        self.max_buffer
    }

    fn offload_batch(&self) -> Option<u64> {
        None
    }

    fn pipelines(&self) -> bool {
        false
    }
}
