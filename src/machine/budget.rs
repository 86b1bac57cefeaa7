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
            (Backend::Metal, _) => apple(bytes, ram, most),
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
fn apple(bytes: Bytes, ram: Bytes, most: Bytes) -> (String, Option<String>) {
    let rule = match WorkingSet::behind(bytes, ram) {
        Some(set) => {
            let assumed = if set.is_assumed { ", assumed from other sizes" } else { "" };
            format!("{} lets Metal use {bytes} of {ram} (recommendedMaxWorkingSetSize{assumed}).", set.systems())
        }
        None => format!("Metal may use {bytes} of {ram} (recommendedMaxWorkingSetSize)."),
    };
    let raise = format!(
        "sudo sysctl iogpu.wired_limit_mb={} raises it to {most}, until the next start (macOS 14 and later).",
        most.0 >> 20
    );
    (rule, Some(raise))
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
    /// Further memory that grows with the tokens that prompts have read, where a backend copies the cache.
    pub context: Option<ContextCopies>,
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

/// Memory that grows with the tokens that prompts have read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ContextCopies {
    /// For a thousand tokens, in bytes.
    pub per_thousand: u64,
    /// Of the whole context.
    pub bytes: Bytes,
}

/// The keys and values that a backend may copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedCache {
    /// Elements of keys and values of one layer per token: of the layer that has the most.
    pub elements: u64,
    /// Tokens of the whole context.
    pub tokens: u64,
    /// Whether the cache is of f16.
    pub is_f16: bool,
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

/// Bytes of an f16.
const F16: u64 = 2;

/// A context of CUDA or HIP on a card of which nothing is known. It depends on card and driver.
const FLAT: Bytes = Bytes::mib(350);

/// A row of `assets/gpus.toml`; sizes in MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverRow {
    pub(super) backend: Backend,
    /// Presets that it stands for; none: every card of the backend.
    pub(super) cards: Option<&'static [&'static str]>,
    pub(super) loaded: (u64, u64),
    /// Of a dense model, and of one with experts.
    pub(super) first_prompt: Option<(u64, u64)>,
    /// Copies of one layer's keys and values in f16: with a cache of f16, and with another.
    pub(super) context: Option<(f64, f64)>,
    pub(super) on: &'static str,
    pub(super) source: &'static str,
}

impl DriverRow {
    /// What a row leaves out.
    pub(super) const BLANK: Self = Self {
        backend: Backend::Cuda,
        cards: None,
        loaded: (0, 0),
        first_prompt: None,
        context: None,
        on: "",
        source: "",
    };
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
            return Some(Self { backend, loaded, first_prompt, context: None, basis: Basis::Remembered });
        }
        let named = presets::of_gpu(&gpu.name, gpu.total).map(|preset| preset.name);
        let found = rows().find(|row| match row.cards {
            Some(cards) => cards.iter().any(|card| Some(*card) == named),
            None => true,
        });
        let seen = found.map(|row| Self {
            backend,
            loaded: Span::mib(row.loaded),
            first_prompt,
            context: None,
            basis: Basis::Seen { on: row.on, source: row.source },
        });
        let flat = |bytes| Span { least: bytes, most: bytes };
        seen.or_else(|| {
            let loaded = flat(flat_driver_memory(backend)?);
            Some(Self { backend, loaded, first_prompt, context: None, basis: Basis::Assumed })
        })
    }

    /// The same with what grows with this cache.
    #[must_use]
    pub fn beside(self, cache: CopiedCache) -> Self {
        let mut rows = presets::drivers().iter().filter(|row| row.backend == self.backend);
        let context = rows.find_map(|row| row.context).map(|(f16, others)| {
            let copies = if cache.is_f16 { f16 } else { others };
            let per_token = copies * (cache.elements * F16) as f64;
            ContextCopies {
                per_thousand: (per_token * 1000.0) as u64,
                bytes: Bytes((per_token * cache.tokens as f64) as u64),
            }
        });
        Self { context: context.filter(|context| context.bytes > Bytes::ZERO), ..self }
    }

    /// What it takes once the whole context has been read, apart from what grows at the first prompt.
    pub fn held(&self) -> Span {
        let more = self.context.map_or(Bytes::ZERO, |context| context.bytes);
        Span { least: self.loaded.least + more, most: self.loaded.most + more }
    }

    /// All that may be taken, at the first prompt at the latest.
    pub fn most(&self, has_experts: bool) -> Bytes {
        self.held().most + self.first_prompt(has_experts)
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
        let (least, most) = (self.least.to_string(), self.most.to_string());
        if least == most { most.fmt(f) } else { write!(f, "{least} to {most}") }
    }
}

