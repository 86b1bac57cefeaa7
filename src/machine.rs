//! A machine as plain values: GPUs in order, RAM, and how they came to be known.

pub mod apple;
pub mod file;
pub mod presets;
pub mod rpc;
pub mod spec;
pub mod what_if;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What an engine needs to know of a computer.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The operating system: some engine rules depend on it.
    pub os: Os,
    /// GPUs in the order in which the driver, or the person, names them; those of other computers last.
    pub gpus: Vec<Gpu>,
    /// Main memory.
    pub ram: Ram,
    /// Whether this machine is the one in front of us or a described one.
    pub origin: Origin,
}

impl Machine {
    /// Whether `other` is the same but for a hundredth of a device's memory that is free on one and taken on the other: no
    /// list of models would look much different.
    pub fn is_nearly(&self, other: &Self) -> bool {
        let near = |a: Bytes, b: Bytes, total: Bytes| a.0.abs_diff(b.0) <= total.0 / 100;
        let mut like = self.clone();
        for (gpu, other) in like.gpus.iter_mut().zip(&other.gpus) {
            if near(gpu.free, other.free, gpu.total) {
                gpu.free = other.free;
            }
        }
        let (ram, theirs) = (&mut like.ram, &other.ram);
        if near(ram.free, theirs.free, ram.total) && near(ram.swap_free, theirs.swap_free, ram.total) {
            (ram.free, ram.swap_free) = (theirs.free, theirs.swap_free);
        }
        like == *other
    }
}

/// `RTX 4090, 2 × RTX 3090, 64.0 GiB of RAM`
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<(usize, &str)> = Vec::new();
        for gpu in &self.gpus {
            match parts.last_mut() {
                Some((count, name)) if *name == gpu.name => *count += 1,
                _ => parts.push((1, &gpu.name)),
            }
        }
        if parts.is_empty() {
            f.write_str("no GPU, ")?;
        }
        for (count, name) in parts {
            match count {
                1 => write!(f, "{name}, ")?,
                _ => write!(f, "{count} × {name}, ")?,
            }
        }
        write!(f, "{} of RAM", self.ram.total)
    }
}

/// Where the facts of a machine come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Origin {
    /// Asked of drivers and the operating system.
    #[serde(rename = "detected")]
    Detected,
    /// Described by a person, at least in part, or read from a file: it is not the one in front of us.
    #[serde(rename = "simulated")]
    Described,
}

impl Origin {
    /// As it is written in JSON and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detected => "detected",
            Self::Described => "simulated",
        }
    }
}

/// Operating systems that engines tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Os {
    Linux,
    MacOs,
    Windows,
}

impl Os {
    /// The one that this program was built for.
    pub const fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }

    /// The one that a described machine with `gpus` runs: macOS where there is Metal, else this program's own,
    /// or Linux where that is macOS and some GPU is none of Apple's.
    pub fn for_gpus(gpus: &[Gpu]) -> Self {
        if gpus.iter().any(|gpu| gpu.backend == Backend::Metal) {
            Self::MacOs
        } else if gpus.is_empty() || Self::here() != Self::MacOs {
            Self::here()
        } else {
            Self::Linux
        }
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// What people call it: `RTX 3090`.
    pub name: String,
    /// The library that computes on it.
    pub backend: Backend,
    /// All of its memory.
    pub total: Bytes,
    /// What of it is free at present; never above `total`.
    pub free: Bytes,
    /// It shares its memory with the CPU.
    pub integrated: bool,
    /// CUDA's compute capability (major, minor), where known.
    pub compute: Option<(u32, u32)>,
    /// CUDA driver's major version, where known.
    pub driver_major: Option<u32>,
    /// The computer that it is in, where that is another one which joined; none for the machine's own.
    pub computer: Option<Arc<str>>,
}

/// GPU or CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum DeviceKind {
    Gpu,
    Cpu,
}

/// Main memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ram {
    /// All of it, or the limit that a container sets.
    pub total: Bytes,
    /// What could be used now without swapping.
    pub free: Bytes,
    /// Free swap space.
    pub swap_free: Bytes,
}

/// The library behind a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Backend {
    #[serde(rename = "CUDA")]
    Cuda,
    #[serde(rename = "ROCm")]
    Rocm,
    Metal,
    Vulkan,
    #[serde(rename = "SYCL")]
    Sycl,
}

impl Backend {
    /// Every backend, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Cuda, Self::Rocm, Self::Metal, Self::Vulkan, Self::Sycl];

    /// Its own spelling of its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Rocm => "ROCm",
            Self::Metal => "Metal",
            Self::Vulkan => "Vulkan",
            Self::Sycl => "SYCL",
        }
    }
}

impl std::str::FromStr for Backend {
    type Err = String;

    /// Reads a name in any letter case.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|backend| backend.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| format!("'{text}' is not a backend: use CUDA, ROCm, Metal, Vulkan or SYCL"))
    }
}

/// A GPU's name without its maker's: `RTX 4090`.
pub fn short_name(name: &str) -> &str {
    let makers = ["NVIDIA GeForce ", "NVIDIA ", "AMD Radeon "];
    makers.iter().find_map(|maker| name.strip_prefix(maker)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(backend: Backend) -> Gpu {
        Gpu {
            name: "a GPU".to_owned(),
            backend,
            total: Bytes::gib(8),
            free: Bytes::gib(8),
            integrated: false,
            compute: None,
            driver_major: None,
            computer: None,
        }
    }

    #[test]
    fn a_little_memory_makes_no_other_machine_and_much_or_another_gpu_does() {
        let gpu = |free| Gpu { free: Bytes::mib(free), ..card(Backend::Cuda) };
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(32), swap_free: Bytes::ZERO };
        let with = |gpus: Vec<Gpu>| Machine { os: Os::Linux, gpus, ram, origin: Origin::Detected };
        let now = with(vec![gpu(4000), gpu(5000)]);
        assert!(now.is_nearly(&with(vec![gpu(4050), gpu(4950)])));
        assert!(!now.is_nearly(&with(vec![gpu(4100), gpu(5000)])));
        assert!(!now.is_nearly(&with(vec![gpu(4000)])) && !with(vec![gpu(4000)]).is_nearly(&now));
        let swapping = Ram { swap_free: Bytes::gib(1), ..ram };
        assert!(!now.is_nearly(&Machine { ram: swapping, ..now.clone() }));
        assert!(now.is_nearly(&Machine { ram: Ram { free: Bytes::mib(32_500), ..ram }, ..now.clone() }));
    }

    #[test]
    fn metal_means_macos_and_cuda_never_does() {
        assert_eq!(Os::for_gpus(&[card(Backend::Cuda), card(Backend::Metal)]), Os::MacOs);
        assert_ne!(Os::for_gpus(&[card(Backend::Cuda)]), Os::MacOs);
        assert_eq!(Os::for_gpus(&[]), Os::here());
    }
}
