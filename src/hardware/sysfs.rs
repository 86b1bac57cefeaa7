//! Graphics cards in Linux's `/sys`, or in a folder used instead: AMD's, Intel's, and those that no collector reads.
//!
//! AMD (driver amdgpu): the kernel's `Documentation/gpu/amdgpu/driver-misc.rst` (memory) and
//! `drivers/gpu/drm/amd/include/kgd_pp_interface.h` (`gpu_metrics`), Linux 6.12.
//!
//! Intel's drivers report little about memory. xe: `tileN/physical_vram_size_bytes`
//! (`drivers/gpu/drm/xe/xe_tile_sysfs.c`, Linux 6.8). i915 as Intel ships it for its cards: `lmem_total_bytes` and
//! `lmem_avail_bytes` next to `device`.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::fdinfo;
use super::{CollectedGpus, CollectorResult, DetectOptions, FoundGpu, GpuProbes, counted};
use crate::files::{self, Within};
use crate::machine::visible::{VisibilityRule, visible};
use crate::machine::{Backend, Gpu, Link, Listed, MAX_GPUS, Ram};
use crate::units::Bytes;

/// The sysfs tree to read.
#[derive(Clone, Debug)]
pub(super) struct SysfsTree {
    root: PathBuf,
}

/// One graphics card: `class/drm/card0`.
#[derive(Clone, Debug)]
struct DrmCard {
    /// `card0`
    name: String,
    /// `class/drm/card0/device`
    folder: PathBuf,
    /// PCI address, if reported: `0000:03:00.0`.
    pci: Option<String>,
    /// Kernel driver, if reported: `amdgpu`.
    driver: Option<String>,
    /// PCI vendor ID and device ID.
    vendor: Option<u32>,
    device: Option<u32>,
}

impl SysfsTree {
    /// `/sys`, or `root` instead (or the folder `sys` in it); none on systems without sysfs.
    pub(super) fn new(root: Option<&Path>) -> Option<Self> {
        match root {
            Some(root) if !root.join("class").is_dir() && root.join("sys/class").is_dir() => {
                Some(Self { root: root.join("sys") })
            }
            Some(root) => Some(Self { root: root.to_owned() }),
            None if cfg!(target_os = "linux") => Some(Self { root: "/sys".into() }),
            None => None,
        }
    }

    fn place(&self) -> PathBuf {
        self.root.join("class/drm")
    }

    /// The graphics cards, sorted by PCI address, those without one last.
    fn cards(&self) -> Result<Vec<DrmCard>, String> {
        let place = self.place();
        let entries = fs::read_dir(&place).map_err(|error| format!("{}: {}", place.display(), reason(&error)))?;
        let mut cards: Vec<DrmCard> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let number = name.strip_prefix("card")?;
                let is_card = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
                is_card.then(|| DrmCard::read(name, entry.path().join("device")))
            })
            // one more than a machine has, so that this is said
            .take(MAX_GPUS + 1)
            .collect();
        cards.sort_by_key(|card| (card.pci.is_none(), card.pci.clone(), card.name.len(), card.name.clone()));
        Ok(cards)
    }
}

impl DrmCard {
    fn read(name: String, folder: PathBuf) -> Self {
        let uevent = attribute(&folder.join("uevent")).unwrap_or_default();
        let property = |key: &str| {
            let value = uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(value.trim().to_owned())
        };
        let linked = |path: &Path| Some(fs::canonicalize(path).ok()?.file_name()?.to_str()?.to_owned());
        let pci = property("PCI_SLOT_NAME").or_else(|| linked(&folder).filter(|name| name.matches(':').count() == 2));
        let driver = property("DRIVER").or_else(|| linked(&folder.join("driver")));
        let mut card = Self { name, folder, pci, driver, vendor: None, device: None };
        card.vendor = card.hex("vendor");
        card.device = card.hex("device");
        card
    }

