//! Machine files: the output of `plimsoll devices --json`, to plan for one computer on another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::VulkanLimits;
use super::{Backend, Cpu, CpuInstructions, Drivers, Gpu, Link, Listed, Machine, Origin, Os, Ram};
use crate::machine::DeviceKind;
use crate::text::one_line;
use crate::units::{Bandwidth, Bytes};

/// Upper limit of a device's memory, to catch typing errors: 1 PiB.
pub const MAX_MEMORY: Bytes = Bytes(1 << 50);

/// A machine as JSON, with the same keys as a plan's devices: GPUs in order, the CPU last.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MachineRecord<'a> {
    /// The version that wrote it.
    pub plimsoll: &'static str,
    /// Whether it was detected.
    pub origin: Origin,
    /// Its operating system.
    pub os: Os,
    /// How fast its disk is read, if it was stated.
    pub disk: Option<Bandwidth>,
    /// Vector instructions of its CPU, unless they are assumed.
    pub cpu: Option<CpuInstructions>,
    /// Versions of its drivers.
    pub drivers: Drivers,
    /// Its devices.
    pub devices: Vec<DeviceRecord<'a>>,
}

/// One device with the keys that it has in a plan; the sizes of a plan are zero.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeviceRecord<'a> {
    pub id: String,
    pub kind: DeviceKind,
    pub name: &'a str,
    pub backend: Option<Backend>,
    pub total: Bytes,
    pub free: Bytes,
    pub swap_free: Bytes,
    pub weights: Bytes,
    pub cache: Bytes,
    pub graph: Bytes,
    pub reserved: Bytes,
    pub layers: [usize; 0],
    pub integrated: bool,
    pub dedicated: Option<Bytes>,
    pub compute: Option<String>,
    pub driver_major: Option<u32>,
    pub computer: Option<&'a str>,
    pub vulkan: Option<VulkanLimits>,
    pub driver_memory: Option<Bytes>,
    pub display: Option<bool>,
    pub bandwidth: Option<Bandwidth>,
    pub link: Option<String>,
    pub gfx: Option<&'a str>,
    pub pci: Option<&'a str>,
    pub also_vulkan: bool,
}

impl<'a> MachineRecord<'a> {
    /// The record of `machine`.
    pub fn of(machine: &'a Machine) -> Self {
        let gpus = machine.gpus.iter().enumerate().map(|(index, gpu)| DeviceRecord::gpu(index, gpu));
        let devices = gpus.chain([DeviceRecord::cpu(machine.ram)]).collect();
        Self {
            plimsoll: env!("CARGO_PKG_VERSION"),
            origin: machine.origin,
            os: machine.os,
            disk: machine.disk,
            cpu: Some(machine.cpu).filter(|cpu| !cpu.assumed).map(|cpu| cpu.instructions),
            drivers: machine.drivers,
            devices,
        }
    }
}

impl<'a> DeviceRecord<'a> {
    fn cpu(ram: Ram) -> Self {
        Self {
            id: "CPU".to_owned(),
            kind: DeviceKind::Cpu,
            name: "RAM",
            backend: None,
            total: ram.total,
            free: ram.free,
            swap_free: ram.swap_free,
            weights: Bytes::ZERO,
            cache: Bytes::ZERO,
            graph: Bytes::ZERO,
            reserved: Bytes::ZERO,
            layers: [],
            integrated: false,
            dedicated: None,
            compute: None,
            driver_major: None,
            computer: None,
            vulkan: None,
            driver_memory: None,
            display: None,
            link: None,
            bandwidth: ram.bandwidth,
            gfx: None,
            pci: None,
            also_vulkan: false,
        }
    }

    fn gpu(index: usize, gpu: &'a Gpu) -> Self {
        let memory = Ram { total: gpu.total, free: gpu.free, swap_free: Bytes::ZERO, bandwidth: None };
        Self {
            id: format!("GPU{index}"),
            kind: DeviceKind::Gpu,
            name: &gpu.name,
            backend: Some(gpu.backend),
            integrated: gpu.integrated,
            dedicated: gpu.dedicated,
            compute: gpu.compute.map(|(major, minor)| format!("{major}.{minor}")),
            driver_major: gpu.driver_major,
            computer: gpu.computer.as_deref(),
            vulkan: gpu.vulkan,
            gfx: gpu.listed.gfx.as_deref(),
            pci: gpu.listed.pci.as_deref(),
            also_vulkan: gpu.listed.also_vulkan,
            driver_memory: gpu.driver_memory,
            display: gpu.display,
            link: gpu.link.map(Link::exact),
            ..Self::cpu(memory)
        }
    }
}