/// `3.6 KiB more for every token that is read, 632 MiB for the whole context`
impl fmt::Display for ContextCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.per_thousand as f64 / 1024.0 / 1000.0;
        write!(f, "{kib:.1} KiB more for every token that is read, {} for the whole context", self.bytes)
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
        if let Some(FirstPrompt { dense, experts }) = self.first_prompt {
            write!(f, "; at the first prompt up to {dense} more, or {experts} with experts")?;
        }
        self.context.map_or(Ok(()), |context| write!(f, "; {context}"))
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

/// Metal's `recommendedMaxWorkingSetSize` on a Mac: what it may use of RAM unless `sysctl iogpu.wired_limit_mb` says
/// otherwise. Apple publishes no rule; `assets/gpus.toml` has what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkingSet {
    /// What Metal may use.
    pub bytes: Bytes,
    /// The macOS from which on it holds.
    pub macos: u32,
    /// Whether no Mac with so much RAM, or none with so old or new a system, was seen.
    pub is_assumed: bool,
}

/// A row of `assets/gpus.toml`; sizes in MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkingSetRow {
    pub(super) macos: u32,
    /// Up to so much RAM: the numerator and denominator of the share.
    pub(super) shares: &'static [(u64, u64, u64)],
    /// RAM, and what Metal may use of it.
    pub(super) seen: &'static [(u64, u64)],
    #[allow(dead_code, reason = "for those who read the file")]
    pub(super) source: &'static str,
}

impl WorkingSetRow {
    /// What a row leaves out.
    pub(super) const BLANK: Self = Self { macos: 0, shares: &[], seen: &[], source: "" };
}

/// The newest macOS whose working sets are known, which presets assume.
pub fn newest_macos() -> u32 {
    presets::working_sets().last().map_or(0, |row| row.macos)
}

impl WorkingSet {
    /// That of a Mac with `ram` and this major version of macOS.
    pub fn of(ram: Bytes, macos: u32) -> Self {
        let rows = presets::working_sets();
        let row = rows.iter().rev().find(|row| row.macos <= macos).or_else(|| rows.first());
        let Some(row) = row else { return Self { bytes: Bytes::ZERO, macos, is_assumed: true } };
        let known = |row: &WorkingSetRow| macos >= row.macos && (macos == row.macos || row.macos < newest_macos());
        let (bytes, is_seen) = row.bytes(ram);
        Self { bytes, macos: row.macos, is_assumed: !is_seen || !known(row) }
    }

    /// The rule that gives a Mac with `ram` this working set.
    fn behind(bytes: Bytes, ram: Bytes) -> Option<Self> {
        let rows = presets::working_sets().iter().rev();
        rows.map(|row| Self::of(ram, row.macos)).find(|set| set.bytes == bytes)
    }

    /// The systems that it stands for: `macOS 13 to 15`, `macOS 26`.
    pub fn systems(&self) -> String {
        // Apple counts the years since 26
        match presets::working_sets().iter().find(|row| row.macos > self.macos) {
            Some(next) if next.macos == 26 => format!("macOS {} to 15", self.macos),
            Some(next) => format!("macOS {} to {}", self.macos, next.macos - 1),
            None => format!("macOS {}", self.macos),
        }
    }
}

impl WorkingSetRow {
    pub(super) const fn macos(&self) -> u32 {
        self.macos
    }

