//! GPUs and CPUs that behave alike: one backend and, for CUDA, one generation.

use serde::Serialize;

use crate::machine::presets::{self, Preset};
use crate::machine::{Backend, Gpu};
use crate::units::Bandwidth;

/// A family of devices with one set of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Family {
    /// Compute capability 6 and below.
    Pascal,
    /// Volta and Turing: compute capability 7.
    Turing,
    /// Compute capability 8.6 and 8.7.
    Ampere,
    /// Cards of data centres with HBM: compute capability 8.0 and 9.0.
    Hopper,
    /// Compute capability 8.9.
    Ada,
    /// Compute capability 10 and above.
    Blackwell,
    Metal,
    VulkanAmd,
    VulkanNvidia,
    /// Vulkan and SYCL on Intel's cards.
    Intel,
    Rdna,
    Cdna,
    Cpu,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 13] = [
        Self::Pascal,
        Self::Turing,
        Self::Ampere,
        Self::Hopper,
        Self::Ada,
        Self::Blackwell,
        Self::Metal,
        Self::VulkanAmd,
        Self::VulkanNvidia,
        Self::Intel,
        Self::Rdna,
        Self::Cdna,
        Self::Cpu,
    ];

    /// For the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pascal => "CUDA, Pascal",
            Self::Turing => "CUDA, Volta and Turing",
            Self::Ampere => "CUDA, Ampere",
            Self::Hopper => "CUDA, A100 and H100",
            Self::Ada => "CUDA, Ada",
            Self::Blackwell => "CUDA, Blackwell",
            Self::Metal => "Metal",
            Self::VulkanAmd => "Vulkan, AMD",
            Self::VulkanNvidia => "Vulkan, NVIDIA",
            Self::Intel => "Intel",
            Self::Rdna => "ROCm, RDNA",
            Self::Cdna => "ROCm, CDNA",
            Self::Cpu => "CPU",
        }
    }

    /// The family of `gpu`, which is a card of this preset; none for a backend of which nothing is known.
    fn of(gpu: &Gpu, preset: &Preset) -> Option<Self> {
        Some(match (gpu.backend, preset.backend) {
            (Backend::Cuda, _) => match gpu.compute.or(preset.compute)? {
                (..=6, _) => Self::Pascal,
                (7, _) => Self::Turing,
                (8, 0) | (9, _) => Self::Hopper,
                (8, 9) => Self::Ada,
                (8, _) => Self::Ampere,
                _ => Self::Blackwell,
            },
            (Backend::Metal, _) => Self::Metal,
            (Backend::Vulkan, Backend::Cuda) => Self::VulkanNvidia,
            (Backend::Vulkan, Backend::Rocm) => Self::VulkanAmd,
            (Backend::Vulkan | Backend::Sycl, Backend::Vulkan | Backend::Sycl) => Self::Intel,
            (Backend::Rocm, Backend::Rocm) if preset.name.starts_with("MI") => Self::Cdna,
            (Backend::Rocm, Backend::Rocm) => Self::Rdna,
            _ => return None,
        })
    }
}

/// The family and the memory bandwidth of `gpu`, by its name; none if it is not known, or in another computer.
pub fn known(gpu: &Gpu) -> Option<(Family, Bandwidth)> {
    if gpu.computer.is_some() {
        return None;
    }
    let preset = presets::of_gpu(&gpu.name, gpu.total)?;
    Some((Family::of(gpu, preset)?, Bandwidth::gbps(preset.gbps)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_of_the_family_of_their_backend_and_generation() {
        for (name, backend, family) in [
            ("RTX 4090", Backend::Cuda, Some(Family::Ada)),
            ("RTX 4090", Backend::Vulkan, Some(Family::VulkanNvidia)),
            ("RTX 3090", Backend::Cuda, Some(Family::Ampere)),
            ("GTX 1070", Backend::Cuda, Some(Family::Pascal)),
            ("A100 80GB", Backend::Cuda, Some(Family::Hopper)),
            ("DGX Spark", Backend::Cuda, Some(Family::Blackwell)),
            ("RX 7900 XTX", Backend::Rocm, Some(Family::Rdna)),
            ("RX 7900 XTX", Backend::Vulkan, Some(Family::VulkanAmd)),
            ("RX 7900 XTX", Backend::Cuda, None),
            ("MI210", Backend::Rocm, Some(Family::Cdna)),
            ("M4 Max 64GB", Backend::Metal, Some(Family::Metal)),
            ("Arc B580", Backend::Sycl, Some(Family::Intel)),
            ("RTX 4090", Backend::Plain, None),
        ] {
            let preset = presets::find(name).unwrap();
            let gpu = Gpu { backend, ..preset.gpu() };
            assert_eq!(known(&gpu).map(|(family, _)| family), family, "{name} {}", backend.name());
        }
        let card = presets::find("RTX 4090").unwrap().gpu();
        assert_eq!(known(&card), Some((Family::Ada, Bandwidth::gbps(1008))));
        assert_eq!(known(&Gpu { name: "a card".to_owned(), ..card.clone() }), None);
        assert_eq!(known(&Gpu { computer: Some("garage".into()), ..card }), None);
    }
}
