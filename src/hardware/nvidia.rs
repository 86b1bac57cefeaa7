//! NVIDIA GPUs through the driver's library NVML, which is loaded at run time. A missing library or driver means no GPU
//! and is reported.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::{
    CollectedGpus, CollectorResult, DetectOptions, FoundGpu, FreeMemoryProbe, GpuProbes, HoldersProbe, Process, counted,
};
use crate::machine::visible::{VisibilityRule, visible};
use crate::machine::{Backend, Drivers, Gpu, Link, MAX_GPUS, Ram, drivers};
use crate::units::Bytes;

/// A GPU or one of its MIG instances: index of the card, index among its instances.
type GpuIndex = (usize, Option<usize>);

pub(super) fn collect(options: &DetectOptions, ram: Ram) -> CollectedGpus {
    let (nvml, place) = match load(options.nvml.as_deref()) {
        Ok(loaded) => loaded,
        Err(reason) => return CollectedGpus::none(tried(reason)),
    };
    let driver = nvml.sys_driver_version().ok();
    let branch = driver.as_deref().and_then(|version| drivers::major(version).ok());
    let cuda = nvml.sys_cuda_driver_version().ok();
    let driver = driver.map(|version| format!(", driver {version}")).unwrap_or_default();
    let version = cuda.map(|cuda| format!(", CUDA {}.{}", cuda / 1000, cuda % 1000 / 10)).unwrap_or_default();
    let through = format!("through {place}{driver}{version}");
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return CollectedGpus::none(tried(format!("no GPU {through}: {error}"))),
    };
    let cards: Vec<NvmlGpu> = (0..count).take(MAX_GPUS).map(|index| nvml_gpu(&nvml, index, cuda, ram)).collect();
    let nvml = Arc::new(nvml);
    let source = format!("NVML ({place})");
    let (picks, mut results) = choose(&cards, options);
    let list: Vec<FoundGpu> = picks.into_iter().filter_map(|pick| found(&cards, pick, &nvml, &source)).collect();
    results.insert(0, tried(format!("{} {through}", counted(list.len()))));
    if count as usize > MAX_GPUS {
        results.push(tried(format!("the driver counts {count} GPUs: only the first {MAX_GPUS} are looked at")));
    }
    CollectedGpus { list, tried: results, drivers: Drivers { nvidia: branch, jetpack: None } }
}

fn tried(outcome: String) -> CollectorResult {
    CollectorResult { collector: "nvml", outcome }
}

/// The details of a GPU or MIG instance, with a probe of its free memory.
fn found(cards: &[NvmlGpu], (index, instance): GpuIndex, nvml: &Arc<Nvml>, source: &str) -> Option<FoundGpu> {
    let card = cards.get(index)?;
    let picked = instance.and_then(|instance| card.instances.get(instance));
    let of = picked.map_or(card, |(_, instance)| instance);
    let mut facts = vec![("told by", source.to_owned())];
    facts.extend(of.facts.iter().cloned());
    if picked.is_some() {
        facts.extend(card.facts.iter().filter(|(what, _)| *what != "UUID").cloned());
    }
    let number = picked.map(|&(number, _)| number);
    let index = u32::try_from(index).ok()?;
    let free = free_memory_probe(Arc::clone(nvml), index, number, of.shares_ram);
    let probes = GpuProbes { free, holders: holders_probe(Arc::clone(nvml), index) };
    Some(FoundGpu { gpu: of.gpu.as_ref().ok()?.clone(), facts, processes: card.processes.clone(), probes })
}

fn holders_probe(nvml: Arc<Nvml>, index: u32) -> HoldersProbe {
    Box::new(move |_| {
        let device = nvml.device_by_index(index).map_err(|error| error.to_string())?;
        processes(&nvml, &device)
    })
}

fn free_memory_probe(nvml: Arc<Nvml>, index: u32, instance: Option<u32>, shares_ram: bool) -> FreeMemoryProbe {
    if shares_ram {
        return Box::new(|ram| Ok(ram.free));
    }
    Box::new(move |_| {
        let free = || {
            let device = nvml.device_by_index(index)?;
            let device =
                instance.map_or(Ok(device), |number| nvml.device_by_index(index)?.mig_device_by_index(number))?;
            Ok(Bytes(device.memory_info()?.free))
        };
        free().map_err(|error: nvml_wrapper::error::NvmlError| error.to_string())
    })
}