    /// What Metal may use of `ram`, and whether that was seen.
    fn bytes(&self, ram: Bytes) -> (Bytes, bool) {
        let share = self.shares.iter().find(|(up_to, ..)| ram <= Bytes::mib(*up_to)).or_else(|| self.shares.last());
        if let Some((_, share, of)) = share {
            return (Bytes(ram.0 / of * share), true);
        }
        let of_share = |(known, bytes): (u64, u64)| {
            Bytes(u64::try_from(u128::from(ram.0) * u128::from(bytes) / u128::from(known)).unwrap_or(u64::MAX))
        };
        let above = self.seen.iter().position(|(known, _)| ram <= Bytes::mib(*known));
        match (above, self.seen.last()) {
            (Some(0), _) => (of_share(self.seen[0]), ram == Bytes::mib(self.seen[0].0)),
            (Some(at), _) => {
                let ((low, least), (high, most)) = (self.seen[at - 1], self.seen[at]);
                let beyond = (ram - Bytes::mib(low)).0 / (high - low) * (most - least);
                (Bytes::mib(least) + Bytes(beyond), ram == Bytes::mib(high))
            }
            (None, Some(last)) => (of_share(*last), false),
            (None, None) => (Bytes::ZERO, false),
        }
    }
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
        assert_eq!((mac.bytes, mac.own), (WorkingSet::of(Bytes::gib(64), 26).bytes, Bytes::ZERO));
        assert!(mac.rule.starts_with("macOS 26 lets Metal use 51.5 GiB of 64.0 GiB"), "{}", mac.rule);
        assert!(mac.raise.unwrap().contains("iogpu.wired_limit_mb=57344 raises it to 56.0 GiB"));
        let halo = budget("Ryzen AI Max+ 395", Os::Linux).unwrap();
        assert_eq!((halo.bytes, halo.own), (Bytes::mib(117_760 - 512), Bytes::mib(512)));
        assert!(halo.raise.unwrap().contains("ttm.pages_limit=30914048 and amdgpu.gttsize=120758"));
        assert!(budget("Ryzen AI Max+ 395", Os::Windows).unwrap().rule.contains("half of RAM"));
        let spark = budget("DGX Spark", Os::Linux).unwrap();
        assert_eq!((spark.bytes, spark.raise), (Bytes::mib(122_570), None));
    }

    #[test]
    fn a_working_set_follows_from_the_system() {
        let of = |gib: u64, macos: u32| WorkingSet::of(Bytes::gib(gib), macos);
        for (gib, macos, expected, is_assumed) in [
            (16, 15, Bytes(Bytes::gib(16).0 / 3 * 2), false),
            (36, 13, Bytes::gib(27), false),
            (64, 14, Bytes::gib(48), false),
            (16, 26, Bytes::mib(12_124), false),
            (32, 26, Bytes::gib(25), false),
            (48, 26, Bytes::mib(38_338), false),
            (128, 26, Bytes::mib(110_100), false),
            (40, 26, Bytes::mib(31_969), true),
            (256, 26, Bytes::mib(220_200), true),
            (8, 26, Bytes::mib(6062), true),
            (128, 27, Bytes::mib(110_100), true),
            (64, 12, Bytes::gib(48), true),
        ] {
            let set = of(gib, macos);
            assert_eq!((set.bytes, set.is_assumed), (expected, is_assumed), "{gib} GiB, macOS {macos}");
        }
        assert_eq!(of(16, 14).systems(), "macOS 13 to 15");
        assert_eq!(of(16, 26).systems(), "macOS 26");
        let sizes = (8..=512).map(|gib| of(gib, 26).bytes);
        assert!(sizes.is_sorted());
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

    /// Qwen 3.8 27B on an Arc Pro B70: what was seen at 182,016 and 262,144 tokens.
    #[test]
    fn what_grows_with_the_context_is_beside_the_cache() {
        let arc = DriverMemory::of(&gpu("name=B70,total=32656MiB,backend=SYCL")).unwrap();
        let seen = |tokens: u64, is_f16: bool| arc.beside(CopiedCache { elements: 2048, tokens, is_f16 });
        let f16 = seen(182_016, true);
        assert_eq!((f16.loaded.least, f16.loaded.most), (Bytes::mib(1220), Bytes::mib(1250)));
        assert_eq!(
            f16.context.unwrap().to_string(),
            "3.6 KiB more for every token that is read, 633 MiB for the whole context"
        );
        assert_eq!(f16.held().most, f16.loaded.most + f16.context.unwrap().bytes);
        let q8_0 = seen(262_144, false).context.unwrap();
        assert!(q8_0.to_string().starts_with("7.6 KiB more for every token"), "{q8_0}");
        let card = DriverMemory::of(&gpu("RTX 4090")).unwrap();
        assert_eq!(card.beside(CopiedCache { elements: 2048, tokens: 8192, is_f16: true }), card);
    }

    #[test]
    fn a_card_that_was_seen_has_its_own_figure_and_others_the_flat_one() {
        assert_eq!(words("24GiB").as_deref(), Some("CUDA context, assumed 350 MiB"));
        assert_eq!(words("RTX 3060").as_deref(), Some("CUDA context, assumed 350 MiB"));
        let seen = "besides buffers CUDA takes 451 MiB to 456 MiB, as seen on an RTX 4090";
        assert_eq!(words("RTX 4090").as_deref(), Some(seen));
        let sycl = "besides buffers SYCL takes 1.2 GiB, as seen on an Arc Pro B70";
        assert_eq!(words("total=24GiB,backend=SYCL").as_deref(), Some(sycl));
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
            let computed = WorkingSet::of(Bytes::gib(gib), 14).bytes.0 as f64 / 1e6;
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
