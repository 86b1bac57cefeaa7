//! The devices of llama.cpp: which of a machine's GPUs it uses, and what their backends decide.

use std::sync::Arc;

use super::release::ReleaseTraits;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::cuda::MatrixUnits;
use crate::engine::ggml::backend::{Cuda, Metal, Plain, Remote, Sycl, Vulkan};
use crate::machine::budget::VulkanLimits;
use crate::machine::{Backend, Gpu, Machine, Os};

/// A GPU as needed by llama.cpp's arithmetic.
#[derive(Clone, Debug)]
pub struct Device {
    /// Properties of its buffers and operations.
    pub backend: BackendRef,
    /// Free bytes.
    pub free: u64,
}

/// The devices' backends, the CPU last. RAM is allocated in the host buffers of the first GPU if that has some.
pub fn backends(devices: &[Device]) -> Vec<BackendRef> {
    let cpu = devices.first().and_then(|device| device.backend.host()).unwrap_or_default();
    let gpus = devices.iter().map(|device| Arc::clone(&device.backend));
    gpus.chain([Arc::new(cpu) as BackendRef]).collect()
}

/// What llama.cpp's backend for `gpu` decides in this release.
pub fn backend(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> BackendRef {
    let cuda = |units| Cuda { units, rules: release.cuda, events: true };
    let own: BackendRef = match gpu.backend {
        Backend::Cuda => Arc::new(cuda(MatrixUnits::of(gpu.compute))),
        Backend::Rocm => Arc::new(cuda(MatrixUnits::None)),
        Backend::Metal => Arc::new(Metal { rules: release.metal }),
        Backend::Vulkan => Arc::new(vulkan(gpu, os, release)),
        Backend::Sycl => Arc::new(Sycl),
        Backend::Plain => Arc::new(Plain),
    };
    if gpu.computer.is_some() { Arc::new(Remote(own)) } else { own }
}

fn vulkan(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> Vulkan {
    let (VulkanLimits { align, host_align, max_tensor, max_buffer }, ..) = VulkanLimits::of(gpu, os);
    Vulkan { alignment: align, host_alignment: host_align, max_tensor, max_buffer, rules: release.vulkan }
}

/// The machine's GPUs in the order in which they get layers: those of other computers first, then the local ones,
/// integrated ones only if there are no others (`llama_prepare_model_devices` in `llama.cpp`, 0.1.161).
pub fn gpus(machine: &Machine) -> Vec<usize> {
    let of = |wanted: &dyn Fn(&Gpu) -> bool| -> Vec<usize> {
        let list = machine.gpus.iter().enumerate();
        list.filter(|(_, gpu)| wanted(gpu)).map(|(at, _)| at).collect()
    };
    let remote = of(&|gpu| gpu.computer.is_some());
    let discrete = of(&|gpu| gpu.computer.is_none() && !gpu.integrated);
    let local = if discrete.is_empty() { of(&|gpu| gpu.computer.is_none()) } else { discrete };
    [remote, local].concat()
}
