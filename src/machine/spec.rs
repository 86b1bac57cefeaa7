//! Parses descriptions of a machine: `RTX 4090`, `24GiB`, `name=A,total=24GiB,free=22GiB,backend=CUDA`.

use std::sync::Arc;

use super::budget::{self, VulkanLimits};
use super::{
    Backend, Cpu, Drivers, Gpu, Link, MAX_GPUS, Machine, Origin, Os, Ram, check_count, file, presets, rpc, visible,
};
use crate::text::one_line;
use crate::units::{Bandwidth, Bytes, NotABandwidth};

/// User-given parts of a machine; the rest is detected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineSpec {
    /// The GPUs; an empty list means a machine without GPUs, `None` that they are detected.
    pub gpus: Option<Vec<Gpu>>,
    /// Main memory.
    pub ram: Option<Ram>,
    /// How fast the disk is read.
    pub disk: Option<Bandwidth>,
    /// How the cards are connected, all of them.
    pub link: Option<Link>,
    /// The operating system, from a machine file.
    pub os: Option<Os>,
    /// The CPU.
    pub cpu: Option<Cpu>,
    /// Versions of the drivers.
    pub drivers: Drivers,
    /// The GPUs of other computers, which come last.
    pub joined: Vec<Gpu>,
    /// The most RAM that what is planned may use.
    pub ram_limit: Option<RamLimit>,
    /// Assumptions, one sentence each.
    pub notes: Vec<String>,
}

/// A limit of the RAM that a program may use.
#[derive(Clone, Debug, PartialEq)]
pub struct RamLimit {
    /// As it was stated: `MemoryMax=48G`.
    pub stated: String,
    /// The most.
    pub most: RamShare,
}

/// An amount of RAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RamShare {
    /// This much.
    Most(Bytes),
    /// So many hundredths of all of it.
    Percent(f64),
}

impl RamLimit {
    /// `ram` as a program under this limit has it.
    pub fn within(&self, ram: Ram) -> Ram {
        let most = match self.most {
            RamShare::Most(bytes) => bytes,
            // as large as a f64 tells apart
            RamShare::Percent(share) => Bytes((ram.total.0 as f64 * (share / 100.0)) as u64),
        };
        Ram { total: ram.total.min(most), free: ram.free.min(most), ..ram }
    }

    /// A sentence on it, without a full stop.
    pub fn note(&self) -> String {
        let most = match self.most {
            RamShare::Most(bytes) => bytes.to_string(),
            RamShare::Percent(share) => format!("{share} %"),
        };
        format!("{}: at most {most} of the RAM may be used", self.stated)
    }
}

impl From<Machine> for MachineSpec {
    fn from(machine: Machine) -> Self {
        Self {
            gpus: Some(machine.gpus),
            ram: Some(machine.ram),
            os: Some(machine.os),
            disk: machine.disk,
            link: None,
            cpu: Some(machine.cpu),
            drivers: machine.drivers,
            joined: Vec::new(),
            ram_limit: None,
            notes: Vec::new(),
        }
    }
}

impl Machine {
    /// A machine by what `--gpu` and `--ram` take: a card or a size per GPU, and a size of RAM.
    ///
    /// # Errors
    /// One sentence on the first text that is not valid.
    pub fn described(gpus: &[&str], ram: &str) -> Result<Self, String> {
        let gpus: Vec<String> = gpus.iter().map(|gpu| (*gpu).to_owned()).collect();
        let spec = MachineSpec::read(&gpus, Some(ram))?;
        let nothing = Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None };
        Ok(spec.complete_with(nothing))
    }
}

/// How many GPUs a text describes, and how each: `2x RTX 3090` is two, at most one more than a machine may have.
fn several(text: &str) -> (usize, &str) {
    let counted = text.split_once(['x', 'X', '×']).and_then(|(count, rest)| {
        let count: usize = count.trim_end().parse().ok()?;
        rest.starts_with(char::is_whitespace).then(|| (count.min(MAX_GPUS + 1), rest.trim_start()))
    });
    counted.filter(|(count, _)| *count > 0).unwrap_or((1, text))
}