    /// Its PCI address, or else its name (`card0`).
    fn place(&self) -> &str {
        self.pci.as_deref().unwrap_or(&self.name)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn has(&self, file: &str) -> bool {
        self.path(file).is_file()
    }

    /// A file's trimmed text; none if it is missing or empty.
    fn text(&self, file: &str) -> Option<String> {
        let text = attribute(&self.path(file)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        contents(&self.path(file)).ok()
    }

    /// Whether a screen is lit by one of its connectors: `class/drm/card0-HDMI-A-1/enabled`, as `drm_sysfs.c` of Linux 6.12
    /// writes it. None where none is listed, as in containers.
    fn display(&self) -> Option<bool> {
        let connectors = fs::read_dir(self.folder.parent()?.parent()?).ok()?;
        let is_own = |name: &str| name.strip_prefix(self.name.as_str()).is_some_and(|rest| rest.starts_with('-'));
        let own = connectors.filter_map(Result::ok).filter(|entry| entry.file_name().to_str().is_some_and(is_own));
        let states = own.filter_map(|connector| attribute(&connector.path().join("enabled")).ok());
        states.map(|state| state.trim() == "enabled").reduce(|one, other| one || other)
    }

    /// Its link, as the kernel's `Documentation/ABI/testing/sysfs-bus-pci` describes it: the lanes in use, and the fastest
    /// that card and port can do, for the link in use is slower while the card is idle.
    fn link(&self) -> Option<Link> {
        let rate = |file: &str| self.text(file)?.split_whitespace().next()?.parse::<f64>().ok();
        let fastest = rate("max_link_speed").or_else(|| rate("current_link_speed"))?;
        let port = rate("../max_link_speed").unwrap_or(fastest);
        let lanes = self.text("current_link_width")?.parse().ok()?;
        // gigatransfers a second double with every generation
        let generation = ((fastest.min(port) / 2.5).log2().round() as u32).saturating_add(1);
        Link::pcie(generation, lanes).ok()
    }

    fn hex(&self, file: &str) -> Option<u32> {
        let text = self.text(file)?;
        u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    fn number(&self, file: &str) -> Result<u64, String> {
        number(&self.path(file))
    }
}

/// The bytes of an attribute, where a folder that is named instead of /sys may have anything.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("no file"));
    }
    let mut bytes = Vec::new();
    Within::new(File::open(path)?, files::TEXT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn attribute(path: &Path) -> io::Result<String> {
    String::from_utf8(contents(path)?).map_err(io::Error::other)
}

/// Reads a file that holds a decimal number.
fn number(path: &Path) -> Result<u64, String> {
    let name = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let text = attribute(path).map_err(|error| format!("{}: {}", name(), reason(&error)))?;
    text.trim().parse().map_err(|_| format!("{}: '{}' is not a number", name(), text.trim()))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "missing".to_owned(),
        io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    }
}

fn no_cards(reason: &str) -> String {
    format!("no graphics cards in sysfs ({reason})")
}

const AMD: u32 = 0x1002;
/// Less dedicated memory than this is taken for a carve-out of main memory, if nothing else identifies an integrated
/// GPU.
const MAX_CARVE_OUT: Bytes = Bytes::gib(2);

/// AMD's GPUs.
pub(super) fn amd(options: &DetectOptions, tree: &SysfsTree) -> CollectedGpus {
    let tried = |outcome| CollectorResult { collector: "amd", outcome };
    let cards = match tree.cards() {
        Ok(cards) => cards,
        Err(reason) => return CollectedGpus::none(tried(no_cards(&reason))),
    };
    let cards: Vec<DrmCard> =
        cards.into_iter().filter(|card| card.vendor == Some(AMD) || card.has("mem_info_vram_total")).collect();
    let place = tree.place();
    if cards.is_empty() {
        return CollectedGpus::none(tried(format!("no AMD GPU in {}", place.display())));
    }
    let mut gpus = CollectedGpus::default();
    let mut found: Vec<Option<FoundGpu>> = Vec::new();
    let mut uuids = Vec::new();
    for (index, card) in cards.iter().enumerate() {
        uuids.push(card.text("unique_id").map_or_else(String::new, |id| format!("GPU-{id}")));
        found.push(match read_amd(card) {
            Ok(gpu) => Some(gpu),
            Err(reason) => {
                let sentence = format!("GPU {index} at {} is left out: {reason}", card.place());
                gpus.tried.push(tried(sentence));
                None
            }
        });
    }
    for index in visible_gpus(options, &uuids, &mut gpus.tried) {
        gpus.list.extend(found.get_mut(index).and_then(Option::take));
    }
    let drivers: Vec<&str> = cards.iter().filter_map(|card| card.driver.as_deref()).collect();
    let driver = drivers.first().map(|driver| format!(", driver {driver}")).unwrap_or_default();
    gpus.tried.insert(0, tried(format!("{} through {}{driver}", counted(gpus.list.len()), place.display())));
    gpus
}

/// Indices of the visible GPUs, in the order of use. `HIP_VISIBLE_DEVICES` selects among those that
/// `ROCR_VISIBLE_DEVICES` leaves; without it HIP reads `CUDA_VISIBLE_DEVICES`.
///
/// ROCm's documentation, "GPU isolation techniques" (ROCm 6.3). Assumed: indices follow the PCI addresses.
fn visible_gpus(options: &DetectOptions, uuids: &[String], tried: &mut Vec<CollectorResult>) -> Vec<usize> {
    let mut left: Vec<usize> = (0..uuids.len()).collect();
    let hip = match &options.hip_visible_devices {
        Some(value) => ("HIP_VISIBLE_DEVICES", Some(value)),
        None => ("CUDA_VISIBLE_DEVICES", options.cuda_visible_devices.as_ref()),
    };
    for (name, value) in [("ROCR_VISIBLE_DEVICES", options.rocr_visible_devices.as_ref()), hip] {
        let names: Vec<&str> = left.iter().filter_map(|&index| uuids.get(index)).map(String::as_str).collect();
        let rule = VisibilityRule { name, program: "ROCm", prefixes: &["GPU-"], countable: names.len() };
        let visible = visible(&rule, value.map(String::as_str), &names);
        tried.extend(visible.note.map(|outcome| CollectorResult { collector: "amd", outcome }));
        left = visible.indices.iter().filter_map(|&index| left.get(index).copied()).collect();
    }
    left
}

fn read_amd(card: &DrmCard) -> Result<FoundGpu, String> {
    let memory = |kind: &str| -> Result<(Bytes, Bytes), String> {
        let total = card.number(&format!("mem_info_{kind}_total"))?;
        let used = card.number(&format!("mem_info_{kind}_used"))?;
        if used > total {
            return Err(format!("mem_info_{kind}_used is {used}, more than mem_info_{kind}_total, {total}"));
        }
        Ok((Bytes(total), Bytes(total - used)))
    };
    let (vram, vram_free) = memory("vram")?;
    let gtt = memory("gtt").ok();
    let known = identified(card);
    let (integrated, because) = is_integrated(card, known.as_ref(), vram, gtt.map(|(total, _)| total));
    let (mut total, mut free) = (vram, vram_free);
    let mut facts = Vec::new();
    facts.push(("told by", "sysfs, mem_info_vram_total and mem_info_vram_used".to_owned()));
    facts.extend(card.pci.clone().map(|pci| ("PCI", pci)));
    facts.extend(card.driver.clone().map(|driver| ("driver", driver)));
    facts.extend(card.text("unique_id").map(|id| ("UUID", format!("GPU-{id}"))));
    facts.extend(card.text("vbios_version").map(|version| ("VBIOS", version)));
    if integrated {
        let shared = gtt.map_or_else(
            || "GTT not reported".to_owned(),
            |(gtt, gtt_free)| {
                total += gtt;
                free += gtt_free;
                format!("{gtt} of shared RAM (GTT), {gtt_free} of it free")
            },
        );
        facts.push(("integrated", because.to_owned()));
        facts.push(("pool", format!("a carve-out of {vram}, {vram_free} of it free, and {shared}")));
    } else if let Some((gtt, _)) = gtt {
        facts.push(("GTT", format!("{gtt} of RAM, not counted")));
    }
    let mut files = vec![(card.path("mem_info_vram_total"), card.path("mem_info_vram_used"))];
    if integrated && gtt.is_some() {
        files.push((card.path("mem_info_gtt_total"), card.path("mem_info_gtt_used")));
    }
    let probe = move |_: &Ram| {
        let mut free = Bytes::ZERO;
        for (total, used) in &files {
            free += Bytes(number(total)?) - Bytes(number(used)?);
        }
        Ok(free)
    };
    let name = known.map_or_else(|| "AMD GPU".to_owned(), |known| known.name);
    let gpu = Gpu {
        free,
        integrated,
        dedicated: integrated.then_some(vram),
        listed: Listed { pci: card.pci.as_deref().map(Into::into), ..Listed::default() },
        display: card.display(),
        link: card.link().filter(|_| !integrated),
        ..Gpu::of(&name, Backend::Rocm, total)
    };
    let probes = GpuProbes { free: Box::new(probe), holders: fdinfo::holders(card.pci.clone(), integrated) };
    Ok(FoundGpu { gpu, facts, processes: Vec::new(), probes })
}

/// Whether the GPU is part of the processor, and why.
fn is_integrated(card: &DrmCard, known: Option<&AmdGpu>, vram: Bytes, gtt: Option<Bytes>) -> (bool, &'static str) {
    // format_revision, the byte after structure_size: 1 for cards, 2 and 3 for processors with a GPU
    if let Some(revision) = card.bytes("gpu_metrics").and_then(|bytes| bytes.get(2).copied()) {
        return (revision >= 2, "yes, by the format of its gpu_metrics");
    }
    if let Some(integrated) = known.and_then(|known| known.integrated) {
        return (integrated, "yes, by its PCI ID");
    }
    let small = vram < MAX_CARVE_OUT && gtt.is_some_and(|gtt| gtt > vram);
    (small, "assumed: it has little dedicated memory and may use more of RAM")
}

/// A GPU identified by its PCI device ID.
struct AmdGpu {
    name: String,
    /// Whether it is part of a processor; none if unknown.
    integrated: Option<bool>,
}

/// libdrm's list of names.
const IDS: &str = "/usr/share/libdrm/amdgpu.ids";

/// Processors with a GPU, by PCI device ID. Source: `amdgpu.ids` of libdrm 2.4.124 and the processors' data sheets.
const INTEGRATED: [(u32, &str); 17] = [
    (0x15dd, "Radeon Vega (Raven Ridge)"),
    (0x15d8, "Radeon Vega (Picasso)"),
    (0x1636, "Radeon Vega (Renoir)"),
    (0x164c, "Radeon Vega (Lucienne)"),
    (0x1638, "Radeon Vega (Cezanne)"),
    (0x15e7, "Radeon Vega (Barcelo)"),
    (0x163f, "Radeon (Van Gogh)"),
    (0x164e, "Radeon 610M (Raphael)"),
    (0x13c0, "Radeon 610M (Granite Ridge)"),
    (0x1506, "Radeon 610M (Mendocino)"),
    (0x1681, "Radeon 680M"),
    (0x15bf, "Radeon 780M"),
    (0x15c8, "Radeon 740M"),
    (0x1900, "Radeon 780M"),
    (0x150e, "Radeon 890M"),
    (0x1114, "Radeon 860M"),
    (0x1586, "Radeon 8060S (Strix Halo)"),
];

/// Cards that libdrm's list may be too old for: PCI device ID, revision (0 means any), name.
const AMD_CARDS: [(u32, u32, &str); 12] = [
    (0x744c, 0xc8, "Radeon RX 7900 XTX"),
    (0x744c, 0xcc, "Radeon RX 7900 XT"),
    (0x744c, 0xce, "Radeon RX 7900 GRE"),
    (0x747e, 0xc8, "Radeon RX 7800 XT"),
    (0x747e, 0xff, "Radeon RX 7700 XT"),
    (0x7480, 0xc0, "Radeon RX 7600 XT"),
    (0x7480, 0xcf, "Radeon RX 7600"),
    (0x7550, 0xc0, "Radeon RX 9070 XT"),
    (0x7550, 0xc3, "Radeon RX 9070"),
    (0x7590, 0xc0, "Radeon RX 9060 XT"),
    (0x74a1, 0, "Instinct MI300X"),
    (0x74a5, 0, "Instinct MI325X"),
];

/// Identifies `card` by its `product_name`, then by its PCI device ID.
fn identified(card: &DrmCard) -> Option<AmdGpu> {
    let device = card.device;
    let processor = device.and_then(|device| INTEGRATED.iter().find(|&&(id, _)| id == device));
    let revision = card.hex("revision").unwrap_or(0);
    let listed = AMD_CARDS.iter().find(|&&(id, which, _)| Some(id) == device && (which == 0 || which == revision));
    let integrated = processor.map(|_| true).or_else(|| listed.map(|_| false));
    let name = card
        .text("product_name")
        .or_else(|| listed.map(|&(_, _, name)| format!("AMD {name}")))
        .or_else(|| processor.map(|&(_, name)| format!("AMD {name}")))
        .or_else(|| in_list(&attribute(Path::new(IDS)).ok()?, device?, revision));
    match name {
        Some(name) => Some(AmdGpu { name, integrated }),
        None => device.map(|device| AmdGpu { name: format!("AMD GPU {device:04x}"), integrated }),
    }
}

/// The name in libdrm's list, whose lines are `device ID, revision, name`.
fn in_list(list: &str, device: u32, revision: u32) -> Option<String> {
    list.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = line.splitn(3, ',').map(str::trim);
        let number = |field: Option<&str>| u32::from_str_radix(field?, 16).ok();
        let is_it = number(fields.next())? == device && number(fields.next())? == revision;
        let name = fields.next().filter(|name| !name.is_empty())?;
        is_it.then(|| name.to_owned())
    })
}

