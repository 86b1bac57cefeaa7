//! Families of devices with one set of constants, and what is known of a card by its name.

use serde::Serialize;

use crate::machine::presets::{self, Preset};
use crate::machine::{Backend, Gpu};
use crate::named::named;
use crate::units::Bandwidth;

named! {
    /// A family of devices with one set of constants: a backend, and the units that multiply matrices.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Family {
        /// Compute capability 6 and below.
        Pascal = "CUDA, Pascal",
        /// Compute capability 7.0 and 7.2: matrix units for f16 only.
        Volta = "CUDA, Volta",
        /// Compute capability 7.5.
        Turing = "CUDA, Turing",
        /// Compute capability 8.6 and 8.7.
        Ampere = "CUDA, Ampere",
        /// Cards of data centres with HBM: compute capability 8.0 and 9.0.
        Hopper = "CUDA, A100 and H100",
        /// Compute capability 8.9.
        Ada = "CUDA, Ada",
        /// Compute capability 10 and above.
        Blackwell = "CUDA, Blackwell",
        /// The same in a system whose memory it shares.
        Gb10 = "CUDA, GB10",
        Metal = "Metal, M1 to M4",
        /// Apple's GPUs with matrix units.
        MetalMatrix = "Metal, M5",
        /// Apple's GPUs with MLX.
        Mlx = "MLX",
        VulkanGcn = "Vulkan, GCN and CDNA",
        VulkanRdna2 = "Vulkan, RDNA2",
        VulkanRdna3 = "Vulkan, RDNA3",
        /// Integrated GPUs.
        VulkanRdna35 = "Vulkan, RDNA3.5",
        VulkanRdna4 = "Vulkan, RDNA4",
        VulkanNvidia = "Vulkan, NVIDIA",
        VulkanIntel = "Vulkan, Intel",
        Sycl = "SYCL",
        Gcn = "ROCm, GCN and CDNA",
        Rdna2 = "ROCm, RDNA2",
        Rdna3 = "ROCm, RDNA3",
        /// Integrated GPUs.
        Rdna35 = "ROCm, RDNA3.5",
        Rdna4 = "ROCm, RDNA4",
        Cpu = "CPU",
    }
}

impl Family {
    /// The family of `gpu`, which is a card of this preset; none for a backend of which nothing is known.
    fn of(gpu: &Gpu, preset: &Preset) -> Option<Self> {
        Some(match (gpu.backend, preset.backend) {
            (Backend::Cuda, _) => match gpu.compute.or(preset.compute)? {
                (..=6, _) => Self::Pascal,
                (7, 0..=2) => Self::Volta,
                (7, _) => Self::Turing,
                (8, 0) | (9, _) => Self::Hopper,
                (8, 9) => Self::Ada,
                (8, _) => Self::Ampere,
                _ if preset.integrated => Self::Gb10,
                _ => Self::Blackwell,
            },
            (Backend::Metal, _) if preset.matrix => Self::MetalMatrix,
            (Backend::Metal, _) => Self::Metal,
            (Backend::Vulkan, Backend::Cuda) => Self::VulkanNvidia,
            (Backend::Vulkan, _) if preset.gfx.is_some() => match Radeon::of(preset)? {
                Radeon::Gcn => Self::VulkanGcn,
                Radeon::Rdna2 => Self::VulkanRdna2,
                Radeon::Rdna3 => Self::VulkanRdna3,
                Radeon::Rdna35 => Self::VulkanRdna35,
                Radeon::Rdna4 => Self::VulkanRdna4,
            },
            (Backend::Rocm, _) if preset.gfx.is_some() => match Radeon::of(preset)? {
                Radeon::Gcn => Self::Gcn,
                Radeon::Rdna2 => Self::Rdna2,
                Radeon::Rdna3 => Self::Rdna3,
                Radeon::Rdna35 => Self::Rdna35,
                Radeon::Rdna4 => Self::Rdna4,
            },
            (Backend::Vulkan, Backend::Vulkan | Backend::Sycl) => Self::VulkanIntel,
            (Backend::Sycl, Backend::Vulkan | Backend::Sycl) => Self::Sycl,
            _ => return None,
        })
    }

    /// Whether its backend is Vulkan.
    pub const fn is_vulkan(self) -> bool {
        matches!(
            self,
            Self::VulkanGcn
                | Self::VulkanRdna2
                | Self::VulkanRdna3
                | Self::VulkanRdna35
                | Self::VulkanRdna4
                | Self::VulkanNvidia
                | Self::VulkanIntel
        )
    }