impl MachineSpec {
    /// Parses one text per GPU, or the single text `none`, and one for main memory.
    ///
    /// # Errors
    /// One sentence on the first text that is not valid.
    pub fn read(gpus: &[String], ram: Option<&str>) -> Result<Self, String> {
        let mut described = Self { ram: ram.map(self::ram).transpose()?, ..Self::default() };
        let free_is_stated = ram.is_some_and(|text| text.contains("free="));
        if let Some(ram) = described.ram.filter(|_| !free_is_stated) {
            described
                .notes
                .push(format!("all of the RAM, {}, is assumed free; use --ram total=…,free=… to state it", ram.total));
        }
        described.notes.extend(note(gpus, ram));
        if gpus.is_empty() {
            return Ok(described);
        }
        let texts = gpus.iter().map(|text| several(text));
        let gpus: Vec<&str> = texts.flat_map(|(count, text)| std::iter::repeat_n(text, count)).collect();
        check_count(gpus.len())?;
        let mut list = Vec::with_capacity(gpus.len());
        for text in gpus.iter().copied() {
            if !is_none(text) {
                let (gpu, assumed, system) = gpu(text)?;
                if described.ram.is_none()
                    && let Some(ram) = system
                {
                    described.ram = Some(ram);
                    described.notes.push(format!(
                        "the RAM of {} is used: {} in total, {} of it assumed free; use --ram to change this",
                        gpu.name, ram.total, ram.free
                    ));
                }
                let id = list.len();
                described.notes.extend(assumed.map(|what| format!("{}{what}", about_gpu(id, &gpu))));
                list.push(gpu);
            } else if gpus.len() > 1 {
                return Err("'none' means no GPU at all: use it alone, or leave it out".to_owned());
            }
        }
        // those of other computers come last
        list.sort_by_key(|gpu| gpu.computer.is_some());
        described.gpus = Some(list);
        Ok(described)
    }

    /// Overrides `earlier`, GPUs and main memory each as a whole.
    #[must_use]
    pub fn over(self, earlier: Self) -> Self {
        let os = if self.gpus.is_some() { self.os } else { earlier.os };
        let cpu = self.cpu.or(earlier.cpu);
        let mut notes = if self.gpus.is_some() { Vec::new() } else { earlier.notes };
        notes.extend(self.notes);
        let joined = [earlier.joined, self.joined].concat();
        let drivers = self.drivers.or(earlier.drivers);
        let (gpus, ram) = (self.gpus.or(earlier.gpus), self.ram.or(earlier.ram));
        let (disk, link) = (self.disk.or(earlier.disk), self.link.or(earlier.link));
        let ram_limit = self.ram_limit.or(earlier.ram_limit);
        Self { gpus, ram, disk, link, os, cpu, drivers, joined, ram_limit, notes }
    }

    /// Adds the GPUs of `machine` over RPC, under the name `computer`.
    ///
    /// # Errors
    /// As [`rpc::rpc_gpus`] and [`rpc::join`], and if there are too many; none is added then.
    pub fn join(&mut self, computer: &str, machine: &Machine) -> Result<(), String> {
        let joining = rpc::rpc_gpus(computer, machine)?;
        check_count(self.gpus.as_ref().map_or(0, Vec::len) + self.joined.len() + joining.len())?;
        rpc::join(&mut self.joined, joining)
    }

    /// Takes in the variables of a program that is planned: those that hide GPUs hide described ones. Returns what is to be
    /// said of them, one sentence each.
    pub fn see_by(&mut self, variables: &[(String, String)]) -> Vec<String> {
        let Some(gpus) = &mut self.gpus else { return Vec::new() };
        let (seen, notes) = visible::seen(gpus, variables);
        let hidden = gpus.iter().enumerate().filter(|(at, _)| !seen.contains(at));
        let hidden: Vec<String> = hidden.map(|(at, gpu)| about_gpu(at, gpu)).collect();
        self.notes.retain(|note| !hidden.iter().any(|start| note.starts_with(start)));
        for (at, old) in seen.iter().enumerate() {
            let (before, after) = (about_gpu(*old, &gpus[*old]), about_gpu(at, &gpus[*old]));
            let own = self.notes.iter_mut().find(|note| note.starts_with(&before));
            if let Some(note) = own {
                *note = format!("{after}{}", note.strip_prefix(&before).unwrap_or_default());
            }
        }
        *gpus = seen.iter().map(|at| gpus[*at].clone()).collect();
        notes
    }

    /// The machine where nothing is detected, with this RAM if none was given.
    pub fn complete_with(&self, ram: Ram) -> Machine {
        self.complete(Machine {
            disk: None,
            os: Os::Linux,
            cpu: Cpu::beside(&[]),
            gpus: Vec::new(),
            ram,
            origin: Origin::Described,
            drivers: Drivers::default(),
        })
    }