const INTEL: u32 = 0x8086;
/// Share of the memory assumed free if the driver does not report it.
const ASSUMED_FREE: f64 = 0.95;

/// Cards by PCI device ID, with their memory in GiB. Source: Linux 6.12, `include/drm/intel/pciids.h`, and Intel's data
/// sheets; the A770 was sold with two sizes.
const INTEL_CARDS: [(u32, &str, Option<u64>); 7] = [
    (0x56a0, "Intel Arc A770", None),
    (0x56a1, "Intel Arc A750", Some(8)),
    (0x56a2, "Intel Arc A580", Some(8)),
    (0x56a5, "Intel Arc A380", Some(6)),
    (0x56a6, "Intel Arc A310", Some(4)),
    (0xe20b, "Intel Arc B580", Some(12)),
    (0xe20c, "Intel Arc B570", Some(10)),
];

/// Intel's GPUs.
pub(super) fn intel(tree: &SysfsTree) -> CollectedGpus {
    let tried = |outcome| CollectorResult { collector: "intel", outcome };
    let cards = match tree.cards() {
        Ok(cards) => cards,
        Err(reason) => return CollectedGpus::none(tried(no_cards(&reason))),
    };
    let mut gpus = CollectedGpus::default();
    let place = tree.place();
    let cards: Vec<&DrmCard> = cards.iter().filter(|card| card.vendor == Some(INTEL)).collect();
    for card in &cards {
        match read_intel(card) {
            Ok(found) => gpus.list.push(found),
            Err(reason) => gpus.tried.push(tried(format!("the GPU at {} is left out: {reason}", card.place()))),
        }
    }
    let outcome = match gpus.list.len() {
        0 if cards.is_empty() => format!("no Intel GPU in {}", place.display()),
        gpus => format!("{} through {}", counted(gpus), place.display()),
    };
    gpus.tried.insert(0, tried(outcome));
    gpus
}