    /// Whether its backend is Metal.
    pub const fn is_metal(self) -> bool {
        matches!(self, Self::Metal | Self::MetalMatrix)
    }

    /// Whether its backend is CUDA.
    pub const fn is_cuda(self) -> bool {
        matches!(
            self,
            Self::Pascal
                | Self::Volta
                | Self::Turing
                | Self::Ampere
                | Self::Hopper
                | Self::Ada
                | Self::Blackwell
                | Self::Gb10
        )
    }
}

/// AMD's generations.
enum Radeon {
    Gcn,
    Rdna2,
    Rdna3,
    Rdna35,
    Rdna4,
}

impl Radeon {
    /// By ROCm's name of the architecture.
    fn of(preset: &Preset) -> Option<Self> {
        Some(match preset.gfx?.strip_prefix("gfx")? {
            gfx if gfx.starts_with(['8', '9']) => Self::Gcn,
            // of RDNA1 nothing was measured apart
            gfx if gfx.starts_with("10") => Self::Rdna2,
            gfx if gfx.starts_with("115") => Self::Rdna35,
            gfx if gfx.starts_with("11") => Self::Rdna3,
            gfx if gfx.starts_with("12") => Self::Rdna4,
            _ => return None,
        })
    }
}

/// What the model of speed needs to know of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Its family.
    pub family: Family,
    /// The bandwidth of its memory.
    pub bandwidth: Bandwidth,
    /// Multiplications and additions of f16 matrices per second, without sparsity.
    pub flops: f64,
    /// How fast it is reached from RAM, and whether that is assumed; none where it shares RAM.
    pub link: Option<(Bandwidth, bool)>,
}

/// What is known of `gpu` by its name; none if nothing is, or if it is in another computer.
pub fn known(gpu: &Gpu) -> Option<Known> {
    if gpu.computer.is_some() {
        return None;
    }
    let preset = presets::of_gpu(&gpu.name, gpu.total)?;
    Some(Known {
        family: Family::of(gpu, preset)?,
        bandwidth: Bandwidth::gbps(preset.gbps),
        flops: preset.tflops * 1e12,
        link: (!gpu.integrated).then(|| match gpu.link {
            Some(link) => (link.bandwidth(), false),
            None => (preset.link().bandwidth(), true),
        }),
    })
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
            ("V100 16GB", Backend::Cuda, Some(Family::Volta)),
            ("T4", Backend::Cuda, Some(Family::Turing)),
            ("A100 80GB", Backend::Cuda, Some(Family::Hopper)),
            ("RTX 5090", Backend::Cuda, Some(Family::Blackwell)),
            ("DGX Spark", Backend::Cuda, Some(Family::Gb10)),
            ("RX 6800", Backend::Rocm, Some(Family::Rdna2)),
            ("RX 7900 XTX", Backend::Rocm, Some(Family::Rdna3)),
            ("Strix Halo 128GB", Backend::Rocm, Some(Family::Rdna35)),
            ("RX 9070", Backend::Vulkan, Some(Family::VulkanRdna4)),
            ("RX 7900 XTX", Backend::Cuda, None),
            ("MI210", Backend::Rocm, Some(Family::Gcn)),
            ("M4 Max 64GB", Backend::Metal, Some(Family::Metal)),
            ("M5 16GB", Backend::Metal, Some(Family::MetalMatrix)),
            ("RX 580 8GB", Backend::Vulkan, Some(Family::VulkanGcn)),
            ("RX 5700 XT", Backend::Vulkan, Some(Family::VulkanRdna2)),
            ("Radeon 890M 32GB", Backend::Vulkan, Some(Family::VulkanRdna35)),
            ("Arc B580", Backend::Sycl, Some(Family::Sycl)),
            ("RTX 4090", Backend::Plain, None),
        ] {
            let preset = presets::find(name).unwrap();
            let gpu = Gpu { backend, ..preset.gpu() };
            assert_eq!(known(&gpu).map(|known| known.family), family, "{name} {}", backend.name());
        }
        let card = presets::find("RTX 4090").unwrap().gpu();
        assert_eq!(known(&card).unwrap().bandwidth, Bandwidth::gbps(1008));
        assert_eq!(known(&Gpu { name: "a card".to_owned(), ..card.clone() }), None);
        assert_eq!(known(&Gpu { computer: Some("garage".into()), ..card }), None);
    }
}