    /// The machine, with everything that was not given taken from `detected`.
    pub fn complete(&self, detected: Machine) -> Machine {
        let machine = self.complete_without_limit(detected);
        match &self.ram_limit {
            Some(limit) => Machine { ram: limit.within(machine.ram), origin: Origin::Described, ..machine },
            None => machine,
        }
    }

    fn complete_without_limit(&self, detected: Machine) -> Machine {
        let stated = self.os.is_some()
            || self.disk.is_some()
            || self.link.is_some()
            || self.cpu.is_some()
            || !self.drivers.is_unknown();
        if self.gpus.is_none() && self.ram.is_none() && self.joined.is_empty() && !stated {
            return detected;
        }
        let os = self.os.unwrap_or_else(|| self.gpus.as_deref().map_or(detected.os, Os::for_gpus));
        // what is computed on RAM that was detected is this computer's CPU
        let assumed =
            || if self.ram.is_some() { Cpu::beside(self.gpus.as_deref().unwrap_or_default()) } else { detected.cpu };
        let cpu = self.cpu.unwrap_or_else(assumed);
        let mut gpus = self.gpus.clone().unwrap_or(detected.gpus);
        for gpu in gpus.iter_mut().filter(|gpu| !gpu.integrated) {
            gpu.link = self.link.or(gpu.link);
        }
        gpus.extend(self.joined.iter().cloned());
        // what was detected says nothing of a described machine's drivers
        let known = if self.gpus.is_none() { detected.drivers } else { Drivers::default() };
        let drivers = self.drivers.or(known);
        let disk = self.disk.or(detected.disk);
        Machine { disk, os, cpu, gpus, ram: self.ram.unwrap_or(detected.ram), origin: Origin::Described, drivers }
    }
}

/// How a note on one of the GPUs begins.
fn about_gpu(index: usize, gpu: &Gpu) -> String {
    format!("GPU{index} {}: ", gpu.name)
}

/// The keys of a GPU.
const KEYS: [&str; 20] = [
    "name",
    "total",
    "free",
    "backend",
    "integrated",
    "dedicated",
    "compute",
    "driver",
    "driver-memory",
    "display",
    "align",
    "host-align",
    "max-tensor",
    "max-buffer",
    "gfx",
    "pci",
    "link",
    "computer",
    "macos",
    ALSO_VULKAN,
];

/// A key that needs no value.
const ALSO_VULKAN: &str = "also-vulkan";

fn is_none(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("none")
}

/// Parses a GPU: a preset or a size, then `KEY=VALUE` pairs. Also returns what was assumed, and the main memory if the
/// preset is a system.
fn gpu(text: &str) -> Result<(Gpu, Option<String>, Option<Ram>), String> {
    let mut parts = text.split(',').map(str::trim).peekable();
    let first = parts.next_if(|part| !part.contains('='));
    let mut pairs = Pairs::read(parts, &KEYS)?;
    let stated_free = pairs.take("free").map(|free| size("free", &free)).transpose()?;
    let stated_total = pairs.take("total").map(|total| size("total", &total)).transpose()?;

    let preset = first.and_then(presets::find);
    let stated_macos = pairs.take("macos").map(|text| macos(preset, &text)).transpose()?;
    let macos = stated_macos.unwrap_or_else(budget::newest_macos);
    let system = preset.and_then(|preset| preset.ram_on(macos));
    let (mut gpu, mut assumed) = match (first, stated_total) {
        (Some(first), None) => named(first, macos, stated_macos.is_some())?,
        (Some(first), Some(_)) => return Err(format!("'{first}' already sets the memory: leave total= out")),
        // a GPU described by its figures has no other programs
        (None, Some(total)) => (Gpu { free: total, ..blank(total).0 }, None),
        (None, None) => return Err(format!("'{text}' does not state the memory: add total=24GiB")),
    };
    if let Some(free) = stated_free {
        (gpu.free, assumed) = (free, None);
    }
    // without memory of its own, what such a GPU has free is what RAM has free
    let system = match (system, stated_free) {
        (Some(ram), Some(free)) if gpu.backend == Backend::Cuda => Some(Ram { free: free.min(ram.total), ..ram }),
        (system, _) => system,
    };
    if gpu.free > gpu.total {
        return Err(format!("free={} is more than total={}: lower free or raise total", gpu.free.0, gpu.total.0));
    }
    if let Some(name) = pairs.take("name") {
        gpu.name = one_line(&name).into_owned();
    }
    if let Some(backend) = pairs.take("backend") {
        gpu.backend = backend.parse()?;
    }
    if let Some(integrated) = pairs.take("integrated") {
        gpu.integrated = yes("integrated", &integrated)?;
    }
    if let Some(dedicated) = pairs.take("dedicated") {
        gpu.dedicated = Some(carve_out(&gpu, size("dedicated", &dedicated)?)?);
    }
    if let Some(compute) = pairs.take("compute") {
        gpu.compute = Some(capability(&compute)?);
    }
    if let Some(driver) = pairs.take("driver") {
        gpu.driver_major = Some(super::drivers::major(&driver)?);
    }
    if let Some(seen) = pairs.take("driver-memory") {
        gpu.driver_memory = Some(size("driver-memory", &seen)?.min(gpu.total));
    }
    if let Some(display) = pairs.take("display") {
        gpu.display = Some(yes("display", &display)?);
    }
    if let Some(link) = pairs.take("link") {
        gpu.link = Some(link.parse()?);
    }
    gpu.computer = pairs.take("computer").filter(|name| !name.is_empty()).map(|name| one_line(&name).into());
    gpu.vulkan = vulkan_limits(&mut pairs, gpu.backend)?;
    let also_vulkan = pairs.take(ALSO_VULKAN).map(|text| yes(ALSO_VULKAN, &text)).transpose()?;
    gpu.listed = Listed {
        gfx: pairs.take("gfx").map(Into::into).or(gpu.listed.gfx),
        pci: pairs.take("pci").map(Into::into),
        also_vulkan: also_vulkan.unwrap_or(false),
    };
    Ok((gpu, assumed, system))
}

