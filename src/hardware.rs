//! The world becomes a [`Machine`]: each collector asks one part of it and may fail alone, which is then said and is
//! never an error.
//!
//! Nothing here is fast by promise (a driver may take seconds to wake up): call [`detect`] on a thread of its own where
//! somebody waits for a picture.

mod amd;
mod apple;
mod intel;
mod nvidia;
mod ram;
pub mod saved;
mod sysfs;
mod visible;
mod vulkan;
pub mod watch;

use std::path::PathBuf;

use serde::Serialize;

use crate::machine::{Gpu, Machine, Origin, Os, Ram};
use crate::units::Bytes;

/// What to look for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectOptions {
    /// Look for GPUs.
    pub gpus: bool,
    /// The NVML library to load, instead of those in the usual places.
    pub nvml: Option<PathBuf>,
    /// A folder that stands in for Linux's `/sys`.
    pub sysfs: Option<PathBuf>,
    /// `CUDA_VISIBLE_DEVICES`: which NVIDIA GPUs programs may use; absent: all of them.
    pub cuda_visible_devices: Option<String>,
    /// `CUDA_DEVICE_ORDER`: what the numbers in it count.
    pub cuda_device_order: Option<String>,
    /// `ROCR_VISIBLE_DEVICES`: which AMD GPUs programs may use.
    pub rocr_visible_devices: Option<String>,
    /// `HIP_VISIBLE_DEVICES`: which of those that are left.
    pub hip_visible_devices: Option<String>,
}

impl DetectOptions {
    /// Everything, as this process's environment says.
    pub fn here() -> Self {
        let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            gpus: true,
            nvml: None,
            sysfs: None,
            cuda_visible_devices: variable("CUDA_VISIBLE_DEVICES"),
            cuda_device_order: variable("CUDA_DEVICE_ORDER"),
            rocr_visible_devices: variable("ROCR_VISIBLE_DEVICES"),
            hip_visible_devices: variable("HIP_VISIBLE_DEVICES"),
        }
    }
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The machine in front of us.
    pub machine: Machine,
    /// More about its devices than a plan needs.
    pub facts: Vec<DeviceFact>,
    /// Programs that hold memory of its GPUs.
    pub processes: Vec<Process>,
    /// Every collector that ran and what came of it.
    pub tried: Vec<CollectorResult>,
}

/// Something that is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFact {
    /// `GPU0`, …, `CPU`.
    pub device: String,
    /// `driver`
    pub what: &'static str,
    /// `570.124.06`
    pub value: String,
}

/// A program that holds memory of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// `GPU0`
    #[serde(skip)]
    pub device: String,
    /// Its number.
    pub pid: u32,
    /// What it is called, where that may be known.
    pub name: Option<String>,
    /// What it holds, where the driver tells (on Windows and in WSL it does not).
    pub bytes: Option<Bytes>,
}

/// `ollama (process 4242): 13.0 GiB`
impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.as_deref().unwrap_or("a program");
        write!(f, "{name} (process {}): ", self.pid)?;
        match self.bytes {
            Some(bytes) => bytes.fmt(f),
            None => f.write_str("size unknown"),
        }
    }
}

/// A collector and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectorResult {
    /// `nvml`, `amd`, `intel`, `metal`, `vulkan`, `ram`, `cgroup`.
    pub collector: &'static str,
    /// One sentence.
    pub outcome: String,
}

/// What asks how much of a GPU is free now; one that has no memory of its own answers by main memory.
type FreeMemoryProbe = Box<dyn FnMut(&Ram) -> Result<Bytes, String> + Send>;

/// A GPU that a collector found.
struct FoundGpu {
    gpu: Gpu,
    facts: Vec<(&'static str, String)>,
    /// Their `device` is filled in when the GPU has its place.
    processes: Vec<Process>,
    probe: FreeMemoryProbe,
}

/// What one collector reports of GPUs.
#[derive(Default)]
struct CollectedGpus {
    list: Vec<FoundGpu>,
    tried: Vec<CollectorResult>,
}

/// Asks the drivers and the operating system. Takes as long as they do.
pub fn detect(search: &DetectOptions) -> Detected {
    detect_with_probes(search).0
}

/// The same, with what it takes to ask again how much is free.
fn detect_with_probes(search: &DetectOptions) -> (Detected, Vec<FreeMemoryProbe>, ram::RamMonitor) {
    let (memory, about) = ram::collect();
    let mut detected = Detected {
        machine: Machine { os: Os::here(), gpus: Vec::new(), ram: about.ram, origin: Origin::Detected },
        facts: Vec::new(),
        processes: Vec::new(),
        tried: Vec::new(),
    };
    let mut probes = Vec::new();
    for CollectedGpus { list, tried } in if search.gpus { gpus(search, about.ram, &about.chip) } else { Vec::new() } {
        detected.tried.extend(tried);
        for found in list {
            let device = format!("GPU{}", detected.machine.gpus.len());
            let facts = found.facts.into_iter().map(|(what, value)| DeviceFact { device: device.clone(), what, value });
            detected.facts.extend(facts);
            let processes = found.processes.into_iter().map(|process| Process { device: device.clone(), ..process });
            detected.processes.extend(processes);
            detected.machine.gpus.push(found.gpu);
            probes.push(found.probe);
        }
    }
    detected.facts.extend(about.facts);
    detected.tried.extend(about.tried);
    (detected, probes, memory)
}

/// Every collector by itself: what one cannot do is no matter to the next.
fn gpus(search: &DetectOptions, ram: Ram, chip: &str) -> Vec<CollectedGpus> {
    let mut all = vec![nvidia::collect(search, ram)];
    let tree = sysfs::SysfsTree::new(search.sysfs.as_deref());
    if let Some(tree) = &tree {
        all.push(amd::collect(search, tree));
        all.push(intel::collect(tree));
    }
    if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        all.push(apple::collect(ram, chip, apple::ask()));
    } else {
        all.push(CollectedGpus { tried: vec![vulkan::look(tree.as_ref())], ..CollectedGpus::default() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_means_no_gpu_and_is_said() {
        let search = DetectOptions { nvml: Some("/nowhere/libnvidia-ml.so.1".into()), ..DetectOptions::here() };
        let detected = detect(&search);
        assert!(detected.machine.gpus.is_empty());
        let nvml = detected.tried.iter().find(|tried| tried.collector == "nvml").unwrap();
        assert!(nvml.outcome.contains("/nowhere/libnvidia-ml.so.1"), "{}", nvml.outcome);
        assert!(detected.machine.ram.total >= detected.machine.ram.free && detected.machine.ram.free.0 > 0);
    }

    #[test]
    fn gpus_that_are_not_asked_for_are_not_looked_for() {
        let detected = detect(&DetectOptions { gpus: false, ..DetectOptions::here() });
        assert!(detected.machine.gpus.is_empty() && detected.tried.iter().all(|tried| tried.collector != "nvml"));
    }
}
