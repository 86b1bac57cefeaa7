//! AMD GPUs, from the Linux driver amdgpu's files in sysfs.
//!
//! Meaning of the files: the kernel's `Documentation/gpu/amdgpu/driver-misc.rst` (memory) and
//! `drivers/gpu/drm/amd/include/kgd_pp_interface.h` (`gpu_metrics`), Linux 6.12.

use std::fs;

use super::sysfs::{DrmCard, SysfsTree};
use super::visible::{VisibilityRule, visible};
use super::{CollectedGpus, CollectorResult, DetectOptions, FoundGpu, sysfs};
use crate::machine::{Backend, Gpu, Listed, Ram};
use crate::units::Bytes;

const AMD: u32 = 0x1002;
/// Less dedicated memory than this is taken for a carve-out of main memory, if nothing else identifies an integrated
/// GPU.
const MAX_CARVE_OUT: Bytes = Bytes::gib(2);

pub(super) fn collect(options: &DetectOptions, tree: &SysfsTree) -> CollectedGpus {
    let tried = |outcome| CollectorResult { collector: "amd", outcome };
    let cards = match tree.cards() {
        Ok(cards) => cards,
        Err(reason) => {
            return CollectedGpus {
                tried: vec![tried(format!("no graphics cards in sysfs ({reason})"))],
                ..CollectedGpus::default()
            };
        }
    };
    let cards: Vec<DrmCard> =
        cards.into_iter().filter(|card| card.vendor == Some(AMD) || card.has("mem_info_vram_total")).collect();
    let place = tree.place();
    if cards.is_empty() {
        return CollectedGpus {
            tried: vec![tried(format!("no AMD GPU in {}", place.display()))],
            ..CollectedGpus::default()
        };
    }
    let mut gpus = CollectedGpus::default();
    let mut found: Vec<Option<FoundGpu>> = Vec::new();
    let mut uuids = Vec::new();
    for (index, card) in cards.iter().enumerate() {
        uuids.push(card.text("unique_id").map_or_else(String::new, |id| format!("GPU-{id}")));
        found.push(match read(card) {
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
    let count = match gpus.list.len() {
        1 => "1 GPU".to_owned(),
        n => format!("{n} GPUs"),
    };
    let drivers: Vec<&str> = cards.iter().filter_map(|card| card.driver.as_deref()).collect();
    let driver = drivers.first().map(|driver| format!(", driver {driver}")).unwrap_or_default();
    gpus.tried.insert(0, tried(format!("{count} through {}{driver}", place.display())));
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

fn read(card: &DrmCard) -> Result<FoundGpu, String> {
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
    let known = of(card);
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
            free += Bytes(sysfs::number(total)?) - Bytes(sysfs::number(used)?);
        }
        Ok(free)
    };
    let name = known.map_or_else(|| "AMD GPU".to_owned(), |known| known.name);
    let gpu = Gpu {
        name,
        backend: Backend::Rocm,
        total,
        free,
        integrated,
        dedicated: integrated.then_some(vram),
        compute: None,
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: Listed { pci: card.pci.as_deref().map(Into::into), ..Listed::default() },
        driver_memory: None,
    };
    Ok(FoundGpu { gpu, facts, processes: Vec::new(), probe: Box::new(probe) })
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
    pub name: String,
    /// Whether it is part of a processor; none if unknown.
    pub integrated: Option<bool>,
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
const CARDS: [(u32, u32, &str); 12] = [
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
fn of(card: &DrmCard) -> Option<AmdGpu> {
    let device = card.device;
    let processor = device.and_then(|device| INTEGRATED.iter().find(|&&(id, _)| id == device));
    let revision = card.hex("revision").unwrap_or(0);
    let listed = CARDS.iter().find(|&&(id, which, _)| Some(id) == device && (which == 0 || which == revision));
    let integrated = processor.map(|_| true).or_else(|| listed.map(|_| false));
    let name = card
        .text("product_name")
        .or_else(|| listed.map(|&(_, _, name)| format!("AMD {name}")))
        .or_else(|| processor.map(|&(_, name)| format!("AMD {name}")))
        .or_else(|| in_list(&fs::read_to_string(IDS).ok()?, device?, revision));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libdrm_names_are_found_by_device_id_and_revision() {
        let list = "# comment\n1.0.0\n73BF,\tC1,\tAMD Radeon RX 6800 XT\n73BF,\tC3,\tAMD Radeon RX 6800\n";
        assert_eq!(in_list(list, 0x73bf, 0xc3).as_deref(), Some("AMD Radeon RX 6800"));
        assert_eq!(in_list(list, 0x73bf, 0xc0), None);
    }
}