/// Memory that the system set aside for an integrated GPU.
fn carve_out(gpu: &Gpu, bytes: Bytes) -> Result<Bytes, String> {
    if !gpu.integrated {
        return Err(
            "dedicated= is for a GPU that shares RAM, as all memory of a card is its own: add integrated=true, or \
                    leave it out"
                .to_owned(),
        );
    }
    if bytes > gpu.total {
        return Err(format!("dedicated={} is more than total={}: total is all that it may use", bytes.0, gpu.total.0));
    }
    Ok(bytes)
}

/// What a Vulkan driver reports; what is not stated is as with NVIDIA's.
fn vulkan_limits(pairs: &mut Pairs<'_>, backend: Backend) -> Result<Option<VulkanLimits>, String> {
    let mut limits = VulkanLimits::NVIDIA;
    let mut stated = None;
    for (key, field) in [
        ("align", &mut limits.align),
        ("host-align", &mut limits.host_align),
        ("max-tensor", &mut limits.max_tensor),
        ("max-buffer", &mut limits.max_buffer),
    ] {
        let Some(text) = pairs.take(key) else { continue };
        let bytes: Bytes = text.parse().map_err(|error| format!("{key}: {error}"))?;
        (*field, stated) = (bytes.0, Some(key));
    }
    match stated {
        Some(key) if backend != Backend::Vulkan => {
            Err(format!("{key}= is a limit of Vulkan: add backend=vulkan, or leave it out"))
        }
        stated => stated.map(|_| limits.checked()).transpose(),
    }
}

/// The major version of the macOS that a preset's Mac has.
fn macos(preset: Option<&presets::Preset>, text: &str) -> Result<u32, String> {
    if preset.is_none_or(|preset| preset.working_set(0).is_none()) {
        return Err(
            "macos= says how much Metal may use of a Mac that is known by name, such as 'M4 Max 64GB': leave it \
                    out and state total="
                .to_owned(),
        );
    }
    super::drivers::major(text).map_err(|_| format!("macos: '{text}' is not a version of macOS such as 15 or 26"))
}

