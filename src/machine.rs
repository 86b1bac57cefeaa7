//! A machine as plain values: GPUs in order, RAM, and how they came to be known.

pub mod apple;
pub mod described;
pub mod file;
pub mod joined;
pub mod presets;
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
#[allow(missing_docs)]
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
#[allow(missing_docs)]
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
            .ok_or_else(|| format!("'{text}' is not a backend: write CUDA, ROCm, Metal, Vulkan or SYCL"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metal_means_macos_and_cuda_never_does() {
        let gpu = |backend| Gpu {
            name: "a GPU".to_owned(),
            backend,
            total: Bytes::gib(8),
            free: Bytes::gib(8),
            integrated: false,
            compute: None,
            driver_major: None,
            computer: None,
        };
        assert_eq!(Os::for_gpus(&[gpu(Backend::Cuda), gpu(Backend::Metal)]), Os::MacOs);
        assert_ne!(Os::for_gpus(&[gpu(Backend::Cuda)]), Os::MacOs);
        assert_eq!(Os::for_gpus(&[]), Os::here());
    }
}