/// The visible GPUs that respond, in the order of use, and notes on the others.
fn choose(cards: &[NvmlGpu], options: &DetectOptions) -> (Vec<GpuIndex>, Vec<CollectorResult>) {
    let instances =
        cards.iter().enumerate().flat_map(|(card, of)| (0..of.instances.len()).map(move |i| (card, Some(i))));
    let all: Vec<GpuIndex> = (0..cards.len()).map(|card| (card, None)).chain(instances).collect();
    let uuid = |&(card, instance): &GpuIndex| {
        let card = cards.get(card)?;
        let of = instance.map_or(Some(card), |instance| Some(&card.instances.get(instance)?.1))?;
        Some(of.uuid.as_str())
    };
    let uuids: Vec<&str> = all.iter().filter_map(uuid).collect();
    let rule = VisibilityRule {
        name: "CUDA_VISIBLE_DEVICES",
        program: "CUDA",
        prefixes: &["GPU-", "MIG-"],
        countable: cards.len(),
    };
    let visible = visible(&rule, options.cuda_visible_devices.as_deref(), &uuids);
    let mut results: Vec<CollectorResult> = visible.note.map(tried).into_iter().collect();
    if by_number(options) && differ(cards) && options.cuda_device_order.as_deref() != Some("PCI_BUS_ID") {
        results.push(tried(
            "CUDA orders different GPUs by speed, the driver by PCI address: name them by UUID, or set \
             CUDA_DEVICE_ORDER=PCI_BUS_ID"
                .to_owned(),
        ));
    }
    for (index, card) in cards.iter().enumerate() {
        results.extend(card.notes.iter().map(|note| tried(format!("GPU {index} of the driver: {note}"))));
        if let Err(reason) = &card.gpu {
            results.push(tried(format!("GPU {index} of the driver is left out: {reason}")));
        }
    }
    let picks = visible.indices.iter().filter_map(|&index| all.get(index).copied());
    let picks: Vec<GpuIndex> =
        picks.filter(|&(card, _)| cards.get(card).is_some_and(|card| card.gpu.is_ok())).collect();
    (visible_mig_instances(cards, &picks, &mut results), results)
}

/// Applies CUDA's rule for GPUs in MIG mode: a program sees a single instance and then no other GPU.
/// NVIDIA Multi-Instance GPU User Guide r570, "CUDA Device Enumeration".
fn visible_mig_instances(cards: &[NvmlGpu], picks: &[GpuIndex], results: &mut Vec<CollectorResult>) -> Vec<GpuIndex> {
    let is_mig = |card: usize| cards.get(card).is_some_and(|card| card.mig_enabled);
    let usable = |&(card, instance): &GpuIndex| {
        let own = cards.get(card).map_or(0, |card| card.instances.len());
        match instance {
            Some(instance) => Some((card, Some(instance))),
            None if !is_mig(card) => Some((card, None)),
            None => (own > 0).then_some((card, Some(0))),
        }
    };
    for (card, _) in picks.iter().filter(|pick| usable(pick).is_none()) {
        results.push(tried(format!("GPU {card} of the driver is left out: MIG is on, but it has no instance")));
    }
    let picks: Vec<GpuIndex> = picks.iter().filter_map(usable).collect();
    let Some(&instance) = picks.iter().find(|(_, instance)| instance.is_some()) else { return picks };
    let others: usize = cards.iter().map(|card| card.instances.len().max(usize::from(!card.mig_enabled))).sum();
    if others > 1 {
        results.push(tried(format!(
            "a CUDA program sees a single MIG instance and no other GPU; the other {} are left out: choose one by \
             its UUID in CUDA_VISIBLE_DEVICES",
            others - 1
        )));
    }
    vec![instance]
}

fn by_number(options: &DetectOptions) -> bool {
    options.cuda_visible_devices.as_deref().is_some_and(|list| {
        list.contains(|c: char| c.is_ascii_digit()) && !list.contains("GPU-") && !list.contains("MIG-")
    })
}

fn differ(cards: &[NvmlGpu]) -> bool {
    let names: Vec<_> = cards.iter().filter_map(|card| card.gpu.as_ref().ok()).map(|gpu| &gpu.name).collect();
    names.windows(2).any(|pair| pair.first() != pair.last())
}