/// A preset or a size; a Mac has this version of macOS, which the user stated or which is assumed.
fn named(text: &str, macos: u32, is_stated: bool) -> Result<(Gpu, Option<String>), String> {
    if let Some(preset) = presets::find(text) {
        let gpu = preset.gpu_on(macos);
        let memory = preset.working_set(macos).map_or_else(
            || "its memory".to_owned(),
            |set| {
                let seen = if set.is_assumed { ", assumed from other sizes" } else { "" };
                let stated = if is_stated { "" } else { "; macos= states another version" };
                format!("what Metal may use of it on {} ({}{seen}{stated})", set.systems(), set.bytes)
            },
        );
        let otherwise = preset.divided_otherwise().map_or_else(String::new, |other| {
            format!("; '{}' is the same machine with {} for the GPU and {} of RAM", other.name, other.total(), {
                other.ram().map_or(Bytes::ZERO, |ram| ram.total)
            })
        });
        return Ok((gpu, Some(assumed_free(preset.free, &memory) + &otherwise)));
    }
    match text.parse::<Bytes>() {
        // a 780M is no 780 MB
        Ok(total) if total >= Bytes::mib(1) && !presets::lacks_size(text) => {
            file::plausible("total", total)?;
            Ok(blank(total))
        }
        Ok(total) if total < Bytes::mib(1) => {
            Err(format!("'{text}' is {} bytes: use a size such as 24GiB, a card such as 'RTX 4090', or none", total.0))
        }
        Err(_) if text.is_empty() => {
            Err("no GPU is named: use a size such as 24GiB, a card such as 'RTX 4090', or none".to_owned())
        }
        Ok(_) | Err(_) => {
            if let Some(why) = presets::why_unknown(text) {
                return Err(format!("'{text}' is not known: {why}; state its memory, such as 24GiB"));
            }
            let near = presets::nearest(text);
            let hint = match near.as_slice() {
                [] => "'plimsoll devices --presets' lists the cards".to_owned(),
                near => format!("similar names are {}", near.join(", ")),
            };
            Err(format!("'{text}' is neither a known card nor a size such as 24GiB; {hint}"))
        }
    }
}

fn assumed_free(share: f64, memory: &str) -> String {
    format!("{:.0} % of {memory} is assumed free. Use free= to state it", share * 100.0)
}

/// A GPU with defaults for all but its size, and what was assumed.
fn blank(total: Bytes) -> (Gpu, Option<String>) {
    let gpu = Gpu {
        name: format!("{total} GPU"),
        backend: Backend::Cuda,
        total,
        free: presets::share(total, presets::FREE_VRAM),
        integrated: false,
        compute: None,
        driver_major: None,
        computer: None,
        vulkan: None,
        dedicated: None,
        driver_memory: None,
        display: None,
        link: None,
        listed: crate::machine::Listed::default(),
    };
    (gpu, Some(assumed_free(presets::FREE_VRAM, "its memory")))
}

fn ram(text: &str) -> Result<Ram, String> {
    if !text.contains('=') {
        let total = size("total", text.trim())?;
        if (1..Bytes::mib(1).0).contains(&total.0) {
            return Err(format!("'{text}' is {} bytes: use a size such as 64GiB", total.0));
        }
        return Ok(Ram { total, free: total, swap_free: Bytes::ZERO, bandwidth: None });
    }
    let mut pairs = Pairs::read(text.split(',').map(str::trim), &["total", "free", "swap", "bandwidth"])?;
    let total = pairs.take("total").ok_or_else(|| format!("'{text}' does not state the total: add total=64GiB"))?;
    let total = size("total", &total)?;
    let free = pairs.take("free").map_or(Ok(total), |free| size("free", &free))?;
    let swap_free = pairs.take("swap").map_or(Ok(Bytes::ZERO), |swap| size("swap", &swap))?;
    let bandwidth = pairs.take("bandwidth").map(|text| ram_bandwidth(&text)).transpose()?;
    if free > total {
        return Err(format!("free={} is more than total={}: lower free or raise total", free.0, total.0));
    }
    Ok(Ram { total, free, swap_free, bandwidth })
}

/// Parses a bandwidth of RAM: `80GB/s`, or channels × millions of transfers a second, `2x5600`. A channel has 64 bits.
///
/// # Errors
/// One sentence.
pub fn ram_bandwidth(text: &str) -> Result<Bandwidth, String> {
    let number = |text: &str| {
        let digits = text.trim().trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|number| (1..100_000).contains(number))
    };
    let product = text.split_once(['x', '×', '*']).and_then(|(channels, rate)| {
        let (channels, rate) = (number(channels)?, number(rate)?);
        Bandwidth::checked(channels * rate * 8_000_000).ok()
    });
    let wrong = |error: NotABandwidth| format!("bandwidth: {error}, or channels x speed: 2x5600");
    product.map_or_else(|| text.parse().map_err(wrong), Ok)
}

fn size(key: &str, text: &str) -> Result<Bytes, String> {
    let bytes = text.parse().map_err(|error| format!("{key}: {error}"))?;
    file::plausible(key, bytes)?;
    Ok(bytes)
}

fn yes(key: &str, text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(format!("{key}: '{text}' is neither true nor false")),
    }
}

