//! What limits a GPU's memory: how much of RAM one without memory of its own may use, by the rule of its system, and what
//! raises that; what drivers take besides buffers; and the largest buffer of a Vulkan device.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Backend, Gpu, Machine, Os, presets};
use crate::units::Bytes;

/// RAM that is left to the system where a command gives the rest to a GPU. Assumed.
const FOR_THE_SYSTEM: Bytes = Bytes::gib(8);
/// The pages that `ttm.pages_limit` counts (x86, Linux).
const PAGE: u64 = 4096;

/// The budget of a GPU that shares RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What it may use of RAM.
    pub bytes: Bytes,
    /// Memory of its own besides.
    pub own: Bytes,
    /// The rule of its system, as a sentence.
    pub rule: String,
    /// What raises the budget, as a sentence with the command; none where nothing does.
    pub raise: Option<String>,
}

impl Budget {
    /// That of `gpu`, one of the GPUs of `machine`; none if all its memory is its own.
    pub fn of(machine: &Machine, gpu: &Gpu) -> Option<Self> {
        let own = machine.own_memory(gpu);
        if own >= gpu.total {
            return None;
        }
        let ram = machine.ram.total;
        let bytes = (gpu.total - own).min(ram);
        let most = ram - FOR_THE_SYSTEM.min(Bytes(ram.0 / 4));
        let (rule, raise) = match (gpu.backend, machine.os) {
            (Backend::Metal, _) => apple(most),
            (Backend::Cuda, _) => {
                ("It has no memory of its own and no budget: what RAM has free is free for it.".to_owned(), None)
            }
            (_, Os::Linux) => linux(own, most),
            (_, Os::Windows) => windows(),
            (_, Os::MacOs) => (format!("It may use {bytes} of RAM."), None),
        };
        Some(Self { bytes, own, rule, raise: raise.filter(|_| most > bytes) })
    }
}

/// `recommendedMaxWorkingSetSize`; the setting is of macOS 14 and later, and is gone after a restart.
fn apple(most: Bytes) -> (String, Option<String>) {
    let rule = "Metal may use two thirds of RAM up to 32 GiB, and three quarters above (recommendedMaxWorkingSetSize).";
    let raise = format!(
        "sudo sysctl iogpu.wired_limit_mb={} raises it to {most}, until the next start (macOS 14 and later).",
        most.0 >> 20
    );
    (rule.to_owned(), Some(raise))
}

/// GTT: half of RAM by default. `amdgpu.gttsize` counts MiB and `ttm.pages_limit` pages; newer kernels warn of the first
/// (Linux, `drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c` and `drivers/gpu/drm/ttm/ttm_tt.c`, 6.12).
fn linux(own: Bytes, most: Bytes) -> (String, Option<String>) {
    let rule = format!(
        "The firmware sets {own} aside for it (the carve-out), and the driver lends it RAM (GTT), half of it by default."
    );
    let raise = format!(
        "The kernel parameters ttm.pages_limit={} and amdgpu.gttsize={} raise it to {most}.",
        most.0 / PAGE,
        most.0 >> 20
    );
    (rule, Some(raise))
}

/// Windows lends an integrated GPU up to half of RAM as shared memory.
fn windows() -> (String, Option<String>) {
    let rule = "Windows lends it up to half of RAM as shared memory, besides what the firmware sets aside (dedicated).";
    let raise = "More can be set aside as dedicated memory in the firmware, or as Variable Graphics Memory in AMD's \
                 Adrenalin; RAM is smaller by as much.";
    (rule.to_owned(), Some(raise.to_owned()))
}

/// Least and most that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Span {
    /// The least.
    pub least: Bytes,
    /// The most.
    pub most: Bytes,
}

/// What a driver and a backend take on one GPU. Nothing of it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DriverMemory {
    /// The backend.
    pub backend: Backend,
    /// After the load.
    pub loaded: Span,
    /// Further memory after the first prompt, at most, where a backend grows.
    pub first_prompt: Option<FirstPrompt>,
    /// How it is known.
    #[serde(flatten)]
    pub basis: Basis,
}

/// Further memory at the first prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FirstPrompt {
    /// For a model without experts.
    pub dense: Bytes,
    /// For a model with experts.
    pub experts: Bytes,
}

/// How a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(tag = "basis", rename_all = "lowercase")]
pub enum Basis {
    /// Measured on this machine and remembered.
    Remembered,
    /// Seen by others.
    Seen {
        /// The card it was seen on.
        on: &'static str,
        /// Where.
        source: &'static str,
    },
    /// A flat figure: nothing is known of this card.
    Assumed,
}

/// A context of CUDA or HIP on a card of which nothing is known. It depends on card and driver.
const FLAT: Bytes = Bytes::mib(350);

