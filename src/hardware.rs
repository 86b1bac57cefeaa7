//! Detects the [`Machine`]. Each collector queries one kind of device; a failure is reported in its result and does not
//! affect the others.
//!
//! A driver may take seconds to wake up: do not call [`detect`] on a user interface's thread.

mod apple;
mod cgroup;
mod fdinfo;
mod modules;
mod nvidia;
mod patience;
pub mod processes;
mod ram;
pub mod remembered;
mod sysfs;
pub mod watch;

use std::path::PathBuf;
use std::time::Instant;

use patience::{Asked, ask};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::{debug, info};

use crate::machine::{Cpu, Drivers, Gpu, MAX_GPUS, Machine, Origin, Os, Ram};
use crate::text::one_line;
use crate::units::Bytes;

/// What to look for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectOptions {
    /// Look for GPUs.
    pub gpus: bool,
    /// The NVML library to load, instead of those in the usual places.
    pub nvml: Option<PathBuf>,
    /// A folder to read instead of Linux's `/sys`.
    pub sysfs: Option<PathBuf>,
    /// `CUDA_VISIBLE_DEVICES`: which NVIDIA GPUs programs may use; absent: all of them.
    pub cuda_visible_devices: Option<String>,
    /// `CUDA_DEVICE_ORDER`: the order that its indices refer to.
    pub cuda_device_order: Option<String>,
    /// `ROCR_VISIBLE_DEVICES`: which AMD GPUs programs may use.
    pub rocr_visible_devices: Option<String>,
    /// `HIP_VISIBLE_DEVICES`: selects among those.
    pub hip_visible_devices: Option<String>,
    /// The file with what drivers took on this machine besides buffers.
    pub remembered: Option<PathBuf>,
}

impl DetectOptions {
    /// Everything, with the variables of this process's environment.
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
            remembered: remembered::Remembered::here().ok().map(remembered::Remembered::into_path),
        }
    }
}

/// The result of detection.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The machine.
    pub machine: Machine,
    /// Facts about its devices that a plan does not need.
    pub facts: Vec<DeviceFact>,
    /// Programs that use memory of its GPUs.
    pub processes: Vec<Process>,
    /// The result of every collector that ran.
    pub tried: Vec<CollectorResult>,
}

/// A fact about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFact {
    /// `GPU0`, …, `CPU`.
    pub device: String,
    /// `driver`
    pub what: &'static str,
    /// `570.124.06`
    pub value: String,
}

/// A program that uses memory of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Process {
    /// `GPU0`
    #[serde(skip)]
    pub device: String,
    /// Process ID.
    pub pid: u32,
    /// Executable name, if readable.
    pub name: Option<String>,
    /// GPU memory used, if the driver reports it (not on Windows and in WSL).
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

/// A collector and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CollectorResult {
    /// `nvml`, `amd`, `intel`, `metal`, `vulkan`, `ram`, `cgroup`, `kept` (what was measured before), `all`.
    pub collector: &'static str,
    /// One sentence.
    pub outcome: String,
}

/// Queries the free memory of a GPU; integrated GPUs derive it from main memory.
type FreeMemoryProbe = Box<dyn FnMut(&Ram) -> Result<Bytes, String> + Send>;

/// Queries the programs that hold memory of a GPU. Where the driver lists none, the given ones are looked at.
type HoldersProbe = Box<dyn FnMut(&[u32]) -> Result<Vec<Process>, String> + Send>;

/// The probes of a GPU.
struct GpuProbes {
    free: FreeMemoryProbe,
    holders: HoldersProbe,
}

