//! A machine as plain values: operating system, GPUs in order, RAM.
//!
//! ```
//! use plimsoll::machine::Machine;
//! use plimsoll::units::Bytes;
//!
//! let machine = Machine::described(&["RTX 4090", "12GiB"], "64GiB")?;
//! assert_eq!(machine.gpus.len(), 2);
//! assert_eq!((machine.gpus[1].total, machine.ram.total), (Bytes::gib(12), Bytes::gib(64)));
//! # Ok::<(), String>(())
//! ```

pub mod budget;
pub mod drivers;
pub mod file;
pub mod link;
pub mod presets;
pub mod rpc;
pub mod spec;
pub mod visible;
pub mod what_if;
mod written;

use std::sync::Arc;

pub use budget::BufferLimit;
pub use drivers::Drivers;
pub use drivers::{Cpu, CpuInstructions};
pub use link::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use spec::Listed;

use crate::named::named;
use crate::units::{Bandwidth, Bytes};

/// The most GPUs that a machine has: what places on them is a byte, the CPU has the place behind them, and one byte means
/// no place.
pub const MAX_GPUS: usize = 254;

/// Checks a number of GPUs, at every door through which they come.
///
/// # Errors
/// If there are more than [`MAX_GPUS`]: one sentence.
pub(crate) fn check_count(gpus: usize) -> Result<(), String> {
    if gpus > MAX_GPUS {
        return Err(format!("a machine has at most {MAX_GPUS} GPUs, and these are {gpus}: leave some out"));
    }
    Ok(())
}

/// What an engine needs to know of a computer. It is planned for with at most [`MAX_GPUS`] GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The operating system: some engine rules depend on it.
    pub os: Os,
    /// Its CPU.
    pub cpu: Cpu,
    /// GPUs in the order of the driver or of the description; those of other computers last.
    pub gpus: Vec<Gpu>,
    /// Main memory.
    pub ram: Ram,
    /// How fast the disk with the model's file is read, if it was stated.
    pub disk: Option<Bandwidth>,
    /// Whether it was detected or described.
    pub origin: Origin,
    /// Versions of the drivers, where known.
    pub drivers: Drivers,
}

impl Machine {
    /// What of the memory of `gpu`, one of this machine's, is not RAM: all of a card's and of another computer's, and
    /// what the system set aside for an integrated GPU. Where that is not known, it is all of a GPU that has more
    /// memory than RAM could lend.
    pub fn own_memory(&self, gpu: &Gpu) -> Bytes {
        if !gpu.integrated || gpu.computer.is_some() {
            return gpu.total;
        }
        let sets_aside = !matches!(gpu.backend, Backend::Cuda | Backend::Metal);
        let set_aside = if sets_aside && gpu.total > self.ram.total { gpu.total } else { Bytes::ZERO };
        gpu.dedicated.unwrap_or(set_aside)
    }

    /// Whether `other` differs by at most 1 % of each device's memory in what is free.
    pub fn is_nearly(&self, other: &Self) -> bool {
        self.is_within(1, other)
    }

    /// Whether `other` differs by at most `percent` of each device's memory in what is free, and in nothing else.
    pub fn is_within(&self, percent: u64, other: &Self) -> bool {
        let near = |a: Bytes, b: Bytes, total: Bytes| {
            u128::from(a.0.abs_diff(b.0)) * 100 <= u128::from(total.0) * u128::from(percent)
        };
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

/// Where the description of a machine comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub enum Origin {
    /// Reported by drivers and the operating system.
    #[serde(rename = "detected")]
    Detected,
    /// Described by the user, at least in part, or read from a file.
    #[serde(rename = "simulated")]
    Described,
}

named! {
    /// Operating systems that engines distinguish.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Os {
        Linux = "linux",
        MacOs = "macos",
        Windows = "windows",
    }
}

impl std::str::FromStr for Os {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let named = |os: &Self| {
            os.name().eq_ignore_ascii_case(text) || *os == Self::MacOs && text.eq_ignore_ascii_case("darwin")
        };
        let found = Self::ALL.into_iter().find(named);
        found.ok_or_else(|| format!("'{text}' is not an operating system: use linux, macos or windows"))
    }
}

impl Os {
    /// The system that this program was built for.
    pub const fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }

    /// The system assumed for a described machine with `gpus`: macOS with Metal, else this program's own, except that
    /// other GPUs mean Linux if that is macOS.
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
    /// Its name without the vendor's: `RTX 3090`.
    pub name: String,
    /// The ggml backend that runs on it.
    pub backend: Backend,
    /// Total memory.
    pub total: Bytes,
    /// Free memory; never above `total`.
    pub free: Bytes,
    /// Whether it shares its memory with the CPU.
    pub integrated: bool,
    /// Memory that the system set aside for an integrated GPU, where known: it is part of `total` and no part of RAM.
    pub dedicated: Option<Bytes>,
    /// CUDA's compute capability (major, minor), where known.
    pub compute: Option<(u32, u32)>,
    /// CUDA driver's major version, where known.
    pub driver_major: Option<u32>,
    /// The computer that offers it over RPC; none for the machine's own.
    pub computer: Option<Arc<str>>,
    /// What its Vulkan driver reports, if that was stated.
    pub vulkan: Option<budget::VulkanLimits>,
    /// How the backends list it.
    pub listed: Listed,
    /// What driver and backend were seen to take on it besides buffers, if that was remembered on its machine.
    pub driver_memory: Option<Bytes>,
    /// Whether it shows a desktop, if that was detected or stated.
    pub display: Option<bool>,
    /// How it is connected, if that was detected or stated.
    pub link: Option<Link>,
}

