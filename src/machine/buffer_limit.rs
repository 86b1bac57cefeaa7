//! The largest single buffer that a GPU's driver allows.

use std::fmt;

use serde::Serialize;

use super::vulkan::VulkanLimits;
use super::{Backend, Gpu, Os};
use crate::units::Bytes;

/// Level Zero's limit unless a program asks for relaxed ones, as llama.cpp does where it was built with Level Zero
/// (`ggml-sycl/common.cpp`, 0.1.161).
const LEVEL_ZERO: Bytes = Bytes::gib(4);

/// What a driver allows for one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BufferLimit {
    /// Its size at most.
    pub bytes: Bytes,
    /// Whose limit it is.
    pub of: &'static str,
}

impl BufferLimit {
    /// The limit for `gpu` on `os`; none where none is known. CUDA and ROCm have none; Metal divides what is larger than
    /// its own, which its log does not tell.
    pub fn of(gpu: &Gpu, os: Os) -> Option<Self> {
        match gpu.backend {
            Backend::Vulkan => {
                let (limits, of, is_guess) = VulkanLimits::of(gpu, os);
                (!is_guess).then_some(Self { bytes: Bytes(limits.max_buffer), of })
            }
            Backend::Sycl => Some(Self { bytes: LEVEL_ZERO, of: "Level Zero without relaxed limits" }),
            Backend::Cuda | Backend::Rocm | Backend::Metal | Backend::Plain => None,
        }
    }
}

/// `the driver allows 4.0 GiB (Mesa's drivers)`
impl fmt::Display for BufferLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver allows {} ({})", self.bytes, self.of)
    }
}