/// NVML's description of a GPU or MIG instance. A GPU that does not respond keeps its index and has an error as `gpu`.
#[derive(Debug)]
struct NvmlGpu {
    pub uuid: String,
    pub gpu: Result<Gpu, String>,
    pub facts: Vec<(&'static str, String)>,
    pub processes: Vec<Process>,
    /// Whether it uses main memory, which NVML does not report.
    pub shares_ram: bool,
    /// Whether it is in MIG mode: programs can then only use its instances.
    pub mig_enabled: bool,
    /// Its MIG instances, with their indices.
    pub instances: Vec<(u32, Self)>,
    /// What of the driver's answers is not believed, a clause each.
    pub notes: Vec<String>,
}

/// The most MIG instances of a GPU that are looked for; GPUs have 7.
const MAX_INSTANCES: u32 = 64;
/// The most programs on a GPU that are listed.
const MAX_PROGRAMS: u32 = 4096;

/// Compute capabilities of NVIDIA's processors whose GPU has no dedicated memory: Jetson Nano, TX2, Xavier, Orin, Thor
/// (two numbers, before and after CUDA 13) and GB10. Source: CUDA C++ Programming Guide 13.0, "Compute Capabilities".
const SHARING: [(u32, u32); 7] = [(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)];

/// NVML's `NVML_DEVICE_MIG_ENABLE`.
const MIG_ON: u32 = 1;
/// Buffer size for process names.
const NAME: usize = 256;

/// Queries the GPU at `index`. `cuda`: the newest CUDA version that the driver supports, in NVML's notation (12040).
fn nvml_gpu(nvml: &Nvml, index: u32, cuda: Option<i32>, ram: Ram) -> NvmlGpu {
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => return NvmlGpu::unresponsive(error.to_string()),
    };
    let mut card = describe(&device, cuda, ram, None);
    card.facts.extend(device.pci_info().ok().map(|pci| ("PCI", pci.bus_id)));
    card.facts.extend(nvml.sys_driver_version().ok().map(|version| ("driver", version)));
    match processes(nvml, &device) {
        Ok(processes) => card.processes = processes,
        Err(why) => card.notes.push(why),
    }
    card.mig_enabled = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ON);
    if card.mig_enabled {
        let parent = card.gpu.as_ref().ok().cloned();
        // indices without an instance return NotFound
        let max = device.mig_device_count().unwrap_or(0);
        if max > MAX_INSTANCES {
            card.notes
                .push(format!("it has {max} MIG instances at most, of which the first {MAX_INSTANCES} are looked at"));
        }
        let found =
            (0..max.min(MAX_INSTANCES)).filter_map(|number| Some((number, device.mig_device_by_index(number).ok()?)));
        card.instances =
            found.map(|(number, instance)| (number, describe(&instance, cuda, ram, parent.as_ref()))).collect();
        let sizes = card.instances.iter().filter_map(|(_, instance)| {
            let gpu = instance.gpu.as_ref().ok()?;
            Some(format!("{} ({}, {} free of {})", instance.uuid, gpu.name, gpu.free, gpu.total))
        });
        let sizes: Vec<String> = sizes.collect();
        let listed = if sizes.is_empty() { "on, without an instance".to_owned() } else { sizes.join(", ") };
        card.facts.push(("MIG", listed));
    }
    card
}