struct FoundGpu {
    gpu: Gpu,
    facts: Vec<(&'static str, String)>,
    /// With `device` empty until the GPU's index is known.
    processes: Vec<Process>,
    probes: GpuProbes,
}

/// The GPUs of one collector.
#[derive(Default)]
struct CollectedGpus {
    list: Vec<FoundGpu>,
    tried: Vec<CollectorResult>,
    drivers: Drivers,
}

impl CollectedGpus {
    /// No GPU, for the reason that `tried` gives.
    fn none(tried: CollectorResult) -> Self {
        Self { tried: vec![tried], ..Self::default() }
    }
}

/// `1 GPU`, `2 GPUs`
fn counted(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") }
}

/// Queries the drivers and the operating system; blocks until they answer, or have not for five seconds.
pub fn detect(options: &DetectOptions) -> Detected {
    detect_with_probes(options).0
}

/// The same, with probes to poll memory.
fn detect_with_probes(options: &DetectOptions) -> (Detected, Vec<GpuProbes>, ram::RamMonitor) {
    let since = Instant::now();
    let (memory, about) = ram::collect();
    let mut detected = Detected {
        machine: Machine {
            disk: None,
            os: Os::here(),
            cpu: Cpu::with(ram::cpu_instructions()),
            gpus: Vec::new(),
            ram: about.ram,
            origin: Origin::Detected,
            drivers: Drivers::default(),
        },
        facts: Vec::new(),
        processes: Vec::new(),
        tried: Vec::new(),
    };
    let (mut probes, mut left_out) = (Vec::new(), 0);
    for CollectedGpus { list, tried, drivers } in
        if options.gpus { gpus(options, about.ram, &about.chip) } else { Vec::new() }
    {
        detected.tried.extend(tried);
        detected.machine.drivers = drivers.or(detected.machine.drivers);
        for found in list {
            if detected.machine.gpus.len() == MAX_GPUS {
                left_out += 1;
                continue;
            }
            let device = format!("GPU{}", detected.machine.gpus.len());
            let facts = found.facts.into_iter().map(|(what, value)| DeviceFact { device: device.clone(), what, value });
            detected.facts.extend(facts);
            let processes = found.processes.into_iter().map(|process| Process { device: device.clone(), ..process });
            detected.processes.extend(processes);
            let name = one_line(&found.gpu.name).into_owned();
            detected.machine.gpus.push(Gpu { name, ..found.gpu });
            probes.push(found.probes);
        }
    }
    if left_out > 0 {
        let outcome = format!("{} more are left out: a machine has at most {MAX_GPUS}", counted(left_out));
        detected.tried.push(CollectorResult { collector: "all", outcome });
    }
    if let Some(path) = &options.remembered {
        let applied = remembered::Remembered::in_file(path.clone()).apply_to(&mut detected.machine);
        detected.tried.extend(applied.err().map(|outcome| CollectorResult { collector: "kept", outcome }));
    }
    detected.facts.extend(about.facts);
    detected.tried.extend(about.tried);
    detected.tried.iter().for_each(|tried| debug!("{}: {}", tried.collector, tried.outcome));
    for gpu in &detected.machine.gpus {
        debug!("{} ({}): {} free of {} bytes", gpu.name, gpu.backend.name(), gpu.free.0, gpu.total.0);
    }
    let (gpus, ram) = (detected.machine.gpus.len(), detected.machine.ram);
    info!("detected {gpus} GPUs and {} bytes free of {} of RAM in {:.1?}", ram.free.0, ram.total.0, since.elapsed());
    (detected, probes, memory)
}

fn gpus(options: &DetectOptions, ram: Ram, chip: &str) -> Vec<CollectedGpus> {
    let mut asked: Vec<(&'static str, Asked<CollectedGpus>)> = Vec::new();
    let own = options.clone();
    asked.push(("nvml", ask(move || nvidia::collect(&own, ram))));
    let tree = sysfs::SysfsTree::new(options.sysfs.as_deref());
    if let Some(tree) = &tree {
        let (own, its) = (options.clone(), tree.clone());
        asked.push(("amd", ask(move || sysfs::amd(&own, &its))));
        let its = tree.clone();
        asked.push(("intel", ask(move || sysfs::intel(&its))));
    }
    if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        let chip = chip.to_owned();
        asked.push(("metal", ask(move || apple::collect(ram, &chip, apple::macos(), apple::query()))));
    } else {
        asked.push(("vulkan", ask(move || CollectedGpus::none(sysfs::others(tree.as_ref())))));
    }
    let answer = |(collector, asked): (&'static str, Asked<CollectedGpus>)| {
        let without = |why| {
            let outcome = format!("{why}: its GPUs are left out; restart the computer if it stays so");
            CollectedGpus::none(CollectorResult { collector, outcome })
        };
        asked.wait().unwrap_or_else(without)
    };
    asked.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_means_no_gpu_and_is_reported() {
        let options = DetectOptions { nvml: Some("/nowhere/libnvidia-ml.so.1".into()), ..DetectOptions::here() };
        let detected = detect(&options);
        assert!(detected.machine.gpus.is_empty());
        let nvml = detected.tried.iter().find(|tried| tried.collector == "nvml").unwrap();
        assert!(nvml.outcome.contains("/nowhere/libnvidia-ml.so.1"), "{}", nvml.outcome);
        assert!(detected.machine.ram.total >= detected.machine.ram.free && detected.machine.ram.free.0 > 0);
    }

    #[test]
    fn gpus_are_not_queried_unless_requested() {
        let detected = detect(&DetectOptions { gpus: false, ..DetectOptions::here() });
        assert!(detected.machine.gpus.is_empty() && detected.tried.iter().all(|tried| tried.collector != "nvml"));
    }
}
