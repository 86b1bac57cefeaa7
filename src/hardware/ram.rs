//! Main memory, swap, and the limit that a container sets; and the CPU's vector instructions.

use std::path::Path;

use super::cgroup::{self, CgroupLimit};
use super::{CollectorResult, DeviceFact};
use crate::machine::CpuInstructions;
use crate::machine::Ram;
use crate::units::Bytes;
use sysinfo::{CpuRefreshKind, System};

/// Polls main memory; holds an error if the operating system does not report it.
pub(super) struct RamMonitor {
    system: Result<System, String>,
}

pub(super) struct RamInfo {
    pub ram: Ram,
    /// Name of the processor.
    pub chip: String,
    pub facts: Vec<DeviceFact>,
    pub tried: Vec<CollectorResult>,
}

impl RamMonitor {
    pub(super) fn now(&mut self) -> Result<Ram, String> {
        let system = self.system.as_mut().map_err(|reason| reason.clone())?;
        system.refresh_memory();
        Ok(within(host(system), limit()))
    }
}

pub(super) fn collect() -> (RamMonitor, RamInfo) {
    match System::new() {
        Ok(mut system) => {
            let about = query(&mut system);
            (RamMonitor { system: Ok(system) }, about)
        }
        Err(error) => {
            let ram = Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None };
            let outcome = format!("the operating system does not report the amount of memory: {error}");
            let tried = vec![CollectorResult { collector: "ram", outcome }];
            let memory = RamMonitor { system: Err(error.to_string()) };
            (memory, RamInfo { ram, chip: "GPU".to_owned(), facts: Vec::new(), tried })
        }
    }
}

fn host(system: &System) -> Ram {
    Ram {
        total: Bytes(system.total_memory()),
        free: Bytes(system.available_memory()),
        swap_free: Bytes(system.free_swap()),
        bandwidth: None,
    }
}

fn query(system: &mut System) -> RamInfo {
    system.refresh_memory();
    system.refresh_cpu_list(CpuRefreshKind::nothing());
    let host = host(system);
    let limit = limit();
    let ram = within(host, limit);
    let mut facts = Vec::new();
    let mut fact = |what, value| facts.push(DeviceFact { device: "CPU".to_owned(), what, value });
    let chip = system.cpus().first().map_or("", |cpu| cpu.brand().trim()).to_owned();
    if !chip.is_empty() {
        fact("processor", chip.clone());
    }
    let swap = Bytes(system.total_swap());
    if swap > Bytes::ZERO {
        fact("swap", format!("{} free of {swap}", ram.swap_free));
    } else {
        fact("swap", "none".to_owned());
    }
    let source = if cfg!(target_os = "linux") { "/proc/meminfo" } else { "the operating system" };
    let asked = if host.total > Bytes::ZERO {
        format!("{} available of {}, from {source}", host.free, host.total)
    } else {
        format!("{source} does not report the amount of memory")
    };
    let mut tried = vec![CollectorResult { collector: "ram", outcome: asked }];
    let mut ram = ram;
    let outcome = match super::modules::bandwidth() {
        Ok((bandwidth, channels)) => {
            ram.bandwidth = Some(bandwidth);
            fact("memory channels", channels.clone());
            format!("{bandwidth}: {channels}, as the firmware lists its modules")
        }
        Err(why) => format!("bandwidth not known: {why}"),
    };
    tried.push(CollectorResult { collector: "memory modules", outcome });
    if cfg!(target_os = "linux") {
        let outcome = match limit {
            Some(limit) if limit.total < host.total.0 => {
                format!("this process may use {} in total, {} of it is left", Bytes(limit.total), Bytes(limit.free))
            }
            _ => "no memory limit below the system's own".to_owned(),
        };
        tried.push(CollectorResult { collector: "cgroup", outcome });
    }
    RamInfo { ram, chip, facts, tried }
}