/// Formats a machine file.
///
/// # Errors
/// Those of serialisation, which no machine causes.
pub fn write(machine: &Machine) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&MachineRecord::of(machine)).map(|text| text + "\n")
}

#[derive(Deserialize)]
struct Read {
    os: Option<Os>,
    /// In bytes a second.
    disk: Option<u64>,
    cpu: Option<CpuInstructions>,
    #[serde(default)]
    drivers: Drivers,
    devices: Vec<ReadDevice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadKind {
    Gpu,
    Cpu,
}

#[derive(Deserialize)]
struct ReadDevice {
    kind: ReadKind,
    name: Option<String>,
    backend: Option<Backend>,
    total: u64,
    free: Option<u64>,
    #[serde(default)]
    swap_free: u64,
    #[serde(default)]
    integrated: bool,
    dedicated: Option<u64>,
    compute: Option<String>,
    driver_major: Option<u32>,
    computer: Option<String>,
    vulkan: Option<VulkanLimits>,
    driver_memory: Option<u64>,
    display: Option<bool>,
    link: Option<String>,
    /// In bytes a second; only read of main memory.
    bandwidth: Option<u64>,
    gfx: Option<String>,
    pci: Option<String>,
    #[serde(default)]
    also_vulkan: bool,
}

/// Parses a machine file. The result counts as described even if it was detected where the file was written.
///
/// # Errors
/// One sentence: what is wrong, in which device or line, and what to do.
pub fn read(text: &str) -> Result<Machine, String> {
    let read: Read = serde_json::from_str(text).map_err(|error| {
        format!("this is not a machine file as 'plimsoll devices --json' writes it: {error}; create it again")
    })?;
    let mut gpus = Vec::new();
    let mut ram = None;
    for (index, device) in read.devices.into_iter().enumerate() {
        let memory = device.memory().map_err(|what| format!("device {index}: {what}"))?;
        match device.kind {
            ReadKind::Gpu => gpus.push(device.gpu(memory).map_err(|what| format!("device {index}: {what}"))?),
            ReadKind::Cpu if ram.is_some() => {
                return Err(format!("device {index}: system RAM is listed twice: leave one out"));
            }
            ReadKind::Cpu => ram = Some(memory),
        }
    }
    super::check_count(gpus.len())?;
    gpus.sort_by_key(|gpu| gpu.computer.is_some());
    let ram = ram.ok_or("no device has kind \"cpu\", so there is no system RAM: add one with its total")?;
    let os = read.os.unwrap_or_else(|| Os::for_gpus(&gpus));
    let disk = read.disk.map(Bandwidth::checked).transpose().map_err(|what| format!("disk: {what}"))?;
    let cpu = read.cpu.map_or_else(|| Cpu::beside(&gpus), Cpu::with);
    Ok(Machine { disk, os, cpu, gpus, ram, origin: Origin::Described, drivers: read.drivers })
}

impl ReadDevice {
    fn memory(&self) -> Result<Ram, String> {
        let free = self.free.unwrap_or(self.total);
        for (key, bytes) in [("total", self.total), ("swap_free", self.swap_free)] {
            plausible(key, Bytes(bytes))?;
        }
        if free > self.total {
            return Err(format!("free {free} is more than total {}: lower free or raise total", self.total));
        }
        let bandwidth = self.bandwidth.map(Bandwidth::checked).transpose()?;
        Ok(Ram { total: Bytes(self.total), free: Bytes(free), swap_free: Bytes(self.swap_free), bandwidth })
    }