impl Gpu {
    /// Whether a desktop is shown on it, which may take more of its memory at any time. Where nothing is known of that, a GPU
    /// that is part of the processor shows one, except NVIDIA's, which are built into servers and boards.
    pub fn shows_desktop(&self) -> bool {
        self.display.unwrap_or(self.integrated && self.backend != Backend::Cuda && self.computer.is_none())
    }

    /// A card of which no more is known, all of whose memory is free.
    pub fn of(name: &str, backend: Backend, total: Bytes) -> Self {
        Self {
            name: name.to_owned(),
            backend,
            total,
            free: total,
            integrated: false,
            dedicated: None,
            compute: None,
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: Listed::default(),
            driver_memory: None,
            display: None,
            link: None,
        }
    }
}

/// GPU or CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum DeviceKind {
    Gpu,
    Cpu,
}

/// Main memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ram {
    /// Total memory, or the limit that a container sets.
    pub total: Bytes,
    /// Memory available without swapping.
    pub free: Bytes,
    /// Free swap space.
    pub swap_free: Bytes,
    /// Bandwidth, if it was stated.
    pub bandwidth: Option<Bandwidth>,
}

/// A ggml backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
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
    /// A simulated card that computes everything and takes no room besides results, for tests and comparisons.
    Plain,
}

impl Backend {
    /// Every real backend, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Cuda, Self::Rocm, Self::Metal, Self::Vulkan, Self::Sycl];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA",
            Self::Rocm => "ROCm",
            Self::Metal => "Metal",
            Self::Vulkan => "Vulkan",
            Self::Sycl => "SYCL",
            Self::Plain => "plain",
        }
    }
}

impl std::str::FromStr for Backend {
    type Err = String;

    /// Parses a name in any letter case.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .chain([Self::Plain])
            .find(|backend| backend.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| format!("'{text}' is not a backend: use CUDA, ROCm, Metal, Vulkan or SYCL"))
    }
}

impl Machine {
    /// llama.cpp's name for the GPU with this index, `CUDA0`: the backend's word and the index among its devices (`*_NAME`
    /// in `ggml-*.h` and `.cpp`, `ggml_backend_rpc_add_server` for other computers, 0.1.161).
    pub fn device_name(&self, gpu: usize) -> Option<String> {
        let word = |gpu: &Gpu| match (&gpu.computer, gpu.backend) {
            (Some(_), _) => "RPC",
            (None, Backend::Metal) => "MTL",
            (None, backend) => backend.name(),
        };
        let name = word(self.gpus.get(gpu)?);
        let number = self.gpus.iter().take(gpu).filter(|other| word(other) == name).count();
        Some(format!("{name}{number}"))
    }

    /// llama.cpp's name for the memory of the GPU with this index, as `--override-tensor` takes it: the device's, and on
    /// another computer `RPC0[garage:50052]` with the index there (`ggml_backend_rpc_buffer_type` in `ggml-rpc.cpp`,
    /// 0.1.161).
    pub fn buffer_name(&self, gpu: usize) -> Option<String> {
        let Some(computer) = &self.gpus.get(gpu)?.computer else { return self.device_name(gpu) };
        let address = rpc::address(computer);
        let is_there = |other: &&Gpu| other.computer.as_ref().is_some_and(|other| rpc::address(other) == address);
        let number = self.gpus.iter().take(gpu).filter(is_there).count();
        Some(format!("RPC{number}[{address}]"))
    }
}

/// A GPU's name without the vendor's: `RTX 4090`.
pub fn short_name(name: &str) -> &str {
    let vendors = ["NVIDIA GeForce ", "NVIDIA ", "AMD Radeon "];
    vendors.iter().find_map(|vendor| name.strip_prefix(vendor)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(backend: Backend) -> Gpu {
        Gpu::of("a GPU", backend, Bytes::gib(8))
    }

    #[test]
    fn small_changes_of_free_memory_are_ignored() {
        let gpu = |free| Gpu { free: Bytes::mib(free), ..card(Backend::Cuda) };
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(32), swap_free: Bytes::ZERO, bandwidth: None };
        let with = |gpus: Vec<Gpu>| Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus,
            ram,
            origin: Origin::Detected,
            drivers: Drivers::default(),
        };
        let now = with(vec![gpu(4000), gpu(5000)]);
        assert!(now.is_nearly(&with(vec![gpu(4050), gpu(4950)])));
        assert!(!now.is_nearly(&with(vec![gpu(4100), gpu(5000)])));
        assert!(!now.is_nearly(&with(vec![gpu(4000)])) && !with(vec![gpu(4000)]).is_nearly(&now));
        let swapping = Ram { swap_free: Bytes::gib(1), ..ram };
        assert!(!now.is_nearly(&Machine { ram: swapping, ..now.clone() }));
        assert!(now.is_nearly(&Machine { ram: Ram { free: Bytes::mib(32_500), ..ram }, ..now.clone() }));
    }

    #[test]
    fn metal_implies_macos_and_cuda_excludes_it() {
        assert_eq!(Os::for_gpus(&[card(Backend::Cuda), card(Backend::Metal)]), Os::MacOs);
        assert_ne!(Os::for_gpus(&[card(Backend::Cuda)]), Os::MacOs);
        assert_eq!(Os::for_gpus(&[]), Os::here());
    }
}
