//! Cards and systems by name, from `assets/gpus.toml`: `RTX 4090`, `4090`, `a100-80gb`, `M4 Max 64GB`.

mod names;

use std::sync::LazyLock;

use serde::Deserialize;

use super::driver_memory::DriverRow;
use super::{Backend, Gpu, Listed, Ram, apple};
use crate::units::Bytes;

pub use names::{find, matching, nearest, of_gpu};

/// Share of a system's main memory that is free before a model is loaded. Assumed, not measured.
pub const FREE_RAM: f64 = 0.85;

/// Share of the memory of a GPU that is free before a model is loaded, if no preset says it: that of most presets.
/// Assumed, not measured.
pub const FREE_VRAM: f64 = 0.95;

/// A known GPU or system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// `RTX 4090`
    pub name: String,
    /// Other names of the same machine.
    #[serde(default)]
    pub also: Vec<String>,
    /// Total memory in MiB, as the driver reports it; none for Macs, where it follows from main memory.
    #[serde(default)]
    mib: Option<u64>,
    /// Main memory of a system, in MiB.
    #[serde(default)]
    ram: Option<u64>,
    /// Share of its memory that is free before a model is loaded. Assumed, not measured.
    pub free: f64,
    /// The ggml backend that runs on it.
    pub backend: Backend,
    /// CUDA's compute capability (major, minor).
    #[serde(default)]
    pub compute: Option<(u32, u32)>,
    /// Memory bandwidth in GB/s (10^9 bytes a second), from the vendor.
    pub gbps: u32,
    /// Whether it shares its memory with the CPU.
    #[serde(default)]
    pub integrated: bool,
    /// Memory in MiB that the system set aside for an integrated GPU; the rest of its memory is RAM.
    #[serde(default)]
    dedicated: Option<u64>,
}

impl Preset {
    /// Total memory of the GPU.
    pub fn total(&self) -> Bytes {
        let of_apple = || self.ram.map_or(Bytes::ZERO, |ram| apple::working_set(Bytes::mib(ram)));
        self.mib.map_or_else(of_apple, Bytes::mib)
    }

    /// The GPU, with the assumed free memory.
    pub fn gpu(&self) -> Gpu {
        let total = self.total();
        Gpu {
            name: self.name.clone(),
            backend: self.backend,
            total,
            free: share(total, self.free),
            integrated: self.integrated,
            dedicated: self.dedicated.map(Bytes::mib),
            compute: self.compute,
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: Listed::default(),
            driver_memory: None,
        }
    }

    /// The main memory of a system, with the assumed free memory, at least what its GPU is assumed to have free of it;
    /// none for a card.
    pub fn ram(&self) -> Option<Ram> {
        let total = Bytes::mib(self.ram?);
        let lent = self.gpu().free - self.dedicated.map_or(Bytes::ZERO, Bytes::mib);
        let free = share(total, FREE_RAM).max(lent.min(total));
        Some(Ram { total, free, swap_free: Bytes::ZERO, bandwidth: None })
    }

    /// Another preset of the same machine, which divides its memory otherwise.
    pub fn divided_otherwise(&self) -> Option<&'static Self> {
        let size = |preset: &Self| preset.name.strip_suffix(" GTT").unwrap_or(&preset.name).to_owned();
        all().iter().find(|other| other.name != self.name && size(other) == size(self))
    }
}

/// A share of `total`.
pub(super) fn share(total: Bytes, share: f64) -> Bytes {
    Bytes(((total.0 as f64 * share) as u64).min(total.0))
}

#[derive(Deserialize)]
struct Asset {
    cards: Vec<Preset>,
    drivers: Vec<DriverRow>,
}

/// What drivers take besides buffers, in the order of `assets/gpus.toml`.
pub(super) fn drivers() -> &'static [DriverRow] {
    &asset().drivers
}

/// Every preset, in the order of `assets/gpus.toml`.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
pub fn all() -> &'static [Preset] {
    &asset().cards
}

#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
fn asset() -> &'static Asset {
    static ASSET: LazyLock<Asset> = LazyLock::new(|| {
        toml::from_str(include_str!("../../assets/gpus.toml")).expect("assets/gpus.toml is well formed")
    });
    &ASSET
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_plausible_and_found_by_name() {
        assert!(all().len() >= 80);
        for preset in all() {
            let gpu = preset.gpu();
            assert!(gpu.free <= gpu.total && gpu.free.0 * 10 >= gpu.total.0 * 9 - 10, "{}", preset.name);
            assert!(gpu.total >= Bytes::gib(4) && gpu.total <= Bytes::gib(512), "{}", preset.name);
            assert_eq!(gpu.compute.is_some(), gpu.backend == Backend::Cuda, "{}", preset.name);
            assert_eq!(gpu.integrated, preset.ram().is_some(), "{}", preset.name);
            assert!(gpu.dedicated.is_none_or(|bytes| gpu.integrated && bytes <= gpu.total), "{}", preset.name);
            assert_eq!(preset.mib.is_none(), gpu.backend == Backend::Metal, "{}", preset.name);
            assert!((60..=8000).contains(&preset.gbps), "{}", preset.name);
            assert_eq!(find(&preset.name), Some(preset), "{} has a double", preset.name);
        }
    }

    #[test]
    fn a_system_has_main_memory() {
        let system = find("M4 Max 64GB").unwrap();
        assert_eq!((system.total(), system.gpu().free), (Bytes::gib(48), Bytes::gib(48)));
        assert_eq!(system.ram().unwrap().total, Bytes::gib(64));
        assert_eq!(find("RTX 4090").unwrap().ram(), None);
    }
}