fn read_intel(card: &DrmCard) -> Result<FoundGpu, String> {
    let known = INTEL_CARDS.iter().find(|&&(id, ..)| Some(id) == card.device);
    let tiles: u64 = (0..8).map_while(|tile| card.number(&format!("tile{tile}/physical_vram_size_bytes")).ok()).sum();
    let local = card.number("../lmem_total_bytes").or_else(|_| card.number("lmem_total_bytes")).ok();
    let reported = [Some(tiles).filter(|&bytes| bytes > 0), local].into_iter().flatten().next();
    let by_name = known.and_then(|&(_, _, gib)| gib).map(Bytes::gib);
    let total = reported.map(Bytes).or(by_name).ok_or_else(|| match known {
        Some((_, name, _)) => {
            format!("neither xe nor i915 reports the memory of the {name}; specify it with --gpu")
        }
        None => "its driver reports no dedicated memory, so it shares RAM; specify it with --gpu \
                 total=…,backend=Vulkan,integrated=true to plan for it"
            .to_owned(),
    })?;
    let avail =
        ["../lmem_avail_bytes", "lmem_avail_bytes"].into_iter().map(|file| card.path(file)).find(|path| path.is_file());
    let assumed = Bytes((total.0 as f64 * ASSUMED_FREE) as u64);
    let mut facts = Vec::new();
    facts.extend(card.pci.clone().map(|pci| ("PCI", pci)));
    facts.extend(card.driver.clone().map(|driver| ("driver", driver)));
    if reported.is_none() {
        facts.push(("total", "assumed from the card's name: not reported by the driver".to_owned()));
    }
    if avail.is_none() {
        facts.push(("free", "assumed 95 %: not reported by the driver".to_owned()));
    }
    let probe = move |_: &Ram| match &avail {
        Some(path) => number(path).map(|bytes| Bytes(bytes).min(total)),
        None => Ok(assumed),
    };
    let nothing = Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None };
    let free = probe(&nothing)?;
    let name = known.map_or_else(
        || card.device.map_or_else(|| "Intel GPU".to_owned(), |id| format!("Intel GPU {id:04x}")),
        |&(_, name, _)| name.to_owned(),
    );
    let gpu = Gpu { free, display: card.display(), ..Gpu::of(&name, Backend::Vulkan, total) };
    let probes = GpuProbes { free: Box::new(probe), holders: fdinfo::holders(card.pci.clone(), false) };
    Ok(FoundGpu { gpu, facts, processes: Vec::new(), probes })
}