pub(super) fn capability(text: &str) -> Result<(u32, u32), String> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => Ok((major, minor)),
        _ => Err(format!("compute: '{text}' is not a compute capability such as 8.6")),
    }
}

/// The `KEY=VALUE` pairs of one text.
struct Pairs<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Pairs<'a> {
    /// Refuses keys other than `keys`.
    fn read(parts: impl Iterator<Item = &'a str>, keys: &[&str]) -> Result<Self, String> {
        let known = match keys {
            [others @ .., last] => format!("{} or {last}", others.join(", ")),
            [] => String::new(),
        };
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let bare = (part == ALSO_VULKAN).then_some((part, "true"));
            let pair = part.split_once('=').or(bare);
            let (key, value) = pair.ok_or_else(|| format!("'{part}' is not KEY=VALUE: the keys are {known}"))?;
            let (key, value) = (key.trim(), value.trim());
            if !keys.contains(&key) {
                return Err(format!("unknown key '{key}': use {known}"));
            }
            if pairs.iter().any(|(earlier, _)| *earlier == key) {
                return Err(format!("{key}= is given twice: leave one out"));
            }
            pairs.push((key, value));
        }
        Ok(Self { pairs })
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.swap_remove(at).1.to_owned())
    }
}

/// How the backends list a GPU, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// ROCm's name of its architecture: `gfx1100`.
    pub gfx: Option<Arc<str>>,
    /// Its PCI address: `0000:01:00.0`.
    pub pci: Option<Arc<str>>,
    /// Whether the Vulkan backend lists it besides its own.
    pub also_vulkan: bool,
}

/// What sizes in whole GB mean, as one sentence; none if no device is described so.
fn note(gpus: &[String], ram: Option<&str>) -> Option<String> {
    let mut sizes: Vec<DecimalSize<'_>> = Vec::new();
    for size in gpus.iter().map(String::as_str).chain(ram).filter_map(DecimalSize::of) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let each: Vec<String> = sizes.iter().map(|size| format!("{} is {}", size.text, size.bytes)).collect();
    let binary: Vec<String> = sizes.iter().map(DecimalSize::binary).collect();
    let (each, binary) = (each.join(" and "), binary.join(" and "));
    (!sizes.is_empty())
        .then(|| format!("{each}; memory sold under such a name has {binary}: write that if it is meant"))
}

/// A whole number of a decimal unit.
#[derive(PartialEq)]
struct DecimalSize<'t> {
    text: &'t str,
    number: &'t str,
    unit: char,
    bytes: Bytes,
}

impl<'t> DecimalSize<'t> {
    /// The size in the description of a device: alone, or as its `total`.
    fn of(described: &'t str) -> Option<Self> {
        let mut parts = described.split(',').map(str::trim);
        let text = parts.find_map(|part| match part.split_once('=') {
            Some((key, value)) => key.trim().eq_ignore_ascii_case("total").then(|| value.trim()),
            None => Some(part),
        })?;
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = ["MB", "GB", "TB"].into_iter().find(|decimal| decimal.eq_ignore_ascii_case(unit.trim()))?;
        Some(Self { text, number, unit: unit.chars().next()?, bytes: text.parse().ok()? })
    }

