//! One GPU as the driver describes it, with its MIG instances and the programs that hold its memory.

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::super::Process;
use crate::machine::{Backend, Gpu, Ram};
use crate::units::Bytes;

/// A GPU as the driver lists it; one that does not answer keeps its number.
#[derive(Debug)]
pub(super) struct NvmlGpu {
    pub uuid: String,
    pub gpu: Result<Gpu, String>,
    pub facts: Vec<(&'static str, String)>,
    pub processes: Vec<Process>,
    /// Its memory is the computer's: the driver does not tell of it.
    pub shares_ram: bool,
    /// It is divided (MIG); what is not in an instance is of no use to a program.
    pub mig_enabled: bool,
    /// Its MIG instances, with their numbers.
    pub instances: Vec<(u32, Self)>,
}

/// Compute capabilities of NVIDIA's processors whose GPU has no memory of its own: Jetson Nano, TX2, Xavier, Orin,
/// Thor (as it was and is numbered) and GB10. Source: CUDA C++ Programming Guide 13.0, "Compute Capabilities".
const SHARING: [(u32, u32); 7] = [(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)];

/// NVML's `NVML_DEVICE_MIG_ENABLE`.
const MIG_ON: u32 = 1;
/// Longest name of a program that is asked for.
const NAME: usize = 256;

/// Asks for the GPU of this number. `cuda`: the newest CUDA that the driver knows, as NVML writes it.
pub(super) fn nvml_gpu(nvml: &Nvml, index: u32, cuda: Option<i32>, ram: Ram) -> NvmlGpu {
    let device = match nvml.device_by_index(index) {
        Ok(device) => device,
        Err(error) => return NvmlGpu::unresponsive(error.to_string()),
    };
    let mut card = described(&device, cuda, ram, None);
    card.facts.extend(device.pci_info().ok().map(|pci| ("PCI", pci.bus_id)));
    card.facts.extend(nvml.sys_driver_version().ok().map(|version| ("driver", version)));
    card.processes = processes(nvml, &device);
    card.mig_enabled = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ON);
    if card.mig_enabled {
        let parent = card.gpu.as_ref().ok().cloned();
        // places without an instance answer that nothing is found
        let most = device.mig_device_count().unwrap_or(0);
        let found = (0..most).filter_map(|number| Some((number, device.mig_device_by_index(number).ok()?)));
        card.instances =
            found.map(|(number, instance)| (number, described(&instance, cuda, ram, parent.as_ref()))).collect();
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

/// What a GPU, or an instance of `parent`, says of itself.
fn described(device: &Device<'_>, cuda: Option<i32>, ram: Ram, parent: Option<&Gpu>) -> NvmlGpu {
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
    });
    NvmlGpu { uuid, gpu, facts, shares_ram, ..NvmlGpu::unresponsive(String::new()) }
}

/// Programs that compute or draw on the GPU, each once, those that hold most first. A driver that does not tell of
/// them is taken at its word: there are none to show.
fn processes(nvml: &Nvml, device: &Device<'_>) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let told = [device.running_compute_processes(), device.running_graphics_processes()];
    for ProcessInfo { pid, used_gpu_memory, .. } in told.into_iter().flatten().flatten() {
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