/// A row of `assets/gpus.toml`; sizes in MiB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriverRow {
    backend: Backend,
    /// Presets that it stands for; absent: every card of the backend.
    cards: Option<Vec<String>>,
    loaded: (u64, u64),
    /// Of a dense model, and of one with experts.
    first_prompt: Option<(u64, u64)>,
    on: String,
    source: String,
}

impl Span {
    fn mib((least, most): (u64, u64)) -> Self {
        Self { least: Bytes::mib(least), most: Bytes::mib(most) }
    }
}

impl DriverMemory {
    /// What is known for `gpu`; none for a backend of which nothing is.
    pub fn of(gpu: &Gpu) -> Option<Self> {
        let backend = gpu.backend;
        let rows = || presets::drivers().iter().filter(move |row| row.backend == backend);
        let first_prompt = rows().find_map(DriverRow::first_prompt);
        if let Some(bytes) = gpu.driver_memory {
            let loaded = Span { least: bytes, most: bytes };
            return Some(Self { backend, loaded, first_prompt, basis: Basis::Remembered });
        }
        let named = presets::of_gpu(&gpu.name, gpu.total).map(|preset| preset.name.as_str());
        let found = rows().find(|row| match &row.cards {
            Some(cards) => cards.iter().any(|card| Some(card.as_str()) == named),
            None => true,
        });
        let seen = found.map(|row| Self {
            backend,
            loaded: Span::mib(row.loaded),
            first_prompt,
            basis: Basis::Seen { on: &row.on, source: &row.source },
        });
        let flat = |bytes| Span { least: bytes, most: bytes };
        seen.or_else(|| {
            Some(Self { backend, loaded: flat(flat_driver_memory(backend)?), first_prompt, basis: Basis::Assumed })
        })
    }

    /// All that may be taken, at the first prompt at the latest.
    pub fn most(&self, has_experts: bool) -> Bytes {
        self.loaded.most + self.first_prompt(has_experts)
    }

    /// What may be taken in addition at the first prompt.
    pub fn first_prompt(&self, has_experts: bool) -> Bytes {
        let of = |growth: FirstPrompt| if has_experts { growth.experts } else { growth.dense };
        self.first_prompt.map_or(Bytes::ZERO, of)
    }

    /// How it is known, as the end of a sentence.
    pub fn known_from(&self) -> String {
        match self.basis {
            Basis::Remembered => "as measured on this machine".to_owned(),
            Basis::Seen { on, .. } => format!("as seen on {on}"),
            Basis::Assumed => "assumed".to_owned(),
        }
    }
}

impl DriverRow {
    fn first_prompt(&self) -> Option<FirstPrompt> {
        self.first_prompt.map(|(dense, experts)| FirstPrompt { dense: Bytes::mib(dense), experts: Bytes::mib(experts) })
    }
}

