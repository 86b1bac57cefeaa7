//! A machine in the words of the command line, from which [`super::spec`] reads the same one.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use super::budget::VulkanLimits;
use super::{Backend, Cpu, Gpu, Link, Machine, Ram};
use crate::text::one_line;
use crate::units::Bandwidth;

impl Machine {
    /// The options that describe it, with their values: one `gpu` for each, or `none`.
    pub fn options(&self) -> Vec<(&'static str, Vec<String>)> {
        let gpus = self.gpus.iter().map(gpu).collect::<Vec<_>>();
        let gpus = if gpus.is_empty() { vec!["none".to_owned()] } else { gpus };
        let mut options = vec![("gpu", gpus), ("ram", vec![ram(&self.ram)]), ("os", vec![self.os.name().to_owned()])];
        // an assumed CPU is assumed again
        if !self.cpu.assumed || Cpu::beside(&self.gpus) != self.cpu {
            options.push(("cpu", vec![self.cpu.instructions.name().to_owned()]));
        }
        options.extend(self.disk.map(|disk| ("disk", vec![bandwidth(disk)])));
        let drivers = [("driver", self.drivers.nvidia), ("jetpack", self.drivers.jetpack)];
        options.extend(drivers.into_iter().filter_map(|(name, major)| Some((name, vec![major?.to_string()]))));
        options
    }
}

fn gpu(gpu: &Gpu) -> String {
    // a comma would end the value
    let plain = |text: &str| one_line(&text.replace(',', " ")).trim().to_owned();
    let mut text = format!("name={},total={},free={}", plain(&gpu.name), gpu.total.0, gpu.free.0);
    let limits = gpu.vulkan.filter(|_| gpu.backend == Backend::Vulkan);
    let limit = |of: fn(&VulkanLimits) -> u64| limits.as_ref().map(|limits| of(limits).to_string());
    let pairs = [
        ("backend", Some(gpu.backend.name().to_owned())),
        ("integrated", gpu.integrated.then(|| "true".to_owned())),
        ("dedicated", gpu.dedicated.map(|bytes| bytes.0.to_string())),
        ("compute", gpu.compute.map(|(major, minor)| format!("{major}.{minor}"))),
        ("driver", gpu.driver_major.map(|major| major.to_string())),
        ("driver-memory", gpu.driver_memory.map(|bytes| bytes.0.to_string())),
        ("display", gpu.display.map(|shows| shows.to_string())),
        ("align", limit(|limits| limits.align)),
        ("host-align", limit(|limits| limits.host_align)),
        ("max-tensor", limit(|limits| limits.max_tensor)),
        ("max-buffer", limit(|limits| limits.max_buffer)),
        ("gfx", gpu.listed.gfx.as_deref().map(plain)),
        ("pci", gpu.listed.pci.as_deref().map(plain)),
        (
            "link",
            gpu.link.map(|link| if let Link::Reached(speed) = link { bandwidth(speed) } else { link.to_string() }),
        ),
        ("computer", gpu.computer.as_deref().map(plain)),
        ("also-vulkan", gpu.listed.also_vulkan.then(|| "true".to_owned())),
    ];
    for (key, value) in pairs.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        text += &format!(",{key}={value}");
    }
    text
}

fn ram(ram: &Ram) -> String {
    let mut text = format!("total={},free={}", ram.total.0, ram.free.0);
    if ram.swap_free.0 > 0 {
        text += &format!(",swap={}", ram.swap_free.0);
    }
    text + &ram.bandwidth.map(|speed| format!(",bandwidth={}", bandwidth(speed))).unwrap_or_default()
}

fn bandwidth(speed: Bandwidth) -> String {
    format!("{}B/s", speed.per_second())
}

#[cfg(test)]
mod tests {
    use super::super::spec::MachineSpec;
    use super::super::{CpuInstructions, Drivers, Listed, Origin, Os};
    use super::*;
    use crate::units::Bytes;

    /// The machine that the options describe.
    fn read(options: &[(&'static str, Vec<String>)]) -> Machine {
        let of = |wanted: &str| options.iter().find(|(name, _)| *name == wanted).map(|(_, values)| values.as_slice());
        let one = |name: &str| of(name).map(|values| values[0].as_str());
        let mut spec = MachineSpec::read(of("gpu").unwrap(), one("ram")).unwrap();
        spec.os = one("os").map(|os| os.parse().unwrap());
        spec.cpu = one("cpu").map(|cpu| Cpu::with(cpu.parse().unwrap()));
        spec.disk = one("disk").map(|disk| disk.parse().unwrap());
        let major = |name| one(name).map(|text| text.parse().unwrap());
        spec.drivers = Drivers { nvidia: major("driver"), jetpack: major("jetpack") };
        assert!(spec.notes.is_empty(), "{:?}", spec.notes);
        spec.complete_with(Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None })
    }

    fn machines() -> Vec<Machine> {
        let card = Gpu {
            free: Bytes(25_000_000_001),
            compute: Some((8, 9)),
            driver_major: Some(13),
            driver_memory: Some(Bytes(123_456_789)),
            display: Some(false),
            link: Some(Link::Reached(Bandwidth::checked(25_123_456_789).unwrap())),
            ..Gpu::of("RTX 4090", Backend::Cuda, Bytes(25_757_220_864))
        };
        let lent = Gpu { computer: Some("garage".into()), link: None, ..card.clone() };
        let listed = Listed { gfx: Some("gfx1151".into()), pci: Some("0000:c4:00.0".into()), also_vulkan: true };
        let shared = Gpu {
            integrated: true,
            dedicated: Some(Bytes::gib(1)),
            listed,
            ..Gpu::of("Radeon 8060S", Backend::Rocm, Bytes::gib(64))
        };
        let vulkan = Gpu {
            vulkan: Some(VulkanLimits { align: 64, ..VulkanLimits::MESA }),
            link: Some(Link::pcie(4, 8).unwrap()),
            ..Gpu::of("Arc A770", Backend::Vulkan, Bytes::gib(16))
        };
        let ram = Ram {
            total: Bytes(67_000_000_001),
            free: Bytes(48_000_000_003),
            swap_free: Bytes(7),
            bandwidth: Some(Bandwidth::checked(81_234_567_891).unwrap()),
        };
        let machine = |gpus: Vec<Gpu>, os| Machine {
            os,
            disk: Some(Bandwidth::gbps(3)),
            cpu: Cpu::with(CpuInstructions::Avx512),
            gpus,
            ram,
            origin: Origin::Described,
            drivers: Drivers { nvidia: Some(580), jetpack: None },
        };
        let none =
            Machine { disk: None, cpu: Cpu::beside(&[]), drivers: Drivers::default(), ..machine(vec![], Os::MacOs) };
        vec![
            machine(vec![card, lent], Os::Windows),
            machine(vec![shared, vulkan], Os::Linux),
            none,
            Machine::described(&["RTX 3090", "M4 Max 64GB", "12GiB"], "64GiB").unwrap(),
        ]
    }

    #[test]
    fn what_is_written_is_read_back() {
        for machine in machines() {
            assert_eq!(read(&machine.options()), machine);
        }
    }

    #[test]
    fn every_preset_is_read_back() {
        for preset in super::super::presets::all() {
            let Ok(machine) = Machine::described(&[preset.name], "64GiB") else { continue };
            assert_eq!(read(&machine.options()), machine, "{}", preset.name);
        }
    }
}