/// The lowest limit of this process's control groups.
fn limit() -> Option<CgroupLimit> {
    if cfg!(target_os = "linux") { cgroup::limit(Path::new("/")) } else { None }
}

/// `host` within `limit`. A control group without a limit reports a huge number (v1: 2^63 less a page), which has no
/// effect.
fn within(host: Ram, limit: Option<CgroupLimit>) -> Ram {
    match limit {
        Some(limit) if limit.total < host.total.0 => Ram {
            total: Bytes(limit.total),
            free: host.free.min(Bytes(limit.free)).min(Bytes(limit.total)),
            swap_free: limit.swap_free.map_or(host.swap_free, |free| host.swap_free.min(Bytes(free))),
            bandwidth: host.bandwidth,
        },
        _ => host,
    }
}

/// The CPU's vector instructions, as the standard library and Linux tell them.
#[cfg(target_arch = "x86_64")]
pub(super) fn cpu_instructions() -> CpuInstructions {
    use std::arch::is_x86_feature_detected as has;
    // what ggml builds with `GGML_AVX512` and `GGML_AMX_INT8` (`ggml-cpu/CMakeLists.txt`, llama.cpp 2026-11)
    let avx512 = has!("avx512f") && has!("avx512cd") && has!("avx512vl") && has!("avx512dq") && has!("avx512bw");
    if avx512 && has!("avx512vnni") && listed(&["amx_tile", "amx_int8"]) {
        CpuInstructions::Amx
    } else if avx512 {
        CpuInstructions::Avx512
    } else if has!("avx2") {
        CpuInstructions::Avx2
    } else {
        CpuInstructions::None
    }
}

/// Whether Linux lists all these flags; the standard library cannot tell them yet.
#[cfg(target_arch = "x86_64")]
fn listed(flags: &[&str]) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.iter().all(|flag| line.split_whitespace().any(|word| word == *flag))
}

/// The CPU's vector instructions, as the standard library and Linux tell them.
#[cfg(target_arch = "aarch64")]
pub(super) fn cpu_instructions() -> CpuInstructions {
    use std::arch::is_aarch64_feature_detected as has;
    if has!("i8mm") {
        CpuInstructions::NeonI8mm
    } else if has!("dotprod") {
        CpuInstructions::NeonDotprod
    } else {
        CpuInstructions::None
    }
}

/// The CPU's vector instructions, as the standard library and Linux tell them.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn cpu_instructions() -> CpuInstructions {
    CpuInstructions::None
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ram = Ram { total: Bytes::gib(64), free: Bytes::gib(48), swap_free: Bytes::gib(2), bandwidth: None };

    #[test]
    fn a_container_is_limited_by_its_control_group() {
        let gib = |n: u64| n << 30;
        let limit = CgroupLimit { total: gib(8), free: gib(5), swap_free: Some(0) };
        let expected = Ram { total: Bytes::gib(8), free: Bytes::gib(5), swap_free: Bytes::ZERO, bandwidth: None };
        assert_eq!(within(HOST, Some(limit)), expected);
        let busy_host = Ram { free: Bytes::gib(1), ..HOST };
        assert_eq!(within(busy_host, Some(limit)).free, Bytes::gib(1));
    }

    #[test]
    fn a_huge_limit_has_no_effect() {
        let (total, free) = (9_223_372_036_854_771_712, 9_223_372_036_854_000_000);
        let unlimited = CgroupLimit { total, free, swap_free: Some(0) };
        assert_eq!(within(HOST, Some(unlimited)), HOST);
        assert_eq!(within(HOST, None), HOST);
    }

    #[test]
    fn memory_of_this_computer_is_detected() {
        let (mut memory, about) = collect();
        assert_eq!(memory.now().map(|ram| ram.total), Ok(about.ram.total));
        let memory = about;
        assert!(memory.ram.total >= memory.ram.free && memory.ram.total > Bytes::mib(64));
        assert_eq!(memory.tried.first().map(|tried| tried.collector), Some("ram"));
    }
}