impl NvmlGpu {
    fn unresponsive(reason: String) -> Self {
        Self {
            uuid: String::new(),
            gpu: Err(reason),
            facts: Vec::new(),
            processes: Vec::new(),
            shares_ram: false,
            mig_enabled: false,
            instances: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Queries a GPU, or a MIG instance of `parent`.
fn describe(device: &Device<'_>, cuda: Option<i32>, ram: Ram, parent: Option<&Gpu>) -> NvmlGpu {
    let uuid = device.uuid().unwrap_or_default();
    let compute = device.cuda_compute_capability().ok();
    let compute = compute.and_then(|found| Some((found.major.try_into().ok()?, found.minor.try_into().ok()?)));
    let compute = compute.or_else(|| parent.and_then(|parent| parent.compute));
    let sharing = compute.is_some_and(|compute| SHARING.contains(&compute));
    let mut facts = Vec::new();
    facts.extend((!uuid.is_empty()).then(|| ("UUID", uuid.clone())));
    let (memory, shares_ram) = match device.memory_info() {
        Ok(memory) => (Ok((Bytes(memory.total), Bytes(memory.free.min(memory.total)))), false),
        Err(NvmlError::NotSupported) if sharing => (Ok((ram.total, ram.free)), true),
        Err(error) => (Err(format!("its memory is not reported: {error}")), false),
    };
    if shares_ram {
        facts.push(("pool", "it has no dedicated memory and may use all of RAM".to_owned()));
    }
    let unnamed = || parent.map_or_else(|| "NVIDIA GPU".to_owned(), |parent| format!("{} MIG", parent.name));
    let gpu = memory.map(|(total, free)| Gpu {
        free,
        integrated: shares_ram,
        compute,
        driver_major: cuda.and_then(|version| (version / 1000).try_into().ok()),
        link: link(device).filter(|_| !shares_ram),
        display: device.is_display_active().ok(),
        ..Gpu::of(&device.name().unwrap_or_else(|_| unnamed()), Backend::Cuda, total)
    });
    NvmlGpu { uuid, gpu, facts, shares_ram, ..NvmlGpu::unresponsive(String::new()) }
}

/// Its link: the newest generation that card and board can do, as it falls while the card is idle, and the lanes in use.
fn link(device: &Device<'_>) -> Option<Link> {
    Link::pcie(device.max_pcie_link_gen().ok()?, device.current_pcie_link_width().ok()?).ok()
}

/// Compute and graphics processes on the GPU, each once, the largest first; none if the driver does not report them.
///
/// # Errors
/// One clause, if they are more than there can be.
fn processes(nvml: &Nvml, device: &Device<'_>) -> Result<Vec<Process>, String> {
    let counts = [device.running_compute_processes_count(), device.running_graphics_processes_count()];
    if let Some(count) = counts.into_iter().flatten().find(|count| *count > MAX_PROGRAMS) {
        return Err(format!("it counts {count} programs, more than {MAX_PROGRAMS}, and none is listed"));
    }
    let mut found: Vec<Process> = Vec::new();
    let lists = [device.running_compute_processes(), device.running_graphics_processes()];
    for ProcessInfo { pid, used_gpu_memory, .. } in lists.into_iter().flatten().flatten() {
        let bytes = match used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
            UsedGpuMemory::Unavailable => None,
        };
        if let Some(process) = found.iter_mut().find(|process| process.pid == pid) {
            process.bytes = process.bytes.max(bytes);
        } else {
            let name = nvml.sys_process_name(pid, NAME).ok().filter(|name| !name.is_empty());
            found.push(Process { device: String::new(), pid, name, bytes });
        }
    }
    found.sort_by_key(|process| (std::cmp::Reverse(process.bytes), process.pid));
    Ok(found)
}

/// Names of the library: in the loader's search path, then WSL's folder.
#[cfg(not(windows))]
const PLACES: [&str; 3] = ["libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"];
#[cfg(windows)]
const PLACES: [&str; 2] = ["nvml.dll", "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll"];

/// What keeps a static binary from NVIDIA's library: musl's loader is not in it (musl's own `dlopen` fails there).
const STATIC: &str = "this static build cannot load NVIDIA's driver library, so NVIDIA GPUs are not detected: describe \
                      them with --gpu, or use a build for glibc";

/// Loads `path`, or the first library of [`PLACES`] that works. Also returns its name.
fn load(path: Option<&Path>) -> Result<(Nvml, String), String> {
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        return Err(STATIC.to_owned());
    }
    let places: Vec<&OsStr> = match path {
        Some(path) => vec![path.as_os_str()],
        None => PLACES.iter().map(|place| OsStr::new(*place)).collect(),
    };
    let mut reasons = Vec::new();
    for place in places {
        let name = place.to_string_lossy().into_owned();
        match Nvml::builder().lib_path(place).init() {
            Ok(nvml) => return Ok((nvml, name)),
            // the library exists: other names would load the same one
            Err(error) if !matches!(error, NvmlError::LibloadingError(_)) => {
                return Err(format!("{name}: {}", driver_error(&error)));
            }
            Err(error) => reasons.push(format!("{name}: {}", loader_error(&error, &name))),
        }
    }
    Err(format!("no NVIDIA driver library ({})", reasons.join("; ")))
}

/// The driver's error, with advice for the two common ones.
fn driver_error(error: &NvmlError) -> String {
    match error {
        NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded: load it, or restart the computer".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "this library and the loaded driver have different versions: restart the computer after an update"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// The loader's error without its prefix and the library's name, which the message already has.
fn loader_error(error: &NvmlError, name: &str) -> String {
    let text = error.to_string();
    let reason = text.strip_prefix("a libloading error occurred: ").unwrap_or(&text);
    let reason = reason.strip_prefix(name).map_or(reason, |rest| rest.trim_start_matches([':', ' ']));
    if reason.contains("No such file") {
        return "not found".to_owned();
    }
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(all(test, unix))]
mod nvml_tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvidia-ml.so.1");
        std::fs::write(&path, b"not a library").unwrap();
        let reason = load(Some(&path)).map(|_| ()).unwrap_err();
        assert!(reason.contains("libnvidia-ml.so.1") && !reason.contains('\n'), "{reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_card(name: &str, free: Result<u64, &str>) -> NvmlGpu {
        let gpu = free.map_err(str::to_owned).map(|free| Gpu {
            free: Bytes::gib(free),
            compute: Some((8, 6)),
            driver_major: Some(12),
            ..Gpu::of(name, Backend::Cuda, Bytes::gib(24))
        });
        NvmlGpu { uuid: format!("GPU-{name}"), gpu, ..NvmlGpu::unresponsive(String::new()) }
    }

    fn mig_enabled(name: &str, instances: &[&str]) -> NvmlGpu {
        let instance = |(number, name): (usize, &&str)| {
            (number as u32, NvmlGpu { uuid: format!("MIG-{name}"), ..a_card(name, Ok(4)) })
        };
        let instances = instances.iter().enumerate().map(instance).collect();
        NvmlGpu { mig_enabled: true, instances, ..a_card(name, Ok(1)) }
    }

    fn options(list: Option<&str>) -> DetectOptions {
        let cuda_visible_devices = list.map(str::to_owned);
        DetectOptions { cuda_visible_devices, cuda_device_order: None, ..DetectOptions::here() }
    }

    #[test]
    fn a_gpu_that_does_not_respond_is_left_out_and_reported() {
        let cards = vec![a_card("a", Ok(1)), a_card("b", Err("GPU is lost")), a_card("c", Ok(3))];
        let (picks, results) = choose(&cards, &options(None));
        assert_eq!(picks, [(0, None), (2, None)]);
        assert!(results.iter().any(|tried| tried.outcome.contains("GPU 1 of the driver is left out: GPU is lost")));
    }

    #[test]
    fn visible_device_indices_count_unresponsive_gpus() {
        let cards = [a_card("a", Err("lost")), a_card("b", Ok(2)), a_card("c", Ok(3))];
        let picks = |list| choose(&cards, &options(Some(list))).0.into_iter().map(|(card, _)| card).collect::<Vec<_>>();
        assert_eq!(picks("2,1"), [2, 1]);
        assert_eq!(picks("0"), Vec::<usize>::new());
        assert_eq!(picks("GPU-b"), [1]);
    }

    #[test]
    fn a_program_sees_one_mig_instance() {
        let cards = [mig_enabled("a", &["x", "y"]), a_card("b", Ok(2)), mig_enabled("c", &[])];
        let (picks, results) = choose(&cards, &options(None));
        assert_eq!(picks, [(0, Some(0))]);
        let results: String = results.into_iter().map(|tried| tried.outcome + "\n").collect();
        assert!(
            results.contains("the other 2 are") && results.contains("GPU 2 of the driver is left out: MIG"),
            "{results}"
        );
        assert_eq!(choose(&cards, &options(Some("MIG-y"))).0, [(0, Some(1))]);
        assert_eq!(choose(&cards, &options(Some("1"))).0, [(1, None)]);
        assert_eq!(choose(&cards, &options(Some("2"))).0, []);
    }

    #[test]
    fn indices_of_different_gpus_cause_a_warning_about_their_order() {
        let warned = |options: &DetectOptions, other| {
            let (_, results) = choose(&[a_card("a", Ok(1)), a_card(other, Ok(1))], options);
            results.iter().any(|tried| tried.outcome.contains("PCI_BUS_ID"))
        };
        assert!(warned(&options(Some("1")), "b"));
        assert!(
            !warned(&options(Some("1")), "a") && !warned(&options(None), "b") && !warned(&options(Some("GPU-b")), "b")
        );
        let ordered = DetectOptions { cuda_device_order: Some("PCI_BUS_ID".to_owned()), ..options(Some("1")) };
        assert!(!warned(&ordered, "b"));
    }
}
