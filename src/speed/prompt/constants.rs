//! The constants in the time of a prompt, fitted on measurements by `tests/speeds/prompts.rs`, and the widths of its
//! ranges.

use crate::speed::family::Family;
use crate::speed::range::Class;

/// The share of the stated bandwidth at which an ubatch reads weights, where arithmetic does not take longer.
pub const READ: f64 = 0.75;

/// Everything that is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromptConstants {
    /// In the order of [`Family::ALL`].
    pub families: [FamilyPrompts; Family::ALL.len()],
    /// The share of its link that copies by Vulkan reach; others reach all of what [`crate::machine::Link`] says.
    pub vulkan_copies: f64,
}

/// What is fitted for one family of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyPrompts {
    /// The share of the throughput at which dense weights are multiplied.
    pub dense: f64,
    /// The same for experts that have many tokens each.
    pub experts: f64,
    /// Tokens per expert with which half of that is reached.
    pub half: f64,
    /// The share of the throughput that attention reaches.
    pub attention: f64,
    /// Seconds per layer and ubatch besides.
    pub layer: f64,
}

impl PromptConstants {
    /// Those of a family.
    pub const fn of(&self, family: Family) -> &FamilyPrompts {
        &self.families[family as usize]
    }

    /// The share of a link that copies reach.
    pub const fn copies(&self, family: Family) -> f64 {
        if family.is_vulkan() { self.vulkan_copies } else { 1.0 }
    }
}

/// `dense`, `experts` and `attention` as shares, `half` in tokens, `layer` in microseconds.
const fn row(dense: f64, experts: f64, half: f64, attention: f64, layer: f64) -> FamilyPrompts {
    FamilyPrompts { dense, experts, half, attention, layer: layer * 1e-6 }
}

/// The fitted constants.
#[rustfmt::skip]
pub const FITTED: PromptConstants = PromptConstants {
    families: [
        row(0.550, 0.220, 50.0, 0.150, 400.0), // CUDA, Pascal
        row(0.285, 0.210, 112.0, 0.250, 815.5), // CUDA, Volta
        row(0.285, 0.210, 112.0, 0.250, 815.5), // CUDA, Turing
        row(0.440, 0.583, 127.0, 0.359, 232.2), // CUDA, Ampere
        row(0.414, 0.160, 70.0, 0.340, 140.7), // CUDA, A100 and H100
        row(0.440, 0.583, 127.0, 0.359, 232.2), // CUDA, Ada
        row(0.440, 0.583, 127.0, 0.359, 232.2), // CUDA, Blackwell
        row(0.290, 0.250, 76.0, 0.250, 1960.0), // CUDA, GB10
        row(0.700, 0.347, 0.9, 0.348, 917.1), // Metal, M1 to M4
        row(0.404, 0.204, 1.0, 0.157, 941.0), // Metal, M5
        row(1.0, 1.0, 1.0, 1.0, 0.0), // MLX: none is used
        row(0.230, 0.286, 36.0, 0.098, 258.9), // Vulkan, GCN and CDNA
        row(0.230, 0.286, 36.0, 0.098, 258.9), // Vulkan, RDNA2
        row(0.230, 0.286, 36.0, 0.098, 258.9), // Vulkan, RDNA3
        row(0.308, 0.263, 91.8, 0.119, 706.1), // Vulkan, RDNA3.5
        row(0.357, 0.290, 45.9, 0.045, 2753.0), // Vulkan, RDNA4
        row(0.460, 0.310, 96.5, 0.418, 224.3), // Vulkan, NVIDIA
        row(0.230, 0.140, 198.0, 0.018, 875.0), // Vulkan, Intel
        row(0.230, 0.140, 198.0, 0.018, 875.0), // SYCL
        row(0.380, 0.220, 50.0, 0.150, 400.0), // ROCm, GCN and CDNA
        row(0.410, 0.120, 1.6, 0.233, 1.0), // ROCm, RDNA2
        row(0.410, 0.120, 1.6, 0.233, 1.0), // ROCm, RDNA3
        row(0.421, 0.224, 27.8, 0.103, 4129.4), // ROCm, RDNA3.5
        row(0.353, 0.074, 39.8, 0.062, 1220.8), // ROCm, RDNA4
        row(1.0, 1.0, 1.0, 1.0, 0.0), // CPU: none is used
    ],
    vulkan_copies: 0.45,
};

/// Measured over modelled, of what cards do and of what is copied to them: between these are [`crate::speed::range::SHOWN`] of the measurements that a fit had not seen.
pub const fn spread(class: Class) -> (f64, f64) {
    match class {
        Class::Cuda => (0.68, 1.41),
        Class::Metal => (0.50, 1.32),
        Class::Vulkan => (0.45, 1.64),
        Class::Rocm => (0.46, 1.76),
        Class::SeveralGpus => (0.41, 1.20),
        // what is copied over a link, which is stated or assumed
        Class::Ram => (0.66, 1.00),
        Class::RamAssumed => (0.26, 1.42),
        // a CPU alone and MLX have no figure
        Class::Cpu | Class::Mlx => (0.0, 1.0),
    }
}