/// Vendors whose cards have a collector with any driver: AMD and Intel.
const COLLECTED: [u32; 2] = [AMD, INTEL];
const NVIDIA: u32 = 0x10de;

/// Reports the cards that no collector reads. Vulkan itself is not queried: its loader runs the code of every installed
/// driver in this process, where a broken one would crash it, and needs unsafe code. The user can describe such cards.
pub(super) fn others(tree: Option<&SysfsTree>) -> CollectorResult {
    let outcome = match tree.map(|tree| (tree, tree.cards())) {
        None => "GPUs of other vendors are not detected on this system: specify them with --gpu".to_owned(),
        Some((_, Err(reason))) => format!("{}; Vulkan itself is not queried", no_cards(&reason)),
        Some((tree, Ok(cards))) => {
            let missed: Vec<String> = cards.iter().filter(|card| is_missed(card)).map(shown).collect();
            let place = tree.place();
            match missed.as_slice() {
                [] => format!("no other GPU in {}; Vulkan itself is not queried", place.display()),
                missed => format!(
                    "no collector reads {}, and Vulkan is not queried: specify compute devices with --gpu \
                     total=…,backend=Vulkan",
                    missed.join(", ")
                ),
            }
        }
    };
    CollectorResult { collector: "vulkan", outcome }
}