/// The figure for cards of which nothing is known; none where nothing is known of the backend either.
pub const fn flat_driver_memory(backend: Backend) -> Option<Bytes> {
    match backend {
        Backend::Cuda | Backend::Rocm | Backend::Plain => Some(FLAT),
        Backend::Metal | Backend::Vulkan | Backend::Sycl => None,
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { self.most.fmt(f) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

/// `CUDA context, assumed 350 MiB`, `besides buffers CUDA takes 451 MiB to 456 MiB, as seen on an RTX 4090`.
impl fmt::Display for DriverMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.backend.name();
        match self.basis {
            Basis::Assumed => write!(f, "{name} context, assumed {}", self.loaded)?,
            _ if self.loaded.most == Bytes::ZERO => {
                write!(f, "{name} takes nothing besides buffers, {}", self.known_from())?;
            }
            _ => write!(f, "besides buffers {name} takes {}, {}", self.loaded, self.known_from())?,
        }
        match self.first_prompt {
            Some(FirstPrompt { dense, experts }) => {
                write!(f, "; at the first prompt up to {dense} more, or {experts} with experts")
            }
            None => Ok(()),
        }
    }
}

/// Level Zero's limit unless a program asks for relaxed ones, as llama.cpp does where it was built with Level Zero
/// (`ggml-sycl/common.cpp`, 0.1.161).
const LEVEL_ZERO: Bytes = Bytes::gib(4);

/// What a driver allows for one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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

/// Metal's `recommendedMaxWorkingSetSize` on a Mac with `ram` of memory: two thirds up to 32 GiB, three quarters above.
///
/// Assumed: Apple publishes no rule. These shares match what llama.cpp prints at start on M1 to M3 with macOS 13 and 14
/// (16 GB: 11453.25 MB, 32 GB: 22906.50 MB, 36 GB: 28991.03 MB, 64 GB: 51539.61 MB); newer systems allow a little more,
/// and `sysctl iogpu.wired_limit_mb` changes it.
pub const fn working_set(ram: Bytes) -> Bytes {
    if ram.0 <= Bytes::gib(32).0 { Bytes(ram.0 / 3 * 2) } else { Bytes(ram.0 / 4 * 3) }
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct VulkanLimits {
    /// `minStorageBufferOffsetAlignment`, in bytes: of every tensor in a device buffer.
    pub align: u64,
    /// `minMemoryMapAlignment`, in bytes: of every tensor in a host buffer.
    pub host_align: u64,
    /// `maxStorageBufferRange`, in bytes: the largest tensor that an operation may read or write.
    pub max_tensor: u64,
    /// `maxBufferSize`, in bytes: likewise.
    pub max_buffer: u64,
}

impl VulkanLimits {
    /// NVIDIA's driver.
    pub const NVIDIA: Self = Self { align: 16, host_align: 64, max_tensor: (4 << 30) - 1, max_buffer: 1 << 40 };
    /// AMD's and Intel's GPUs with Mesa.
    pub const MESA: Self = Self { align: 4, host_align: 4096, max_tensor: (4 << 30) - 1, max_buffer: (4 << 30) - 4 };
    /// AMD's own driver.
    pub const AMD: Self = Self { align: 4, host_align: 64, max_tensor: (4 << 30) - 1, max_buffer: 2 << 30 };

    /// These limits, if they are possible.
    ///
    /// # Errors
    /// One sentence on the first that is not.
    pub fn checked(self) -> Result<Self, String> {
        for (key, bytes) in [("align", self.align), ("host-align", self.host_align)] {
            if !bytes.is_power_of_two() || bytes > Bytes::mib(1).0 {
                return Err(format!("{key}: {bytes} is not a power of two up to 1 MiB"));
            }
        }
        for (key, bytes) in [("max-tensor", self.max_tensor), ("max-buffer", self.max_buffer)] {
            if bytes < Bytes::mib(1).0 {
                return Err(format!("{key}: {bytes} bytes leave no room for a tensor: use what the driver reports"));
            }
        }
        Ok(self)
    }

    /// Those of `gpu` on `os`: stated, or known by the maker's name; NVIDIA's, as the most common, if neither. Also
    /// whose they are, and whether that is a guess.
    pub fn of(gpu: &Gpu, os: Os) -> (Self, &'static str, bool) {
        const NVIDIA: [&str; 8] = ["nvidia", "geforce", "rtx", "gtx", "quadro", "tesla", "h100", "a100"];
        const OTHERS: [&str; 6] = ["amd", "radeon", "rx ", "arc", "intel", "strix"];
        if let Some(stated) = gpu.vulkan {
            return (stated, "as stated", false);
        }
        let name = gpu.name.to_ascii_lowercase();
        let named = |makers: &[&str]| makers.iter().any(|maker| name.contains(maker));
        match os {
            _ if named(&NVIDIA) => (Self::NVIDIA, "NVIDIA's driver", false),
            Os::Linux if named(&OTHERS) => (Self::MESA, "Mesa's drivers", false),
            Os::Windows if named(&["amd", "radeon", "rx "]) => (Self::AMD, "AMD's driver", false),
            _ => (Self::NVIDIA, "NVIDIA's driver", true),
        }
    }
}

/// `align 16, host align 64, tensors up to 4.0 GiB, buffers up to 1.0 TiB`
impl std::fmt::Display for VulkanLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { align, host_align, max_tensor, max_buffer } = *self;
        write!(
            f,
            "alignment {align} B, on the host {host_align} B; tensors up to {}, buffers up to {}",
            Bytes(max_tensor),
            Bytes(max_buffer)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::presets;
    use crate::machine::{Drivers, Origin};

    fn budget(preset: &str, os: Os) -> Option<Budget> {
        let preset = presets::find(preset).unwrap();
        let ram = presets::find("M4 Max 64GB").unwrap().ram().unwrap();
        let machine = Machine {
            disk: None,
            cpu: crate::machine::Cpu::default(),
            os,
            gpus: vec![preset.gpu()],
            ram: preset.ram().unwrap_or(ram),
            origin: Origin::Described,
            drivers: Drivers::default(),
        };
        Budget::of(&machine, &machine.gpus[0])
    }

    #[test]
    fn each_system_has_its_rule_and_its_command() {
        let mac = budget("M4 Max 64GB", Os::MacOs).unwrap();
        assert_eq!((mac.bytes, mac.own), (Bytes::gib(48), Bytes::ZERO));
        assert!(mac.raise.unwrap().contains("iogpu.wired_limit_mb=57344 raises it to 56.0 GiB"));
        let halo = budget("Ryzen AI Max+ 395", Os::Linux).unwrap();
        assert_eq!((halo.bytes, halo.own), (Bytes::mib(117_760 - 512), Bytes::mib(512)));
        assert!(halo.raise.unwrap().contains("ttm.pages_limit=30914048 and amdgpu.gttsize=120758"));
        assert!(budget("Ryzen AI Max+ 395", Os::Windows).unwrap().rule.contains("half of RAM"));
        let spark = budget("DGX Spark", Os::Linux).unwrap();
        assert_eq!((spark.bytes, spark.raise), (Bytes::mib(122_570), None));
    }

    #[test]
    fn memory_that_is_set_aside_is_no_budget() {
        assert_eq!(budget("Strix Halo 128GB", Os::Windows), None);
        assert_eq!(budget("RTX 4090", Os::Linux), None);
    }
}

#[cfg(test)]
mod driver_memory_tests {
    use super::*;
    use crate::machine::spec::MachineSpec;

    fn gpu(text: &str) -> Gpu {
        MachineSpec::read(&[text.to_owned()], None).unwrap().gpus.unwrap().remove(0)
    }

    fn words(text: &str) -> Option<String> {
        DriverMemory::of(&gpu(text)).map(|memory| memory.to_string())
    }

    #[test]
    fn a_card_that_was_seen_has_its_own_figure_and_others_the_flat_one() {
        assert_eq!(words("24GiB").as_deref(), Some("CUDA context, assumed 350 MiB"));
        assert_eq!(words("RTX 3060").as_deref(), Some("CUDA context, assumed 350 MiB"));
        let seen = "besides buffers CUDA takes 451 MiB to 456 MiB, as seen on an RTX 4090";
        assert_eq!(words("RTX 4090").as_deref(), Some(seen));
        assert_eq!(words("total=24GiB,backend=SYCL"), None);
        let metal = "Metal takes nothing besides buffers, as seen on an M5";
        assert_eq!(words("total=24GiB,backend=Metal").as_deref(), Some(metal));
    }

    #[test]
    fn a_backend_that_grows_says_what_the_first_prompt_may_take() {
        let memory = DriverMemory::of(&gpu("total=24GiB,backend=Vulkan")).unwrap();
        assert_eq!(memory.most(false), Bytes::mib(32 + 191));
        assert_eq!(memory.most(true), Bytes::mib(32 + 1872));
        assert!(memory.to_string().contains("at the first prompt up to 191 MiB more"), "{memory}");
    }

    #[test]
    fn what_this_machine_took_stands_over_the_table() {
        let gpu = Gpu { driver_memory: Some(Bytes::mib(410)), ..gpu("RTX 4090") };
        let memory = DriverMemory::of(&gpu).unwrap();
        assert_eq!(memory.to_string(), "besides buffers CUDA takes 410 MiB, as measured on this machine");
    }
}

#[cfg(test)]
mod apple_tests {
    use super::*;

    #[test]
    fn working_set_matches_what_llama_cpp_prints() {
        for (gib, megabytes) in [(16, 11_453.25), (32, 22_906.50), (36, 28_991.03), (64, 51_539.61)] {
            let computed = working_set(Bytes::gib(gib)).0 as f64 / 1e6;
            assert!((computed - megabytes).abs() < 0.01, "{gib} GiB: {computed}");
        }
    }
}

#[cfg(test)]
mod vulkan_tests {
    use super::*;
    use crate::machine::spec::MachineSpec;
    use rstest::rstest;

    #[rstest]
    #[case("RTX 3090,backend=vulkan", Os::Linux, VulkanLimits::NVIDIA, false)]
    #[case("RX 7900 XTX,backend=vulkan", Os::Linux, VulkanLimits::MESA, false)]
    #[case("RX 7900 XTX,backend=vulkan", Os::Windows, VulkanLimits::AMD, false)]
    #[case("total=8GiB,name=something,backend=vulkan", Os::Linux, VulkanLimits::NVIDIA, true)]
    #[case(
        "total=8GiB,backend=vulkan,align=4,host-align=4096,max-buffer=4294967292",
        Os::Windows,
        VulkanLimits::MESA,
        false
    )]
    fn limits_follow_what_is_stated_or_the_maker(
        #[case] gpu: &str,
        #[case] os: Os,
        #[case] limits: VulkanLimits,
        #[case] guessed: bool,
    ) {
        let gpu = MachineSpec::read(&[gpu.to_owned()], None).unwrap().gpus.unwrap().remove(0);
        let (found, _, guess) = VulkanLimits::of(&gpu, os);
        assert_eq!((found, guess), (limits, guessed));
    }
}
