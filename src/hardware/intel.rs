//! Intel GPUs, from what little the Linux drivers xe and i915 report about memory in sysfs.
//!
//! xe: `tileN/physical_vram_size_bytes` (`drivers/gpu/drm/xe/xe_tile_sysfs.c`, Linux 6.8). i915 as Intel ships it for
//! its cards: `lmem_total_bytes` and `lmem_avail_bytes` next to `device`.

use super::sysfs::{self, DrmCard, SysfsTree};
use super::{CollectedGpus, CollectorResult, FoundGpu};
use crate::machine::{Backend, Gpu, Ram};
use crate::units::Bytes;

const INTEL: u32 = 0x8086;
/// Share of the memory assumed free if the driver does not report it.
const ASSUMED_FREE: f64 = 0.95;

/// Cards by PCI device ID, with their memory in GiB. Source: Linux 6.12, `include/drm/intel/pciids.h`, and Intel's data
/// sheets; the A770 was sold with two sizes.
const CARDS: [(u32, &str, Option<u64>); 7] = [
    (0x56a0, "Intel Arc A770", None),
    (0x56a1, "Intel Arc A750", Some(8)),
    (0x56a2, "Intel Arc A580", Some(8)),
    (0x56a5, "Intel Arc A380", Some(6)),
    (0x56a6, "Intel Arc A310", Some(4)),
    (0xe20b, "Intel Arc B580", Some(12)),
    (0xe20c, "Intel Arc B570", Some(10)),
];

pub(super) fn collect(tree: &SysfsTree) -> CollectedGpus {
    let tried = |outcome| CollectorResult { collector: "intel", outcome };
    let cards = match tree.cards() {
        Ok(cards) => cards,
        Err(reason) => {
            return CollectedGpus {
                tried: vec![tried(format!("no graphics cards in sysfs ({reason})"))],
                ..CollectedGpus::default()
            };
        }
    };
    let mut gpus = CollectedGpus::default();
    let place = tree.place();
    let cards: Vec<&DrmCard> = cards.iter().filter(|card| card.vendor == Some(INTEL)).collect();
    for card in &cards {
        match read(card) {
            Ok(found) => gpus.list.push(found),
            Err(reason) => gpus.tried.push(tried(format!("the GPU at {} is left out: {reason}", card.place()))),
        }
    }
    let outcome = match gpus.list.len() {
        0 if cards.is_empty() => format!("no Intel GPU in {}", place.display()),
        1 => format!("1 GPU through {}", place.display()),
        n => format!("{n} GPUs through {}", place.display()),
    };
    gpus.tried.insert(0, tried(outcome));
    gpus
}

fn read(card: &DrmCard) -> Result<FoundGpu, String> {
    let known = CARDS.iter().find(|&&(id, ..)| Some(id) == card.device);
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
        Some(path) => sysfs::number(path).map(|bytes| Bytes(bytes).min(total)),
        None => Ok(assumed),
    };
    let nothing = Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None };
    let free = probe(&nothing)?;
    let name = known.map_or_else(
        || card.device.map_or_else(|| "Intel GPU".to_owned(), |id| format!("Intel GPU {id:04x}")),
        |&(_, name, _)| name.to_owned(),
    );
    let gpu = Gpu {
        name,
        backend: Backend::Vulkan,
        total,
        free,
        integrated: false,
        compute: None,
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
    };
    Ok(FoundGpu { gpu, facts, processes: Vec::new(), probe: Box::new(probe) })
}