/// Whether no other collector reads it. NVML sees NVIDIA's cards only with NVIDIA's own driver.
fn is_missed(card: &DrmCard) -> bool {
    let collected = card.vendor.is_some_and(|vendor| COLLECTED.contains(&vendor)) || card.has("mem_info_vram_total");
    let by_nvml = card.vendor == Some(NVIDIA) && card.driver.as_deref() == Some("nvidia");
    !collected && !by_nvml
}

/// `card1 (driver nouveau)`
fn shown(card: &DrmCard) -> String {
    match &card.driver {
        Some(driver) => format!("{} (driver {driver})", card.place()),
        None => card.place().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libdrm_names_are_found_by_device_id_and_revision() {
        let list = "# comment\n1.0.0\n73BF,\tC1,\tAMD Radeon RX 6800 XT\n73BF,\tC3,\tAMD Radeon RX 6800\n";
        assert_eq!(in_list(list, 0x73bf, 0xc3).as_deref(), Some("AMD Radeon RX 6800"));
        assert_eq!(in_list(list, 0x73bf, 0xc0), None);
    }

    #[test]
    fn an_idle_link_is_what_card_and_port_can_do() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        fs::create_dir(&device).unwrap();
        let link = |files: &[(&str, &str)]| {
            for (file, text) in files {
                fs::write(device.join(file), text).unwrap();
            }
            DrmCard::read("card0".to_owned(), device.clone()).link()
        };
        assert_eq!(link(&[]), None);
        let idle = [("current_link_speed", "2.5 GT/s PCIe\n"), ("current_link_width", "8\n")];
        assert_eq!(link(&idle), Link::pcie(1, 8).ok());
        assert_eq!(link(&[("max_link_speed", "32.0 GT/s PCIe\n")]), Link::pcie(5, 8).ok());
        assert_eq!(link(&[("../max_link_speed", "16.0 GT/s PCIe\n")]), Link::pcie(4, 8).ok());
        assert_eq!(link(&[("current_link_width", "0\n")]), None);
    }
}