    /// The binary size of the same number.
    fn binary(&self) -> String {
        format!("{}{}iB", self.number, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn one(text: &str) -> Gpu {
        MachineSpec::read(&[text.to_owned()], None).unwrap().gpus.unwrap().remove(0)
    }

    #[test]
    fn every_key_is_parsed_exactly() {
        let gpu = one("name=dev0,total=26285199851,free=25769803776,backend=ROCm,integrated=true,compute=8.6");
        let expected = Gpu {
            name: "dev0".to_owned(),
            backend: Backend::Rocm,
            total: Bytes(26_285_199_851),
            free: Bytes(25_769_803_776),
            integrated: true,
            compute: Some((8, 6)),
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: crate::machine::Listed::default(),
            dedicated: None,
            driver_memory: None,
            display: None,
            link: None,
        };
        assert_eq!(gpu, expected);
        let ram = MachineSpec::read(&[], Some("total=68719476736,free=51539607552,swap=2147483648")).unwrap().ram;
        let expected = Ram { total: Bytes::gib(64), free: Bytes::gib(48), swap_free: Bytes::gib(2), bandwidth: None };
        assert_eq!(ram, Some(expected));
    }

    #[rstest]
    #[case("80GB/s")]
    #[case("80 GB/s")]
    #[case("80")]
    #[case("80000MB/s")]
    fn the_bandwidth_of_ram_is_parsed(#[case] text: &str) {
        let ram = MachineSpec::read(&[], Some(&format!("total=64GiB,bandwidth={text}"))).unwrap().ram.unwrap();
        assert_eq!(ram.bandwidth, Some(Bandwidth::gbps(80)));
    }

    #[rstest]
    #[case("fast")]
    #[case("80GiB")]
    #[case("0")]
    #[case("-3")]
    #[case("1e9")]
    fn other_bandwidths_are_refused(#[case] text: &str) {
        let error = MachineSpec::read(&[], Some(&format!("total=64GiB,bandwidth={text}"))).unwrap_err();
        assert!(error.contains("bandwidth") && error.contains("GB/s"), "{error}");
    }

    #[test]
    fn a_size_is_assumed_as_free_as_a_card_and_a_described_gpu_is_free() {
        let (gpu, card) = (one("24GiB"), one("RTX 4090"));
        assert_eq!((gpu.total, gpu.backend), (Bytes::gib(24), Backend::Cuda));
        assert!((gpu.free.share_of(gpu.total).0 - card.free.share_of(card.total).0).abs() < 1e-6);
        let described = MachineSpec::read(&["24GiB".to_owned()], None).unwrap();
        assert!(described.notes.iter().any(|note| note.contains("95 %")), "{:?}", described.notes);
        assert_eq!(one("total=8GiB").free, Bytes::gib(8));
        let ram = MachineSpec::read(&[], Some("16GiB")).unwrap().ram.unwrap();
        assert_eq!((ram.total, ram.free, ram.swap_free), (Bytes::gib(16), Bytes::gib(16), Bytes::ZERO));
    }

    #[test]
    fn a_preset_notes_its_assumption_unless_free_is_given() {
        let described = MachineSpec::read(&["rtx 4090".to_owned()], None).unwrap();
        assert!(described.notes.iter().any(|note| note.starts_with("GPU0 RTX 4090: 95 %")), "{:?}", described.notes);
        let stated = MachineSpec::read(&["RTX 4090,free=20GiB,name=the new one".to_owned()], None).unwrap();
        let gpu = &stated.gpus.unwrap()[0];
        assert_eq!((gpu.name.as_str(), gpu.free, stated.notes.len()), ("the new one", Bytes::gib(20), 0));
    }

    #[test]
    fn a_machine_has_no_more_gpus_whatever_the_door() {
        let cards = |count: usize| MachineSpec::read(&vec!["8GiB".to_owned(); count], Some("16GiB"));
        assert!(cards(255).unwrap_err().contains("at most 254 GPUs"));
        let mut spec = cards(254).unwrap();
        let other = cards(1).unwrap().complete_with(spec.ram.unwrap());
        assert!(spec.join("garage", &other).unwrap_err().contains("these are 255"));
        assert!(spec.joined.is_empty());
        let mut fewer = cards(253).unwrap();
        fewer.join("garage", &other).unwrap();
        assert!(fewer.join("attic", &other).unwrap_err().contains("these are 255"));
    }

    #[test]
    fn given_parts_replace_detected_ones() {
        let detected = Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: vec![one("name=found,total=8GiB")],
            ram: Ram { total: Bytes::gib(32), free: Bytes::gib(30), swap_free: Bytes::ZERO, bandwidth: None },
            origin: Origin::Detected,
            drivers: crate::machine::Drivers::default(),
        };
        let nothing = MachineSpec::default();
        assert_eq!(nothing.complete(detected.clone()), detected);
        let none = MachineSpec::read(&["none".to_owned()], None).unwrap();
        let machine = none.complete(detected.clone());
        assert_eq!((machine.gpus.len(), machine.ram, machine.origin), (0, detected.ram, Origin::Described));
        let ram = MachineSpec::read(&[], Some("1TiB")).unwrap();
        assert_eq!(ram.complete(detected.clone()).gpus, detected.gpus);
        let apple = MachineSpec::read(&["name=M4,total=48GiB,backend=metal".to_owned()], None).unwrap();
        assert_eq!(apple.complete(detected).os, Os::MacOs);
    }

    #[rstest]
    #[case("name=a", "total=")]
    #[case("total=24GiB,free=25GiB", "more than")]
    #[case("total=24XB", "24XB")]
    #[case("total=-1", "-1")]
    #[case("total=24GiB,backend=OpenGL", "OpenGL")]
    #[case("total=24GiB,integrated=perhaps", "perhaps")]
    #[case("total=24GiB,compute=new", "new")]
    #[case("total=24GiB,totl=1", "totl")]
    #[case("foo=5GiB", "unknown key 'foo'")]
    #[case("total=24GiB,total=25GiB", "twice")]
    #[case("total=24GiB,backend=vulkan,align=3", "power of two")]
    #[case("total=24GiB,backend=vulkan,max-tensor=0", "max-tensor")]
    #[case("total=24GiB,align=16", "backend=vulkan")]
    #[case("total=24GiB,RTX 4090", "RTX 4090")]
    #[case("RTX 4090,total=24GiB", "leave total= out")]
    #[case("RTX 4091", "RTX 4090")]
    #[case("0", "0 bytes")]
    #[case("", "no GPU is named")]
    #[case("gforce 3090", "RTX 3090")]
    fn an_invalid_gpu_is_refused_with_the_reason(#[case] text: &str, #[case] part: &str) {
        let error = MachineSpec::read(&[text.to_owned()], None).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
    }

    #[rstest]
    #[case("lots")]
    #[case("5")]
    #[case("total=1GiB,free=2GiB")]
    #[case("free=2GiB")]
    #[case("total=1GiB,speed=3")]
    fn invalid_memory_is_refused(#[case] text: &str) {
        assert!(MachineSpec::read(&[], Some(text)).is_err());
    }

    #[test]
    fn none_must_be_the_only_gpu() {
        assert!(MachineSpec::read(&["none".to_owned(), "24GiB".to_owned()], None).is_err());
        assert_eq!(MachineSpec::read(&["None".to_owned()], None).unwrap().gpus, Some(Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_gpu_or_an_error(text in "[a-z0-9=,.GiB -]{0,40}|\\PC{0,20}") {
            match MachineSpec::read(std::slice::from_ref(&text), Some(&text)) {
                Ok(described) => {
                    for gpu in described.gpus.unwrap() {
                        proptest::prop_assert!(gpu.free <= gpu.total);
                    }
                }
                Err(sentence) => proptest::prop_assert!(!sentence.is_empty()),
            }
            if let Err(sentence) = MachineSpec::read(&[text], None) {
                proptest::prop_assert!(!sentence.is_empty());
            }
        }
    }

    #[test]
    fn many_gpus_are_parsed() {
        let texts = vec!["24GiB".to_owned(); 64];
        assert_eq!(MachineSpec::read(&texts, None).unwrap().gpus.unwrap().len(), 64);
    }
}

#[cfg(test)]
mod decimal_tests {
    use super::MachineSpec;
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&["24GB"], None, &["22.4 GiB", "24GiB"])]
    #[case(&["name=a,total=16gb,backend=vulkan"], None, &["14.9 GiB", "16GiB"])]
    #[case(&["12GB", "12GB"], Some("64GB"), &["11.2 GiB", "12GiB", "59.6 GiB", "64GiB"])]
    #[case(&["24576MB"], None, &["22.9 GiB", "24576MiB"])]
    #[case(&["24GiB"], Some("total=128 GB,free=100GiB"), &["119.2 GiB", "128GiB"])]
    fn whole_decimal_sizes_say_what_they_are(#[case] gpus: &[&str], #[case] ram: Option<&str>, #[case] says: &[&str]) {
        let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
        let notes = MachineSpec::read(&gpus, ram).unwrap().notes;
        let decimal: Vec<&String> = notes.iter().filter(|note| note.contains("sold")).collect();
        let [note] = decimal.as_slice() else { panic!("one note, not {notes:?}") };
        for text in says {
            assert_eq!(note.matches(text).count(), 1, "{note}");
        }
        // what it says to write has no note
        let binary = |text: &str| text.replace("GB", "GiB").replace("gb", "GiB").replace("MB", "MiB");
        let binary_gpus: Vec<String> = gpus.iter().map(|text| binary(text)).collect();
        assert_eq!(super::note(&binary_gpus, ram.map(binary).as_deref()), None);
    }

    #[rstest]
    #[case("24GiB")]
    #[case("RTX 4090")]
    #[case("Ryzen AI Max+ 395 128GB")]
    #[case("none")]
    #[case("total=24GiB,free=20GB")]
    #[case("total=25.77GB")]
    #[case("25769803776")]
    fn exact_sizes_and_cards_have_no_note(#[case] gpu: &str) {
        assert_eq!(note(&[gpu.to_owned()], None), None);
    }
}