    fn gpu(self, memory: Ram) -> Result<Gpu, String> {
        if memory.total < Bytes::mib(1) {
            return Err(format!("a GPU with a total of {} bytes is not usable: leave it out", memory.total.0));
        }
        let compute = self.compute.as_deref().map(super::spec::capability).transpose()?;
        Ok(Gpu {
            name: self
                .name
                .filter(|name| !name.is_empty())
                .map_or_else(|| format!("{} GPU", memory.total), |name| one_line(&name).into_owned()),
            backend: self.backend.unwrap_or(Backend::Cuda),
            total: memory.total,
            free: memory.free,
            integrated: self.integrated,
            dedicated: self.dedicated.map(Bytes).filter(|bytes| self.integrated && *bytes <= memory.total),
            compute,
            driver_major: self.driver_major,
            computer: self.computer.filter(|name| !name.is_empty()).map(Into::into),
            vulkan: self.vulkan.map(VulkanLimits::checked).transpose()?,
            listed: Listed {
                gfx: self.gfx.map(Into::into),
                pci: self.pci.map(Into::into),
                also_vulkan: self.also_vulkan,
            },
            driver_memory: self.driver_memory.map(Bytes).filter(|bytes| *bytes <= memory.total),
            display: self.display,
            link: self.link.as_deref().map(str::parse).transpose()?,
        })
    }
}

/// Checks the upper limit of memory.
pub(super) fn plausible(key: &str, bytes: Bytes) -> Result<(), String> {
    if bytes > MAX_MEMORY {
        return Err(format!("{key}: {} bytes are too many: use at most 1 PiB ({})", bytes.0, MAX_MEMORY.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn machine(gpus: usize) -> Machine {
        let gpu = |n: usize| Gpu {
            name: format!("card {n}"),
            backend: Backend::ALL[n % Backend::ALL.len()],
            total: Bytes::gib(24),
            free: Bytes(25_000_000_000 + n as u64),
            integrated: n % 3 == 1,
            dedicated: (n % 6 == 1).then_some(Bytes::gib(1)),
            compute: n.is_multiple_of(2).then_some((8, 6)),
            driver_major: n.is_multiple_of(2).then_some(12),
            computer: (n >= 60).then(|| "garage".into()),
            vulkan: None,
            listed: Listed::default(),
            driver_memory: None,
            display: None,
            link: None,
        };
        let ram = Ram {
            total: Bytes::gib(64),
            free: Bytes::gib(48),
            swap_free: Bytes::gib(2),
            bandwidth: Some(Bandwidth::gbps(80)),
        };
        Machine {
            os: Os::Windows,
            disk: Some(Bandwidth::gbps(3)),
            cpu: Cpu::with(CpuInstructions::Avx512),
            gpus: (0..gpus).map(gpu).collect(),
            ram,
            origin: Origin::Described,
            drivers: Drivers::default(),
        }
    }

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(64)]
    fn written_files_are_read_back(#[case] gpus: usize) {
        let machine = machine(gpus);
        assert_eq!(read(&write(&machine).unwrap()), Ok(machine));
    }

    #[test]
    fn a_machine_from_a_file_counts_as_described() {
        let there = Machine { origin: Origin::Detected, ..machine(1) };
        let text = write(&there).unwrap();
        assert!(text.contains("\"origin\": \"detected\""), "{text}");
        assert_eq!(read(&text).unwrap().origin, Origin::Described);
    }

    #[test]
    fn only_kind_and_total_are_required() {
        let text = r#"{"devices":[{"kind":"gpu","total":25769803776},{"kind":"cpu","total":68719476736}]}"#;
        let machine = read(text).unwrap();
        let gpu = &machine.gpus[0];
        assert_eq!((gpu.free, gpu.backend, gpu.name.as_str()), (Bytes::gib(24), Backend::Cuda, "24.0 GiB GPU"));
        assert_eq!(machine.ram.total, Bytes::gib(64));
    }

    #[rstest]
    #[case("", "line 1")]
    #[case("not json", "line 1")]
    #[case("[]", "not a machine file")]
    #[case("{}", "devices")]
    #[case(r#"{"devices":[]}"#, "system RAM")]
    #[case(r#"{"devices":[{"kind":"gpu","total":1073741824}]}"#, "system RAM")]
    #[case(r#"{"devices":[{"kind":"cpu","total":-1}]}"#, "-1")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1.5}]}"#, "1.5")]
    #[case(r#"{"devices":[{"kind":"cpu"}]}"#, "total")]
    #[case(r#"{"devices":[{"kind":"npu","total":1}]}"#, "npu")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1,"free":2}]}"#, "device 0: free 2 is more than total 1")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1125899906842625}]}"#, "1 PiB")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1,"swap_free":18446744073709551615}]}"#, "swap_free")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1},{"kind":"cpu","total":1}]}"#, "device 1: system RAM")]
    #[case(
        r#"{"devices":[{"kind":"gpu","total":0},{"kind":"cpu","total":1}]}"#,
        "device 0: a GPU with a total of 0 bytes"
    )]
    #[case(r#"{"devices":[{"kind":"gpu","total":2097152,"compute":"x"}]}"#, "compute capability")]
    #[case(r#"{"devices":[{"kind":"gpu","total":2097152,"backend":"OpenGL"}]}"#, "OpenGL")]
    #[case(r#"{"devices":[{"kind":"cpu","total":1,"bandwidth":5}]}"#, "bandwidth")]
    #[case(r#"{"os":"beos","devices":[{"kind":"cpu","total":1}]}"#, "beos")]
    fn invalid_files_are_refused_with_the_reason(#[case] text: &str, #[case] part: &str) {
        let error = read(text).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
    }

    #[test]
    fn more_gpus_than_a_machine_has_are_refused() {
        assert!(read(&write(&machine(254)).unwrap()).is_ok());
        assert!(read(&write(&machine(255)).unwrap()).unwrap_err().contains("at most 254"));
    }
}
