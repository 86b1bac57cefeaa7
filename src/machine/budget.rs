//! How much of RAM a GPU without memory of its own may use, by the rule of its system, and what raises that.

use super::{Backend, Gpu, Machine, Os};
use crate::units::Bytes;

/// RAM that is left to the system where a command gives the rest to a GPU. Assumed.
const FOR_THE_SYSTEM: Bytes = Bytes::gib(8);
/// The pages that `ttm.pages_limit` counts (x86, Linux).
const PAGE: u64 = 4096;

/// The budget of a GPU that shares RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What it may use of RAM.
    pub bytes: Bytes,
    /// Memory of its own besides.
    pub own: Bytes,
    /// The rule of its system, as a sentence.
    pub rule: String,
    /// What raises the budget, as a sentence with the command; none where nothing does.
    pub raise: Option<String>,
}

impl Budget {
    /// That of `gpu`, one of the GPUs of `machine`; none if all its memory is its own.
    pub fn of(machine: &Machine, gpu: &Gpu) -> Option<Self> {
        let own = machine.own_memory(gpu);
        if own >= gpu.total {
            return None;
        }
        let ram = machine.ram.total;
        let bytes = (gpu.total - own).min(ram);
        let most = ram - FOR_THE_SYSTEM.min(Bytes(ram.0 / 4));
        let (rule, raise) = match (gpu.backend, machine.os) {
            (Backend::Metal, _) => apple(most),
            (Backend::Cuda, _) => {
                ("It has no memory of its own and no budget: what RAM has free is free for it.".to_owned(), None)
            }
            (_, Os::Linux) => linux(own, most),
            (_, Os::Windows) => windows(),
            (_, Os::MacOs) => (format!("It may use {bytes} of RAM."), None),
        };
        Some(Self { bytes, own, rule, raise: raise.filter(|_| most > bytes) })
    }
}

/// `recommendedMaxWorkingSetSize`; the setting is of macOS 14 and later, and is gone after a restart.
fn apple(most: Bytes) -> (String, Option<String>) {
    let rule = "Metal may use two thirds of RAM up to 32 GiB, and three quarters above (recommendedMaxWorkingSetSize).";
    let raise = format!(
        "sudo sysctl iogpu.wired_limit_mb={} raises it to {most}, until the next start (macOS 14 and later).",
        most.0 >> 20
    );
    (rule.to_owned(), Some(raise))
}

/// GTT: half of RAM by default. `amdgpu.gttsize` counts MiB and `ttm.pages_limit` pages; newer kernels warn of the first
/// (Linux, `drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c` and `drivers/gpu/drm/ttm/ttm_tt.c`, 6.12).
fn linux(own: Bytes, most: Bytes) -> (String, Option<String>) {
    let rule = format!(
        "The firmware sets {own} aside for it (the carve-out), and the driver lends it RAM (GTT), half of it by default."
    );
    let raise = format!(
        "The kernel parameters ttm.pages_limit={} and amdgpu.gttsize={} raise it to {most}.",
        most.0 / PAGE,
        most.0 >> 20
    );
    (rule, Some(raise))
}

/// Windows lends an integrated GPU up to half of RAM as shared memory.
fn windows() -> (String, Option<String>) {
    let rule = "Windows lends it up to half of RAM as shared memory, besides what the firmware sets aside (dedicated).";
    let raise = "More can be set aside as dedicated memory in the firmware, or as Variable Graphics Memory in AMD's \
                 Adrenalin; RAM is smaller by as much.";
    (rule.to_owned(), Some(raise.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::presets;
    use crate::machine::{Drivers, Origin};

    fn budget(preset: &str, os: Os) -> Option<Budget> {
        let preset = presets::find(preset).unwrap();
        let ram = presets::find("M4 Max 64GB").unwrap().ram().unwrap();
        let machine = Machine {
            disk: None,
            cpu: crate::machine::Cpu::default(),
            os,
            gpus: vec![preset.gpu()],
            ram: preset.ram().unwrap_or(ram),
            origin: Origin::Described,
            drivers: Drivers::default(),
        };
        Budget::of(&machine, &machine.gpus[0])
    }

    #[test]
    fn each_system_has_its_rule_and_its_command() {
        let mac = budget("M4 Max 64GB", Os::MacOs).unwrap();
        assert_eq!((mac.bytes, mac.own), (Bytes::gib(48), Bytes::ZERO));
        assert!(mac.raise.unwrap().contains("iogpu.wired_limit_mb=57344 raises it to 56.0 GiB"));
        let halo = budget("Ryzen AI Max+ 395", Os::Linux).unwrap();
        assert_eq!((halo.bytes, halo.own), (Bytes::mib(117_760 - 512), Bytes::mib(512)));
        assert!(halo.raise.unwrap().contains("ttm.pages_limit=30914048 and amdgpu.gttsize=120758"));
        assert!(budget("Ryzen AI Max+ 395", Os::Windows).unwrap().rule.contains("half of RAM"));
        let spark = budget("DGX Spark", Os::Linux).unwrap();
        assert_eq!((spark.bytes, spark.raise), (Bytes::mib(122_570), None));
    }

    #[test]
    fn memory_that_is_set_aside_is_no_budget() {
        assert_eq!(budget("Strix Halo 128GB", Os::Windows), None);
        assert_eq!(budget("RTX 4090", Os::Linux), None);
    }
}
