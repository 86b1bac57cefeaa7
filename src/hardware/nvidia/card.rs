//! NVML's description of a GPU, with its MIG instances and the programs that use its memory.

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::super::Process;
use crate::machine::{Backend, Gpu, Ram};
use crate::units::Bytes;

/// NVML's description of a GPU or MIG instance. A GPU that does not respond keeps its index and has an error as `gpu`.
#[derive(Debug)]
pub(super) struct NvmlGpu {
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
}

/// Compute capabilities of NVIDIA's processors whose GPU has no dedicated memory: Jetson Nano, TX2, Xavier, Orin, Thor
/// (two numbers, before and after CUDA 13) and GB10. Source: CUDA C++ Programming Guide 13.0, "Compute Capabilities".
const SHARING: [(u32, u32); 7] = [(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)];

/// NVML's `NVML_DEVICE_MIG_ENABLE`.
const MIG_ON: u32 = 1;
/// Buffer size for process names.
const NAME: usize = 256;

/// Queries the GPU at `index`. `cuda`: the newest CUDA version that the driver supports, in NVML's notation (12040).
pub(super) fn nvml_gpu(nvml: &Nvml, index: u32, cuda: Option<i32>, ram: Ram) -> NvmlGpu {
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => return NvmlGpu::unresponsive(error.to_string()),
    };
    let mut card = describe(&device, cuda, ram, None);
    card.facts.extend(device.pci_info().ok().map(|pci| ("PCI", pci.bus_id)));
    card.facts.extend(nvml.sys_driver_version().ok().map(|version| ("driver", version)));
    card.processes = processes(nvml, &device);
    card.mig_enabled = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ON);
    if card.mig_enabled {
        let parent = card.gpu.as_ref().ok().cloned();
        // indices without an instance return NotFound
        let max = device.mig_device_count().unwrap_or(0);
        let found = (0..max).filter_map(|number| Some((number, device.mig_device_by_index(number).ok()?)));
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
        name: device.name().unwrap_or_else(|_| unnamed()),
        backend: Backend::Cuda,
        total,
        free,
        integrated: shares_ram,
        compute,
        driver_major: cuda.and_then(|version| (version / 1000).try_into().ok()),
        computer: None,
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
    });
    NvmlGpu { uuid, gpu, facts, shares_ram, ..NvmlGpu::unresponsive(String::new()) }
}

/// Compute and graphics processes on the GPU, each once, the largest first; none if the driver does not report them.
fn processes(nvml: &Nvml, device: &Device<'_>) -> Vec<Process> {
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
    found
}
